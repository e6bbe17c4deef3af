"""Grid of a sweep: one point, which is one ordinary run, per method and combination of values."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..array_files import read_array
from ..channels.methods import methods_for
from ..config import RunConfig
from ..engine.start import require_start_shape
from ..errors import UserError
from ..graphs import Network, build_network
from ..problems import Place
from ..spec import split, split_list
from ..trial import limit
from ..user_classes import is_custom
from .axes import CHANNEL, Axis, Over, apply, parse_axes, require_known

MOST_POINTS = 5000
SMALL = 1 << 26  # bytes of a problem that is made once, to check its options
OWN = {"quiet": True, "no_figures": True}  # options of every point
NOT_FOR_POINTS = ("out", "overwrite", "resume", "reserved", "algorithms", "lr", "points")


@dataclass(frozen=True)
class Point:
    """One point of a grid."""

    method: str  # its specification without the values of the axes
    values: dict[str, str]  # by axis
    config: RunConfig  # without a directory


@dataclass(frozen=True)
class Grid:
    """All points of a sweep, each checked; `config` holds what they have in common."""

    config: RunConfig
    axes: list[Axis]
    methods: list[str]
    points: list[Point]

    def over(self) -> dict[str, list[str]]:
        """Return the axes for run.json."""
        return {axis.name: list(axis.values) for axis in self.axes}


def make_grid(options: Mapping[str, Any], over: Over) -> Grid:
    """Return the grid of these options of a run; raise UserError, whatever point is at fault.

    `options` may have `algorithms`, by default all. `lr` and `points` are an axis as well.
    """
    axes, given = _axes(options, over)
    given.setdefault("algorithms", methods_for(_channel_options(axes, given)))
    methods = split_list(given["algorithms"])
    config = RunConfig.of(given)
    _require_ordinary(config)
    specs: dict[str, list[str]] = {
        "algorithm": methods,
        "problem": _values(axes, "problem") or [config.problem],
        "graph": _values(axes, "graph") or [config.graph or "er"],
    }
    count = math.prod(len(axis.values) for axis in axes) * len(methods)
    if count > MOST_POINTS:
        raise UserError(f"the grid has {count} points, more than {MOST_POINTS}: make it smaller")
    require_known(axes, specs)
    common = {key: value for key, value in given.items() if key not in NOT_FOR_POINTS}
    points = [
        _point(common, method, axes, values)
        for method in methods
        for values in itertools.product(*(axis.values for axis in axes))
    ]
    return Grid(config, axes, methods, _different(points))


def _axes(options: Mapping[str, Any], over: Over) -> tuple[list[Axis], dict[str, Any]]:
    """Return the axes, and the options without those that are an axis."""
    given = dict(options)
    axes = parse_axes(_with_channel(over, given))
    low_high, count = given.pop("lr", None), given.pop("points", None)
    if low_high is None and count is not None:
        raise UserError("--points goes with --lr; of another axis give NAME=LOW..HIGH:K")
    if low_high is not None:
        if _values(axes, "lr"):
            raise UserError("lr is given twice: by --lr and by --over lr")
        axes[:0] = parse_axes([f"lr={low_high}" + (f":{count}" if count is not None else "")])
    for axis in axes:
        name = "algorithms" if axis.name == "algorithm" else axis.name
        if given.get(name) is not None:
            flag = "-n" if name == "n" else "--" + name.replace("_", "-")
            raise UserError(f"{axis.name} is given twice: by {flag} and by --over {axis.name}")
    if named := _values(axes, "algorithm"):
        given["algorithms"] = ",".join(named)
    if "algorithm" in given:
        raise UserError("a sweep takes algorithms, not algorithm")
    return [axis for axis in axes if axis.name != "algorithm"], given


def varies(channel: Any) -> bool:
    """Return whether the option --channel holds a range, which is an axis."""
    return isinstance(channel, str) and ".." in channel


def _with_channel(over: Over, given: dict[str, Any]) -> Over:
    """Return the axes with those of a channel of which an option varies.

    Its other options are axes of one value then: burst=5 alone is no channel.
    """
    names = [str(each).partition("=")[0].strip() for each in over]
    on_axis = any(name.startswith(CHANNEL) for name in names)
    if not varies(given.get("channel")) and not (on_axis and given.get("channel")):
        return over
    _, options = split(f"channel:{given.pop('channel')}")
    for key in options:
        if f"{CHANNEL}{key}" in names:
            raise UserError(f"{CHANNEL}{key} is given twice: by --channel and by --over")
    if isinstance(over, Mapping):
        return {**over, **{f"{CHANNEL}{key}": value for key, value in options.items()}}
    return [*over, *(f"{CHANNEL}{key}={value}" for key, value in options.items())]


def _channel_options(axes: Sequence[Axis], given: Mapping[str, Any]) -> list[str]:
    """Return the options of the channels in this grid."""
    texts = [*_values(axes, "channel"), given.get("channel") or ""]
    named = [key for text in texts for key in split(f"channel:{text}")[1]]
    return [*named, *(axis.name.removeprefix(CHANNEL) for axis in axes)]


def _values(axes: Sequence[Axis], name: str) -> list[str]:
    return next((list(axis.values) for axis in axes if axis.name == name), [])


def _require_ordinary(config: RunConfig) -> None:
    if config.profile or config.audit:
        raise UserError("profile and audit are for one run: a sweep takes neither")


def _point(
    common: Mapping[str, Any], method: str, axes: Sequence[Axis], values: Sequence[str]
) -> Point:
    options = {**common, "algorithm": method, **OWN}
    for axis, value in zip(axes, values, strict=True):
        apply(options, axis, value)
    named = {axis.name: value for axis, value in zip(axes, values, strict=True)}
    return Point(method, named, RunConfig.of(options))


def _different(points: Sequence[Point]) -> list[Point]:
    """Return the points; raise UserError if two are the same run, but for a trial's cuts."""
    by_config: dict[RunConfig, Point] = {}
    for point in points:
        same = by_config.setdefault(point.config, point)
        if same is not point and limit() is None:
            raise UserError(f"two points of the grid are the same run: {shown(point)}")
    return list(by_config.values())


