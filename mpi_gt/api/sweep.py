"""The function `mpi_gt.sweep`: a sweep from a script or a notebook."""

import shlex
import warnings
from collections.abc import Mapping
from typing import Any

from ..errors import Stopped, UserError
from ..launchers.mpirun import MpirunOptions
from ..results.runs import Runs
from ..rundir.run_json import read_facts
from .axes import Over
from .outcome import runs_of
from .start import run_sweep

OWN = ("out", "overwrite", "resume", "quiet")


def sweep(over: Over, options: Mapping[str, Any]) -> Runs:
    """Run a sweep and return its points; raise Stopped or RuntimeError where it has not ended.

    A point that fails is a warning: the others are worth having.
    """
    if isinstance(over, str):
        raise UserError("over is a dictionary, as in {'lr': [0.01, 0.1], 'graph': 'ring,torus'}")
    given = {name: value for name, value in options.items() if value is not None}
    own = {"quiet": True, **{name: given.pop(name) for name in OWN if name in given}}
    hostfile, words = given.pop("hostfile", None), given.pop("mpirun_args", ())
    words = tuple(shlex.split(words) if isinstance(words, str) else words)
    for_mpirun = MpirunOptions(None if hostfile is None else str(hostfile), words)
    if "algorithm" in given:
        if "algorithms" in given:
            raise UserError("algorithm and algorithms are both given: one of them is enough")
        given["algorithms"] = given.pop("algorithm")
    if isinstance(given.get("algorithms"), list | tuple):
        given["algorithms"] = ",".join(map(str, given["algorithms"]))
    code, plan = run_sweep(given, over, own, for_mpirun)
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
