"""Checks of users' own classes before a run.

They call each method once, on each rank. They find a missing method or a wrong shape in
microseconds, where the run itself would hang or end in one traceback per rank.
"""

import inspect
import json
import pickle
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...algorithms.base import exchange_interval
from ...errors import UserError
from ...rundir.metrics_csv import RESERVED, is_column_name
from ...user_classes import call_user_code
from ..contracts import TrialGradient, phase_of, require_compressor, signature
from ..place import MethodPlace, Placed
from .unwaited import ADVICE, Pending, PendingVectors

Array = NDArray[Any]

LARGEST = 2**53  # dimensions of any problem


class Tried(NamedTuple):
    """The findings of trying out a problem."""

    metrics: tuple[str, ...] = ()  # the names of its own metrics
    least: float | None = None  # its share of f*, if it is known


def check_problem(name: str, problem: Any, x: Array) -> Tried:
    """Raise UserError unless the problem's methods return what a run needs, at x (seeds, dim)."""
    gradient = call_user_code(f"{name}.gradient", lambda: problem.gradient(1, x))
    require_like(f"{name}.gradient", gradient, x.shape, x.dtype)
    xbar = frozen(x.astype(np.float64))
    answer = call_user_code(f"{name}.evaluate", lambda: problem.evaluate(xbar))
    require_evaluation(name, answer, x.shape)
    if hasattr(problem, "accuracy"):
        accuracy = call_user_code(f"{name}.accuracy", lambda: problem.accuracy(xbar))
        require_like(f"{name}.accuracy", accuracy, x.shape[:-1])
    if hasattr(problem, "test_score"):
        score = call_user_code(f"{name}.test_score", lambda: problem.test_score(xbar))
        require_like(f"{name}.test_score", score, (len(x) + 1,))
    metrics: Any = {}
    if hasattr(problem, "metrics"):
        metrics = call_user_code(f"{name}.metrics", lambda: problem.metrics(xbar))
        require_metrics(f"{name}.metrics", metrics, xbar)
    return Tried(tuple(metrics), known_least(name, problem))


def require_metrics(
    what: str, metrics: Any, x: Array, names: tuple[str, ...] | None = None
) -> None:
    """Raise UserError unless `metrics` holds one finite number per seed by name, at x.

    `names`, if given, are those of the first call. Numbers at an x that is not moderate may be
    anything: the run has diverged, and will say so.
    """
    if not isinstance(metrics, Mapping):
        raise UserError(
            f"{what} must return a dictionary of arrays (seeds,) by name, not {_kind(metrics)}"
        )
    for name in metrics:
        if not is_column_name(name):
            raise UserError(f"{what}: {name!r} cannot name a column: it is not an identifier")
        if name in RESERVED:
            raise UserError(f"{what}: {name!r} cannot name a column: the run has its own")
    if names is not None and set(metrics) != set(names):
        now, before = (", ".join(map(repr, each)) or "nothing" for each in (metrics, names))
        raise UserError(f"{what} must return the same names at all times: {before}, not {now}")
    moderate = bool((np.abs(x) < 1e100).all())
    for name, values in metrics.items():
        require_like(f"{what}: {name!r}", values, x.shape[:-1])
        bad = np.flatnonzero(~np.isfinite(values))
        if moderate and len(bad):
            raise UserError(
                f"{what}: {name!r} is {values[bad[0]]} for the seed in row {bad[0]}, not a finite "
                "number"
            )


def known_least(name: str, problem: Any, custom: bool = True) -> float | None:
    """Return the problem's share of f*, None if it is not known."""
    if not hasattr(problem, "least_value"):
        return None
    what = f"{name}.least_value"
    least = call_user_code(what, problem.least_value, custom)
    if least is None:
        return None
    if isinstance(least, bool) or not isinstance(least, int | float | np.number):
        raise UserError(f"{what} must return a number or None, not {_kind(least)}")
    try:
        number = float(least)
    except OverflowError:  # a whole number
        number = np.inf
    if not np.isfinite(number):
        raise UserError(f"{what} must be finite, not {number}")
    return number


def require_evaluation(name: str, answer: Any, shape: tuple[int, ...]) -> None:
    """Raise UserError unless `answer` is the loss and the gradient at points of this shape."""
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise UserError(f"{name}.evaluate must return (loss, gradient), not {_kind(answer)}")
    require_like(f"{name}.evaluate: the loss", answer[0], shape[:-1])
    require_like(f"{name}.evaluate: the gradient", answer[1], shape)


def require_dimension(name: str, problem: Any) -> None:
    """Raise UserError unless the problem's `dim` is a whole number >= 1."""
    dim = call_user_code(f"problem {name}: dim", lambda: getattr(problem, "dim", None))
    if not isinstance(dim, int | np.integer) or isinstance(dim, bool):
        raise UserError(f"problem {name}: dim must be a whole number, not {_kind(dim)}")
    if dim < 1:
        raise UserError(f"problem {name}: dim must be at least 1, not {dim}")
    if dim > LARGEST:
        raise UserError(f"problem {name}: dim must be at most {LARGEST}")


