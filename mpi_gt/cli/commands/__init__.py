"""The commands of `mpi-gt`, one module each: arguments, help text and handler.

A new command is a module with a `Command` in a constant of its name (`graph.py`: GRAPH), and one
line in COMMANDS. Nothing is imported here: each process loads the command it was given, no other.
"""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..parser import Parser

Options = dict[str, Any]
"""The options of a command by name, still as text."""

# headings of `mpi-gt --help`
EXPERIMENTS = "run experiments"
RESULTS = "look at runs"
SETTING = "prepare and judge a setting"
SPEED = "measure and predict speed"
HOSTS = "use several hosts"
LEARNING = "learn more"

COMMANDS: dict[str, str] = {
    "run": "run",
    "compare": "run",
    "sweep": "sweep",
    "resume": "resume",
    "reproduce": "reproduce",
    "status": "status",
    "watch": "watch",
    "report": "report",
    "graph": "graph",
    "data": "data",
    "theory": "theory",
    "profile": "run",
    "bench": "bench",
    "scale": "scale",
    "predict": "predict",
    "hostfile": "hostfile",
    "submit": "submit",
    "doctor": "doctor",
    "describe": "describe",
    "manual": "manual",
}
"""The module of each command, in the order in which `mpi-gt --help` lists them."""

ABOUT_SPECS = """\
A SPEC is NAME, or NAME:key=value,... to set options of what is named:
  mpi-gt describe algorithm                 list the algorithms (or problem, graph, ...)
  mpi-gt describe algorithm gt-adaptive     list the options of one
"""
ABOUT_FILES = """\
A TOML file takes the names of the options: problem = "huber:dim=20", log-every = 10
"""
EXIT_CODES = """\
exit codes: 0 finished, 2 bad input, 3 diverged (a value is no longer finite), 85 stopped on
request and 86 stuck (`mpi-gt resume` continues both), 1 anything else
"""


@dataclass(frozen=True)
class Command:
    """One command: either `alone`, or `launch`, `prepare` and `on_ranks`."""

    name: str
    group: str
    """Heading under which `mpi-gt --help` lists the command."""
    summary: str
    help: str
    add_arguments: "Callable[[Parser], None]"
    alone: Callable[..., int] | None = None
    """Does it all in one process, with the options as keyword arguments."""
    launch: Callable[[Options, list[str]], int] | None = None
    """In the front end: starts the ranks; gets the options and the words behind the command."""
    prepare: Callable[[Options, int], Any] | None = None
    """On root, under mpirun: turns the options into a plan for that many ranks.

    An int is an exit code: nothing is left to do.
    """
    on_ranks: Callable[..., int] | None = None
    """On every rank: carries out the plan, as `on_ranks(comm, plan, context)`.

    Root sends it by name, so its module is the only one of the commands that other ranks import.
    """
    on_mismatch: Callable[[str, list[str]], object] | None = None
    """On the launcher's first process: reports why its ranks cannot reach each other.

    It gets the reason and the words of the command line.
    """
    check_submitted: Callable[[Options], bool] | None = None
    """For `submit`: raises UserError where a job could not run.

    Returns whether the job has to choose the run directory. None: the command needs no job.
    """
    usage: str | None = None
    epilog: str | None = None
    takes_command: bool = False
    """Another command follows behind `--`; it comes as the option `words`."""
    old_spellings: Mapping[str, str] = field(default_factory=dict)
    """Former option names with the present ones. They still work, and no help shows them."""


def load(name: str) -> Command:
    """Return the command of that name; import its module."""
    module = importlib.import_module(f".{COMMANDS[name]}", __name__)
    command: Command = getattr(module, name.upper())
    return command
