"""The function `run`: one whole run, with one or several algorithms, on all ranks."""

import contextlib
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from ..config import Entry, RunConfig
from ..errors import Diverged, Stopped, UserError
from ..graphs import IN_RANK_ORDER
from ..launchers.detect import OUTCOME
from ..performance.phases import NoPhases
from ..rundir.remains import forget_launches
from . import loop
from .build import Experiment, build, build_stacked
from .channel import channel_facts
from .checkpointer import Checkpointer
from .extent import planned_facts
from .loop import NoRecorder
from .placement import placed_run
from .result import Result
from .resume import ClaimedRun, claim_directory, restore_checkpoint
from .stop import StopRequest
from .watchdog import watch_run

if TYPE_CHECKING:
    from mpi4py import MPI

    from ..performance.profiler import Profiler
    from ..theory.audit import Audit
    from .recorder import Recorder

Array = NDArray[Any]


def run(
    config: RunConfig, comm: "MPI.Intracomm | None" = None, stop: StopRequest | None = None
) -> Result:
    """Carry out one run: all iterations of one or several algorithms.

    Collective: every rank of `comm` calls it. Root measures, records and shows progress.

    Parameters
    ----------
    config : RunConfig
        The run. `config.n`, if given, must be the number of ranks.
    comm : MPI.Intracomm, optional
        The communicator. Only a stacked run can do without.
    stop : StopRequest, optional
        A request of this rank to stop; signals may set it while the run is going on.

    Returns
    -------
    Result
        This rank's output, and on root the metrics and facts as well.

    Raises
    ------
    UserError
        On every rank, if the input does not fit together.
    Diverged
        On every rank, if a value was not finite. All other algorithms were carried out.
    Stopped
        On every rank, if a rank was asked to stop. The run can be resumed.
    """
    with watch_run(config, comm) as watched:
        claimed = claim_directory(config, watched)
        try:
            with contextlib.ExitStack() as stack:
                return _run_claimed(claimed, watched, stop, stack)
        finally:
            claimed.release()


def _run_claimed(
    claimed: ClaimedRun,
    comm: "MPI.Intracomm | None",
    stop: StopRequest | None,
    stack: contextlib.ExitStack,
) -> Result:
    """Carry out a run whose directory is claimed, on ranks that stay placed in this `stack`."""
    config, experiment = claimed.config, None
    try:
        placed = stack.enter_context(placed_run(config, comm))
        comm = placed.comm if placed else comm
        experiment = build(config, comm, placed)
        audit = _audit(experiment, comm) if config.audit else None
        recorder = _recorder(experiment, comm)
    except UserError:
        if experiment is not None:
            experiment.node.free()
        _forget_launches(config, comm)
        claimed.undo()
        raise
    outputs, diverged = _run_all(experiment, recorder, audit, comm, stop)
    if config.lr is not None:
        diverged = []  # a sweep is meant to show which stepsizes are too large
    recorder.close(Diverged.exit_code if diverged else 0)
    experiment.node.free()
    if diverged:
        raise Diverged("; ".join(diverged), recorder.facts)
    directory = None if config.out is None else Path(config.out).absolute()
    rank = None if config.stacked or comm is None else comm.rank
    return Result(outputs, recorder.rows, recorder.facts, recorder.profile, directory, rank)


def _forget_launches(config: RunConfig, comm: "MPI.Intracomm | None") -> None:
    """Leave nothing in a directory that may have to go; a front end looks after its own files."""
    root = comm is not None and comm.rank == 0
    if root and config.out is not None and OUTCOME not in os.environ:
        forget_launches(Path(config.out))


def _run_all(
    experiment: Experiment,
    recorder: "Recorder | NoRecorder",
    audit: "Audit | None",
    comm: "MPI.Intracomm | None",
    stop: StopRequest | None,
) -> tuple[dict[str, Array], list[str]]:
    """Run all algorithms; return their outputs by label, and an error for each that diverged.

    Algorithms that an earlier run has finished are left out of the outputs.
    """
    config, node, directory = experiment.config, experiment.node, experiment.directory
    if not config.stacked and (watchdog := getattr(comm, "watchdog", None)):
        watchdog.attach(node, directory, experiment.hosts)
    with Checkpointer(config, node, directory, experiment.identity, recorder, stop) as checkpointer:
        return _run_entries(experiment, recorder, checkpointer, audit, comm)


def _run_entries(
    experiment: Experiment,
    recorder: "Recorder | NoRecorder",
    checkpointer: Checkpointer,
    audit: "Audit | None",
    comm: "MPI.Intracomm | None",
) -> tuple[dict[str, Array], list[str]]:
    """Run all algorithms from the last checkpoint on; return what `_run_all` does."""
    config = experiment.config
    profiler = _profiler(experiment)
    done: dict[str, str | None] = {}
    if config.resume:
        done = restore_checkpoint(experiment, recorder, checkpointer, comm)
    else:
        recorder.start()
    if profiler is not None and profiler.warning:
        recorder.warn(profiler.warning)
    outputs: dict[str, Array] = {}
    diverged = [f"{label}: {error}" for label, error in done.items() if error is not None]
    for entry in experiment.entries:
        if entry.label in done:
            continue
        try:
            outputs[entry.label] = _run_one(
                experiment, entry, recorder, checkpointer, profiler, audit
            )
        except Diverged as error:
            diverged.append(f"{entry.label}: {error}")
    return outputs, diverged


