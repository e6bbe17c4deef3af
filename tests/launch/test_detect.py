"""The launcher that started this process, and whether its MPI fits."""

import pytest

from mpi_gt.launch.detect import detect_launch


@pytest.mark.parametrize(
    ("env", "launcher", "size", "rank"),
    [
        ({"OMPI_COMM_WORLD_SIZE": "16", "OMPI_COMM_WORLD_RANK": "3", "PMIX_RANK": "3",
          "SLURM_STEP_NUM_TASKS": "4"}, "Open MPI's mpirun", 16, 3),
        ({"PMI_SIZE": "8", "PMI_RANK": "1", "MPI_LOCALNRANKS": "2",
          "SLURM_STEP_NUM_TASKS": "4"}, "MPICH's mpirun", 8, 1),
        ({"PMI_SIZE": "8", "PMI_RANK": "1", "SLURM_STEP_NUM_TASKS": "8"}, "srun --mpi=pmi2", 8, 1),
        ({"PMIX_RANK": "2", "SLURM_STEP_NUM_TASKS": "8"}, "srun --mpi=pmix", 8, 2),
        ({"SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "8"}, "srun", 8, 5),
        ({"PMIX_RANK": "2"}, "a PMIx launcher", None, 2),
    ],
)  # fmt: skip
def test_what_launchers_promise(env, launcher, size, rank):
    promise = detect_launch(env)
    assert (promise.launcher, promise.size, promise.rank) == (launcher, size, rank)
    if size is not None:
        assert f"started {size} processes" in promise.size_mismatch(1, "MPICH Version: 5.0")
        assert promise.size_mismatch(size, "MPICH Version: 5.0") is None


def test_a_batch_script_or_a_terminal_is_no_rank():
    assert detect_launch({"SLURM_JOB_ID": "1", "SLURM_NTASKS": "16", "SLURM_PROCID": "0"}) is None
    assert (
        detect_launch({"SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"}) is None
    )  # srun --pty bash
    assert detect_launch({}) is None


def test_who_cannot_talk_to_whom():
    openmpi, mpich = "Open MPI v5.0.11, package: x", "MPICH Version: 5.0.2\nMPICH configure: --x"
    env = {"PMIX_RANK": "0", "SLURM_STEP_NUM_TASKS": "4"}
    assert detect_launch(env).library_mismatch(openmpi) is None
    assert "use srun --mpi=pmi2" in detect_launch(env).library_mismatch(mpich)
    assert detect_launch(env).library_mismatch(mpich + " --with-pmix") is None
    hydra = {"PMI_SIZE": "4", "PMI_RANK": "0", "MPI_LOCALNRANKS": "4"}
    assert detect_launch(hydra).library_mismatch(mpich) is None
    assert "another MPI" in detect_launch(hydra).library_mismatch(openmpi)
