"""Products and functions that give the same bits on every processor, for `--reproducible`.

A BLAS adds up in the order that suits the processor it finds, and the C library and numpy compute
exp, log and others by instructions that not every processor has. What is here takes the terms of
a sum one after the other, and computes functions by the four operations and square roots, which
IEEE 754 fixes to the last bit. It needs the compiled kernels.
"""

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import kernels
from ...errors import UserError

Array = NDArray[Any]

TAIL = 3.65  # beyond it numpy's normal numbers are computed by a logarithm of the C library


def require_kernels() -> None:
    """Raise UserError unless there are compiled kernels."""
    if kernels.C is None:
        why = "install mpi-gt again where there is a C compiler"
        if os.environ.get("MPI_GT_KERNELS") == "numpy":
            why = "unset MPI_GT_KERNELS"
        raise UserError(f"reproducible needs the compiled kernels: {why}")


def multiply(a: Array, b: Array, out: Array | None = None) -> Array:
    """Return a @ b for matrices or stacks of them; add it to `out` if that is given."""
    assert kernels.C is not None
    dtype = np.result_type(a, b)
    a, b = (z if z.dtype == dtype and z.flags.aligned else z.astype(dtype) for z in (a, b))
    add = out is not None
    if out is None:
        stack = (len(a),) if a.ndim == 3 else ()
        out = np.empty((*stack, a.shape[-2], b.shape[-1]), dtype)
    kernels.C.multiply(_stack(out), _stack(a), _stack(b), add)
    return out


def _stack(z: Array) -> Array:
    return z if z.ndim == 3 else z[np.newaxis]


def exp(x: Array) -> Array:
    """Return exp(x) for x <= 0."""
    return _elementary(0, x)


def erf(x: Array) -> Array:
    """Return the error function of x."""
    return _elementary(2, x)


def quantile(p: Array) -> Array:
    """Return the standard normal quantile of p in [0, 1]."""
    return _elementary(3, p)


def _elementary(kind: int, x: Array) -> Array:
    assert kernels.C is not None
    return kernels.C.elementary(kind, np.ascontiguousarray(x, np.float64)).reshape(np.shape(x))


def standard_normal(random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Return normal numbers, those of numpy but for the digits of the rare large ones.

    numpy takes the large ones from a logarithm of the C library, whose last bit depends on the
    processor: they are rounded to float32 here.
    """
    z = random.standard_normal(shape)
    return np.where(np.abs(z) > TAIL, z.astype(np.float32), z)


def uniform(random: np.random.Generator, low: float, high: float, count: int) -> Array:
    """Return numbers in [low, high), without a fused multiplication of the compiler's."""
    return low + (high - low) * random.random(count)


def orthogonal(z: Array) -> Array:
    """Return the Q of z = QR with a positive diagonal of R, for a square z of full rank.

    Gram-Schmidt, with each projection done twice, which makes Q orthogonal to rounding.
    """
    columns, rows = z.T, np.zeros_like(z)
    for j, column in enumerate(columns):
        for _ in range(2):
            shares = multiply(rows[:j], column[:, np.newaxis])
            column = column - multiply(shares.T, rows[:j])[0] if j else column
        length = np.sqrt(multiply(column[np.newaxis], column[:, np.newaxis])[0, 0])
        rows[j] = column / length
    return rows.T
