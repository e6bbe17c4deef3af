"""The launcher that started this process, detected from the environment.

A launcher that does not match the MPI library starts N processes of which each is a world of its
own. The checks here turn that into one message.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

OPENMPI, HYDRA, INTEL = "Open MPI's mpirun", "MPICH's mpirun", "Intel MPI's mpirun"
PALS, FLUX = "Cray MPICH's mpiexec", "flux run"
SRUN, SRUN_PMI, SRUN_PMIX = "srun", "srun --mpi=pmi2", "srun --mpi=pmix"
SRUN_CRAY = "srun --mpi=cray_shasta"
OTHER = "a PMIx launcher"
PMIX = (OPENMPI, SRUN_PMIX, OTHER)


# the variables by which a process knows that a launcher started it as one of several
LAUNCHED = (
    "OMPI_COMM_WORLD_SIZE",
    "PMIX_RANK",
    "PMI_RANK",
    "PMI_SIZE",
    "MPI_LOCALNRANKS",
    "SLURM_STEP_NUM_TASKS",
)

STEP_VARIABLE = re.compile(
    r"PMIX_(?!MCA_)|PMI_|PMI2_|PALS_|SLURM_STEP_|SLURM_(STEPID|NTASKS|NPROCS|NTASKS_PER_NODE|MPI_TYPE)$"
)
"""The variables of a rank that srun has started; those of the user's choice (PMIX_MCA_) are not."""

OF_JOB = {
    "SLURM_TASKS_PER_NODE": "SLURM_JOB_CPUS_PER_NODE",
    "SLURM_NNODES": "SLURM_JOB_NUM_NODES",
    "SLURM_NODELIST": "SLURM_JOB_NODELIST",
}
"""Variables by which mpirun knows its hosts and slots, and those with their values for the job."""

OUTCOME = "MPI_GT_OUTCOME"
"""The variable that names the file to which root writes the exit code; all ranks then exit 0.

Otherwise mpirun adds a banner about "a process that exited with non-zero status" to our own
message, and may exit with another code.
"""

EAGER_LIMIT = "12288"
"""Bytes up to which Open MPI sends a message on one host at once, enough for many seeds."""


@dataclass(frozen=True)
class Launch:
    """The start of this process by a launcher, as one of `size` (None: unknown)."""

    launcher: str
    size: int | None
    rank: int

    def library_mismatch(self, library: str) -> str | None:
        """Return a message if this MPI library cannot connect to this launcher, else None.

        It is for use before MPI_Init, in which some libraries would abort.
        """
        ours = family(library)
        with_pmi = ours in ("MPICH", "Intel MPI") and "pmix" not in library.lower()
        cannot_connect = (
            (ours == "Open MPI" and self.launcher in (HYDRA, INTEL, PALS, FLUX))
            or (with_pmi and self.launcher in PMIX)
        )  # fmt: skip
        return self.size_mismatch(1, library) if cannot_connect else None

    def size_mismatch(self, size: int, library: str) -> str | None:
        """Return a message if MPI's world does not have the size of the launch, else None."""
        if self.size in (None, size):
            return None
        world = "every process is a world of its own" if size == 1 else f"MPI's world has {size}"
        version = " ".join(library.split("\n")[0].partition(", package")[0].split())
        return (
            f"{self.launcher} started {self.size} processes, but {world} "
            f"(mpi4py uses {version}). {self._remedy(library)}"
        )

    def _remedy(self, library: str) -> str:
        """Return the end of the message: the launcher to use instead."""
        if self.launcher in (SRUN, SRUN_PMI, SRUN_PMIX, SRUN_CRAY):
            ours = family(library)
            plugin = {
                "Open MPI": "pmix",
                "MPICH": "pmi2",
                "Intel MPI": "pmi2",
                "Cray MPICH": "cray_shasta",
            }.get(ours)
            use = f"use srun --mpi={plugin}" if plugin else "use another srun --mpi"
            if ours == "Intel MPI":  # which does not look for Slurm's library by itself
                use += ", with I_MPI_PMI_LIBRARY set to the path of Slurm's libpmi2.so,"
            return f"{use} (srun --mpi=list shows the choices), or `mpi-gt run -n {self.size}`"
        if self.launcher == FLUX:
            return "use flux run -o pmi=pmix, which needs the plugin flux-pmix"
        return (
            "That launcher belongs to another MPI: use the mpirun of the MPI that mpi4py was built "
            f"with, or `mpi-gt run -n {self.size}`"
        )


