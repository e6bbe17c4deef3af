"""The shipped batch templates, and `mpi-gt submit`, under a real Slurm of four nodes."""

import json
import shlex

import pytest
from common import LONG, OPTIONS, TEMPLATES, assert_same_bits, facts, iteration
from namespaces import wait_until
from support import temporary_files

from mpi_gt.algorithms import ALGORITHMS

WAYS = {
    "mpirun, Open MPI": ("slurm-mpirun.sbatch", "openmpi"),
    "mpiexec, MPICH": ("slurm-mpirun.sbatch", "mpich"),
    "srun --mpi=pmix, Open MPI": ("slurm-srun-pmix.sbatch", "openmpi"),
    "srun --mpi=pmi2, MPICH": ("slurm-srun-pmi2.sbatch", "mpich"),
}
SIZE = ["--nodes=4", "--ntasks-per-node=2"]


@pytest.fixture
def queue(slurm, hosts, tmp_path):
    """A function that submits a template with an MPI and returns the number of the job."""

    def queue(mpi, template, *options, sbatch=SIZE, env=None):
        settings = {**hosts.environment(mpi.name), "MPI_GT_BIN": str(mpi.bin), **(env or {})}
        return slurm.sbatch(*sbatch, TEMPLATES / template, *options, cwd=tmp_path, env=settings)

    return queue


@pytest.fixture
def log(tmp_path):
    return lambda job: (tmp_path / f"mpi-gt-{job}.log").read_text()


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_launch(way, request, slurm, queue, log, reference, tmp_path):
    template, name = WAYS[way]
    job = queue(request.getfixturevalue(name), template, *OPTIONS)
    assert slurm.wait(job) == "COMPLETED", log(job)
    run = tmp_path / "runs" / job
    assert facts(run)["hosts"] == ["h1", "h1", "h2", "h2", "h3", "h3", "h4", "h4"]
    assert_same_bits(run, reference(*OPTIONS))


@pytest.mark.parametrize(
    ("template", "name", "cure"),
    [
        ("slurm-srun-pmi2.sbatch", "openmpi", "use srun --mpi=pmix"),
        ("slurm-srun-pmix.sbatch", "mpich", "use srun --mpi=pmi2"),
    ],
)
def test_srun_of_the_wrong_kind(template, name, cure, request, slurm, queue, log, tmp_path):
    """Undetected, Open MPI would make eight runs of one rank, and MPICH abort eight times."""
    job = queue(request.getfixturevalue(name), template, *OPTIONS)
    assert slurm.wait(job) == "FAILED", log(job)
    assert slurm.show(job)["ExitCode"] == "2:0", log(job)
    assert log(job).count("mpi-gt: error:") == 1, log(job)
    assert "started 8 processes, but every process is a world of its own" in log(job)
    assert cure in log(job)
    assert not (tmp_path / "runs").exists()


def test_doctor_in_a_job(openmpi, slurm, hosts, log, tmp_path):
    command = shlex.join(openmpi.mpi_gt("doctor"))
    lines = [
        "#!/bin/bash",
        command,
        f"PMIX_MCA_psec=native srun --mpi=pmix {command}",
        f"srun {command}; echo exit code $?",
    ]
    (tmp_path / "job").write_text("\n".join(lines) + "\n")
    options = [*SIZE, "--output=mpi-gt-%j.log"]
    job = slurm.sbatch(*options, "job", cwd=tmp_path, env=hosts.environment("openmpi"))
    assert slurm.wait(job) == "COMPLETED", log(job)
    alone, ranks, wrong = log(job).split("\nPython")
    assert "pmix" in alone
    assert "no problems found" in alone
    assert "8 on 4 hosts" in ranks
    assert "srun --mpi=pmix" in ranks
    assert "SLURM_JOB_NODELIST" in ranks
    assert wrong.count("problem: srun started 8 processes") == 1, log(job)
    assert "exit code 2" in wrong


