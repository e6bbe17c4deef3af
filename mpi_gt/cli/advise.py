"""The command `theory`: what the theory says of a setting, before anything is run."""

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ..config import RunConfig
from ..display.console import console
from ..display.theory import show_theory
from ..engine.build import Experiment, build
from ..errors import UserError
from ..theory import DIFFERENCES, FORMS, Form, Setting, Start, admissible_alphas, suggest
from ..theory.constants import audited_algorithm, combine, setting_of
from ..theory.verdicts import finite

NODES = 16  # the paper's


def advise(options: Mapping[str, Any], with_suggestion: bool, as_json: bool) -> int:
    """Print it, as tables or as JSON; the exit code."""
    if options.get("algorithms") is not None or options.get("lr") is not None:
        raise UserError("theory takes one algorithm")
    alone = {"stacked": True, "audit": True, "out": None, "quiet": True}
    n = options.get("n") or NODES
    config = RunConfig.of({**options, **alone, "n": n})
    audited_algorithm(config)
    told = _tell(build(config, None), with_suggestion)
    if as_json:
        print(json.dumps(told, indent=2, allow_nan=False))
    else:
        show_theory(told, console(sys.stdout))
    return 0


def _tell(experiment: Experiment, with_suggestion: bool) -> dict[str, Any]:
    config, graph = experiment.config, experiment.facts["graph"]
    assert experiment.constants is not None
    known = combine(config, experiment.constants)
    setting = setting_of(audited_algorithm(config), known, graph["nodes"], graph["rho_A"])
    start = _start(experiment, known.values["f_star"])
    told: dict[str, Any] = {
        "problem": config.problem,
        "algorithm": config.algorithm,
        "graph": {"spec": config.graph, "weights": config.weights, **graph},
        "iterations": config.iterations,
        "seeds": config.seeds,
        "constants": known.table(),
        "setting": vars(setting),
        "start": {**start._asdict(), "delta": start.delta},
    }
    for form in FORMS:
        told[form.name] = _tell_form(form(setting), config.iterations, start)
        if with_suggestion:
            told[form.name]["suggestion"] = _tell_suggestion(form, setting, config, start)
    return {**told, "differences": list(DIFFERENCES)}


def _start(experiment: Experiment, f_star: float) -> Start:
    """The state at t = 1, as a run with these seeds has it: mean over seeds."""
    node, problem = experiment.node, experiment.problem
    algorithm = audited_algorithm(experiment.config)
    state = algorithm.init(experiment.x1, partial(problem.gradient, 1))
    loss = problem.evaluate(node.mean(state.x))[0]

    def apart(z: Any) -> float:
        """sum_i ||z_i - zbar||²."""
        return float(np.square(z - node.mean(z)).sum(axis=(0, -1)).mean())

    return Start(float(loss.mean()) - f_star, apart(state.x), apart(state.v), apart(state.s))


def _tell_form(form: Form, iterations: int, start: Start) -> dict[str, Any]:
    verdict = admissible_alphas(form)
    return {
        "constants": {
            name.replace("p", "'"): finite(getattr(form, name)) for name in form.constants
        },
        "conditions": [
            {
                "name": one.name,
                "low": finite(one.low),
                "high": None if one.high is None else finite(one.high),
                "excess": finite(one.excess),
                "least_excess": finite(one.least),
                "met": one.met,
            }
            for one in verdict.conditions
        ],
        "interval": None if verdict.interval is None else list(verdict.interval),
        "binding": verdict.binding.name,
        "violated": [one.name for one in verdict.broken],
        "theorem": finite(float(form.theorem(float(iterations), start))),
        "corollary": finite(float(form.corollary(float(iterations), start))),
    }


def _tell_suggestion(
    kind: type[Form], setting: Setting, config: RunConfig, start: Start
) -> dict[str, Any] | None:
    found = suggest(kind, setting)
    if found is None:
        return None
    beta1, alpha = found
    form = kind(replace(setting, beta1=beta1, alpha=alpha))
    return {"beta1": beta1, "alpha": alpha, **_tell_form(form, config.iterations, start)}
