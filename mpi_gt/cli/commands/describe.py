"""`mpi-gt describe`: algorithms, problems, graphs, weights and exchanges, from their docstrings.

A docstring describes the options of its class or function in a section at its end, one per line:

    Options:
        beta1 in [0, 1): decay rate of the momentum m
        rows >= 1, default as square as possible: rows of the grid

A line has the name, the domain (else the type in the signature stands for it), the default where
the signature has None, and the meaning. A line that is indented further continues the one above.
"""

import inspect
import re
import shutil
import textwrap
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ...errors import UserError
from ...spec import nearest, options_of
from . import LEARNING, Command

if TYPE_CHECKING:
    from ..parser import Parser

HELP = """\
Describe what a run can name: list all names of a kind with a line each, or show one of them with
the meaning, domain and default of each of its options.

examples:
  mpi-gt describe                            the kinds and their names
  mpi-gt describe algorithm                  one line per algorithm
  mpi-gt describe algorithm gt-adaptive      its update and its options
  mpi-gt describe problem softmax
  mpi-gt describe graph watts-strogatz
  mpi-gt describe exchange
  mpi-gt describe channel                    the options of --channel
  mpi-gt describe algorithm my_module:MyMethod
"""

Registry = Mapping[str, Callable[..., Any]]


@dataclass(frozen=True)
class Kind:
    """One kind of things that a run names."""

    option: str  # of `mpi-gt run`
    load: Callable[[], Registry]
    more: str = ""
    """Names that are not in the list."""
    custom: bool = False
    """True if users can name classes of their own."""
    whole: bool = False
    """True if the names are the options of one thing."""


class OptionDoc(NamedTuple):
    """One option as the user sees it."""

    name: str
    default: str
    domain: str
    meaning: str


def _algorithms() -> Registry:
    from ...algorithms import ALGORITHMS

    return ALGORITHMS


def _problems() -> Registry:
    from ...problems import PROBLEMS

    return PROBLEMS


def _graphs() -> Registry:
    from ...graphs import FAMILIES

    return FAMILIES


def _matchings() -> Registry:
    from ...graphs import MATCHINGS

    return MATCHINGS


def _weights() -> Registry:
    from ...graphs import WEIGHTS

    return WEIGHTS


def _exchanges() -> Registry:
    from ...comm.exchange import EXCHANGES

    return {**EXCHANGES, "auto": _auto}


def _compressors() -> Registry:
    from ...compressors import COMPRESSORS

    return COMPRESSORS


def _channels() -> Registry:
    from ...channels import Channel

    return dict.fromkeys(options_of(Channel), Channel)


def _auto() -> None:
    """Return the fastest of the first five and shared, timed before the run."""


OWN_CLASS = "Your own class: module:Class, see `mpi-gt manual extending`."
KINDS: dict[str, Kind] = {
    "algorithm": Kind("--algorithm", _algorithms, OWN_CLASS, custom=True),
    "problem": Kind("--problem", _problems, OWN_CLASS, custom=True),
    "graph": Kind(
        "--graph",
        _graphs,
        "Also: nx.NAME for a generator of networkx, a .graphml file, or a file with one edge `i j` "
        "or arc `i -> j` per line, nodes numbered from 0; SPEC+SPEC: several that take turns.",
    ),
    "weights": Kind("--weights", _weights, "Also: a .npy or .csv file with the matrix."),
    "matchings": Kind("--matchings", _matchings),
    "exchange": Kind("--exchange", _exchanges),
    "channel": Kind("--channel", _channels, whole=True),
    "compressor": Kind("--algorithm beer:compress=", _compressors, OWN_CLASS, custom=True),
}


def describe(kind: str | None = None, name: str | None = None) -> int:
    """Print the kinds, the names of one kind, or one of them in full; return the exit code."""
    if kind is None:
        lines = _table([(each, ", ".join(KINDS[each].load())) for each in KINDS])
        lines += ["", "`mpi-gt describe KIND` has a line on each of them."]
    elif kind not in KINDS:
        raise UserError(f"there is no kind '{kind}' to describe{nearest(kind, KINDS)}")
    elif name is None and not KINDS[kind].whole:
        lines = _describe_kind(kind)
    else:
        label, thing = _find(kind, name or next(iter(KINDS[kind].load())))
        lines = _describe_thing(kind, label, thing)
    print("\n".join(lines))
    return 0


def _describe_kind(kind: str) -> list[str]:
    registry = KINDS[kind].load()
    lines = _table([(name, _title(thing) + summary(thing)) for name, thing in registry.items()])
    if KINDS[kind].more:
        lines += ["", *_wrap(KINDS[kind].more)]
    if any(options_of(thing) for thing in registry.values()):
        lines += ["", f"`mpi-gt describe {kind} NAME` lists the options of one."]
    return lines


