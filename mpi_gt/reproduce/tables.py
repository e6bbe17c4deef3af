"""The results of a finished study: figure, tables and claims."""

import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import plots
from ..algorithms import full_name
from ..errors import UserError
from ..plots.metrics import draw_study
from ..rundir.atomic import write_csv, write_json, write_text
from ..rundir.metrics_csv import COLUMNS, METRICS, read_rows
from ..rundir.run_json import planned_iterations, require_facts
from ..rundir.summary import mean_of, tail_by_seed
from ..spec import split
from . import networks
from .claims import REDUCED, TESTED, judge_all, judge_network, judge_variance_reduction
from .compression import (
    AGAINST,
    VARIANT,
    compressors_of,
    cost_table,
    costs_of,
    judge_compression,
)

if TYPE_CHECKING:
    from .study import Study


ENDED = ("config.algorithm", "exit_code", "finished", "versions", "mpi", "graph")
FINISHED = ("seconds_per_iteration", "bytes_sent", "config.seeds", "config.iterations")
"""The keys of run.json that the tables need: of every run, and of a run that did not diverge."""
SHOWN = ("loss", "gap", "grad_norm2", "consensus")


def read_result(directory: Path) -> dict[str, Any]:
    """Return the facts of a run that has ended; raise UserError if they are damaged."""
    facts = require_facts(directory, ENDED)
    if not facts:
        raise UserError(f"{directory} holds no run: there is no run.json to read")
    return require_facts(directory, ("error",) if facts["exit_code"] else FINISHED)


def _require_complete(path: Path, rows: list[dict[str, str]], facts: Mapping[str, Any]) -> None:
    """Raise UserError if a run that did not diverge lacks a measurement that the tables show."""
    if facts["exit_code"]:
        return
    seeds, moments = {row["seed"] for row in rows}, {row["iteration"] for row in rows}
    if len(seeds) != facts["config"]["seeds"] or len(rows) != len(seeds) * len(moments):
        raise UserError(f"{path} is damaged: it has not one row per seed and measurement")
    for row in rows:
        for name in METRICS:
            missing = row[name] == "" and name in SHOWN
            if missing or (row[name] and not math.isfinite(float(row[name]))):
                raise UserError(
                    f"{path} is damaged: {name} of seed {row['seed']} at iteration "
                    f"{row['iteration']} is '{row[name]}'"
                )


def write_results(study: "Study") -> list[Path]:
    """Write metrics.csv, summary.json, summary.md, claims.json and figure.png and .pdf."""
    rows: list[dict[str, str]] = []
    results = {}
    columns = (*COLUMNS, TESTED) if study.criterion else COLUMNS
    for label, config in study.runs.items():
        directory = Path(config.out or "")
        results[label] = read_result(directory)
        own = read_rows(directory / "metrics.csv")
        _require_complete(directory / "metrics.csv", own, results[label])
        # the combined table has the columns that all methods have
        kept = [{name: row.get(name, "") for name in columns} for row in own]
        rows += [{**row, "algorithm": label} for row in kept]
    target = study.directory
    write_csv(target / "metrics.csv", columns, rows)
    diverged = {label for label, run in results.items() if run["exit_code"]}
    summary = {
        label: {"error": run["error"]} if label in diverged else _summary(rows, label, run)
        for label, run in results.items()
    }
    sound = [row for row in rows if row["algorithm"] not in diverged]
    claims = _claims(study, sound)
    costs: dict[str, Any] = {}
    if study.variant == VARIANT:
        costs = {label: costs_of(sound, label) for label in results if label not in diverged}
    first, last = next(iter(results.values())), max(r["finished"] for r in results.values())
    write_json(
        target / "summary.json",
        {
            "experiment": study.name,
            "title": study.title,
            "note": study.note,
            "quick": study.quick,
            "command": study.command,
            "versions": first["versions"],
            "mpi": first["mpi"],
            "graph": first["graph"],
            "finished": last,
            "problem": first.get("problem", {}),
            "methods": summary,
            **({"costs": costs} if costs else {}),
        },
    )
    write_text(target / "claims.json", json.dumps(claims, indent=2) + "\n")
    sound_runs = {label: run for label, run in results.items() if label not in diverged}
    extra = _second_table(study, sound, sound_runs, costs)
    write_text(target / "summary.md", _markdown(study, summary, claims, extra))
    written = [
        target / name for name in ("metrics.csv", "summary.json", "summary.md", "claims.json")
    ]
    if plots.available():
        drawn, warning = plots.try_to_draw(
            lambda: draw_study(target, study.title, study.note, _costs_drawn(study), TESTED)
        )
        written += drawn
        if warning:
            print(f"mpi-gt: warning: {warning}", file=sys.stderr, flush=True)
    return written


def _second_table(
    study: "Study",
    rows: list[dict[str, str]],
    runs: Mapping[str, Mapping[str, Any]],
    costs: Mapping[str, Any],
) -> list[str]:
    """Return the lines of the table that some variants have below that of the methods."""
    if costs:
        seconds = {label: runs[label]["seconds_per_iteration"] for label in costs}
        return ["", *cost_table(costs, seconds, compressors_of(study.runs))]
    if study.variant == networks.VARIANT:
        graphs = {label: run["graph"] for label, run in runs.items()}
        return ["", *networks.network_table(rows, graphs)]
    return []


