"""Slurm's srun as the launcher of ranks: the kind of PMI, hosts, and how it is ended."""

import itertools
import shutil
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..errors import UserError
from .brands import UNKNOWN, Brand, Wanted

KINDS = {"openmpi": "pmix", "mpich": "pmi2", "intelmpi": "pmi2", "craympich": "cray_shasta"}
"""The --mpi of srun for each brand of the library."""

PMI2_FOLDERS = ("/usr/lib64", "/usr/lib", "/usr/lib/*-linux-gnu", "/opt/slurm/lib*")


@dataclass(frozen=True)
class Srun(Brand):
    """srun for the ranks of an MPI library; it sends all variables to all hosts."""

    library: Brand = UNKNOWN
    kinds: tuple[str, ...] = ()
    """The kinds of MPI that `srun --mpi=list` lists."""

    @property
    def reads_hosts_of(self) -> Brand:
        return self.library

    def own_hostfile(self, slots: Mapping[str, int], n: int, bare: bool) -> str | None:
        lines = [name for name, count in slots.items() for _ in range(count)]
        return "".join(f"{name}\n" for name in itertools.islice(itertools.cycle(lines), n))

    def variables(self, hostfile: Path) -> dict[str, str]:
        return {"SLURM_HOSTFILE": str(hostfile)}  # one line per rank

    def flags(self, wanted: Wanted) -> list[str]:
        flags = {
            "mpi": [f"--mpi={self._kind()}"] if self.library.name in KINDS else [],
            "kill-on-bad-exit": ["--kill-on-bad-exit=1"],
            "export": ["--export=ALL"],  # a job submitted with --export=NONE says otherwise
        }
        found = [word for name, words in flags.items() if not wanted.gives(name) for word in words]
        placed = wanted.hostfile is not None and not wanted.gives("distribution", "m")
        # Ctrl-C once is enough; this process decides what else it means
        return [*found, "--quit-on-interrupt", *(["--distribution=arbitrary"] if placed else [])]

    def settings(self, ranks_per_host: int) -> dict[str, str]:
        settings = {}
        if self.library.name == "openmpi":
            settings["PMIX_MCA_psec"] = "native"  # munge's tickets are for one use
        if self.library.name == "intelmpi" and (library := _find_pmi2()):
            settings["I_MPI_PMI_LIBRARY"] = library  # it does not look for it by itself
        of_mpirun = ("PRTE_", "I_MPI_HYDRA_")
        library_settings = self.library.settings(ranks_per_host).items()
        return settings | {
            name: value for name, value in library_settings if not name.startswith(of_mpirun)
        }

    @property
    def end_signal(self) -> signal.Signals:
        return signal.SIGTERM  # a killed srun leaves its ranks to themselves

    def _kind(self) -> str:
        """Return the --mpi that joins the ranks; raise UserError if this srun does not have it."""
        kind = KINDS[self.library.name]
        if self.kinds and not any(each.startswith(kind) for each in self.kinds):
            raise UserError(
                f"srun --mpi={kind}, which {self.library.title} needs, is not among those of this "
                f"Slurm ({', '.join(self.kinds)}): use --launcher mpirun"
            )
        return kind


def find_srun(path: str | None, library: Brand) -> Srun:
    """Return srun for the ranks of this library; raise UserError if there is none."""
    program = path or shutil.which("srun")
    if program is None:
        raise UserError("there is no srun here: is this a host of a Slurm cluster?")
    try:
        return Srun("srun", "srun", library=library, kinds=mpi_kinds(program))
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(f"{program} does not work: {error}") from None


def mpi_kinds(srun: str) -> tuple[str, ...]:
    """Return the kinds of PMI that srun offers."""
    answer = subprocess.run(
        [srun, "--mpi=list"],
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=20,
        check=False,
    )
    lines = [line.strip() for line in (answer.stdout + answer.stderr).splitlines()]
    return tuple(line for line in lines if line and " " not in line)


def _find_pmi2() -> str | None:
    """Return the path of Slurm's libpmi2.so; None where it is in none of the usual folders."""
    root = Path("/")
    found = (root.glob(f"{folder[1:]}/libpmi2.so*") for folder in PMI2_FOLDERS)
    return next((str(path) for each in found for path in sorted(each)), None)
