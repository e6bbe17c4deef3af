"""`mpi-gt describe`: algorithms, problems, graphs, weights and exchanges, from their docstrings."""

import math
import shutil
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...errors import UserError
from ...files import json_text
from ...spec import nearest, options_of
from ..docstrings import OptionDoc, option_docs, split_docstring, summary, title_of
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
  mpi-gt describe algorithm gt --json        for a script
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


def _placements() -> Registry:
    from ...graphs.placement import PLACEMENTS

    return PLACEMENTS


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
    "placement": Kind("--place", _placements),
    "exchange": Kind("--exchange", _exchanges),
    "channel": Kind("--channel", _channels, whole=True),
    "compressor": Kind("--algorithm beer:compress=", _compressors, OWN_CLASS, custom=True),
}


def describe(kind: str | None = None, name: str | None = None, as_json: bool = False) -> int:
    """Print the kinds, the names of one kind, or one of them in full; return the exit code."""
    facts: dict[str, Any]
    if kind is None:
        named = {each: list(KINDS[each].load()) for each in KINDS}
        facts = {"kinds": named}
        lines = _table([(each, ", ".join(names)) for each, names in named.items()])
        lines += ["", "`mpi-gt describe KIND` has a line on each of them."]
    elif kind not in KINDS:
        raise UserError(f"there is no kind '{kind}' to describe{nearest(kind, KINDS)}")
    elif name is None and not KINDS[kind].whole:
        facts, lines = _facts_of_kind(kind), _describe_kind(kind)
    else:
        label, thing = _find(kind, name or next(iter(KINDS[kind].load())))
        facts = _facts_of_thing(kind, label, thing)
        lines = _describe_thing(kind, label, thing)
    print(json_text("describe", facts) if as_json else "\n".join(lines))
    return 0


def _facts_of_kind(kind: str) -> dict[str, Any]:
    """Return all names of a kind, for JSON."""
    names = [
        {"name": name, "title": title_of(thing), "summary": summary(thing)}
        for name, thing in KINDS[kind].load().items()
    ]
    return {"kind": kind, "names": names, "more": KINDS[kind].more}


def _facts_of_thing(kind: str, label: str, thing: Callable[..., Any]) -> dict[str, Any]:
    """Return one thing with its options, for JSON.

    A default is the value itself; null where it is chosen, and `default_text` then says how.
    """
    given = options_of(thing)
    options = [
        {
            "name": each.name,
            "default": _json_value(given[each.name].default),
            "default_text": each.default,
            "domain": each.domain,
            "meaning": each.meaning,
        }
        for each in option_docs(thing)
    ]
    return {
        "kind": kind,
        "name": label if not KINDS[kind].whole else kind,
        "title": title_of(thing),
        "description": split_docstring(thing)[0],
        "options": options,
        "example": _example(kind, label, thing),
    }


def _json_value(value: Any) -> Any:
    """Return a value that JSON can hold: itself, or its text."""
    if value is None or isinstance(value, bool | int | str):
        return value
    finite = isinstance(value, float) and math.isfinite(value)
    return value if finite else str(value)


def _describe_kind(kind: str) -> list[str]:
    registry = KINDS[kind].load()
    lines = _table([(name, _headed(thing)) for name, thing in registry.items()])
    if KINDS[kind].more:
        lines += ["", *_wrap(KINDS[kind].more)]
    if any(options_of(thing) for thing in registry.values()):
        lines += ["", f"`mpi-gt describe {kind} NAME` lists the options of one."]
    return lines


def _headed(thing: Callable[..., Any]) -> str:
    title = title_of(thing)
    return f"{title}: {summary(thing)}" if title else summary(thing)


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
    title = title_of(thing)
    text, _ = split_docstring(thing)
    whole = KINDS[kind].whole
    lines = [kind if whole else f"{label}: {title}" if title else label, ""]
    lines += [f"  {line}".rstrip() for line in text.splitlines()] + [""]
    options = option_docs(thing)
    if options:
        heads = OptionDoc("option", "default", "domain", "meaning")
        lines += [*_table([heads, *options]), ""]
    return [*lines, f"example: {_example(kind, label, thing)}"]


def _example(kind: str, label: str, thing: Callable[..., Any]) -> str:
    """Return a command that uses a thing, with an option of it if it has one."""
    options = option_docs(thing)
    if options:
        given = {name: each.default for name, each in options_of(thing).items()}
        name = next((name for name in given if given[name] is not None), options[0].name)
        plain = f"{label}:{name}={'VALUE' if given[name] is None else given[name]}"
        label = getattr(thing, "EXAMPLE", "") or plain  # some have an option that they need
        label = "links=0.1,noise=1e-3" if KINDS[kind].whole else label
    option = KINDS[kind].option
    return f"mpi-gt run -n 16 {option}{'' if option[-1] == '=' else ' '}{label}"


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
    parser.add_argument("--json", dest="as_json", action="store_true", help="print JSON")


DESCRIBE = Command(
    name="describe",
    group=LEARNING,
    summary="describe algorithms, problems, graphs, weights, exchanges, channels",
    help=HELP,
    add_arguments=_add_arguments,
    alone=describe,
)
