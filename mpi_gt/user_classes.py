"""Users' own algorithms and problems, `my_module:MyClass`: loaded, and checked before a run.

The checks call each method once, on one rank. They find a missing method or a wrong shape in
microseconds, where the run itself would hang or end in one traceback per rank.
"""

import importlib
import json
import sys
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from .errors import UserError
from .spec import convert_options, nearest, parse, split

Array = NDArray[Any]
Made = TypeVar("Made")

METHODS = {"algorithm": ("init", "step"), "problem": ("gradient", "evaluate")}


def is_custom(text: str) -> bool:
    """Return whether `text` is `module:Class[:key=value,...]`, not a registered name.

    After the colon of a registered name comes `key=`.
    """
    _, colon, rest = text.partition(":")
    return bool(colon) and "=" not in rest.partition(":")[0] and bool(rest.strip())


def resolve(kind: str, registry: Mapping[str, Any], text: str) -> tuple[str, Any, dict[str, Any]]:
    """Return the name, class and options of an algorithm or problem, registered or custom."""
    if not is_custom(text) or text.partition(":")[0].strip() in registry:
        return parse(kind, registry, text)
    module, _, rest = text.partition(":")
    name, options = split(rest)
    user_class = _load(kind, module.strip(), name)
    return name, user_class, convert_options(f"{kind} {module}:{name}", user_class, options)


def _load(kind: str, module_name: str, class_name: str) -> type:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    what = f"{kind} {module_name}:{class_name}"
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name != module_name.partition(".")[0] and error.name != module_name:
            raise UserError(f"{what}: {module_name} needs a missing module: {error}") from None
        raise UserError(
            f"{what}: there is no module '{module_name}' in {here} or on the Python path"
        ) from None
    except Exception as error:
        raise UserError(f"{what}: importing the module failed: {located(error)}") from None
    user_class = getattr(module, class_name, None)
    if not isinstance(user_class, type):
        classes = [name for name, thing in vars(module).items() if isinstance(thing, type)]
        raise UserError(f"{what}: the module has no such class{nearest(class_name, classes)}")
    lacking = [name for name in METHODS[kind] if not callable(getattr(user_class, name, None))]
    lacking += sorted(set(getattr(user_class, "__abstractmethods__", ())) - set(lacking))
    if lacking:
        raise UserError(f"{what} lacks {', '.join(f'{name}()' for name in lacking)}")
    return user_class


def located(error: BaseException) -> str:
    """Return the text of an error with the file and line that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{where}"


def call_user_code(what: str, make: Callable[[], Made]) -> Made:
    """Return the result of a user's code; raise UserError with file and line if it fails."""
    try:
        return make()
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{what} failed: {located(error)}") from None


def check_problem(name: str, problem: Any, x: Array) -> None:
    """Raise UserError unless the problem's methods return what a run needs, at x (seeds, dim)."""
    gradient = call_user_code(f"{name}.gradient", lambda: problem.gradient(1, x))
    _require_like(f"{name}.gradient", gradient, x.shape, x.dtype)
    xbar = _frozen(x.astype(np.float64))
    answer = call_user_code(f"{name}.evaluate", lambda: problem.evaluate(xbar))
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise UserError(f"{name}.evaluate must return (loss, gradient), not {_kind(answer)}")
    _require_like(f"{name}.evaluate: the loss", answer[0], x.shape[:-1], None)
    _require_like(f"{name}.evaluate: the gradient", answer[1], x.shape, None)
    if hasattr(problem, "accuracy"):
        accuracy = call_user_code(f"{name}.accuracy", lambda: problem.accuracy(xbar))
        _require_like(f"{name}.accuracy", accuracy, x.shape[:-1], None)
    if hasattr(problem, "test_score"):
        score = call_user_code(f"{name}.test_score", lambda: problem.test_score(xbar))
        _require_like(f"{name}.test_score", score, (len(x) + 1,), None)
    if hasattr(problem, "facts"):
        call_user_code(f"{name}.facts", lambda: json.dumps(problem.facts()))


def check_algorithm(name: str, algorithm: Any, problem: Any, x: Array) -> None:
    """Raise UserError unless init and step return States of arrays like x.

    `mix` here returns each vector unchanged. The arrays passed to the algorithm are read-only,
    and it must wait exactly once for each result of `mix`.
    """

    def gradient(t: int, x: Array) -> Array:
        return _frozen(problem.gradient(t, x))

    state = call_user_code(f"{name}.init", lambda: algorithm.init(_frozen(x), partial(gradient, 1)))
    _require_state(f"{name}.init", algorithm, state, x)
    for array in state:
        _frozen(array)
    mix = _IdentityMix(x)
    state = call_user_code(
        f"{name}.step", lambda: algorithm.step(1, state, mix, partial(gradient, 2))
    )
    _require_state(f"{name}.step", algorithm, state, x)
    if any(result.waited != 1 for result in mix.results):
        raise UserError(f"{name}.step must wait once for each result of mix")


class _IdentityMix:
    """A mix without neighbours: each result is the vector itself."""

    def __init__(self, x: Array) -> None:
        self._x = x
        self.results: list[_Pending] = []

    def __call__(self, *vectors: Array) -> "_PendingVectors":
        for vector in vectors:
            _require_like("the argument of mix", vector, self._x.shape, self._x.dtype)
        results = _PendingVectors(_Pending(vector) for vector in vectors)
        self.results += results
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


def _frozen(array: Array) -> Array:
    """Make the array read-only, and return it."""
    array.flags.writeable = False
    return array


def _require_state(what: str, algorithm: Any, state: Any, x: Array) -> None:
    fields = getattr(state, "_fields", ())
    if "x" not in fields:
        raise UserError(f"{what} must return a NamedTuple with a field x, not {_kind(state)}")
    for field, array in zip(fields, state, strict=True):
        _require_like(f"{what}: {field}", array, x.shape, x.dtype)
    if getattr(algorithm, "tracks", False) and not {"s", "g"} <= set(fields):
        raise UserError(f"{what}: an algorithm that tracks needs s and g in its State")


def _require_like(what: str, value: Any, shape: tuple[int, ...], dtype: Any) -> None:
    if not isinstance(value, np.ndarray):
        raise UserError(f"{what} is {_kind(value)}, not an array of shape {shape}")
    if value.shape != shape:
        raise UserError(f"{what} has shape {value.shape}, not {shape}")
    if dtype is not None and value.dtype != dtype:
        raise UserError(f"{what} has dtype {value.dtype}, not {dtype}")


def _kind(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
