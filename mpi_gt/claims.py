"""What the paper claims of its experiments, measured over seeds."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

OURS = "gt-adaptive"
ADAPTIVE = ("d-amsgrad", "d-adabound")
DESCENT = ("dsgd", "dsgd-momentum")
BEGINNING = 0.05  # the first twentieth of the iterations
HALF = 0.5


@dataclass(frozen=True)
class Verdict:
    """A claim with what was measured: the difference that speaks most against it."""

    claim: str
    verdict: str  # holds, does not hold, or not decided
    measure: str
    estimate: float | None = None
    interval: tuple[float, float] | None = None  # 95%, of the mean paired difference over seeds
    against: str | None = None
    differences: dict[str, Any] = field(default_factory=dict)


class Measured:
    """The rows of metrics.csv, by algorithm, as (iterations, seeds)."""

    def __init__(self, rows: Iterable[Mapping[str, Any]]) -> None:
        cells: dict[str, dict[int, list[tuple[float, float]]]] = {}
        for row in rows:
            of = cells.setdefault(row["algorithm"], {})
            of.setdefault(int(row["iteration"]), []).append((float(row["loss"]), float(row["gap"])))
        self.labels = list(cells)
        self._iterations = {label: np.array(sorted(of)) for label, of in cells.items()}
        self._values = {label: np.array([of[t] for t in sorted(of)]) for label, of in cells.items()}

    def tail(self, label: str, metric: str) -> Array:
        """For each seed, the mean over the last fifth of the logged iterations."""
        values = self._column(label, metric)
        return values[-math.ceil(len(values) / 5) :].mean(axis=0)

    def early(self, label: str, metric: str, share: float) -> Array:
        """For each seed, the mean over the first `share` of the iterations, the start aside."""
        iterations = self._iterations[label]
        chosen = (iterations > 0) & (iterations <= max(share * iterations[-1], iterations[1]))
        return self._column(label, metric)[chosen].mean(axis=0)

    def _column(self, label: str, metric: str) -> Array:
        column: Array = self._values[label][:, :, ("loss", "gap").index(metric)]
        return column


def paired(ours: Array, theirs: Array) -> tuple[float, tuple[float, float] | None]:
    """The mean difference over seeds and its 95% interval (none for a single seed)."""
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
) -> Verdict:
    """Whether the first of `smaller(other)` is below the second, for every other method."""
    found = {other: paired(*smaller(other)) for other in others}
    if not found:
        return Verdict(claim, "not decided", measure)
    against = max(found, key=lambda other: found[other][0])
    estimate, interval = found[against]
    spans = [span for _, span in found.values()]
    if all(span is not None and span[1] < 0 for span in spans):
        verdict = "holds"
    elif any(span is not None and span[0] > 0 for span in spans):
        verdict = "does not hold"
    else:
        verdict = "not decided"
    differences = {
        other: {"estimate": mean, "interval": None if span is None else list(span)}
        for other, (mean, span) in found.items()
    }
    return Verdict(claim, verdict, measure, estimate, interval, against, differences)


def judge_all(rows: Iterable[Mapping[str, Any]], regression: bool) -> list[dict[str, Any]]:
    """The claims of the paper's section on numerical examples, for Huber or for a dataset.

    GTAdam is in none of the paper's comparisons, and so in none of its claims.
    """
    measured = Measured(rows)
    others = [label for label in measured.labels if label not in (OURS, "gtadam")]
    if OURS not in measured.labels:
        return []

    def present(names: Iterable[str]) -> list[str]:
        return [name for name in names if name in measured.labels]

    def best(metric: str) -> Verdict:
        name = {"loss": "loss" if regression else "training loss", "gap": "optimality gap"}[metric]
        return judge(
            f"Algorithm 1 ends with the smallest {name}",
            f"mean {metric} over the last fifth: Algorithm 1 less the other",
            lambda other: (measured.tail(OURS, metric), measured.tail(other, metric)),
            others,
        )

    verdicts = [best("loss"), best("gap")]
    if regression:
        verdicts += [
            judge(
                "DSGD and Momentum DSGD are faster at the beginning",
                "mean loss over the first twentieth: the other less Algorithm 1",
                lambda other: (
                    measured.early(other, "loss", BEGINNING),
                    measured.early(OURS, "loss", BEGINNING),
                ),
                present(DESCENT),
            ),
            *(
                judge(
                    f"DSGD and Momentum DSGD end with a larger {name}",
                    f"mean {metric} over the last fifth: Algorithm 1 less the other",
                    lambda other, metric=metric: (  # type: ignore[misc]
                        measured.tail(OURS, metric),
                        measured.tail(other, metric),
                    ),
                    present(DESCENT),
                )
                for metric, name in (("loss", "loss"), ("gap", "optimality gap"))
            ),
            judge(
                "the two adaptive methods with diminishing steps are slower",
                "mean loss over the first half: Algorithm 1 less the other",
                lambda other: (
                    measured.early(OURS, "loss", HALF),
                    measured.early(other, "loss", HALF),
                ),
                present(ADAPTIVE),
            ),
        ]
    return [asdict(verdict) for verdict in verdicts]
