"""Building a run on every rank from its configuration: graph row, problem, algorithms, x_1."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import machine
from ..channels import Channel
from ..config import AUTO, Entry, RunConfig
from ..errors import UserError
from ..kernels.fixed_order import require_kernels
from ..memory import VECTORS, require_memory
from ..problems import Place, Problem
from ..rundir.host_folder import record_launch
from ..rundir.staging import require_scratch
from ..user_classes import call_user_code, construct, is_custom, require_attributes
from ..user_classes.failures import reported_failures
from .channel import connect
from .contracts import Costs, costs_of, largest, require_graph
from .extent import Extent, extents_of, targets_of
from .extra_columns import NO_EXTRA, ExtraColumns, metric_names
from .place import MethodPlace
from .placement import facts_of_placement, network_of, require_ranks
from .start import first_estimate, problem_parts, read_starts
from .user_code.checks import (
    Agreement,
    Trial,
    Tried,
    check_problem,
    known_least,
    pack_parts,
    problem_facts,
    require_agreement,
    require_dimension,
    unpack_part,
)
from .user_code.guard import GuardedProblem
from .user_code.trials import agreement_of, own_class_warnings, try_entries

if TYPE_CHECKING:
    from mpi4py import MPI

    from ..comm.placement import PlacedRanks

Array = NDArray[Any]


@dataclass
class Experiment:
    """One rank's objects of a run."""

    config: RunConfig
    node: Any  # a Node, or a StackedNode
    problem: Any  # a Problem, or a StackedProblem
    entries: list[Entry]
    x1: Array
    facts: dict[str, Any]  # on root: the facts of graph, problem and machine for run.json
    directory: Path | None  # the run directory, by the path that root sees
    identity: str  # the hash of the run's identity
    hosts: dict[int, str] = field(default_factory=dict)  # by neighbour
    constants: Array | None = None  # this node's problem constants, for an audit
    trials: dict[str, Trial] = field(default_factory=dict)
    """The findings of trying out each algorithm that is a user's own class."""
    places: list[MethodPlace] = field(default_factory=list)
    """The places of this rank's algorithms: one, or in a stacked run those of all nodes."""
    extra: ExtraColumns = NO_EXTRA
    costs: Costs = (1, 1)  # sample gradients per call of `grad` and of `grad.full`
    extents: dict[str, Extent] = field(default_factory=dict)  # by label
    channel: Channel | None = None  # None: all messages arrive as they were sent


def build(
    config: RunConfig, comm: "MPI.Intracomm | None", placed: "PlacedRanks | None" = None
) -> Experiment:
    """Build this rank's objects of the run; `placed` has a `comm` in the order of the nodes.

    Collective: every rank calls it. If the input does not fit together, all ranks raise UserError.
    """
    if config.stacked:
        with reported_failures("this run"):
            return build_stacked(config)
    if comm is None:
        raise UserError("a run needs an MPI communicator, or stacked=True")
    from ..comm.collective import on_every_rank, on_root, place_on_host
    from ..comm.exchange import EXCHANGES
    from ..comm.node import Node
    from ..comm.timing import choose_exchange

    config = require_ranks(config, comm)
    ranks = comm.gather(machine.rank_facts())
    facts: dict[str, Any] = {}
    place_here, ranks_here = place_on_host(comm)
    on_every_rank(
        comm,
        lambda: _prepare_host(config, ranks_here) if place_here == 0 else None,
        f"{config.problem} is being prepared",
    )
    row, part, start, hosts, identity, directory = comm.scatter(
        on_root(comm, lambda: _plan(config, ranks or [], facts, placed))
    )
    auto = config.exchange == AUTO
    node = Node(comm, row, EXCHANGES["neighbor" if auto else config.exchange])
    place = _place(config, comm.rank, comm.size, part)

    try:
        own = on_every_rank(
            comm,
            lambda: _make_own(config, MethodPlace(place, row, None), start, ranks_here),
            f"{config.problem} is being made and tried out",
        )
        costs = own.costs
        if is_custom(config.problem) or own.trials or hasattr(own.problem, "try_out"):
            require_agreement(config.parse_problem()[0], comm.allgather(own.agreement))
            costs = largest(comm.allgather(costs))
        targets = targets_of(comm, row) if config.budget else []
        measured = partial(extents_of, config, own.entries, own.place, costs, targets)
        # without a budget no rank can fail alone, which saves a barrier
        extents = on_every_rank(comm, measured) if config.budget else measured()
        facts["exchange"] = choose_exchange(node, auto, 2 * own.x1.nbytes)
        channel = connect(config, node)
    except UserError:
        node.free()
        raise
    facts["problem"] = own.facts
    facts.setdefault("warnings", []).extend(own_class_warnings(config, own.problem, own.trials))
    return Experiment(
        config, node, own.problem, own.entries, own.x1, facts, directory, identity, hosts,
        own.constants, own.trials, [own.place], own.extra, costs, extents, channel,
    )  # fmt: skip


