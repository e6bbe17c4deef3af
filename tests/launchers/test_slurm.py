"""`mpi-gt submit` and the templates of batch scripts. A real Slurm is in tests/cluster."""

import re
import shlex
import shutil
import subprocess
import sys

import pytest
from support import ROOT_OF_REPOSITORY

from mpi_gt.cli.main import main

TEMPLATES = sorted((ROOT_OF_REPOSITORY / "scripts" / "batch").iterdir())

BASH = shutil.which("bash")
PYTHON = shlex.quote(sys.executable)
SUBMIT = ["submit", "--hosts", "4", "--ranks-per-host", "2", "--time", "01:00:00", "--print"]


def printed(capsys, *words):
    assert main([*SUBMIT, *words]) == 0
    return capsys.readouterr().out


def test_submit_writes_a_script(capsys, tmp_path):
    text = printed(capsys, "--", "run", "--problem", "huber:spread=0.1", "--x1", "a b.npy")
    for line in ("--nodes=4", "--ntasks-per-node=2", "--time=01:00:00"):
        assert f"\n#SBATCH {line}\n" in text
    assert f"{PYTHON} -m mpi_gt run -n 8 --out=" in text
    assert "'a b.npy'" in text
    assert "\nsrun --mpi=pmix " in printed(capsys, "--launcher", "pmix", "--", "run")
    assert " --kill-on-bad-exit " in printed(capsys, "--launcher", "pmi2", "--", "run")
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


def test_paths_with_spaces(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("sys.executable", "/my own/python")
    text = printed(capsys, "--sbatch=--chdir=/my own", "--", "run")
    assert "\n#SBATCH --chdir='/my own'\n" in text
    assert "'/my own/python' -m mpi_gt run" in text


def test_paths_that_are_no_text(capsysbinary, tmp_path):
    words = ["--out", str(tmp_path / "job"), "--", "run", "--out", "/my own/\udcff"]
    assert main([*SUBMIT, *words]) == 0
    for script in ((tmp_path / "job").read_bytes(), capsysbinary.readouterr().out):
        assert b"'/my own/\xff'" in script


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
        (["--hosts", "0", "--", "run"], "1 or more"),
        (["--requeue", "--", "compare"], "not for compare"),
        (["--sbatch=mem=4G", "--", "run"], "an option of sbatch"),
    ],
)
def test_submit_finds_what_is_wrong_before_it_is_queued(words, message, capsys):
    assert main([*SUBMIT, *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_templates_call_mpi_gt_with_options_it_knows(path, tmp_path):
    """Stand-ins for mpi-gt and srun pass the options to `submit --print`, which checks them."""
    text = path.read_text()
    assert "\n# Adapt the #" in text
    check = f"{PYTHON} -m mpi_gt {' '.join(SUBMIT)} --"
    stand_ins = (
        'mpi-gt() { for word; do shift; [ "$word" = --hostfile ] && skip=1 && continue; '
        f'[ "$skip" ] && skip= || set -- "$@" "$word"; done; {check} "$@"; }}\n'
        'srun() { while [ "${1#--}" != "$1" ]; do shift; done; "$@"; }\n'
    )
    (tmp_path / "nodes").write_text("".join(f"h{i}\n" for i in range(8)))
    slurm = "SLURM_NTASKS=8 SLURM_JOB_ID=5 SLURM_ARRAY_JOB_ID=5 SLURM_ARRAY_TASK_ID=1"
    pbs = f"PBS_O_WORKDIR=. PBS_JOBID=5.x PBS_NODEFILE={tmp_path / 'nodes'}"
    script = f"{stand_ins}{slurm} {pbs}\n{text}"
    done = subprocess.run([BASH], input=script, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert re.search(r"mpi_gt run -n 8 .*--out \S*5\S* --", done.stdout), done.stdout
