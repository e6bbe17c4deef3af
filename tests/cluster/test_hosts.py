"""Runs over four hosts that share nothing but a disk, started by mpirun through ssh."""

import json
import re
import shutil

from common import (
    HOSTS,
    OPTIONS,
    RANKS,
    TEMPLATES,
    assert_same_bits,
    facts,
)
from namespaces import wait_until

from mpi_gt.launchers.hostfile import parse_hosts
from mpi_gt.rundir.checkpoint_files import latest

SPREAD = [host for host, slots in parse_hosts(HOSTS).items() for _ in range(slots)]


def run_on_hosts(mpi, on_h1, finish, hostfile, out, *options, expect=0):
    words = ["run", "-n", RANKS, "--hostfile", hostfile, *options, "--out", out]
    done = finish(on_h1(mpi, *mpi.mpi_gt(*words)))
    assert done.code == expect, str(done)
    return done


def test_a_run_over_four_hosts_has_the_bits_of_one_machine(
    mpi, on_h1, finish, hostfile, reference, tmp_path
):
    run_on_hosts(mpi, on_h1, finish, hostfile, tmp_path / "run", *OPTIONS)
    assert facts(tmp_path / "run")["hosts"] == SPREAD
    assert_same_bits(tmp_path / "run", reference(*OPTIONS))
    assert {path.name for path in tmp_path.iterdir()} == {"hosts", "run"}  # nothing left over


def test_shared_memory_within_hosts_and_messages_between_them(
    mpi, on_h1, finish, hostfile, reference, tmp_path
):
    options = [*OPTIONS, "--exchange", "shared"]
    run_on_hosts(mpi, on_h1, finish, hostfile, tmp_path / "run", *options)
    assert facts(tmp_path / "run")["exchange"] == {"name": "shared"}
    assert_same_bits(tmp_path / "run", reference(*OPTIONS))


def test_a_folder_with_spaces(mpi, on_h1, finish, hostfile, reference, tmp_path):
    """Open MPI hands the path of its files to the shells of the other hosts as it is."""
    folder = tmp_path / "my own environment"
    (folder / "bin").mkdir(parents=True)
    for entry in mpi.bin.parent.iterdir():
        if entry.name != "bin":
            (folder / entry.name).symlink_to(entry)
    for program in mpi.bin.iterdir():  # mpirun looks for its files beside the place it is really in
        shutil.copy2(program, folder / "bin", follow_symlinks=False)
    out = tmp_path / "my own runs" / "a run"
    words = ["-m", "mpi_gt", "run", "-n", RANKS, "--hostfile", hostfile, *OPTIONS, "--out", out]
    done = finish(on_h1(mpi, folder / "bin" / "python", *words, cwd=tmp_path))
    assert done.code == 0, str(done)
    assert facts(out)["hosts"] == SPREAD
    assert_same_bits(out, reference(*OPTIONS))


def test_a_checkpoint_of_four_hosts_is_four_files_and_goes_on_on_one(
    mpi, on_h1, finish, hostfile, reference, tmp_path
):
    out = tmp_path / "run"
    options = [*OPTIONS, "--checkpoint-every", "15", "--checkpoint-layout", "host"]
    run_on_hosts(mpi, on_h1, finish, hostfile, out, *options)
    firsts = [SPREAD.index(host) for host in dict.fromkeys(SPREAD)]
    for slot in "ab":
        found = sorted(path.name for path in (out / "checkpoints" / slot).iterdir())
        assert found == [f"host-{first:05d}" for first in firsts]
    end = 60
    assert latest(out)["iteration"] == 40
    done = finish(on_h1(mpi, *mpi.mpi_gt("resume", out, "-n", RANKS, "--iterations", end)))
    assert done.code == 0, str(done)
    assert facts(out)["resumes"][0]["iteration"] == 40
    for slot in "ab":
        assert [path.name for path in (out / "checkpoints" / slot).iterdir()] == ["host-00000"]
    assert_same_bits(out, reference(*OPTIONS, "--iterations", end))


