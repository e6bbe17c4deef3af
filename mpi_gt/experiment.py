"""Building one experiment from its configuration, and the only loop that runs it."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from . import machine
from .config import AUTO, Entry, RunConfig
from .constants import constants_of
from .custom import attempt, is_custom, located, try_algorithm, try_problem
from .errors import Diverged, Stopped, UserError
from .files import cast, read_array
from .fuse import compiled
from .graphs import build_network
from .identity import identify
from .keeper import Keeper
from .metrics import measure
from .problems import Place, Problem
from .profiling import CHECKPOINT, LOGGING, METRIC, Clock, NoPhases
from .record import NoRecorder, Recorder
from .resume import announce, take_up
from .stacked import StackedNode, StackedProblem
from .stopping import StopRequest
from .straggler import Straggler
from .watchdog import Watchdog

if TYPE_CHECKING:
    from mpi4py import MPI

    from .audit import Audit
    from .phases import Phases
    from .profile import Profiler

Array = NDArray[Any]


@dataclass
class Experiment:
    """What one rank holds of a run."""

    config: RunConfig
    node: Any  # a Node, or a StackedNode
    problem: Any  # a Problem, or a StackedProblem
    entries: list[Entry]
    x1: Array
    facts: dict[str, Any]  # on root: what run.json says of graph and machine
    directory: Path | None  # where all ranks write, as root sees it
    identity: str  # of what decides the numbers
    hosts: list[str] = field(default_factory=list)  # of the neighbours
    constants: Array | None = None  # this node's, for an audit


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


def build(config: RunConfig, comm: "MPI.Intracomm | None") -> Experiment:
    """Every rank's part of the run; a UserError, on all, where the input does not fit together."""
    if config.stacked:
        return _build_stacked(config)
    if comm is None:
        raise UserError("a run needs an MPI communicator, or stacked=True")
    from .agree import first_of_host, on_root, together
    from .exchange import EXCHANGES
    from .node import Node

    if config.n not in (None, comm.size):
        raise UserError(f"-n {config.n} was asked for, but there are {comm.size} MPI ranks")
    config = replace(config, n=comm.size)
    config.check_laboratory()
    ranks = comm.gather(machine.rank_facts())
    facts: dict[str, Any] = {}
    first = first_of_host(comm)
    together(comm, lambda: _prepare(config) if first else None)

    def plan() -> list[tuple[Any, ...]]:
        """What each rank is sent. Root keeps no more of it than the others do."""
        network = build_network(config.graph, config.weights, comm.size)
        facts.update(machine.run_facts(ranks), graph=network.facts())
        identity, directory = identify(config, network.matrix, facts)
        parts, starts = _problem_parts(config, comm.size), _starts(config, comm.size)
        hosts = facts["hosts"]
        rows = [network.row(node) for node in range(comm.size)]
        return [
            (row, parts[row.node], starts[row.node], [hosts[j] for j in row.neighbours],
             identity, directory)
            for row in rows
        ]  # fmt: skip

    row, part, start, hosts, identity, directory = comm.scatter(on_root(comm, plan))
    auto = config.exchange == AUTO
    node = Node(comm, row, EXCHANGES["neighbor" if auto else config.exchange])
    place = Place(comm.rank, comm.size, config.seed_list, config.numpy_dtype, part)

    def make() -> tuple[Problem, Array, list[Entry], Array | None]:
        problem = _make_problem(config, place)
        x1 = _first_estimate(config, problem.dim, start)
        entries = _tried_entries(config, problem, x1)
        return problem, x1, entries, constants_of(config, problem) if config.audit else None

    try:
        problem, x1, entries, constants = together(comm, make)
        facts["exchange"] = _settle_exchange(node, auto, 2 * x1.nbytes)
    except UserError:
        node.free()
        raise
    facts["problem"] = _problem_facts(problem)
    return Experiment(
        config, node, problem, entries, x1, facts, directory, identity, hosts, constants
    )


def _settle_exchange(node: Any, auto: bool, payload: int) -> dict[str, Any]:
    """Which exchange it is, and with `auto` what was measured; an error where MPI lacks it."""
    from .exchange import EXCHANGES
    from .rig import fastest, obstacle

    if auto:
        chosen, seconds, missing = fastest(node, payload)
        node.way = EXCHANGES[chosen]
        return {"name": chosen, "auto": seconds, "missing": missing}
    name = next(name for name, way in EXCHANGES.items() if way is node.way)
    reason = obstacle(node, node.way, trial=False)
    if reason is not None:
        raise UserError(f"exchange {name} cannot be used here: {reason}")
    return {"name": name}


