"""Studies: experiments that are read from TOML files, one run per algorithm."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

from ..algorithms import full_name
from ..algorithms.budget import Budget, Cost
from ..config import RunConfig, options_of_table, parse_toml
from ..display.console import counted, on_terminal
from ..display.progress import StudyBar
from ..display.results import length_of
from ..errors import Diverged, UserError
from ..files import read_json
from ..rundir.layout import OWN_NAMES, remove_run
from ..rundir.lock import claim
from ..rundir.metrics_csv import read_last_row
from ..rundir.run_json import require_facts
from ..spec import nearest, split_list
from ..trial import cut_methods
from .networks import configs_of
from .tables import read_result, write_results

OF_THE_PAPER = ("huber", "a9a", "covertype", "mnist")
EXPERIMENTS = (*OF_THE_PAPER, "mnist-mlp")
LITERAL = "literal"

# the options that decide the numbers of a run; others, such as the exchange, do not
DECISIVE = (
    "problem",
    "algorithm",
    "graph",
    "weights",
    "matchings",
    "iterations",
    "budget",
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
    """One experiment: one run per algorithm, each in a run directory of its own."""

    name: str
    title: str
    directory: Path
    runs: dict[str, RunConfig]  # by algorithm
    quick: bool
    command: str  # the command that reproduces it
    changed: str  # the options that differ from those of the experiment's file
    variant: str = LITERAL
    criterion: str = ""  # by which the stepsizes were chosen; "": they are the paper's
    overwrite: bool = False  # run all algorithms again

    @property
    def regression(self) -> bool:
        return self.name == "huber"

    @property
    def budgeted(self) -> bool:
        """True if the methods are compared at an equal budget."""
        return next(iter(self.runs.values())).budget is not None

    @property
    def note(self) -> str:
        """The size of the study, and how it differs from the paper's experiment."""
        config = next(iter(self.runs.values()))
        nodes, seeds = counted(config.n or 0, "node"), counted(config.seeds, "seed")
        size = f"{nodes}, {length_of(asdict(config))}, {seeds}"
        if self.quick:
            full = "full" if self.criterion else "paper's"
            size += f"; a quick look, not the {full} size"
        return f"{size}; changed: {self.changed}" if self.changed else size

    def pending(self) -> list[str]:
        """Return the algorithms that have not run yet.

        Raise an error if a finished run in the directory has other options.
        """
        return [label for label, config in self.runs.items() if not _is_done(config)]


def has_variant(name: str, variant: str) -> bool:
    """Return whether the experiment has that variant."""
    return variant == LITERAL or variant in _table(name)["variants"]


def _table(name: str) -> dict[str, Any]:
    """Return the content of the experiment's file."""
    text = (resources.files("mpi_gt") / "experiments" / f"{name}.toml").read_text("utf-8")
    return parse_toml(text, f"{name}.toml")


def make_study(
    name: str, variant: str, quick: bool, overrides: Mapping[str, Any], out: str | None
) -> Study:
    """Build a study from the file of its experiment; `overrides` replace options of the file."""
    if name not in EXPERIMENTS:
        raise UserError(f"unknown experiment '{name}'{nearest(name, [*EXPERIMENTS, 'all'])}")
    table = _table(name)
    title, criterion = table.pop("title"), table.pop("criterion", "")
    quick_table, variants = table.pop("quick"), table.pop("variants")
    if variant != LITERAL:
        if variant not in variants:
            raise UserError(
                f"{name} has no variant '{variant}'{nearest(variant, [LITERAL, *variants])}"
            )
        chosen = variants[variant]
        quick_table = {**quick_table, **chosen.pop("quick", {})}
        table.update(chosen)
        title = f"{title}, {variant}"
    if quick:
        table.update(quick_table)
    networks = table.pop("networks", None)
    own = options_of_table(table, f"{name}.toml")
    options = {**own, **overrides}
    different = [key for key in overrides if key != "data_dir" and overrides[key] != own.get(key)]
    changed = ", ".join(f"{key} = {overrides[key]}" for key in different)
    flags = [_flag(key, overrides[key]) for key in different]
    config = RunConfig.of(options)
    words = [variant] * (variant != LITERAL) + ["quick"] * quick
    suffix = "".join(f"-{word}" for word in words)
    if out is not None and not out:
        raise UserError("--out needs the name of a directory")
    directory = Path(out or Path("runs", f"reproduce-{name}{suffix}"))
    choice = [f"--variant {variant}"] * (variant != LITERAL) + ["--quick"] * quick
    command = " ".join(["mpi-gt reproduce", name, *choice, *flags])
    methods = _methods(config) if networks is None else configs_of(networks, config, overrides)
    runs = {
        label: replace(
            own_config,
            out=str(directory / "".join(c if c.isalnum() or c in "-_" else "-" for c in label)),
            quiet=True,
            overwrite=True,
        )
        for label, own_config in list(methods.items())[: cut_methods(len(methods))]
    }
    return Study(name, title, directory, runs, quick, command, changed, variant, criterion)


