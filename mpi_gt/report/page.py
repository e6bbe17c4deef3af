"""The page itself: runs, curves and summary, then one section per kind of result.

The page is one file without references to others: it needs no network, now or later.
"""

import json
import time
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import Any

from .. import __version__
from ..algorithms import full_name
from ..errors import StorageError, UserError
from ..rundir.atomic import write_atomic
from ..rundir.curves import Curve
from ..rundir.metrics_csv import SUBOPTIMALITY
from .curves import page_data
from .directories import ReportedDirectory, read_directories
from .html import Html, badge, listed, plot, section, table, tag
from .sections import PARTS, Figures, attempt, card, graphs

MARK = '<meta name="generator" content="mpi-gt'
METRICS = {
    "gap": "optimality gap",
    "loss": "loss",
    "grad_norm2": "‖∇f(x̄)‖²",
    "consensus": "consensus",
    "accuracy": "accuracy",
    "tracking": "tracking error",
    SUBOPTIMALITY: "f(x̄) - f*",
}
ACROSS = {
    "iteration": "iteration",
    "seconds": "seconds",
    "bytes": "bytes sent per seed, all nodes",
    "gradients": "sample gradients per node and seed",
}
SWITCHES = {
    "across": {
        "iteration": "iterations",
        "seconds": "seconds",
        "bytes": "bytes",
        "gradients": "gradients",
    },
    "scale": {"log": "log", "linear": "linear"},
    "seeds": {"mean": "mean and range", "single": "single seeds"},
}


def write_page(paths: Iterable[Path], target: Path) -> int:
    """Write the page about the directories at `paths`; return its size in bytes."""
    bundle = _bundle()
    _require_replaceable(target)
    page = make_page(read_directories(paths), bundle)
    content = page.encode("utf-8", errors="replace")  # the name of a file need not be valid text
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(target, [content])
    except StorageError as error:
        raise UserError(str(error)) from None
    except OSError as error:
        raise UserError(f"cannot write {target}: {error}") from None
    return len(content)


def make_page(directories: list[ReportedDirectory], bundle: str) -> str:
    """Return the page as text; `bundle` is plotly's script."""
    curves = [curve for directory in directories for curve in directory.curves]
    drawn: Figures = {}
    middle: list[Html] = []
    blocks, graph_figures = graphs(directories)
    drawn.update(graph_figures)
    if blocks:
        middle.append(section("Graphs", tag("div", *blocks, class_="columns"), name="graphs"))
    for part, (title, make) in PARTS.items():
        blocks = []
        for number, directory in enumerate(directories):
            # a damaged file costs its own block only; defaults bind the loop's variables now
            result = attempt(directory, part, lambda d=directory, n=number, m=make: m(d, n))  # type: ignore[misc]
            if result is not None:
                blocks.append(result[0])
                drawn.update(result[1])
        if blocks:
            middle.append(section(title, *blocks, name=part))
    curve_data, note = page_data(curves, len(directories) > 1)
    top = [_runs(directories), _curves(curves, note), _summary(directories)]
    metrics = _titles(curves)
    data = {"figures": drawn, "curves": curve_data, "metrics": metrics, "across": ACROSS}
    return _fill(
        {
            "version": __version__,
            "style": _file("page.css"),
            "written": time.strftime("%Y-%m-%d %H:%M"),
            "body": "\n".join([*top, *middle]),
            # without "<" in it, no text from a file can end the script element
            "data": json.dumps(data, separators=(",", ":"), allow_nan=False).replace(
                "<", "\\u003c"
            ),
            "plotly": bundle.replace("</script", "<\\/script"),
            "script": _file("page.js"),
        }
    )


def _fill(pieces: dict[str, str]) -> str:
    """Return the template with the pieces, in the order of their places.

    A piece may contain text that looks like the place of another; it is never searched.
    """
    text, page = _file("page.html"), []
    for name, piece in pieces.items():
        before, _, text = text.partition(f"@{name}@")
        page += [before, piece]
    return "".join([*page, text])


