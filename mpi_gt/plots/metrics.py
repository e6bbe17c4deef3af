"""Figures of a run, a comparison, a sweep and a study."""

import textwrap
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..algorithms import display_name, full_name, told_apart
from ..rundir.metrics_csv import SUBOPTIMALITY, extra_columns, read_metrics
from . import plain, save

Array = NDArray[Any]

LABELS = {
    "loss": r"loss  $f(\bar x)$",
    "gap": r"optimality gap  $\|\nabla f(\bar x)\|^2 + \frac{1}{n}\sum_i\|x_i - \bar x\|^2$",
}
STUDIED = {**LABELS, SUBOPTIMALITY: r"loss  $f(\bar x) - f^*$"}

ACROSS = {
    "iteration": "iteration",
    "seconds": "seconds",
    "bytes": "bytes sent per seed, all nodes",
    "gradients": "sample gradients per node and seed",
}
DASHES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
MOST_PANELS = 8  # of the problem's own metrics
DECADE = 10  # times the bytes of the cheapest method, from which their axis is logarithmic
DRAWABLE = 1e250  # beyond this value the margins of a figure overflow


def over_seeds(rows: list[dict[str, str]], metric: str) -> tuple[Array, Array]:
    """Return the logged iterations, and the metric at them with shape (iterations, seeds)."""
    values: dict[int, list[float]] = defaultdict(list)
    for row in rows:
        values[int(row["iteration"])].append(float(row[metric] or "nan"))
    iterations = sorted(values)
    return np.array(iterations), np.array([values[iteration] for iteration in iterations])


def draw_run(directory: Path, names: Mapping[str, str]) -> list[Path]:
    """Draw loss.png and gap.png: the mean over seeds, shaded from smallest to largest.

    `names` are those of the methods by label, here and in the following.
    """
    from matplotlib.figure import Figure

    runs = read_metrics(directory / "metrics.csv")
    figures = []
    for metric, axis_label in LABELS.items():
        figure = Figure(figsize=(6.4, 4.2), dpi=150, layout="constrained")
        axes = figure.add_subplot()
        for number, (label, rows) in enumerate(runs.items()):
            _, values = over_seeds(rows, metric)
            name, seeds = plain(names[label]), values.shape[1]
            legend = f"{name}, mean and range over {seeds} seeds" if seeds > 1 else name
            draw_line(axes, rows, "iteration", metric, number, legend)
        finish_axes(axes, "iteration", axis_label)
        axes.legend(fontsize=9)
        figures.append(save(figure, directory / f"{metric}.png"))
    return figures


def draw_own_metrics(directory: Path, names: Mapping[str, str]) -> list[Path]:
    """Draw metrics.png: one panel for each metric of the problem's own; nothing without any."""
    from matplotlib.figure import Figure

    runs = read_metrics(directory / "metrics.csv")
    own = dict.fromkeys(name for rows in runs.values() for name in extra_columns(rows[0]))
    own.pop(SUBOPTIMALITY, None)
    own = dict.fromkeys(list(own)[:MOST_PANELS])
    if not own:
        return []
    figure = Figure(figsize=(6.4, 0.6 + 2.8 * len(own)), dpi=150, layout="constrained")
    for axes, metric in zip(figure.subplots(len(own), 1, squeeze=False)[:, 0], own, strict=True):
        for number, (label, rows) in enumerate(runs.items()):
            draw_line(axes, rows, "iteration", metric, number, plain(names[label]))
        finish_axes(axes, "iteration", plain(metric))
    _add_legend(figure, "outside upper center", 9)
    return [save(figure, directory / "metrics.png")]