def test_a_slow_link_costs_time_and_no_bit(
    openmpi, hosts, on_h1, finish, call, reference, tmp_path
):
    hostfile = tmp_path / "hosts"
    call(openmpi.mpi_gt("hostfile", "--hosts", HOSTS, "--mpi", "openmpi", "--out", hostfile))
    run_on_hosts(openmpi, on_h1, finish, hostfile, tmp_path / "fast", *OPTIONS)
    hosts.slow_down("h4", "1mbit")
    try:
        run_on_hosts(openmpi, on_h1, finish, hostfile, tmp_path / "slow", *OPTIONS)
    finally:
        hosts.speed_up("h4")
    assert_same_bits(tmp_path / "slow", reference(*OPTIONS))
    fast, slow = (facts(tmp_path / run)["seconds_per_iteration"] for run in ("fast", "slow"))
    assert slow > 2 * fast


def test_a_placement_saves_time_on_slow_links_and_no_bit(
    mpi, hosts, on_h1, finish, hostfile, reference, tmp_path
):
    options = [*OPTIONS, "--graph", "ring"]
    for host in hosts.names:
        hosts.slow_down(host, "2mbit")
    try:
        for name, place in (("placed", "graph"), ("shuffled", "shuffled:seed=3")):
            words = [*options, "--place", place]
            run_on_hosts(mpi, on_h1, finish, hostfile, tmp_path / name, *words)
    finally:
        for host in hosts.names:
            hosts.speed_up(host)
    placed, shuffled = (facts(tmp_path / name) for name in ("placed", "shuffled"))
    for name in ("placed", "shuffled"):
        assert_same_bits(tmp_path / name, reference(*options))
    assert placed["placement"]["between_hosts"] == 4
    ranks = [int(rank) for rank in shuffled["placement"]["rank_of_node"].split()]
    assert shuffled["hosts"] == [SPREAD[rank] for rank in ranks]
    assert shuffled["placement"]["between_hosts"] == 7
    assert shuffled["seconds_per_iteration"] > 1.2 * placed["seconds_per_iteration"]


def test_bench_over_four_hosts_with_variables_that_travel(mpi, on_h1, finish, hostfile, tmp_path):
    words = ["bench", "-n", RANKS, "--hostfile", hostfile, "--graphs", "ring", "--sizes", "160"]
    words += ["--exchanges", "neighbor", "--seconds", "0.1", "--quiet", "--out", tmp_path / "b"]
    words += ["--export", "MY_OWN=1,MPI_GT_*"]
    done = finish(on_h1(mpi, *mpi.mpi_gt(*words)))
    assert done.code == 0, str(done)
    found = json.loads((tmp_path / "b" / "bench.json").read_text())
    assert found["rows"], found
    assert {path.name for path in tmp_path.iterdir()} == {"hosts", "b"}


def test_hosts_that_the_options_of_the_launcher_name(mpi, on_h1, finish, tmp_path):
    """Root is on another host than the front end, and leaves its exit code in a shared folder."""
    flag = {"openmpi": "--host", "mpich": "-hosts"}[mpi.name]
    words = ["bench", "-n", "4", f"--launcher-args={flag} h2:2,h3:2", "--graphs", "ring"]
    words += ["--sizes", "160", "--exchanges", "neighbor", "--seconds", "0.1", "--quiet"]
    done = finish(on_h1(mpi, *mpi.mpi_gt(*words, "--out", tmp_path / "b")))
    assert done.code == 0, str(done)
    found = json.loads((tmp_path / "b" / "bench.json").read_text())
    assert found["hosts"] == ["h2", "h2", "h3", "h3"]


def test_doctor_looks_at_all_hosts(mpi, on_h1, finish, hostfile):
    done = finish(on_h1(mpi, *mpi.mpi_gt("doctor", "-n", RANKS, "--hostfile", hostfile)))
    assert done.code == 0, str(done)
    assert "8 on 4 hosts" in done.out, str(done)
    assert re.search(r"h1 +3 ranks", done.out)
    assert re.search(r"ring exchange +80 bytes to each neighbour in [\d,]+ us", done.out)
    assert re.search(r"^h3( +[\d,]+ / [\d,.]+){4}$", done.out, re.M), str(done)  # the table
    assert re.search(r"h1 .*connected by .*tcp", done.out), str(done)
    assert "clocks, against h1: h2" in done.out


