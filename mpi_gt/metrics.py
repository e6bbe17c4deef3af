"""Loss, gradient norm, consensus, gap and tracking of the state of all nodes, for each seed."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .errors import Diverged

Array = NDArray[Any]


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
    consensus = np.square(state.x - xbar).sum(axis=-1)
    columns = [loss[..., np.newaxis], consensus[..., np.newaxis]]
    if hasattr(problem, "accuracy"):
        columns.append(problem.accuracy(xbar)[..., np.newaxis])
    vectors = [gradient, state.s, state.g] if tracks else [gradient]
    means = node.mean(np.concatenate(columns + vectors, axis=-1), everywhere=False)

    own = np.logical_and.reduce([np.isfinite(array).all(axis=-1) for array in state])
    at_mean = np.isfinite(loss) & np.isfinite(gradient).all(axis=-1) & np.isfinite(consensus)
    sent = np.broadcast_to(np.asarray(node.bytes_sent)[..., np.newaxis], (*loss.shape[:-1], 1))
    reports = node.gather(np.concatenate([sent, ~own, ~at_mean], axis=-1).astype(np.int64))
    if node.share(reports is not None and bool(reports[:, 1:].any())):
        raise Diverged(_first_non_finite(node, reports, seeds))
    if means is None or reports is None:
        return None

    heads, tails = means[:, : len(columns)], means[:, len(columns) :]
    mean_gradient, *tracked = np.split(tails, len(vectors), axis=-1)
    tracking = lost = None
    if tracked:
        s, g = tracked
        tracking = np.linalg.norm(s - g, axis=-1)
        tolerance = 1e-8 if state.x.dtype == np.float64 else 1e-3
        lost = tracking > tolerance * (1 + np.linalg.norm(g, axis=-1))
    return Measurement(
        loss=heads[:, 0],
        grad_norm2=np.square(mean_gradient).sum(axis=-1),
        consensus=heads[:, 1],
        tracking=tracking,
        lost=lost,
        accuracy=heads[:, 2] if len(columns) > 2 else None,
        bytes=int(reports[:, 0].sum()) / len(seeds),
    )


def _first_non_finite(node: Nodes, reports: Array | None, seeds: tuple[int, ...]) -> str:
    where = f"a value is not finite after iteration {node.iteration}"
    if reports is None:
        return where
    own, at_mean = np.split(reports[:, 1:], 2, axis=1)
    # one node's bad state spoils the mean, and so every node's loss there: look for it first
    culprit, column = np.argwhere(own if own.any() else at_mean)[0]
    return f"{where}: node {culprit}, seed {seeds[column]}"
