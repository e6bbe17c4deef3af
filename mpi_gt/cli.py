"""The command line: parsing, messages and exit codes. The only user of COMM_WORLD."""

import argparse
import io
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from . import __version__, launch
from .commands import describe_graph, manage_data
from .errors import Diverged, UserError
from .spec import convert, describe, nearest

if TYPE_CHECKING:
    from mpi4py import MPI

    from .config import RunConfig

# one rank, one core: a BLAS that starts threads in each of them only gets in the way
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

RUN_HELP = """\
Run one algorithm on one problem, every node of the graph a process of its own.

examples:
  mpi-gt run -n 16                                      the paper's Huber problem
  mpi-gt run -n 16 --graph ring --seeds 5 --out out/a   five seeds, in one run
  mpi-gt run -n 16 --algorithm gt-adaptive:lr=0.005,beta1=0.5
  mpirun -n 16 mpi-gt run --iterations 20000            under a launcher of yours
  mpi-gt run experiment.toml --seeds 10                 options from a file; flags win
  mpi-gt run --stacked -n 16                            the same in one process, no MPI
  mpi-gt run -n 4 --algorithm my_module:MyMethod        a class of yours, from this folder
"""

COMPARE_HELP = """\
Run several algorithms on the same problem, graph and random draws, in one launch.

examples:
  mpi-gt compare -n 16 --algorithms gt-adaptive,gt,dsgd --seeds 5
  mpi-gt compare -n 16 --algorithms "gt-adaptive:lr=0.001,vmin=0.01,dsgd:lr=0.1"
  mpi-gt compare -n 16 --problem huber:spread=0.5       all of them
"""

GRAPH_HELP = """\
Describe a graph and its mixing matrix: degrees, diameter, rho_A and spectral gap.

examples:
  mpi-gt graph er:p=0.7 -n 16
  mpi-gt graph torus -n 64 --weights laplacian --plot
  mpi-gt graph edges.txt -n 10 --plot picture.png
  mpi-gt graph nx.circulant_graph:offsets=[1,3] -n 12
"""

DATA_HELP = """\
The datasets: which there are, fetching and preparing them, checking their files.

examples:
  mpi-gt data list
  mpi-gt data prepare mnist                     finds or downloads it, parses it once
  mpi-gt data verify a9a --data-dir /data       checks the raw files' sha256
"""

EPILOG = """\
SPEC is a name, or NAME:key=value,... to set its options. Names, options and defaults:
{registered}

A TOML file has the same names as the flags (problem = "huber:dim=20", log-every = 10).

exit codes: 0 finished, 2 bad input, 3 diverged (a value is no longer finite), 1 anything else
"""

GRAPH_OPTION: dict[str, Any] = {
    "metavar": "SPEC",
    "help": "who talks to whom: a name, nx.NAME for a generator of networkx, a .graphml file, or "
    "a file of edges `i j` with nodes numbered from 0 (default er)",
}
WEIGHTS_OPTION: dict[str, Any] = {
    "metavar": "RULE",
    "help": "mixing matrix: metropolis, lazy-metropolis, max-degree, laplacian, fdla, or a .npy or "
    ".csv file (default metropolis)",
}
RUN_OPTIONS: dict[str, dict[str, Any]] = {
    "--problem": {"metavar": "SPEC", "help": "what to solve (default huber)"},
    "--graph": GRAPH_OPTION,
    "--weights": WEIGHTS_OPTION,
    "--iterations": {"metavar": "T", "help": "number of updates (default 2000)"},
    "--seeds": {"metavar": "S", "help": "random seeds, all in one run (default 1)"},
    "--seed": {"metavar": "S0", "help": "the first of them (default 0)"},
    "--log-every": {
        "metavar": "K",
        "help": "iterations from one measurement to the next (default T/200, rounded up)",
    },
    "--exchange": {
        "metavar": "NAME",
        "help": "how vectors travel: neighbor or persistent (default neighbor)",
    },
    "--dtype": {"metavar": "TYPE", "help": "float64 or float32 (default float64)"},
    "--x1": {"metavar": "FILE.npy", "help": "the start, (d,) or (nodes, d) (default zeros)"},
    "--stacked": {"action": "store_true", "help": "all nodes in one process, without MPI"},
    "--data-dir": {
        "metavar": "DIR",
        "help": "where datasets lie as NAME/file (default $MPI_GT_DATA, then the user's cache)",
    },
    "--reserved": {"action": "store_true", "help": argparse.SUPPRESS},
    "--out": {
        "metavar": "DIR",
        "help": "run directory (default runs/<time>-<problem>-<algorithm>)",
    },
    "--overwrite": {"action": "store_true", "help": "replace the run in an existing directory"},
    "--quiet": {"action": "store_true", "help": "say nothing but errors"},
}
ALGORITHM_OPTION: dict[str, Any] = {
    "metavar": "SPEC",
    "help": "how to solve it (default gt-adaptive)",
}
ALGORITHMS_OPTION: dict[str, Any] = {
    "metavar": "SPEC,SPEC,...",
    "help": "which methods; options as in a:lr=0.1,beta1=0.5,b:lr=1 (default all)",
}


