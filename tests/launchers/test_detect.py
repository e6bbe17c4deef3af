"""The launcher that started this process, and whether its MPI fits."""

import pytest

from mpi_gt.launchers.detect import detect_launch, is_launched, without_step


@pytest.mark.parametrize(
    ("env", "launcher", "size", "rank"),
    [
        ({"OMPI_COMM_WORLD_SIZE": "16", "OMPI_COMM_WORLD_RANK": "3", "PMIX_RANK": "3",
          "SLURM_STEP_NUM_TASKS": "4"}, "Open MPI's mpirun", 16, 3),
        ({"PMI_SIZE": "8", "PMI_RANK": "1", "MPI_LOCALNRANKS": "2",
          "SLURM_STEP_NUM_TASKS": "4"}, "MPICH's mpirun", 8, 1),
        ({"PMI_SIZE": "8", "PMI_RANK": "1", "MPI_LOCALNRANKS": "8", "I_MPI_HYDRA_UUID": "0279"},
         "Intel MPI's mpirun", 8, 1),
        ({"PMI_SIZE": "8", "PMI_RANK": "1", "SLURM_STEP_NUM_TASKS": "8"}, "srun --mpi=pmi2", 8, 1),
        ({"PMI_SIZE": "8", "PMI_RANK": "1", "PALS_RANKID": "1"}, "Cray MPICH's mpiexec", 8, 1),
        ({"PMI_SIZE": "8", "PMI_RANK": "1", "PALS_RANKID": "1", "SLURM_STEP_NUM_TASKS": "8"},
         "srun --mpi=cray_shasta", 8, 1),
        ({"PMI_SIZE": "8", "PMI_RANK": "1", "FLUX_TASK_RANK": "1"}, "flux run", 8, 1),
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


@pytest.mark.parametrize(
    "rank", [{"PMIX_RANK": "0", "PMIX_NAMESPACE": "slurm.1"}, {"PMI_RANK": "0", "PMI_SIZE": "1"}]
)
def test_a_command_in_the_shell_of_an_interactive_step(rank):
    """`srun --mpi=pmix bash`, then `mpi-gt run -n 2`: no rank, and mpirun must not think so."""
    env = {**rank, "SLURM_STEP_NUM_TASKS": "1", "SLURM_JOB_ID": "1", "PMIX_MCA_psec": "native"}
    for words in (["run", "-n", "2"], ["run", "-n2"], ["doctor", "-n=4"], ["scale", "-n", "1,2"]):
        assert not is_launched(words, env)
    for words in (["run"], ["run", "-n", "1"], ["submit", "--", "run", "-n", "2"], ["run", "--no"]):
        assert is_launched(words, env)
    kept = {"SLURM_JOB_ID": "1", "PMIX_MCA_psec": "native", "SLURM_OVERLAP": "1"}
    assert without_step(env) == kept
    job = {"SLURM_JOB_CPUS_PER_NODE": "2(x4)", "SLURM_JOB_NUM_NODES": "4"}
    step = {"SLURM_TASKS_PER_NODE": "1", "SLURM_NNODES": "1", "SLURM_NTASKS": "1"}
    hosts = {"SLURM_TASKS_PER_NODE": "2(x4)", "SLURM_NNODES": "4"}
    assert without_step({**env, **job, **step}) == {**kept, **job, **hosts}
    several = {**env, "SLURM_STEP_NUM_TASKS": "2", "PMI_SIZE": "2"}
    assert is_launched(["run", "-n", "2"], several)
    assert without_step(several) == several


def test_who_cannot_talk_to_whom():
    openmpi, mpich = "Open MPI v5.0.11, package: x", "MPICH Version: 5.0.2\nMPICH configure: --x"
    env = {"PMIX_RANK": "0", "SLURM_STEP_NUM_TASKS": "4"}
    assert detect_launch(env).library_mismatch(openmpi) is None
    assert "use srun --mpi=pmi2" in detect_launch(env).library_mismatch(mpich)
    assert detect_launch(env).library_mismatch(mpich + " --with-pmix") is None
    hydra = {"PMI_SIZE": "4", "PMI_RANK": "0", "MPI_LOCALNRANKS": "4"}
    assert detect_launch(hydra).library_mismatch(mpich) is None
    assert "another MPI" in detect_launch(hydra).library_mismatch(openmpi)
    intel = "Intel(R) MPI Library 2021.18 for Linux* OS\n"
    assert "I_MPI_PMI_LIBRARY" in detect_launch(env).library_mismatch(intel)
    assert detect_launch(hydra).library_mismatch(intel) is None
    own = {**hydra, "I_MPI_HYDRA_UUID": "0279"}
    assert detect_launch(own).library_mismatch(intel) is None
    assert "Intel MPI's mpirun started 4" in detect_launch(own).library_mismatch(openmpi)
    mpirun = {"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "0"}
    assert "another MPI" in detect_launch(mpirun).library_mismatch(intel)
