"""The paper's experiments from their TOML files: what to run, what is done, and the report."""

import fcntl
import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

from ..config import RunConfig, options_of_table, parse_toml
from ..display.console import console, on_terminal
from ..errors import Diverged, UserError
from ..rundir.layout import OWN_NAMES, remove_run
from ..rundir.metrics_csv import read_last_row
from ..spec import nearest, split_list
from ..trial import cut_methods
from .tables import write_report

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
    "stacked",
)


@dataclass(frozen=True)
class Study:
    """One experiment: a run for each algorithm, each in a directory of its own."""

    name: str
    title: str
    directory: Path
    runs: dict[str, RunConfig]  # by algorithm
    quick: bool
    command: str  # that makes it again
    changed: str  # what was given in place of the experiment's own options

    @property
    def regression(self) -> bool:
        return self.name == "huber"

    @property
    def note(self) -> str:
        """What a reader must know before taking the numbers for the paper's."""
        config = next(iter(self.runs.values()))
        size = f"{config.n} nodes, {config.iterations} iterations, {config.seeds} seeds"
        if self.quick:
            size += "; a quick look, not the paper's size"
        return f"{size}; changed: {self.changed}" if self.changed else size

    def pending(self) -> list[str]:
        """The algorithms that are yet to run; an error where a finished run is of other options."""
        return [label for label, config in self.runs.items() if not _is_done(config)]


def has_variant(name: str, variant: str) -> bool:
    return variant == LITERAL or variant in _table(name)["variants"]


def _table(name: str) -> dict[str, Any]:
    """The experiment's file."""
    text = (resources.files("mpi_gt") / "experiments" / f"{name}.toml").read_text("utf-8")
    return parse_toml(text, f"{name}.toml")


def make_study(
    name: str, variant: str, quick: bool, overrides: Mapping[str, Any], out: str | None
) -> Study:
    """The experiment of that name from its file, with the given options in place of its own."""
    if name not in EXPERIMENTS:
        raise UserError(f"unknown experiment '{name}'{nearest(name, [*EXPERIMENTS, 'all'])}")
    table = _table(name)
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
    own = options_of_table(table, f"{name}.toml")
    options = {**own, **overrides}
    told = [key for key in overrides if key != "data_dir" and overrides[key] != own.get(key)]
    changed = ", ".join(f"{key} = {overrides[key]}" for key in told)
    flags = [f"--{key.replace('_', '-')} {overrides[key]}" for key in told]
    config = RunConfig.of(options)
    words = [variant] * (variant != LITERAL) + ["quick"] * quick
    suffix = "".join(f"-{word}" for word in words)
    if out is not None and not out:
        raise UserError("--out needs the name of a directory")
    directory = Path(out or Path("runs", f"reproduce-{name}{suffix}"))
    asked = [f"--variant {variant}"] * (variant != LITERAL) + ["--quick"] * quick
    command = " ".join(["mpi-gt reproduce", name, *asked, *flags])
    methods = list(zip(config.entries(), split_list(config.algorithms or ""), strict=True))
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
        for entry, spec in methods[: cut_methods(len(methods))]
    }
    return Study(name, title, directory, runs, quick, command, changed)


def _is_done(config: RunConfig) -> bool:
    """Whether that run has ended by itself (in divergence perhaps); an error if it is not ours."""
    folder = Path(config.out or "")
    try:
        facts = json.loads((folder / "run.json").read_text())
    except (OSError, ValueError):
        foreign = [path for path in folder.glob("[!.]*") if path.name not in OWN_NAMES]
        if foreign:
            raise UserError(f"{foreign[0]} is in the way: {folder} is no run directory") from None
        return False
    if facts.get("exit_code") not in (0, Diverged.exit_code):
        return False
    wanted = asdict(config)
    for key in DECISIVE:
        if facts["config"].get(key) != wanted[key]:
            raise UserError(
                f"{config.out} holds a run with {key} = {facts['config'].get(key)}, not "
                f"{wanted[key]}; give another --out, or --overwrite to run it all again"
            )
    return True


def remove_study(study: Study) -> None:
    """Remove the runs of a study, so that all of it runs again."""
    for config in study.runs.values():
        remove_run(Path(config.out or ""))


@contextmanager
def lock_directory(directory: Path) -> Iterator[None]:
    """Keep a second call out of the directory while this one works in it."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = (directory / ".lock").open("w")
    except OSError as error:
        raise UserError(f"cannot write to {directory}: {error.strerror}") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(f"another call is at work in {directory}") from None
        except OSError:
            pass  # a file system without locks
        yield


class StudyProgress:
    """How far the whole experiment and its present algorithm are; also in DIR/progress.log."""

    def __init__(self, study: Study, pending: list[str], quiet: bool) -> None:
        self._study = study
        self._pending = pending
        self._quiet = quiet
        self._began = time.monotonic()
        self._done = 0
        self._total = sum(study.runs[label].iterations for label in pending)
        self._next_line = 0.0
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
        (Path(self._study.runs[label].out or "") / "metrics.csv").unlink(missing_ok=True)
        number = self._pending.index(label) + 1
        self._line(f"{label} ({number} of {len(self._pending)}): begins")
        if self._bar:
            self._task = self._bar.add_task(f"  {label}", total=self._size)

    def look(self) -> None:
        """Called now and then while the ranks work."""
        last = read_last_row(Path(self._study.runs[self._label].out or ""))
        iteration = int(last.get("iteration") or 0)
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


def run_study(
    study: Study,
    execute: Callable[[RunConfig, Callable[[], None]], int],
    quiet: bool,
) -> int:
    """Run what is pending, one algorithm after the other, then report; the exit code."""
    with lock_directory(study.directory):
        pending = study.pending()
        progress = StudyProgress(study, pending, quiet)
        try:
            for label in pending:
                progress.begin(label)
                code = execute(study.runs[label], progress.look)
                if code not in (0, Diverged.exit_code):
                    return code
                progress.end()
        finally:
            progress.close()
        return report(study, quiet)


def report(study: Study, quiet: bool) -> int:
    """Write the report and show it; the exit code."""
    written = write_report(study)
    if not quiet:
        print((study.directory / "summary.md").read_text(encoding="utf-8"))
        for path in written:
            print(f"wrote {path}")
    summary = json.loads((study.directory / "summary.json").read_text())
    return Diverged.exit_code if any("error" in row for row in summary["methods"].values()) else 0
