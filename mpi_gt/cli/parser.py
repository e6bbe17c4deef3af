"""The command-line parser, and the options that several commands share.

Each command adds its own options: see `COMMANDS` in `cli/commands/__init__.py`.
"""

import argparse
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from .. import __version__
from ..errors import UserError
from ..files import require_name
from ..spec import nearest
from .commands import COMMANDS, Command, load

HIDDEN = ("-h", "--reserved", "--plan")
PATHS = (
    "file",
    "out",
    "directory",
    "directories",
    "bench",
    "profile",
    "check",
    "plot",
    "prelude",
    "like",
    "hostfile",
)
"""Options, by their names in Python, that name files or directories."""


class Option(NamedTuple):
    """One option that several commands share."""

    metavar: str  # empty: a switch
    help: str
    default: str = ""  # as the help shows it
    bare: str | None = None  # the value of the option without one; None: it needs a value


OPTIONS: dict[str, Option] = {
    "--problem": Option("SPEC", "the problem to solve", "huber"),
    "--data-dir": Option(
        "DIR", "folder with datasets as NAME/file", "$MPI_GT_DATA, then the user's cache"
    ),
    "--x1": Option(
        "FILE.npy", "the start: (d,), (nodes, d), (seeds, d) or (nodes, seeds, d)", "the problem's"
    ),
    "--seeds": Option("S", "number of random seeds, all in one run", "1"),
    "--seed": Option("S0", "the first seed", "0"),
    "--dtype": Option("TYPE", "float64 or float32", "float64"),
    "--reproducible": Option(
        "", "the same bits on every kind of processor, by slower products in a fixed order"
    ),
    "--algorithm": Option("SPEC", "the method", "gt-adaptive"),
    "--algorithms": Option(
        "SPEC,SPEC,...", "the methods, with options as in gt:lr=0.1,order=atc,dsgd:lr=1", "all"
    ),
    "--iterations": Option("T", "number of iterations", "2000"),
    "--budget": Option(
        "UNIT=NUMBER",
        "stop each method where it has spent gradients=NUMBER (of samples, per node and seed) or "
        "bytes=NUMBER (of all nodes, per seed)",
    ),
    "-n": Option("N", "number of nodes: starts N ranks, unless mpirun did"),
    "--graph": Option(
        "SPEC",
        "the graph: a name that `mpi-gt describe graph` lists, nx.NAME of networkx, or a file",
        "er",
    ),
    "--weights": Option(
        "RULE",
        "the mixing matrix: see `mpi-gt describe weights`, or a .npy or .csv file",
        "metropolis",
    ),
    "--matchings": Option(
        "HOW",
        "talk in pairs: all in turn, or random:seed=S",
        bare="all",
    ),
    "--exchange": Option(
        "NAME",
        "how neighbours swap vectors: see `mpi-gt describe exchange`",
        "neighbor",
    ),
    "--place": Option(
        "HOW",
        "which rank owns which node: rank, graph (few edges between hosts), or shuffled:seed=S",
        "rank",
    ),
    "--channel": Option("KEY=VALUE,...", "emulate failures: see `mpi-gt describe channel`"),
    "--stacked": Option("", "run all nodes in this process, without MPI"),
    "--hostfile": Option("FILE", "with -n: the hosts to run on (see mpi-gt hostfile)"),
    "--launcher": Option("NAME", "with -n: mpirun, mpiexec, srun, or the path of one"),
    "--launcher-args": Option("WORDS", 'with -n: its own options, as in "--map-by numa"'),
    "--export": Option("NAME,...", "with -n: more variables for ranks on other hosts"),
    "--out": Option("DIR", "run directory", "runs/<time>-<problem>-<algorithm>"),
    "--overwrite": Option("", "replace the run in an existing directory"),
    "--log-every": Option("K", "measure every K iterations", "T/200, in a profile T/20"),
    "--quiet": Option("", "print nothing but errors"),
    "--no-figures": Option("", "draw no figures"),
    "--checkpoint-every": Option("K", "save the state every K iterations"),
    "--checkpoint-minutes": Option("M", "save the state every M minutes"),
    "--checkpoint-layout": Option("HOW", "a file per rank, or per host", "rank"),
    "--checkpoint-staging": Option("DIR", "save to this folder of each host, then copy"),
    "--resume": Option("", "continue the run in --out, if there is one"),
    "--watchdog": Option("SECONDS", "limit for an exchange; 0: no limit", "120"),
    "--straggler": Option(
        "node=I,ms=T",
        "make node I sleep T milliseconds per iteration; also jitter=MS and probability=P",
    ),
    "--reserved": Option("", argparse.SUPPRESS),  # from the front end: --out was made for this run
    "--graphs": Option("SPEC,SPEC,...", "the graphs", "ring,er:p=0.7"),
    "--L": Option("L", "Lipschitz constant of the gradients", "the problem's own"),
    "--G": Option("G", "bound on the stochastic gradients", "the problem's own"),
    "--sigma2": Option("VAR", "bound on their variance", "the problem's own"),
    "--f-star": Option("F", "lower bound of f", "the problem's own"),
}
"""The options that several commands share, by name."""

LAUNCH_GROUP = {"launch": ("--launcher", "--launcher-args", "--hostfile", "--export")}
"""The options of every command that starts ranks: see `launchers.options`."""

OLD_SPELLINGS = {"--mpirun-args": "--launcher-args"}
"""Former names of options that several commands share."""

