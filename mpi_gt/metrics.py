"""Loss, gradient norm, consensus, gap and tracking of the state of all nodes, for each seed."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from . import kernels
from .errors import Diverged

Array = NDArray[Any]

CONSENSUS, BYTES, SUSPECT, LOSS, ACCURACY = range(5)  # the first columns of a report


class Nodes(Protocol):
    """What measuring needs of a Node, or of a StackedNode."""

    nodes: int
    iteration: int

    @property
    def bytes_sent(self) -> Any: ...
    def mean(self, z: Array, everywhere: bool = True) -> Array | None: ...
    def gather(self, z: Array) -> Array | None: ...
    def share(self, flag: bool) -> bool: ...


@dataclass(frozen=True)
class Measurement:
    """What root knows of the state, one number a seed."""

    loss: Array  # f(xbar)
    grad_norm2: Array  # ||grad f(xbar)||²
    consensus: Array  # mean_i ||x_i - xbar||²
    tracking: Array | None  # ||mean s - mean g||, for methods that track
    lost: Array | None  # whether that is more than rounding explains
    accuracy: Array | None
    bytes: float  # of vectors, a seed, sent by all nodes so far

    @property
    def gap(self) -> Array:
        return self.grad_norm2 + self.consensus

    def __str__(self) -> str:
        return f"loss {self.loss.mean():.6g}  gap {self.gap.mean():.3e}"


def measure(
    node: Nodes, problem: Any, state: Any, tracks: bool, seeds: tuple[int, ...]
) -> Measurement | None:
    """The exact metrics, on root (else None); Diverged on all ranks where a value is not finite.

    Each rank evaluates its own f_i at xbar. A state with a leading axis of nodes (stacked) is
    measured by the same lines.
    """
    xbar = node.mean(state.x)
    assert xbar is not None
    loss, gradient = problem.evaluate(xbar)
    told = (loss, problem.accuracy(xbar)) if hasattr(problem, "accuracy") else (loss,)
    vectors = (gradient, state.s, state.g) if tracks else (gradient,)
    report = _report(node.bytes_sent, state, xbar, told, vectors)
    means = node.mean(report, everywhere=False)
    if node.share(means is not None and bool(means[0, SUSPECT])):
        _require_finite(node, state, report[..., CONSENSUS], loss, gradient, seeds)
    if means is None:
        return None

    tracking = lost = None
    at = range(LOSS + len(told), means.shape[-1], xbar.shape[-1])
    mean_gradient, *tracked = (means[:, begin : begin + at.step] for begin in at)
    if tracked:
        s, g = tracked
        tracking = np.sqrt(_norm2(s - g))
        tolerance = 1e-8 if state.x.dtype == np.float64 else 1e-3
        lost = tracking > tolerance * (1 + np.sqrt(_norm2(g)))
    return Measurement(
        loss=means[:, LOSS],
        grad_norm2=_norm2(mean_gradient),
        consensus=means[:, CONSENSUS],
        tracking=tracking,
        lost=lost,
        accuracy=means[:, ACCURACY] if len(told) > 1 else None,
        bytes=round(means[0, BYTES] * node.nodes) / len(seeds),
    )


def _report(
    sent: Any, state: Any, xbar: Array, told: tuple[Array, ...], vectors: tuple[Array, ...]
) -> Array:
    """A line for each seed of what root needs of this rank, its columns first, then the vectors."""
    rest = tuple(z for z in state if not any(z is vector for vector in vectors))
    if kernels.C is not None:
        report = kernels.C.report(state.x, xbar, sent, told, vectors, rest)
        if report is not None:
            return report
    heads = np.empty((*told[0].shape, LOSS + len(told)))
    columns = _norm2(state.x - xbar), np.asarray(sent)[..., np.newaxis], 0, *told
    for index, column in enumerate(columns):
        heads[..., index] = column
    report = np.concatenate([heads, *vectors], axis=-1)
    report[..., SUSPECT] = not _sums_are_finite([report, *rest])
    return report


def _sums_are_finite(arrays: Iterable[Array]) -> bool:
    """No if a value is not finite, and perhaps where they are just large: the quickest look."""
    return math.isfinite(sum(float(np.add.reduce(z, axis=None)) for z in arrays))


def _norm2(z: Array) -> Array:
    norms: Array = np.add.reduce(np.square(z), axis=-1)
    return norms


def _require_finite(
    node: Nodes, state: Any, consensus: Array, loss: Array, gradient: Array, seeds: tuple[int, ...]
) -> None:
    """Diverged on all ranks, with the first node and seed that has a value which is not finite."""
    own = np.logical_and.reduce([np.isfinite(array).all(axis=-1) for array in state])
    at_mean = np.isfinite(loss) & np.isfinite(gradient).all(axis=-1) & np.isfinite(consensus)
    reports = node.gather(np.stack([own, at_mean], axis=-2))
    if node.share(reports is not None and not reports.all()):
        where = f"a value is not finite after iteration {node.iteration}"
        if reports is not None:
            own, at_mean = reports[:, 0], reports[:, 1]
            # one node's bad state spoils the mean, and so every node's loss there: that comes first
            culprit, column = np.argwhere(~(at_mean if own.all() else own))[0]
            where += f": node {culprit}, seed {seeds[column]}"
        raise Diverged(where)