def _plan(
    config: RunConfig,
    ranks: list[machine.RankFacts],
    facts: dict[str, Any],
    placed: "PlacedRanks | None",
) -> list[tuple[Any, ...]]:
    """Return the message for each rank, and add to `facts`. Called on root only.

    The whole network lives only inside this call.
    """
    from .identity import identify

    n = len(ranks)
    network = network_of(config, n, placed)
    require_graph(config.entries(), network.arcs)
    facts.update(machine.run_facts(ranks, config.reproducible), graph=network.facts())
    facts.update(facts_of_placement(network, facts["hosts"], placed))
    identity, directory = identify(config, network.digest(), facts)
    parts = problem_parts(config, n)
    starts = read_starts(config, n, facts["warnings"])
    if is_custom(config.problem):
        parts = pack_parts(config.problem, parts)  # an error of pickle's is one of the user's
    hosts = facts["hosts"]
    rows = [network.row(node) for node in range(n)]
    return [
        (row, parts[row.node], starts[row.node], {j: hosts[j] for j in row.neighbours},
         identity, directory)
        for row in rows
    ]  # fmt: skip


class _Own(NamedTuple):
    """The objects of one rank that do not depend on its neighbours."""

    problem: Any
    x1: Array
    entries: list[Entry]
    trials: dict[str, Trial]
    agreement: Agreement
    facts: dict[str, Any]
    constants: Array | None
    place: MethodPlace
    extra: ExtraColumns
    costs: Costs


def _make_own(config: RunConfig, place: MethodPlace, start: Array | None, ranks_here: int) -> _Own:
    """Make this rank's problem, algorithms and x_1, and try out those of the user."""
    if config.reproducible:
        require_kernels()  # also here: each host has its own installation
    custom = is_custom(config.problem)
    at = place.at
    if custom:
        config.parse_problem()  # the part may need the user's module
        at = replace(at, part=unpack_part(config.problem, at.part))
    problem = _make_problem(config, at)
    _require_vectors(config, problem.dim, 1, ranks_here)
    name = config.parse_problem()[0]
    x1 = first_estimate(config, name, problem, start)
    tried, kept = _try_problem(config, problem, x1)
    place = MethodPlace(at, place.row, kept, name)
    entries, trials = try_entries(config, problem, x1, place)
    facts = problem_facts(name, problem, custom)
    constants = _constants(config, problem) if config.audit else None
    agreement = agreement_of(config, problem, x1, tried, trials)
    extra = ExtraColumns(tried.metrics, tried.least)
    costs = costs_of(problem)
    return _Own(kept, x1, entries, trials, agreement, facts, constants, place, extra, costs)


def _constants(config: RunConfig, problem: Problem) -> Array:
    from ..theory.constants import constants_of  # here: few runs need the theory

    return constants_of(config, problem)


