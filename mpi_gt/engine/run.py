"""One whole run on the ranks that were built for it, and the only loop there is."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from ..config import RunConfig
from ..errors import Diverged, Stopped, UserError
from ..performance.phases import NoPhases
from .build import Experiment, build, build_stacked
from .checkpointer import Checkpointer
from .loop import NoRecorder, solve
from .recorder import Recorder
from .resume import claim_directory, restore_checkpoint
from .stop import StopRequest
from .watchdog import Watchdog

if TYPE_CHECKING:
    from mpi4py import MPI

    from ..performance.profiler import Profiler
    from ..theory.audit import Audit

Array = NDArray[Any]


@dataclass(frozen=True)
class Result:
    """What `run` returns on every rank; `metrics` and `facts` are root's, empty elsewhere."""

    outputs: dict[str, Array]
    """This node's x_{T+1} by algorithm, (seeds, dim); stacked: all nodes', (nodes, seeds, dim)."""
    metrics: list[dict[str, Any]]
    """The rows of metrics.csv."""
    facts: dict[str, Any]
    """The content of run.json."""
    profile: dict[str, Any] = field(default_factory=dict)
    """The content of profile.json, if a profile was asked for."""

    @property
    def x(self) -> Array:
        """The output of the only algorithm."""
        (only,) = self.outputs.values()
        return only


def run(
    config: RunConfig, comm: "MPI.Intracomm | None" = None, stop: StopRequest | None = None
) -> Result:
    """One whole run. Every rank of `comm` calls it; root measures, records and shows.

    `stop` is this rank's, and may be asked by signals; Stopped is then raised on every rank.
    """
    config, take_back = claim_directory(config, comm)
    experiment = None
    try:
        experiment = build(config, comm)
        audit = _audit(experiment, comm) if config.audit else None
        recorder = _recorder(experiment, comm)
    except UserError:
        if experiment is not None:
            experiment.node.free()
        take_back()
        raise
    node, directory = experiment.node, experiment.directory
    checkpointer = Checkpointer(config, node, directory, experiment.identity, recorder, stop)
    profiler = _profiler(experiment)
    phases = profiler.phases if profiler else NoPhases()
    observe = audit.observe if audit else None
    outputs: dict[str, Array] = {}
    diverged: list[str] = []
    done: dict[str, str | None] = {}
    if config.resume:
        assert directory is not None
        labels = [entry.label for entry in experiment.entries]
        done = restore_checkpoint(
            config, directory, labels, experiment.identity, recorder, checkpointer, comm
        )
    else:
        recorder.start()
    diverged += [f"{label}: {error}" for label, error in done.items() if error is not None]
    with Watchdog(node, 0 if config.stacked else config.watchdog, directory, experiment.hosts):
        for entry in experiment.entries:
            if entry.label in done:
                continue
            try:
                x, seconds = solve(experiment, entry, recorder, checkpointer, phases, observe)
            except Diverged as error:
                diverged.append(f"{entry.label}: {error}")
                recorder.end(entry.label, None, str(error))
                continue
            except Stopped as stopped:
                recorder.stop(entry.label, Stopped.exit_code, node.iteration)
                node.free()
                raise Stopped(f"{entry.label} {stopped}") from None
            recorder.end(entry.label, seconds, None)
            if audit:
                recorder.audit(audit.report())
            recorder.add_result(entry.label, "test_accuracy", _test_accuracy(experiment, x))
            outputs[entry.label] = x
            if config.out is not None:
                recorder.save_output(
                    entry.label, node.stream_to_root(x), (node.nodes, *x.shape[-2:])
                )
            if profiler:
                recorder.keep_profile(_profile(experiment, profiler, seconds))
    if config.lr is not None:
        diverged = []  # some stepsizes of a sweep are too large: that is what it shows
    recorder.close(Diverged.exit_code if diverged else 0)
    node.free()
    if diverged:
        raise Diverged("; ".join(diverged), recorder.facts)
    return Result(outputs, recorder.rows, recorder.facts, recorder.profile)


def _profiler(experiment: Experiment) -> "Profiler | None":
    if not experiment.config.profile:
        return None
    from ..performance.profiler import Profiler

    config = experiment.config
    return Profiler(experiment.node, config.iterations, config.trace_window)


def _profile(experiment: Experiment, profiler: "Profiler", seconds: float) -> dict[str, Any]:
    """The profile, on root (else empty), with a short stacked run for comparison."""
    from ..comm.collective import on_root

    config, world = experiment.config, experiment.node.world
    stacked = on_root(world, lambda: _stacked_seconds(config, seconds))
    directory = None if config.out is None else Path(config.out)
    return profiler.report(experiment.facts.get("hosts", []), stacked, directory)


def _stacked_seconds(config: RunConfig, seconds: float) -> float | None:
    """Seconds an iteration of the same experiment without communication; None where it fails.

    All nodes' work in one process, for some iterations: as many as that may do in half a minute.
    """
    one = (config.n or 1) * seconds / config.iterations
    iterations = max(1, min(config.iterations, 200, int(30 / max(one, 1e-9))))
    quick = replace(
        config,
        stacked=True,
        profile=False,
        trace_iterations=None,
        straggler=None,
        checkpoint_every=None,
        checkpoint_minutes=None,
        resume=False,
        audit=False,
        out=None,
        iterations=iterations,
        log_every=iterations,
        quiet=True,
    )
    nobody = NoRecorder()
    try:
        experiment = build_stacked(quick)
        checkpointer = Checkpointer(quick, experiment.node, None, experiment.identity, nobody, None)
        _, seconds = solve(experiment, experiment.entries[0], nobody, checkpointer, NoPhases())
    except Exception:  # a comparison only: not the end of a run that is done
        return None
    return seconds / iterations


def _test_accuracy(experiment: Experiment, x: Array) -> float | None:
    """At xbar over the whole test part, mean over seeds; on root, where there is such a part."""
    if not hasattr(experiment.problem, "test_score"):
        return None
    node = experiment.node
    counts = node.gather(experiment.problem.test_score(node.mean(x)))
    if counts is None:
        return None
    *correct, rows = counts.sum(axis=0).tolist()
    return sum(correct) / len(correct) / rows if rows else None


def _recorder(experiment: Experiment, comm: "MPI.Intracomm | None") -> Recorder | NoRecorder:
    """Root's recorder, or an error on every rank where its directory cannot be made."""

    def make() -> Recorder:
        return Recorder(experiment.config, experiment.facts)

    if experiment.config.stacked or comm is None:
        return make()
    from ..comm.collective import on_root

    return on_root(comm, make) or NoRecorder()


def _audit(experiment: Experiment, comm: "MPI.Intracomm | None") -> "Audit":
    """What looks at each step of the run; root's knows the theory as well."""
    from ..theory.audit import make_audit

    def ask(make: Callable[[], Any]) -> Any:
        if experiment.config.stacked or comm is None:
            return make()
        from ..comm.collective import on_root

        return on_root(comm, make)

    graph = experiment.facts.get("graph", {})
    return make_audit(
        experiment.config, experiment.node, experiment.problem, experiment.constants, graph, ask
    )
