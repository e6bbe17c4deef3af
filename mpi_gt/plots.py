"""Figures from metrics.csv."""

import csv
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

LABELS = {
    "loss": r"loss  $f(\bar x)$",
    "gap": r"optimality gap  $\|\nabla f(\bar x)\|^2 + \frac{1}{n}\sum_i\|x_i - \bar x\|^2$",
}


def available() -> bool:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return False
    return True


def read_metrics(path: Path) -> dict[str, list[dict[str, str]]]:
    """The rows of a metrics.csv, by algorithm."""
    rows = defaultdict(list)
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            rows[row["algorithm"]].append(row)
    return dict(rows)


def over_seeds(rows: list[dict[str, str]], metric: str) -> tuple[Array, Array]:
    """The iterations, and the metric as (iterations, seeds)."""
    values: dict[int, list[float]] = defaultdict(list)
    for row in rows:
        values[int(row["iteration"])].append(float(row[metric]))
    iterations = sorted(values)
    return np.array(iterations), np.array([values[iteration] for iteration in iterations])


def draw_run(directory: Path) -> list[Path]:
    """loss.png and gap.png: the mean over seeds, in a band from the smallest to the largest."""
    from matplotlib.figure import Figure

    figures = []
    for metric, label in LABELS.items():
        figure = Figure(figsize=(6.4, 4.2), dpi=150, layout="constrained")
        axes = figure.add_subplot()
        for algorithm, rows in read_metrics(directory / "metrics.csv").items():
            iterations, values = over_seeds(rows, metric)
            (line,) = axes.plot(iterations, values.mean(axis=1), label=algorithm)
            if values.shape[1] > 1:
                axes.fill_between(
                    iterations,
                    values.min(axis=1),
                    values.max(axis=1),
                    color=line.get_color(),
                    alpha=0.25,
                    linewidth=0,
                    label=f"range over {values.shape[1]} seeds",
                )
            if (values > 0).all():
                axes.set_yscale("log")
        axes.set_xlabel("iteration")
        axes.set_ylabel(label)
        axes.grid(visible=True, which="major", alpha=0.3)
        axes.legend()
        target = directory / f"{metric}.png"
        figure.savefig(target)
        figures.append(target)
    return figures
