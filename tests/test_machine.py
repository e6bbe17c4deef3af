"""Hosts, cores and threads: warnings, and how many hosts a job was given."""

from mpi_gt.machine import RankFacts, hosts_allotted, placement_warnings


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