def _build_stacked(config: RunConfig) -> Experiment:
    if config.n is None:
        raise UserError("a stacked run needs the number of nodes: -n N")
    _prepare(config)
    n = config.n
    network = build_network(config.graph, config.weights, n)
    problems = [
        _make_problem(config, Place(node, n, config.seed_list, config.numpy_dtype, part))
        for node, part in enumerate(_problem_parts(config, n))
    ]
    problem = StackedProblem(problems)
    x1 = np.stack([_first_estimate(config, problem.dim, start) for start in _starts(config, n)])
    x1.flags.writeable = False
    node = StackedNode(network.matrix, np.array([network.graph.degree[i] for i in range(n)]))
    entries = _tried_entries(config, problems[0], x1[0])
    facts = {**machine.run_facts(None), "graph": network.facts()}
    facts["problem"] = _problem_facts(problems[0])
    identity, directory = identify(config, network.matrix, facts)
    known = np.stack([constants_of(config, each) for each in problems]) if config.audit else None
    return Experiment(config, node, problem, entries, x1, facts, directory, identity, [], known)


def run(
    config: RunConfig, comm: "MPI.Intracomm | None" = None, stop: StopRequest | None = None
) -> Result:
    """One whole run. Every rank of `comm` calls it; root measures, records and shows.

    `stop` is this rank's, and may be asked by signals; Stopped is then raised on every rank.
    """
    config, take_back = announce(config, comm)
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
    keeper = Keeper(config, node, directory, experiment.identity, recorder, stop)
    profiler = _profiler(experiment)
    phases = profiler.phases if profiler else NoPhases()
    observe = audit.observe if audit else None
    outputs: dict[str, Array] = {}
    diverged: list[str] = []
    done: dict[str, str | None] = {}
    if config.resume:
        assert directory is not None
        labels = [entry.label for entry in experiment.entries]
        done = take_up(config, directory, labels, experiment.identity, recorder, keeper, comm)
    else:
        recorder.start()
    diverged += [f"{label}: {error}" for label, error in done.items() if error is not None]
    with Watchdog(node, 0 if config.stacked else config.watchdog, directory, experiment.hosts):
        for entry in experiment.entries:
            if entry.label in done:
                continue
            try:
                x, seconds = solve(experiment, entry, recorder, keeper, phases, observe)
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
            recorder.add(entry.label, "test_accuracy", _test_accuracy(experiment, x))
            outputs[entry.label] = x
            if config.out is not None:
                recorder.save(entry.label, node.collect(x), (node.nodes, *x.shape[-2:]))
            if profiler:
                recorder.keep_profile(_profile(experiment, profiler, seconds))
    if config.lr is not None:
        diverged = []  # some stepsizes of a sweep are too large: that is what it shows
    recorder.close(Diverged.exit_code if diverged else 0)
    node.free()
    if diverged:
        raise Diverged("; ".join(diverged), recorder.facts)
    return Result(outputs, recorder.rows, recorder.facts, recorder.profile)


def solve(
    experiment: Experiment,
    entry: Entry,
    recorder: Recorder | NoRecorder,
    keeper: Keeper,
    phases: "Phases | NoPhases",
    observe: Callable[[int, Any, Any], None] | None = None,
) -> tuple[Array, float]:
    """All iterations of one algorithm: the only loop. Its output and its seconds.

    `observe(t, before, after)` sees each step; its time is not counted.
    """
    config, node, problem = experiment.config, experiment.node, experiment.problem
    algorithm = entry.algorithm
    gradient = problem.gradient
    if config.straggler is not None:
        gradient = Straggler.of(config.straggler).slow(gradient, node.row.node)
    gradient = phases.watch_gradient(gradient)
    tracks = getattr(algorithm, "tracks", False)  # a user's class need not say
    node.restart()
    recorder.begin(entry.label)

    def log(t: int, state: Any) -> None:
        with phases.during(METRIC), clock.paused():
            measured = measure(node, problem, state, tracks, config.seed_list)
            with phases.during(LOGGING):
                recorder.write(entry.label, t, clock.seconds, measured)

    with np.errstate(all="ignore"):  # a value past all bounds is found by `measure`, once
        start = algorithm.init(experiment.x1, partial(problem.gradient, 1))
        begin, state, passed = keeper.restore(entry.label, start)
        clock = Clock(passed)
        if begin == 0 or (begin == config.iterations and begin % config.stride):
            log(begin, state)
        step = phases.watch_step(compiled(algorithm, start))
        for t in range(begin + 1, config.iterations + 1):
            node.iteration = t
            keeper.attend(t)
            before = state
            state = step(t, state, node.mix, partial(gradient, t + 1))
            if observe is not None:
                with phases.during(METRIC), clock.paused():
                    observe(t, before, state)
            if t % config.stride == 0 or t == config.iterations:
                log(t, state)
            if keeper.is_due(t):
                with phases.during(CHECKPOINT), clock.paused():
                    keeper.save(entry.label, t, state, clock.seconds)
    phases.close()
    return state.x, clock.seconds