def shown(point: Point) -> str:
    """Return a point in words, for messages and progress."""
    return ", ".join([point.method, *(f"{key} {value}" for key, value in point.values.items())])


class Checker:
    """Checks of the points that need graphs and problems."""

    def __init__(self) -> None:
        self._build = lru_cache(maxsize=64)(build_network)
        self._read = lru_cache(maxsize=8)(read_array)
        self._problems: set[tuple[Any, ...]] = set()

    def network(self, config: RunConfig) -> Network:
        """Return the graph of a point with its weights; raise UserError if there is none."""
        assert config.n is not None
        return self._build(config.graph, config.weights, config.n, config.matchings)

    def check(self, point: Point) -> None:
        """Raise UserError for a graph or an option of the problem that the run would refuse."""
        try:
            self.network(point.config)
            self._check_problem(point.config)
            self._check_start(point.config)
        except UserError as error:
            raise UserError(f"at {shown(point)}: {error}") from None

    def _check_start(self, config: RunConfig) -> None:
        if config.x1 is not None:
            shape = self._read(Path(config.x1)).shape
            require_start_shape(config.x1, shape, config.n or 1, config.seeds)

    def _check_problem(self, config: RunConfig) -> None:
        """Make one node's problem, if that is no work: its constructor checks the options.

        A class of the user's is left to the ranks, as is whatever needs data.
        """
        key = (config.problem, config.n, config.dtype)
        if is_custom(config.problem) or key in self._problems:
            return
        self._problems.add(key)
        name, kind, options = config.parse_problem()
        place = Place(0, config.n or 1, (config.seed,), config.numpy_dtype)
        size = getattr(kind, "least_memory", lambda *_, **__: 0)
        if size(place.nodes, 1, 1, config.numpy_dtype.itemsize, **options) > SMALL:
            return
        try:
            kind(place, **options)
        except ValueError as error:
            raise UserError(f"problem {name}: {' '.join(str(error).split())}") from None
        except Exception:  # it has no data here
            return
