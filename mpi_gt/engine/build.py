"""Building a run on every rank from its configuration: graph row, problem, algorithms, x_1."""

import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import machine
from ..array_files import cast, read_array
from ..config import AUTO, Entry, RunConfig
from ..errors import UserError
from ..graphs import build_network
from ..problems import Place, Problem
from ..user_classes import call_user_code, check_algorithm, check_problem, is_custom, located

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


def build(config: RunConfig, comm: "MPI.Intracomm | None") -> Experiment:
    """Build this rank's objects of the run.

    Collective: every rank calls it. If the input does not fit together, all ranks raise UserError.
    """
    if config.stacked:
        return build_stacked(config)
    if comm is None:
        raise UserError("a run needs an MPI communicator, or stacked=True")
    from ..comm.collective import is_first_on_host, on_every_rank, on_root
    from ..comm.exchange import EXCHANGES
    from ..comm.node import Node

    if config.n not in (None, comm.size):
        raise UserError(f"-n {config.n} was asked for, but there are {comm.size} MPI ranks")
    config = replace(config, n=comm.size)
    config.check_performance_options()
    ranks = comm.gather(machine.rank_facts())
    facts: dict[str, Any] = {}
    first = is_first_on_host(comm)
    on_every_rank(comm, lambda: _prepare(config) if first else None)

    def plan() -> list[tuple[Any, ...]]:
        """Return the message for each rank. The whole network lives only inside this call."""
        from .identity import identify

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
        entries = _checked_entries(config, problem, x1)
        return problem, x1, entries, _constants(config, problem) if config.audit else None

    try:
        problem, x1, entries, constants = on_every_rank(comm, make)
        facts["exchange"] = _choose_exchange(node, auto, 2 * x1.nbytes)
    except UserError:
        node.free()
        raise
    facts["problem"] = _problem_facts(problem)
    return Experiment(
        config, node, problem, entries, x1, facts, directory, identity, hosts, constants
    )


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
    _prepare(config)
    n = config.n
    from ..comm.stacked import StackedNode, StackedProblem
    from .identity import identify

    network = build_network(config.graph, config.weights, n)
    problems = [
        _make_problem(config, Place(node, n, config.seed_list, config.numpy_dtype, part))
        for node, part in enumerate(_problem_parts(config, n))
    ]
    problem = StackedProblem(problems)
    x1 = np.stack([_first_estimate(config, problem.dim, start) for start in _starts(config, n)])
    x1.flags.writeable = False
    node = StackedNode(network.matrix, np.array([network.graph.degree[i] for i in range(n)]))
    entries = _checked_entries(config, problems[0], x1[0])
    facts = {**machine.run_facts(None), "graph": network.facts()}
    facts["problem"] = _problem_facts(problems[0])
    identity, directory = identify(config, network.matrix, facts)
    constants = np.stack([_constants(config, each) for each in problems]) if config.audit else None
    return Experiment(config, node, problem, entries, x1, facts, directory, identity, [], constants)


def _prepare(config: RunConfig) -> None:
    """Let the problem prepare its files, such as a dataset, on the first rank of each host."""
    name, kind, options = config.parse_problem()
    if hasattr(kind, "prepare"):
        show = _show_nothing if config.quiet else _show
        call_user_code(
            f"problem {name}: prepare", lambda: kind.prepare(config.data_dir, show, **options)
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
    parts = call_user_code(f"problem {name}: parts", lambda: kind.parts(nodes, **options))
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


def _checked_entries(config: RunConfig, problem: Problem, x1: Array) -> list[Entry]:
    """Return the algorithms, after trying out the classes that come from the user."""
    if is_custom(config.problem):
        check_problem(config.parse_problem()[0], problem, x1)
    entries = config.entries()
    for entry in entries:
        if entry.custom:
            check_algorithm(entry.label, entry.algorithm, problem, x1)
    return entries


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
