"""`mpi-gt submit` and the templates of batch scripts. A real Slurm is in tests/cluster."""

import json
import re
import shlex
import shutil
import subprocess
import sys

import pytest
from support import ROOT_OF_REPOSITORY

from mpi_gt.cli.main import main
from mpi_gt.launchers import programs
from mpi_gt.launchers.batch.job import parse_time
from mpi_gt.launchers.brands import BRANDS

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
    for part in ("--signal=B:USR1@60", "--checkpoint-minutes=10 --resume", "scontrol requeue"):
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
        (["--requeue", "--", "bench"], "not for bench"),
        (["--requeue", "--signal", "3600", "--", "run"], "more --time"),
        (["--requeue", "--signal", "0", "--", "run"], "[1, 65535]"),
        (["--signal", "60", "--", "run"], "goes with --requeue"),
        (["--requeue", "--like", "none", "--", "run"], "not the directory of a run"),
        (["--prelude", "missing.sh", "--", "run"], "missing.sh"),
        (["--export", "A-B", "--", "run"], "names of variables"),
        (["--export", "", "--", "run"], "not nothing"),
        (["--export", "NONE,A", "--", "run"], "beside NONE"),
        (["--export", "A=1 2", "--", "run"], "--prelude"),
        (["--export", "MY_*", "--", "run"], "no patterns"),
        (["--array", "4-1", "--", "run", "--seed", "%a"], "numbers and ranges"),
        (["--array", "0-4", "--", "run"], "%a in the command"),
        (["--array", "0-4", "--", "run", "--seed", "%a", "--out", "x"], "put %a into --out"),
        (["--array", "0-4", "--", "run", "--seed", "%a", "--out=x"], "put %a into --out"),
        (["--array", "0-4", "--", "reproduce", "huber", "--seed", "%a"], "put %a into --out"),
        (["--system", "pbs", "--array", "1,3", "--", "run", "--seed", "%a"], "one range for PBS"),
        (["--system", "pbs", "--time", "0", "--", "run"], "more than 0"),
        (["--", "scale", "--out", ""], "the name of a directory"),
        (["--array", "0-4", "--", "run", "--algorithm", "gt:lr=%a"], "lr"),
        (["--hosts", "1+2", "--ranks-per-host", "4", "--", "run"], "numbers of parts"),
        (["--hosts", "1+2", "--ranks-per-host", "4+2", "--", "run"], "--launcher pmix"),
        (["--launcher", "pmix", "--", "run", "--launcher", "srun"], "no --launcher beside it"),
        (["--system", "flux", "--", "bench", "--launcher-args=-x A"], "flux run starts the ranks"),
        (["--system", "pbss", "--", "run"], "did you mean 'pbs'"),
        (["--system", "pbs", "--requeue", "--", "run"], "for Slurm"),
        (["--system", "flux", "--array", "0-1", "--", "run", "--seed", "%a"], "no arrays"),
        (["--", "scale", "-n", "4,16"], "8 ranks"),
        (["--", "bench", "--sizes", "x"], "sizes"),
        (["--sbatch=mem=4G", "--", "run"], "an option of sbatch"),
    ],
)
def test_submit_finds_what_is_wrong_before_it_is_queued(words, message, capsys):
    assert main([*SUBMIT, *words]) == 2
    assert message in capsys.readouterr().err


