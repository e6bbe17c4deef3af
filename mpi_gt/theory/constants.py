"""L, G, sigma² and f* of a problem over all its nodes: what the theory is asked with."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..algorithms.gt_adaptive import GTAdaptive
from ..config import RunConfig
from ..errors import UserError
from ..user_classes import call_user_code
from . import Setting

Array = NDArray[Any]

CONSTANTS = ("L", "G", "sigma2", "f_star")


def audited_algorithm(config: RunConfig) -> GTAdaptive:
    """The algorithm of the run: the theory is that of one method, at a constant stepsize."""
    algorithm = config.entries()[0].algorithm
    if type(algorithm) is not GTAdaptive:
        raise UserError("the theory is that of gt-adaptive: there is none of other algorithms")
    if algorithm.schedule != "constant":
        raise UserError("the theory is that of a constant stepsize: schedule=constant")
    return algorithm


def constants_of(config: RunConfig, problem: Any) -> Array:
    """One node's L, G, sigma² and least f_i, each with whether it is exact: (4, 2).

    A value that the user gives takes the place of the problem's own; one that nobody knows
    is an error.
    """
    audited_algorithm(config)
    name = config.parse_problem()[0]
    known = np.full((4, 2), np.nan)
    if hasattr(problem, "constants"):
        told = call_user_code(
            f"{name}.constants", lambda: np.array(problem.constants(), dtype=float)
        )
        if told.shape != (4, 2) or not np.isfinite(told).all() or (told[:3, 0] < 0).any():
            raise UserError(f"{name}.constants must return finite Constants, not {told.tolist()}")
        known = told
    for row, constant in enumerate(CONSTANTS):
        given = getattr(config, constant)
        if given is not None:
            known[row] = given, False
    unknown = np.flatnonzero(np.isnan(known[:, 0]))
    missing = [f"--{CONSTANTS[row].replace('_', '-')}" for row in unknown]
    if missing:
        raise UserError(
            f"problem {name} does not say its constants: give {', '.join(missing)}, "
            "or let its class have constants()"
        )
    return known


@dataclass(frozen=True)
class ProblemConstants:
    """The constants of the whole problem, and where each comes from."""

    values: dict[str, float]
    kinds: dict[str, str]  # exact, bound or given

    def table(self) -> dict[str, dict[str, Any]]:
        return {name: {"value": self.values[name], "kind": self.kinds[name]} for name in CONSTANTS}


def combine(config: RunConfig, nodes: Array) -> ProblemConstants:
    """The largest L, G and sigma² of all nodes, and the mean of the least f_i."""
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


def setting_of(algorithm: GTAdaptive, known: ProblemConstants, n: int, rho: float) -> Setting:
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
