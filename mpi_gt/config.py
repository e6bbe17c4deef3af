"""RunConfig: everything that decides what a run computes, checked before anything starts."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from .algorithms import ALGORITHMS, Algorithm
from .custom import is_custom, located, resolve
from .errors import UserError
from .graphs import parse_graph, parse_weights
from .problems import PROBLEMS
from .spec import convert, nearest, split_list

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DTYPES = ("float64", "float32")
EXCHANGES = ("neighbor", "persistent")
LOWEST = {"iterations": 1, "seeds": 1, "seed": 0, "log_every": 1, "n": 1}


@dataclass(frozen=True)
class Entry:
    """One algorithm of a run."""

    label: str  # its name; its whole specification where the name is there twice
    algorithm: Algorithm
    custom: bool  # a user's own class


@dataclass(frozen=True)
class RunConfig:
    """One run, or a comparison of several algorithms (`algorithms`, a list of specifications).

    Field names are the command line's, with _ for -; `n` is the number of nodes.
    """

    problem: str = "huber"
    algorithm: str = "gt-adaptive"
    algorithms: str | None = None
    graph: str | None = None  # er, unless `weights` brings its own
    weights: str | None = None
    iterations: int = 2000
    seeds: int = 1
    seed: int = 0
    log_every: int | None = None  # iterations / 200, rounded up
    exchange: str = "neighbor"
    dtype: str = "float64"
    x1: str | None = None
    out: str | None = None
    overwrite: bool = False
    quiet: bool = False
    stacked: bool = False
    n: int | None = None

    def __post_init__(self) -> None:
        for name, lowest in LOWEST.items():
            value = getattr(self, name)
            if value is None and name in ("log_every", "n"):
                continue
            if not isinstance(value, int | np.integer) or value < lowest:
                shown = name.replace("_", "-")
                raise UserError(f"{shown} must be a whole number, at least {lowest}, not {value}")
        for name, known in (("exchange", EXCHANGES), ("dtype", DTYPES)):
            if getattr(self, name) not in known:
                value = getattr(self, name)
                raise UserError(f"unknown {name} '{value}'{nearest(value, known)}")
        self.entries()
        self.parse_problem()
        if self.graph is not None:
            parse_graph(self.graph)
        if self.weights is not None:
            parse_weights(self.weights)

    @property
    def stride(self) -> int:
        """Iterations from one measurement to the next."""
        return self.log_every or -(-self.iterations // 200)

    @property
    def seed_list(self) -> tuple[int, ...]:
        return tuple(range(self.seed, self.seed + self.seeds))

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        return np.dtype(self.dtype)

    def entries(self) -> list[Entry]:
        """The algorithms to run, each with a label of its own."""
        specs = [self.algorithm] if self.algorithms is None else split_list(self.algorithms)
        if not specs:
            raise UserError("no algorithm is named")
        made = [_make_algorithm(spec) for spec in specs]
        names = [name for name, _ in made]
        entries = [
            Entry(name if names.count(name) == 1 else spec, algorithm, is_custom(spec))
            for spec, (name, algorithm) in zip(specs, made, strict=True)
        ]
        labels = [entry.label for entry in entries]
        for label in labels:
            if labels.count(label) > 1:
                raise UserError(f"'{label}' is given twice")
        return entries

    def parse_problem(self) -> tuple[str, Any, dict[str, Any]]:
        """The problem's name, class and options."""
        return resolve("problem", PROBLEMS, self.problem)

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> "RunConfig":
        """From options by name; an unknown name is an error that suggests the right one."""
        known = [field.name for field in fields(cls)]
        for name in options:
            if name not in known:
                raise UserError(f"unknown option '{name}'{nearest(name, known)}")
        return cls(**options)


def _make_algorithm(spec: str) -> tuple[str, Algorithm]:
    name, kind, options = resolve("algorithm", ALGORITHMS, spec)
    try:
        return name, kind(**options)
    except ValueError as error:
        raise UserError(f"algorithm {name}: {error}") from None
    except Exception as error:
        raise UserError(f"algorithm {name}: {located(error)}") from None


def read_toml(path: Path) -> dict[str, Any]:
    """The options in a TOML file, under their command-line names (- or _)."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {path}: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path} is not valid TOML: {error}") from None
    kinds = {field.name: field.type for field in fields(RunConfig)}
    options = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name not in kinds:
            known = (known.replace("_", "-") for known in kinds)
            raise UserError(f"{path}: unknown key '{key}'{nearest(key, known)}")
        if not isinstance(value, str | int | float):
            raise UserError(f"{path}: {key} must be text, a number or true/false")
        options[name] = convert(f"{path}: {key}", kinds[name], str(value))
    return options
