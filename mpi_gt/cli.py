"""The command line: parsing, messages and exit codes. The only user of COMM_WORLD."""

import argparse
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from . import __version__, launch
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
"""

EPILOG = """\
SPEC is a name, or NAME:key=value,... to set its options. Names, options and defaults:
{registered}

A TOML file has the same names as the flags (problem = "huber:dim=20", log-every = 10).

exit codes: 0 finished, 2 bad input, 3 diverged (a value is no longer finite), 1 anything else
"""

RUN_OPTIONS: dict[str, dict[str, Any]] = {
    "--problem": {"metavar": "SPEC", "help": "what to solve (default huber)"},
    "--algorithm": {"metavar": "SPEC", "help": "how to solve it (default gt-adaptive)"},
    "--graph": {
        "metavar": "SPEC",
        "help": "who talks to whom: a name, or a file of edges `i j` with nodes numbered from 0 "
        "(default er)",
    },
    "--weights": {
        "metavar": "FILE.npy",
        "help": "mixing matrix, symmetric and doubly stochastic (default: Metropolis weights)",
    },
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
    "--out": {
        "metavar": "DIR",
        "help": "run directory (default runs/<time>-<problem>-<algorithm>)",
    },
    "--overwrite": {"action": "store_true", "help": "replace the run in an existing directory"},
    "--quiet": {"action": "store_true", "help": "say nothing but errors"},
}


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
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    run: Parser = commands.add_parser(
        "run",
        help="run one algorithm on one problem",
        description=RUN_HELP,
        epilog=EPILOG.format(registered=_registered()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
    )
    run.add_argument("file", nargs="?", metavar="FILE.toml", help="options from a file; flags win")
    run.add_argument("-n", metavar="N", help="nodes: starts N ranks, unless mpirun did already")
    for name, settings in RUN_OPTIONS.items():
        run.add_argument(name, **settings)
    return parser, {"run": run}


def _registered() -> str:
    """Every problem, algorithm and graph with its options, for the help."""
    from .algorithms import ALGORITHMS
    from .graphs import GRAPHS
    from .problems import PROBLEMS

    lines = []
    registries: dict[str, dict[str, Any]] = {
        "problems": PROBLEMS,
        "algorithms": ALGORITHMS,
        "graphs": GRAPHS,
    }
    for kind, registry in registries.items():
        lines.append(f"  {kind}")
        lines += [f"    {describe(name, factory)}" for name, factory in registry.items()]
    return "\n".join(lines)


def parse(arguments: Sequence[str]) -> "RunConfig":
    """The configuration: defaults, then the file, then the flags."""
    from .config import RunConfig, read_toml
    from .record import default_directory

    parser, commands = build_parser()
    namespace, unknown = parser.parse_known_args(arguments)
    given = vars(namespace)
    command = given.pop("command")
    if unknown:
        known = [option for option in commands[command]._option_string_actions if option != "-h"]
        word = unknown[0].partition("=")[0]
        raise UserError(f"{command} does not take '{unknown[0]}'{nearest(word, known)}")
    file = given.pop("file", None)
    options: dict[str, Any] = {} if file is None else read_toml(Path(file))
    kinds = {field.name: field.type for field in fields(RunConfig)}
    for name, value in given.items():
        flag = "-n" if name == "n" else "--" + name.replace("_", "-")
        options[name] = value if value is True else convert(flag, kinds[name], value)
    config = RunConfig.of(options)
    return config if config.out else replace(config, out=str(default_directory(config)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    for name in THREADS:
        os.environ.setdefault(name, "1")
    if launch.is_launched():
        return _main_of_rank(arguments)
    try:
        return _main_alone(arguments)
    except (UserError, Diverged) as error:
        print(f"mpi-gt: error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("mpi-gt: interrupted", file=sys.stderr)
        return 130


def _main_alone(arguments: list[str]) -> int:
    """Outside mpirun: start it, or run stacked."""
    config = parse(arguments)
    if config.stacked:
        _run_and_show(config, None)
        return 0
    if config.n is None:
        raise UserError(
            "how many nodes? Type `mpi-gt run -n 16 ...`, or `mpirun -n 16 mpi-gt run ...`"
        )
    assert config.out is not None
    # later flags win: the ranks are told the directory that was chosen here
    return launch.launch([*arguments, "--out", config.out], config.n, Path(config.out))


def _main_of_rank(arguments: list[str]) -> int:
    """One rank of several. Root reports; all leave with the same code."""
    import mpi4py

    mpi4py.rc.thread_level = "funneled"  # only one thread calls MPI: spares it locks
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback from each rank on Ctrl-C
    directory: list[Path] = []
    try:
        code = _run_of_rank(comm, arguments, directory)
    except BaseException as error:
        _abort(comm, error, directory)
    return int(comm.bcast(launch.leave_outcome(code) if comm.rank == 0 else None))


def _run_of_rank(comm: "MPI.Intracomm", arguments: list[str], directory: list[Path]) -> int:
    from .node import on_root

    def parse_on_root() -> "RunConfig | int":
        try:
            return parse(arguments)
        except SystemExit as done:  # --help or --version, printed by now
            return int(done.code or 0)

    try:
        config = comm.bcast(on_root(comm, parse_on_root))
        if isinstance(config, int):
            return config
        if config.stacked and comm.size > 1:
            raise UserError("--stacked is one process: run it without mpirun")
        directory.append(Path(config.out))
        _run_and_show(config, comm)
    except (UserError, Diverged) as error:
        if comm.rank == 0:
            print(f"mpi-gt: error: {error}", file=sys.stderr, flush=True)
        return error.exit_code
    return 0


def _abort(comm: "MPI.Intracomm", error: BaseException, directory: list[Path]) -> NoReturn:
    """An exception on one rank is the end of all."""
    from .record import mark_failed

    text = "".join(traceback.format_exception(error))
    print(f"mpi-gt: error on rank {comm.rank}:\n{text}", file=sys.stderr, flush=True)
    for path in directory:
        mark_failed(path, f"rank {comm.rank}: {error!r}", 1)
    comm.Abort(1)
    os._exit(1)  # where Abort returns before the launcher has ended us


def _run_and_show(config: "RunConfig", comm: "MPI.Intracomm | None") -> None:
    from .display import show
    from .experiment import run

    result = run(config, comm)
    if result.facts and not config.quiet:
        show(result.facts)
