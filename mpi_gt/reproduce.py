"""The paper's experiments from their TOML files: what to run, what is done, and the report."""

import csv
import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

from . import plots
from .claims import judge_all
from .config import RunConfig, options_of_table, parse_toml
from .display import console, on_terminal
from .errors import UserError
from .record import COLUMNS
from .spec import nearest, split_list
from .status import write_json
from .summary import METRICS, mean_of, tail_by_seed

EXPERIMENTS = ("huber", "a9a", "covertype", "mnist")
LITERAL = "literal"

# what decides the numbers of a run; the rest (where to write, how to exchange) does not
DECISIVE = (
    "problem",
    "algorithm",
    "graph",
    "weights",
    "iterations",
    "seeds",
    "seed",
    "log_every",
    "dtype",
    "x1",
    "n",
)


@dataclass(frozen=True)
class Study:
    """One experiment: a run for each algorithm, each in a directory of its own."""

    name: str
    title: str
    directory: Path
    runs: dict[str, RunConfig]  # by algorithm
    quick: bool

    @property
    def regression(self) -> bool:
        return self.name == "huber"

    @property
    def note(self) -> str:
        """What a reader must know before taking the numbers for the paper's."""
        config = next(iter(self.runs.values()))
        size = f"{config.n} nodes, {config.iterations} iterations, {config.seeds} seeds"
        return f"{size}; a quick look, not the paper's size" if self.quick else size

    def pending(self) -> list[str]:
        """The algorithms that are yet to run; an error where a finished run is of other options."""
        return [label for label, config in self.runs.items() if not _is_done(config)]


def make_study(
    name: str, variant: str, quick: bool, overrides: Mapping[str, Any], out: str | None
) -> Study:
    """The experiment of that name from its file, with the given options in place of its own."""
    if name not in EXPERIMENTS:
        raise UserError(f"unknown experiment '{name}'{nearest(name, [*EXPERIMENTS, 'all'])}")
    text = (resources.files("mpi_gt") / "experiments" / f"{name}.toml").read_text("utf-8")
    table = parse_toml(text, f"{name}.toml")
    title = table.pop("title")
    quick_table, variants = table.pop("quick"), table.pop("variants")
    if variant != LITERAL:
        if variant not in variants:
            raise UserError(
                f"{name} has no variant '{variant}'{nearest(variant, [LITERAL, *variants])}"
            )
        table.update(variants[variant])
        title = f"{title}, {variant}"
    if quick:
        table.update(quick_table)
    options = {**options_of_table(table, f"{name}.toml"), **overrides}
    config = RunConfig.of(options)
    words = [variant] * (variant != LITERAL) + ["quick"] * quick
    suffix = "".join(f"-{word}" for word in words)
    directory = Path(out) if out else Path("runs", f"reproduce-{name}{suffix}")
    runs = {
        entry.label: replace(
            config,
            algorithm=spec,
            algorithms=None,
            out=str(
                directory / "".join(c if c.isalnum() or c in "-_" else "-" for c in entry.label)
            ),
            quiet=True,
            overwrite=True,
        )
        for entry, spec in zip(config.entries(), split_list(config.algorithms or ""), strict=True)
    }
    return Study(name, title, directory, runs, quick)


def _is_done(config: RunConfig) -> bool:
    try:
        facts = json.loads((Path(config.out or "") / "run.json").read_text())
    except (OSError, ValueError):
        return False
    if facts.get("status") != "finished":
        return False
    wanted = asdict(config)
    for key in DECISIVE:
        if facts["config"].get(key) != wanted[key]:
            raise UserError(
                f"{config.out} holds a run with {key} = {facts['config'].get(key)}, not "
                f"{wanted[key]}; give another --out, or --overwrite to run it all again"
            )
    return True


def arguments_of(config: RunConfig) -> list[str]:
    """The command that runs this configuration."""
    words = ["run"]
    for name, value in asdict(config).items():
        flag = "-n" if name == "n" else "--" + name.replace("_", "-")
        if value is True:
            words.append(flag)
        elif value not in (None, False):
            words += [flag, str(value)] if name == "n" else [f"{flag}={value}"]
    return words


# ---- the report


