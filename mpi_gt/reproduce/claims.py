"""The claims of the paper about its experiments, and about variance reduction."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from ..algorithms import display_name
from .judging import Array, Measured, Verdict, judge

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


class Field:
    """The methods of a comparison: the label of each for a metric, and its stepsize.

    Where stepsizes are tuned, a method has the one that is best for the metric.
    """

    def __init__(
        self,
        labels: Mapping[str, Mapping[str, str]] | None = None,
        stepsizes: Mapping[str, str] | None = None,
    ) -> None:
        self._labels = labels  # of each method by metric; None: a method's name is its label
        self._stepsizes = stepsizes or {}

    def label(self, name: str, metric: str) -> str:
        """Return the label of a method in the comparison of a metric."""
        return name if self._labels is None else self._labels[metric].get(name, name)

    def steps(self, *labels: str) -> str:
        """Return the stepsizes of these labels for display; "" if they are not known."""
        known = [self._stepsizes[label] for label in labels if label in self._stepsizes]
        return f" (lr {' and '.join(known)})" if len(known) == len(labels) else ""


class Contest:
    """Comparisons of Algorithm 1 with others: always the difference Algorithm 1 minus another."""

    def __init__(
        self,
        rows: Iterable[Mapping[str, Any]],
        field: Field,
        metrics: tuple[str, ...] = ("loss", "gap"),
    ) -> None:
        self._measured = Measured(rows, metrics)
        self._field = field

    def judge(
        self,
        claim: str,
        measure: str,
        metric: str,
        names: Iterable[str],
        value: Callable[[Measured, str], Array],
        above: bool = False,
    ) -> Verdict:
        """Judge whether Algorithm 1 is below (or above) the named methods in value(label)."""
        labels = {name: self._field.label(name, metric) for name in (OURS, *names)}
        ran = [name for name, label in labels.items() if label in self._measured.labels]
        others = [name for name in names if name in ran] if OURS in ran else []

        def values(other: str) -> tuple[Array, Array]:
            return value(self._measured, labels[OURS]), value(self._measured, labels[other])

        return judge(
            claim,
            f"{measure}, {display_name(OURS)} minus {{other}}",
            values,
            others,
            [name for name in labels if name not in ran],
            above,
            steps=lambda other: self._field.steps(labels[OURS], labels[other]),
        )

    def at_the_end(
        self, claim: str, metric: str, names: Iterable[str], what: str = "", above: bool = False
    ) -> Verdict:
        """Judge the mean over the last fifth."""
        return self.judge(
            claim,
            f"mean {what or metric} over the last fifth",
            metric,
            names,
            lambda measured, label: measured.tail(label, metric),
            above,
        )


def judge_all(
    rows: Iterable[Mapping[str, Any]], regression: bool, field: Field | None = None
) -> list[dict[str, Any]]:
    """Judge the claims of the paper's numerical examples, for Huber regression or a dataset."""
    contest = Contest(rows, field or Field())
    rivals = REGRESSION if regression else CLASSIFICATION
    loss = "loss" if regression else "training loss"
    at_the_end = contest.at_the_end
    verdicts = [
        at_the_end(f"Algorithm 1 ends with the smallest {loss}", "loss", rivals),
        at_the_end("Algorithm 1 ends with the smallest optimality gap", "gap", rivals),
    ]
    if regression:
        verdicts += [
            contest.judge(
                "DSGD and Momentum DSGD are faster at the beginning",
                "mean loss over the first twentieth",
                "loss",
                DESCENT,
                lambda measured, label: measured.early(label, "loss", BEGINNING),
                above=True,
            ),
            at_the_end("DSGD and Momentum DSGD end with a larger loss", "loss", DESCENT),
            at_the_end("DSGD and Momentum DSGD end with a larger optimality gap", "gap", DESCENT),
            contest.judge(
                "the two adaptive methods with diminishing steps are slower",
                "mean log10 gap over the first half",
                "gap",
                ADAPTIVE,
                lambda measured, label: measured.early(label, "gap", HALF, log=True),
            ),
        ]
    return [asdict(verdict) for verdict in verdicts]


def judge_network(
    rows: Iterable[Mapping[str, Any]], field: Field | None = None
) -> list[dict[str, Any]]:
    """Judge on a network what the paper claims on its datasets, and the accuracy on test rows."""
    rows, field = list(rows), field or Field()
    accuracy = Contest(rows, field, (TESTED,)).at_the_end(
        "Algorithm 1 ends with the highest accuracy on test rows",
        TESTED,
        CLASSIFICATION,
        "accuracy on test rows",
        above=True,
    )
    return [*judge_all(rows, regression=False, field=field), asdict(accuracy)]


def judge_variance_reduction(
    rows: Iterable[Mapping[str, Any]], field: Field | None = None
) -> list[dict[str, Any]]:
    """Judge what variance reduction does to Algorithm 1, at an equal budget of gradients."""
    measured, steps = Measured(rows), (field or Field()).steps

    def verdict(claim: str, measure: str, ours: str, theirs: Iterable[str], factor: float) -> Any:
        wanted = [ours, *theirs]
        missing = [name for name in wanted if name not in measured.labels]
        others = [] if ours in missing else [name for name in wanted[1:] if name not in missing]

        def smaller(other: str) -> tuple[Array, Array]:
            gaps = measured.tail(ours, "gap") * factor, measured.tail(other, "gap")
            return np.log10(gaps[0]), np.log10(gaps[1])

        return asdict(
            judge(claim, measure, smaller, others, missing, steps=lambda other: steps(ours, other))
        )

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