def family(library: str) -> str:
    """Return Open MPI, Intel MPI, Cray MPICH, MPICH or, of another library, the whole text."""
    words = {"Intel(R) MPI": "Intel MPI", "CRAY": "Cray MPICH"}
    words |= {name: name for name in ("Open MPI", "MPICH")}
    return next((name for word, name in words.items() if word in library), library)


def detect_launch(env: Mapping[str, str] = os.environ) -> Launch | None:
    """Return the launcher that started this process as one of several; None if none did."""

    def number(name: str) -> int:
        text = env.get(name, "")
        return int(text) if text.isdecimal() else 0

    tasks = number("SLURM_STEP_NUM_TASKS")
    # mpirun comes first: it starts its helpers on other hosts with srun, which sets variables too
    if "OMPI_COMM_WORLD_SIZE" in env:
        return Launch(OPENMPI, number("OMPI_COMM_WORLD_SIZE"), number("OMPI_COMM_WORLD_RANK"))
    if "PMI_SIZE" in env:
        # MPICH's hydra sets MPI_LOCALNRANKS as well, srun does not
        by_hydra = "MPI_LOCALNRANKS" in env or not tasks
        launcher = HYDRA if by_hydra else SRUN_PMI
        if "PALS_RANKID" in env:
            launcher = PALS if by_hydra else SRUN_CRAY
        elif by_hydra and "I_MPI_HYDRA_UUID" in env:
            launcher = INTEL
        elif by_hydra and "FLUX_TASK_RANK" in env:
            launcher = FLUX
        return Launch(launcher, number("PMI_SIZE"), number("PMI_RANK"))
    if "PMIX_RANK" in env:
        launcher = SRUN_PMIX if tasks else OTHER
        return Launch(launcher, tasks or None, number("PMIX_RANK"))
    if "PMI_RANK" in env or "MPI_LOCALNRANKS" in env:
        return Launch(HYDRA, None, number("PMI_RANK"))
    return Launch(SRUN, tasks, number("SLURM_PROCID")) if tasks > 1 else None


def is_launched(arguments: Sequence[str] = (), env: Mapping[str, str] = os.environ) -> bool:
    """Return whether mpirun or srun started this process as a rank.

    A command typed in the shell of an interactive step (`srun --mpi=pmix bash`) has the variables
    of a single rank as well; it is the front end if it asks for several ranks.
    """
    found = detect_launch(env)
    return found is not None and not (_is_step_of_one(found) and _ranks_asked_for(arguments) > 1)


def _is_step_of_one(launch: Launch) -> bool:
    return launch.launcher in (SRUN_PMI, SRUN_PMIX, SRUN_CRAY) and launch.size == 1


def _ranks_asked_for(arguments: Sequence[str]) -> int:
    """Return the number of ranks after -n, of `scale` the largest; 0 if there is none."""
    text = " ".join(arguments[: arguments.index("--")] if "--" in arguments else arguments)
    match = re.search(r"(?:^|\s)-n[=\s]?(\d+(?:,\d+)*)(?:\s|$)", text)
    return max(map(int, match[1].split(","))) if match else 0


def without_step(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without the variables that make a process a rank of a Slurm step.

    An mpirun that is started in the shell of such a step would take them for its own. The hosts
    and processors are then those of the job, and its own steps run beside the shell's.
    """
    found = detect_launch(env)
    if found is None or not _is_step_of_one(found):
        return dict(env)
    kept = {name: value for name, value in env.items() if not STEP_VARIABLE.match(name)}
    of_job = {name: env[source] for name, source in OF_JOB.items() if source in env}
    # else the srun by which mpirun reaches the hosts waits for the end of the shell
    return {**kept, **of_job, "SLURM_OVERLAP": "1"}


def write_exit_code(code: int) -> int:
    """Write the exit code to the file that the front end reads; return this process's own.

    Only root calls it.
    """
    path = os.environ.get(OUTCOME)
    if path is None:
        return code
    try:
        Path(path).write_text(str(code))
    except OSError:  # the front end is on another host: it will read run.json
        return code
    return 0