def write_report(study: Study) -> list[Path]:
    """metrics.csv, summary.json, summary.md, claims.json, figure.png and figure.pdf."""
    rows: list[dict[str, str]] = []
    results = {}
    for label, config in study.runs.items():
        folder = Path(config.out or "")
        with (folder / "metrics.csv").open(newline="") as file:
            rows += [{**row, "algorithm": label} for row in csv.DictReader(file)]
        results[label] = json.loads((folder / "run.json").read_text())
    target = study.directory
    with (target / "metrics.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    summary = {label: _summary(rows, label, result) for label, result in results.items()}
    claims = judge_all(rows, study.regression)
    first = next(iter(results.values()))
    write_json(
        target / "summary.json",
        {
            "experiment": study.name,
            "title": study.title,
            "note": study.note,
            "quick": study.quick,
            "versions": first["versions"],
            "mpi": first["mpi"],
            "graph": first["graph"],
            "finished": first["finished"],
            "methods": summary,
        },
    )
    (target / "claims.json").write_text(json.dumps(claims, indent=2) + "\n")
    (target / "summary.md").write_text(_markdown(study, summary, claims), encoding="utf-8")
    written = [
        target / name for name in ("metrics.csv", "summary.json", "summary.md", "claims.json")
    ]
    if plots.available():
        written += plots.draw_study(target, study.title, study.note)
    return written


def _summary(
    rows: Iterable[Mapping[str, Any]], label: str, run: Mapping[str, Any]
) -> dict[str, Any]:
    """Mean and range over seeds of the tail metrics, and what an iteration costs."""
    row: dict[str, Any] = {"algorithm": run["config"]["algorithm"]}
    for metric in METRICS:
        values = tail_by_seed(rows, label, metric)
        if values:
            row[metric] = {"mean": mean_of(list(values)), "min": min(values), "max": max(values)}
    row["seconds_per_iteration"] = run["seconds_per_iteration"]
    config = run["config"]
    row["bytes_per_iteration"] = run["bytes_sent"] / config["seeds"] / config["iterations"]
    if "test_accuracy" in run:
        row["test_accuracy"] = run["test_accuracy"]
    return row


def _markdown(study: Study, summary: Mapping[str, Any], claims: list[dict[str, Any]]) -> str:
    def span(row: Mapping[str, Any], metric: str, digits: str) -> str:
        cell = row[metric]
        return f"{cell['mean']:{digits}} [{cell['min']:{digits}}, {cell['max']:{digits}}]"

    lines = [
        f"**{study.title}** ({study.note}). Mean and range over seeds of the mean over the last "
        "fifth of the logged iterations; time and bytes (all nodes, one seed) of an iteration.",
        "",
        "| method | loss | gap | ‖∇f(x̄)‖² | consensus | time | bytes |",
        "|---|---|---|---|---|---|---|",
    ]
    for label, row in summary.items():
        lines.append(
            f"| {label} | {span(row, 'loss', '.6g')} | "
            + " | ".join(span(row, metric, ".2e") for metric in ("gap", "grad_norm2", "consensus"))
            + f" | {row['seconds_per_iteration'] * 1e6:.0f} µs "
            f"| {row['bytes_per_iteration']:,.0f} |"
        )
    lines += ["", "| claim of the paper | verdict | measured | against |", "|---|---|---|---|"]
    for claim in claims:
        measured = "one seed: no interval"
        if claim["interval"] is not None:
            low, high = claim["interval"]
            measured = f"{claim['estimate']:.2e}, 95% in [{low:.2e}, {high:.2e}]"
        lines.append(
            f"| {claim['claim']} | **{claim['verdict']}** | {claim['measure']}: {measured} | "
            f"{claim['against']} |"
        )
    return "\n".join(lines) + "\n"


# ---- progress


class Overall:
    """How far the whole experiment and its present algorithm are; also in DIR/progress.log."""

    def __init__(self, study: Study, pending: list[str], quiet: bool) -> None:
        self._study = study
        self._pending = pending
        self._quiet = quiet
        self._began = time.monotonic()
        self._done = 0
        self._total = sum(study.runs[label].iterations for label in pending)
        self._next_line = 0.0
        study.directory.mkdir(parents=True, exist_ok=True)
        self._log = (study.directory / "progress.log").open("a", encoding="utf-8")
        self._bar: Any = None
        if not quiet and on_terminal():
            from rich.progress import Progress

            self._bar = Progress(console=console(sys.stderr))
            self._whole = self._bar.add_task(study.title, total=self._total)
            self._bar.start()

    def begin(self, label: str) -> None:
        self._label = label
        self._size = self._study.runs[label].iterations
        number = self._pending.index(label) + 1
        self._line(f"{label} ({number} of {len(self._pending)}): begins")
        if self._bar:
            self._task = self._bar.add_task(f"  {label}", total=self._size)

    def look(self) -> None:
        """Called now and then while the ranks work."""
        iteration = _last_iteration(Path(self._study.runs[self._label].out or ""))
        if self._bar:
            self._bar.update(self._task, completed=iteration)
            self._bar.update(self._whole, completed=self._done + iteration)
        share = (self._done + iteration) / self._total
        if time.monotonic() >= self._next_line and share > 0:
            self._next_line = time.monotonic() + 10
            spent = time.monotonic() - self._began
            self._line(
                f"{self._label} iteration {iteration}/{self._size}; {100 * share:.0f}% of all, "
                f"{spent:.0f} s so far, about {spent / share - spent:.0f} s left"
            )

    def end(self) -> None:
        self._done += self._size
        if self._bar:
            self._bar.update(self._task, completed=self._size)
            self._bar.update(self._whole, completed=self._done)
        self._line(f"{self._label}: done")

    def close(self) -> None:
        if self._bar:
            self._bar.stop()
        self._log.close()

    def _line(self, text: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {text}", file=self._log, flush=True)
        if not self._quiet and self._bar is None:
            print(f"{self._study.name}: {text}", file=sys.stderr, flush=True)


def _last_iteration(folder: Path) -> int:
    try:
        with (folder / "metrics.csv").open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - 400))
            return int(file.read().decode().splitlines()[-1].split(",")[2])
    except (OSError, ValueError, IndexError):
        return 0


def carry_out(
    study: Study,
    execute: Callable[[RunConfig, Callable[[], None]], int],
    quiet: bool,
) -> int:
    """Run what is pending, one algorithm after the other, then report; the exit code."""
    pending = study.pending()
    progress = Overall(study, pending, quiet)
    try:
        for label in pending:
            progress.begin(label)
            code = execute(study.runs[label], progress.look)
            if code:
                return code
            progress.end()
    finally:
        progress.close()
    written = write_report(study)
    if not quiet:
        print((study.directory / "summary.md").read_text(encoding="utf-8"))
        for path in written:
            print(f"wrote {path}")
    return 0
