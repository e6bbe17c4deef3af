"""The sections about all directories together: their states, the curves, the summary, the cards."""

from typing import Any

from ..display.console import counted
from ..rundir.curves import Curve
from ..rundir.metrics_csv import SUBOPTIMALITY
from .curves import ACROSS
from .directories import ReportedDirectory
from .html import Html, badge, listed, section, table, tag
from .sections import card, warnings

METRICS = {
    "gap": "optimality gap",
    SUBOPTIMALITY: "loss f(x̄) - f*",
    "loss": "loss f(x̄)",
    "grad_norm2": "‖∇f(x̄)‖²",
    "consensus": "consensus",
    "accuracy": "accuracy",
    "tracking": "tracking error",
}
"""The titles of the metrics, in the order of their switches."""
SHORT = {"gap": "gap", SUBOPTIMALITY: "f - f*", "loss": "loss"}
"""Other titles for the summary."""
SWITCHES = {
    "scale": ("scale", {"log": "log", "linear": "linear"}),
    "seeds": ("seeds", {"range": "mean and range", "mean": "mean", "single": "single seeds"}),
}
MOST_RANGES = 6  # curves up to which their ranges are drawn at first: more of them cover each other


def titles(curves: list[Curve]) -> dict[str, str]:
    """Return the metrics that were measured, with their titles; a problem's own by their names.

    f(xbar) - f* comes in place of the loss, which is near f* soon; where some curves lack it, the
    loss stays where all can be seen.
    """
    measured = dict.fromkeys(metric for curve in curves for metric in curve.metrics)
    known = {name: title for name, title in METRICS.items() if name in measured}
    if SUBOPTIMALITY in known and "loss" in known:
        everywhere = all(SUBOPTIMALITY in curve.metrics for curve in curves)
        last = "loss" if everywhere else SUBOPTIMALITY
        known[last] = known.pop(last)
    return {**known, **{name: name for name in measured if name not in METRICS}}


def across(curves: list[Curve]) -> dict[str, str]:
    """Return the x axes that a curve has, with the words of their switches."""
    words = {name: f"{name}s" if name == "iteration" else name for name in ACROSS}
    return {name: word for name, word in words.items() if any(name in c.across for c in curves)}


def states(directories: list[ReportedDirectory]) -> Html:
    """Return one line per directory: its name, which leads to its card, and how it ended."""
    lines = []
    for number, directory in enumerate(directories):
        link = tag("a", directory.name, href=f"#run-{number}")
        alarms = len(warnings(directory))
        more = tag("a", counted(alarms, "warning"), href=f"#run-{number}", class_="alarm")
        note = tag("span", directory.note, class_="note") if directory.note else ""
        parts = [link, badge(directory.status), more if alarms else "", note]
        lines.append(Html(" ".join(filter(None, parts))))
    return tag("section", listed(lines, class_="states"), id="states")


def curves_section(curves: list[Curve], note: str) -> Html:
    """Return the section of the curves: switches, legend, plot."""
    if not curves:
        return section("Curves", tag("p", "There are no measurements to draw."), name="curves")
    first = {"seeds": "range" if len(curves) <= MOST_RANGES else "mean"}
    above = {"metric": ("metric", titles(curves)), "across": ("against", across(curves))}
    switches = [
        tag("div", *(_switch(name, *group, first.get(name)) for name, group in groups.items()),
            class_="switches")
        for groups in (above, SWITCHES)
    ]  # fmt: skip
    buttons = [
        tag("button", word, type="button", id=f"show-{word}", title=f"show {word} of the curves")
        for word in ("all", "none")
    ]
    save = tag("button", "save as CSV", type="button", id="save-csv", title="the shown curves")
    legend = tag(
        "fieldset",
        tag("legend", "shown; point at a name to fade all other curves"),
        tag("div", *buttons, save, class_="tools"),
        tag("div", id="legend"),
        id="shown",
        class_="shown",
    )
    place = tag("div", id="curves-plot", class_="plot tall", role="img", aria_label="the curves")
    said = tag("p", note, class_="soft") if note else ""
    return section("Curves", switches[0], place, legend, switches[1], said, name="curves")


def _switch(name: str, title: str, options: dict[str, str], first: str | None) -> Html:
    """Return a group of native radio buttons, which the keyboard reaches."""
    first = first or next(iter(options))
    choices = [
        Html(
            f'<label><input type="radio" name="{name}" value="{value}"'
            f"{' checked' if value == first else ''}><span>{shown}</span></label>"
        )
        for value, shown in options.items()
    ]
    return tag("fieldset", tag("legend", title), *choices)


def summary(directories: list[ReportedDirectory]) -> Html:
    """Return the table of all curves; what matters most is left, where a phone shows it."""
    curves = [(each, curve) for each in directories for curve in each.curves]
    if not curves:
        return section("Summary", tag("p", "No measurements."), name="summary")
    shown = titles([curve for _, curve in curves])
    metrics = [name for name in METRICS if name in shown and name != "tracking"]
    names = ["method", *(SHORT.get(name, METRICS[name]) for name in metrics)]
    names += ["status", "iterations", "seeds", "µs per iteration", "bytes per iteration"]
    several = len(directories) > 1
    rows: list[list[Any]] = []
    for number, (directory, curve) in enumerate(curves):
        seconds, sent = curve.each("seconds"), curve.each("bytes")
        rows.append(
            [
                _method_cell(directory, curve, number, several),
                *map(curve.tail, metrics),
                badge(_status(directory, curve.algorithm)),
                int(curve.across["iteration"][-1]),
                len(curve.seeds),
                None if seconds is None else seconds * 1e6,
                None if sent is None else round(sent),
            ]
        )
    caption = (
        "Means over seeds and the last fifth of the logged iterations; bytes of all nodes, one "
        "seed. Click a column heading to sort."
    )
    return section("Summary", table(caption, names, rows, sortable=True), name="summary")


def _method_cell(directory: ReportedDirectory, curve: Curve, number: int, several: bool) -> Html:
    """Return the name of a method beside a sample of its line, above that of its directory."""
    where = tag("small", directory.name) if several else ""
    sample = tag("span", class_="sample", data_curve=number)
    name = tag("span", tag("span", directory.name_of(curve.algorithm)), where)
    return tag("div", sample, name, class_="method")


def _status(directory: ReportedDirectory, algorithm: str) -> str:
    """Return the status of one algorithm: where another diverged, it may have finished."""
    result = directory.table("results").get(algorithm)
    if isinstance(result, dict) and result.get("error"):
        return "diverged"
    return "finished" if directory.status == "diverged" and result else directory.status


def provenance(directories: list[ReportedDirectory]) -> Html:
    """Return the cards of all directories, folded."""
    cards = [card(directory, index) for index, directory in enumerate(directories)]
    heading = tag("summary", tag("h2", "What ran, where and how"))
    whole = tag("details", heading, tag("div", *cards, class_="cards"))
    return tag("section", whole, id="runs")
