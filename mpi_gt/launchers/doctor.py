"""`mpi-gt doctor`: the facts that decide whether a run works here, problems and warnings."""

import os
import shutil
import statistics
import subprocess
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from .. import machine
from ..errors import UserError
from . import detect
from .brands import BRANDS, Brand
from .mpirun import detect_brand, find_mpirun

if TYPE_CHECKING:
    from mpi4py import MPI

Facts = list[tuple[str, str]]

SLURM = (
    "SLURM_JOB_ID",
    "SLURM_JOB_NODELIST",
    "SLURM_JOB_NUM_NODES",
    "SLURM_NTASKS",
    "SLURM_STEP_NUM_TASKS",
    "SLURM_MPI_TYPE",
)
LENGTHS = (10, 10_000)  # float64 numbers per message: one for the latency, one for the bandwidth
ROUNDS = 50


def examine_machine(wrong: str | None = None) -> int:
    """Show the facts about this host and its launchers; return the exit code.

    `wrong` is a problem that the caller has found already.
    """
    brand, facts = _launcher_facts()
    library = ""
    try:
        machine.require_mpi()
        library = machine.mpi_library()
    except UserError as error:
        wrong = wrong or str(error)
    ours = detect.family(library)
    theirs = brand.title if brand is not None and brand.name in BRANDS else None
    problems = [wrong] if wrong else []
    known = {each.title for each in BRANDS.values()}
    if not wrong and theirs is not None and ours in known and ours != theirs:
        problems.append(
            f"mpirun is {theirs}'s, but mpi4py uses {ours}: every rank would be a world of its "
            f"own. Put {ours}'s mpirun first on the PATH"
        )
    if not wrong and brand is None:
        problems.append(f"there is no working mpirun; {machine.INSTALL}")
    here = machine.rank_facts()
    facts = [
        *_common_facts(library),
        *facts,
        ("this host", f"{here.host}, {here.cores} cores to use"),
    ]
    warnings = machine.placement_warnings([here], 1)
    if not problems and not wrong:
        facts.append(("ranks", "none: `mpi-gt doctor -n 4` starts and checks four"))
    return _show(facts, problems, warnings)


def examine_ranks(comm: "MPI.Intracomm") -> int:
    """Show the facts about all ranks; return the exit code.

    Collective: every rank calls it, and root shows.
    """
    ranks = comm.gather(machine.rank_facts())
    times = {length: exchange_time(comm, length) for length in LENGTHS}
    if ranks is None:
        return 0
    launch = detect.detect_launch()
    per_host = Counter(rank.host for rank in ranks)
    cores = machine.cores_by_host(ranks)
    library = machine.mpi_library()
    facts = [
        *_common_facts(library),
        ("launcher", launch.launcher if launch else "none"),
        ("ranks", f"{comm.size} on {len(per_host)} host{'s' if len(per_host) > 1 else ''}"),
    ]
    facts += [
        (f"  {host}", f"{count} ranks, {cores[host]} cores: {count / cores[host]:g} per core")
        for host, count in per_host.items()
    ]
    if comm.size > 1:
        facts += [
            ("ring exchange", f"{8 * length:,} bytes to each neighbour in {1e6 * seconds:,.0f} us")
            for length, seconds in times.items()
        ]
    return _show(facts, [], machine.placement_warnings(ranks, machine.hosts_allotted(), library))


def exchange_time(comm: "MPI.Intracomm", length: int) -> float:
    """Return the median seconds of one exchange with both neighbours on a ring.

    Collective: every rank calls it.
    """
    neighbours = sorted({(comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size} - {comm.rank})
    ring = comm.Create_dist_graph_adjacent(neighbours, neighbours, reorder=False)
    mine, theirs = np.full(length, float(comm.rank)), np.empty((len(neighbours), length))
    seconds = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        ring.Neighbor_allgather(mine, theirs)
        seconds.append(time.perf_counter() - begin)
    ring.Free()
    if theirs[:, -1].tolist() != neighbours:
        raise RuntimeError(f"rank {comm.rank} received other values than its neighbours sent")
    return statistics.median(seconds)


def _common_facts(library: str) -> Facts:
    import mpi4py

    threads = ", ".join(f"{name}={os.environ.get(name, 'unset')}" for name in machine.THREADS)
    facts = [
        ("Python", f"{sys.version.split()[0]}, {sys.executable}"),
        ("mpi4py", mpi4py.__version__),
        ("MPI library", machine.mpi_version() if library else "none"),
        ("threads", threads),
    ]
    return facts + [(name, os.environ[name]) for name in SLURM if name in os.environ]


def _launcher_facts() -> tuple[Brand | None, Facts]:
    """Return the brand of the mpirun that `mpi-gt run -n` would use, and facts to show."""
    facts: Facts = []
    brand = None
    try:
        mpirun = find_mpirun()
        brand = detect_brand(mpirun)
        facts.append(("mpirun", f"{mpirun} ({brand.name})"))
    except UserError as error:
        facts.append(("mpirun", str(error)))
    if launch := detect.detect_launch():
        facts.append(("launcher", f"{launch.launcher}, {launch.size or '?'} processes"))
    if srun := shutil.which("srun"):
        facts.append(("srun --mpi", _srun_plugins(srun)))
    return brand, facts


def _srun_plugins(srun: str) -> str:
    """Return the kinds of MPI that srun supports, for display."""
    try:
        words = [srun, "--mpi=list"]
        answer = subprocess.run(words, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not work: {error}"
    lines = [line.strip() for line in (answer.stdout + answer.stderr).splitlines()]
    kinds = [line for line in lines if line and " " not in line]
    return ", ".join(kinds) or f"does not work: {lines[-1] if lines else 'it prints nothing'}"


def _show(facts: Facts, problems: list[str], warnings: list[str]) -> int:
    """Print the facts and what is wrong; return the exit code."""
    width = max(len(name) for name, _ in facts) + 2
    lines = [f"{name:{width}}{value}" for name, value in facts] + [""]
    lines += [f"problem: {problem}" for problem in problems]
    lines += [f"warning: {warning}" for warning in warnings]
    if not problems and not warnings:
        lines.append("no problems found")
    print("\n".join(lines), flush=True)
    return UserError.exit_code if problems else 0
