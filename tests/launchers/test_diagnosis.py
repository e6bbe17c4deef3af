"""What doctor makes of the facts of ranks and hosts, without any ranks."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from mpi_gt.cli.main import main
from mpi_gt.errors import UserError
from mpi_gt.launchers import programs
from mpi_gt.launchers.diagnosis import Report, describe_hosts, diagnose, show_pairs
from mpi_gt.launchers.host_facts import HostFacts, filesystem, host_facts, show_cpus
from mpi_gt.launchers.links import MOST_HOSTS, Pair, pairs_of, slow_hosts
from mpi_gt.memory import show_bytes

GB = 1 << 30
GOOD = HostFacts(0, "h1", (0, 1), 2, None, None, "nfs4", "/home", 9 * GB, True, (), ("tcp",))


def hosts(**changes):
    """Return the facts of two ranks on each of two hosts; those of h2 are changed."""
    ranks = [replace(GOOD, rank=rank, host=f"h{1 + rank // 2}") for rank in range(4)]
    return [replace(each, **changes) if each.host == "h2" else each for each in ranks]


def pairs(slow=None, factor=1.0, offset=0.0):
    """Return what was measured between four hosts, of which one may be slow."""
    found = []
    for i in range(1, 5):
        for j in range(i + 1, 5):
            much = factor if slow in (f"h{i}", f"h{j}") else 1.0
            found.append(Pair((f"h{i}", f"h{j}"), 1e-5 * much, 1e9, offset, 1e-5))
    return found


def test_nothing_is_wrong_with_good_hosts():
    assert diagnose(hosts(), pairs(), "Open MPI") == ([], [])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cpus": (0,)}, "bound to cpus 0, of 2: `mpi-gt run -n N --launcher-args"),
        ({"memory_limit": 100 << 20}, "mpi-gt submit --sbatch=--mem=8G"),
        ({"fabric": ("mlx5_0",)}, "talk by tcp, though there is mlx5_0"),
    ],
)
def test_warnings_say_what_to_type(changes, message):
    problems, warnings = diagnose(hosts(**changes), pairs(), "Open MPI")
    assert problems == []
    assert len(warnings) == 1
    assert message in warnings[0]


def test_a_folder_that_other_hosts_do_not_see_is_a_problem():
    problems, warnings = diagnose(hosts(visible=False), pairs(), "Open MPI")
    assert warnings == []
    assert "h2: the run directory of h1 is another folder there" in problems[0]
    assert "--out" in problems[0]
    assert Report([("a", "b")], problems).show(as_json=False) == 2
    nowhere = [replace(each, visible=False) for each in hosts()]
    assert "no file can be written" in diagnose(nowhere, [], "Open MPI")[0][0]


def test_a_fabric_in_use_is_no_warning():
    found = hosts(fabric=("mlx5_0",), transports=("InfiniBand", "tcp"))
    assert diagnose(found, pairs(), "Open MPI") == ([], [])


def test_bad_places_for_runs_and_clocks():
    ranks = [replace(each, filesystem="tmpfs", free=1 << 20) for each in hosts()]
    _, warnings = diagnose(ranks, pairs(offset=5.0), "Open MPI")
    text = "\n".join(warnings)
    assert "in memory (tmpfs" in text
    assert f"the run directory has {show_bytes(1 << 20)} left" in text
    assert text.count("the clock of") == 3  # of h2, h3 and h4, against h1
    assert "chronyc" in text


def test_a_slow_host_is_named():
    assert slow_hosts(pairs()) == {}
    assert slow_hosts(pairs("h4", 2.0)) == {}
    assert list(slow_hosts(pairs("h4", 20.0))) == ["h4"]
    three = [pair for pair in pairs("h3", 20.0) if "h4" not in pair.hosts]
    assert list(slow_hosts(three)) == ["h3"]


def test_which_ranks_measure():
    assert pairs_of(["h1", "h1", "h2", "h1", "h2", "h3"]) == [
        (0, 1), (2, 4), (0, 2), (0, 5), (2, 5)
    ]  # fmt: skip
    assert len(pairs_of([f"h{i}" for i in range(100)])) == MOST_HOSTS * (MOST_HOSTS - 1) // 2


def test_the_table_of_pairs():
    lines = show_pairs(pairs())
    assert lines[2].split() == ["h1", "h2", "h3", "h4"]
    assert lines[3].split() == ["h1", "-", *["10", "/", "1,000"] * 3]
    assert lines[-1].startswith("clocks, against h1: h2 +0.00 ms")


def test_the_report_for_machines(capsys):
    report = Report([("  h1", "x")], [], ["w"], hosts(), pairs()[:1], {"size": 4})
    assert report.show(as_json=True) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == 1
    assert found["warnings"] == ["w"]
    assert found["pairs"][0]["bandwidth_bytes_per_s"] == 1e9
    assert found["ranks"][3]["host"] == "h2"


def test_doctor_of_one_process_prints_json(capsys, tmp_path):
    assert main(["doctor", "--json", "--out", str(tmp_path / "runs" / "a")]) in (0, 2)
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == 1
    assert found["ranks"][0]["filesystem"] != "unknown"


def test_file_systems_by_their_longest_mount(tmp_path):
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "22 1 0:20 / / rw - ext4 /dev/a rw\n"
        "23 22 0:21 / /home rw,nosuid shared:1 - nfs4 server:/home rw\n"
        "24 22 0:22 / /my\\040disk rw - lustre x rw\n"
    )
    assert filesystem(Path("/home/a/b"), mounts) == ("nfs4", "/home")
    assert filesystem(Path("/homes"), mounts) == ("ext4", "/")
    assert filesystem(Path("/my disk/x"), mounts) == ("lustre", "/my disk")
    assert filesystem(Path("/x"), tmp_path / "missing") == ("unknown", "")


def test_the_facts_of_this_host(tmp_path):
    (tmp_path / "token").touch()
    own = host_facts(3, tmp_path, "token")
    assert own.rank == 3
    assert own.visible
    assert own.free > 0
    assert not host_facts(3, tmp_path, "other").visible
    (host, text), *rest = describe_hosts([own])
    assert host == own.host
    assert not rest
    assert show_cpus(own.cpus) in text


def test_processors_as_ranges():
    assert show_cpus([0, 1, 2, 5, 7, 8]) == "0-2,5,7-8"
    assert show_cpus([]) == ""


def test_without_an_mpirun_srun_starts_the_ranks(tmp_path, monkeypatch, capsys):
    """As on HPE Cray systems with Slurm: `run -n` takes srun there, and doctor says so."""

    def missing(*names):
        raise UserError("no mpirun was found")

    monkeypatch.setattr(programs, "find_mpirun", missing)
    (tmp_path / "srun").write_text("#!/bin/sh\necho pmix; echo pmi2\n")
    (tmp_path / "srun").chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    main(["doctor"])
    told = capsys.readouterr().out
    assert f"{tmp_path}/srun (srun)" in told
    assert "no working mpirun" not in told
