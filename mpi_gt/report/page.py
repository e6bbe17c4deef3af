"""`mpi-gt report`: one page, complete in itself, of whatever some run directories hold."""

import json
import time
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import Any

from .. import __version__
from ..errors import StorageError, UserError
from ..rundir.atomic import write_atomic
from ..rundir.curves import Curve
from .curves import page_data
from .directories import ReportedDirectory, read_directories
from .html import Html, badge, listed, plot, section, table, tag
from .sections import PARTS, Figures, attempt, card, graphs

MARK = '<meta name="generator" content="mpi-gt'
METRICS = {
    "gap": "optimality gap",
    "loss": "loss",
    "grad_norm2": "gradient norm²",
    "consensus": "consensus",
    "accuracy": "accuracy",
    "tracking": "tracking error",
}
SWITCHES = {
    "across": {"iteration": "iterations", "seconds": "seconds", "bytes": "bytes"},
    "scale": {"log": "log", "linear": "linear"},
    "seeds": {"mean": "mean and range", "single": "single seeds"},
}


def write_page(directories: Iterable[Path], target: Path) -> int:
    """Make the page; its size in bytes."""
    bundle = _bundle()
    _require_ours(target)
    page = make_page(read_directories(directories), bundle)
    content = page.encode("utf-8", errors="replace")  # a file's name may be no text at all
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(target, [content])
    except (OSError, StorageError) as error:
        raise UserError(f"cannot write {target}: {error}") from None
    return len(content)


def make_page(folders: list[ReportedDirectory], bundle: str) -> str:
    curves = [curve for folder in folders for curve in folder.curves]
    drawn: Figures = {}
    middle: list[Html] = []
    blocks, found = graphs(folders)
    drawn.update(found)
    if blocks:
        middle.append(section("Graphs", tag("div", *blocks, class_="columns"), name="graphs"))
    for part, (title, make) in PARTS.items():
        blocks = []
        for number, folder in enumerate(folders):
            # bound now, for a file that is not as it should be costs its own block only
            made = attempt(folder, part, lambda f=folder, n=number, m=make: m(f, n))  # type: ignore[misc]
            if made is not None:
                blocks.append(made[0])
                drawn.update(made[1])
        if blocks:
            middle.append(section(title, *blocks, name=part))
    told, note = page_data(curves, len(folders) > 1)
    top = [_runs(folders), _curves(curves, note), _summary(folders)]
    data = {"figures": drawn, "curves": told, "metrics": METRICS, "across": SWITCHES["across"]}
    return _fill(
        {
            "version": __version__,
            "style": _file("page.css"),
            "made": time.strftime("%Y-%m-%d %H:%M"),
            "body": "\n".join([*top, *middle]),
            # no tag can end the script's element before its time
            "data": json.dumps(data, separators=(",", ":"), allow_nan=False).replace(
                "<", "\\u003c"
            ),
            "plotly": bundle.replace("</script", "<\\/script"),
            "script": _file("page.js"),
        }
    )


def _fill(pieces: dict[str, str]) -> str:
    """The template, cut where the pieces go: they may hold what looks like a place for others."""
    text, page = _file("page.html"), []
    for name, piece in pieces.items():
        before, _, text = text.partition(f"@{name}@")
        page += [before, piece]
    return "".join([*page, text])


def _file(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _bundle() -> str:
    """Plotly's script, from its Python package: no network is needed, now or later."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise UserError("report needs plotly: pip install 'mpi-gt[report]'") from None
    return str(get_plotlyjs())


def _require_ours(target: Path) -> None:
    """Replace a page, but nothing else."""
    try:
        if target.is_dir():
            raise UserError(f"{target} is a directory: name a file, such as {target}/report.html")
        if target.exists() and MARK.encode() not in target.read_bytes()[:1000]:
            raise UserError(f"{target} exists and is no report: give another name")
    except OSError as error:
        raise UserError(f"cannot write {target}: {error.strerror}") from None


def _runs(folders: list[ReportedDirectory]) -> Html:
    cards = [card(folder, index) for index, folder in enumerate(folders)]
    names = [tag("a", folder.name, href=f"#run-{i}") for i, folder in enumerate(folders)]
    states = [Html(f"{name} {badge(f.status)}") for name, f in zip(names, folders, strict=True)]
    first = listed(states, class_="states") if len(folders) > 1 else ""
    return section("Runs", first, tag("div", *cards, class_="cards"), name="runs")


def _curves(curves: list[Curve], note: str) -> Html:
    if not curves:
        return section("Curves", tag("p", "There are no measurements to draw."), name="curves")
    there = {metric for curve in curves for metric in curve.metrics}
    metrics = {name: shown for name, shown in METRICS.items() if name in there}
    groups = {"metric": metrics, **SWITCHES}
    switches = [_switch(name, options) for name, options in groups.items()]
    return section(
        "Curves",
        tag("div", *switches, class_="switches"),
        tag("fieldset", tag("legend", "shown"), id="shown", class_="shown"),
        plot("curves-plot", "Measured values by algorithm and directory", "tall"),
        tag("p", note) if note else "",
        name="curves",
    )


def _switch(name: str, options: dict[str, str]) -> Html:
    """A group of native radio buttons: works by keyboard as it is."""
    choices = [
        Html(
            f'<label><input type="radio" name="{name}" value="{value}"'
            f"{' checked' if index == 0 else ''}><span>{shown}</span></label>"
        )
        for index, (value, shown) in enumerate(options.items())
    ]
    titles = {"metric": "measure", "across": "against", "scale": "scale", "seeds": "seeds"}
    return tag("fieldset", tag("legend", titles[name]), *choices)


def _status(folder: ReportedDirectory, algorithm: str) -> str:
    """Of a comparison in which some algorithm diverged, the others finished."""
    result = folder.table("results").get(algorithm)
    if isinstance(result, dict) and result.get("error"):
        return "diverged"
    return "finished" if folder.status == "diverged" and result else folder.status


def _summary(folders: list[ReportedDirectory]) -> Html:
    rows: list[list[Any]] = []
    for folder in folders:
        for curve in folder.curves:
            second, sent = curve.each("seconds"), curve.each("bytes")
            rows.append(
                [
                    folder.name,
                    curve.algorithm,
                    badge(_status(folder, curve.algorithm)),
                    int(curve.across["iteration"][-1]),
                    len(curve.seeds),
                    *(curve.tail(name) for name in ("loss", "gap", "grad_norm2", "consensus")),
                    None if second is None else second * 1e6,
                    None if sent is None else round(sent),
                ]
            )
    names = ["directory", "algorithm", "status", "iterations", "seeds", "loss", "gap"]
    names += ["gradient norm²", "consensus", "µs/iteration", "bytes/iteration"]
    caption = "Means over seeds and the last fifth of the logged iterations; press a head to sort"
    shown = table(caption, names, rows, sortable=True) if rows else tag("p", "Nothing to sum up.")
    return section("Summary", shown, name="summary")
