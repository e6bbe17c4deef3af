"""Rates at which networks mix: rho_A of one matrix, of a period, and of pull and push weights."""

from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .lanczos import large_rho, largest_modulus
from .network import Arcs, Layer
from .weights import rho

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Array = NDArray[Any]

DENSE = 2048
"""Nodes up to which eigenvalues are computed of dense matrices, and so to the last digits."""
SMALL = 256  # nodes up to which products of dense matrices are quicker than the import of scipy
TINY = 1e-14  # what rounding leaves of zero; its P-th root would not be small


def rates(arcs: Arcs, symmetric: bool) -> dict[str, float | None]:
    """Return, for each kind that all layers have, the factor per step by which nodes approach.

    Of A it is rho_A: ||A_P ... A_1 - 11'/n||^(1/P) of the P layers of a period, and with layers
    drawn at random the root of ||E[A'A] - 11'/n||, which is the mean square of one step. Of pull
    and push it is the second largest modulus of the eigenvalues of the period's product, to the
    power 1/P. None: not found (of a huge network).
    """
    layers = arcs.layers
    kinds = [kind for kind in layers[0].weights if all(kind in each.weights for each in layers)]
    if symmetric and len(layers) == 1:
        return {"A": static_rho(layers[0])}
    if arcs.nodes > DENSE:
        return {"A": _large_norm(arcs)} if "A" in kinds else dict.fromkeys(kinds)
    if "A" in kinds:
        return {"A": _mean_square(arcs) if arcs.turns.seed is not None else _period_norm(arcs)}
    return {kind: _second_modulus(arcs, kind) for kind in kinds}


def static_rho(layer: Layer) -> float | None:
    """Return rho_A of one symmetric matrix."""
    if layer.nodes <= DENSE:
        return rho(layer.matrix("A"))
    return large_rho(sparse_matrix(layer, "A"))


def _product(arcs: Arcs, kind: str) -> Array:
    """Return the product of a period's matrices, that of the first step to the right."""
    matrices = [_matrix(layer, kind) for layer in arcs.layers]
    product: Array = reduce(lambda done, matrix: matrix @ done, matrices, np.eye(arcs.nodes))
    return product


def _period_norm(arcs: Arcs) -> float:
    rest = _product(arcs, "A") - 1 / arcs.nodes
    return root(float(np.linalg.norm(rest, 2)), len(arcs.layers))


def _mean_square(arcs: Arcs) -> float:
    mean = np.zeros((arcs.nodes, arcs.nodes))
    for layer in arcs.layers:
        matrix = _matrix(layer, "A")
        mean += matrix.T @ matrix / len(arcs.layers)
    return float(np.sqrt(np.abs(np.linalg.eigvalsh(mean - 1 / arcs.nodes)).max()))


def _large_norm(arcs: Arcs) -> float | None:
    """Return rho_A of a period, or of layers drawn at random, by Lanczos steps with A'A."""
    matrices = [sparse_matrix(layer, "A") for layer in arcs.layers]

    def period(z: Array) -> Array:
        z = z - z.mean()
        for matrix in matrices:
            z = matrix @ z
        for matrix in reversed(matrices):
            z = matrix.T @ z
        return z - z.mean()

    def mean(z: Array) -> Array:
        new = sum(matrix.T @ (matrix @ z) for matrix in matrices) / len(matrices)
        return new - z.mean()

    drawn = arcs.turns.seed is not None
    found = largest_modulus(mean if drawn else period, arcs.nodes)
    return None if found is None else root(found, 2 if drawn else 2 * len(matrices))


def _second_modulus(arcs: Arcs, kind: str) -> float:
    moduli = np.sort(np.abs(np.linalg.eigvals(_product(arcs, kind))))
    second = float(moduli[-2]) if len(moduli) > 1 else 0.0
    return root(second, len(arcs.layers))


def root(value: float, degree: int) -> float:
    """Return a root of a number that is not negative; rounding leaves 1e-17 of zero, which is 0."""
    return value ** (1 / degree) if value > TINY else 0.0


def _matrix(layer: Layer, kind: str) -> Any:
    """Return the weights as a matrix, of a small layer a dense one: that needs no scipy."""
    return layer.matrix(kind) if layer.nodes <= SMALL else sparse_matrix(layer, kind)


def sparse_matrix(layer: Layer, kind: str) -> "csr_array":
    """Return the weights of a kind as a sparse matrix."""
    from scipy.sparse import csr_array

    nodes = np.arange(layer.nodes)
    places = (np.append(layer.receivers, nodes), np.append(layer.sources, nodes))
    values = np.append(layer.weights[kind], layer.own[kind])
    return csr_array((values, places), shape=(layer.nodes, layer.nodes))
