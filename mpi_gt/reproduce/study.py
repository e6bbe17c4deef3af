"""Studies: experiments that are read from TOML files, one run per algorithm."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

from ..algorithms.stepsizes import with_stepsize, without_stepsize
from ..config import RunConfig, options_of_table
from ..display.console import counted
from ..display.results import length_of
from ..errors import Diverged, UserError
from ..files import parse_toml, read_json
from ..rundir.layout import OWN_NAMES, remove_run
from ..rundir.lock import claim
from ..rundir.run_json import require_facts
from ..spec import nearest, split_list
from ..trial import cut_methods
from .networks import configs_of
from .progress import StudyProgress
from .tables import read_result, write_results
from .tuning import Tuning, make_tuning

OF_THE_PAPER = ("huber", "a9a", "covertype", "mnist")
EXPERIMENTS = (*OF_THE_PAPER, "mnist-mlp")
LITERAL = "literal"

# the options that decide the numbers of a run; others, such as the exchange, do not
DECISIVE = (
    "problem",
    "algorithm",
    "algorithms",
    "graph",
    "weights",
    "matchings",
    "iterations",
    "budget",
    "seeds",
    "seed",
    "log_every",
    "dtype",
    "reproducible",
    "channel",
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
    changed: str  # the decisive options that differ from those of the experiment's file
    variant: str = LITERAL
    criterion: str = ""  # by which the stepsizes were chosen; "": they are the paper's
    overwrite: bool = False  # run all algorithms again
    tuning: Tuning | None = None  # also judge each method at its own best stepsize

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
    name: str,
    variant: str,
    quick: bool,
    overrides: Mapping[str, Any],
    out: str | None,
    tuned: bool = False,
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
    changed = ", ".join(f"{key} = {overrides[key]}" for key in different if key in DECISIVE)
    flags = [_flag(key, overrides[key]) for key in different]
    config = RunConfig.of(options)
    words = [variant] * (variant != LITERAL) + ["quick"] * quick
    suffix = "".join(f"-{word}" for word in words)
    if out is not None and not out:
        raise UserError("--out needs the name of a directory")
    directory = Path(out or Path("runs", f"reproduce-{name}{suffix}"))
    choice = [f"--variant {variant}"] * (variant != LITERAL) + ["--quick"] * quick
    choice += ["--tuned"] * tuned
    command = " ".join(["mpi-gt reproduce", name, *choice, *flags])
    methods = _methods(config) if networks is None else configs_of(networks, config, overrides)
    runs = {
        label: replace(own_config, out=_folder(directory, label), quiet=True, overwrite=True)
        for label, own_config in list(methods.items())[: cut_methods(len(methods))]
    }
    study = Study(name, title, directory, runs, quick, command, changed, variant, criterion)
    return _with_tuning(study, networks is not None) if tuned else study


def _folder(directory: Path, label: str) -> str:
    """Return the run directory of a method."""
    return str(directory / "".join(c if c.isalnum() or c in "-_." else "-" for c in label))


def _with_tuning(study: Study, several_networks: bool) -> Study:
    """Return the study with a search of stepsizes; raise UserError where that has no meaning."""
    if study.criterion:
        raise UserError(f"{study.name} has tuned stepsizes already: {study.criterion}")
    if several_networks or study.budgeted:
        raise UserError(
            f"--tuned is for the claims of the paper: the variant {study.variant} is not about them"
        )
    return replace(study, tuning=make_tuning(study.runs, study.directory / "tuning"))


def tuned_study(study: Study) -> tuple[Study, dict[str, dict[str, str]]]:
    """Return the study with each method at its best stepsizes, once they are found.

    Also return the label of each method by criterion: the best stepsize for the loss may be
    another than that for the gap.
    """
    assert study.tuning is not None
    directory, runs = study.directory / "tuned", {}
    labels: dict[str, dict[str, str]] = {}
    for metric, best in study.tuning.best().items():
        labels[metric] = {}
        for name, lr in best.items():
            label = with_stepsize(without_stepsize(name), lr)  # of a method that runs twice
            spec = with_stepsize(study.tuning.methods[name], lr)
            runs[label] = replace(study.runs[name], algorithm=spec, out=_folder(directory, label))
            labels[metric][name] = label
    ordered = {
        label: config
        for name in study.runs
        for label, config in runs.items()
        if label in {each.get(name) for each in labels.values()}
    }
    title = f"{study.title}, tuned"
    return replace(study, title=title, directory=directory, runs=ordered, tuning=None), labels


def stages(study: Study) -> Iterator[Study]:
    """Give what is to run, one after the other: each follows from the results of those before."""
    yield study
    if study.tuning is not None:
        for number, config in study.tuning.rounds():
            title = f"{study.title}: stepsizes, round {number}"
            yield replace(study, title=title, runs={f"stepsizes, round {number}": config})
        yield replace(tuned_study(study)[0], directory=study.directory)


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
    several = config.algorithms is not None
    facts = require_facts(directory, ("config", "summary")) if several else read_result(directory)
    for key in DECISIVE:
        found = facts["config"].get(key, getattr(RunConfig, key))  # former versions had fewer
        if found != wanted[key]:
            raise UserError(
                f"{config.out} holds a run with {key} = {found}, not {wanted[key]}; give another "
                "--out, or --overwrite to run it all again"
            )
    return True


def begin_study(study: Study) -> None:
    """Remove the runs to overwrite, in a directory that is claimed."""
    if study.overwrite:
        folders = [Path(config.out or "") for config in study.runs.values()]
        if study.tuning is not None:
            folders += [*study.directory.glob("tuning/*"), *study.directory.glob("tuned/*")]
        for folder in folders:
            if folder.is_dir():
                remove_run(folder)


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
        begin_study(study)
        for stage in stages(study):
            code = _run_stage(stage, execute, quiet)
            if code not in (0, Diverged.exit_code):
                return code
        return report(study, quiet)


def _run_stage(
    stage: Study, execute: Callable[[RunConfig, Callable[[], None]], int], quiet: bool
) -> int:
    pending = stage.pending()
    if not pending:
        return 0
    progress = StudyProgress(stage, pending, quiet)
    try:
        for label in pending:
            progress.begin(label)
            code = execute(stage.runs[label], progress.refresh)
            if code not in (0, Diverged.exit_code):
                return code
            progress.end()
    finally:
        progress.close()
    return 0


def report(study: Study, quiet: bool) -> int:
    """Write the results of a study and show them; return the exit code."""
    written = write_results(study)
    if not quiet:
        print((study.directory / "summary.md").read_text(encoding="utf-8"))
        for path in written:
            print(f"wrote {path}")
    summary = read_json(study.directory / "summary.json")
    return Diverged.exit_code if any("error" in row for row in summary["methods"].values()) else 0
