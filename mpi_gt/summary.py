"""Numbers of whole runs, out of the rows of metrics.csv."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

METRICS = ("loss", "grad_norm2", "consensus", "gap", "tracking", "accuracy")


def summarise(
    rows: Iterable[Mapping[str, Any]], results: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Each algorithm's row of a comparison.

    Metrics are means over seeds and over the last fifth of the logged iterations;
    `first_below_1e-3` is the first logged iteration at which the mean gap is.
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
        summary[label] = {
            **{
                metric: mean_of([row[metric] for t in tail for row in by_iteration[t]])
                for metric in METRICS
            },
            "seconds_per_iteration": result["seconds_per_iteration"],
            "bytes_per_iteration": by_iteration[logged[-1]][0]["bytes"] / logged[-1],
            "first_below_1e-3": next((t for t, gap in gaps.items() if (gap or 0) < 1e-3), None),
        }
    return summary


def mean_of(values: list[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return math.fsum(numbers) / len(numbers) if numbers else None