def _run_one(
    experiment: Experiment,
    entry: Entry,
    recorder: "Recorder | NoRecorder",
    checkpointer: Checkpointer,
    profiler: "Profiler | None",
    audit: "Audit | None",
) -> Array:
    """Run one algorithm, record its results, and return this rank's output."""
    node = experiment.node
    phases = profiler.phases if profiler else NoPhases()
    observe = audit.observe if audit else None
    try:
        x, seconds = loop.solve(experiment, entry, recorder, checkpointer, phases, observe)
    except Diverged as error:
        recorder.end(entry.label, None, str(error))
        raise
    except Stopped as stopped:
        recorder.stop(entry.label, Stopped.exit_code, node.iteration)
        node.free()
        raise Stopped(f"{entry.label} {stopped}") from None
    recorder.end(entry.label, seconds, None)
    if audit:
        recorder.audit(audit.report())
    recorder.add_result(entry.label, "test_accuracy", _test_accuracy(experiment, x, recorder))
    if experiment.config.out is not None:
        recorder.save_output(entry.label, node.stream_to_root(x), (node.nodes, *x.shape[-2:]))
    if profiler:
        recorder.keep_profile(_profile(experiment, profiler, seconds))
    return x


def _profiler(experiment: Experiment) -> "Profiler | None":
    if not experiment.config.profile:
        return None
    from ..performance.profiler import Profiler

    config = experiment.config
    return Profiler(experiment.node, config.iterations, config.trace_window)


def _profile(experiment: Experiment, profiler: "Profiler", seconds: float) -> dict[str, Any]:
    """Return the profile on root, an empty dictionary on the other ranks.

    Collective: every rank calls it. Root makes a short stacked run for comparison.
    """
    from ..comm.collective import on_root

    config, world = experiment.config, experiment.node.world
    stacked = on_root(world, lambda: _stacked_seconds(config, seconds))
    directory = None if config.out is None else Path(config.out)
    return profiler.finish(experiment.facts.get("hosts", []), stacked, directory)


def _stacked_seconds(config: RunConfig, seconds: float) -> float | None:
    """Return the seconds per iteration of the same experiment stacked; None if that fails.

    The stacked run has as many iterations as fit into about half a minute, at most 200.
    """
    one = (config.n or 1) * seconds / config.iterations
    iterations = max(1, min(config.iterations, 200, int(30 / max(one, 1e-9))))
    quick = replace(
        config,
        stacked=True,
        place=IN_RANK_ORDER,
        profile=False,
        trace_iterations=None,
        straggler=None,
        checkpoint_every=None,
        checkpoint_minutes=None,
        checkpoint_staging=None,
        resume=False,
        audit=False,
        out=None,
        iterations=iterations,
        log_every=iterations,
        quiet=True,
    )
    none = NoRecorder()
    try:
        experiment = build_stacked(quick)
        checkpointer = Checkpointer(quick, experiment.node, None, experiment.identity, none, None)
        _, seconds = loop.solve(experiment, experiment.entries[0], none, checkpointer, NoPhases())
    except Exception:  # the run itself is done: it must not fail for the lack of a comparison
        return None
    return seconds / iterations


def _test_accuracy(
    experiment: Experiment, x: Array, recorder: "Recorder | NoRecorder"
) -> float | None:
    """Return the accuracy at xbar over the test data, averaged over seeds; None without test data.

    Collective: every rank calls it. On ranks other than root it returns None.
    """
    if not hasattr(experiment.problem, "test_score"):
        return None
    node = experiment.node
    counts = node.gather(experiment.problem.test_score(node.mean(x)))
    if counts is None:
        return None
    *correct, rows = counts.sum(axis=0).tolist()
    if rows < 0:
        recorder.warn("no test accuracy: the test data was damaged or removed during the run")
    return sum(correct) / len(correct) / rows if rows > 0 else None


def _recorder(experiment: Experiment, comm: "MPI.Intracomm | None") -> "Recorder | NoRecorder":
    """Return the recorder: a Recorder on root, a NoRecorder on the other ranks.

    Collective: every rank calls it. If root cannot make its directory, every rank raises UserError.
    """

    def make() -> "Recorder":
        from .recorder import Recorder  # not on other ranks: it imports figures and tables

        facts = {**experiment.facts, **planned_facts(experiment), **channel_facts(experiment)}
        return Recorder(experiment.config, facts, experiment.extra.names)

    if experiment.config.stacked or comm is None:
        return make()
    from ..comm.collective import on_root

    return on_root(comm, make) or NoRecorder()


def _audit(experiment: Experiment, comm: "MPI.Intracomm | None") -> "Audit":
    """Return the audit that observes each step; on root it evaluates the theory as well.

    Collective: every rank calls it.
    """
    from ..theory.audit import make_audit

    def run_on_root(make: Callable[[], Any]) -> Any:
        if experiment.config.stacked or comm is None:
            return make()
        from ..comm.collective import on_root

        return on_root(comm, make)

    graph = experiment.facts.get("graph", {})
    return make_audit(
        experiment.config,
        experiment.node,
        experiment.problem,
        experiment.constants,
        graph,
        run_on_root,
    )