class Agreement(NamedTuple):
    """The facts that must be the same on all nodes."""

    dim: int
    mixes: Mapping[str, tuple[int, ...]] = MappingProxyType({})
    """The number of vectors in each call of `mix` by a step, by algorithm."""
    metrics: tuple[str, ...] = ()
    least_known: bool = False
    start: str = ""  # the digest of x_1; "": it may differ


def require_agreement(problem: str, by_node: Sequence[Agreement]) -> None:
    """Raise UserError unless all nodes agree; `by_node` holds what each of them has."""
    first = by_node[0]
    for node, other in enumerate(by_node):
        where = f"on node 0 and {{}} on node {node}"
        if other.dim != first.dim:
            raise UserError(
                f"the problem's dim must be the same on all nodes: it is {first.dim} "
                f"{where.format(other.dim)}"
            )
        for label, counts in first.mixes.items():
            if other.mixes[label] != counts:
                raise UserError(
                    f"{label}.step must mix the same numbers of vectors on all nodes: they are "
                    f"{list(counts)} {where.format(list(other.mixes[label]))}"
                )
        if other.metrics != first.metrics:
            raise UserError(
                f"{problem}.metrics must return the same names in the same order on all nodes: "
                f"they are {list(first.metrics)} {where.format(list(other.metrics))}"
            )
        if other.least_known != first.least_known:
            known, unknown = (node, 0) if other.least_known else (0, node)
            raise UserError(
                f"{problem}: the least value of f must be known on all nodes or on none: it is "
                f"on node {known} and is not on node {unknown}"
            )
        if other.start != first.start:
            raise UserError(
                f"{problem}.start must return the same x_1 on every node, but nodes 0 and {node} "
                "differ: make it of the seed alone, as place.random(..., shared=True) does, or let "
                "a class say start_differs = True"
            )


