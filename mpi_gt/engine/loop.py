"""The loop over the iterations of one algorithm, the only one there is, and its clock."""

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..algorithms.base import exchange_interval
from ..comm.compression import Encoder
from ..config import Entry
from ..fuse import compiled
from ..performance.phases import CHECKPOINT, LOGGING, METRIC, UNATTRIBUTED, NoPhases
from ..problems.straggler import Straggler
from ..user_classes import call_user_code
from .build import Experiment
from .channel import with_rests
from .checkpointer import Checkpointer
from .contracts import full_gradient, kinds_of
from .metrics import measure
from .place import MethodPlace, Placed
from .user_code.guard import GuardedAlgorithm

if TYPE_CHECKING:
    from ..performance.stamps import Phases
    from .recorder import Recorder

Array = NDArray[Any]


class Clock:
    """A clock that can be paused; it starts at `passed` seconds."""

    def __init__(self, passed: float = 0.0) -> None:
        self._started = time.perf_counter() - passed
        self._paused = 0.0
        self._pause_began: float | None = None

    @property
    def seconds(self) -> float:
        now = time.perf_counter() if self._pause_began is None else self._pause_began
        return now - self._started - self._paused

    def pause(self) -> float:
        """Stop the clock until `resume`, and return its seconds."""
        self._pause_began = now = time.perf_counter()
        return now - self._started - self._paused

    def resume(self) -> None:
        assert self._pause_began is not None
        self._paused += time.perf_counter() - self._pause_began
        self._pause_began = None

    @contextmanager
    def paused(self) -> Iterator[None]:
        self.pause()
        try:
            yield
        finally:
            self.resume()


class NoRecorder:
    """The recorder of the ranks other than root: it does nothing."""

    rows: list[dict[str, Any]] = []  # noqa: RUF012 (never filled)
    facts: dict[str, Any] = {}  # noqa: RUF012
    profile: dict[str, Any] = {}  # noqa: RUF012

    def _nothing(self, *arguments: Any) -> None:
        pass

    start = resume = metrics_mark = warn = begin = write = end = add_result = _nothing
    save_output = stop = close = keep_profile = audit = _nothing


class Method:
    """The `init` and `step` of one algorithm on this rank, or on all nodes of a stacked run.

    As a context manager it ends what it has started, the threads of a stacked run node by node.
    """

    def __init__(self, experiment: Experiment, entry: Entry) -> None:
        places, trial = experiment.places, experiment.trials.get(entry.label)

        def guarded(place: MethodPlace, algorithm: Any = entry.algorithm) -> Any:
            if trial is None:  # a class of the package
                return Placed(algorithm, place)
            return GuardedAlgorithm(entry.label, algorithm, trial.counts, place)

        experiment.node.mix_by(kinds_of(entry.algorithm))
        experiment.node.compress_with(_encoders(entry.algorithm, places))
        plain = Placed(entry.algorithm, places[0])
        self._recordable: Placed | None = plain
        self._reproducible = experiment.config.reproducible
        self._close: Callable[[], None] | None = None
        if experiment.config.stacked and (plain.asks or trial is not None):
            from ..comm.by_node import NodeByNode  # few runs need it

            # the arrays of a user's class are (seeds, dim), as on ranks, and so are its own copies
            copies = _copies(entry, len(places))
            problems, rows = [p.problem for p in places], [p.row for p in places]
            gradients = [(each.gradient, full_gradient(each)) for each in problems]
            algorithms = list(map(guarded, places, copies))
            by_node = NodeByNode(algorithms, experiment.node, gradients, experiment.costs, rows)
            self._called: Any = by_node
            self._close = by_node.close
            if plain.asks or (trial is not None and trial.by_node):
                self._recordable = None  # else a recorded step is entrywise, whatever the shape
        else:
            self._called = guarded(places[0])
        self.init: Callable[..., Any] = self._called.init

    def step(self, start: Any) -> Callable[..., Any]:
        """Return the compiled step for States like `start`, or else one that may be guarded."""
        step: Callable[..., Any] = self._called.step
        if self._recordable is None:
            return step
        return compiled(self._recordable, start, step, self._reproducible)

    def __enter__(self) -> "Method":
        return self

    def __exit__(self, *exception: object) -> None:
        if self._close is not None:
            self._close()


