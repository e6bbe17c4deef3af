"""Facts of the machine: versions, MPI library, hosts, ranks per core, environment variables."""

import contextlib
import os
import platform
import socket
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from . import trial

PACKAGES = ("mpi-gt", "mpi4py", "numpy", "networkx", "scipy")
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
SETTINGS = (
    *THREADS,
    "OMPI_MCA_",
    "PRTE_MCA_",
    "MPIR_CVAR_",
    "UCX_",
    "SLURM_JOB_ID",
    "MPI_GT_KERNELS",
)


def cores() -> int:
    """Return the number of processor cores; the threads of one core count once, as MPI counts."""
    siblings = set()
    for file in Path("/sys/devices/system/cpu").glob("cpu[0-9]*/topology/thread_siblings_list"):
        with contextlib.suppress(OSError):
            siblings.add(file.read_text())
    return len(siblings) or os.cpu_count() or 1


def mpi_library() -> str:
    """Return the MPI library's description of itself; its first line has name and version."""
    from mpi4py import MPI

    return MPI.Get_library_version().split("\x00")[0].strip()


class RankFacts(NamedTuple):
    """The host of one rank, with its cores and threads."""

    host: str
    cores: int  # of the host
    threads: int  # that BLAS may start in this rank


def rank_facts() -> RankFacts:
    """Return the facts of this rank."""
    threads = [os.environ.get(name, "1") for name in THREADS]
    counts = [int(text) for text in threads if text.isdecimal()]
    return RankFacts(socket.gethostname(), cores(), max(counts, default=1))


def run_facts(ranks: list[RankFacts] | None) -> dict[str, Any]:
    """Return the facts of the machine for run.json.

    `ranks` holds the facts of every rank; None without MPI.
    """
    from . import kernels  # here: it imports numpy, which the front end does without

    facts: dict[str, Any] = {
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "command": sys.argv,
        "versions": _versions(),
        "platform": platform.platform(),
        "kernels": kernels.NAME,
        "settings": {
            key: value for key, value in sorted(os.environ.items()) if key.startswith(SETTINGS)
        },
        "mpi": None,
        "warnings": trial.warnings(),
    }
    if ranks is None:
        facts["hosts"] = [socket.gethostname()]
        return facts
    from mpi4py import MPI

    facts["mpi"] = {
        "library": mpi_library().splitlines()[0],
        "standard": ".".join(map(str, MPI.Get_version())),
        "thread_level": _thread_level(MPI.Query_thread()),
    }
    facts["hosts"] = [rank.host for rank in ranks]
    cores = {rank.host: rank.cores for rank in ranks}
    per_host = Counter(facts["hosts"])
    facts["ranks_per_core"] = max(count / cores[host] for host, count in per_host.items())
    facts["warnings"] += placement_warnings(ranks, hosts_allotted())
    return facts


def placement_warnings(ranks: list[RankFacts], allotted: int) -> list[str]:
    """Return warnings about a placement of ranks that makes a run slow or its times useless.

    `allotted` is the number of hosts that the ranks could use.
    """
    warnings = []
    cores = {rank.host: rank.cores for rank in ranks}
    per_host = Counter(rank.host for rank in ranks)
    if allotted > 1 and len(ranks) > 1 and len(per_host) == 1:
        warnings.append(
            f"all {len(ranks)} ranks are on {ranks[0].host}, though there are {allotted} hosts: "
            "did the launcher get the list of hosts, or does it oversubscribe the first one?"
        )
    for host, count in per_host.items():
        if count > cores[host]:
            warnings.append(
                f"{count} ranks share {_count(cores[host], 'core')} on {host}: the results are "
                "right, but the times say little about a machine with a core for each rank"
            )
    threads = max(rank.threads for rank in ranks)
    if threads > 1:
        warnings.append(
            f"BLAS may start {threads} threads in each rank, which get in one another's way: "
            "set OMP_NUM_THREADS=1 (or set none of " + ", ".join(THREADS) + ")"
        )
    return warnings


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _versions() -> dict[str, str]:
    # here: slow to import, and only root needs it
    from importlib.metadata import PackageNotFoundError, version

    versions = {"python": f"{platform.python_version()} ({platform.python_compiler()})"}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


def _thread_level(level: int) -> str:
    return ("single", "funneled", "serialized", "multiple")[level]


def hosts_allotted(env: Mapping[str, str] = os.environ) -> int:
    """Return the number of hosts of this job by its environment variables; 1 without any."""
    for name in ("MPI_GT_HOSTS", "SLURM_STEP_NUM_NODES", "SLURM_JOB_NUM_NODES"):
        if env.get(name, "").isdecimal():
            return int(env[name])
    try:
        return len(set(Path(env["PBS_NODEFILE"]).read_text().split())) or 1
    except (KeyError, OSError):
        return 1
