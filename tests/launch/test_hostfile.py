"""Host lists, batch scripts and what a launcher promises, as far as they need no other host."""

import re
import shutil
import subprocess
import sys

import pytest
from support import ROOT_OF_REPOSITORY

from mpi_gt.cli.main import main
from mpi_gt.errors import UserError
from mpi_gt.launch.brands import BRANDS
from mpi_gt.launch.detect import detect_launch
from mpi_gt.launch.hostfile import hostfile_text, parse_nodes, read_hostfile
from mpi_gt.machine import RankFacts, hosts_allotted, placement_warnings

HOSTFILES = sorted((ROOT_OF_REPOSITORY / "hostfiles").iterdir())
TEMPLATES = sorted((ROOT_OF_REPOSITORY / "scripts" / "batch").iterdir())
BASH = shutil.which("bash")


@pytest.mark.parametrize("path", HOSTFILES, ids=lambda path: path.name)
def test_the_examples_are_host_lists_of_their_brand(path):
    kind, _, size = path.name.partition("-")
    hosts = read_hostfile(path, BRANDS[kind])
    expected = {"one-machine": [16], "four-nodes": [4, 4, 4, 4], "mixed-slots": [8, 4, 4]}
    assert list(hosts.slots.values()) == expected[size]
    (other,) = set(BRANDS) - {kind}
    with pytest.raises(UserError, match="is not for"):
        read_hostfile(path, BRANDS[other])
    assert f"mpi-gt run -n {hosts.total} --hostfile hostfiles/{path.name}" in path.read_text()


@pytest.mark.parametrize("kind", BRANDS)
def test_a_written_host_list_is_read_again(kind, tmp_path, capsys):
    file = tmp_path / "hosts"
    words = ["hostfile", "--nodes", "h1:4, h2.example.org:2", "--mpi", kind]
    assert main([*words, "--out", str(file)]) == 0
    assert read_hostfile(file, BRANDS[kind]).slots == {"h1": 4, "h2.example.org": 2}
    assert f"mpi-gt run -n 6 --hostfile {file}" in file.read_text()
    assert main(words) == 0
    assert hostfile_text(parse_nodes("h1:4,h2.example.org:2"), kind) in capsys.readouterr().out


@pytest.mark.parametrize("kind", BRANDS)
def test_a_line_a_rank_counts_them(kind, tmp_path):
    file = tmp_path / "nodes"
    file.write_text("h1\nh1\n\nh2  # one only\n")
    hosts = read_hostfile(file, BRANDS[kind])
    assert hosts.slots == {"h1": 2, "h2": 1}
    settled = hosts.settled(BRANDS[kind], tmp_path)
    if kind == "openmpi":  # to which `h2` means as many ranks as h2 has cores
        assert "h2 slots=1" in settled.path.read_text()
    assert read_hostfile(settled.path, BRANDS[kind]).slots == hosts.slots


@pytest.mark.parametrize(
    ("nodes", "kind", "message"),
    [
        ("h1", "openmpi", "NAME:SLOTS"),
        ("h1:x", "mpich", "NAME:SLOTS"),
        ("h1:0", "mpich", "1 slot or more"),
        ("h1:2,h1:2", "mpich", "twice"),
        ("h1:2,-h:3", "openmpi", "no host's name"),
        ("h1:2", "mpch", "did you mean 'mpich'"),
    ],
)
def test_bad_host_lists(nodes, kind, message, capsys):
    assert main(["hostfile", "--nodes", nodes, "--mpi", kind]) == 2
    assert message in capsys.readouterr().err


def test_flags_for_several_hosts(tmp_path):
    file = tmp_path / "hosts"
    file.write_text(hostfile_text({"h1": 2, "h2": 2}, "openmpi"))
    hosts = read_hostfile(file, BRANDS["openmpi"])
    words = " ".join(hosts.flags(BRANDS["openmpi"], 4, {"PYTHONPATH": "x", "HOME": "y"}))
    assert words == f"--hostfile {file} --bind-to none -x PYTHONPATH"
    assert "--map-by slot:OVERSUBSCRIBE" in " ".join(hosts.flags(BRANDS["openmpi"], 5, {}))
    assert hosts.flags(BRANDS["mpich"], 5, {"PYTHONPATH": "x"}) == ["-f", str(file)]


SUBMIT = ["submit", "--nodes", "4", "--ntasks-per-node", "2", "--time", "01:00:00", "--print"]