def draw_comparison(directory: Path, names: Mapping[str, str]) -> list[Path]:
    """Draw comparison.png: loss and gap of all algorithms against iterations, time and costs."""
    from matplotlib.figure import Figure

    runs = read_metrics(directory / "metrics.csv")
    shown = [name for name in ACROSS if all(rows[0].get(name) for rows in runs.values())]
    figure = Figure(figsize=(4 * len(shown), 7.2), dpi=150, layout="constrained")
    panels = figure.subplots(2, len(shown), sharey="row")
    for row_of_panels, (metric, axis_label) in zip(panels, LABELS.items(), strict=True):
        for axes, across in zip(row_of_panels, shown, strict=True):
            for number, (label, rows) in enumerate(runs.items()):
                draw_line(axes, rows, across, metric, number, plain(names[label]), shade=0.1)
            finish_axes(axes, ACROSS[across], axis_label if across == "iteration" else "")
    _add_legend(figure, "outside upper center", 10)
    return [save(figure, directory / "comparison.png")]


def draw_line(
    axes: Any,
    rows: list[dict[str, str]],
    across: str,
    metric: str,
    number: int,
    legend: str,
    shade: float = 0.25,
) -> None:
    """Draw the mean over seeds in the style of line `number`, shaded from smallest to largest."""
    _, values = over_seeds(rows, metric)
    values = np.where(np.abs(values) < DRAWABLE, values, np.nan)
    _, places = over_seeds(rows, across)
    x = places.mean(axis=1)
    style = {"color": f"C{number % 10}", "linestyle": DASHES[number % len(DASHES)]}
    axes.plot(x, values.mean(axis=1), label=legend, linewidth=1.4, **style)
    if values.shape[1] > 1:
        lowest, highest = values.min(axis=1), values.max(axis=1)
        axes.fill_between(x, lowest, highest, color=style["color"], alpha=shade, linewidth=0)


def finish_axes(axes: Any, across: str, label: str) -> None:
    """Label the axes, and make y logarithmic where all that is drawn is positive."""
    drawn = np.concatenate([line.get_ydata() for line in axes.lines])
    if (drawn[~np.isnan(drawn)] > 0).all():
        axes.set_yscale("log")
    axes.set_xlabel(across)
    axes.set_ylabel(label)
    axes.grid(visible=True, which="major", alpha=0.3)


