"""Tuned stepsizes: each method's best one of a common grid, found on seeds that judge nothing."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..algorithms.stepsizes import stepsizes, with_stepsize, without_stepsize
from ..config import RunConfig
from ..errors import UserError
from ..rundir.run_json import require_facts

GRID = "1e-4..1"
"""The common grid, two stepsizes per decade; it is widened where the best is at its edge."""
LEAST, MOST = 1e-8, 1e4  # a grid is not widened beyond these
SEEDS = 5  # of the search, or as many as the study has, if these are fewer
DISTANCE = 1000  # from the first seed of the study to the first of the search, at least
MEASUREMENTS = 25  # of each run of the search
CRITERIA = ("loss", "gap")
"""The metrics of which each has its own best stepsize: the claims about it are judged there."""

CRITERION = "the smallest mean over seeds and over the last fifth of the measurements"
"""The rule by which a best stepsize is chosen, for display."""

Scores = dict[str, dict[float, dict[str, float | None]]]
"""By method and stepsize, the value of each criterion; None: diverged."""


@dataclass(frozen=True)
class Tuning:
    """The search of stepsizes for the methods of a study, in rounds of one launch each."""

    methods: dict[str, str]  # specifications without a stepsize, by label in the study
    config: RunConfig  # of a run of the search, without its methods
    directory: Path

    def rounds(self) -> Iterator[tuple[int, RunConfig]]:
        """Give the runs of the search, each once the one before it has ended.

        A run that has ended before is given as well: what is missing follows from the files.
        """
        for number in range(1, 100):
            wanted = missing_points(self.scores(number - 1), self.methods)
            if not wanted:
                return
            yield number, self._round(number, wanted)

    def _round(self, number: int, wanted: Sequence[tuple[str, float]]) -> RunConfig:
        specs = [with_stepsize(self.methods[label], lr) for label, lr in wanted]
        out = str(self.directory / f"round-{number}")
        return replace(self.config, algorithms=",".join(specs), out=out)

    def scores(self, rounds: int = 99) -> Scores:
        """Return what the first rounds have found."""
        scores: Scores = {label: {} for label in self.methods}
        for number in range(1, rounds + 1):
            wanted = missing_points(scores, self.methods)
            if not wanted:
                break
            directory = self.directory / f"round-{number}"
            summary = require_facts(directory, ("summary",))["summary"]
            entries = self._round(number, wanted).entries()
            for (label, lr), entry in zip(wanted, entries, strict=True):
                row = summary.get(entry.label)
                if not isinstance(row, Mapping):
                    raise UserError(f"{directory} is damaged: it has no result of {entry.label}")
                scores[label][lr] = {metric: _finite(row.get(metric)) for metric in CRITERIA}
        return scores

    def best(self) -> dict[str, dict[str, float]]:
        """Return the best stepsize of each method by criterion; a method may have none."""
        scores = self.scores()
        found: dict[str, dict[str, float]] = {}
        for metric in CRITERIA:
            chosen = {label: best_of(own, metric) for label, own in scores.items()}
            found[metric] = {label: lr for label, lr in chosen.items() if lr is not None}
        return found


def make_tuning(runs: Mapping[str, RunConfig], directory: Path) -> Tuning:
    """Return the search for the methods of a study; its files go to `directory`."""
    first = next(iter(runs.values()))
    config = replace(
        first,
        algorithm=RunConfig.algorithm,  # not used
        seeds=min(SEEDS, first.seeds),
        seed=first.seed + max(DISTANCE, first.seeds),
        log_every=max(1, first.iterations // MEASUREMENTS),
        no_figures=True,
    )
    methods = {label: without_stepsize(config.algorithm) for label, config in runs.items()}
    if len(set(methods.values())) < len(methods):
        raise UserError("--tuned searches stepsizes: two of the methods differ in theirs only")
    for spec in methods.values():  # raises UserError for a method that has no stepsize
        replace(config, algorithm=with_stepsize(spec, 1.0)).entries()
    return Tuning(methods, config, directory)


def missing_points(scores: Scores, methods: Mapping[str, str]) -> list[tuple[str, float]]:
    """Return the stepsizes to try next: the grid, then a decade more wherever the best is its edge.

    A method that diverges everywhere gets smaller ones.
    """
    wanted: list[tuple[str, float]] = []
    for label in methods:
        own = scores[label]
        if not own:
            wanted += [(label, lr) for lr in stepsizes(GRID, None)]
            continue
        further: set[float] = set()
        for metric in CRITERIA:
            best = best_of(own, metric)
            if best in (None, min(own)):
                further |= {round_off(min(own) / 10**half) for half in (0.5, 1)}
            elif best == max(own):
                further |= {round_off(max(own) * 10**half) for half in (0.5, 1)}
        wanted += [(label, lr) for lr in sorted(further) if LEAST <= lr <= MOST]
    return wanted


def best_of(own: Mapping[float, Mapping[str, float | None]], metric: str) -> float | None:
    """Return the stepsize with the smallest value; None if there is no value."""
    pairs = [(row[metric], lr) for lr, row in own.items()]
    return min(((value, lr) for value, lr in pairs if value is not None), default=(0, None))[1]


def round_off(lr: float) -> float:
    """Return a stepsize with three digits, as those of the grid."""
    return float(f"{lr:.3g}")


def _finite(value: Any) -> float | None:
    good = isinstance(value, int | float) and math.isfinite(value)
    return float(value) if good else None


def grid_table(
    scores: Scores, best: Mapping[str, Mapping[str, float]], metric: str
) -> Iterator[str]:
    """Give the lines of the table of a criterion: a row per method, a column per stepsize."""
    tried = sorted({lr for own in scores.values() for lr in own})
    digits = ".6g" if metric == "loss" else ".2e"
    yield f"| {metric}, at lr | " + " | ".join(f"{lr:g}" for lr in tried) + " |"
    yield "|---" * (1 + len(tried)) + "|"
    for label, own in scores.items():
        cells = []
        for lr in tried:
            value = own.get(lr, {}).get(metric)
            text = "" if lr not in own else "diverged" if value is None else f"{value:{digits}}"
            cells.append(f"**{text}**" if best[metric].get(label) == lr else text)
        yield f"| {label} | " + " | ".join(cells) + " |"
