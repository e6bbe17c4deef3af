"""Guards around users' own classes while a run iterates.

A class that passes the checks may still fail later, on some ranks only: it raises, returns another
shape or dtype, writes into its inputs, or mixes more or fewer vectors than its neighbours. Each of
these ends the run with a message that names class, method and iteration. Built-in classes, and
steps that are compiled, run without a guard.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...algorithms.base import exchange_interval
from ...errors import UserCodeError, UserError
from ...user_classes.failures import blame
from ..contracts import counted, phase_of, signature
from ..place import MethodPlace, Placed
from .checks import (
    frozen,
    require_evaluation,
    require_like,
    require_metrics,
    require_rows,
    require_state,
)

Array = NDArray[Any]

EVERY_STEP = "every step must mix the same numbers of vectors, on every node"


class GuardedProblem:
    """A user's problem whose results are checked at each call; its inputs are read-only."""

    def __init__(self, name: str, problem: Any, metrics: tuple[str, ...] = ()) -> None:
        self._name = name
        self._problem = problem
        self._metrics = metrics  # the names of its own metrics when it was tried out
        self.dim = int(problem.dim)

    def __getattr__(self, name: str) -> Any:
        """Return an optional method, or whatever else the user's problem has."""
        value = getattr(self._problem, name)
        if name not in ("accuracy", "test_score"):
            return value

        def score(x: Array) -> Any:
            shape = (len(x) + (name == "test_score"),)
            what = f"{self._name}.{name}"
            return self._call(what, value, x, lambda made: require_like(what, made, shape))

        return score

    def gradient(self, t: int, x: Array) -> Array:
        try:
            result: Array = self._problem.gradient(t, frozen(x.view()))
        except BaseException as error:
            raise blame(error, f"{self._name}.gradient with t = {t}")  # noqa: B904 (the same error)
        if not _is_alike(result, x):
            what = f"{self._name}.gradient"
            _require(f"t = {t}", lambda: require_like(what, result, x.shape, x.dtype))
        return frozen(result)

    def evaluate(self, x: Array) -> Any:
        def check(answer: Any) -> None:
            require_evaluation(self._name, answer, x.shape)

        return self._call(f"{self._name}.evaluate", self._problem.evaluate, x, check)

    def metrics(self, x: Array) -> Any:
        what = f"{self._name}.metrics"

        def check(made: Any) -> None:
            require_metrics(what, made, x, self._metrics)

        return self._call(what, self._problem.metrics, x, check)

    def _call(
        self, what: str, method: Callable[[Array], Any], x: Array, check: Callable[[Any], None]
    ) -> Any:
        try:
            result = method(frozen(x))
        except BaseException as error:
            raise blame(error, what)  # noqa: B904 (the same error)
        _require("", lambda: check(result))
        return result


