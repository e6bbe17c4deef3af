"""What the launcher promised a process, by its environment, against what MPI then gave it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

OPENMPI, HYDRA = "Open MPI's mpirun", "MPICH's mpirun"
SRUN, SRUN_PMI, SRUN_PMIX = "srun", "srun --mpi=pmi2", "srun --mpi=pmix"
OTHER = "a PMIx launcher"
PMIX = (OPENMPI, SRUN_PMIX, OTHER)


# what tells a process that a launcher started it as one of several
LAUNCHED = (
    "OMPI_COMM_WORLD_SIZE",
    "PMIX_RANK",
    "PMI_RANK",
    "PMI_SIZE",
    "MPI_LOCALNRANKS",
    "SLURM_STEP_NUM_TASKS",
)

OUTCOME = "MPI_GT_OUTCOME"
"""Names the file in which root leaves the exit code of an orderly end; all ranks then exit 0.

Else mpirun adds a banner about "a process that exited with non-zero status" to each of our
own messages, and its exit code may be another one.
"""

EAGER_LIMIT = "12288"
"""Bytes that Open MPI sends at once on one host: the messages of many seeds still are."""


@dataclass(frozen=True)
class Launch:
    """A launcher's word: this process is one of `size` (None: it did not say)."""

    launcher: str
    size: int | None
    rank: int

    def library_mismatch(self, library: str) -> str | None:
        """What is wrong where this library cannot talk to this launcher: some abort at the try."""
        ours = family(library)
        deaf = (
            (ours == "Open MPI" and self.launcher == HYDRA)
            or (ours == "MPICH" and self.launcher in PMIX and "pmix" not in library.lower())
        )  # fmt: skip
        return self.size_mismatch(1, library) if deaf else None

    def size_mismatch(self, size: int, library: str) -> str | None:
        """What is wrong, in plain words, where MPI's world is of another size."""
        if self.size in (None, size):
            return None
        alone = "every process is a world of its own" if size == 1 else f"MPI's world has {size}"
        version = " ".join(library.split("\n")[0].partition(", package")[0].split())
        return (
            f"{self.launcher} started {self.size} processes, but {alone} "
            f"(mpi4py uses {version}). {self._cure(library)}"
        )

    def _cure(self, library: str) -> str:
        if self.launcher in (SRUN, SRUN_PMI, SRUN_PMIX):
            way = {"Open MPI": "pmix", "MPICH": "pmi2"}.get(family(library))
            use = f"use srun --mpi={way}" if way else "use another srun --mpi"
            return f"{use} (srun --mpi=list shows what there is), or `mpi-gt run -n {self.size}`"
        return (
            "That launcher belongs to another MPI: use the mpirun of the MPI that mpi4py was built "
            f"with, or `mpi-gt run -n {self.size}`"
        )


def family(library: str) -> str:
    """Open MPI, MPICH, or what else the library calls itself (Cray's MPICH has ways of its own)."""
    return next((name for name in ("Open MPI", "CRAY", "MPICH") if name in library), library)


def detect_launch(env: Mapping[str, str] = os.environ) -> Launch | None:
    """The launcher that started this process as one of several; None where none did."""

    def number(name: str) -> int:
        text = env.get(name, "")
        return int(text) if text.isdecimal() else 0

    tasks = number("SLURM_STEP_NUM_TASKS")
    # mpirun starts its helpers on other nodes by srun: what mpirun says comes first
    if "OMPI_COMM_WORLD_SIZE" in env:
        return Launch(OPENMPI, number("OMPI_COMM_WORLD_SIZE"), number("OMPI_COMM_WORLD_RANK"))
    if "PMI_SIZE" in env:
        # hydra names the local ranks as well, srun does not
        by_hydra = "MPI_LOCALNRANKS" in env or not tasks
        launcher = HYDRA if by_hydra else SRUN_PMI
        return Launch(launcher, number("PMI_SIZE"), number("PMI_RANK"))
    if "PMIX_RANK" in env:
        launcher = SRUN_PMIX if tasks else OTHER
        return Launch(launcher, tasks or None, number("PMIX_RANK"))
    if "PMI_RANK" in env or "MPI_LOCALNRANKS" in env:
        return Launch(HYDRA, None, number("PMI_RANK"))
    return Launch(SRUN, tasks, number("SLURM_PROCID")) if tasks > 1 else None


def is_launched() -> bool:
    """Whether this process is a rank that mpirun or srun started."""
    return detect_launch() is not None


def write_exit_code(code: int) -> int:
    """Root's: hand the exit code to a parent that waits for it; the exit code for this process."""
    path = os.environ.get(OUTCOME)
    if path is None:
        return code
    try:
        Path(path).write_text(str(code))
    except OSError:  # the parent is on another host: it will go by run.json
        return code
    return 0
