"""Mixing matrices A: rules for the weights of a graph, matrices from files, and their checks."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..array_files import read_array, read_table
from ..errors import UserError
from .shapes import Shape

if TYPE_CHECKING:
    from networkx import Graph

Array = NDArray[Any]


def metropolis(graph: "Graph") -> Array:
    """Return A_ij = 1 / (1 + max(deg_i, deg_j)) on edges, the rest of each row on the diagonal."""
    degree = dict(graph.degree)
    return _from_edges(graph, lambda i, j: 1 / (1 + max(degree[i], degree[j])))


def lazy_metropolis(graph: "Graph") -> Array:
    """Return (I + A) / 2 with Metropolis's A, which is positive semidefinite."""
    return (np.eye(len(graph)) + metropolis(graph)) / 2


def max_degree(graph: "Graph") -> Array:
    """Return A_ij = 1 / (1 + the largest degree) on edges, the rest on the diagonal."""
    largest = max(degree for _, degree in graph.degree)
    return _from_edges(graph, lambda i, j: 1 / (1 + largest))


def laplacian(graph: "Graph") -> Array:
    """Return I - a L with the best a = 2 / (largest + smallest non-zero eigenvalue of L)."""
    if len(graph) == 1:
        return np.ones((1, 1))
    degrees = np.diag([float(graph.degree[i]) for i in range(len(graph))])
    spectrum = np.linalg.eigvalsh(degrees - _from_edges(graph, lambda i, j: 1.0, diagonal=False))
    best = 2 / float(spectrum[-1] + spectrum[1])
    return _from_edges(graph, lambda i, j: best)


def fdla(graph: "Graph") -> Array:
    """Return the A with the least ||A - 11'/n||, the fastest averaging, found by an SDP.

    Xiao and Boyd, 2004.
    """
    try:
        import cvxpy
    except ImportError:
        raise UserError(
            "the weights fdla need cvxpy: pip install 'mpi-gt[fdla]', or take another rule"
        ) from None
    n, edges = len(graph), list(graph.edges)
    if not edges:
        return np.ones((1, 1))
    incidence = np.zeros((n, len(edges)))
    for column, (i, j) in enumerate(edges):
        incidence[i, column], incidence[j, column] = 1, -1
    weights = cvxpy.Variable(len(edges))
    mixing = np.eye(n) - incidence @ cvxpy.diag(weights) @ incidence.T
    problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.sigma_max(mixing - 1 / n)))
    try:
        problem.solve(solver=cvxpy.CLARABEL)
    except cvxpy.error.SolverError as error:
        raise UserError(f"fdla: the solver failed ({error}); take another rule") from None
    if weights.value is None:
        raise UserError(f"fdla: the solver gave up ({problem.status}); take another rule")
    by_edge = dict(zip(edges, weights.value.tolist(), strict=True))
    return _from_edges(graph, lambda i, j: by_edge[i, j])


def _from_edges(
    graph: "Graph", weight: Callable[[int, int], float], diagonal: bool = True
) -> Array:
    """Return the symmetric matrix with these weights on the edges and rows that sum to one."""
    matrix = np.zeros((len(graph), len(graph)))
    for i, j in graph.edges:
        matrix[i, j] = matrix[j, i] = weight(i, j)
    if diagonal:
        matrix[np.diag_indices_from(matrix)] = 1 - matrix.sum(axis=1)
    return matrix


WEIGHTS: dict[str, Callable[["Graph"], Array]] = {
    "metropolis": metropolis,
    "lazy-metropolis": lazy_metropolis,
    "max-degree": max_degree,
    "laplacian": laplacian,
    "fdla": fdla,
}


def edge_weights(rule: str, shape: Shape) -> tuple[Array, Array]:
    """Return the weights of the arcs and of the nodes themselves, without a dense matrix.

    For the rules in `SPARSE`. The sums of rows are rounded otherwise than those of dense rows.
    """
    degrees = shape.in_degrees
    if rule == "max-degree":
        weights = np.full(len(shape.sources), 1 / (1 + degrees.max()))
    else:
        weights = 1 / (1 + np.maximum(degrees[shape.sources], degrees[shape.receivers]))
    if rule == "lazy-metropolis":
        weights /= 2
    return weights, 1 - np.bincount(shape.receivers, weights, minlength=shape.nodes)


SPARSE = ("metropolis", "lazy-metropolis", "max-degree")
"""The rules that need no dense matrix."""

SOLVED = ("laplacian", "fdla")
"""The rules that need LAPACK or a solver, whose last digits depend on the processor."""


def require_computed(weights: str | None) -> None:
    """Raise UserError for weights whose bits depend on the processor."""
    if weights is not None and weights.strip() in SOLVED:
        raise UserError(
            f"reproducible cannot be used with the weights {weights}, whose last digits depend on "
            "the processor: save the matrix to a .npy file once, and give that file"
        )


def read_matrix(path: Path, n: int) -> Array:
    """Read a matrix from a .npy file, or from a .csv file of comma-separated numbers."""
    matrix = read_table(path) if path.suffix.lower() == ".csv" else read_array(path)
    if matrix.shape != (n, n):
        raise UserError(f"{path} has shape {matrix.shape}, but {n} ranks need ({n}, {n})")
    return matrix


def check_weights(matrix: Array, graph: "Graph", name: str, alone: bool = True) -> None:
    """Raise UserError unless A is symmetric, zero off the graph, with row sums 1 and rho_A < 1.

    The message names the entry. Negative weights are allowed, as long as rho_A < 1. Not `alone`:
    A is one of several layers, whose own rho_A may be 1.
    """
    for i, j in zip(*np.nonzero(np.abs(matrix - matrix.T) > 1e-12), strict=True):
        raise UserError(
            f"{name}: not symmetric, entry ({i}, {j}) is {matrix[i, j]:.17g} "
            f"and ({j}, {i}) is {matrix[j, i]:.17g}"
        )
    for i in np.nonzero(np.abs(matrix.sum(axis=1) - 1) > 1e-10)[0]:
        raise UserError(f"{name}: row {i} sums to {math.fsum(matrix[i]):.17g}, not 1")
    for i, j in zip(*np.nonzero(matrix), strict=True):
        if i != j and not graph.has_edge(i, j):
            raise UserError(
                f"{name}: entry ({i}, {j}) is {matrix[i, j]:.6g}, but the graph has no such edge"
            )
    if alone and (radius := rho(matrix)) >= 1 - 1e-12:
        fate = "blows up" if radius > 1 + 1e-12 else "does not reach the average"
        raise UserError(f"{name}: rho_A is {radius:.12g}, so mixing {fate}; it must be < 1")


def rho(matrix: Array) -> float:
    """Return rho_A, the spectral radius of A - 11'/n, for a symmetric A."""
    return float(np.abs(np.linalg.eigvalsh(matrix - 1 / len(matrix))).max())
