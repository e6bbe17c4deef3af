"""The options for the launcher: which program, its own options, hosts, variables that travel."""

import pytest

from mpi_gt.cli.main import main
from mpi_gt.cli.parser import parse
from mpi_gt.errors import UserError
from mpi_gt.launchers import programs, srun
from mpi_gt.launchers.brands import BRANDS, Wanted
from mpi_gt.launchers.mpirun import launcher_command
from mpi_gt.launchers.options import LaunchOptions, launch_options

COMMANDS = ["run", "compare", "sweep", "profile", "bench", "scale", "doctor", "resume", "reproduce"]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("args", ["--launcher-args=--map-by core", "--mpirun-args=--map-by core"])
def test_every_command_that_starts_ranks_takes_them(command, args):
    what = {"resume": ["dir"], "reproduce": ["huber"]}.get(command, [])
    words = [command, *what, "--launcher=srun", args, "--hostfile=h", "--export=FOO=1"]
    options = LaunchOptions.of(parse(words)[1])
    assert options == ("h", ("--map-by", "core"), "srun", ("FOO=1",))
    assert options.flag == "--launcher"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--launcher", "mpirunn"], "did you mean 'mpirun'"),
        (["--launcher", "/no/such/mpirun"], "there is no program"),
        (["--launcher-args='"], "No closing quotation"),
        (["--export", "A-B"], "names of variables"),
        (["--export", "MPI_GT_NO_SUCH"], "no variable MPI_GT_NO_SUCH is set"),
        (["--launcher", "srun"], "there is no srun here"),
    ],
)
def test_wrong_options_end_before_anything_starts(words, message, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(srun.shutil, "which", lambda name, **options: None)
    monkeypatch.setattr(programs, "find_mpirun", lambda *names: tmp_path / "mpirun")
    monkeypatch.setattr(programs, "detect_brand", lambda mpirun: BRANDS["openmpi"])
    monkeypatch.setattr(programs, "brand_of_library", lambda: BRANDS["openmpi"])
    assert main(["run", "-n", "2", "--iterations", "1", "--out", "run", *words]) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_variables_that_travel(tmp_path):
    env = {"PYTHONPATH": "p", "MPI_GT_DATA": "d", "HOME": "h", "MY_A": "1", "MY_B": "2", "FOO": "1"}
    assert LaunchOptions().sent(env) == ("MPI_GT_DATA", "PYTHONPATH")
    kernels = {"GLIBC_TUNABLES": "", "NPY_DISABLE_CPU_FEATURES": "", "OPENBLAS_CORETYPE": "Haswell"}
    assert LaunchOptions().sent(kernels) == tuple(kernels)  # other ones give other last digits
    options = LaunchOptions(export=("MY_*", "FOO=1"))
    assert options.assigned() == {"FOO": "1"}
    assert options.sent(env) == ("FOO", "MPI_GT_DATA", "MY_A", "MY_B", "PYTHONPATH")
    words = launcher_command(
        tmp_path / "mpirun", BRANDS["openmpi"], 2, None, {**env, "MPI_GT_HOSTS": "2"}, options
    )
    assert "-x MY_A -x MY_B" in " ".join(words)
    alone = launcher_command(tmp_path / "mpirun", BRANDS["openmpi"], 2, None, env, options)
    assert "-x" not in alone  # on this host there is nothing to send


@pytest.mark.parametrize("words", ["--host h1:4,h2:4", "-H h1:4", "--hostfile=h --map-by node"])
def test_hosts_among_the_options_of_the_launcher(words, tmp_path, monkeypatch):
    """Open MPI's --oversubscribe would put all ranks on the first of them."""
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    options = LaunchOptions(words=tuple(words.split()))
    assert options.names_hosts
    env = {"MPI_GT_DATA": "d"}
    found = launcher_command(tmp_path / "mpirun", BRANDS["openmpi"], 8, None, env, options)
    assert "--oversubscribe" not in found
    assert " ".join(found).endswith(f"-x MPI_GT_DATA {words}")
    assert not LaunchOptions(words=("--map-by", "host")).names_hosts


def test_the_options_of_python_may_be_lists(tmp_path):
    given = {"launcher_args": ["--map-by", "a b"], "export": ["A", "B=1"], "hostfile": tmp_path}
    options = launch_options({**given, "n": 4})
    assert options.words == ("--map-by", "a b")
    assert options.export == ("A", "B=1")
    assert options.arguments()[0] == "--launcher-args=--map-by 'a b'"
    assert launch_options({"mpirun_args": "-x Y"}).words == ("-x", "Y")


SRUN = srun.Srun("srun", "srun", library=BRANDS["openmpi"], kinds=("none", "pmi2", "pmix_v4"))


def test_the_flags_of_srun():
    assert SRUN.flags(Wanted(4, 2))[:3] == ["--mpi=pmix", "--kill-on-bad-exit=1", "--export=ALL"]
    mine = SRUN.flags(Wanted(4, 2, words=("--mpi=pmix_v4", "--export=NONE")))
    assert mine == ["--kill-on-bad-exit=1", "--quit-on-interrupt"]
    on_hosts = Wanted(4, 2, {"h1": 4}, srun.Path("h"))
    assert "--distribution=arbitrary" in SRUN.flags(on_hosts)
    assert SRUN.variables(srun.Path("h")) == {"SLURM_HOSTFILE": "h"}
    assert SRUN.settings(1)["PMIX_MCA_psec"] == "native"
    without = srun.Srun("srun", "srun", library=BRANDS["openmpi"], kinds=("none", "pmi2"))
    with pytest.raises(UserError, match="--launcher mpirun"):
        without.flags(Wanted(4, 2))


def test_srun_gets_no_settings_of_mpirun(monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    intel = srun.Srun("srun", "srun", library=BRANDS["intelmpi"])
    assert "I_MPI_HYDRA_BOOTSTRAP" not in intel.settings(9999)
    assert intel.settings(9999)["I_MPI_PIN"] == "0"
    assert not any(name.startswith("PRTE_MCA") for name in SRUN.settings(9999))


def test_without_mpirun_srun_starts_the_ranks(monkeypatch, tmp_path):
    program = tmp_path / "srun"
    program.write_text("#!/bin/sh\nprintf 'types are...\\n\\tnone\\n\\tcray_shasta\\n'\n")
    program.chmod(0o755)
    monkeypatch.setattr(programs.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    monkeypatch.setattr(programs, "brand_of_library", lambda: BRANDS["craympich"])
    path, brand = programs.find_launcher(None)
    assert path == program
    assert brand.kinds == ("none", "cray_shasta")
    assert brand.flags(Wanted(2, 2))[0] == "--mpi=cray_shasta"