def _add_legend(figure: Any, place: str, size: int) -> None:
    """Add one legend for all panels, in as many columns as the width of the figure allows."""
    handles, names = figure.axes[0].get_legend_handles_labels()
    letters = figure.get_figwidth() * 72 / (0.6 * size)  # a letter is about 0.6 times as wide
    columns = int(letters // (max(map(len, names), default=0) + 5))  # 5 for the line beside it
    columns = max(1, min(columns, len(names)))
    figure.legend(handles, names, loc=place, ncols=columns, fontsize=size)


def draw_sweep(directory: Path, sweep: Mapping[str, Any]) -> list[Path]:
    """Draw sweep.png: tail gap and tail loss against the stepsize, one line per method."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.6), dpi=150, layout="constrained")
    for axes, metric in zip(figure.subplots(1, 2), ("gap", "loss"), strict=True):
        for number, (method, swept) in enumerate(sweep.items()):
            pairs = zip(swept["lr"], swept[metric], strict=True)
            points = [(lr, value) for lr, value in pairs if value is not None]
            style = {"color": f"C{number % 10}", "linestyle": DASHES[number % len(DASHES)]}
            marker = MARKERS[number % len(MARKERS)]
            x, y = zip(*points, strict=True) if points else ((), ())
            axes.plot(x, y, label=plain(full_name(method)), marker=marker, markersize=5, **style)
        axes.set_xscale("log")
        drawn = [value for swept in sweep.values() for value in swept[metric] if value is not None]
        if min(drawn, default=0) > 0:
            axes.set_yscale("log")
        axes.set_xlabel("stepsize lr (missing points diverged)")
        axes.set_ylabel(f"{metric}, mean over the last fifth and over seeds")
        axes.grid(visible=True, which="major", alpha=0.3)
    _add_legend(figure, "outside lower center", 9)
    return [save(figure, directory / "sweep.png")]


def draw_study(
    directory: Path,
    title: str,
    note: str,
    stepsizes: Mapping[str, str],
    costs: Sequence[str] | None = None,
    tested: str = "",
) -> list[Path]:
    """Draw figure.png and figure.pdf in the layout of the paper: loss and optimality gap.

    Where f* is known, the loss is f - f*: in f itself one sees nothing once the methods are close
    to it. The legend has the stepsize of each label in `stepsizes`. With two `costs`, such as
    gradients and bytes, it is the gap only, against each of them. Where all runs have the column
    `tested`, it is loss, gap and that accuracy, against iterations and bytes.
    """
    from matplotlib.figure import Figure

    runs = read_metrics(directory / "metrics.csv")
    legends = _study_legends(list(runs))
    for label, stepsize in stepsizes.items():
        if f"lr {stepsize}" not in legends[label]:  # of a method that runs twice, it is there
            legends[label] += f", lr {stepsize}"
    known = all(row.get(SUBOPTIMALITY) for rows in runs.values() for row in rows)
    loss = SUBOPTIMALITY if known else "loss"
    panels = [[(loss, "iteration"), ("gap", "iteration")]]
    if costs is not None:
        panels = [[("gap", cost) for cost in costs]]
    elif tested and all(row.get(tested) for rows in runs.values() for row in rows):
        across_all = ("iteration", "bytes")
        panels = [[(metric, across) for metric in (*LABELS, tested)] for across in across_all]
    shape = len(panels), len(panels[0])
    size = (5 * shape[1], 0.8 + 3.8 * shape[0])
    figure = Figure(figsize=size, dpi=150, layout="constrained")
    places = figure.subplots(*shape, squeeze=False)
    for axes, (metric, across) in zip(places.flat, chain.from_iterable(panels), strict=True):
        for number, (label, rows) in enumerate(runs.items()):
            draw_line(axes, rows, across, metric, number, legends[label], shade=0.12)
            line = axes.lines[-1]  # with markers, the lines differ in grey print as well
            line.set_marker(MARKERS[number % len(MARKERS)])
            line.set_markersize(4)
            points = len(line.get_xdata())
            line.set_markevery((number * points // 60, max(1, points // 8)))
        finish_axes(axes, ACROSS[across], STUDIED.get(metric, "accuracy on test rows"))
        ends = [float(line.get_xdata()[-1]) for line in axes.lines]
        if across == "bytes" and max(ends) > DECADE * min(ends) > 0:
            # else the cheapest methods share the first millimetres
            axes.set_xscale("log", nonpositive="mask")
        if metric == tested:
            _show_high_values(axes)
    _add_legend(figure, "outside lower center", 9)
    heading = f"{title} ({note})".replace("$", r"\$")
    figure.suptitle(textwrap.fill(heading, 100), fontsize=11)
    return [
        save(figure, directory / "figure.png"),
        # without the date, the same numbers give the same file
        save(figure, directory / "figure.pdf", metadata={"CreationDate": None}),
    ]


def _show_high_values(axes: Any) -> None:
    """Cut an axis of accuracies below the range in which the methods end."""
    ends = [line.get_ydata()[-1] for line in axes.lines]
    axes.set_yscale("linear")
    axes.set_ylim(max(0, 1.5 * min(ends) - 0.5 * max(ends) - 0.1), min(1, max(ends) + 0.01))


def _study_legends(labels: list[str]) -> dict[str, str]:
    """Return the paper's name for each method; with what differs where methods share one."""
    names = [display_name(label) for label in labels]
    short = told_apart(labels)

    def legend(label: str, name: str) -> str:
        if names.count(name) == 1:
            return name
        options = short[label].partition(":")[2]
        if name == label or not options:
            return full_name(label)
        return f"{name}: {options.replace(',', ', ').replace('=', ' ')}"

    return {label: plain(legend(label, name)) for label, name in zip(labels, names, strict=True)}
