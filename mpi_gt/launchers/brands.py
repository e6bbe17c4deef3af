"""MPI implementations: the signs by which to recognise each mpirun, and the flags it needs."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..machine import cores

# variables that remote ranks need and Open MPI does not send by itself; names or their beginnings
SENT_TO_REMOTE_RANKS = (
    "MPI_GT_",
    "PYTHONPATH",
    "XDG_CACHE_HOME",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "UCX_",
)

SESSION = ("PRTE_MCA_prte_", "OMPI_MCA_orte_")
"""Beginnings of the variables about the files of mpirun, for Open MPI 5 and for Open MPI 4."""


@dataclass(frozen=True)
class Brand:
    """One MPI implementation. Without arguments: an unknown one, whose mpirun gets no flags."""

    name: str = "unknown"
    title: str = "an unknown MPI"
    version_words: tuple[str, ...] = ()
    """`mpirun --version` prints one of these words."""
    host_line: str = ""
    """The format of a line in its hostfile, for a host name and a number of slots."""
    run_on_hosts: str = ""
    """The command in front of the name of a hostfile."""
    searches_path: bool = False
    """Its mpirun is a script that looks for its other programs on the PATH."""

    @property
    def host_example(self) -> str:
        """A line of its hostfile, for messages."""
        return self.host_line.format("h1", 4)

    def program(self, mpirun: Path) -> Path:
        """Return the program to start, which passes signals on to the ranks."""
        return mpirun

    def local_flags(self, n: int) -> list[str]:
        """Return the flags for n ranks on this machine."""
        return []

    def hostfile_flags(self, hostfile: Path, crowded: bool, env: Mapping[str, str]) -> list[str]:
        """Return the flags for ranks on the hosts of a file; `crowded`: more ranks than slots."""
        raise AssertionError(f"{self.name} has no hostfile")

    def settings(self, ranks_per_host: int) -> dict[str, str]:
        """Return the environment variables that mpirun gets unless the user has set them."""
        return {}

    def session(self, folder: Path, env: Mapping[str, str]) -> dict[str, str]:
        """Return the variables with which mpirun keeps its own files in a folder of this host."""
        return {}


class OpenMPI(Brand):
    """Open MPI 4 and later."""

    def local_flags(self, n: int) -> list[str]:
        if any(name in os.environ for name in ("SLURM_JOB_ID", "PBS_JOBID")):
            return []
        return ["--oversubscribe", *(["--bind-to", "none"] if n > cores() else [])]

    def hostfile_flags(self, hostfile: Path, crowded: bool, env: Mapping[str, str]) -> list[str]:
        # --oversubscribe would put all ranks on the first host
        mapping = ["--map-by", "slot:OVERSUBSCRIBE"] if crowded else []
        names = sorted(name for name in env if name.startswith(SENT_TO_REMOTE_RANKS))
        sent = [word for name in names for word in ("-x", name)]
        return ["--hostfile", str(hostfile), *mapping, "--bind-to", "none", *sent]

    def settings(self, ranks_per_host: int) -> dict[str, str]:
        settings = {}
        if os.geteuid() == 0:
            for system in ("OMPI", "PRTE"):
                settings[f"{system}_ALLOW_RUN_AS_ROOT"] = "1"
                settings[f"{system}_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
        if ranks_per_host > cores():
            settings["OMPI_MCA_mpi_yield_when_idle"] = "1"
            # a hostfile or a batch system may claim more slots than there are cores
            settings["PRTE_MCA_hwloc_default_binding_policy"] = "none"
        if not any(Path(fabric).exists() for fabric in ("/sys/class/infiniband", "/dev/cxi0")):
            settings["OMPI_MCA_btl"] = "^ofi,uct"  # searching for a fabric takes a second
            settings["OMPI_MCA_osc"] = "^ucx"  # without a fabric it complains about every window
        return settings

    def session(self, folder: Path, env: Mapping[str, str]) -> dict[str, str]:
        given = {f"{each}{kind}tmpdir_base" for each in SESSION for kind in ("", "local_")}
        return (
            {}
            if given & env.keys()
            else {f"{each}local_tmpdir_base": str(folder) for each in SESSION}
        )


class MPICH(Brand):
    """MPICH 4 with its Hydra launcher."""

    def hostfile_flags(self, hostfile: Path, crowded: bool, env: Mapping[str, str]) -> list[str]:
        return ["-f", str(hostfile)]


class IntelMPI(Brand):
    """Intel MPI 2019 and later, with its own Hydra launcher."""

    def program(self, mpirun: Path) -> Path:
        # mpirun is a script around it: a signal ends the script, and the ranks run on without it
        hydra = mpirun.with_name("mpiexec.hydra")
        return hydra if hydra.exists() else mpirun

    def hostfile_flags(self, hostfile: Path, crowded: bool, env: Mapping[str, str]) -> list[str]:
        # its -f takes no numbers of slots
        return ["-machinefile", str(hostfile), "-genvall"]

    def settings(self, ranks_per_host: int) -> dict[str, str]:
        settings = {}
        if "SLURM_JOB_ID" in os.environ:  # these two are what the script mpirun would set
            settings["I_MPI_HYDRA_BOOTSTRAP"] = "slurm"
        elif "PBS_ENVIRONMENT" in os.environ:
            settings["I_MPI_HYDRA_RMK"] = "pbs"
        if ranks_per_host > cores():
            # otherwise a rank that waits keeps its core from the rank that it waits for
            settings |= {"I_MPI_THREAD_YIELD": "3", "I_MPI_PIN": "0"}
        return settings


BRANDS: dict[str, Brand] = {
    "openmpi": OpenMPI(
        "openmpi", "Open MPI", ("Open MPI", "OpenRTE"), "{} slots={}", "mpirun --hostfile"
    ),
    "mpich": MPICH("mpich", "MPICH", ("HYDRA",), "{}:{}", "mpiexec -f"),
    "intelmpi": IntelMPI(
        "intelmpi",
        "Intel MPI",
        ("Intel(R) MPI",),
        "{}:{}",
        "mpirun -machinefile",
        searches_path=True,
    ),
}
UNKNOWN = Brand()


def brand_of_version(text: str) -> Brand:
    """Return the brand whose `mpirun --version` prints this text."""
    for brand in BRANDS.values():
        if any(word in text for word in brand.version_words):
            return brand
    return UNKNOWN