RUN_GROUPS: dict[str, tuple[str, ...]] = {
    "problem": (
        "--problem",
        "--data-dir",
        "--x1",
        "--seeds",
        "--seed",
        "--dtype",
        "--reproducible",
    ),
    "method": ("--iterations", "--budget"),
    "graph and ranks": (
        "-n",
        "--graph",
        "--weights",
        "--matchings",
        "--channel",
        "--place",
        "--exchange",
        "--stacked",
    ),
    "output": ("--out", "--overwrite", "--log-every", "--quiet", "--no-figures", "--reserved"),
    "robustness": (
        "--checkpoint-every",
        "--checkpoint-minutes",
        "--checkpoint-layout",
        "--checkpoint-staging",
        "--resume",
        "--watchdog",
    ),
    "measurement": ("--straggler",),
}
"""The options of every command that runs an experiment, by the heading in its help."""


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """The layout of the help: names of commands and options are not broken at their hyphens."""

    def __init__(self, prog: str, **options: Any) -> None:
        super().__init__(prog, max_help_position=28, **options)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)


class Parser(argparse.ArgumentParser):
    """A parser that raises UserError, so that root alone reports it."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message} (see {self.prog} --help)")


def add_options(
    target: argparse._ActionsContainer,
    *names: str,
    defaults: Mapping[str, str] | None = None,
) -> None:
    """Add shared options; `defaults` replaces the defaults that their help shows ("": none)."""
    for name in names:
        option = OPTIONS[name]
        default = (defaults or {}).get(name, option.default)
        text = f"{option.help} (default {default})" if default else option.help
        if option.bare is not None:
            target.add_argument(
                name, nargs="?", const=option.bare, metavar=option.metavar, help=text
            )
        elif option.metavar:
            target.add_argument(name, metavar=option.metavar, help=text)
        else:
            target.add_argument(name, action="store_true", help=text)


def add_groups(
    parser: Parser,
    groups: Mapping[str, Sequence[str]],
    defaults: Mapping[str, str] | None = None,
) -> dict[str, argparse._ArgumentGroup]:
    """Add shared options under headings; return the group of each heading."""
    added = {title: parser.add_argument_group(title) for title in groups}
    for title, names in groups.items():
        add_options(added[title], *names, defaults=defaults)
    return added


def build_parser() -> tuple[Parser, dict[str, Parser]]:
    """Return the parser of `mpi-gt` itself, and that of each command."""
    commands = [load(name) for name in COMMANDS]
    return _main_parser(commands), {each.name: _command_parser(each) for each in commands}


def _main_parser(commands: Sequence[Command]) -> Parser:
    lines = ["Decentralized optimization as real MPI processes: one rank is one node.", ""]
    for group in dict.fromkeys(command.group for command in commands):
        lines.append(f"{group}:")
        lines += [f"  {each.name:12}{each.summary}" for each in commands if each.group == group]
        lines.append("")
    parser = Parser(
        prog="mpi-gt",
        usage="mpi-gt COMMAND [options]",
        description="\n".join(lines[:-1]),
        epilog="`mpi-gt COMMAND --help` explains a command, `mpi-gt manual` is the manual.\n\n"
        "example: mpi-gt run -n 16 --problem huber --graph er:p=0.7 --seeds 5",
        formatter_class=HelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"mpi-gt {__version__}")
    parser.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


def _command_parser(command: Command) -> Parser:
    parser = Parser(
        prog=f"mpi-gt {command.name}",
        usage=command.usage,
        description=command.help,
        epilog=command.epilog,
        formatter_class=HelpFormatter,
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
    )
    command.add_arguments(parser)
    return parser


def parse(arguments: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """Return the command's name and its options, still as text."""
    for word in arguments:
        if "\0" in word:  # from Python only: no shell can pass one, and no file can have one
            raise UserError(f"'{word}' holds a null character")
    name = arguments[0] if arguments else ""
    if name not in COMMANDS:
        _refuse(arguments)
    command = load(name)
    words, inner = list(arguments[1:]), []
    if command.takes_command and "--" in words:
        where = words.index("--")
        words, inner = words[:where], words[where + 1 :]
    old = {**OLD_SPELLINGS, **command.old_spellings}
    words = [_present_spelling(word, old) for word in words]
    parser = _command_parser(command)
    namespace, unknown = parser.parse_known_args(words)
    options = vars(namespace)
    for path in PATHS:
        value = options.get(path, [])
        for each in [value] if isinstance(value, str) else value if isinstance(value, list) else []:
            require_name(each)
    if unknown:
        known = [each for each in parser._option_string_actions if each not in HIDDEN]
        raise UserError(_unknown_option(name, unknown[0], words, options, known))
    return name, {**options, "words": inner} if command.takes_command else options


def _refuse(arguments: Sequence[str]) -> NoReturn:
    """Print help or version where that is asked for; else raise UserError."""
    parser = _main_parser([load(name) for name in COMMANDS])
    words = parser.parse_args(arguments).command
    if not words:
        raise UserError("which command? `mpi-gt --help` lists them")
    raise UserError(f"there is no command '{words[0]}'{nearest(words[0], COMMANDS)}")


def _present_spelling(word: str, old_spellings: Mapping[str, str]) -> str:
    flag, equals, value = word.partition("=")
    return old_spellings[flag] + equals + value if flag in old_spellings else word


def _unknown_option(
    name: str, word: str, words: Sequence[str], options: dict[str, Any], known: Sequence[str]
) -> str:
    """Return the message for a word that the command does not take."""
    flag, equals, value = word.partition("=")
    if flag.startswith("--") and not equals:
        following = words[words.index(word) + 1 :]
        value = following[0] if following and not following[0].startswith("--") else "VALUE"
    from .configure import spec_hint

    hint = spec_hint(flag, value, options, known) or nearest(flag, known)
    return f"{name} does not take '{word}'{hint}"
