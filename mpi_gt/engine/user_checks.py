"""Checks of users' own classes before a run.

They call each method once, on each rank. They find a missing method or a wrong shape in
microseconds, where the run itself would hang or end in one traceback per rank.
"""

import json
import pickle
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..config import RunConfig
from ..errors import UserError
from ..user_classes import call_user_code, is_custom

Array = NDArray[Any]

LARGEST = 2**53  # dimensions of any problem


def check_problem(name: str, problem: Any, x: Array) -> None:
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


def require_agreement(by_node: Sequence[tuple[int, Mapping[str, tuple[int, ...]]]]) -> None:
    """Raise UserError unless all nodes have the same `dim` and mix the same numbers of vectors.

    `by_node` holds these of every node; the numbers are those of each step, by algorithm.
    """
    dim, mixes = by_node[0]
    for node, (other_dim, other_mixes) in enumerate(by_node):
        if other_dim != dim:
            raise UserError(
                f"the problem's dim must be the same on all nodes: it is {dim} on node 0 and "
                f"{other_dim} on node {node}"
            )
        for label, counts in mixes.items():
            if other_mixes[label] != counts:
                raise UserError(
                    f"{label}.step must mix the same numbers of vectors on all nodes: they are "
                    f"{list(counts)} on node 0 and {list(other_mixes[label])} on node {node}"
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
    if facts.get("dim", dim) != dim:
        raise UserError(f"{what} says that dim is {facts['dim']!r}, but the problem's is {dim}")
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


def check_algorithm(name: str, algorithm: Any, problem: Any, x: Array) -> tuple[int, ...]:
    """Raise UserError unless init and step return States of arrays like x.

    Return the number of vectors in each call of `mix` by a step.

    `mix` here returns each vector unchanged. The arrays passed to the algorithm are read-only,
    and it must wait exactly once for each result of `mix`.
    """

    def gradient(t: int, x: Array) -> Array:
        return frozen(problem.gradient(t, x))

    state = call_user_code(f"{name}.init", lambda: algorithm.init(frozen(x), partial(gradient, 1)))
    require_state(f"{name}.init", algorithm, state, x)
    for array in state:
        frozen(array)
    mix = _IdentityMix(f"{name}.step", x)
    state = call_user_code(
        f"{name}.step", lambda: algorithm.step(1, state, mix, partial(gradient, 2))
    )
    require_state(f"{name}.step", algorithm, state, x)
    if any(result.waited != 1 for result in mix.results):
        raise UserError(f"{name}.step must wait once for each result of mix")
    return tuple(mix.counts)


def own_class_warnings(config: RunConfig, mixes: Mapping[str, tuple[int, ...]]) -> list[str]:
    """Return warnings about classes of the user's: no mixing, and bits that are up to them.

    `mixes` holds the number of vectors in each call of `mix`, of each algorithm that is one.
    """
    warnings = [
        f"{name}.step never calls mix: its nodes work on their own, and do not approach each other"
        for name, counts in mixes.items()
        if not counts and (config.n or 1) > 1
    ]
    own = [config.parse_problem()[0]] if is_custom(config.problem) else []
    if config.reproducible and (own := [*own, *mixes]):
        warnings.append(
            f"reproducible: whether {', '.join(own)} gives the same bits on every processor is up "
            "to its code: products of matrices, exp and log of numpy do not"
        )
    return warnings


class _IdentityMix:
    """A mix without neighbours: each result is the vector itself."""

    def __init__(self, caller: str, x: Array) -> None:
        self._caller = caller
        self._x = x
        self.results: list[_Pending] = []
        self.counts: list[int] = []  # of the vectors in each call

    def __call__(self, *vectors: Array) -> "_PendingVectors":
        if not vectors:
            raise UserError(f"{self._caller}: mix was called without a vector")
        what = f"{self._caller}: the argument of mix"
        for vector in vectors:
            require_like(what, vector, self._x.shape, self._x.dtype)
        results = _PendingVectors(_Pending(vector) for vector in vectors)
        self.results += results
        self.counts.append(len(vectors))
        return results


class _Pending:
    """A result of mix that counts how often it is waited for."""

    def __init__(self, value: Array) -> None:
        self._value = value.copy()
        self.waited = 0

    def wait(self) -> Array:
        self.waited += 1
        return self._value


class _PendingVectors(tuple[_Pending, ...]):
    """All results of one call of mix; `wait` is for a call with a single vector."""

    def wait(self) -> Array:
        (only,) = self
        return only.wait()


def frozen(array: Array) -> Array:
    """Make the array read-only, and return it."""
    array.flags.writeable = False
    return array


def require_state(what: str, algorithm: Any, state: Any, x: Array) -> None:
    """Raise UserError unless `state` is a NamedTuple of arrays like x, one of them called x."""
    fields = getattr(state, "_fields", ())
    if not isinstance(state, tuple) or "x" not in fields:
        raise UserError(f"{what} must return a NamedTuple with a field x, not {_kind(state)}")
    for field, array in zip(fields, state, strict=True):
        require_like(f"{what}: {field}", array, x.shape, x.dtype)
    if getattr(algorithm, "tracks", False) and not {"s", "g"} <= set(fields):
        raise UserError(f"{what}: an algorithm that tracks needs s and g in its State")


def require_like(what: str, value: Any, shape: tuple[int, ...], dtype: Any = None) -> None:
    """Raise UserError unless `value` is an array of this shape and dtype (None: real numbers)."""
    if not isinstance(value, np.ndarray):
        raise UserError(f"{what} is {_kind(value)}, not an array of shape {shape}")
    if value.shape != shape:
        raise UserError(f"{what} has shape {value.shape}, not {shape}")
    if value.dtype.kind not in "biuf" if dtype is None else value.dtype != dtype:
        raise UserError(f"{what} has dtype {value.dtype}, not {dtype or 'real numbers'}")


def _kind(value: Any) -> str:
    name = type(value).__name__
    return "None" if value is None else f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"