def _find(kind: str, name: str) -> tuple[str, Callable[..., Any]]:
    """Return the thing of that name, registered or the user's own, and its label."""
    registry = KINDS[kind].load()
    label = name.partition(":")[0].strip()
    if label in registry:
        return label, registry[label]
    if KINDS[kind].custom:
        from ...user_classes import is_custom, resolve

        if is_custom(name):
            label = ":".join(name.split(":")[:2])
            return label, resolve(kind, registry, label)[1]
    raise UserError(f"there is no {kind} '{name}'{nearest(name, registry)}")


def _describe_thing(kind: str, label: str, thing: Callable[..., Any]) -> list[str]:
    title = _title(thing).removesuffix(": ")
    text, _ = split_docstring(thing)
    whole = KINDS[kind].whole
    lines = [kind if whole else f"{label}: {title}" if title else label, ""]
    lines += [f"  {line}".rstrip() for line in text.splitlines()] + [""]
    options = option_docs(thing)
    if options:
        heads = OptionDoc("option", "default", "domain", "meaning")
        lines += [*_table([heads, *options]), ""]
        given = {name: each.default for name, each in options_of(thing).items()}
        name = next((name for name in given if given[name] is not None), options[0].name)
        plain = f"{label}:{name}={'VALUE' if given[name] is None else given[name]}"
        label = getattr(thing, "EXAMPLE", "") or plain  # some have an option that they need
        label = "links=0.1,noise=1e-3" if whole else label
    option = KINDS[kind].option
    return [*lines, f"example: mpi-gt run -n 16 {option}{'' if option[-1] == '=' else ' '}{label}"]


def summary(thing: Callable[..., Any]) -> str:
    """Return the first paragraph of a docstring in one line."""
    text, _ = split_docstring(thing)
    first = " ".join(text.partition("\n\n")[0].split())
    return first.removesuffix(".")


def split_docstring(thing: Callable[..., Any]) -> tuple[str, dict[str, tuple[str, str, str]]]:
    """Return a docstring without its options, and (domain, default, meaning) of each option."""
    own = vars(thing).get("__doc__") if isinstance(thing, type) else thing.__doc__
    text, _, section = inspect.cleandoc(own or "").partition("\nOptions:\n")
    verb, _, rest = text.strip().partition(" ")
    text = rest[:1].upper() + rest[1:] if verb in ("Return", "Build") else text.strip()
    entries: list[str] = []
    for line in textwrap.dedent(section).splitlines():
        if line[:1].strip():
            entries.append(line)
        elif line.strip() and entries:
            entries[-1] += " " + line.strip()
    options = {}
    for entry in entries:
        head, _, meaning = entry.partition(": ")
        found = re.fullmatch(r"(\w+),? ?(.*?)(?:,? ?default (.*))?", head)
        if found:
            name, domain, default = found.groups()
            options[name] = (domain, default or "", meaning.strip())
    return text, options


def option_docs(thing: Callable[..., Any]) -> list[OptionDoc]:
    """Return all options of a class or function, in the order of its signature.

    A class inherits the descriptions of its bases.
    """
    bases = reversed(inspect.getmro(thing)) if isinstance(thing, type) else [thing]
    described: dict[str, tuple[str, str, str]] = {}
    for base in bases:
        described.update(split_docstring(base)[1])
    docs = []
    for name, parameter in options_of(thing).items():
        domain, default, meaning = described.get(name, ("", "", ""))
        if parameter.default is not None:
            default = str(parameter.default)
        docs.append(OptionDoc(name, default or "none", domain or _domain(parameter), meaning))
    return docs


def _domain(parameter: inspect.Parameter) -> str:
    """Return the domain that the type in the signature stands for."""
    kinds = typing.get_args(parameter.annotation) or (parameter.annotation,)
    if typing.get_origin(parameter.annotation) is Literal:
        return " or ".join(kinds)
    words = {bool: "true or false", int: "whole number", float: "number", str: "text"}
    return next((words[kind] for kind in kinds if kind in words), "")


def _title(thing: Callable[..., Any]) -> str:
    """Return the display name of an algorithm with a colon; "" for others."""
    name = getattr(thing, "display_name", "")
    return f"{name}: " if name else ""


def _table(rows: "list[tuple[str, str]] | list[OptionDoc]") -> list[str]:
    """Return the rows in aligned columns, the last of which is wrapped."""
    widths = [max(map(len, column)) for column in list(zip(*rows, strict=True))[:-1]]
    lines = []
    for *cells, last in rows:
        start = "".join(f"{cell:{width}}  " for cell, width in zip(cells, widths, strict=True))
        lines += _wrap(last, start, " " * len(start))
    return lines


def _wrap(text: str, first: str = "", indent: str = "") -> list[str]:
    width = max(40 + len(indent), min(100, shutil.get_terminal_size((100, 24)).columns))
    wrapped = textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return wrapped or [first.rstrip()]


def _add_arguments(parser: "Parser") -> None:
    parser.add_argument("kind", nargs="?", metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("name", nargs="?", metavar="NAME", help="one of that kind")


DESCRIBE = Command(
    name="describe",
    group=LEARNING,
    summary="describe algorithms, problems, graphs, weights, exchanges, channels",
    help=HELP,
    add_arguments=_add_arguments,
    alone=describe,
)
