"""Axes of a sweep: `lr=1e-3..1e-1`, `graph=ring,er:p=0.7`, `channel.loss=0..0.3`, `n=8,16`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from ..algorithms import ALGORITHMS
from ..channels.channel import SHARES, Channel
from ..config import LIMITS, RunConfig, stepsizes
from ..errors import UserError
from ..graphs import FAMILIES, split_turns
from ..problems import PROBLEMS
from ..results.options import spec_name
from ..spec import convert, has_option, integer, nearest, options_of, pieces_of, split_list
from ..user_classes import is_custom, resolve

SPECS = ("problem", "algorithm", "graph")
"""Axes whose values are specifications."""
RUN_AXES = (
    *SPECS, "weights", "matchings", "x1", "n", "iterations", "seeds", "seed", "log_every", "dtype",
    "place", "exchange", "straggler", "channel",
)  # fmt: skip
"""Options of a run that can be an axis."""
CHANNEL = "channel."
LINEAR = tuple(f"{CHANNEL}{share}" for share in SHARES)
"""Axes whose ranges are not logarithmic, and may begin at 0."""
LINEAR_POINTS = 7
KINDS = {field.name: field.type for field in fields(RunConfig)}


@dataclass(frozen=True)
class Axis:
    """One axis of a grid: a name, and its values as text."""

    name: str
    values: tuple[str, ...]

    @property
    def of_method(self) -> bool:
        """True for an option of the methods, to be tuned; False for a part of the setting."""
        return self.name not in RUN_AXES and not self.name.startswith(
            ("problem.", "graph.", CHANNEL)
        )

    @property
    def numbers(self) -> list[float] | None:
        """The values as numbers; None if one of them is none."""
        try:
            return [float(value) for value in self.values]
        except ValueError:
            return None


Over = Sequence[str] | Mapping[str, Any]
"""Axes as they are given: texts NAME=VALUES, or in Python a dictionary of values by name."""


def parse_axes(over: Over) -> list[Axis]:
    """Return the axes, of texts `NAME=VALUES` or of a dictionary; raise UserError for bad ones."""
    pairs = list(over.items()) if isinstance(over, Mapping) else [_named(text) for text in over]
    axes: list[Axis] = []
    for given, values in pairs:
        name = _canonical(given)
        if name in [axis.name for axis in axes]:
            raise UserError(f"--over {name} is given twice: give all its values at once")
        listed = _split(name, values) if isinstance(values, str) else _listed(name, values)
        expanded = [each for value in listed for each in _expand(name, value)]
        if not expanded:
            raise UserError(f"--over {name} has no values")
        _require_different(name, expanded)
        axes.append(Axis(name, tuple(expanded)))
    if not axes:
        raise UserError("over names no axis: give one as in --over lr=1e-3..1e-1")
    return axes


def _named(text: str) -> tuple[str, str]:
    name, equals, values = text.partition("=")
    if not equals or not name.strip():
        raise UserError(f"--over '{text}' is not of the form NAME=VALUES, as in lr=1e-3..1e-1")
    return name, values


def _canonical(name: Any) -> str:
    if not isinstance(name, str):
        raise UserError(f"the name of an axis is text, not {name!r}")
    name = name.strip()
    if name == "algorithms":
        return "algorithm"
    # `algorithm.lr` is the long form of `lr`, for an option with the name of another axis
    short = name.removeprefix("algorithm.")
    if short != name and short not in RUN_AXES:
        return short
    return name.replace("-", "_") if name.replace("-", "_") in RUN_AXES else name


def _split(name: str, text: str) -> list[str]:
    """Split at semicolons, or without any at the commas between values."""
    if ";" in text:
        return [value.strip() for value in text.split(";") if value.strip()]
    if name in SPECS:
        return split_list(text)
    return [value for value in pieces_of(text) if value]


def _listed(name: str, values: Any) -> list[str]:
    """Return the values of a list from Python as text; text in it is one value."""
    if isinstance(values, int | float) or not isinstance(values, Iterable):
        values = [values]
    return [_as_text(name, value) for value in values]


def _as_text(name: str, value: Any) -> str:
    value = getattr(value, "item", lambda: value)()  # a number of numpy's
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if not isinstance(value, str) or not value.strip():
        raise UserError(f"a value of the axis {name} is a number or text, not {value!r}")
    return value.strip()


def _expand(name: str, text: str) -> list[str]:
    """Return the values of a range LOW..HIGH or LOW..HIGH:K; any other text is one value."""
    low, dots, rest = text.partition("..")
    if not dots or name in SPECS or not _is_number(low):
        return [text]
    high, colon, count = (word.strip() for word in rest.partition(":"))
    points = integer(f"--over {name}: the number of points", count) if colon else None
    if points is not None and not LIMITS["points"][0] <= points <= LIMITS["points"][1]:
        least, most = LIMITS["points"]
        raise UserError(f"--over {name}: a range has {least} to {most} points, not {points}")
    if name in LINEAR:
        return _shares(name, text, low, high, points or LINEAR_POINTS)
    if not _is_number(high) or not 0 < float(low) < float(high) < float("inf"):
        raise UserError(
            f"--over {name}: a range is LOW..HIGH or LOW..HIGH:K with 0 < LOW < HIGH, a "
            f"logarithmic grid, not '{text}'; other values are listed: {name}=0,0.1,0.2"
        )
    grid = stepsizes(f"{low}..{high}", points)
    if KINDS.get(name) in (int, int | None):
        return [str(whole) for whole in dict.fromkeys(round(value) for value in grid)]
    # without ".0": an option may be a whole number
    return [str(int(v)) if v.is_integer() and v < 1e15 else repr(v) for v in grid]


def _shares(name: str, text: str, low: str, high: str, points: int) -> list[str]:
    """Return equidistant shares; ten decimals of each, so that 0.3 is 0.3."""
    if not _is_number(high) or not 0 <= float(low) < float(high) < 1:
        raise UserError(
            f"--over {name}: a range is LOW..HIGH or LOW..HIGH:K with 0 <= LOW < HIGH < 1, "
            f"not '{text}'"
        )
    first, step = float(low), (float(high) - float(low)) / (points - 1)
    return [f"{round(first + index * step, 10):.10g}" for index in range(points)]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _require_different(name: str, values: Sequence[str]) -> None:
    seen: set[str | float] = set()
    for value in values:
        key = float(value) if _is_number(value) else value
        if key in seen:
            raise UserError(f"--over {name}: {value} is given twice")
        seen.add(key)


def require_known(axes: Sequence[Axis], specs: Mapping[str, Sequence[str]]) -> None:
    """Raise UserError for an axis that is neither an option of the run nor of what it names.

    `specs` are the specifications of the problem, the algorithm and the graph in this sweep.
    """
    for axis in axes:
        if axis.name in RUN_AXES:
            continue
        kind, dot, key = axis.name.partition(".")
        if axis.name.startswith(CHANNEL):
            if not has_option(Channel, key):
                known = [f"{CHANNEL}{option}" for option in options_of(Channel)]
                raise UserError(f"there is no axis '{axis.name}'{nearest(axis.name, known)}")
            continue
        if not dot or kind not in SPECS:
            kind, key = "algorithm", axis.name
        lacking = [spec for spec in specs[kind] if not _takes(kind, spec, key)]
        if len(lacking) == len(specs[kind]):
            raise UserError(f"there is no axis '{axis.name}'{_hint(axis.name, specs)}")
        if lacking:
            having = ",".join(spec for spec in specs[kind] if spec not in lacking)
            flag = "--algorithms" if kind == "algorithm" else f"--over {kind}="
            raise UserError(
                f"--over {axis.name}: {kind} {_name(lacking[0])} has no option '{key}'; "
                f"name those that have it: {flag}{' ' if kind == 'algorithm' else ''}{having}"
            )


def _name(spec: str) -> str:
    """Return a specification without its options; graphs that take turns as they are."""
    return spec if not is_custom(spec) and len(split_turns(spec)) > 1 else spec_name(spec)


def _hint(name: str, specs: Mapping[str, Sequence[str]]) -> str:
    """Return the end of a message about an unknown axis."""
    known = _names(specs)
    of_what = [each for each in known if each.partition(".")[2] == name]
    if of_what:
        return f": it is an option of the {of_what[0].partition('.')[0]}, {of_what[0]}"
    kind, dot, key = name.partition(".")
    if dot and kind in SPECS:
        return f": {kind} {_name(specs[kind][0])} has no option '{key}'{nearest(name, known)}"
    others = [method for method, made in ALGORITHMS.items() if has_option(made, name)]
    if others:
        method = spec_name(specs["algorithm"][0])
        return f": algorithm {method} has no option '{name}' ({', '.join(others)} have)"
    return nearest(name, known)


def _names(specs: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the names of all axes that this sweep could have."""
    names = {name.replace("_", "-") for name in RUN_AXES}
    names |= {f"{CHANNEL}{key}" for key in options_of(Channel)}
    for kind, several in specs.items():
        for spec in several:
            factory = _factory(kind, spec)
            prefix = "" if kind == "algorithm" else f"{kind}."
            names |= {f"{prefix}{key}" for key in (options_of(factory) if factory else ())}
    return sorted(names)