@pytest.mark.parametrize(("name", "kind"), [("openmpi", "pmix"), ("mpich", "pmi2")])
def test_a_run_in_the_shell_of_an_interactive_step(
    name, kind, request, slurm, hosts, reference, tmp_path
):
    """The shell has the variables of a single rank, which are not for the mpirun typed there."""
    mpi = request.getfixturevalue(name)
    run = shlex.join(mpi.mpi_gt("run", "-n", "8", *OPTIONS, "--out", str(tmp_path / "run")))
    size = ["--nodes=4", "--ntasks-per-node=2"]
    step = ["srun", "--overlap", "--nodes=1", "--ntasks=1", f"--mpi={kind}", "bash", "-c"]
    env = {**hosts.environment(name), "PMIX_MCA_psec": "native"}
    done = slurm("salloc", *size, *step, run, cwd=tmp_path, env=env, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(set(facts(tmp_path / "run")["hosts"])) == 4
    assert_same_bits(tmp_path / "run", reference(*OPTIONS))


JOB = """\
#!/bin/bash
{run} run -n 8 --launcher srun {options} --out run || exit
{run} bench -n 4 --launcher srun --graphs ring --sizes 160 --exchanges neighbor --seconds 0.1 \\
    --quiet --out bench || exit
{run} run -n 5 --launcher srun --hostfile hosts --iterations 5 --quiet --out placed
"""


@pytest.mark.parametrize("name", ["openmpi", "mpich"])
def test_srun_as_the_launcher(name, request, slurm, hosts, log, reference, tmp_path):
    mpi = request.getfixturevalue(name)
    line = {"openmpi": "{} slots={}\n", "mpich": "{}:{}\n"}[name]
    (tmp_path / "hosts").write_text(line.format("h4", 2) + line.format("h2", 3))
    text = JOB.format(run=shlex.join(mpi.mpi_gt()), options=shlex.join(OPTIONS))
    (tmp_path / "job").write_text(text)
    options = ["--nodes=4", "--ntasks=8", "--cpus-per-task=2", "--output=mpi-gt-%j.log"]
    job = slurm.sbatch(*options, "job", cwd=tmp_path, env=hosts.environment(name))
    assert slurm.wait(job) == "COMPLETED", log(job)
    assert facts(tmp_path / "run")["hosts"] == ["h1", "h1", "h2", "h2", "h3", "h3", "h4", "h4"]
    assert_same_bits(tmp_path / "run", reference(*OPTIONS))
    assert json.loads((tmp_path / "bench" / "bench.json").read_text())["rows"]
    assert facts(tmp_path / "placed")["hosts"] == ["h4", "h4", "h2", "h2", "h2"]
    assert not list(tmp_path.glob(".mpi-gt*"))


@pytest.mark.parametrize(("name", "code"), [("USR1", 85), ("KILL", 137)])
def test_the_ranks_of_srun_end_with_the_front_end(name, code, openmpi, slurm, hosts, log, tmp_path):
    run = shlex.join(openmpi.mpi_gt("run", "-n", "8", "--launcher", "srun", *LONG))
    lines = [
        "#!/bin/bash",
        f"{run} --iterations 1000000 --out run &",
        "until [ -s run/metrics.csv ]; do sleep 0.1; done",
        f"kill -{name} $!",
        "wait $!; echo exit code $?",
        "for i in {1..100}; do [ $(squeue -hs -j $SLURM_JOB_ID | grep -vc batch) = 0 ] && exit",
        "sleep 0.2; done; squeue -s; exit 1",
    ]
    (tmp_path / "job").write_text("\n".join(lines) + "\n")
    options = [*SIZE, "--output=mpi-gt-%j.log"]
    job = slurm.sbatch(*options, "job", cwd=tmp_path, env=hosts.environment("openmpi"))
    assert slurm.wait(job) == "COMPLETED", log(job)
    assert f"exit code {code}" in log(job)


def test_submit(openmpi, slurm, hosts, reference, tmp_path):
    size = ["--hosts", "4", "--ranks-per-host", "2", "--time", "00:10:00"]
    words = openmpi.mpi_gt("submit", *size, "--sbatch=--comment=ours", "--", "run", *OPTIONS)
    done = slurm(*words, cwd=tmp_path, env=hosts.environment("openmpi"))
    job = done.stdout.split()[-1]
    assert slurm.wait(job) == "COMPLETED", (tmp_path / f"mpi-gt-{job}.log").read_text()
    assert slurm.show(job)["Comment"] == "ours"
    assert_same_bits(tmp_path / "runs" / job, reference(*OPTIONS))
    refused = openmpi.mpi_gt("submit", *size, "--sbatch=--partition=none", "--", "run")
    done = slurm(*refused, cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert "sbatch refused the job" in done.stderr


def submitted(slurm, hosts, mpi, *words, cwd):
    """Submit by `mpi-gt submit` and return the number of the job."""
    env = {**hosts.environment(mpi.name), **temporary_files()}
    return slurm(
        *mpi.mpi_gt("submit", "--time", "00:10:00", *words), cwd=cwd, env=env
    ).stdout.split()[-1]


def test_submit_an_array_with_a_prelude(openmpi, slurm, hosts, tmp_path):
    (tmp_path / "prelude").write_text("export MPI_GT_MINE=1\necho the prelude was here\n")
    size = ["--hosts", "2", "--ranks-per-host", "2", "--array", "3,7", "--prelude", "prelude"]
    options = ["--iterations", "10", "--quiet", "--seed", "%a"]
    job = submitted(slurm, hosts, openmpi, *size, "--", "run", *options, cwd=tmp_path)
    slurm.wait_for_all()
    for task in (3, 7):
        assert facts(tmp_path / "runs" / f"{job}-{task}")["config"]["seed"] == task
        assert "the prelude was here" in (tmp_path / f"mpi-gt-{job}-{task}.log").read_text()


@pytest.mark.parametrize(("name", "launcher"), [("openmpi", "pmix"), ("mpich", "pmi2")])
def test_submit_a_heterogeneous_job(
    name, launcher, request, slurm, hosts, log, reference, tmp_path
):
    mpi = request.getfixturevalue(name)
    size = ["--hosts", "1+2", "--ranks-per-host", "4+2", "--launcher", launcher]
    job = submitted(slurm, hosts, mpi, *size, "--", "run", *OPTIONS, "--out", "run", cwd=tmp_path)
    slurm.wait_for_all()
    assert sorted(facts(tmp_path / "run")["hosts"]) == ["h1"] * 4 + ["h2"] * 2 + ["h3"] * 2, log(
        job
    )
    assert_same_bits(tmp_path / "run", reference(*OPTIONS))


def test_submit_a_run_by_srun_that_is_queued_again(openmpi, slurm, hosts, log, reference, tmp_path):
    size = ["--hosts", "4", "--ranks-per-host", "2", "--requeue", "--launcher", "srun"]
    job = submitted(slurm, hosts, openmpi, *size, "--", "run", *LONG, cwd=tmp_path)
    run = tmp_path / "runs" / job
    wait_until(lambda: iteration(run) >= 40, 60, "iteration 40")
    slurm("scancel", "--batch", "--signal=USR1", job)
    assert slurm.wait(job) == "COMPLETED", log(job)
    assert slurm.show(job)["Restarts"] == "1", log(job)
    assert_same_bits(run, reference(*LONG))


@pytest.mark.parametrize("over", ["seeds", "algorithms"])
def test_a_job_array(over, openmpi, slurm, queue, tmp_path):
    sbatch = ["--nodes=2", "--ntasks-per-node=2", "--array=0-1"]
    options = ["--iterations", "10", "--quiet"]
    job = queue(openmpi, "slurm-array.sbatch", *options, sbatch=sbatch, env={"OVER": over})
    slurm.wait_for_all()
    configs = [facts(tmp_path / "runs" / f"{job}-{task}")["config"] for task in (0, 1)]
    if over == "seeds":
        assert [config["seed"] for config in configs] == [0, 1]
    else:
        assert [config["algorithm"] for config in configs] == ["gt-adaptive", "gt"]
        assert {config["algorithm"] for config in configs} <= set(ALGORITHMS)


def test_the_time_limit_s_signal_requeues_and_no_bit_is_lost(
    openmpi, slurm, queue, log, reference, tmp_path
):
    job = queue(openmpi, "slurm-requeue.sbatch", *LONG)
    run = tmp_path / "runs" / job
    wait_until(lambda: iteration(run) >= 40, 60, "iteration 40")
    slurm("scancel", "--batch", "--signal=USR1", job)  # as Slurm itself does before the limit
    assert slurm.wait(job) == "COMPLETED", log(job)
    assert slurm.show(job)["Restarts"] == "1", log(job)
    assert_same_bits(run, reference(*LONG))


def test_a_lost_node(openmpi, slurm, hosts, queue, log, reference, tmp_path):
    """Slurm queues the job again, and the run continues on the hosts that are left."""
    sbatch = ["--nodes=2", "--ntasks-per-node=4"]
    job = queue(openmpi, "slurm-requeue.sbatch", *LONG, "--checkpoint-every", "50", sbatch=sbatch)
    run = tmp_path / "runs" / job
    wait_until(lambda: iteration(run) >= 40, 60, "iteration 40")
    assert slurm.show(job)["NodeList"] == "h[1-2]"
    hosts.cut("h2")
    try:
        assert slurm.wait(job, 180) == "COMPLETED", log(job)
    finally:
        hosts.mend("h2")
    assert slurm.show(job)["Restarts"] != "0", log(job)
    assert "h2" not in facts(run)["hosts"]
    assert_same_bits(run, reference(*LONG))
