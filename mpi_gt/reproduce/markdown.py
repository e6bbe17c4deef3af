"""Tables of a study in Markdown: its methods with their stepsizes, and the verdicts."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..algorithms import full_name
from ..rundir.metrics_csv import SUBOPTIMALITY
from ..user_classes import split_spec
from .claims import TESTED
from .judging import differ

DIGITS = {"loss": ".6g", TESTED: ".4f"}
HEADINGS = {
    "loss": "loss",
    SUBOPTIMALITY: "f(x̄) - f*",
    "gap": "gap",
    "grad_norm2": "‖∇f(x̄)‖²",
    "consensus": "consensus",
    TESTED: "accuracy on test rows",
}


def stepsize_of(spec: str) -> str:
    """Return the stepsize of a method's specification."""
    return str(split_spec(spec)[1].get("lr", "default"))


def options_of(spec: str) -> str:
    """Return the other options of a method's specification, for display."""
    options = split_spec(spec)[1]
    return ", ".join(f"{key} {value}" for key, value in options.items() if key != "lr")


def method_table(summary: Mapping[str, Any]) -> Iterator[str]:
    """Give the lines of the table of methods: stepsize, options, and where each ends."""
    good = [row for row in summary.values() if "error" not in row]
    shown = [metric for metric in HEADINGS if good and all(row.get(metric) for row in good)]
    counted = any("iterations" in row for row in good)  # by a budget
    headings = ["method", "stepsize", "other options", *(HEADINGS[metric] for metric in shown)]
    headings += ["bytes per iteration (all nodes, one seed)", *["iterations"] * counted]
    yield f"| {' | '.join(headings)} |"
    yield "|---" * len(headings) + "|"
    for label, row in summary.items():
        spec = row["algorithm"]
        cells = [full_name(_name(label)), stepsize_of(spec), options_of(spec)]
        if "error" in row:
            cells.append(f"diverged: {row['error']}")
        else:
            cells += [_span(row[metric], DIGITS.get(metric, ".2e")) for metric in shown]
            cells += [f"{row['bytes_per_iteration']:,.0f}"]
            cells += [str(row["iterations"])] if counted else []
        cells += [""] * (len(headings) - len(cells))
        escaped = (cell.replace("|", r"\|") for cell in cells)  # a bar would end the cell
        yield f"| {' | '.join(escaped)} |"


def _name(label: str) -> str:
    """Return a label without its options, which have columns of their own; of a network with it."""
    name, _, rest = label.partition(":")
    return label if rest.startswith("graph=") or not rest or "=" not in rest else name


def _span(cell: Mapping[str, float], digits: str) -> str:
    return f"{cell['mean']:{digits}} [{cell['min']:{digits}}, {cell['max']:{digits}}]"


def claim_table(
    claims: Iterable[Mapping[str, Any]],
    heading: str,
    tuned: Iterable[Mapping[str, Any]] | None = None,
) -> Iterator[str]:
    """Give the lines of the table of verdicts, with a second one per claim where there is."""
    if tuned is None:
        yield f"| {heading} | verdict | measured |"
        yield "|---|---|---|"
        for claim in claims:
            yield f"| {claim['claim']} | **{claim['verdict']}** | {measured(claim)} |"
        return
    yield (
        f"| {heading} | at the stepsizes of the paper | measured "
        "| each at its best stepsize | measured |"
    )
    yield "|---|---|---|---|---|"
    for claim, other in zip(claims, tuned, strict=True):
        yield (
            f"| {claim['claim']} | **{claim['verdict']}** | {measured(claim)} "
            f"| **{other['verdict']}** | {measured(other)} |"
        )


def measured(claim: Mapping[str, Any]) -> str:
    """Return what was measured for a claim: the pair that decides, its intervals, and why."""
    if claim["against"] is None:
        return f"there is no result of {', '.join(claim['missing']) or 'such a method'}"
    if claim["interval"] is None:
        return f"{claim['measure']}: {claim['estimate']:.2e}; one seed, no interval"
    shown = _ends(claim["interval"])
    text = f"{claim['measure']}: {claim['estimate']:.2e}, 95% interval {shown}"
    second = claim.get("bootstrap")
    if second is not None and differ(claim["interval"], second) and _ends(second) != shown:
        text += f", by bootstrap {_ends(second)}"
    return f"{text}; {claim['why']}" if claim.get("why") else text


def _ends(span: Iterable[float]) -> str:
    return "[" + ", ".join(f"{end:.2e}" for end in span) + "]"
