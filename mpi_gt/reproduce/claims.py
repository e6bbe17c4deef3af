"""The claims of the paper about its experiments, judged by paired differences over seeds."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..algorithms import display_name

Array = NDArray[Any]

OURS = "gt-adaptive"
# the methods that the paper compares with, in its first and in its second family of experiments;
# GTAdam is in neither
REGRESSION = ("dsgd", "gt", "dsgd-momentum", "d-amsgrad", "d-adabound")
CLASSIFICATION = ("dsgd", "gt", "dsgd-momentum")
ADAPTIVE = ("d-amsgrad", "d-adabound")
DESCENT = ("dsgd", "dsgd-momentum")
REDUCED = "gt-adaptive-vr"
RECURSIVE = ("gt-sarah", "gt-svrg", "gt-hsgd")
TESTED = "accuracy_test"  # a column of problems that have test rows
BEGINNING = 0.05  # the first twentieth of the iterations
HALF = 0.5


@dataclass(frozen=True)
class Verdict:
    """A claim with its verdict and, of all its comparisons, the one that decided."""

    claim: str
    verdict: str  # holds, does not hold, or not decided
    measure: str  # the difference that was measured, with the other method's name
    estimate: float | None = None
    interval: tuple[float, float] | None = None  # 95%, of the mean paired difference over seeds
    against: str | None = None
    differences: dict[str, Any] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)  # methods of the claim that did not run


class Measured:
    """Metrics of every algorithm in metrics.csv, with shape (iterations, seeds)."""

    def __init__(
        self, rows: Iterable[Mapping[str, Any]], metrics: tuple[str, ...] = ("loss", "gap")
    ) -> None:
        self._metrics = metrics
        cells: dict[str, dict[int, list[tuple[float, ...]]]] = {}
        for row in rows:
            seeds = cells.setdefault(row["algorithm"], {}).setdefault(int(row["iteration"]), [])
            seeds.append(tuple(float(row[metric]) for metric in metrics))
        self.labels = list(cells)
        self._iterations = {label: np.array(sorted(by_t)) for label, by_t in cells.items()}
        self._values = {
            label: np.array([by_t[t] for t in sorted(by_t)]) for label, by_t in cells.items()
        }

    def tail(self, label: str, metric: str) -> Array:
        """Return, per seed, the mean over the last fifth of the logged iterations."""
        values = self._column(label, metric)
        return values[-math.ceil(len(values) / 5) :].mean(axis=0)

    def early(self, label: str, metric: str, share: float, log: bool = False) -> Array:
        """Return, per seed, the mean (of the log10) over the first `share` of the iterations."""
        iterations = self._iterations[label]
        chosen = (iterations > 0) & (iterations <= max(share * iterations[-1], iterations[1]))
        values = self._column(label, metric)[chosen]
        return (np.log10(values) if log else values).mean(axis=0)

    def _column(self, label: str, metric: str) -> Array:
        column: Array = self._values[label][:, :, self._metrics.index(metric)]
        return column


def paired(ours: Array, theirs: Array) -> tuple[float, tuple[float, float] | None]:
    """Return the mean difference over seeds and its 95% interval (None for a single seed)."""
    from scipy.special import stdtrit

    difference = ours - theirs
    mean, count = float(difference.mean()), len(difference)
    if count < 2:
        return mean, None
    half = float(stdtrit(count - 1, 0.975)) * float(difference.std(ddof=1)) / math.sqrt(count)
    return mean, (mean - half, mean + half)


def judge(
    claim: str,
    measure: str,
    smaller: Callable[[str], tuple[Array, Array]],
    others: Iterable[str],
    missing: Iterable[str] = (),
) -> Verdict:
    """Judge the claim that the first of `smaller(other)` is below the second, for all others.

    The claim holds if all intervals lie below zero and no method is missing; it does not hold if
    one interval lies above zero. Its estimate is that of the comparison that speaks most strongly
    against it. `measure` names the difference, with {other} in the place of the other method.
    """
    missing = list(missing)
    results = {other: paired(*smaller(other)) for other in others}
    if not results:
        measure = measure.format(other="the other method")
        return Verdict(claim, "not decided", measure, missing=missing)
    spans = {other: span for other, (_, span) in results.items() if span is not None}
    above = [other for other, span in spans.items() if span[0] > 0]
    if above:
        verdict, against = "does not hold", max(above, key=lambda other: spans[other][0])
    elif len(spans) < len(results):
        verdict, against = "not decided", max(results, key=lambda other: results[other][0])
    else:
        against = max(spans, key=lambda other: spans[other][1])
        verdict = "holds" if spans[against][1] < 0 and not missing else "not decided"
    measure = measure.format(other=display_name(against))
    estimate, interval = results[against]
    differences = {
        other: {"estimate": mean, "interval": None if span is None else list(span)}
        for other, (mean, span) in results.items()
    }
    return Verdict(claim, verdict, measure, estimate, interval, against, differences, missing)


def judge_all(rows: Iterable[Mapping[str, Any]], regression: bool) -> list[dict[str, Any]]:
    """Judge the claims of the paper's numerical examples, for Huber regression or a dataset."""
    measured = Measured(rows)
    ran = measured.labels if OURS in measured.labels else []

    def verdict(
        claim: str,
        measure: str,
        names: Iterable[str],
        smaller: Callable[[str], tuple[Array, Array]],
    ) -> Verdict:
        missing = [name for name in names if name not in ran]
        return judge(claim, measure, smaller, [name for name in names if name in ran], missing)

    def ends_below(claim: str, metric: str, names: Iterable[str]) -> Verdict:
        return verdict(
            claim,
            f"mean {metric} over the last fifth, Algorithm 1 minus {{other}}",
            names,
            lambda other: (measured.tail(OURS, metric), measured.tail(other, metric)),
        )

    rivals = REGRESSION if regression else CLASSIFICATION
    loss = "loss" if regression else "training loss"
    verdicts = [
        ends_below(f"Algorithm 1 ends with the smallest {loss}", "loss", rivals),
        ends_below("Algorithm 1 ends with the smallest optimality gap", "gap", rivals),
    ]
    if regression:
        verdicts += [
            verdict(
                "DSGD and Momentum DSGD are faster at the beginning",
                "mean loss over the first twentieth, {other} minus Algorithm 1",
                DESCENT,
                lambda other: (
                    measured.early(other, "loss", BEGINNING),
                    measured.early(OURS, "loss", BEGINNING),
                ),
            ),
            ends_below("DSGD and Momentum DSGD end with a larger loss", "loss", DESCENT),
            ends_below("DSGD and Momentum DSGD end with a larger optimality gap", "gap", DESCENT),
            verdict(
                "the two adaptive methods with diminishing steps are slower",
                "mean log10 gap over the first half, Algorithm 1 minus {other}",
                ADAPTIVE,
                lambda other: (
                    measured.early(OURS, "gap", HALF, log=True),
                    measured.early(other, "gap", HALF, log=True),
                ),
            ),
        ]
    return [asdict(verdict) for verdict in verdicts]