def build_stacked(config: RunConfig) -> Experiment:
    """Build a stacked run: all nodes in this process, without MPI."""
    if config.n is None:
        raise UserError("a stacked run needs the number of nodes: -n N")
    n = config.n
    _prepare_host(config, 1)
    require_memory(f"the mixing matrix of {n} nodes", 2 * 8 * n * n)
    from ..comm.stacked import StackedNode, StackedProblem
    from ..graphs import build_network
    from .identity import identify

    network = build_network(config.graph, config.weights, n, config.matchings)
    require_graph(config.entries(), network.arcs)
    layers = network.arcs.layers
    if (count := len(layers)) > 1:
        require_memory(f"the mixing matrices of {count} layers", 8 * n * n * count)
    facts = {**machine.run_facts(None, config.reproducible), "graph": network.facts()}
    at = [_place(config, node, n, part) for node, part in enumerate(problem_parts(config, n))]
    problems: list[Any] = [_make_problem(config, place) for place in at]
    name, custom = config.parse_problem()[0], is_custom(config.problem)
    require_agreement(name, [Agreement(int(each.dim)) for each in problems])
    _require_vectors(config, problems[0].dim, n, 1)
    starts = read_starts(config, n, facts["warnings"])
    firsts = [first_estimate(config, name, *each) for each in zip(problems, starts, strict=True)]
    tried = [_try_problem(config, *each) for each in zip(problems, firsts, strict=True)]
    require_agreement(
        name,
        [
            agreement_of(config, problem, x1, each, {})
            for problem, x1, (each, _) in zip(problems, firsts, tried, strict=True)
        ],
    )
    places = [
        MethodPlace(place, network.row(place.node), kept, name)
        for place, (_, kept) in zip(at, tried, strict=True)
    ]
    entries, trials = try_entries(config, problems[0], firsts[0], places[0])
    facts["problem"] = problem_facts(name, problems[0], custom)
    facts["warnings"] += own_class_warnings(config, problems[0], trials)
    identity, directory = identify(config, network.digest(), facts)
    constants = np.stack([_constants(config, each) for each in problems]) if config.audit else None
    x1 = np.stack(firsts)
    x1.flags.writeable = False
    least = None
    if tried[0][0].least is not None:
        least = np.array([[each.least] for each, _ in tried])
    costs = largest([costs_of(each) for each in problems])
    node = StackedNode(network.arcs, config.reproducible)
    channel = connect(config, node)
    return Experiment(
        config,
        node,
        StackedProblem([kept for _, kept in tried]),
        entries, x1, facts, directory, identity, {}, constants, trials, places,
        ExtraColumns(tried[0][0].metrics, least), costs,
        extents_of(config, entries, places[0], costs, [len(each.sources) for each in layers]),
        channel,
    )  # fmt: skip


def _prepare_host(config: RunConfig, ranks_here: int) -> None:
    """Write down what this run uses on this host, and prepare the files of its problem."""
    if config.checkpoint_staging is not None:
        require_scratch(config.checkpoint_staging)
    if config.out is not None:
        record_launch(Path(config.out).absolute())
    _prepare(config, ranks_here)


def _prepare(config: RunConfig, ranks_here: int) -> None:
    """Let the problem prepare its files, such as a dataset, on the first rank of each host.

    Raise UserError first if the problem cannot fit into the memory of this host.
    """
    name, kind, options = config.parse_problem()
    custom = is_custom(config.problem)
    if hasattr(kind, "least_memory"):
        nodes = config.n or 1
        here = nodes if config.stacked else 1
        size = call_user_code(
            f"problem {name}: least_memory",
            lambda: int(
                kind.least_memory(nodes, here, config.seeds, config.numpy_dtype.itemsize, **options)
            ),
            custom,
        )
        require_memory(f"problem {config.problem}", size, ranks_here)
    if hasattr(kind, "prepare"):
        show: Callable[[str], None] = (lambda text: None) if config.quiet else _show
        call_user_code(
            f"problem {name}: prepare",
            lambda: kind.prepare(config.data_dir, show, **options),
            custom,
        )


def _show(text: str) -> None:
    print(f"mpi-gt: {text}", file=sys.stderr, flush=True)


def _place(config: RunConfig, node: int, nodes: int, part: Any) -> Place:
    dtype, seeds = config.numpy_dtype, config.seed_list
    return Place(node, nodes, seeds, dtype, part, config.reproducible, config.data_dir)


def _make_problem(config: RunConfig, place: Place) -> Problem:
    name, kind, options = config.parse_problem()
    custom = is_custom(config.problem)
    problem: Problem = construct(f"problem {name}", custom, lambda: kind(place, **options))
    if custom:
        require_dimension(name, problem)
        require_attributes("problem", name, problem)
    return problem


def _require_vectors(config: RunConfig, dim: int, nodes: int, ranks_here: int) -> None:
    """Raise UserError if the vectors of `nodes` nodes in each process do not fit into memory."""
    size = VECTORS * nodes * config.seeds * int(dim) * config.numpy_dtype.itemsize
    require_memory(f"a run with {dim:,} dimensions", size, ranks_here)


def _try_problem(config: RunConfig, problem: Problem, x1: Array) -> tuple[Tried, Any]:
    """Try out a user's problem; return what that has shown, and the problem, guarded from now on.

    One of the package is returned as it is; with a model of the user's it tries itself out.
    """
    name = config.parse_problem()[0]
    if not is_custom(config.problem):
        if hasattr(problem, "try_out"):
            construct(f"problem {name}", False, lambda: problem.try_out(x1))
        least = known_least(name, problem, custom=False)
        return Tried(metric_names(problem, x1), least), problem
    tried = check_problem(name, problem, x1)
    return tried, GuardedProblem(name, problem, tried.metrics)
