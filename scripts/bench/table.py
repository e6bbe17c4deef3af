"""The table of the benchmark: one row per measure, with its target."""

from collections.abc import Iterator
from typing import Any

Row = dict[str, Any]


def reached(ratio: float, target: str) -> bool:
    """Return whether the ratio meets a target such as "<= 1.5" or "<= 2 µs"."""
    relation, bound = target.split()[:2]
    return ratio <= float(bound) if relation == "<=" else ratio >= float(bound)


def shown(value: float, unit: str) -> str:
    """Format a time with its unit."""
    if unit == "us" and value >= 1000:
        return f"{value / 1000:.3g} ms"
    return f"{value:.3g} {'µs' if unit == 'us' else unit}"


def lines(results: dict[str, Row]) -> Iterator[str]:
    """Return the lines of bench.md: one row per measure."""
    yield "| measure | mpi-gt | compared with | ratio | target | |"
    yield "|---|---|---|---|---|---|"
    for row in results.values():
        if "ratio" not in row:
            yield f"| {row['what']} | | | | {row['reach']} | {row['note']} |"
            continue
        both = f"{shown(row['ours'], row['unit'])} | {shown(row['theirs'], row['unit'])}"
        mark = "reached" if row["reached"] else "not reached"
        unit = " µs" if row["reach"].endswith("µs") else ""  # then the ratio is a difference
        yield f"| {row['what']} | {both} | {row['ratio']:.2f}{unit} | {row['reach']} | {mark} |"