def problem_facts(name: str, problem: Any, custom: bool) -> dict[str, Any]:
    """Return what run.json says about the problem: its `dim`, and its facts() if it has any."""
    dim = int(problem.dim)
    if not hasattr(problem, "facts"):
        return {"dim": dim}
    what = f"{name}.facts"
    facts = call_user_code(what, problem.facts, custom)
    if not isinstance(facts, Mapping) or not all(isinstance(key, str) for key in facts):
        raise UserError(f"{what} must return a dictionary with names as keys, not {_kind(facts)}")
    said = facts.get("dim", dim)
    if not isinstance(said, int | np.integer) or said != dim:
        raise UserError(f"{what} says that dim is {said!r}, but the problem's is {dim}")
    if facts.get("rows_dropped") and "rows_per_node" not in facts:
        raise UserError(f"{what} has rows_dropped, and needs rows_per_node as well")
    try:
        text = json.dumps(dict(facts), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise UserError(f"{what} must return finite values that JSON can hold: {reason}") from None
    return {"dim": dim, **json.loads(text)}


def require_parts(name: str, parts: Any, nodes: int) -> list[Any]:
    """Return one part per node, None each without parts; raise UserError if they are no list."""
    if parts is None:
        return [None] * nodes
    if not isinstance(parts, list | tuple):
        raise UserError(
            f"problem {name}: parts must return a list of {nodes} parts, one per node, or None, "
            f"not {_kind(parts)}"
        )
    if len(parts) != nodes:
        raise UserError(f"problem {name}: parts gave {len(parts)} parts for {nodes} nodes")
    return list(parts)


def pack_parts(name: str, parts: Sequence[Any]) -> list[bytes]:
    """Return the parts as bytes; raise UserError if they cannot be sent to other ranks."""
    return call_user_code(
        f"sending what {name}.parts returned to the ranks",
        lambda: [pickle.dumps(part, pickle.HIGHEST_PROTOCOL) for part in parts],
    )


def unpack_part(name: str, packed: bytes) -> Any:
    """Return this rank's part."""
    return call_user_code(f"receiving a part of {name}.parts", lambda: pickle.loads(packed))


class Trial(NamedTuple):
    """The findings of trying out an algorithm."""

    counts: tuple[Any, ...]
    """The signature of each call of `mix`, in a step that exchanges."""
    by_node: bool  # it looks at its place or at each neighbour: not for all nodes at once


def check_algorithm(name: str, algorithm: Any, problem: Any, x: Array, place: MethodPlace) -> Trial:
    """Raise UserError unless init and step return States of arrays like x.

    `mix` here returns each vector unchanged, and `mix.each` as if it came from every neighbour.
    The arrays passed to the algorithm are read-only, and it must wait exactly once for each
    result of `mix`. The step that is tried is the first one that exchanges.
    """
    placed = call_user_code(f"{name}: reading the signatures", lambda: Placed(algorithm, place))
    require_compressor(name, algorithm)
    grad = TrialGradient(name, problem)
    state = call_user_code(f"{name}.init", lambda: placed.init(frozen(x), grad))
    require_state(f"{name}.init", algorithm, state, x)
    for array in state:
        frozen(array)
    compresses = getattr(algorithm, "compressor", None) is not None
    t = exchange_interval(algorithm)
    call_user_code(f"{name}.phase", lambda: hash(phase_of(algorithm)(t)))
    mix = _IdentityMix(f"{name}.step", x, place.layer(t).sources, compresses)
    grad.t = t + 1
    state = call_user_code(f"{name}.step", lambda: placed.step(t, state, mix, grad))
    require_state(f"{name}.step", algorithm, state, x)
    if any(result.waited != 1 for result in mix.results):
        raise UserError(f"{name}.step must wait once for each result of mix")
    if t > 1 and not mix.counts:
        raise UserError(f"{name}.step must call mix where t % every == 0, but does not at t = {t}")
    return Trial(tuple(mix.counts), mix.apart or placed.asks)


class _IdentityMix:
    """A mix without messages: each result is the vector itself, or one copy per neighbour."""

    def __init__(
        self, caller: str, x: Array, sources: tuple[int, ...], compresses: bool = False
    ) -> None:
        self._caller = caller
        self._compresses = compresses
        self._x = x
        self._sources = sources
        self.results: list[Pending] = []
        self.counts: list[Any] = []  # the signature of each call
        self.apart = False  # True: `each` was called

    def __call__(self, *vectors: Array) -> "PendingVectors":
        self._check(vectors)
        return self._keep(Pending(vector.copy()) for vector in vectors)

    def each(self, *vectors: Array) -> "PendingVectors":
        self._check(vectors)
        self.apart = True
        return self._keep(
            Pending({source: vector.copy() for source in self._sources}) for vector in vectors
        )

    def compressed(self, *vectors: Array) -> "tuple[tuple[Array, Pending], ...]":
        if not self._compresses:
            raise UserError(f"{self._caller}: mix.compressed needs an attribute `compressor`")
        self._check(vectors, compressed=True)
        kept = self._keep(Pending(vector.copy()) for vector in vectors)
        return tuple((vector.copy(), each) for vector, each in zip(vectors, kept, strict=True))

    def _check(self, vectors: tuple[Array, ...], compressed: bool = False) -> None:
        if not vectors:
            raise UserError(f"{self._caller}: mix was called without a vector")
        what = f"{self._caller}: the argument of mix"
        for vector in vectors:
            require_rows(what, vector, self._x)
        self.counts.append(signature(vectors, self._x, compressed))

    def _keep(self, pending: "Iterable[Pending]") -> "PendingVectors":
        results = PendingVectors(pending)
        self.results.extend(results)
        return results


def frozen(array: Array) -> Array:
    """Make the array read-only, and return it."""
    array.flags.writeable = False
    return array


def require_state(what: str, algorithm: Any, state: Any, x: Array) -> None:
    """Raise UserError unless `state` is a NamedTuple of arrays with one row per seed, and has x."""
    fields = getattr(state, "_fields", ())
    if not isinstance(state, tuple) or "x" not in fields:
        raise UserError(f"{what} must return a NamedTuple with a field x, not {_kind(state)}")
    tracks = getattr(algorithm, "tracks", False)
    for field, array in zip(fields, state, strict=True):
        if field == "x" or (tracks and field in ("s", "g")):
            require_like(f"{what}: {field}", array, x.shape, x.dtype)
        else:
            require_rows(f"{what}: {field}", array, x)
    if tracks and not {"s", "g"} <= set(fields):
        raise UserError(f"{what}: an algorithm that tracks needs s and g in its State")


def require_rows(what: str, value: Any, x: Array) -> None:
    """Raise UserError unless `value` is an array like x, but for its last axis."""
    if isinstance(value, np.ndarray) and value.ndim == x.ndim and value.size:
        require_like(what, value, (*x.shape[:-1], value.shape[-1]), x.dtype)
    else:
        require_like(what, value, x.shape, x.dtype)


def require_like(what: str, value: Any, shape: tuple[int, ...], dtype: Any = None) -> None:
    """Raise UserError unless `value` is an array of this shape and dtype (None: real numbers)."""
    if not isinstance(value, np.ndarray) or isinstance(value, np.matrix):
        raise UserError(f"{what} is {_kind(value)}, not an array of shape {shape}")
    if value.shape != shape:
        raise UserError(f"{what} has shape {value.shape}, not {shape}")
    if value.dtype.kind not in "biuf" if dtype is None else value.dtype != dtype:
        raise UserError(f"{what} has dtype {value.dtype}, not {dtype or 'real numbers'}")


def _kind(value: Any) -> str:
    if callable(getattr(value, "wait", None)):
        return ADVICE
    if inspect.iscoroutine(value):
        value.close()  # else Python warns that nobody has awaited it
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"