def _factory(kind: str, spec: str) -> Callable[..., Any] | None:
    """Return what makes the problem, algorithm or graph; None for a file, networkx, or a + of them.

    The options of graphs that take turns are no axes: they would not say of which.
    """
    if kind == "graph":
        return FAMILIES.get(spec.partition(":")[0].strip()) if len(split_turns(spec)) == 1 else None
    registry: Mapping[str, Any] = PROBLEMS if kind == "problem" else ALGORITHMS
    made: Callable[..., Any] = resolve(kind, registry, spec)[1]
    return made


def _takes(kind: str, spec: str, key: str) -> bool:
    factory = _factory(kind, spec)
    if factory is None:
        return spec.startswith("nx.") and len(split_turns(spec)) == 1  # networkx itself will tell
    return has_option(factory, key)


def with_option(what: str, spec: str, key: str, value: str) -> str:
    """Return the specification with one more option; raise UserError if it sets that one."""
    words = spec.split(":", 2 if is_custom(spec) else 1)
    rest = words.pop() if len(words) == (3 if is_custom(spec) else 2) else ""
    if any(item.partition("=")[0].strip() == key for item in pieces_of(rest)):
        raise UserError(f"{what} '{spec}' sets the {key} that --over varies")
    return f"{':'.join(words)}:{key}={value}" + (f",{rest}" if rest else "")


def apply(options: dict[str, Any], axis: Axis, value: str) -> None:
    """Set one value of an axis among the options of a run."""
    kind, dot, key = axis.name.partition(".")
    if axis.name in RUN_AXES:
        options[axis.name] = convert(f"--over {axis.name}", KINDS[axis.name], value)
        return
    if axis.name.startswith(CHANNEL):
        given = options.get("channel")
        options["channel"] = f"{key}={value}" + (f",{given}" if given else "")
        return
    if not dot or kind not in SPECS:
        kind, key = "algorithm", axis.name
    default = {"problem": "huber", "graph": "er"}
    spec = options.get(kind) or default[kind]
    options[kind] = with_option(f"the {kind}", spec, key, value)