def _methods(config: RunConfig) -> dict[str, RunConfig]:
    """Return the run of each algorithm in the list of all, by label."""
    specs = split_list(config.algorithms or "")
    return {
        entry.label: replace(config, algorithm=spec, algorithms=None)
        for entry, spec in zip(config.entries(), specs, strict=True)
    }


def _flag(key: str, value: Any) -> str:
    flag = "-n" if key == "n" else f"--{key.replace('_', '-')}"
    return flag if value is True else f"{flag} {value}"


def _is_done(config: RunConfig) -> bool:
    """Return whether the run has finished or diverged.

    Raise an error if its directory holds a run with other options, or files of somebody else.
    """
    directory = Path(config.out or "")
    facts = require_facts(directory)
    if not facts:
        foreign = [path for path in directory.glob("[!.]*") if path.name not in OWN_NAMES]
        if foreign:
            raise UserError(f"{foreign[0]} is in the way: {directory} is not a run directory")
        return False
    if facts.get("exit_code") not in (0, Diverged.exit_code):
        return False
    wanted = asdict(config)
    facts = read_result(directory)
    for key in DECISIVE:
        if facts["config"].get(key) != wanted[key]:
            raise UserError(
                f"{config.out} holds a run with {key} = {facts['config'].get(key)}, not "
                f"{wanted[key]}; give another --out, or --overwrite to run it all again"
            )
    return True


def begin_study(study: Study) -> list[str]:
    """Return the algorithms to run, in a directory that is claimed; remove runs to overwrite."""
    if study.overwrite:
        for config in study.runs.values():
            remove_run(Path(config.out or ""))
    return study.pending()