def test_doctor_names_a_slow_host(openmpi, hosts, on_h1, finish, call, tmp_path):
    hostfile = tmp_path / "hosts"
    call(openmpi.mpi_gt("hostfile", "--hosts", HOSTS, "--mpi", "openmpi", "--out", hostfile))
    hosts.slow_down("h4", "1mbit")
    try:
        words = ["doctor", "-n", RANKS, "--hostfile", hostfile, "--json"]
        done = finish(on_h1(openmpi, *openmpi.mpi_gt(*words), cwd=tmp_path))
    finally:
        hosts.speed_up("h4")
    assert done.code == 0, str(done)
    found = json.loads(done.out)
    assert found["schema"] == 1
    assert len(found["pairs"]) == 6 + 3  # of four hosts; within the three that have two ranks
    assert [text for text in found["warnings"] if "h4 is slow" in text], found["warnings"]
    assert all(rank["visible"] for rank in found["ranks"])


def test_all_ranks_on_one_host_of_several_is_a_warning(openmpi, on_h1, finish, tmp_path):
    """With --oversubscribe, for one, Open MPI puts all ranks on the first host."""
    words = openmpi.mpirun(4, str(openmpi.bin / "mpi-gt"), "run", "--iterations", "5")
    done = finish(on_h1(openmpi, *words, "--out", tmp_path / "run", env={"MPI_GT_HOSTS": "4"}))
    assert done.code == 0, str(done)
    assert done.err.count("all 4 ranks are on h1, though there are 4 hosts") == 1, str(done)
    assert any("all 4 ranks" in warning for warning in facts(tmp_path / "run")["warnings"])


def test_bad_input_over_several_hosts(mpi, on_h1, finish, hostfile, tmp_path):
    options = ["--graph", "er:p=0", "--quiet"]
    done = run_on_hosts(mpi, on_h1, finish, hostfile, tmp_path / "run", *options, expect=2)
    assert done.err.count("mpi-gt: error:") == 1, str(done)


def test_the_pbs_template_on_its_list_of_hosts(mpi, on_h1, finish, reference, tmp_path):
    """PBS itself is not installed; the test sets the variables that PBS would."""
    (tmp_path / "nodes").write_text("".join(f"{host}\n" for host in SPREAD))
    env = {
        "PBS_JOBID": "7.server",
        "PBS_O_WORKDIR": str(tmp_path),
        "PBS_NODEFILE": str(tmp_path / "nodes"),
        "MPI_GT_BIN": str(mpi.bin),
    }
    done = finish(on_h1(mpi, "bash", TEMPLATES / "pbs.sh", *OPTIONS, env=env))
    assert done.code == 0, str(done)
    assert facts(tmp_path / "runs" / "7")["hosts"] == SPREAD
    assert_same_bits(tmp_path / "runs" / "7", reference(*OPTIONS))


def test_a_cut_link_is_named_and_the_run_goes_on_after_it(
    mpi, hosts, on_h1, finish, hostfile, reference, tmp_path
):
    out = tmp_path / "run"
    # few measurements: during one, all ranks wait and nobody can say who is silent
    size = ["--graph", "er:p=0.7", "--iterations", "3000", "--log-every", "1500", "--quiet"]
    words = ["run", "-n", RANKS, "--hostfile", hostfile, *size, "--out", out]
    process = on_h1(mpi, *mpi.mpi_gt(*words, "--checkpoint-every", "50", "--watchdog", "5"))
    wait_until(
        lambda: latest(out).get("iteration", 0) >= 50 or process.poll() is not None,
        60,
        "a checkpoint",
    )
    hosts.cut("h4")
    try:
        done = finish(process)
    finally:
        hosts.end_processes()  # beyond the cut, mpirun's helper does not learn of the end
        hosts.mend("h4")
    assert done.code == 86, str(done)
    told = re.search(r"node \d on (h\d), iteration \d+,.* silent: ([^;\n]*)", done.err)
    assert told, str(done)
    # the rank that noticed first may be on either side of the cut
    silent = set(re.findall(r"on (h\d)", told[2]))
    assert silent == {"h4"} if told[1] != "h4" else "h4" not in silent, str(done)
    assert facts(out)["status"] == "failed"
    assert 50 <= latest(out)["iteration"] < 3000
    words = ["resume", out, "-n", RANKS, "--hostfile", hostfile]
    done = finish(on_h1(mpi, *mpi.mpi_gt(*words)))
    assert done.code == 0, str(done)
    assert facts(out)["resumes"][0]["iteration"] >= 50
    assert_same_bits(out, reference(*size))