def _file(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _bundle() -> str:
    """Return plotly's script, which its Python package contains."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise UserError("report needs plotly: pip install 'mpi-gt[report]'") from None
    return str(get_plotlyjs())


def _require_replaceable(target: Path) -> None:
    """Raise an error if `target` exists and is not a page of `mpi-gt report`."""
    try:
        if target.is_dir():
            raise UserError(f"{target} is a directory: name a file, such as {target}/report.html")
        if target.exists() and not target.is_file():
            raise UserError(f"{target} is not a regular file: give another name")
        if target.exists() and MARK.encode() not in target.read_bytes()[:1000]:
            raise UserError(f"{target} exists and is not a report: give another name")
    except OSError as error:
        raise UserError(f"cannot write {target}: {error.strerror}") from None


def _runs(directories: list[ReportedDirectory]) -> Html:
    cards = [card(directory, index) for index, directory in enumerate(directories)]
    names = [tag("a", directory.name, href=f"#run-{i}") for i, directory in enumerate(directories)]
    states = [Html(f"{name} {badge(f.status)}") for name, f in zip(names, directories, strict=True)]
    overview = listed(states, class_="states") if len(directories) > 1 else ""
    return section("Runs", overview, tag("div", *cards, class_="cards"), name="runs")


def _titles(curves: list[Curve]) -> dict[str, str]:
    """Return the metrics that were measured, with their titles; a problem's own by their names."""
    measured = dict.fromkeys(metric for curve in curves for metric in curve.metrics)
    known = {name: title for name, title in METRICS.items() if name in measured}
    return {**known, **{name: name for name in measured if name not in METRICS}}


def _curves(curves: list[Curve], note: str) -> Html:
    if not curves:
        return section("Curves", tag("p", "There are no measurements to draw."), name="curves")
    groups = {"metric": _titles(curves), **SWITCHES}
    switches = [_switch(name, options) for name, options in groups.items()]
    return section(
        "Curves",
        tag("div", *switches, class_="switches"),
        tag("fieldset", tag("legend", "shown"), id="shown", class_="shown"),
        plot("curves-plot", "Metrics by method and directory", "tall"),
        tag("p", note) if note else "",
        name="curves",
    )


def _switch(name: str, options: dict[str, str]) -> Html:
    """Return a group of native radio buttons, which the keyboard reaches."""
    choices = [
        Html(
            f'<label><input type="radio" name="{name}" value="{value}"'
            f"{' checked' if index == 0 else ''}><span>{shown}</span></label>"
        )
        for index, (value, shown) in enumerate(options.items())
    ]
    titles = {"metric": "metric", "across": "against", "scale": "scale", "seeds": "seeds"}
    return tag("fieldset", tag("legend", titles[name]), *choices)


def _status(directory: ReportedDirectory, algorithm: str) -> str:
    """Return the status of one algorithm: where another diverged, it may have finished."""
    result = directory.table("results").get(algorithm)
    if isinstance(result, dict) and result.get("error"):
        return "diverged"
    return "finished" if directory.status == "diverged" and result else directory.status


def _summary(directories: list[ReportedDirectory]) -> Html:
    rows: list[list[Any]] = []
    for directory in directories:
        for curve in directory.curves:
            seconds, sent = curve.each("seconds"), curve.each("bytes")
            rows.append(
                [
                    directory.name,
                    full_name(curve.algorithm),
                    badge(_status(directory, curve.algorithm)),
                    int(curve.across["iteration"][-1]),
                    len(curve.seeds),
                    *(curve.tail(name) for name in ("loss", "gap", "grad_norm2", "consensus")),
                    None if seconds is None else seconds * 1e6,
                    None if sent is None else round(sent),
                ]
            )
    names = ["directory", "method", "status", "iterations", "seeds", "loss", "gap"]
    names += ["‖∇f(x̄)‖²", "consensus", "µs per iteration", "bytes per iteration"]
    caption = (
        "Means over seeds and the last fifth of the logged iterations; bytes of all nodes, one "
        "seed. Click a column heading to sort."
    )
    shown = table(caption, names, rows, sortable=True) if rows else tag("p", "No measurements.")
    return section("Summary", shown, name="summary")
