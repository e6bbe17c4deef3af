"""The commands of the laboratory outside mpirun: they start the ranks that measure."""

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

from . import launch
from .bench import BenchPlan
from .errors import UserError
from .floor import measure_floor
from .record import give_back, require_free, reserve


def make_bench(given: dict[str, Any]) -> BenchPlan:
    """The plan of a bench, with a directory of its own."""
    plan = BenchPlan.of(given)
    if plan.out is None:
        return replace(plan, out=str(reserve("bench")), reserved=True)
    if not plan.out:
        raise UserError("--out needs the name of a directory")
    return plan


def bench(given: dict[str, Any], arguments: list[str]) -> int:
    """The floor first, then the ranks."""
    if "n" not in given:
        raise UserError("how many ranks? Type `mpi-gt bench -n 16 ...`")
    plan = make_bench(given)
    assert plan.out is not None
    assert plan.n is not None
    directory = Path(plan.out)
    try:
        require_free(directory, plan.overwrite or plan.reserved)
        measure_floor(plan, directory)
        told = [f"--out={plan.out}", "--reserved"]
        return launch.launch(["bench", *told, *arguments[1:]], plan.n, directory)
    finally:
        with contextlib.suppress(OSError):
            (directory / "floor.json").unlink()
        if plan.reserved:
            give_back(directory)