class GuardedAlgorithm:
    """A user's algorithm whose States and calls of `mix` are checked; its States are read-only.

    `counts` holds the signature of each call of `mix` when the step was tried out. It is the same
    on all ranks, so that no rank sends what its neighbours do not wait for. Steps of another
    `phase(t)` may mix otherwise: the first of them shows how. An algorithm with `varies = True`
    promises that its numbers change on all nodes alike.
    """

    def __init__(
        self, label: str, algorithm: Any, counts: tuple[int, ...], place: MethodPlace
    ) -> None:
        self._label = label
        self._algorithm = algorithm
        self._placed = Placed(algorithm, place)
        self._phase = partial(_phase_at, label, phase_of(algorithm))
        self._counts_by_phase = {self._phase(exchange_interval(algorithm)): counts}
        self._expected: tuple[Any, ...] | None = counts  # None: this phase is new
        self._made: list[Any] = []  # the signatures of this step's calls of `mix`
        self._varies = bool(getattr(algorithm, "varies", False))
        self._fields: tuple[str, ...] = ()
        self._like = np.empty(0)  # of the shape and dtype of x, without memory of its own
        self._mix: Any = None
        self._checked_mix = _CheckedMix(self)

    def init(self, x: Array, grad: Callable[[Array], Array]) -> Any:
        what = f"{self._label}.init"
        try:
            state = self._placed.init(x, grad)
        except BaseException as error:
            raise blame(error, what)  # noqa: B904 (the same error)
        self._like = np.broadcast_to(np.zeros((), x.dtype), x.shape)
        _require("", lambda: require_state(what, self._algorithm, state, self._like))
        self._fields = state._fields
        self._shapes = [array.shape for array in state]
        for array in state:
            frozen(array)
        return state

    def step(self, t: int, state: Any, mix: Any, grad: Any) -> Any:
        self._mix, self._made = mix, []
        self._expected = self._counts_by_phase.get(self._phase(t))
        try:
            made = self._placed.step(t, state, self._checked_mix, grad)
        except BaseException as error:
            raise blame(error, f"{self._label}.step at iteration {t}")  # noqa: B904
        self._require_step(t, made)
        for array in made:
            frozen(array)
        return made

    def _require_step(self, t: int, made: Any) -> None:
        what, at = f"{self._label}.step", f"iteration {t}"
        calls = len(self._made)
        if self._expected is None:
            self._counts_by_phase[self._phase(t)] = tuple(self._made)
        elif calls != len(self._expected) and not (self._varies and calls):
            text = f"called mix {len(self._expected)} times in the first step and {calls} now"
            _require(at, lambda: _complain(f"{what} {text}: {EVERY_STEP}"))
        if not calls and self._expected != () and t % exchange_interval(self._algorithm) == 0:
            text = "did not call mix, where its neighbours may have something to tell: set `every`"
            _require(at, lambda: _complain(f"{what} {text}"))
        if getattr(made, "_fields", None) != self._fields:
            _require(at, lambda: require_state(what, self._algorithm, made, self._like))
            now, before = ", ".join(made._fields), ", ".join(self._fields)
            text = f"the State has the fields {now}, but had {before} before"
            _require(at, lambda: _complain(f"{what}: {text}"))
        for name, array, shape in zip(made._fields, made, self._shapes, strict=True):
            if type(array) is not np.ndarray or array.shape != shape:
                _require(at, partial(require_like, f"{what}: {name}", array, shape))
            if array.dtype != self._like.dtype:
                _require(at, lambda: require_state(what, self._algorithm, made, self._like))

    def checked(self, vectors: tuple[Array, ...], compressed: bool = False) -> Any:
        """Return the mix of this step; raise UserCodeError if these vectors are not expected."""
        for vector in vectors:
            if not _is_alike(vector, self._like):
                try:
                    require_rows("the argument of mix", vector, self._like)
                except UserError as error:
                    raise UserCodeError(str(error)) from None
        made, calls = signature(vectors, self._like, compressed), len(self._made)
        self._made.append(made)
        if self._expected is not None and not self._varies:
            expected = self._expected[calls] if calls < len(self._expected) else 0
            if made != expected:
                raise UserCodeError(
                    f"call {calls + 1} of mix had {counted(expected)} in the first step "
                    f"and has {made if expected and isinstance(made, int) else counted(made)} "
                    f"now: {EVERY_STEP}"
                )
        return self._mix


class _CheckedMix:
    """The `mix` that a guarded step gets."""

    def __init__(self, guard: GuardedAlgorithm) -> None:
        self._guard = guard

    def __call__(self, *vectors: Array) -> Any:
        return self._guard.checked(vectors)(*vectors)

    def each(self, *vectors: Array) -> Any:
        return self._guard.checked(vectors).each(*vectors)

    def compressed(self, *vectors: Array) -> Any:
        return self._guard.checked(vectors, compressed=True).compressed(*vectors)


def _is_alike(value: Any, like: Array) -> bool:
    return type(value) is np.ndarray and value.shape == like.shape and value.dtype == like.dtype


def _phase_at(label: str, phase: Callable[[int], Any], t: int) -> Any:
    """Return the algorithm's phase at iteration t, which has to be hashable."""
    try:
        found = phase(t)
        hash(found)
    except BaseException as error:
        raise blame(error, f"{label}.phase at iteration {t}")  # noqa: B904 (the same error)
    return found


def _complain(text: str) -> None:
    raise UserError(text)


def _require(at: str, check: Callable[[], None]) -> None:
    """Call `check`; raise its UserError as one of the user's code, which ends the run."""
    try:
        check()
    except UserError as error:
        text = f"{error} (at {at})" if at else str(error)
        raise blame(UserCodeError(text), "") from None
