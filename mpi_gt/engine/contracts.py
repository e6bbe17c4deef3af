"""Demands of a run's methods on its problem and graph, and the costs of its gradients."""

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..algorithms.base import exchange_interval
from ..compressors import Compressor
from ..config import Entry
from ..errors import UserError
from ..graphs.network import KINDS, Arcs, Layer
from ..graphs.reach import eccentricity

Array = NDArray[Any]
GRAPHS = ("any", "static", "symmetric", "directed")
"""The values of an algorithm's `graph`; see `algorithms.base.Algorithm`."""
_LACKING = {
    "A": "doubly stochastic weights, and this directed graph has none; "
    "push-pull, gt-adaptive-pp, push-diging and sgp take directed graphs",
    "pull": "weights whose rows sum to one, and this graph has none",
    "push": "weights whose columns sum to one, and this graph has none",
}
Costs = tuple[int, int]
"""Sample gradients per call of `grad(x)`, and of `grad.full(x)`."""


def require_exact_gradient(entries: Sequence[Entry], name: str, problem: Any) -> None:
    """Raise UserError if a method needs exact gradients and the problem has none."""
    if getattr(problem, "exact", True):
        return
    for entry in entries:
        if getattr(entry.algorithm, "needs_full", False):
            raise UserError(
                f"{entry.label} needs exact gradients (grad.full), which the problem {name} does "
                "not have (exact = False); gt, gt-adaptive, or gt-hsgd with start=batch do without"
            )


def kinds_of(algorithm: Any) -> tuple[str, ...]:
    """Return the algorithm's `kinds`, ("A",) if it has none; raise UserError unless they exist."""
    kinds = getattr(algorithm, "kinds", ("A",))
    if not isinstance(kinds, tuple) or not kinds or not set(kinds) <= set(KINDS):
        name = type(algorithm).__name__
        raise UserError(f"{name}.kinds must be a tuple of {', '.join(KINDS)}, not {kinds!r}")
    return kinds


def require_graph(entries: Sequence[Entry], arcs: Arcs) -> None:
    """Raise UserError if a method needs another graph, or other weights, than there are."""
    for entry in entries:
        wanted = getattr(entry.algorithm, "graph", "any")
        if wanted not in GRAPHS:
            raise UserError(f"{entry.label}: graph must be one of {', '.join(GRAPHS)}")
        changing = len(arcs.layers) > 1
        if changing and wanted in ("static", "symmetric"):
            raise UserError(
                f"{entry.label} needs a graph that stays the same, and this one has "
                f"{len(arcs.layers)} layers; gt-adaptive, gt, dsgd and push-pull take changing ones"
            )
        for kind in kinds_of(entry.algorithm):
            if any(kind not in layer.weights for layer in arcs.layers):
                raise UserError(f"{entry.label} needs {_LACKING[kind]}")
        if wanted == "symmetric" and not _is_symmetric(arcs.layers[0]):
            raise UserError(
                f"{entry.label} needs symmetric weights, and those of this graph are not; "
                "gt and gt-adaptive take any doubly stochastic weights"
            )
        if changing:
            _require_layers_in_turn(entry, arcs)


def _is_symmetric(layer: Layer) -> bool:
    order = np.lexsort((layer.receivers, layer.sources))
    pairs = (
        (layer.sources[order], layer.receivers),
        (layer.receivers[order], layer.sources),
        (layer.weights["A"][order], layer.weights["A"]),
    )
    return all(np.array_equal(*pair) for pair in pairs)