def _claims(study: "Study", rows: list[dict[str, str]]) -> list[dict[str, Any]]:
    """Judge the claims about this variant; about most of them they are the paper's."""
    if study.variant == VARIANT:
        return judge_compression(rows, compressors_of(study.runs))
    if study.variant == networks.VARIANT:
        return networks.judge_networks(rows)
    if study.criterion and all(row[TESTED] for row in rows):
        return judge_network(rows)
    if REDUCED in study.runs and not study.criterion:
        return judge_variance_reduction(rows)
    return judge_all(rows, study.regression)


def _costs_drawn(study: "Study") -> tuple[str, str] | None:
    """Return what the figure has the gap against; None for the figure of the paper."""
    if study.variant == VARIANT:
        return AGAINST
    if study.variant == networks.VARIANT:
        return networks.AGAINST
    return ("gradients", "bytes") if study.budgeted else None


def _summary(rows: list[dict[str, str]], label: str, run: Mapping[str, Any]) -> dict[str, Any]:
    """Return mean and range over seeds of the tail metrics, and time and bytes per iteration."""
    row: dict[str, Any] = {"algorithm": run["config"]["algorithm"]}
    for metric in (*METRICS, *((TESTED,) if TESTED in rows[0] else ())):
        values = tail_by_seed(rows, label, metric)
        if values:
            row[metric] = {"mean": mean_of(list(values)), "min": min(values), "max": max(values)}
    row["seconds_per_iteration"] = run["seconds_per_iteration"]
    iterations = planned_iterations(run, next(iter(run.get("planned", {})), None))
    row["bytes_per_iteration"] = run["bytes_sent"] / run["config"]["seeds"] / iterations
    if "planned" in run:
        row["iterations"], row["gradients"] = iterations, run["gradients"]
    if "test_accuracy" in run:
        row["test_accuracy"] = run["test_accuracy"]
    return row


def _markdown(
    study: "Study",
    summary: Mapping[str, Any],
    claims: list[dict[str, Any]],
    extra: list[str],
) -> str:
    ours = study.variant in (VARIANT, networks.VARIANT) or study.criterion
    theirs = not (REDUCED in study.runs or ours)
    lines = [
        f"**{study.title}** ({study.note}). Mean over seeds and, in brackets, range over seeds of "
        "the mean over the last fifth of the logged iterations." + _note_on_stepsizes(study),
        "",
        *_method_table(summary, bool(study.criterion)),
        *extra,
        "",
        "Differences are paired over seeds, with 95% intervals. Each row shows the comparison that "
        "decides the verdict: the one that speaks most strongly against the claim."
        + _note_on_gtadam(summary),
        "",
        *_claim_table(claims, "claim of the paper" if theirs else "claim"),
    ]
    return "\n".join(lines) + "\n"


def _note_on_stepsizes(study: "Study") -> str:
    return f" The stepsizes: {study.criterion}." if study.criterion else ""


def _stepsize(row: Mapping[str, Any]) -> str:
    """Return the stepsize of a method's specification."""
    _, options = split(row["algorithm"])
    return str(options.get("lr", "default"))


def _method_table(summary: Mapping[str, Any], tuned: bool = False) -> Iterator[str]:
    def span(row: Mapping[str, Any], metric: str, digits: str) -> str:
        cell = row[metric]
        return f"{cell['mean']:{digits}} [{cell['min']:{digits}}, {cell['max']:{digits}}]"

    counted = any("iterations" in row for row in summary.values())  # by a budget
    tested = tuned and all(TESTED in row or "error" in row for row in summary.values())
    yield (
        "| method |" + " stepsize |" * tuned + " loss | gap | ‖∇f(x̄)‖² | consensus |"
        + " accuracy on test rows |" * tested
        + " time per iteration | bytes per iteration (all nodes, one seed) |"
        + " iterations |" * counted
    )  # fmt: skip
    yield "|---|---|---|---|---|---|---|" + "---|" * (counted + tuned + tested)
    for label, row in summary.items():
        name = full_name(label).replace("|", r"\|")  # a bar would end the cell
        if "error" in row:
            rest = " |" * (counted + tuned + tested)
            yield f"| {name} | diverged: {row['error']} | | | | | |" + rest
            continue
        yield (
            f"| {name} |"
            + f" {_stepsize(row)} |" * tuned
            + f" {span(row, 'loss', '.6g')} | "
            + " | ".join(span(row, metric, ".2e") for metric in ("gap", "grad_norm2", "consensus"))
            + (f" | {span(row, TESTED, '.4f')}" if tested else "")
            + f" | {row['seconds_per_iteration'] * 1e6:.0f} µs "
            f"| {row['bytes_per_iteration']:,.0f} |"
            + (f" {row['iterations']} |" if counted else "")
        )


def _note_on_gtadam(summary: Mapping[str, Any]) -> str:
    methods = {label.partition(":")[0] for label in summary}
    return " The paper makes no claim about GTAdam." if "gtadam" in methods else ""


def _claim_table(claims: Iterable[Mapping[str, Any]], heading: str) -> Iterator[str]:
    yield f"| {heading} | verdict | measured |"
    yield "|---|---|---|"
    for claim in claims:
        if claim["against"] is None:
            measured = "no such method ran"
        elif claim["interval"] is None:
            measured = f"{claim['measure']}: one seed, no interval"
        else:
            low, high = claim["interval"]
            span = f"{claim['estimate']:.2e}, 95% interval [{low:.2e}, {high:.2e}]"
            measured = f"{claim['measure']}: {span}"
        yield f"| {claim['claim']} | **{claim['verdict']}** | {measured} |"
