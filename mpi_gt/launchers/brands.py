"""MPI implementations: the signs by which to recognise each mpirun, and the flags it needs."""

import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..errors import UserError
from ..machine import cores
from .options import NAMING_HOSTS, flags_in

SESSION = ("PRTE_MCA_prte_", "OMPI_MCA_orte_")
"""Beginnings of the variables about the files of mpirun, for Open MPI 5 and for Open MPI 4."""


BATCH = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID")
"""Variables of batch jobs, whose hosts and slots mpirun learns from the batch system."""


@dataclass(frozen=True)
class Wanted:
    """The ranks that a launcher is to start, and what the user has said about them."""

    n: int
    ranks_per_host: int
    slots: Mapping[str, int] | None = None  # of a hostfile
    hostfile: Path | None = None
    sent: tuple[str, ...] = ()  # variables for ranks on other hosts; empty where there are none
    words: tuple[str, ...] = ()  # the user's own options of the launcher

    def gives(self, *flags: str) -> bool:
        """Return whether the user's own options have one of these."""
        return not flags_in(self.words).isdisjoint(flags)

    @property
    def exceeds_slots(self) -> bool:
        """True: there are more ranks than slots in the hostfile."""
        return self.slots is not None and self.n > sum(self.slots.values())


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

    def host_lines(self, name: str, slots: int) -> str:
        """Return a host of its hostfile, with that many slots."""
        return self.host_line.format(name, slots)

    def own_hostfile(self, slots: Mapping[str, int], n: int, bare: bool) -> str | None:
        """Return the text of a hostfile for n ranks in place of the user's; None: that will do.

        `bare`: some line of the user's has a name and no number of slots.
        """
        return None

    def flags(self, wanted: Wanted) -> list[str]:
        """Return the flags for these ranks; what the user's own options decide is left to them."""
        return []

    def settings(self, ranks_per_host: int) -> dict[str, str]:
        """Return the environment variables that mpirun gets unless the user has set them."""
        return {}

    def session(self, folder: Path, env: Mapping[str, str]) -> dict[str, str]:
        """Return the variables with which mpirun keeps its own files in a folder of this host."""
        return {}

    @property
    def reads_hosts_of(self) -> "Brand":
        """The brand whose format the user's hostfile has."""
        return self

    def variables(self, hostfile: Path) -> dict[str, str]:
        """Return the variables by which the launcher finds its hostfile, besides its flags."""
        return {}

    @property
    def end_signal(self) -> signal.Signals:
        """The signal that ends this launcher and all ranks at once."""
        return signal.SIGKILL


class OpenMPI(Brand):
    """Open MPI 4 and later."""

    def own_hostfile(self, slots: Mapping[str, int], n: int, bare: bool) -> str | None:
        # a name alone, as in $PBS_NODEFILE, is one slot here; to Open MPI it is one per core
        lines = (self.host_lines(*item) + "\n" for item in slots.items())
        return "".join(lines) if bare else None

    def flags(self, wanted: Wanted) -> list[str]:
        flags = []
        placed = wanted.gives("map-by", "bind-to", "rankfile", "rf", "cpu-set", "cpu-list", "N")
        if wanted.hostfile is not None:
            flags += ["--hostfile", str(wanted.hostfile)]
            if wanted.exceeds_slots and not placed:
                # --oversubscribe would put all ranks on the first host
                flags += ["--map-by", "slot:OVERSUBSCRIBE"]
        elif not any(name in os.environ for name in BATCH) and not wanted.gives(*NAMING_HOSTS):
            # of several hosts it would fill the first one alone
            flags.append("--oversubscribe")
        if wanted.ranks_per_host > cores() and not placed:
            flags += ["--bind-to", "none"]
        return flags + [word for name in wanted.sent for word in ("-x", name)]

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
    """MPICH 4 with its Hydra launcher, which sends all variables to all hosts."""

    def flags(self, wanted: Wanted) -> list[str]:
        return [] if wanted.hostfile is None else ["-f", str(wanted.hostfile)]


class IntelMPI(Brand):
    """Intel MPI 2019 and later, with its own Hydra launcher."""

    def program(self, mpirun: Path) -> Path:
        # mpirun is a script around it: a signal ends the script, and the ranks run on without it
        hydra = mpirun.with_name("mpiexec.hydra")
        return hydra if hydra.exists() else mpirun

    def flags(self, wanted: Wanted) -> list[str]:
        # its -f takes no numbers of slots
        hosts = [] if wanted.hostfile is None else ["-machinefile", str(wanted.hostfile)]
        return [*hosts, *(["-genvall"] if wanted.sent else [])]

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


class CrayMPICH(Brand):
    """Cray MPICH (HPE), under mpiexec of PALS; under Slurm it is started by srun."""

    def host_lines(self, name: str, slots: int) -> str:
        return "\n".join([name] * slots)  # as in $PBS_NODEFILE

    def own_hostfile(self, slots: Mapping[str, int], n: int, bare: bool) -> str | None:
        if len(set(slots.values())) > 1:
            raise UserError(
                "mpiexec of Cray MPICH takes one number of ranks for all hosts: give each host of "
                "the hostfile the same number of slots"
            )
        return "".join(f"{name}\n" for name in slots)

    def flags(self, wanted: Wanted) -> list[str]:
        if wanted.hostfile is None:
            return []
        ppn = [] if wanted.gives("ppn") else ["--ppn", str(wanted.ranks_per_host)]
        return [*ppn, "--hostfile", str(wanted.hostfile)]


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
    "craympich": CrayMPICH(
        "craympich", "Cray MPICH", ("PALS", "/pals/"), "{}:{}", "mpiexec --hostfile"
    ),
}
UNKNOWN = Brand()


def brand_of_title(title: str) -> Brand:
    """Return the brand with that title, as `detect.family` returns it for an MPI library."""
    return next((each for each in BRANDS.values() if each.title == title), UNKNOWN)


def brand_of_version(text: str) -> Brand:
    """Return the brand whose `mpirun --version` prints this text, with the mpirun's path in it."""
    for brand in BRANDS.values():
        if any(word in text for word in brand.version_words):
            return brand
    return UNKNOWN
