"""`mpi-gt theory`: evaluate the convergence theory for a setting, before anything is run."""

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...errors import UserError
from ...files import json_text
from . import ABOUT_FILES, ABOUT_SPECS, SETTING, Command

if TYPE_CHECKING:
    from ...config import RunConfig
    from ...engine.build import Experiment
    from ...theory import Form, Setting, Start
    from ..parser import Parser

HELP = """\
Evaluate the convergence theory for a setting: constants, admissible stepsizes and bounds, as the
paper prints them and corrected. The output is advice: no setting is refused.

examples:
  mpi-gt theory -n 16 --problem huber --graph er:p=0.7 --algorithm gt-adaptive:lr=0.001
  mpi-gt theory --algorithm gt-adaptive:vmin=1,vmax=1 --suggest
  mpi-gt theory --problem my_module:MyProblem --L 2 --G 5 --sigma2 0.1 --f-star 0 --json
"""
NODES = 16  # the paper's


def _add_arguments(parser: "Parser") -> None:
    from ..parser import add_groups

    parser.add_argument("file", nargs="?", metavar="FILE.toml", help="file with options; flags win")
    parser.add_argument(
        "--suggest", action="store_true", help="find a beta1 and an alpha that meet all conditions"
    )
    parser.add_argument("--json", dest="as_json", action="store_true", help="print JSON")
    add_groups(
        parser,
        {
            "problem": ("--problem", "--data-dir", "--x1", "--seeds", "--seed", "--dtype"),
            "method": ("--algorithm", "--iterations"),
            "graph": ("-n", "--graph", "--weights"),
            "constants of the theory": ("--L", "--G", "--sigma2", "--f-star"),
        },
        {"-n": str(NODES)},
    )


def theory(suggest: bool = False, as_json: bool = False, **options: Any) -> int:
    """Print what the theory says, as tables or as JSON; return the exit code."""
    from ...config import RunConfig
    from ...display.console import console
    from ...display.theory import show_theory
    from ...engine.build import build
    from ...theory.constants import audited_algorithm
    from ..configure import read_with_file

    chosen = read_with_file(options)
    if chosen.get("algorithms") is not None or chosen.get("lr") is not None:
        raise UserError("theory takes one algorithm")
    alone = {"stacked": True, "audit": True, "out": None, "quiet": True}
    config = RunConfig.of({"n": NODES, **chosen, **alone})
    audited_algorithm(config)  # raises for all but Algorithm 1 at a constant stepsize
    result = evaluate(build(config, None), suggest)
    if as_json:
        print(json_text("theory", result))
    else:
        show_theory(result, console(sys.stdout))
    return 0


def evaluate(experiment: "Experiment", with_suggestion: bool) -> dict[str, Any]:
    """Return constants, conditions and bounds in both forms, and what differs between them."""
    from ...theory import DIFFERENCES, FORMS
    from ...theory.constants import audited_algorithm, combine, rho_of, setting_of

    config, graph = experiment.config, experiment.facts["graph"]
    assert experiment.constants is not None
    known = combine(config, experiment.constants)
    setting = setting_of(audited_algorithm(config), known, graph["nodes"], rho_of(graph))
    start = _start(experiment, known.values["f_star"])
    result: dict[str, Any] = {
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
        result[form.name] = _evaluate_form(form(setting), config.iterations, start)
        if with_suggestion:
            result[form.name]["suggestion"] = _suggest(form, setting, config, start)
    return {**result, "differences": list(DIFFERENCES)}


def _start(experiment: "Experiment", f_star: float) -> "Start":
    """Return the state at t = 1 of a run with these seeds, as means over the seeds."""
    import numpy as np

    from ...engine.contracts import full_gradient
    from ...theory import Start
    from ...theory.constants import audited_algorithm

    node, problem = experiment.node, experiment.problem
    algorithm = audited_algorithm(experiment.config)
    grad = node.grad(problem.gradient, full_gradient(problem), experiment.costs)
    state = algorithm.init(experiment.x1, grad)
    loss = problem.evaluate(node.mean(state.x))[0]

    def apart(z: Any) -> float:
        """Return sum_i ||z_i - zbar||²."""
        return float(np.square(z - node.mean(z)).sum(axis=(0, -1)).mean())

    return Start(float(loss.mean()) - f_star, apart(state.x), apart(state.v), apart(state.s))


def _evaluate_form(form: "Form", iterations: int, start: "Start") -> dict[str, Any]:
    from ...theory import admissible_alphas
    from ...theory.verdicts import finite

    admissible = admissible_alphas(form)
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
            for one in admissible.conditions
        ],
        "interval": None if admissible.interval is None else list(admissible.interval),
        "binding": admissible.binding.name,
        "violated": [one.name for one in admissible.broken],
        "theorem": finite(float(form.theorem(float(iterations), start))),
        "corollary": finite(float(form.corollary(float(iterations), start))),
    }


def _suggest(
    kind: "type[Form]", setting: "Setting", config: "RunConfig", start: "Start"
) -> dict[str, Any] | None:
    from ...theory import suggest

    found = suggest(kind, setting)
    if found is None:
        return None
    beta1, alpha = found
    form = kind(replace(setting, beta1=beta1, alpha=alpha))
    return {"beta1": beta1, "alpha": alpha, **_evaluate_form(form, config.iterations, start)}


THEORY = Command(
    name="theory",
    group=SETTING,
    summary="evaluate the convergence theory: stepsizes and bounds",
    help=HELP,
    usage="mpi-gt theory [FILE.toml] [options]",
    epilog="\n".join((ABOUT_SPECS, ABOUT_FILES)),
    add_arguments=_add_arguments,
    alone=theory,
)