def printed(capsys, *words):
    assert main([*SUBMIT, *words]) == 0
    return capsys.readouterr().out


def test_submit_writes_a_script(capsys, tmp_path):
    text = printed(capsys, "--", "run", "--problem", "huber:spread=0.1", "--x1", "a b.npy")
    for line in ("--nodes=4", "--ntasks-per-node=2", "--time=01:00:00"):
        assert f"\n#SBATCH {line}\n" in text
    assert f"{sys.executable} -m mpi_gt run -n 8 --out=" in text
    assert "'a b.npy'" in text
    assert "\nsrun --mpi=pmix " in printed(capsys, "--launcher", "pmix", "--", "run")
    elsewhere = printed(capsys, "--", "run", "--out", "/x/y")
    assert "/x/y" in elsewhere
    assert "SLURM_JOB_ID" not in elsewhere
    (tmp_path / "e.toml").write_text("out = 'z'")
    assert "SLURM_JOB_ID" not in printed(capsys, "--", "run", str(tmp_path / "e.toml"))
    requeue = printed(capsys, "--requeue", "--", "run")
    for part in ("--signal=B:USR1@60", " --resume", "scontrol requeue"):
        assert part in requeue
    for script in (text, requeue):
        subprocess.run([BASH, "-n"], input=script, text=True, check=True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "submit what?"),
        (["--", "run", "--iteratons", "5"], "did you mean '--iterations'"),
        (["--", "run", "--algorithm", "dsgd:lr=-1"], "lr"),
        (["--", "run", "-n", "16"], "8 ranks"),
        (["--", "graph", "ring", "-n", "4"], "not for graph"),
        (["--", "run", "--hostfile", "x"], "not for --hostfile"),
        (["--launcher", "pmx", "--", "run"], "did you mean 'pmix'"),
        (["--time", "soon", "--", "run"], "HH:MM:SS"),
        (["--nodes", "0", "--", "run"], "1 or more"),
        (["--requeue", "--", "compare"], "not for compare"),
        (["--sbatch=mem=4G", "--", "run"], "an option of sbatch"),
    ],
)
def test_submit_finds_what_is_wrong_before_it_is_queued(words, message, capsys):
    assert main([*SUBMIT, *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_templates_call_mpi_gt_with_options_it_knows(path, tmp_path):
    """A stand-in for mpi-gt and srun hands the options to `submit --print`, which checks them."""
    text = path.read_text()
    assert "# Change:" in text
    check = f"{sys.executable} -m mpi_gt {' '.join(SUBMIT)} --"
    stand_ins = (
        'mpi-gt() { for word; do shift; [ "$word" = --hostfile ] && skip=1 && continue; '
        f'[ "$skip" ] && skip= || set -- "$@" "$word"; done; {check} "$@"; }}\n'
        'srun() { shift; "$@"; }\n'
    )
    (tmp_path / "nodes").write_text("".join(f"h{i}\n" for i in range(8)))
    slurm = "SLURM_NTASKS=8 SLURM_JOB_ID=5 SLURM_ARRAY_JOB_ID=5 SLURM_ARRAY_TASK_ID=1"
    pbs = f"PBS_O_WORKDIR=. PBS_JOBID=5.x PBS_NODEFILE={tmp_path / 'nodes'}"
    script = f"{stand_ins}{slurm} {pbs}\n{text}"
    done = subprocess.run([BASH], input=script, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert re.search(r"mpi_gt run -n 8 .*--out \S*5\S* --", done.stdout), done.stdout


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


def test_complaints():
    spread = [RankFacts("h1", 4, 1), RankFacts("h2", 4, 1)]
    assert placement_warnings(spread, 2) == []
    (one_host,) = placement_warnings([RankFacts("h1", 4, 1)] * 3, 2)
    assert "all 3 ranks are on h1, though there are 2 hosts" in one_host
    (crowded,) = placement_warnings([RankFacts("h1", 1, 1)] * 2, 1)
    assert "2 ranks share 1 cores" in crowded
    (threads,) = placement_warnings([RankFacts("h1", 4, 8)], 1)
    assert "8 threads" in threads


def test_hosts_allotted(tmp_path):
    (tmp_path / "nodes").write_text("h1\nh1\nh2\n")
    assert hosts_allotted({"PBS_NODEFILE": str(tmp_path / "nodes")}) == 2
    assert hosts_allotted({"SLURM_JOB_NUM_NODES": "4"}) == 4
    assert hosts_allotted({}) == 1
