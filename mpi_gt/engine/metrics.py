"""Loss, gradient norm, consensus, gap and tracking of the state of all nodes, for each seed."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import kernels
from ..comm.base import NodeLike
from ..errors import Diverged

Array = NDArray[Any]

CONSENSUS, BYTES, SUSPECT, LOSS, ACCURACY = range(5)  # the first columns of a report
LARGE = 1e150  # as in report.c: who reports less than that in each entry, spoils no metric


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

    @property
    def numbers(self) -> list[Array]:
        """All that have to be finite."""
        numbers = (self.loss, self.gap, self.tracking, self.accuracy)
        return [values for values in numbers if values is not None]

    def __str__(self) -> str:
        return f"loss {self.loss.mean():.6g}  gap {self.gap.mean():.3e}"


def measure(
    node: NodeLike, problem: Any, state: Any, tracks: bool, seeds: tuple[int, ...]
) -> Measurement | None:
    """The exact metrics, on root (else None); Diverged on all ranks where a value is not finite.

    Each rank evaluates its own f_i at xbar. A state with a leading axis of nodes (stacked) is
    measured by the same lines.
    """
    xbar = node.mean(state.x)
    assert xbar is not None
    loss, gradient = problem.evaluate(xbar)
    accuracy = getattr(problem, "accuracy", None)
    told = (loss,) if accuracy is None else (loss, accuracy(xbar))
    vectors = (gradient, state.s, state.g) if tracks else (gradient,)
    report = _local_metrics(node.bytes_sent, state, xbar, told, vectors)
    means = node.mean(report, everywhere=False)
    suspect = node.broadcast_flag(means is not None and bool(means[0, SUSPECT]))
    measured = None
    if means is not None:
        measured = _of_means(means, len(told) > 1, len(vectors), state.x.dtype, node.nodes)
    if suspect:
        at_mean = (loss, gradient, report[..., CONSENSUS])
        _require_finite(node, state, at_mean, measured, seeds)
    return measured


def _of_means(
    means: Array, accuracy: bool, vectors: int, dtype: np.dtype[Any], nodes: int
) -> Measurement:
    """Out of the means of all nodes' reports."""
    columns = ACCURACY + accuracy
    dim = (means.shape[-1] - columns) // vectors
    begins = range(columns, means.shape[-1], dim)
    gradient, *tracked = (means[:, begin : begin + dim] for begin in begins)
    tracking = lost = None
    if tracked:
        s, g = tracked
        tracking = np.sqrt(_norm2(s - g))
        tolerance = 1e-8 if dtype == np.float64 else 1e-3
        lost = tracking > tolerance * (1 + np.sqrt(_norm2(g)))
    return Measurement(
        loss=means[:, LOSS],
        grad_norm2=_norm2(gradient),
        consensus=means[:, CONSENSUS],
        tracking=tracking,
        lost=lost,
        accuracy=means[:, ACCURACY] if accuracy else None,
        bytes=round(means[0, BYTES] * nodes) / len(means),  # exact up to 2^51, which is 2 PB
    )


def _local_metrics(
    sent: Any, state: Any, xbar: Array, told: tuple[Array, ...], vectors: tuple[Array, ...]
) -> Array:
    """A line for each seed of what root needs of this rank, its columns first, then the vectors."""
    if kernels.C is not None:
        report = kernels.C.local_metrics(state.x, xbar, sent, told, vectors, state)
        if report is not None:
            return report
    heads = np.empty((*told[0].shape, LOSS + len(told)))
    columns = _norm2(state.x - xbar), np.asarray(sent)[..., np.newaxis], 0, *told
    for index, column in enumerate(columns):
        heads[..., index] = column
    report = np.concatenate([heads, *vectors], axis=-1)
    seen = (state.x, *vectors)  # where x is not finite, neither is the consensus
    rest = [z for z in state if not any(z is array for array in seen)]
    report[..., SUSPECT] = not _are_moderate([report, *rest])
    return report


def _are_moderate(arrays: Iterable[Array]) -> bool:
    """Whether all values are finite, and far from where a metric made of them is not."""
    return sum(float(np.vdot(z, z)) for z in arrays) < LARGE**2


def _norm2(z: Array) -> Array:
    norms: Array = np.add.reduce(np.square(z), axis=-1)
    return norms


def _require_finite(
    node: NodeLike,
    state: Any,
    at_mean: tuple[Array, Array, Array],
    measured: Measurement | None,
    seeds: tuple[int, ...],
) -> None:
    """Diverged on all ranks, with the first node and seed that has a value which is not finite."""
    loss, gradient, consensus = at_mean
    own = np.logical_and.reduce([np.isfinite(array).all(axis=-1) for array in state])
    there = np.isfinite(loss) & np.isfinite(gradient).all(axis=-1) & np.isfinite(consensus)
    reports = node.gather(np.stack([own, there], axis=-2))
    culprit = None
    if reports is not None and measured is not None:
        culprit = _first_non_finite(reports, measured, seeds)
    if node.broadcast_flag(culprit is not None):
        where = f"a value is not finite after iteration {node.iteration}"
        raise Diverged(where if culprit is None else f"{where}: {culprit}")


def _first_non_finite(reports: Array, measured: Measurement, seeds: tuple[int, ...]) -> str | None:
    # one node's bad state spoils the mean, and so every node's loss there: that comes first
    for finite in (reports[:, 0], reports[:, 1]):
        if not finite.all():
            node, column = np.argwhere(~finite)[0]
            return f"node {node}, seed {seeds[column]}"
    finite = np.logical_and.reduce([np.isfinite(numbers) for numbers in measured.numbers])
    return None if finite.all() else f"a metric of seed {seeds[np.argmin(finite)]}"