def judge_network(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Judge on a network what the paper claims on its datasets, and the accuracy on test rows."""
    rows = list(rows)
    measured = Measured(rows, (TESTED,))
    ran = measured.labels if OURS in measured.labels else []
    accuracy = judge(
        "Algorithm 1 ends with the highest accuracy on test rows",
        "mean accuracy on test rows over the last fifth, {other} minus Algorithm 1",
        lambda other: (measured.tail(other, TESTED), measured.tail(OURS, TESTED)),
        [name for name in CLASSIFICATION if name in ran],
        [name for name in CLASSIFICATION if name not in ran],
    )
    return [*judge_all(rows, regression=False), asdict(accuracy)]


def judge_variance_reduction(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Judge what variance reduction does to Algorithm 1, at an equal budget of gradients."""
    measured = Measured(rows)

    def verdict(claim: str, measure: str, ours: str, theirs: Iterable[str], factor: float) -> Any:
        wanted = [ours, *theirs]
        missing = [name for name in wanted if name not in measured.labels]
        others = [] if ours in missing else [name for name in wanted[1:] if name not in missing]

        def smaller(other: str) -> tuple[Array, Array]:
            gaps = measured.tail(ours, "gap") * factor, measured.tail(other, "gap")
            return np.log10(gaps[0]), np.log10(gaps[1])

        return asdict(judge(claim, measure, smaller, others, missing))

    name = display_name(REDUCED)
    measure = f"log10 of the mean gap over the last fifth, {name} {{}}minus {{{{other}}}}"
    return [
        verdict(
            "the floor of Algorithm 1 is removed: its gap falls to less than a hundredth",
            measure.format("times 100 "), REDUCED, (OURS,), 100.0,
        ),
        verdict(
            "with variance reduction, Algorithm 1 ends with the smallest optimality gap",
            measure.format(""), REDUCED, RECURSIVE, 1.0,
        ),
    ]  # fmt: skip
