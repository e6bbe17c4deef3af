"""The function `mpi_gt.sweep`: a sweep from a script or a notebook."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import Stopped, UserError
from ..launchers.options import LaunchOptions, launch_options
from ..results.runs import Runs
from ..rundir.layout import release_reserved
from ..rundir.run_json import read_facts
from ..sweeps.axes import Over
from ..sweeps.outcome import runs_of
from ..sweeps.plan import Plan, is_empty
from ..sweeps.start import choose_directory, run_sweep
from ..user_classes import handing_over
from .objects import Inputs, Translation, is_pair

FILES = ("graph", "weights", "x1")  # options whose objects become files
OWN = ("out", "overwrite", "resume", "quiet")


def sweep(over: Over, options: Mapping[str, Any]) -> Runs:
    """Run a sweep and return its points; raise Stopped or RuntimeError where it has not ended.

    A point that fails is a warning: the others are worth having.
    """
    if isinstance(over, str) or not isinstance(over, Mapping | Sequence):
        raise UserError("over is a dictionary, as in {'lr': [0.01, 0.1], 'graph': 'ring,torus'}")
    if isinstance(over, Mapping):  # the values are read several times
        over = {
            name: list(each) if isinstance(each, Iterator) else each for name, each in over.items()
        }
    given = {name: value for name, value in options.items() if value is not None}
    own = {"quiet": True, **{name: given.pop(name) for name in OWN if name in given}}
    for_launcher = launch_options(given)
    if "algorithm" in given:
        if "algorithms" in given:
            raise UserError("algorithm and algorithms are both given: one of them is enough")
        given["algorithms"] = given.pop("algorithm")
    methods = given.get("algorithms", "")
    if is_pair(methods) or not isinstance(methods, str | list | tuple):
        given["algorithms"] = [methods]
    code, plan = _run(given, over, own, for_launcher)
    error = read_facts(plan.directory).get("error")
    if code == Stopped.exit_code:
        left = len(plan.pending())
        raise Stopped(f"{plan.directory}: {left} points are left; the same call continues")
    if code == UserError.exit_code:
        raise UserError(error or "the ranks could not start: see the messages on standard error")
    if code and not any(map(plan.is_done, range(len(plan.names)))):
        raise RuntimeError(f"{plan.directory}: no point has finished: {error}")
    if code:
        warnings.warn(f"{plan.directory}: {error}", stacklevel=3)
    return runs_of(plan)


def _run(
    given: Mapping[str, Any], over: Over, own: Mapping[str, Any], for_launcher: LaunchOptions
) -> tuple[int, Plan]:
    """Run the sweep with texts for the objects among its options."""
    checked = Translation({**given, "over": over}, Path("inputs"), travels=True)
    if not checked.files:
        with handing_over(checked.objects):
            texts = checked.options
            return run_sweep(texts, texts.pop("over"), own, for_launcher)
    directory, new = _directory(checked, own)
    inputs = None
    try:
        # a sweep that is in the directory goes on, with the same files
        inputs = Inputs({**given, "over": over, "out": directory, "resume": True}, travels=True)
        texts = {name: inputs.options[name] for name in given}
        chosen = {**own, "out": str(directory), "reserved": new}
        with handing_over(inputs.objects):
            return run_sweep(texts, inputs.options["over"], chosen, for_launcher)
    except UserError:
        if inputs is not None:
            inputs.undo()
        raise
    finally:
        if inputs is not None and not (directory / "run.json").exists():
            inputs.undo()
        if own.get("out") is None:
            release_reserved(directory)


def _directory(checked: Translation, own: Mapping[str, Any]) -> tuple[Path, bool]:
    """Return the directory of a sweep whose files are still to be written, and whether it is new.

    Without a name for it, it is made.
    """
    options = {name: value for name, value in checked.options.items() if name not in FILES}
    over = options.pop("over")
    if own.get("out") is None and isinstance(over, Mapping):
        # a grid without files, which are not there yet: it names the problem
        others = {name: values for name, values in over.items() if name not in FILES}
        over = others or {"seed": [0]}
    with handing_over(checked.objects):
        directory, new = choose_directory(options, over, own)
    return directory, new or not directory.exists() or is_empty(directory)
