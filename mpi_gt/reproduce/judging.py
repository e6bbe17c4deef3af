"""Judgement of a claim: paired differences over seeds, their intervals, and the verdict."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..algorithms import display_name

Array = NDArray[Any]
Span = tuple[float, float]

RESAMPLES = 10_000
FEWEST = 5  # seeds for a bootstrap: of fewer there are too few different samples
APART = 0.1  # of an interval's width, from which on a second interval is shown beside it


@dataclass(frozen=True)
class Verdict:
    """A claim with its verdict and, of all its comparisons, the one that decided."""

    claim: str
    verdict: str  # holds, does not hold, or not decided
    measure: str  # the difference that was measured, with the names of both methods
    estimate: float | None = None
    interval: Span | None = None  # 95%, of the mean paired difference over seeds
    bootstrap: Span | None = None  # the same by resampling the seeds
    against: str | None = None
    why: str = ""  # this comparison decides
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


def paired(ours: Array, theirs: Array) -> tuple[float, Span | None]:
    """Return the mean difference over seeds and its 95% interval (None for a single seed)."""
    from scipy.special import stdtrit

    difference = ours - theirs
    mean, count = float(difference.mean()), len(difference)
    if count < 2:
        return mean, None
    half = float(stdtrit(count - 1, 0.975)) * float(difference.std(ddof=1)) / math.sqrt(count)
    return mean, (mean - half, mean + half)


def bootstrap(difference: Array) -> Span | None:
    """Return the 95% interval of the mean by resampling seeds; None for too few of them.

    It does not assume that the differences are normal. The resamples are the same in every call.
    """
    count = len(difference)
    if count < FEWEST:
        return None
    chosen = np.random.default_rng(0).integers(count, size=(RESAMPLES, count))
    low, high = np.quantile(difference[chosen].mean(axis=1), (0.025, 0.975))
    return float(low), float(high)


def differ(interval: Span, other: Span) -> bool:
    """Return whether the ends of two intervals are apart by more than a tenth of the width."""
    width = interval[1] - interval[0]
    return any(abs(a - b) > APART * width for a, b in zip(interval, other, strict=True))


def judge(
    claim: str,
    measure: str,
    values: Callable[[str], tuple[Array, Array]],
    others: Iterable[str],
    missing: Iterable[str] = (),
    above: bool = False,
    name: Callable[[str], str] = display_name,
    steps: Callable[[str], str] = lambda other: "",
) -> Verdict:
    """Judge the claim that the first of `values(other)` is below the second, for all others.

    The claim holds if all intervals of the difference, first minus second, lie below zero and no
    method is missing; it does not hold if one interval lies above zero. With `above` it is the
    other way round. Its estimate is that of the comparison that speaks most strongly against it.
    `measure` names the difference, with {other} in the place of the other method; `steps(other)`,
    the stepsizes of both, comes after it.
    """
    missing = list(missing)
    pairs = {other: values(other) for other in others}
    if not pairs:
        measure = measure.format(other="the other method")
        return Verdict(claim, "not decided", measure, missing=missing)
    results = {other: paired(*pair) for other, pair in pairs.items()}
    verdict, against, why = _decide(results, missing, above)
    estimate, interval = results[against]
    ours, theirs = pairs[against]
    differences = {
        other: {"estimate": mean, "interval": None if span is None else list(span)}
        for other, (mean, span) in results.items()
    }
    return Verdict(
        claim,
        verdict,
        measure.format(other=name(against)) + steps(against),
        estimate,
        interval,
        bootstrap(ours - theirs),
        against,
        why,
        differences,
        missing,
    )


def _decide(
    results: Mapping[str, tuple[float, Span | None]], missing: list[str], above: bool
) -> tuple[str, str, str]:
    """Return the verdict, the comparison that decides it, and why that one does."""
    # the ends of each interval, counted to the wrong side of zero
    wrong = {
        other: (-span[1], -span[0]) if above else span
        for other, (_, span) in results.items()
        if span is not None
    }
    side = "below" if above else "above"
    odd = [other for other, span in wrong.items() if not all(map(math.isfinite, span))]
    if beyond := [other for other, (near, _) in wrong.items() if near > 0 and other not in odd]:
        against = max(beyond, key=lambda other: wrong[other][0])
        return "does not hold", against, f"its interval lies farthest {side} zero"
    if odd:
        return "not decided", odd[0], "a difference is not a finite number"
    if len(wrong) < len(results):
        sign = -1 if above else 1
        against = max(results, key=lambda other: sign * results[other][0])
        return "not decided", against, "one seed gives no interval"
    against = max(wrong, key=lambda other: wrong[other][1])
    if wrong[against][1] >= 0:
        why = f"its interval contains zero and reaches farthest {side} it"
        return "not decided", against, why
    if missing:
        return "not decided", against, f"not all methods have a result: {', '.join(missing)}"
    return "holds", against, "its interval comes closest to zero"