COMMANDS = {
    "run": [], "compare": [], "sweep": [], "profile": [], "bench": [], "doctor": [],
    "scale": [], "reproduce": ["huber"],
}  # fmt: skip


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("system", ["slurm", "pbs", "flux"])
def test_every_command_that_runs_ranks_can_be_a_job(name, system, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(programs, "brand_of_library", lambda: BRANDS["openmpi"])
    text = printed(capsys, "--system", system, "--", name, *COMMANDS[name])
    ranks = "2,4,8" if name == "scale" else "8"
    assert f"{PYTHON} -m mpi_gt {name} -n {ranks}" in text
    subprocess.run([BASH, "-n"], input=text, text=True, check=True)
    assert not list(tmp_path.iterdir())


def test_a_prelude_an_array_and_variables(capsys, tmp_path):
    (tmp_path / "p.sh").write_text("module load openmpi")
    options = ["--prelude", str(tmp_path / "p.sh"), "--array", "0-4%2", "--export", "ALL,A=1"]
    text = printed(capsys, *options, "--", "run", "--seed", "%a", "--algorithm", "gt:lr=0.%a1")
    for part in (
        "#SBATCH --array=0-4%2\n", "#SBATCH --export=ALL,A=1\n", "\nmodule load openmpi\n",
        ' --seed "$SLURM_ARRAY_TASK_ID"', 'gt:lr=0."$SLURM_ARRAY_TASK_ID"1',
        '--out="runs/$SLURM_ARRAY_JOB_ID-$SLURM_ARRAY_TASK_ID"', "mpi-gt-%A-%a.log",
    ):  # fmt: skip
        assert part in text
    subprocess.run([BASH, "-n"], input=text, text=True, check=True)
    by_srun = printed(capsys, "--launcher", "srun", "--", "bench")
    assert "mpi_gt bench -n 8 --out=" in by_srun
    assert " --launcher=srun" in by_srun


@pytest.mark.parametrize("how", ["--launcher=srun", "--launcher=pmix", "--system=flux"])
def test_a_stacked_run_is_one_process_without_a_launcher(how, capsys, monkeypatch):
    monkeypatch.setattr(programs, "brand_of_library", lambda: BRANDS["openmpi"])
    text = printed(capsys, how, "--", "run", "--stacked")
    assert f"\n{PYTHON} -m mpi_gt run -n 8 --out=" in text
    assert "srun" not in text


def test_parts_of_a_heterogeneous_job(capsys):
    size = ["--hosts", "1+2", "--ranks-per-host", "4+2", "--launcher", "pmi2"]
    text = printed(capsys, *size, "--", "run")
    assert text.index("--nodes=1\n") < text.index("#SBATCH hetjob\n") < text.index("--nodes=2\n")
    assert "srun --het-group=0-1 --mpi=pmi2" in text
    assert "run -n 8 " in text


def test_the_signal_comes_early_enough_for_slow_iterations(capsys, tmp_path):
    """Eight ranks agree within eight iterations where to stop; twice that, and a minute."""
    facts = {"status": "finished", "seconds_per_iteration": 2.5}
    (tmp_path / "run.json").write_text(json.dumps(facts))
    text = printed(capsys, "--requeue", "--like", str(tmp_path), "--", "run")
    assert "--signal=B:USR1@100\n" in text
    text = printed(capsys, "--requeue", "--signal", "300", "--", "run", "--checkpoint-every", "5")
    assert "--signal=B:USR1@300\n" in text
    assert "--checkpoint-every 5" in text
    assert "--checkpoint-minutes" not in text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 5400), ("1:30", 90), ("01:00:00", 3600), ("1-0", 86400), ("2-01:30", 178200),
     ("1-00:00:05", 86405)],
)  # fmt: skip
def test_time_limits_are_read_as_sbatch_does(text, seconds):
    assert parse_time(text) == seconds


def test_a_sweep_is_submitted_by_its_own_command(capsys, tmp_path):
    sweep = ["sweep", "--stacked", "-n", "2", "--iterations", "2", "--algorithms", "gt"]
    out = tmp_path / "sweep"
    assert main([*sweep, "--over", "graph=ring,complete", "--quiet", "--out", str(out)]) == 0
    capsys.readouterr()
    assert main([*SUBMIT, "--", "resume", str(out)]) == 2
    assert "holds a sweep" in capsys.readouterr().err


PBS = ["--system", "pbs"]


def test_the_scripts_of_pbs_and_flux(capsys, monkeypatch):
    monkeypatch.setattr(programs, "brand_of_library", lambda: BRANDS["openmpi"])
    pbs = printed(capsys, "--system", "pbs", "--", "run")
    for part in (
        "#PBS -l select=4:ncpus=2:mpiprocs=2\n", "#PBS -l walltime=01:00:00\n", "#PBS -V\n",
        'cd "$PBS_O_WORKDIR"', '--hostfile="$PBS_NODEFILE"', '--out="runs/${PBS_JOBID%%.*}"',
    ):  # fmt: skip
        assert part in pbs
    assert "--hostfile" not in printed(capsys, "--system", "pbs", "--", "run", "--stacked")
    assert "#PBS -V\n#PBS -v A=1\n" in printed(capsys, *PBS, "--export", "ALL,A=1", "--", "run")
    assert "#PBS -V" not in printed(capsys, *PBS, "--export", "NONE", "--", "run")
    assert "--env" not in printed(capsys, "--system", "flux", "--export", "ALL", "--", "run")
    flux = printed(capsys, "--system", "flux", "--export", "HOME,A=1", "--", "run")
    for part in (
        "#flux: --nodes=4\n", "#flux: --nslots=8\n", "#flux: --time-limit=3600s\n",
        "#flux: --env=-*\n", "#flux: --env=A=1\n", "flux run --nodes=4 --ntasks=8 -o pmi=pmix ",
    ):  # fmt: skip
        assert part in flux


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