def _copies(entry: Entry, count: int) -> list[Any]:
    """Return one object per node: on ranks, what one of them keeps in itself is not another's."""
    return call_user_code(
        f"copying {entry.label} for every node",
        lambda: [copy.deepcopy(entry.algorithm) for _ in range(count)],
        entry.custom,
    )


def solve(
    experiment: Experiment,
    entry: Entry,
    recorder: "Recorder | NoRecorder",
    checkpointer: Checkpointer,
    phases: "Phases | NoPhases",
    observe: Callable[[int, Any, Any], None] | None = None,
) -> tuple[Array, float]:
    """Run all iterations of one algorithm; return this rank's output x and the seconds they took.

    Collective: every rank calls it. `observe(t, before, after)`, if given, is called after each
    step. The seconds leave out measurements, checkpoints and `observe`.
    """
    node, problem = experiment.node, experiment.problem
    tracks = getattr(entry.algorithm, "tracks", False)  # optional in a user's class
    seeds = experiment.config.seed_list
    last, log_interval = experiment.extents[entry.label]
    node.restart()
    recorder.begin(entry.label, last, log_interval)

    def log(t: int, state: Any) -> None:
        # pause()/resume(), not `with clock.paused()`: every rank does this at the same moment, and
        # on crowded cores each further Python call misses the cache
        seconds = clock.pause()
        phases.enter(METRIC)
        measured = measure(node, problem, state, tracks, seeds, experiment.extra)
        if measured is not None:
            phases.enter(LOGGING)
            recorder.write(entry.label, t, seconds, measured)
        phases.enter(UNATTRIBUTED)
        clock.resume()

    # `measure` reports values that are not finite, once
    with np.errstate(all="ignore"), Method(experiment, entry) as method:
        start = method.init(experiment.x1, _first_grad(experiment))
        checkpointer.begin(last, exchange_interval(entry.algorithm))
        begin, state, passed = checkpointer.restore(entry.label, start, experiment.costs[0])
        clock = Clock(passed)
        if begin == 0 or (begin == last and begin % log_interval):
            log(begin, state)
        step = phases.time_step(with_rests(experiment, method.step(start)))
        advance = node.stepper(step, _grad(experiment, phases), last)
        checkpointer.poll_stop(begin + 1)
        t, states = begin, [state]
        del start, state  # only the list may hold states: `advance` reuses the arrays of old ones
        while t < last:
            t = advance(t, states)
            if observe is not None:
                with phases.during(METRIC), clock.paused():
                    observe(t, *states)
            if t % log_interval == 0 or t == last:
                log(t, states[-1])
            if checkpointer.is_due(t):
                with phases.during(CHECKPOINT), clock.paused():
                    checkpointer.save(entry.label, t, states[-1], clock.seconds)
            checkpointer.schedule_next_event(t, log_interval if observe is None else 1)
    phases.close()
    return states[-1].x, clock.seconds


def _encoders(algorithm: Any, places: Sequence[MethodPlace]) -> list[Encoder] | None:
    """Return the encoders of the nodes, None for a method without a compressor."""
    compressor = getattr(algorithm, "compressor", None)  # optional in a user's class
    return None if compressor is None else [Encoder(compressor, each.at) for each in places]


def _first_grad(experiment: Experiment) -> Any:
    """Return the `grad` of `init`."""
    problem = experiment.problem
    return experiment.node.grad(problem.gradient, full_gradient(problem), experiment.costs)


def _grad(experiment: Experiment, phases: "Phases | NoPhases") -> Any:
    """Return the `grad` of the steps, timed in a profile."""
    gradient = phases.time_gradient(_gradient(experiment))
    full = phases.time_gradient(full_gradient(experiment.problem))
    return experiment.node.grad(gradient, full, experiment.costs)


def _gradient(experiment: Experiment) -> Callable[[int, Array], Array]:
    """Return the gradient of this node's problem: its kernel if any, slowed by --straggler."""
    config, problem = experiment.config, experiment.problem
    gradient: Callable[[int, Array], Array] = getattr(problem, "_kernel", None) or problem.gradient
    if config.straggler is not None:
        gradient = Straggler.of(config.straggler).slow(gradient, experiment.node.row.node)
    return gradient
