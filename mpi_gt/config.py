"""The configuration of a run, checked before anything starts, and its TOML files."""

import contextlib
import math
import typing
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from .algorithms import ALGORITHMS, Algorithm
from .algorithms.base import exchange_interval, round_up
from .algorithms.budget import Budget
from .algorithms.stepsizes import MOST, stepsizes, with_stepsize
from .channels import Channel
from .comm import EXCHANGE_NAMES
from .errors import UserError
from .files import parse_toml, read_text, require_name
from .graphs import IN_RANK_ORDER
from .kernels.fixed_order import require_kernels
from .problems import PROBLEMS
from .problems.straggler import Straggler
from .rundir.layout import BY_RANK, LAYOUTS
from .spec import convert, integer, nearest, require_showable, split_list
from .trial import cut_iterations, cut_ranks
from .user_classes import (
    construct,
    handed_over,
    is_custom,
    require_attributes,
    resolve,
    without_file,
)

DTYPES = ("float64", "float32")
AUTO = "auto"
NAMES = {"exchange": (*EXCHANGE_NAMES, AUTO), "dtype": DTYPES, "checkpoint_layout": LAYOUTS}
LIMITS = {
    "iterations": (1, 10**15),
    "seeds": (1, 10**6),
    "seed": (0, 2**63),
    "log_every": (1, 10**15),
    "n": (1, 10**6),
    "points": (2, MOST),
    "checkpoint_every": (1, 10**15),
    "checkpoint_minutes": (1e-3, 1e9),
    "watchdog": (0, 10**9),
}


@dataclass(frozen=True)
class Entry:
    """One algorithm of a run."""

    label: str  # the name; the whole specification if two entries have the same name
    algorithm: Algorithm
    custom: bool  # True: a user's own class
    method: str  # the specification without the swept stepsize
    lr: float | None  # the swept stepsize; None outside a sweep


