"""Users' own classes, `my_module:MyClass`: loading them, and a trial before the run.

The trial finds what a class lacks or returns in a wrong shape on one rank, in microseconds,
where the run itself would hang or end in sixteen tracebacks.
"""

import importlib
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
    """`module:Class[:key=value,...]`; after the colon of a registered name comes `key=`."""
    _, colon, rest = text.partition(":")
    return bool(colon) and "=" not in rest.partition(":")[0] and bool(rest.strip())


def resolve(kind: str, registry: Mapping[str, Any], text: str) -> tuple[str, Any, dict[str, Any]]:
    """The name, class and options of a registered or of a user's own algorithm or problem."""
    if not is_custom(text):
        return parse(kind, registry, text)
    module, _, rest = text.partition(":")
    name, options = split(rest)
    found = _load(kind, module.strip(), name)
    return name, found, convert_options(f"{kind} {module}:{name}", found, options)


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
    found = getattr(module, class_name, None)
    if not isinstance(found, type):
        classes = [name for name, thing in vars(module).items() if isinstance(thing, type)]
        raise UserError(f"{what}: the module has no such class{nearest(class_name, classes)}")
    lacking = [name for name in METHODS[kind] if not callable(getattr(found, name, None))]
    lacking += sorted(set(getattr(found, "__abstractmethods__", ())) - set(lacking))
    if lacking:
        raise UserError(f"{what} lacks {', '.join(f'{name}()' for name in lacking)}")
    return found


def located(error: BaseException) -> str:
    """The error with the file and line that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{where}"


def attempt(what: str, make: Callable[[], Made]) -> Made:
    """What a user's code gives; where it fails, one error that says where."""
    try:
        return make()
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{what} failed: {located(error)}") from None


def try_problem(name: str, problem: Any, x: Array) -> None:
    """Whether gradient and evaluate give what a run needs of them, at x (seeds, dim)."""
    gradient = attempt(f"{name}.gradient", lambda: problem.gradient(1, x))
    _require_like(f"{name}.gradient", gradient, x.shape, x.dtype)
    answer = attempt(f"{name}.evaluate", lambda: problem.evaluate(x.astype(np.float64)))
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise UserError(f"{name}.evaluate must return (loss, gradient), not {_kind(answer)}")
    _require_like(f"{name}.evaluate: the loss", answer[0], x.shape[:-1], None)
    _require_like(f"{name}.evaluate: the gradient", answer[1], x.shape, None)


def try_algorithm(name: str, algorithm: Any, problem: Any, x: Array) -> None:
    """Whether init and step give States of arrays like x, with a mix that brings nothing."""
    state = attempt(f"{name}.init", lambda: algorithm.init(x, partial(problem.gradient, 1)))
    _require_state(f"{name}.init", algorithm, state, x)
    gradient = partial(problem.gradient, 2)
    state = attempt(f"{name}.step", lambda: algorithm.step(1, state, _no_mix, gradient))
    _require_state(f"{name}.step", algorithm, state, x)


class _Still:
    def __init__(self, value: Array) -> None:
        self._value = value

    def wait(self) -> Array:
        return self._value.copy()


class _Stills(tuple[_Still, ...]):
    def wait(self) -> Array:
        (only,) = self
        return only.wait()


def _no_mix(*vectors: Array) -> _Stills:
    return _Stills(_Still(vector) for vector in vectors)


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
