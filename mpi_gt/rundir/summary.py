"""Summaries of a run's metrics: rows of a comparison, tails by seed, results of a sweep."""

import math
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from .metrics_csv import METRICS, extra_columns


def summarise(
    rows: Iterable[Mapping[str, Any]], results: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Return one summary per algorithm of a comparison.

    Metrics are means over seeds and over the last fifth of the logged iterations;
    `first_below_1e-3` is the first logged iteration at which the mean gap is below 1e-3.
    """
    gathered: dict[str, dict[int, list[Mapping[str, Any]]]] = {label: {} for label in results}
    for row in rows:
        gathered[row["algorithm"]].setdefault(row["iteration"], []).append(row)
    summary: dict[str, Any] = {}
    for label, result in results.items():
        by_iteration = gathered[label]
        if result.get("error"):
            summary[label] = {"error": result["error"]}
            continue
        logged = sorted(by_iteration)
        tail = logged[-math.ceil(len(logged) / 5) :]
        gaps = {t: mean_of([row["gap"] for row in by_iteration[t]]) for t in logged}
        below = (t for t, gap in gaps.items() if gap is not None and gap < 1e-3)
        extra = extra_columns(by_iteration[logged[-1]][0])
        summary[label] = {
            **{
                metric: mean_of([row[metric] for t in tail for row in by_iteration[t]])
                for metric in (*METRICS, *extra)
            },
            "seconds_per_iteration": result["seconds_per_iteration"],
            "bytes_per_iteration": by_iteration[logged[-1]][0]["bytes"] / logged[-1],
            "first_below_1e-3": next(below, None),
        }
    return summary


def mean_of(values: list[float | None]) -> float | None:
    """Return the mean of the values that are not None; None if there are none."""
    numbers = [value for value in values if value is not None]
    return math.fsum(numbers) / len(numbers) if numbers else None


def tail_by_seed(rows: Iterable[Mapping[str, Any]], label: str, metric: str) -> list[float]:
    """Return per seed the mean over the last fifth of the logged iterations; empty if no values."""
    by_seed: dict[str, list[tuple[int, float]]] = {}
    for row in rows:
        if row["algorithm"] == label and row[metric] not in (None, ""):
            logged = by_seed.setdefault(row["seed"], [])
            logged.append((int(row["iteration"]), float(row[metric])))
    means = []
    for logged in by_seed.values():
        tail = sorted(logged)[-math.ceil(len(logged) / 5) :]
        means.append(math.fsum(value for _, value in tail) / len(tail))
    return means


class Swept(Protocol):
    """An entry of a sweep: a method at one stepsize."""

    @property
    def label(self) -> str: ...
    @property
    def method(self) -> str: ...
    @property
    def lr(self) -> float | None: ...


def sweep_of(summary: Mapping[str, Mapping[str, Any]], entries: Iterable[Swept]) -> dict[str, Any]:
    """Return per method the tail loss and gap at each stepsize (None: diverged), and the best."""
    sweep: dict[str, Any] = {}
    for entry in entries:
        row = summary[entry.label]
        results = sweep.setdefault(entry.method, {"lr": [], "loss": [], "gap": []})
        results["lr"].append(entry.lr)
        for metric in ("loss", "gap"):
            results[metric].append(row.get(metric))
    for results in sweep.values():
        for metric in ("loss", "gap"):
            pairs = zip(results[metric], results["lr"], strict=True)
            best = min((pair for pair in pairs if pair[0] is not None), default=None)
            results[f"best_{metric}"] = None if best is None else {metric: best[0], "lr": best[1]}
    return sweep
