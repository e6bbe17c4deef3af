"""The options of `mpi-gt bench`, checked."""

import math
from dataclasses import dataclass
from typing import Any

from ..comm import EXCHANGE_NAMES
from ..errors import UserError
from ..graphs import IN_RANK_ORDER, parse_layers
from ..graphs.placement import parse_placement
from ..spec import convert, integer, nearest, split_list
from ..trial import cut_ranks, cut_seconds, cut_sizes
from .codecs import parse_compressors, require_compressors

UNITS = {"b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}


@dataclass(frozen=True)
class BenchPlan:
    """The options of `mpi-gt bench`."""

    sizes: tuple[int, ...] = (160, 1600, 16_000, 160_000, 1_600_000)
    graphs: tuple[str, ...] = ("ring", "er:p=0.7")
    place: str = IN_RANK_ORDER
    exchanges: tuple[str, ...] = EXCHANGE_NAMES
    compress: tuple[str, ...] = ()
    seconds: float = 0.5
    n: int | None = None
    out: str | None = None
    overwrite: bool = False
    reserved: bool = False
    quiet: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "seconds", cut_seconds(self.seconds))
        object.__setattr__(self, "sizes", cut_sizes(self.sizes))

    @classmethod
    def of(cls, given: dict[str, Any]) -> "BenchPlan":
        """Return the checked plan for the options of the command line, whose values are text."""
        options = dict(given)
        if "sizes" in options:
            options["sizes"] = tuple(
                parse_size("--sizes", text) for text in options["sizes"].split(",")
            )
        if "graphs" in options:
            options["graphs"] = tuple(split_list(options["graphs"]))
        if "exchanges" in options:
            options["exchanges"] = tuple(options["exchanges"].replace(" ", "").split(","))
        if "compress" in options:
            options["compress"] = parse_compressors(options["compress"])
        if "seconds" in options:
            options["seconds"] = convert("--seconds", float, options["seconds"])
        if "n" in options:
            options["n"] = cut_ranks(integer("-n", options["n"]))
        plan = cls(**options)
        plan.check()
        return plan

    def check(self) -> None:
        """Raise UserError if an option is out of its range."""
        for name in self.exchanges:
            if name not in EXCHANGE_NAMES:
                raise UserError(f"unknown exchange '{name}'{nearest(name, EXCHANGE_NAMES)}")
        for spec in self.graphs:
            parse_layers(spec)
        parse_placement(self.place)
        if not self.graphs:
            raise UserError("--graphs names no graph")
        for given in self.sizes:
            if not 16 <= given <= 2**30 or given % 16:
                raise UserError(
                    f"a size must be a multiple of 16 bytes (two vectors of doubles) "
                    f"in [16, 2^30], not {given}"
                )
        require_compressors(self.compress, self.sizes)
        if not 0 < self.seconds <= 3600:
            raise UserError(f"--seconds must be in (0, 3600], not {self.seconds}")
        if self.n is not None and not 1 <= self.n <= 10**6:
            raise UserError(f"-n must be in [1, 1000000], not {self.n}")


def parse_bytes(option: str, text: str) -> float:
    """Return a number of bytes, given as 160, 16e3, 125kB, 1.25MB or 4KiB.

    `option` is the option's name, for the error message.
    """
    letters = text.strip().lower()
    unit = next(
        (name for name in sorted(UNITS, key=len, reverse=True) if letters.endswith(name)), ""
    )
    try:
        value = float(letters[: len(letters) - len(unit)]) * UNITS.get(unit, 1)
    except ValueError:
        raise UserError(
            f"{option}: '{text}' is not a number of bytes (such as 160, 16kB, 1MB)"
        ) from None
    if not math.isfinite(value):
        raise UserError(f"{option}: '{text}' is not a number of bytes")
    return value


def parse_size(option: str, text: str) -> int:
    """Return a whole number of bytes, given as for `parse_bytes`."""
    value = parse_bytes(option, text)
    if not math.isclose(value, round(value), rel_tol=1e-12):
        raise UserError(f"{option}: '{text}' is not a whole number of bytes")
    return round(value)
