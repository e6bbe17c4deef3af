"""`mpi-gt graph`: what it says of hosts."""

import pytest

from mpi_gt.cli.main import main


def test_edges_between_hosts_without_a_run(capsys):
    assert main(["graph", "torus", "-n", "16", "--hosts", "4x4"]) == 0
    text = "placement: 4 hosts, 16 of 32 edges between hosts (16 in rank order)"
    assert text in capsys.readouterr().out


@pytest.mark.parametrize("hosts", ["4x5", "h1:4", "", "2x8,1x1"])
def test_hosts_that_do_not_fit(hosts, capsys):
    assert main(["graph", "ring", "-n", "16", "--hosts", hosts]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("mpi-gt: error: --hosts") == 1


def test_a_placement_needs_ranks(tmp_path, capsys):
    words = ["run", "--stacked", "-n", "4", "--place", "graph", "--out", str(tmp_path / "run")]
    assert main(words) == 2
    assert "place is for MPI ranks" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
