"""Building a run on every rank from its configuration: graph row, problem, algorithms, x_1."""

import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import machine
from ..array_files import cast, read_array
from ..config import AUTO, Entry, RunConfig
from ..errors import UserError
from ..graphs import build_network
from ..kernels.fixed_order import require_kernels
from ..memory import VECTORS, reported_memory_errors, require_memory
from ..problems import Place, Problem
from ..rundir.host_folder import record_launch
from ..user_classes import call_user_code, construct, is_custom
from .user_checks import (
    check_algorithm,
    check_problem,
    own_class_warnings,
    pack_parts,
    problem_facts,
    require_agreement,
    require_dimension,
    require_parts,
    unpack_part,
)
from .user_guard import GuardedProblem

if TYPE_CHECKING:
    from mpi4py import MPI

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
    hosts: list[str] = field(default_factory=list)  # of the neighbours
    constants: Array | None = None  # this node's problem constants, for an audit
    mixes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Vectors in each call of `mix` per step, of each algorithm that is a user's own class."""


def build(config: RunConfig, comm: "MPI.Intracomm | None") -> Experiment:
    """Build this rank's objects of the run.

    Collective: every rank calls it. If the input does not fit together, all ranks raise UserError.
    """
    if config.stacked:
        with reported_memory_errors("this run"):
            return build_stacked(config)
    if comm is None:
        raise UserError("a run needs an MPI communicator, or stacked=True")
    from ..comm.collective import on_every_rank, on_root, place_on_host
    from ..comm.exchange import EXCHANGES
    from ..comm.node import Node

    if config.n not in (None, comm.size):
        raise UserError(f"-n {config.n} was asked for, but there are {comm.size} MPI ranks")
    config = replace(config, n=comm.size)
    config.check_performance_options()
    ranks = comm.gather(machine.rank_facts())
    facts: dict[str, Any] = {}
    place_here, ranks_here = place_on_host(comm)
    first = place_here == 0
    on_every_rank(
        comm,
        lambda: _prepare_host(config, ranks_here) if first else None,
        f"{config.problem} is being prepared",
    )
    row, part, start, hosts, identity, directory = comm.scatter(
        on_root(comm, lambda: _plan(config, ranks or [], facts))
    )
    auto = config.exchange == AUTO
    node = Node(comm, row, EXCHANGES["neighbor" if auto else config.exchange])
    place = _place(config, comm.rank, comm.size, part)

    try:
        own = on_every_rank(
            comm,
            lambda: _make_own(config, place, start, ranks_here),
            f"{config.problem} is being made and tried out",
        )
        if is_custom(config.problem) or own.mixes:
            require_agreement(comm.allgather((own.problem.dim, own.mixes)))
        facts["exchange"] = _choose_exchange(node, auto, 2 * own.x1.nbytes)
    except UserError:
        node.free()
        raise
    facts["problem"] = own.facts
    facts.setdefault("warnings", []).extend(own_class_warnings(config, own.mixes))
    return Experiment(
        config, node, own.problem, own.entries, own.x1, facts, directory, identity, hosts,
        own.constants, own.mixes,
    )  # fmt: skip


def _plan(
    config: RunConfig, ranks: list[machine.RankFacts], facts: dict[str, Any]
) -> list[tuple[Any, ...]]:
    """Return the message for each rank, and add to `facts`. Called on root only.

    The whole network lives only inside this call.
    """
    from .identity import identify

    n = len(ranks)
    network = build_network(config.graph, config.weights, n)
    facts.update(machine.run_facts(ranks, config.reproducible), graph=network.facts())
    identity, directory = identify(config, network.matrix, facts)
    parts, starts = _problem_parts(config, n), _starts(config, n)
    if is_custom(config.problem):
        parts = pack_parts(config.problem, parts)  # an error of pickle's is one of the user's
    hosts = facts["hosts"]
    rows = [network.row(node) for node in range(n)]
    return [
        (row, parts[row.node], starts[row.node], [hosts[j] for j in row.neighbours],
         identity, directory)
        for row in rows
    ]  # fmt: skip


class _Own(NamedTuple):
    """The objects of one rank that do not depend on its neighbours."""

    problem: Any
    x1: Array
    entries: list[Entry]
    mixes: dict[str, tuple[int, ...]]
    facts: dict[str, Any]
    constants: Array | None


def _make_own(config: RunConfig, place: Place, start: Array | None, ranks_here: int) -> _Own:
    """Make this rank's problem, algorithms and x_1, and try out those of the user."""
    if config.reproducible:
        require_kernels()  # also here: each host has its own installation
    custom = is_custom(config.problem)
    if custom:
        config.parse_problem()  # the part may need the user's module
        place = replace(place, part=unpack_part(config.problem, place.part))
    problem = _make_problem(config, place)
    _require_vectors(config, problem.dim, 1, ranks_here)
    x1 = _first_estimate(config, problem.dim, start)
    entries, mixes = _checked_entries(config, problem, x1)
    name = config.parse_problem()[0]
    facts = problem_facts(name, problem, custom)
    constants = _constants(config, problem) if config.audit else None
    kept = GuardedProblem(name, problem) if custom else problem
    return _Own(kept, x1, entries, mixes, facts, constants)


def _constants(config: RunConfig, problem: Problem) -> Array:
    from ..theory.constants import constants_of  # here: few runs need the theory

    return constants_of(config, problem)