HIDDEN = ("-h", "--reserved")


class Parser(argparse.ArgumentParser):
    """Errors are raised, so that root alone reports them."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message} (see {self.prog} --help)")


def build_parser() -> tuple[Parser, dict[str, Parser]]:
    """The parser, and that of each command."""
    parser = Parser(
        prog="mpi-gt",
        description="Decentralized optimization as real MPI processes: one rank is one node.",
        epilog="example: mpi-gt run -n 16 --problem huber --graph er:p=0.7 --seeds 5",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"mpi-gt {__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, summary: str, text: str, epilog: str | None = None) -> Parser:
        added: Parser = subparsers.add_parser(
            name,
            help=summary,
            description=text,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            argument_default=argparse.SUPPRESS,
            allow_abbrev=False,
        )
        return added

    epilog = EPILOG.format(registered=_registered())
    run = command("run", "run one algorithm on one problem", RUN_HELP, epilog)
    compare = command("compare", "run several algorithms on one problem", COMPARE_HELP, epilog)
    for runner in (run, compare):
        runner.add_argument("file", nargs="?", metavar="FILE.toml", help="options; flags win")
        runner.add_argument("-n", metavar="N", help="nodes: starts N ranks, unless mpirun did")
    run.add_argument("--algorithm", **ALGORITHM_OPTION)
    compare.add_argument("--algorithms", **ALGORITHMS_OPTION)
    for runner in (run, compare):
        for name, settings in RUN_OPTIONS.items():
            runner.add_argument(name, **settings)

    graph = command("graph", "describe and draw a graph", GRAPH_HELP)
    graph.add_argument("graph", **GRAPH_OPTION)
    graph.add_argument("-n", required=True, metavar="N", help="number of nodes")
    graph.add_argument("--weights", **WEIGHTS_OPTION)
    graph.add_argument("--plot", nargs="?", const="", metavar="FILE.png", help="draw it")
    graph.add_argument("--out", metavar="DIR", help="folder for the picture (default: this one)")
    graph.add_argument("--quiet", action="store_true", help="say nothing but errors")

    data = command("data", "list, prepare or verify datasets", DATA_HELP)
    data.add_argument("action", choices=("list", "prepare", "verify"))
    data.add_argument("name", nargs="?", metavar="NAME", help="which one")
    data.add_argument("--data-dir", **RUN_OPTIONS["--data-dir"])
    data.add_argument("--out", metavar="FILE", help="write what is shown into this file as well")
    data.add_argument("--quiet", action="store_true", help="say nothing but errors")
    return parser, {"run": run, "compare": compare, "graph": graph, "data": data}


def _registered() -> str:
    """Every problem, algorithm and graph with its options, for the help."""
    from .algorithms import ALGORITHMS
    from .graphs import FAMILIES
    from .problems import PROBLEMS

    lines = []
    registries: dict[str, dict[str, Any]] = {
        "problems": PROBLEMS,
        "algorithms": ALGORITHMS,
        "graphs": FAMILIES,
    }
    for kind, registry in registries.items():
        lines.append(f"  {kind}")
        lines += [f"    {describe(name, factory)}" for name, factory in registry.items()]
    return "\n".join(lines)


def parse(arguments: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """The command and its options, still as text."""
    parser, commands = build_parser()
    namespace, unknown = parser.parse_known_args(arguments)
    given = vars(namespace)
    command = given.pop("command")
    if unknown:
        known = [
            option for option in commands[command]._option_string_actions if option not in HIDDEN
        ]
        word = unknown[0].partition("=")[0]
        raise UserError(f"{command} does not take '{unknown[0]}'{nearest(word, known)}")
    return command, given


def make_config(command: str, given: dict[str, Any]) -> "RunConfig":
    """The configuration of a run or comparison: defaults, then the file, then the flags."""
    from .algorithms import ALGORITHMS
    from .config import RunConfig, read_toml
    from .record import reserve_directory

    file = given.pop("file", None)
    options: dict[str, Any] = {} if file is None else read_toml(Path(file))
    kinds = {field.name: field.type for field in fields(RunConfig)}
    for name, value in given.items():
        flag = "-n" if name == "n" else "--" + name.replace("_", "-")
        options[name] = value if value is True else convert(flag, kinds[name], value)
    if command == "compare":
        options.setdefault("algorithms", ",".join(ALGORITHMS))
    elif options.get("algorithms") is not None:
        raise UserError("run takes one algorithm; for several there is mpi-gt compare")
    config = RunConfig.of(options)
    if config.out is None:
        return replace(config, out=str(reserve_directory(config)), reserved=True)
    if not config.out:
        raise UserError("--out needs the name of a directory")
    return config


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    for name in THREADS:
        os.environ.setdefault(name, "1")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a file's name may be no text at all
    if launch.is_launched():
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback from each rank on Ctrl-C
        return _main_of_rank(arguments)
    try:
        return _main_alone(arguments)
    except (UserError, Diverged) as error:
        print(f"mpi-gt: error: {error}", file=sys.stderr)
        return error.exit_code


def _main_alone(arguments: list[str]) -> int:
    """Outside mpirun: start it, or do without."""
    import mpi4py

    mpi4py.rc.initialize = False  # a user's module may import MPI: not in the parent of mpirun
    command, given = parse(arguments)
    if command in ALONE:
        return ALONE[command](**given)
    config = make_config(command, given)
    if not config.stacked and config.n is None:
        _give_back(config)
        raise UserError(
            f"how many nodes? Type `mpi-gt {command} -n 16 ...`, "
            f"or `mpirun -n 16 mpi-gt {command} ...`"
        )
    assert config.out is not None
    try:
        if config.stacked:
            return _run_stacked(config)
        # the ranks are told the directory that was chosen here; of two flags the later one wins
        told = [f"--out={config.out}", *(["--reserved"] if config.reserved else [])]
        assert config.n is not None
        return launch.launch([command, *told, *arguments[1:]], config.n, Path(config.out))
    finally:
        _give_back(config)


def _run_stacked(config: "RunConfig") -> int:
    """In this process: whatever ends it, run.json tells."""
    from .record import mark_failed

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt(signal.Signals(number).name)

    assert config.out is not None
    previous = signal.signal(signal.SIGTERM, interrupt)
    try:
        _run_and_show(config, None)
    except KeyboardInterrupt as error:
        number = signal.Signals[str(error) or "SIGINT"]
        mark_failed(Path(config.out), f"interrupted by {number.name}", 128 + number)
        print(f"mpi-gt: interrupted by {number.name}", file=sys.stderr)
        return 128 + number
    except OSError as error:
        mark_failed(Path(config.out), repr(error), 1)
        raise
    finally:
        signal.signal(signal.SIGTERM, previous)
    return 0


def _give_back(config: "RunConfig") -> None:
    from .record import give_back

    if config.reserved and config.out:
        give_back(Path(config.out))


def _main_of_rank(arguments: list[str]) -> int:
    """One rank of several. Root reports; all leave with the same code."""
    import mpi4py

    mpi4py.rc.thread_level = "funneled"  # only one thread calls MPI: spares it locks
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    directory: list[Path] = []
    try:
        code = _run_of_rank(comm, arguments, directory)
    except BaseException as error:
        _abort(comm, error, directory)
    return int(comm.bcast(launch.leave_outcome(code) if comm.rank == 0 else None))


def _run_of_rank(comm: "MPI.Intracomm", arguments: list[str], directory: list[Path]) -> int:
    from .node import on_root

    def prepare() -> "RunConfig | int":
        """What to run, or the exit code of what root has done alone."""
        try:
            command, given = parse(arguments)
        except SystemExit as done:  # --help or --version, printed by now
            return int(done.code or 0)
        return ALONE[command](**given) if command in ALONE else make_config(command, given)

    config: RunConfig | int | None = None
    try:
        config = comm.bcast(on_root(comm, prepare))
        if isinstance(config, int):
            return config
        assert config is not None
        assert config.out is not None
        if config.stacked and comm.size > 1:
            raise UserError("--stacked is one process: run it without mpirun")
        directory.append(Path(config.out))
        _run_and_show(config, comm)
    except (UserError, Diverged) as error:
        if comm.rank == 0:
            print(f"mpi-gt: error: {error}", file=sys.stderr, flush=True)
            if config is not None and not isinstance(config, int):
                _give_back(config)
        return error.exit_code
    return 0


def _abort(comm: "MPI.Intracomm", error: BaseException, directory: list[Path]) -> NoReturn:
    """An exception on one rank is the end of all."""
    from .node import RootFailed
    from .record import mark_failed

    if isinstance(error, RootFailed):
        time.sleep(10)  # root is telling of it, and ends us
    else:
        text = "".join(traceback.format_exception(error))
        print(f"mpi-gt: error on rank {comm.rank}:\n{text}", file=sys.stderr, flush=True)
    for path in directory:
        mark_failed(path, f"rank {comm.rank}: {error!r}", 1)
    comm.Abort(1)
    os._exit(1)  # where Abort returns before the launcher has ended us


def _run_and_show(config: "RunConfig", comm: "MPI.Intracomm | None") -> None:
    from .display import show
    from .experiment import run

    try:
        facts = run(config, comm).facts
    except Diverged as error:
        if config.algorithms is not None and error.facts and not config.quiet:
            show(error.facts)  # the others have run to their end
        raise
    if facts and not config.quiet:
        show(facts)


ALONE: dict[str, Callable[..., int]] = {"graph": describe_graph, "data": manage_data}
"""The commands that need no ranks."""
