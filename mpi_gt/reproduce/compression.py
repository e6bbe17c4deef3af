"""Costs and savings of compressed messages: the tables and claims of the variant `compressed`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from ..algorithms import full_name, told_apart
from ..algorithms.compressed.base import Compressed
from ..config import RunConfig
from .claims import Field
from .judging import Array, Measured, judge

VARIANT = "compressed"
LEVELS = {"1e-4": 1e-4, "1e-6": 1e-6}
"""The gaps at which the costs of the methods are compared, with their names."""
FREE = ("bfloat16", "8 bits", "4 bits")
"""The compressors that are to cost no more than a tenth of the gap."""
PLAIN, ONE_BIT = "none", "sign"
FLOOR, FLOOR_TEXT = 5e-8, "5e-8"  # what the gap with one bit per entry is to stay below


def compressors_of(runs: Mapping[str, RunConfig]) -> dict[str, str]:
    """Return the label of the method with each compressor: none, bfloat16, 8 bits, sign, ..."""
    named: dict[str, str] = {}
    for label, config in runs.items():
        method = config.entries()[0].algorithm
        if isinstance(method, Compressed):
            quantised = method.compress == "qsgd"
            named.setdefault(f"{method.bits} bits" if quantised else method.compress, label)
    return named


def judge_compression(
    rows: Iterable[Mapping[str, Any]], compressors: Mapping[str, str], field: Field | None = None
) -> list[dict[str, Any]]:
    """Judge what compression does to the gap, at an equal budget of gradients."""
    measured = Measured(rows)
    labels = {name: label for name, label in compressors.items() if label in measured.labels}
    steps = (field or Field()).steps

    def gap(name: str) -> Array:
        return np.log10(measured.tail(labels[name], "gap"))

    def beside_none(name: str) -> tuple[Array, Array]:
        return gap(name), gap(PLAIN) + np.log10(1.1)

    def below_floor(name: str) -> tuple[Array, Array]:
        return gap(name), np.full_like(gap(name), np.log10(FLOOR))

    missing = [name for name in (PLAIN, *FREE) if name not in labels]
    others = [] if PLAIN in missing else [name for name in FREE if name in labels]
    last = "log10 of the mean gap over the last fifth, {other} minus "
    verdicts = [
        judge(
            "bfloat16, 8 and 4 bits leave the gap within a tenth of that without compression",
            last + "1.1 times none", beside_none, others, missing,
            steps=lambda name: steps(labels[name], labels[PLAIN]),
        ),
        judge(
            f"with one bit per entry the gap ends below {FLOOR_TEXT}",
            last + f"{FLOOR_TEXT}", below_floor,
            [ONE_BIT] if ONE_BIT in labels else [], [] if ONE_BIT in labels else [ONE_BIT],
            steps=lambda name: steps(labels[name]),
        ),
    ]  # fmt: skip
    return [asdict(verdict) for verdict in verdicts]


def costs_of(rows: Sequence[Mapping[str, Any]], label: str) -> dict[str, Any]:
    """Return all bytes of a method, and bytes and seconds up to the gaps of LEVELS (None: never).

    A gap is reached where the mean over seeds is first below it, at a logged iteration.
    """
    by_iteration: dict[int, list[Mapping[str, Any]]] = {}
    for row in rows:
        if row["algorithm"] == label:
            by_iteration.setdefault(int(row["iteration"]), []).append(row)
    logged = sorted(by_iteration)
    gaps = [np.mean([float(row["gap"]) for row in by_iteration[t]]) for t in logged]
    costs: dict[str, Any] = {"bytes": int(by_iteration[logged[-1]][0]["bytes"]), "reached": {}}
    for text, level in LEVELS.items():
        first = next((t for t, gap in zip(logged, gaps, strict=True) if gap < level), None)
        spent = None if first is None else by_iteration[first][0]
        costs["reached"][text] = spent and {
            "bytes": int(spent["bytes"]),
            "seconds": float(spent["seconds"]),
        }
    return costs


def cost_table(
    costs: Mapping[str, Mapping[str, Any]], compressors: Mapping[str, str]
) -> Iterator[str]:
    """Give the lines of the table of costs.

    Times are not among them: those of launches one after the other are no comparison.
    """
    base = costs.get(compressors.get(PLAIN, ""))
    short = told_apart(list(costs))
    reached = "".join(f" to a gap of {level} |" for level in LEVELS)
    yield f"| method | bytes, all nodes, one seed | times fewer than none |{reached}"
    yield "|---|---|---|" + "---|" * len(LEVELS)
    for label, cost in costs.items():
        cells = [full_name(short[label]).replace("|", r"\|"), f"{cost['bytes'] / 1e6:,.1f} MB"]
        cells.append(f"{base['bytes'] / cost['bytes']:.1f}" if base else "")
        for level in LEVELS:
            spent = cost["reached"][level]
            cells.append(f"{spent['bytes'] / 1e6:,.1f} MB" if spent else "not reached")
        yield f"| {' | '.join(cells)} |"
    yield ""
    yield (
        "What that saves in time depends on the network: `mpi-gt bench --compress` measures it by "
        "turns, `mpi-gt predict --compress` takes the latency and bandwidth of yours."
    )