def _require_layers_in_turn(entry: Entry, arcs: Arcs) -> None:
    """Raise UserError if the layers in which a method exchanges do not join all nodes.

    With exchanges every K iterations and P layers in turn, some layers are never used if K and P
    have a common divisor.
    """
    every, count = exchange_interval(entry.algorithm), len(arcs.layers)
    if arcs.turns.seed is not None or math.gcd(every, count) == 1:
        return
    used = [
        arcs.layers[k]
        for k in sorted({(t - 1) % count for t in range(every, every * count + 1, every)})
    ]
    tails = np.concatenate([layer.sources for layer in used])
    heads = np.concatenate([layer.receivers for layer in used])
    nodes = used[0].nodes
    if None in (eccentricity(nodes, tails, heads), eccentricity(nodes, heads, tails)):
        raise UserError(
            f"{entry.label} exchanges every {every} iterations, and so uses {len(used)} of the "
            f"{count} layers only, which do not join all nodes; take an `every` that has no common "
            f"divisor with {count}"
        )


def costs_of(problem: Any) -> Costs:
    """Return the problem's `batch` and `rows`, 1 each where it has none.

    A user's problem may use these names for something else, such as the rows themselves.
    """
    return _count(getattr(problem, "batch", 1)), _count(getattr(problem, "rows", 1))


def _count(value: Any) -> int:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return int(value) if whole and 1 <= value < 2**53 else 1


def largest(costs: Sequence[Costs]) -> Costs:
    """Return the costs of the busiest node: a budget is one number for all nodes."""
    batches, rows = zip(*costs, strict=True)
    return max(batches), max(rows)


def full_gradient(problem: Any) -> Callable[[Array], Array]:
    """Return `grad.full`: the exact gradient of f_i, in the dtype of x."""

    def full(x: Array) -> Array:
        at = x.view() if x.dtype == np.float64 else x.astype(np.float64)
        # a copy: a user's `evaluate` may return an array that it uses again
        return np.array(problem.evaluate(at)[1], dtype=x.dtype)

    return full


class TrialGradient:
    """The `grad` with which a user's algorithm is tried out."""

    def __init__(self, name: str, problem: Any) -> None:
        self._name = name
        self._problem = problem
        self._full = full_gradient(problem)
        self.t = 1

    def __call__(self, x: Array) -> Array:
        made: Array = self._problem.gradient(self.t, x)
        made.flags.writeable = False
        return made

    def full(self, x: Array) -> Array:
        if not getattr(self._problem, "exact", True):
            raise UserError(f"{self._name} calls grad.full, but the problem has no exact gradient")
        return self._full(x)


def phase_of(algorithm: Any) -> Callable[[int], Hashable]:
    """Return the algorithm's `phase`; without one, t tells only whether there is an exchange."""
    every = exchange_interval(algorithm)
    phase: Callable[[int], Hashable] | None = getattr(algorithm, "phase", None)
    return phase or (lambda t: t % every == 0)


class CompressedCall(NamedTuple):
    """The signature of a call of `mix.compressed`."""

    vectors: int | tuple[int, ...]


Call = int | tuple[int, ...] | CompressedCall


def signature(vectors: Sequence[Any], x: Array, compressed: bool = False) -> Call:
    """Return the number of vectors in a call of `mix`, or their widths if they are not like x.

    All nodes must call `mix` alike.
    """
    if all(vector.shape == x.shape for vector in vectors):
        made: int | tuple[int, ...] = len(vectors)
    else:
        made = tuple(vector.shape[-1] for vector in vectors)
    return CompressedCall(made) if compressed else made


def counted(call: Call) -> str:
    """Return a signature in words."""
    if isinstance(call, CompressedCall):
        return f"{counted(call.vectors)}, compressed"
    if isinstance(call, int):
        return f"{call} vectors"
    return f"vectors of {', '.join(map(str, call))} entries"


def require_compressor(name: str, algorithm: Any) -> None:
    """Raise UserError if a user's algorithm has a `compressor` that is none."""
    compressor = getattr(algorithm, "compressor", None)
    if compressor is not None and not isinstance(compressor, Compressor):
        raise UserError(
            f"{name}.compressor must be made by mpi_gt.compressors.make_compressor, not "
            f"{compressor!r}"
        )