def _profiler(experiment: Experiment) -> "Profiler | None":
    if not experiment.config.profile:
        return None
    from .profile import Profiler

    config = experiment.config
    return Profiler(experiment.node, config.iterations, config.trace_window)


def _profile(experiment: Experiment, profiler: "Profiler", seconds: float) -> dict[str, Any]:
    """The profile, on root (else empty), with a short stacked run for comparison."""
    from .agree import on_root

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
        experiment = _build_stacked(quick)
        keeper = Keeper(quick, experiment.node, None, experiment.identity, nobody, None)
        _, seconds = solve(experiment, experiment.entries[0], nobody, keeper, NoPhases())
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
    from .agree import on_root

    return on_root(comm, make) or NoRecorder()


def _audit(experiment: Experiment, comm: "MPI.Intracomm | None") -> "Audit":
    """What looks at each step of the run; root's knows the theory as well."""
    from .audit import make_audit

    def ask(make: Callable[[], Any]) -> Any:
        if experiment.config.stacked or comm is None:
            return make()
        from .agree import on_root

        return on_root(comm, make)

    graph = experiment.facts.get("graph", {})
    return make_audit(
        experiment.config, experiment.node, experiment.problem, experiment.constants, graph, ask
    )


def _prepare(config: RunConfig) -> None:
    name, kind, options = config.parse_problem()
    if hasattr(kind, "prepare"):
        say = _say_nothing if config.quiet else _say
        attempt(f"problem {name}: prepare", lambda: kind.prepare(config.data_dir, say, **options))


def _say(text: str) -> None:
    """Long work on files is told on standard error, by the one rank that does it."""
    print(f"mpi-gt: {text}", file=sys.stderr, flush=True)


def _say_nothing(text: str) -> None:
    pass


def _problem_parts(config: RunConfig, nodes: int) -> list[Any]:
    name, kind, options = config.parse_problem()
    if not hasattr(kind, "parts"):
        return [None] * nodes
    parts = attempt(f"problem {name}: parts", lambda: kind.parts(nodes, **options))
    if parts is not None and len(parts) != nodes:
        raise UserError(f"problem {name}: parts gave {len(parts)} parts for {nodes} nodes")
    return parts or [None] * nodes


def _make_problem(config: RunConfig, place: Place) -> Problem:
    name, kind, options = config.parse_problem()
    try:
        problem: Problem = kind(place, **options)
    except UserError:
        raise
    except ValueError as error:
        raise UserError(f"problem {name}: {error}") from None
    except MemoryError as error:
        raise UserError(f"problem {name} does not fit into memory: {error}") from None
    except Exception as error:
        raise UserError(f"problem {name} failed: {located(error)}") from None
    if not isinstance(getattr(problem, "dim", None), int | np.integer):
        raise UserError(f"problem {name} has no whole number `dim`")
    return problem


def _problem_facts(problem: Problem) -> dict[str, Any]:
    return {"dim": int(problem.dim), **(problem.facts() if hasattr(problem, "facts") else {})}


def _tried_entries(config: RunConfig, problem: Problem, x1: Array) -> list[Entry]:
    """The algorithms; users' own classes only after a trial."""
    if is_custom(config.problem):
        try_problem(config.parse_problem()[0], problem, x1)
    entries = config.entries()
    for entry in entries:
        if entry.custom:
            try_algorithm(entry.label, entry.algorithm, problem, x1)
    return entries


def _starts(config: RunConfig, nodes: int) -> list[Array | None]:
    """Each node's x_1 from the file, if there is one."""
    if config.x1 is None:
        return [None] * nodes
    x1 = read_array(Path(config.x1))
    if x1.ndim not in (1, 2) or (x1.ndim == 2 and len(x1) != nodes):
        raise UserError(f"{config.x1} has shape {x1.shape}, not (d,) or ({nodes}, d)")
    return list(np.broadcast_to(x1, (nodes, x1.shape[-1])))


def _first_estimate(config: RunConfig, dim: int, start: Array | None) -> Array:
    """x_1 of one node for all seeds: zeros, unless given."""
    x1 = np.zeros((config.seeds, dim), config.numpy_dtype)
    if start is not None and len(start) != dim:
        raise UserError(f"{config.x1} is for {len(start)} dimensions, but the problem has {dim}")
    if start is not None:
        x1[:] = cast(str(config.x1), start, config.numpy_dtype)
    x1.flags.writeable = False  # several algorithms start from it
    return x1
