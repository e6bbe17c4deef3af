"""The brands of mpirun: recognised by what they print, each with the flags that it knows."""

from pathlib import Path

import pytest

from mpi_gt.launchers import brands
from mpi_gt.launchers.brands import BRANDS, UNKNOWN, Wanted, brand_of_version
from mpi_gt.launchers.mpirun import launch
from mpi_gt.launchers.programs import detect_brand

# what `mpirun --version` prints
VERSIONS = {
    "mpirun (Open MPI) 5.0.11\n\nReport bugs to https://www.open-mpi.org/\n": "openmpi",
    "mpirun (Open MPI) 4.1.4\n\nReport bugs to http://www.open-mpi.org/\n": "openmpi",
    "mpiexec (OpenRTE) 4.1.4\n\nReport bugs to http://www.open-mpi.org/\n": "openmpi",
    "HYDRA build details:\n    Version:                                 4.0.2\n": "mpich",
    "HYDRA build details:\n\tVersion:\t5.0.2\n\tCC:\tgcc\n": "mpich",
    "Intel(R) MPI Library for Linux* OS, Version 2021.18.1 Build 20260626 (id: b44796a)\n"
    "Copyright 2003-2026, Intel Corporation.\n": "intelmpi",
    "mpiexec.hydra: not found\n": "unknown",
    "mpiexec version 1.2.12 revision 7ab\n/opt/cray/pals/1.2.12/bin/mpiexec": "craympich",
}  # fmt: skip


@pytest.mark.parametrize("text", VERSIONS)
def test_brands_by_what_their_mpirun_prints(text):
    assert brand_of_version(text).name == VERSIONS[text]


@pytest.fixture
def two_cores(monkeypatch):
    monkeypatch.setattr(brands, "cores", lambda: 2)
    for name in ("SLURM_JOB_ID", "PBS_JOBID", "PBS_ENVIRONMENT"):
        monkeypatch.delenv(name, raising=False)


def test_only_open_mpi_knows_the_flags_of_open_mpi(two_cores):
    assert BRANDS["openmpi"].flags(Wanted(2, 2)) == ["--oversubscribe"]
    assert BRANDS["openmpi"].flags(Wanted(4, 4)) == ["--oversubscribe", "--bind-to", "none"]
    for name in ("mpich", "intelmpi", "craympich"):
        assert BRANDS[name].flags(Wanted(4, 4)) == []
    assert UNKNOWN.flags(Wanted(4, 4)) == []


def test_the_flags_of_a_hostfile(two_cores):
    slots = {"h1": 1, "h2": 1}
    for name, flags in {
        "openmpi": "--hostfile h --map-by slot:OVERSUBSCRIBE --bind-to none -x MPI_GT_HOSTS",
        "mpich": "-f h",
        "intelmpi": "-machinefile h -genvall",
        "craympich": "--ppn 3 --hostfile h",
    }.items():
        wanted = Wanted(6, 3, slots, Path("h"), ("MPI_GT_HOSTS",))
        assert BRANDS[name].flags(wanted) == flags.split()


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        ("", "--bind-to none"),
        ("--mca btl self,tcp", "--bind-to none"),
        ("--bind-to core", ""),
        ("-bind-to=core", ""),
        ("--map-by ppr:4:numa", ""),
        ("--report-bindings --rankfile r", ""),
    ],
)
def test_who_places_the_ranks_himself_gets_no_binding_of_ours(words, flags, two_cores):
    wanted = Wanted(6, 3, {"h1": 3, "h2": 3}, Path("h"), (), tuple(words.split()))
    assert BRANDS["openmpi"].flags(wanted) == ["--hostfile", "h", *flags.split()]


def test_hosts_with_enough_cores_are_bound_as_the_mpi_wants(two_cores):
    wanted = Wanted(4, 2, {"h1": 2, "h2": 2}, Path("h"))
    assert BRANDS["openmpi"].flags(wanted) == ["--hostfile", "h"]


def test_ranks_that_wait_let_others_run_where_cores_are_few(two_cores):
    """Without, an exchange of Intel MPI's with four ranks on two cores takes over 10 ms."""
    assert BRANDS["intelmpi"].settings(2) == {}
    assert BRANDS["intelmpi"].settings(4)["I_MPI_THREAD_YIELD"] == "3"
    assert "OMPI_MCA_mpi_yield_when_idle" not in BRANDS["openmpi"].settings(2)
    assert BRANDS["openmpi"].settings(4)["OMPI_MCA_mpi_yield_when_idle"] == "1"


def test_the_program_that_gets_the_signals(tmp_path):
    """Intel's mpirun is a script: SIGUSR1 ends it, and its ranks would run on."""
    mpirun = tmp_path / "mpirun"
    for brand in (*BRANDS.values(), UNKNOWN):
        assert brand.program(mpirun) == mpirun
    (tmp_path / "mpiexec.hydra").touch()
    assert BRANDS["intelmpi"].program(mpirun) == tmp_path / "mpiexec.hydra"
    assert BRANDS["mpich"].program(mpirun) == mpirun


def test_intel_mpi_in_a_job(two_cores, monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    assert BRANDS["intelmpi"].settings(2) == {"I_MPI_HYDRA_BOOTSTRAP": "slurm"}


SCRIPT = """#!/bin/sh
exec mpi-gt-test-hydra "$@"
"""
PROGRAM = """#!/bin/sh
test "$1" = --version && echo "Intel(R) MPI Library for Linux* OS, Version 2021.18.1" && exit
echo "$I_MPI_THREAD_YIELD $*" > {}
"""


def test_an_mpirun_that_looks_for_its_programs_on_the_path(tmp_path, monkeypatch, capsys):
    """Intel MPI's is a script, and its folder need not be on the PATH: that of a venv is not."""
    folder, said = tmp_path / "bin", tmp_path / "said"
    folder.mkdir()
    for name, text in {"mpirun": SCRIPT, "mpi-gt-test-hydra": PROGRAM.format(said)}.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o700)
    assert detect_brand(folder / "mpirun").name == "intelmpi"
    monkeypatch.setattr("mpi_gt.launchers.programs.find_mpirun", lambda: folder / "mpirun")
    monkeypatch.delenv("I_MPI_THREAD_YIELD", raising=False)
    assert launch(["doctor"], 5000, None) == 1  # no rank was started that leaves an exit code
    assert said.read_text().startswith("3 -n 5000 ")
    assert "mpirun ended with exit code 0" in capsys.readouterr().err
