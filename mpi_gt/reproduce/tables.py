"""The results of a finished study: figure, tables and claims."""

import math
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import plots
from ..algorithms.stepsizes import with_stepsize
from ..display.console import counted
from ..errors import UserError
from ..plots.metrics import draw_study
from ..rundir.atomic import write_csv, write_json, write_text
from ..rundir.metrics_csv import COLUMNS, METRICS, SUBOPTIMALITY, read_rows
from ..rundir.run_json import planned_iterations, require_facts
from ..rundir.summary import mean_of, tail_by_seed
from ..user_classes import split_spec
from . import networks
from .claims import REDUCED, TESTED, Field, judge_all, judge_network, judge_variance_reduction
from .compression import (
    VARIANT,
    compressors_of,
    cost_table,
    costs_of,
    judge_compression,
)
from .markdown import claim_table, method_table, stepsize_of
from .tuning import CRITERIA, CRITERION, GRID, grid_table

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


def spec_of(run: Mapping[str, Any]) -> str:
    """Return the specification of a run's method with its stepsize, also if that is the default."""
    spec: str = run["config"]["algorithm"]
    if "lr" in split_spec(spec)[1]:
        return spec
    named = run.get("options", {}).get("algorithm", {})  # former versions listed none
    lr = next((method["options"].get("lr") for method in named.values()), None)
    return with_stepsize(spec, lr) if isinstance(lr, float) else spec


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


class Results:
    """The rows and facts of the finished runs of a study."""

    def __init__(self, study: "Study") -> None:
        self.columns: tuple[str, ...] = (*COLUMNS, TESTED) if study.criterion else COLUMNS
        self.runs: dict[str, dict[str, Any]] = {}
        self.rows: list[dict[str, str]] = []
        found = {}
        for label, config in study.runs.items():
            path = Path(config.out or "") / "metrics.csv"
            self.runs[label] = read_result(path.parent)
            found[label] = read_rows(path)
            _require_complete(path, found[label], self.runs[label])
        if all(SUBOPTIMALITY in row for rows in found.values() for row in rows):
            self.columns = (*self.columns, SUBOPTIMALITY)
        for label, own in found.items():
            # the combined table has the columns that all methods have
            kept = [{name: row.get(name, "") for name in self.columns} for row in own]
            self.rows += [{**row, "algorithm": label} for row in kept]
        diverged = {label for label, run in self.runs.items() if run["exit_code"]}
        self.sound = {label: run for label, run in self.runs.items() if label not in diverged}
        self.sound_rows = [row for row in self.rows if row["algorithm"] not in diverged]
        self.summary = {
            label: {"error": run["error"], "algorithm": spec_of(run)}
            if label in diverged
            else _summary(self.rows, label, run)
            for label, run in self.runs.items()
        }

    @property
    def stepsizes(self) -> dict[str, str]:
        """The stepsize of each method by label, for display."""
        return {label: stepsize_of(spec_of(run)) for label, run in self.runs.items()}


def write_results(study: "Study") -> list[Path]:
    """Write metrics.csv, summary.json, summary.md, claims.json and figure.png and .pdf."""
    results = Results(study)
    target = study.directory
    write_csv(target / "metrics.csv", results.columns, results.rows)
    claims = _claims(study, results.sound_rows, Field(None, results.stepsizes))
    costs: dict[str, Any] = {}
    if study.variant == VARIANT:
        costs = {label: costs_of(results.sound_rows, label) for label in results.sound}
    again = None if study.tuning is None else Tuned(study)
    runs = results.runs
    first, last = next(iter(runs.values())), max(run["finished"] for run in runs.values())
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
            "methods": results.summary,
            **({"costs": costs} if costs else {}),
            **({"tuned": again.facts} if again else {}),
        },
    )
    write_json(
        target / "claims.json",
        {"claims": claims, **({"tuned": again.claims} if again else {})},
    )
    extra = _second_table(study, results.sound_rows, results.sound, costs)
    text = _markdown(study, results.summary, claims, extra, again)
    write_text(target / "summary.md", text)
    written = [
        target / name for name in ("metrics.csv", "summary.json", "summary.md", "claims.json")
    ]
    written += _draw(study, results.stepsizes)
    if again:
        write_csv(again.study.directory / "metrics.csv", again.results.columns, again.results.rows)
        written += [
            again.study.directory / "metrics.csv",
            *_draw(again.study, again.results.stepsizes),
        ]
    return written


def _draw(study: "Study", stepsizes: Mapping[str, str]) -> list[Path]:
    """Draw the figure of a study, if that can be done; print a warning if it fails."""
    if not plots.available():
        return []
    drawn, warning = plots.try_to_draw(
        lambda: draw_study(
            study.directory, study.title, study.note, stepsizes, _costs_drawn(study), TESTED
        )
    )
    if warning:
        print(f"mpi-gt: warning: {warning}", file=sys.stderr, flush=True)
    return drawn


