"""The constants L, G, sigma² and f* of a problem over all nodes, for the theory."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..algorithms.gt_adaptive import GTAdaptive
from ..config import Entry, RunConfig
from ..errors import UserError
from ..user_classes import call_user_code
from . import Setting

Array = NDArray[Any]

CONSTANTS = ("L", "G", "sigma2", "f_star")


def audited_algorithm(config: RunConfig) -> GTAdaptive:
    """Return the algorithm of the run; raise UserError unless the theory covers it."""
    entry = config.entries()[0]
    algorithm = entry.algorithm
    if type(algorithm) is not GTAdaptive:
        raise UserError(
            f"the theory covers Algorithm 1 (gt-adaptive) only, not {entry.label}: "
            f"{_reason_not_covered(entry)}"
        )
    if algorithm.schedule != "constant":
        raise UserError("the theory covers a constant stepsize only: use schedule=constant")
    return algorithm


def _reason_not_covered(entry: Entry) -> str:
    """Return what the lemmas assume and this method lacks."""
    if entry.custom:
        return "nothing is known of a class of your own"
    if entry.algorithm.compressor is not None:
        return "its nodes mix what they know of each other by compressed messages, not x and s"
    if entry.algorithm.kinds != ("A",):
        return "it mixes with pull and push weights, where the lemmas assume one symmetric A"
    if isinstance(entry.algorithm, GTAdaptive):
        return (
            "its estimator u carries the errors of earlier draws, where the lemmas assume "
            "unbiased gradients with independent noise"
        )
    if not entry.algorithm.tracks:
        return "it has no tracker s of the mean gradient, on which the lemmas rest"
    return "its steps are not divided by a clipped sqrt(v), which the lemmas bound"


def constants_of(config: RunConfig, problem: Any) -> Array:
    """Return one node's L, G, sigma² and least f_i as rows of (value, 1 if exact): (4, 2).

    A value among the options replaces the problem's own. Raise UserError if neither the options
    nor the problem have a value.
    """
    audited_algorithm(config)
    name = config.parse_problem()[0]
    known = np.full((4, 2), np.nan)
    if hasattr(problem, "constants"):
        known = call_user_code(
            f"{name}.constants", lambda: np.array(problem.constants(), dtype=float)
        )
        if known.shape != (4, 2) or not np.isfinite(known).all() or (known[:3, 0] < 0).any():
            raise UserError(f"{name}.constants must return finite Constants, not {known.tolist()}")
    for row, constant in enumerate(CONSTANTS):
        given = getattr(config, constant)
        if given is not None:
            known[row] = given, False
    unknown = np.flatnonzero(np.isnan(known[:, 0]))
    missing = [f"--{CONSTANTS[row].replace('_', '-')}" for row in unknown]
    if missing:
        raise UserError(
            f"problem {name} has no method constants(): give {', '.join(missing)}, "
            "or add the method"
        )
    return known


@dataclass(frozen=True)
class ProblemConstants:
    """The constants of the whole problem, and the origin of each."""

    values: dict[str, float]
    kinds: dict[str, str]  # exact, bound, or given by the user

    def table(self) -> dict[str, dict[str, Any]]:
        """Return value and kind by name, for JSON."""
        return {name: {"value": self.values[name], "kind": self.kinds[name]} for name in CONSTANTS}


def combine(config: RunConfig, nodes: Array) -> ProblemConstants:
    """Return the largest L, G and sigma² over all nodes, and the mean of the least f_i."""
    values = [*nodes[:, :3, 0].max(axis=0).tolist(), float(nodes[:, 3, 0].mean())]
    exact = (nodes[:, :, 1] == 1).all(axis=0)
    kinds = ["exact" if yes else "bound" for yes in exact]
    given = [getattr(config, name) is not None for name in CONSTANTS]
    return ProblemConstants(
        dict(zip(CONSTANTS, values, strict=True)),
        {
            name: "given" if by_user else kind
            for name, by_user, kind in zip(CONSTANTS, given, kinds, strict=True)
        },
    )


def rho_of(graph: Mapping[str, Any]) -> float:
    """Return rho_A from the facts of a graph; raise UserError unless it has one symmetric A."""
    if graph.get("directed") or graph.get("layers"):
        kind = "changes" if graph.get("layers") else "is directed"
        raise UserError(f"the theory is for one symmetric mixing matrix, and this graph {kind}")
    return float(graph["rho_A"])


def setting_of(algorithm: GTAdaptive, known: ProblemConstants, n: int, rho: float) -> Setting:
    """Return the setting of the theory for an algorithm, a problem and a graph."""
    return Setting(
        n=n,
        rho=rho,
        L=known.values["L"],
        G=known.values["G"],
        sigma2=known.values["sigma2"],
        alpha=algorithm.lr,
        beta1=algorithm.beta1,
        beta2=algorithm.beta2,
        vmin=algorithm.vmin,
        vmax=algorithm.vmax,
    )
