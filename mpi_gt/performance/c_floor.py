"""The floor of `mpi-gt bench`: the same collective from C, compiled with the mpicc at hand."""

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

from ..launch import detect
from ..launch.mpirun import brand, command, environment, find_mpirun
from .bench import BenchPlan, floor_rows

SOURCE = Path(__file__).parents[2] / "scripts" / "bench" / "neighbor_floor.c"


def measure_floor(plan: BenchPlan, directory: Path) -> None:
    """Leave in floor.json what the C program measured, or why there is nothing to compare with."""
    assert plan.n is not None
    mpirun = find_mpirun()
    compiler = shutil.which("mpicc", path=str(mpirun.parent)) or shutil.which("mpicc")
    if not SOURCE.exists():
        found: dict[str, object] = {"skipped": f"{SOURCE.name} is in the source checkout only"}
    elif compiler is None:
        found = {"skipped": "no mpicc is at hand"}
    else:
        try:
            found = {"rows": _run(plan, mpirun, compiler)}
        except (subprocess.SubprocessError, OSError, ValueError) as error:
            said = getattr(error, "stderr", None) or str(error)
            found = {"skipped": f"it could not be compiled or run: {said.strip()[-300:]}"}
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "floor.json").write_text(json.dumps(found))


def _run(plan: BenchPlan, mpirun: Path, compiler: str) -> list[dict[str, object]]:
    assert plan.n is not None
    kind = brand(mpirun)
    env = environment(kind, plan.n, None)
    words = command(mpirun, kind, plan.n, None, env)
    env.setdefault("OMPI_MCA_btl_sm_eager_limit", detect.EAGER_LIMIT)
    limit = 60 + 20 * plan.seconds * len(plan.sizes)
    with tempfile.TemporaryDirectory(prefix="mpi-gt-") as folder:
        program = str(Path(folder, "neighbor_floor"))
        build = [compiler, "-O2", str(SOURCE), "-o", program]
        subprocess.run(build, check=True, capture_output=True, text=True, timeout=120)

        def execute(graph: Path, arguments: list[str]) -> str:
            done = subprocess.run(
                [*words, program, str(graph), *arguments],
                env=env,
                check=True,
                capture_output=True,
                text=True,
                timeout=limit,
            )
            return done.stdout

        return floor_rows(plan, plan.n, execute, Path(folder))
