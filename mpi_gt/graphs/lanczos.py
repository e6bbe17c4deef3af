"""Eigenvalues of large networks without dense matrices: by Lanczos steps, or by factorization."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..memory import limited_memory

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Array = NDArray[Any]
Apply = Callable[[Array], Array]

STEPS, CHECK = 1000, 50  # Lanczos steps at most, and from one look at the eigenvalues to the next
HOPELESS = 50  # steps after which a graph that mixes fast shows it
ACCURACY = 1e-4  # bound on the error of 1 - rho, relative; the error itself is about its square
SHIFT = 1e-9  # keeps I - A from being singular; far below its second eigenvalue, or taken off again
NEAR = 1e-3  # distance from one of an eigenvalue that is sooner found by a factorization
FACTOR_MEMORY = 600 << 20  # bytes that a factorization may take


def large_rho(matrix: "csr_array") -> float | None:
    """Return rho_A of a large symmetric A with row sums one; None if it cannot be found.

    Graphs that mix fast need few Lanczos steps. Where the second eigenvalue is very close to one
    (a ring, a torus) that would take for ever, but such graphs are easy to factorize.
    """

    def apply(z: Array) -> Array:
        new: Array = matrix @ z
        new -= z.mean()
        return new

    found = largest_modulus(apply, matrix.shape[0], NEAR)
    return _factorized_rho(matrix) if found is None else found


def largest_modulus(apply: Apply, nodes: int, near: float = 0.0) -> float | None:
    """Return the largest modulus of the eigenvalues of a symmetric operator, by Lanczos steps.

    The vectors are not made orthogonal again: copies of eigenvalues do not change the largest.
    None: it did not settle, or is nearer to one than `near`.
    """
    z = np.random.Generator(np.random.Philox(key=0)).standard_normal(nodes)
    z -= z.mean()
    z /= np.linalg.norm(z)
    before, beta = np.zeros(nodes), 0.0
    diagonal: list[float] = []
    beside: list[float] = []
    for step in range(1, STEPS + 1):
        new = apply(z)
        before *= beta  # in place: to map fresh memory for each vector would take most of the time
        new -= before
        diagonal.append(float(new @ z))
        np.multiply(z, diagonal[-1], out=before)
        new -= before
        beta = math.sqrt(new @ new)
        if beta < 1e-14 or step % CHECK == 0:
            value, residual = _largest(diagonal, beside, beta)
            if residual <= ACCURACY * max(1 - value, 1e-300):
                return value
            if step == HOPELESS and 1 - value < near:
                return None
        new /= beta
        before, z = z, new
        beside.append(beta)
    return None


def _largest(diagonal: list[float], beside: list[float], beta: float) -> tuple[float, float]:
    """Return the largest modulus of a tridiagonal matrix's eigenvalues, and its residual."""
    from scipy.linalg import eigh_tridiagonal

    ends = []
    for place in {0, len(diagonal) - 1}:
        values, vectors = eigh_tridiagonal(
            np.array(diagonal), np.array(beside), select="i", select_range=(place, place)
        )
        ends.append((float(abs(values[0])), beta * float(abs(vectors[-1, 0]))))
    return max(ends)


def _factorized_rho(matrix: "csr_array") -> float | None:
    """Return rho_A by inverse iteration with I - A, which finds the second eigenvalue at once."""
    from scipy.sparse import csc_array, eye_array
    from scipy.sparse.linalg import splu

    nodes = matrix.shape[0]
    try:
        with limited_memory(FACTOR_MEMORY):
            factors = splu(
                csc_array((1 + SHIFT) * eye_array(nodes) - matrix),
                permc_spec="MMD_AT_PLUS_A",
                diag_pivot_thresh=0.0,
                options={"SymmetricMode": True},
            )
    except (MemoryError, RuntimeError):  # too many entries, or singular
        return None

    def inverse(z: Array) -> Array:
        solved: Array = factors.solve(z)
        solved -= solved.mean()
        solved *= SHIFT  # below one, as largest_modulus wants it
        return solved

    found = largest_modulus(inverse, nodes)
    if found is None:
        return None
    second = 1 + SHIFT - SHIFT / found
    # a circle around each diagonal entry holds all eigenvalues (Gershgorin)
    lowest = 2 * float(matrix.diagonal().min()) - 1
    return second if lowest >= -second else None
