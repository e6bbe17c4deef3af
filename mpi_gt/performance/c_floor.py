"""The floor of `mpi-gt bench`: the same collective, called from C and compiled with mpicc."""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..graphs import build_network
from ..launch import detect
from ..launch.mpirun import detect_brand, find_mpirun, mpirun_command, mpirun_environment
from .bench import FLOOR, BenchPlan, row_of

if TYPE_CHECKING:
    from ..graphs import Network

SOURCE = Path(__file__).with_name("neighbor_floor.c")


def measure_floor(plan: BenchPlan, directory: Path) -> None:
    """Write the times of the C program, or why there are none, to floor.json."""
    assert plan.n is not None
    mpirun = find_mpirun()
    compiler = shutil.which("mpicc", path=str(mpirun.parent)) or shutil.which("mpicc")
    if not SOURCE.exists():
        floor: dict[str, object] = {"skipped": f"{SOURCE.name} is missing from this installation"}
    elif compiler is None:
        floor = {"skipped": "there is no mpicc"}
    else:
        try:
            floor = {"rows": _run(plan, mpirun, compiler)}
        except (subprocess.SubprocessError, OSError, ValueError) as error:
            output = getattr(error, "stderr", None) or str(error)
            floor = {"skipped": f"it could not be compiled or run: {output.strip()[-300:]}"}
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "floor.json").write_text(json.dumps(floor))


def _run(plan: BenchPlan, mpirun: Path, compiler: str) -> list[dict[str, object]]:
    """Compile the C program in a temporary folder, run it on all graphs, and return its rows."""
    assert plan.n is not None
    brand = detect_brand(mpirun)
    env = mpirun_environment(brand, plan.n, None)
    words = mpirun_command(mpirun, brand, plan.n, None, env)
    env.setdefault("OMPI_MCA_btl_sm_eager_limit", detect.EAGER_LIMIT)
    limit = 60 + 20 * plan.seconds * len(plan.sizes)
    with tempfile.TemporaryDirectory(prefix="mpi-gt-") as folder:
        program = str(Path(folder, "neighbor_floor"))
        build = [_without_space(Path(compiler), Path(folder)), "-O2", str(SOURCE), "-o", program]
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


def _without_space(compiler: Path, folder: Path) -> str:
    """Return mpicc by a path in `folder` if its own has a space, with which MPICH's fails."""
    if " " not in str(compiler):
        return str(compiler)
    prefix = folder / "prefix"
    prefix.symlink_to(compiler.parent.parent)
    return str(prefix / compiler.parent.name / compiler.name)


def adjacency(network: "Network") -> str:
    """Return the graph in the format of the C program: one line per node, degree and neighbours."""
    rows = (network.row(node).neighbours for node in range(len(network.matrix)))
    return "".join(" ".join(map(str, [len(row), *row])) + "\n" for row in rows)


def floor_rows(
    plan: BenchPlan, nodes: int, execute: Callable[[Path, list[str]], str], folder: Path
) -> list[dict[str, Any]]:
    """Return the C program's rows of bench.csv; `execute` runs it on all ranks for a graph file."""
    rows = []
    for number, spec in enumerate(plan.graphs):
        network = build_network(spec, None, nodes)
        file = folder / f"graph-{number}.txt"
        file.write_text(adjacency(network))
        degree = max(dict(network.graph.degree).values())
        printed = execute(file, [str(plan.seconds), *map(str, plan.sizes)])
        for line in printed.splitlines():
            payload, low, median, p95, p99, taken = line.split()
            row = row_of(spec, degree, FLOOR, int(payload), [float(median)])
            row.update(samples=int(taken), min=float(low), p95=float(p95), p99=float(p99))
            rows.append(row)
    return rows