@dataclass(frozen=True)
class RunConfig:
    """The options of one run, or of a comparison (`algorithms`, a list of specifications).

    Fields are named like the command-line options, with _ for -; `n` is the number of nodes.
    """

    problem: str = "huber"
    algorithm: str = "gt-adaptive"
    algorithms: str | None = None
    lr: str | None = None  # stepsizes to sweep: LOW..HIGH
    points: int | None = None  # number of stepsizes; None: two per decade
    graph: str | None = None  # None: er, or the graph of a `weights` file
    weights: str | None = None
    matchings: str | None = None  # all or random: the graph's edges in turn, as pairs
    iterations: int = 2000
    budget: str | None = None  # gradients=NUMBER or bytes=NUMBER, for each algorithm
    seeds: int = 1
    seed: int = 0
    log_every: int | None = None  # None: iterations / 200, rounded up to a multiple of `every`
    place: str = IN_RANK_ORDER  # which rank owns which node
    exchange: str = "neighbor"
    dtype: str = "float64"
    reproducible: bool = False  # the same bits on every kind of processor
    x1: str | None = None
    out: str | None = None
    overwrite: bool = False
    quiet: bool = False
    no_figures: bool = False
    stacked: bool = False
    data_dir: str | None = None
    profile: bool = False
    trace_iterations: str | None = None  # A:B; None: a hundred in the middle
    straggler: str | None = None
    channel: str | None = None  # links=P,loss=P,noise=SD,inactive=P; None: a perfect one
    checkpoint_every: int | None = None  # iterations
    checkpoint_minutes: float | None = None
    checkpoint_layout: str = BY_RANK  # a file per rank, or per host
    checkpoint_staging: str | None = None  # a folder of each host, from which they are copied
    watchdog: int = 120  # seconds that an exchange may take; 0: no limit
    resume: bool = False  # continue the run in `out`, if there is one
    audit: bool = False  # measure both sides of every statement of the theory
    L: float | None = None  # for the theory, instead of the problem's own constants
    G: float | None = None
    sigma2: float | None = None
    f_star: float | None = None
    n: int | None = None
    reserved: bool = False  # the front end made `out` for this run, and it is empty

    def __post_init__(self) -> None:
        if type(self.iterations) is int and self.iterations > cut_iterations(self.iterations):
            object.__setattr__(self, "iterations", cut_iterations(self.iterations))
            # the window may lie beyond the cut
            object.__setattr__(self, "trace_iterations", None)

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> "RunConfig":
        """Return the checked configuration with these options.

        Only root calls it and sends the result: other ranks may see other files.
        """
        known = {field.name: field.type for field in fields(cls)}
        for name in options:
            if name not in known:
                raise UserError(f"unknown option '{name}'{nearest(name, known)}")
        typed = {name: _typed(name, known[name], value) for name, value in options.items()}
        if typed.get("budget") is not None and "iterations" not in typed:
            typed["iterations"] = LIMITS["iterations"][1]  # the budget alone ends the run
        if typed.get("n") is not None:
            typed["n"] = cut_ranks(typed["n"])
        config = cls(**typed)
        config.check()
        return config

    def check(self) -> None:
        """Raise UserError for every mistake that shows before graph and data are built."""
        for name, (lowest, highest) in LIMITS.items():
            value = getattr(self, name)
            if value is not None and not lowest <= value <= highest:
                shown = name.replace("_", "-")
                raise UserError(f"{shown} must be in [{lowest}, {highest}], not {value}")
        for name, known in NAMES.items():
            if (value := getattr(self, name)) not in known:
                shown = name.replace("_", "-")
                raise UserError(f"unknown {shown} '{value}'{nearest(value, known)}")
        if (self.lr is not None or self.points is not None) and self.algorithms is None:
            raise UserError(
                "lr and points are for a sweep, which needs algorithms as well; for one run set "
                "the stepsize in the algorithm, as in gt:lr=0.1"
            )
        self.check_performance_options()
        for name in ("L", "G", "sigma2", "f_star"):
            given = getattr(self, name)
            if given is not None and not (0 <= given < math.inf or name == "f_star"):
                raise UserError(f"{name} must be finite and >= 0, not {given}")
        if self.f_star is not None and not math.isfinite(self.f_star):
            raise UserError(f"f-star must be finite, not {self.f_star}")
        if self.audit and self.algorithms is not None:
            raise UserError("audit is for a run of one algorithm")
        if self.budget is not None:
            Budget.of(self.budget)
        entries = self.entries()
        if self.channel is not None:
            channel = Channel.of(self.channel)
            for entry in entries:
                channel.require_method(entry.label, entry.algorithm)
        name, kind, options = self.parse_problem()
        if not is_custom(self.problem):
            construct(f"problem {name}", False, lambda: kind.check_options(**options))
        from .graphs import parse_layers, parse_matchings, parse_weights  # here: on root only
        from .graphs.placement import parse_placement
        from .graphs.weights import require_computed

        if self.reproducible:
            require_kernels()
            require_computed(self.weights)
        network = ((self.graph, parse_layers), (self.weights, parse_weights))
        ranks = ((self.matchings, parse_matchings), (self.place, parse_placement))
        for text, parse in (*network, *ranks):
            if text is not None:
                parse(text)

    def check_performance_options(self) -> None:
        """Raise UserError if profile, trace, place or straggler do not fit the other options."""
        if self.profile and (self.stacked or self.budget or self.algorithms is not None):
            raise UserError(
                "profile is for one algorithm on MPI ranks, not stacked, compared or on a budget"
            )
        if self.profile and self.iterations > 10**7:
            raise UserError("a profile takes 150 bytes per iteration: at most 1e7 iterations")
        if (self.profile or self.audit) and self.resume:
            raise UserError("profile and audit need a whole run: they cannot resume one")
        if self.trace_iterations is not None and not self.profile:
            raise UserError("trace-iterations is for a profile: give --profile as well")
        if self.trace_iterations is not None:
            _ = self.trace_window
        if self.stacked and self.place != IN_RANK_ORDER:
            raise UserError("place is for MPI ranks on several hosts: not stacked")
        if self.straggler is not None:
            if self.stacked:
                raise UserError("a straggler needs MPI ranks that wait for it: not stacked")
            Straggler.of(self.straggler).require_run(self.watchdog, self.n)

    @property
    def trace_window(self) -> range:
        """The iterations that the trace shows, by default a hundred in the middle of the run."""
        if self.trace_iterations is None:
            first = max(1, self.iterations // 2 - 50)
            return range(first, min(first + 100, self.iterations + 1))
        words = self.trace_iterations.split(":")
        first, last = 0, 0
        with contextlib.suppress(ValueError, UserError):  # not two words, or no whole numbers
            first, last = (integer("trace-iterations", word.strip()) for word in words)
        if not 1 <= first <= last <= self.iterations:
            raise UserError(
                f"trace-iterations must be A:B with 1 <= A <= B <= {self.iterations}, "
                f"not '{self.trace_iterations}'"
            )
        return range(first, last + 1)

    @cached_property
    def log_interval(self) -> int:
        """The iterations from one measurement to the next; a comparison has one per method."""
        if self.log_every is not None:
            return self.log_every
        interval = -(-self.iterations // (20 if self.profile else 200))
        if self.algorithms is not None:
            return interval
        return round_up(interval, exchange_interval(self.entries()[0].algorithm))

    @property
    def seed_list(self) -> tuple[int, ...]:
        return tuple(range(self.seed, self.seed + self.seeds))

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        return np.dtype(self.dtype)

    def entries(self) -> list[Entry]:
        """Return the algorithms to run, each with a unique label."""
        specs = [self.algorithm] if self.algorithms is None else split_list(self.algorithms)
        if not specs:
            raise UserError("no algorithm is named")
        swept: list[tuple[str, float | None]] = [(spec, None) for spec in specs]
        if self.lr is not None:
            grid = stepsizes(self.lr, self.points)
            swept = [(spec, lr) for spec in specs for lr in grid]
            specs = [with_stepsize(spec, lr) for spec in specs for lr in grid]
        made = [_make_algorithm(spec) for spec in specs]
        names = [name for name, _ in made]
        entries = [
            Entry(
                name if names.count(name) == 1 else without_file(spec), it, is_custom(spec), *origin
            )
            for spec, (name, it), origin in zip(specs, made, swept, strict=True)
        ]
        labels = [entry.label for entry in entries]
        for label in labels:
            require_showable("the name of an algorithm", label)
            if labels.count(label) > 1:
                raise UserError(f"'{label}' is given twice")
        return entries

    def parse_problem(self) -> tuple[str, Any, dict[str, Any]]:
        """Return the problem's name, class and options."""
        return resolve("problem", PROBLEMS, self.problem)


def _typed(name: str, kind: Any, value: Any) -> Any:
    """Convert an option from Python to the type of its field; raise UserError if that fails."""
    if isinstance(value, Path):
        value = str(value)
    if isinstance(value, np.integer):
        value = int(value)
    if name == "dtype" and not isinstance(value, str):
        with contextlib.suppress(TypeError, ValueError):
            value = getattr(np.dtype(value), "name", value)
    kinds = typing.get_args(kind) or (kind,)
    if float in kinds and isinstance(value, int) and not isinstance(value, bool):
        with contextlib.suppress(OverflowError):
            value = float(value)
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        wanted = " or ".join("None" if k is type(None) else k.__name__ for k in kinds)
        raise UserError(f"{name} must be {wanted}, not {value!r}")
    if isinstance(value, str) and "\0" in value:
        raise UserError(f"{name} holds a null character")
    if name in ("out", "checkpoint_staging") and value:
        require_name(value)
    return value


def _make_algorithm(spec: str) -> tuple[str, Algorithm]:
    """Return the name and the algorithm of a specification."""
    if (made := handed_over(spec)) is not None:
        name = type(made).__name__
    else:
        name, kind, options = resolve("algorithm", ALGORITHMS, spec)
        made = construct(f"algorithm {name}", is_custom(spec), lambda: kind(**options))
    if is_custom(spec):
        require_attributes("algorithm", name, made)
    return name, made


def read_toml(path: Path) -> dict[str, Any]:
    """Return the options of a TOML file; its keys are command-line names with - or _."""
    return options_of_table(parse_toml(read_text(path), str(path)), str(path))


def options_of_table(table: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Convert a TOML table to the options of a run; `name` is the file's, for messages."""
    kinds = {
        field.name: field.type
        for field in fields(RunConfig)
        if field.name not in ("reserved", "resume")
    }
    options: dict[str, Any] = {}
    for key, value in table.items():
        option = key.replace("-", "_")
        if option in options:
            raise UserError(f"{name}: {key} is given twice")
        if option not in kinds:
            known = (known.replace("_", "-") for known in kinds)
            raise UserError(f"{name}: unknown key '{key}'{nearest(key, known)}")
        if not isinstance(value, str | int | float):
            raise UserError(f"{name}: {key} must be text, a number or true/false")
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # 2e4 is a whole number, here as on the command line
        options[option] = convert(f"{name}: {key}", kinds[option], str(value))
    return options


def to_arguments(config: RunConfig) -> list[str]:
    """Return the arguments of `mpi-gt` that run this configuration."""
    several = "compare" if config.lr is None else "sweep"
    words = ["run" if config.algorithms is None else several]
    for name, value in asdict(config).items():
        if name == "algorithm" and config.algorithms is not None:
            continue
        flag = "-n" if name == "n" else "--" + name.replace("_", "-")
        if value is True:
            words.append(flag)
        elif value is not None and value is not False:
            words += [flag, str(value)] if name == "n" else [f"{flag}={value}"]
    return words