class StudyProgress:
    """The progress of a study and its present algorithm, on standard error and in progress.log."""

    def __init__(self, study: Study, pending: list[str], quiet: bool) -> None:
        self._study = study
        self._pending = pending
        self._quiet = quiet
        self._began = time.monotonic()
        self._done = 0
        self._total = sum(map(self._units, pending))
        self._next_line = 0.0
        self._log = (study.directory / "progress.log").open("a", encoding="utf-8")
        show_bar = not quiet and on_terminal()
        self._bar = StudyBar(study.title, self._total) if show_bar else None

    def begin(self, label: str) -> None:
        """Announce the next algorithm, and remove the measurements of an unfinished run of it."""
        self._label = label
        self._name = full_name(label)
        self._size = self._units(label)
        (Path(self._study.runs[label].out or "") / "metrics.csv").unlink(missing_ok=True)
        number = self._pending.index(label) + 1
        self._line(f"{self._name} ({number} of {len(self._pending)}): started")
        if self._bar:
            self._bar.begin(label, self._size)

    def refresh(self) -> None:
        """Show the iteration that the ranks have reached; the front end calls this now and then."""
        last = read_last_row(Path(self._study.runs[self._label].out or ""))
        iteration = self._reached(last)
        if self._bar:
            self._bar.update(iteration, self._done + iteration)
        share = (self._done + iteration) / self._total
        if time.monotonic() >= self._next_line and share > 0:
            self._next_line = time.monotonic() + 10
            spent = time.monotonic() - self._began
            self._line(
                f"{self._name} {self._shown(iteration)}; {100 * share:.0f}% of all, "
                f"{spent:.0f} s so far, about {spent / share - spent:.0f} s left"
            )

    def _units(self, label: str) -> int:
        """Return the iterations of an algorithm; of a budget, in thousandths of it."""
        config = self._study.runs[label]
        return config.iterations if config.budget is None else 1000

    def _shown(self, reached: int) -> str:
        if self._study.budgeted:
            return f"{reached / 10:.0f}% of its budget"
        return f"iteration {reached}/{self._size}"

    def _reached(self, last: Mapping[str, str]) -> int:
        """Return how far the present algorithm is by its last row, in the same units."""
        budget = self._study.runs[self._label].budget
        if budget is None:
            return int(last.get("iteration") or 0)
        limit = Budget.of(budget)
        spent = Cost(int(last.get("gradients") or 0), int(last.get("bytes") or 0))
        return min(1000, int(1000 * limit.share(spent)))

    def end(self) -> None:
        """Announce that the present algorithm is done."""
        self._done += self._size
        if self._bar:
            self._bar.update(self._size, self._done)
        self._line(f"{self._name}: done")

    def close(self) -> None:
        """Remove the bar and close progress.log."""
        if self._bar:
            self._bar.end()
        with contextlib.suppress(OSError):
            self._log.close()

    def _line(self, text: str) -> None:
        with contextlib.suppress(OSError):  # a full disk: the runs will say so
            print(f"{time.strftime('%H:%M:%S')} {text}", file=self._log, flush=True)
        if not self._quiet and self._bar is None:
            print(f"{self._study.name}: {text}", file=sys.stderr, flush=True)


def run_study(
    study: Study,
    execute: Callable[[RunConfig, Callable[[], None]], int],
    quiet: bool,
) -> int:
    """Run the pending algorithms one after the other, write the results, return the exit code.

    `execute(config, on_tick)` runs one of them, calls `on_tick` meanwhile, and returns its exit
    code.
    """
    with clean_if_refused(study.directory) as clean:
        code = _run_pending(study, execute, quiet)
        if code == UserError.exit_code:
            clean()
    return code


@contextlib.contextmanager
def clean_if_refused(directory: Path) -> Iterator[Callable[[], None]]:
    """Remove the directory, if it is new and holds no run, after a UserError in the `with` block.

    Gives the function that does so, for a UserError of ranks: it shows in their exit code only.
    """
    made = [folder for folder in (directory, *directory.parents) if not folder.exists()]

    def clean() -> None:
        with contextlib.suppress(OSError):
            if made and [path.name for path in directory.iterdir()] == ["progress.log"]:
                (directory / "progress.log").unlink()
            for folder in made:
                folder.rmdir()

    try:
        yield clean
    except UserError:
        clean()
        raise


def _run_pending(
    study: Study, execute: Callable[[RunConfig, Callable[[], None]], int], quiet: bool
) -> int:
    with claim(study.directory):
        pending = begin_study(study)
        progress = StudyProgress(study, pending, quiet)
        try:
            for label in pending:
                progress.begin(label)
                code = execute(study.runs[label], progress.refresh)
                if code not in (0, Diverged.exit_code):
                    return code
                progress.end()
        finally:
            progress.close()
        return report(study, quiet)


def report(study: Study, quiet: bool) -> int:
    """Write the results of a study and show them; return the exit code."""
    written = write_results(study)
    if not quiet:
        print((study.directory / "summary.md").read_text(encoding="utf-8"))
        for path in written:
            print(f"wrote {path}")
    summary = read_json(study.directory / "summary.json")
    return Diverged.exit_code if any("error" in row for row in summary["methods"].values()) else 0