class Tuned:
    """The same study with each method at its own best stepsizes."""

    def __init__(self, study: "Study") -> None:
        from .study import tuned_study

        assert study.tuning is not None
        self.study, labels = tuned_study(study)
        self.results = Results(self.study)
        self.tuning = study.tuning
        self.best = study.tuning.best()
        self.scores = study.tuning.scores()
        self.claims = _claims(study, self.results.sound_rows, Field(labels, self.results.stepsizes))

    @property
    def facts(self) -> dict[str, Any]:
        """The entry of the search in summary.json."""
        config = self.tuning.config
        grid = {
            label: [{"lr": lr, **own[lr]} for lr in sorted(own)]
            for label, own in self.scores.items()
        }
        return {
            "criterion": CRITERION,
            "seeds": config.seeds,
            "seed": config.seed,
            "stepsizes": self.best,
            "grid": grid,
            "methods": self.results.summary,
        }


def _second_table(
    study: "Study",
    rows: list[dict[str, str]],
    runs: Mapping[str, Mapping[str, Any]],
    costs: Mapping[str, Any],
) -> list[str]:
    """Return the lines of the table that some variants have below that of the methods."""
    if costs:
        return ["", *cost_table(costs, compressors_of(study.runs))]
    if study.variant == networks.VARIANT:
        graphs = {label: run["graph"] for label, run in runs.items()}
        return ["", *networks.network_table(rows, graphs)]
    return []


def _claims(study: "Study", rows: list[dict[str, str]], field: Field) -> list[dict[str, Any]]:
    """Judge the claims about this variant; about most of them they are the paper's."""
    if study.variant == VARIANT:
        return judge_compression(rows, compressors_of(study.runs), field)
    if study.variant == networks.VARIANT:
        return networks.judge_networks(rows, field)
    if study.criterion and all(row[TESTED] for row in rows):
        return judge_network(rows, field)
    if REDUCED in study.runs and not study.criterion:
        return judge_variance_reduction(rows, field)
    return judge_all(rows, study.regression, field)


def _costs_drawn(study: "Study") -> tuple[str, str] | None:
    """Return what the figure has the gap against; None for the figure of the paper."""
    if study.variant == networks.VARIANT:
        return networks.AGAINST
    return ("gradients", "bytes") if study.budgeted else None


def _summary(rows: list[dict[str, str]], label: str, run: Mapping[str, Any]) -> dict[str, Any]:
    """Return mean and range over seeds of the tail metrics, and time and bytes per iteration."""
    row: dict[str, Any] = {"algorithm": spec_of(run)}
    further = [name for name in (TESTED, SUBOPTIMALITY) if name in rows[0]]
    for metric in (*METRICS, *further):
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
    again: Tuned | None,
) -> str:
    ours = study.variant in (VARIANT, networks.VARIANT) or study.criterion
    theirs = not (REDUCED in study.runs or ours)
    lines = [
        f"**{study.title}** ({study.note}). Mean over seeds and, in brackets, range over seeds of "
        "the mean over the last fifth of the logged iterations." + _note_on_stepsizes(study),
        "",
        *method_table(summary),
        *extra,
    ]
    if again:
        lines += ["", *_tuned_part(again)]
    heading = "claim of the paper" if theirs else "claim"
    lines += [
        "",
        "Differences are paired over seeds, with 95% intervals of Student's t, and with those of a "
        "bootstrap over seeds where their ends differ by more than a tenth of the width. Each row "
        "shows the pair that decides, the one that speaks most strongly against the claim, and why."
        + _note_on_gtadam(summary),
        "",
        *claim_table(claims, heading, again.claims if again else None),
    ]
    return "\n".join(lines) + "\n"


def _tuned_part(again: Tuned) -> Iterator[str]:
    """Give the lines about the search of stepsizes and the runs with the best ones."""
    config = again.tuning.config
    yield (
        f"**{again.study.title}**: each method at its own best stepsizes of a common grid, two per "
        f"decade from {GRID.replace('..', ' to ')}, wider where the best was at its edge. They "
        f"have {CRITERION}, on {counted(config.seeds, 'other seed')} (from {config.seed} on). A "
        "claim about the loss is judged at the stepsizes that are best for the loss, one about the "
        "gap at those that are best for the gap."
    )
    yield ""
    yield from method_table(again.results.summary)
    for metric in CRITERIA:
        yield ""
        yield from grid_table(again.scores, again.best, metric)


def _note_on_stepsizes(study: "Study") -> str:
    return f" The stepsizes: {study.criterion}." if study.criterion else ""


def _note_on_gtadam(summary: Mapping[str, Any]) -> str:
    methods = {label.partition(":")[0] for label in summary}
    return " The paper makes no claim about GTAdam." if "gtadam" in methods else ""
