"""The circumstances of a run: versions, MPI library, hosts, ranks per core, settings."""

import contextlib
import os
import platform
import socket
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

PACKAGES = ("mpi-gt", "mpi4py", "numpy", "networkx", "scipy")
SETTINGS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OMPI_MCA_",
    "PRTE_MCA_",
    "MPIR_CVAR_",
    "UCX_",
    "SLURM_JOB_ID",
    "MPI_GT_KERNELS",
)


def cores() -> int:
    """The processor cores of this machine: threads of one core count once, as MPI counts slots."""
    siblings = set()
    for file in Path("/sys/devices/system/cpu").glob("cpu[0-9]*/topology/thread_siblings_list"):
        with contextlib.suppress(OSError):
            siblings.add(file.read_text())
    return len(siblings) or os.cpu_count() or 1


def rank_facts() -> tuple[str, int]:
    """This rank's host and that host's cores."""
    return socket.gethostname(), cores()


def run_facts(ranks: list[tuple[str, int]] | None) -> dict[str, Any]:
    """What run.json says of where it ran; `ranks` of every rank, None without MPI."""
    from . import kernels  # and with it numpy, which the parent of mpirun does without

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
        "warnings": [],
    }
    if ranks is None:
        facts["hosts"] = [socket.gethostname()]
        return facts
    from mpi4py import MPI

    facts["mpi"] = {
        "library": MPI.Get_library_version().split("\x00")[0].strip().splitlines()[0],
        "standard": ".".join(map(str, MPI.Get_version())),
        "thread_level": _thread_level(MPI.Query_thread()),
    }
    facts["hosts"] = [host for host, _ in ranks]
    cores = dict(ranks)
    per_host = Counter(facts["hosts"])
    facts["ranks_per_core"] = max(count / cores[host] for host, count in per_host.items())
    for host, count in per_host.items():
        if count > cores[host]:
            facts["warnings"].append(
                f"{count} ranks share {cores[host]} cores on {host}: the numbers are right, "
                "but the times say little about a machine with a core for each rank"
            )
    return facts


def _versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version  # root's, and slow to import

    versions = {"python": f"{platform.python_version()} ({platform.python_compiler()})"}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


def _thread_level(level: int) -> str:
    return ("single", "funneled", "serialized", "multiple")[level]
