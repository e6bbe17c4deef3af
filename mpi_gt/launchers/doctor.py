"""`mpi-gt doctor`: the facts that decide whether a run works here, problems and warnings."""

import contextlib
import os
import shutil
import socket
import statistics
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .. import machine
from ..display.console import counted
from ..errors import UserError
from ..memory import show_bytes
from . import detect
from .brands import BRANDS, Brand
from .diagnosis import Report, describe_hosts, diagnose
from .host_facts import HostFacts, host_facts
from .links import measure_pairs
from .programs import find_launcher
from .srun import mpi_kinds

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
ROUNDS = 50  # of the ring exchange, at least, unless it is slow
BUDGET = 2.0  # seconds after which there are no more of them


def examine_machine(
    wrong: str | None = None, as_json: bool = False, folder: Path | None = None
) -> int:
    """Show the facts about this host and its launchers; return the exit code.

    `wrong` is a problem that the caller has found already; runs will be written in `folder`.
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
    own = host_facts(0, folder or Path.cwd(), "")
    facts.append(("run directory", f"{folder or Path.cwd()} ({own.filesystem})"))
    facts += [(f"  {host}", text) for host, text in describe_hosts([own], connected=False)]
    found = Report(facts, problems, warnings, [own])
    found.details = {"size": None, "library": machine.mpi_version() if library else None}
    return found.show(as_json)


def examine_ranks(comm: "MPI.Intracomm", folder: Path, as_json: bool = False) -> int:
    """Show the facts about all ranks; return the exit code.

    Collective: every rank calls it, and root shows. `folder` is where runs will be written.
    """
    from ..comm.collective import idle_barrier  # here: it imports MPI

    ranks = comm.gather(machine.rank_facts())
    token = comm.bcast(_leave_token(folder) if comm.rank == 0 else None)
    times = {length: exchange_time(comm, length) for length in LENGTHS}
    pairs = measure_pairs(comm, comm.allgather(socket.gethostname()), idle_barrier)
    found = comm.gather(host_facts(comm.rank, folder, token))  # now that all are connected
    if ranks is None or found is None:
        return 0
    (folder / token).unlink(missing_ok=True)
    library = machine.mpi_library()
    facts = [*_common_facts(library), *_rank_facts(ranks, found, folder)]
    if comm.size > 1:
        facts += [
            ("ring exchange", f"{8 * length:,} bytes to each neighbour in {1e6 * seconds:,.0f} us")
            for length, seconds in times.items()
        ]
    problems, warnings = diagnose(found, pairs, library)
    placement = machine.placement_warnings(ranks, machine.hosts_allotted(), library)
    details = {
        "size": comm.size,
        "launcher": _launcher(),
        "library": machine.mpi_version(),
        "thread_level": machine.thread_level(),
        "run_directory": str(folder),
        "cores_by_host": machine.cores_by_host(ranks),
        "exchange_s": {str(8 * length): seconds for length, seconds in times.items()},
    }
    return Report(facts, problems, placement + warnings, found, pairs, details).show(as_json)


def _rank_facts(ranks: list[machine.RankFacts], found: list[HostFacts], folder: Path) -> Facts:
    """Return the facts of all ranks by host, to show."""
    per_host, cores = Counter(rank.host for rank in ranks), machine.cores_by_host(ranks)
    first = found[0]
    return [
        ("thread level", machine.thread_level()),
        ("launcher", _launcher() or "none"),
        ("run directory", f"{folder} ({first.filesystem}, {show_bytes(first.free)} left)"),
        ("ranks", f"{len(ranks)} on {counted(len(per_host), 'host')}"),
        *((f"  {host}", _share(count, cores[host])) for host, count in per_host.items()),
        *((f"  {host}", text) for host, text in describe_hosts(found)),
    ]


def _share(ranks: int, cores: int) -> str:
    """Return how many ranks share the cores of a host, for display."""
    return f"{counted(ranks, 'rank')}, {counted(cores, 'core')}: {ranks / cores:g} per core"


def _launcher() -> str | None:
    launch = detect.detect_launch()
    return launch.launcher if launch else None


def _leave_token(folder: Path) -> str:
    """Make a small file that the ranks of all hosts should see; return its name."""
    name = f".mpi-gt-doctor-{os.getpid()}-{time.time_ns()}"
    with contextlib.suppress(OSError):
        (folder / name).touch()
    return name


def exchange_time(comm: "MPI.Intracomm", length: int) -> float:
    """Return the median seconds of one exchange with both neighbours on a ring.

    Collective: every rank calls it.
    """
    neighbours = sorted({(comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size} - {comm.rank})
    ring = comm.Create_dist_graph_adjacent(neighbours, neighbours, reorder=False)
    mine, theirs = np.full(length, float(comm.rank)), np.empty((len(neighbours), length))
    seconds: list[float] = []
    while len(seconds) < ROUNDS and comm.allreduce(sum(seconds)) < BUDGET * comm.size:
        for _ in range(max(1, len(seconds))):  # twice as many, until all know how long it takes
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
    """Return the brand of the launcher that `mpi-gt run -n` would use, and facts to show."""
    facts: Facts = []
    brand = None
    try:
        program, brand = find_launcher(None)  # srun, where there is no mpirun
        facts.append(("mpirun", f"{program} ({brand.name})"))
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
        return ", ".join(mpi_kinds(srun)) or "it lists none"
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not work: {error}"