def _choose_exchange(node: Any, auto: bool, payload: int) -> dict[str, Any]:
    """Set the fastest exchange if `auto`, else require the given one; return the facts of it.

    Collective: every rank calls it.
    """
    from ..comm.exchange import EXCHANGES
    from ..comm.timing import fastest_exchange, unavailable_reason

    if auto:
        chosen, seconds, missing = fastest_exchange(node, payload)
        node.exchange_class = EXCHANGES[chosen]
        return {"name": chosen, "auto": seconds, "missing": missing}
    name = next(name for name, each in EXCHANGES.items() if each is node.exchange_class)
    reason = unavailable_reason(node, node.exchange_class, trial=False)
    if reason is not None:
        raise UserError(f"exchange {name} cannot be used here: {reason}")
    return {"name": name}


def build_stacked(config: RunConfig) -> Experiment:
    """Build a stacked run: all nodes in this process, without MPI."""
    if config.n is None:
        raise UserError("a stacked run needs the number of nodes: -n N")
    n = config.n
    _prepare(config, 1)
    require_memory(f"the mixing matrix of {n} nodes", 2 * 8 * n * n)
    from ..comm.stacked import StackedNode, StackedProblem
    from .identity import identify

    network = build_network(config.graph, config.weights, n)
    problems: list[Any] = [
        _make_problem(config, _place(config, node, n, part))
        for node, part in enumerate(_problem_parts(config, n))
    ]
    name, custom = config.parse_problem()[0], is_custom(config.problem)
    require_agreement([(each.dim, {}) for each in problems])
    _require_vectors(config, problems[0].dim, n, 1)
    x1 = np.stack([_first_estimate(config, problems[0].dim, start) for start in _starts(config, n)])
    x1.flags.writeable = False
    degrees = np.array([network.graph.degree[i] for i in range(n)])
    node = StackedNode(network.matrix, degrees, config.reproducible)
    entries, mixes = _checked_entries(config, problems[0], x1[0])
    facts = {**machine.run_facts(None, config.reproducible), "graph": network.facts()}
    facts["problem"] = problem_facts(name, problems[0], custom)
    facts["warnings"] += own_class_warnings(config, mixes)
    identity, directory = identify(config, network.matrix, facts)
    constants = np.stack([_constants(config, each) for each in problems]) if config.audit else None
    if custom:
        problems = [GuardedProblem(name, each) for each in problems]
    problem = StackedProblem(problems)
    return Experiment(
        config, node, problem, entries, x1, facts, directory, identity, [], constants, mixes
    )


def _prepare_host(config: RunConfig, ranks_here: int) -> None:
    """Write down what this run uses on this host, and prepare the files of its problem."""
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
        show = _show_nothing if config.quiet else _show
        call_user_code(
            f"problem {name}: prepare",
            lambda: kind.prepare(config.data_dir, show, **options),
            custom,
        )


def _show(text: str) -> None:
    print(f"mpi-gt: {text}", file=sys.stderr, flush=True)


def _show_nothing(text: str) -> None:
    pass


def _problem_parts(config: RunConfig, nodes: int) -> list[Any]:
    """Return the data that root sends to each node's problem, None each if there is none."""
    name, kind, options = config.parse_problem()
    if not hasattr(kind, "parts"):
        return [None] * nodes
    parts = call_user_code(
        f"problem {name}: parts",
        lambda: kind.parts(nodes, **options),
        is_custom(config.problem),
    )
    return require_parts(name, parts, nodes)


def _place(config: RunConfig, node: int, nodes: int, part: Any) -> Place:
    dtype, seeds = config.numpy_dtype, config.seed_list
    return Place(node, nodes, seeds, dtype, part, config.reproducible)


def _make_problem(config: RunConfig, place: Place) -> Problem:
    name, kind, options = config.parse_problem()
    custom = is_custom(config.problem)
    problem: Problem = construct(f"problem {name}", custom, lambda: kind(place, **options))
    if custom:
        require_dimension(name, problem)
    return problem


def _require_vectors(config: RunConfig, dim: int, nodes: int, ranks_here: int) -> None:
    """Raise UserError if the vectors of `nodes` nodes in each process do not fit into memory."""
    size = VECTORS * nodes * config.seeds * int(dim) * config.numpy_dtype.itemsize
    require_memory(f"a run with {dim:,} dimensions", size, ranks_here)


def _checked_entries(
    config: RunConfig, problem: Problem, x1: Array
) -> tuple[list[Entry], dict[str, tuple[int, ...]]]:
    """Return the algorithms, after trying out the classes that come from the user.

    Return also the number of vectors in each call of `mix` by these.
    """
    if is_custom(config.problem):
        check_problem(config.parse_problem()[0], problem, x1)
    entries = config.entries()
    mixes = {
        entry.label: check_algorithm(entry.label, entry.algorithm, problem, x1)
        for entry in entries
        if entry.custom
    }
    return entries, mixes


def _starts(config: RunConfig, nodes: int) -> list[Array | None]:
    """Return each node's x_1 from the file of --x1, None each without such a file."""
    if config.x1 is None:
        return [None] * nodes
    x1 = read_array(Path(config.x1))
    if x1.ndim not in (1, 2) or (x1.ndim == 2 and len(x1) != nodes):
        raise UserError(f"{config.x1} has shape {x1.shape}, not (d,) or ({nodes}, d)")
    return list(np.broadcast_to(x1, (nodes, x1.shape[-1])))


def _first_estimate(config: RunConfig, dim: int, start: Array | None) -> Array:
    """Return x_1 of one node for all seeds: zeros, or `start` for each seed."""
    x1 = np.zeros((config.seeds, dim), config.numpy_dtype)
    if start is not None and len(start) != dim:
        raise UserError(f"{config.x1} is for {len(start)} dimensions, but the problem has {dim}")
    if start is not None:
        x1[:] = cast(str(config.x1), start, config.numpy_dtype)
    x1.flags.writeable = False  # in a comparison all algorithms start from this array
    return x1
