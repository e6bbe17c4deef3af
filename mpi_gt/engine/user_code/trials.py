"""Trying out a run's algorithms before it begins, and what its nodes must agree on."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from ...algorithms import Algorithm
from ...config import Entry, RunConfig
from ...problems import Problem
from ...user_classes import is_custom
from ..contracts import require_exact_gradient
from ..place import MethodPlace
from ..start import shared_start
from .checks import Agreement, Trial, Tried, check_algorithm

Array = NDArray[Any]


def try_entries(
    config: RunConfig, problem: Problem, x1: Array, place: MethodPlace
) -> tuple[list[Entry], dict[str, Trial]]:
    """Return the algorithms, after trying out the classes that come from the user."""
    entries = [fitted(entry, x1) for entry in config.entries()]
    require_exact_gradient(entries, config.parse_problem()[0], problem)
    trials = {
        entry.label: check_algorithm(entry.label, entry.algorithm, problem, x1, place)
        for entry in entries
        if entry.custom
    }
    return entries, trials


def fitted(entry: Entry, x1: Array) -> Entry:
    """Return the entry with its algorithm fitted to vectors like x1, and its compressor tried."""
    algorithm = entry.algorithm
    if isinstance(algorithm, Algorithm):
        return replace(entry, algorithm=algorithm.fitted(x1, entry.label))
    return entry


def agreement_of(
    config: RunConfig, problem: Any, x1: Array, tried: Tried, trials: dict[str, Trial]
) -> Agreement:
    """Return what must be the same on all nodes, as it is on this one."""
    mixes = {label: trial.counts for label, trial in trials.items()}
    start = shared_start(config, problem, x1)
    return Agreement(int(problem.dim), mixes, tried.metrics, tried.least is not None, start)


def own_class_warnings(config: RunConfig, problem: Any, trials: Mapping[str, Trial]) -> list[str]:
    """Return warnings about code of the user's: no mixing, and bits that are up to it.

    `trials` holds what trying out has shown, of each algorithm that is one.
    """
    warnings = [] if is_custom(config.problem) else list(getattr(problem, "warnings", ()))
    warnings += [
        f"{name}.step never calls mix: its nodes work on their own, and do not approach each other"
        for name, trial in trials.items()
        if not trial.counts and (config.n or 1) > 1
    ]
    own = [config.parse_problem()[0]] if is_custom(config.problem) else []
    if config.reproducible and (own := [*own, *trials]):
        warnings.append(
            f"reproducible: whether {', '.join(own)} gives the same bits on every processor is up "
            "to its code: products of matrices, exp and log of numpy do not"
        )
    return warnings
