"""The metrics: loss, gradient norm, consensus, gap and tracking error over all nodes, per seed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import kernels
from ..comm.base import NodeLike
from ..errors import Diverged
from .extra_columns import NO_EXTRA, ExtraColumns

Array = NDArray[Any]

CONSENSUS, BYTES, SUSPECT, LOSS = range(4)  # the first columns of the local metrics
LARGE = 1e150  # as in local_metrics.c: smaller entries cannot make any metric infinite


@dataclass(frozen=True)
class Measurement:
    """The metrics of one iteration, for root: one number per seed and metric."""

    loss: Array  # f(xbar)
    grad_norm2: Array  # ||grad f(xbar)||²
    consensus: Array  # mean_i ||x_i - xbar||²
    tracking: Array | None  # ||mean s - mean g||, for methods that track
    lost: Array | None  # True if `tracking` is larger than rounding explains
    accuracy: Array | None
    bytes: float  # of vectors per seed that all nodes together have sent so far
    gradients: int  # of samples that a node has evaluated so far, per seed
    extra: Mapping[str, Array] = field(default_factory=dict)  # by name, of ExtraColumns

    @property
    def gap(self) -> Array:
        return self.grad_norm2 + self.consensus

    @property
    def numbers(self) -> list[Array]:
        """Return all metrics that must be finite."""
        numbers = (self.loss, self.gap, self.tracking, self.accuracy, *self.extra.values())
        return [values for values in numbers if values is not None]

    def __str__(self) -> str:
        return f"loss {self.loss.mean():.6g}  gap {self.gap.mean():.3e}"


def measure(
    node: NodeLike,
    problem: Any,
    state: Any,
    tracks: bool,
    seeds: tuple[int, ...],
    extra: ExtraColumns = NO_EXTRA,
) -> Measurement | None:
    """Return the exact metrics on root, None on the other ranks.

    Collective: every rank calls it and evaluates its own f_i at xbar. If a value is not finite, all
    ranks raise Diverged. The same code measures a stacked state, with a leading axis of nodes.
    """
    xbar = node.mean(state.x)
    assert xbar is not None
    loss, gradient = problem.evaluate(xbar)
    accuracy = getattr(problem, "accuracy", None)
    scores = (loss,) if accuracy is None else (loss, accuracy(xbar))
    scores += extra.values(problem, xbar, loss)
    vectors = (gradient, state.s, state.g) if tracks else (gradient,)
    local = _local_metrics(node.bytes_sent, state, xbar, scores, vectors)
    means = node.mean(local, everywhere=False)
    suspect = node.broadcast_flag(means is not None and bool(means[0, SUSPECT]))
    measured = None
    if means is not None:
        columns = ["loss", *([] if accuracy is None else ["accuracy"]), *extra.names]
        measured = _from_means(means, columns, len(vectors), state.x.dtype, node)
    if suspect:
        at_mean = (loss, gradient, local[..., CONSENSUS])
        _require_finite(node, state, at_mean, measured, seeds)
    return measured


def _from_means(
    means: Array, names: Sequence[str], vectors: int, dtype: np.dtype[Any], node: NodeLike
) -> Measurement:
    """Build the Measurement from the mean of the local metrics over all nodes.

    `names` are those of the columns from LOSS on, before the vectors.
    """
    columns = {name: means[:, LOSS + index] for index, name in enumerate(names)}
    first = LOSS + len(columns)
    dim = (means.shape[-1] - first) // vectors
    begins = range(first, means.shape[-1], dim)
    gradient, *tracked = (means[:, begin : begin + dim] for begin in begins)
    tracking = lost = None
    if tracked:
        s, g = tracked
        tracking = np.sqrt(_norm2(s - g))
        tolerance = 1e-8 if dtype == np.float64 else 1e-3
        lost = tracking > tolerance * (1 + np.sqrt(_norm2(g)))
    return Measurement(
        loss=columns.pop("loss"),
        grad_norm2=_norm2(gradient),
        consensus=means[:, CONSENSUS],
        tracking=tracking,
        lost=lost,
        accuracy=columns.pop("accuracy", None),
        bytes=round(means[0, BYTES] * node.nodes) / len(means),  # exact up to 2^51 bytes (2 PB)
        gradients=node.gradients,
        extra=columns,
    )


def _local_metrics(
    sent: Any, state: Any, xbar: Array, scores: tuple[Array, ...], vectors: tuple[Array, ...]
) -> Array:
    """Return this rank's share of the metrics: one row per seed, the columns, then the vectors."""
    if kernels.C is not None:
        local = kernels.C.local_metrics(state.x, xbar, sent, scores, vectors, state)
        if local is not None:
            return local
    heads = np.empty((*scores[0].shape, LOSS + len(scores)))
    columns = _norm2(state.x - xbar), np.asarray(sent)[..., np.newaxis], 0, *scores
    for index, column in enumerate(columns):
        heads[..., index] = column
    local = np.concatenate([heads, *vectors], axis=-1)
    covered = (state.x, *vectors)  # a bad x shows in the consensus, bad vectors in `local` itself
    rest = [z for z in state if not any(z is array for array in covered)]
    local[..., SUSPECT] = not _are_moderate([local, *rest])
    return local


def _are_moderate(arrays: Iterable[Array]) -> bool:
    """Return True if all values are finite and too small to make a metric infinite."""
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
    """Raise Diverged on all ranks if a value is not finite, naming the first node and seed.

    Collective: every rank calls it. `at_mean` holds loss and gradient at xbar, and the consensus.
    """
    loss, gradient, consensus = at_mean
    own = np.logical_and.reduce([np.isfinite(array).all(axis=-1) for array in state])
    mean = np.isfinite(loss) & np.isfinite(gradient).all(axis=-1) & np.isfinite(consensus)
    flags = node.gather(np.stack([own, mean], axis=-2))
    culprit = None
    if flags is not None and measured is not None:
        culprit = _first_non_finite(flags, measured, seeds)
    if node.broadcast_flag(culprit is not None):
        where = f"a value is not finite after iteration {node.iteration}"
        raise Diverged(where if culprit is None else f"{where}: {culprit}")


def _first_non_finite(flags: Array, measured: Measurement, seeds: tuple[int, ...]) -> str | None:
    # the states first: one bad state spoils xbar, and with it the loss of every node
    for finite in (flags[:, 0], flags[:, 1]):
        if not finite.all():
            node, column = np.argwhere(~finite)[0]
            return f"node {node}, seed {seeds[column]}"
    finite = np.logical_and.reduce([np.isfinite(numbers) for numbers in measured.numbers])
    return None if finite.all() else f"a metric of seed {seeds[np.argmin(finite)]}"
