"""Runs whose ranks own other nodes than those of their own number."""

import os
from pathlib import Path

import numpy as np
import pytest

import mpi_gt
from mpi_gt.comm import EXCHANGE_NAMES
from mpi_gt.errors import UserError

pytestmark = pytest.mark.mpi

OPTIONS = {"iterations": 30, "seeds": 2, "problem": "huber:dim=6,spread=0.3", "graph": "ring"}


@pytest.fixture
def hosts(comm, monkeypatch):
    """Two hosts whose ranks alternate, the worst for a ring; this is the host of each rank."""
    system, _, *others = os.uname()
    here = os.uname_result((system, f"h{comm.rank % 2}", *others))
    monkeypatch.setattr(os, "uname", lambda: here)
    return [f"h{rank % 2}" for rank in range(comm.size)]


def run(comm, tmp_path_factory, name, **options):
    """Run in a directory that all ranks see, and return the result and what root has written."""
    out = comm.bcast(str(tmp_path_factory.mktemp("run") / name))
    result = mpi_gt.run(comm, out=out, **{**OPTIONS, **options})
    return result, written(comm, out)


def written(comm, out):
    if comm.rank > 0:
        return None
    lines = [line.split(",") for line in Path(out, "metrics.csv").read_text().splitlines()]
    seconds = lines[0].index("seconds")
    rows = [line[:seconds] + line[seconds + 1 :] for line in lines]
    return Path(out, "final.npz").read_bytes(), rows


def test_placed_ranks_give_the_same_bits_with_all_exchanges(comm, hosts, tmp_path_factory):
    plain, expected = run(comm, tmp_path_factory, "plain")
    assert plain.node == comm.rank
    outputs = comm.allgather(plain.x)
    for exchange in EXCHANGE_NAMES:
        placed, found = run(comm, tmp_path_factory, exchange, place="graph", exchange=exchange)
        assert found == expected
        assert placed.x.tobytes() == outputs[placed.node].tobytes()
        assert (comm.rank == 0) == (placed.node == 0)
        if comm.rank > 0:
            continue
        facts = placed.facts["placement"]
        rank_of_node = [int(rank) for rank in facts["rank_of_node"].split()]
        assert placed.facts["hosts"] == [hosts[rank] for rank in rank_of_node]
        if comm.size > 3:
            assert facts["between_hosts"] == 2 < facts["in_rank_order"]


def test_a_placed_run_goes_on_with_another_placement(comm, hosts, tmp_path_factory):
    """Parts of a checkpoint belong to nodes, whoever has them."""
    _, expected = run(comm, tmp_path_factory, "whole")
    out = comm.bcast(str(tmp_path_factory.mktemp("run") / "parts"))
    options = {**OPTIONS, "log_every": 1, "out": out}
    mpi_gt.run(comm, **{**options, "iterations": 15}, checkpoint_every=15, place="shuffled:seed=4")
    result = mpi_gt.run(comm, **options, resume=True, place="graph")
    whole, _ = run(comm, tmp_path_factory, "whole", log_every=1)
    if comm.rank == 0:
        assert written(comm, out)[0] == expected[0]
        assert result.facts["resumes"][0]["placement"]["place"] == "graph"
        assert [row["loss"] for row in result.metrics] == [row["loss"] for row in whole.metrics]


def test_a_changing_graph_in_any_order(comm, hosts, tmp_path_factory):
    options = {"graph": "one-peer-exponential", "algorithm": "push-pull"}
    _, expected = run(comm, tmp_path_factory, "plain", **options)
    for place in ("graph", "shuffled:seed=2"):
        assert run(comm, tmp_path_factory, "placed", place=place, **options)[1] == expected


def test_an_error_leaves_the_ranks_as_they_were(comm, hosts):
    for options in ({"graph": "er:p=0"}, {"n": comm.size + 1}, {"x1": "missing.npy"}):
        with pytest.raises(UserError):
            mpi_gt.run(comm, **{**OPTIONS, **options}, place="shuffled:seed=1")
    result = mpi_gt.run(comm, **OPTIONS, place="shuffled:seed=1")
    assert np.isfinite(result.x).all()
