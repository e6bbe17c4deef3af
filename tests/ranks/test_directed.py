"""Runs on directed and changing graphs on real ranks: all of a run's parts know layers."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from mpi4py import MPI

import mpi_gt
from mpi_gt.comm import EXCHANGE_NAMES
from mpi_gt.comm.node import Node
from mpi_gt.config import RunConfig
from mpi_gt.engine.checkpointer import everywhere_at
from mpi_gt.engine.run import run as run_experiment
from mpi_gt.engine.stop import StopRequest
from mpi_gt.errors import Stopped, UserError

sys.path.insert(0, str(Path(__file__).parent.parent))
from networks import NETWORKS, instead_of_er

pytestmark = pytest.mark.mpi

DIRECTED = "push-pull,push-diging:order=cta,sgp,gt-adaptive-pp"
OPTIONS = {"iterations": 31, "seeds": 2, "problem": "huber:dim=6,spread=0.3", "quiet": True}


@pytest.fixture
def comm():
    made = MPI.COMM_WORLD.Dup()
    yield made
    made.Free()


@pytest.fixture(params=NETWORKS)
def network(request, monkeypatch):
    instead_of_er(monkeypatch, request.param)
    return NETWORKS[request.param]


@pytest.fixture
def folder(comm, tmp_path_factory):
    return Path(comm.bcast(str(tmp_path_factory.mktemp("runs"))))


def methods(network):
    return DIRECTED if network is not NETWORKS["one-peer"] else f"{DIRECTED},gt,gt-adaptive,dsgd"


def test_every_method_equals_stacked_on_layers(comm, network):
    options = {"algorithms": methods(network), **OPTIONS}
    ours = mpi_gt.run(comm, **options)
    stacked = comm.bcast(
        mpi_gt.run(stacked=True, n=comm.size, **options) if comm.rank == 0 else None
    )
    for name, x in ours.outputs.items():
        assert np.abs(x - stacked.outputs[name][comm.rank]).max() <= 1e-12, name
    if comm.rank == 0:
        for mine, theirs in zip(ours.metrics, stacked.metrics, strict=True):
            assert mine["bytes"] == theirs["bytes"]
            assert mine["tracking"] is None or mine["tracking"] < 1e-12


def test_all_exchanges_give_the_same_bits_on_layers(comm, network):
    outputs, options = set(), {**OPTIONS, "algorithms": "push-pull,sgp", "iterations": 9}
    for exchange in EXCHANGE_NAMES:
        made = mpi_gt.run(comm, exchange=exchange, **options).outputs
        outputs.add(b"".join(x.tobytes() for x in made.values()))
    assert len(outputs) == 1


def test_a_stopped_run_goes_on_with_the_same_bits(comm, network, folder, monkeypatch):
    """It stops where all ranks have heard of it, at a t that is no multiple of the period."""
    options = {**OPTIONS, "iterations": 400, "log_every": 100, "algorithm": "gt-adaptive-pp"}
    whole = mpi_gt.run(comm, out=str(folder / "whole"), **options)
    stop, walk = StopRequest(), Node.stepper

    def walk_and_ask(node, step, gradient, last):
        def asking(t, *rest):
            if t == 20 and comm.rank == comm.size - 1:
                stop.requested = True
            return step(t, *rest)

        return walk(node, asking, gradient, last)

    with monkeypatch.context() as patched:
        patched.setattr(Node, "stepper", walk_and_ask)
        arcs = network(comm.size)
        expected = everywhere_at(21, arcs.reach, arcs.turns, 1, 400)
        out = {"out": str(folder / "parts"), **options}
        with pytest.raises(Stopped, match=f"after iteration {expected} of 400"):
            run_experiment(RunConfig.of(out), comm, stop)
    resumed = mpi_gt.run(comm, resume=True, **out)
    assert resumed.x.tobytes() == whole.x.tobytes()
    if comm.rank == 0:
        assert resumed.metrics[-1]["bytes"] == whole.metrics[-1]["bytes"]


def test_a_profile_knows_directions_and_turns(comm, network, folder):
    made = mpi_gt.run(
        comm, algorithm="push-pull", profile=True, out=str(folder / "profiled"), **OPTIONS
    )
    if comm.rank > 0:
        return
    traffic = np.zeros((comm.size, comm.size), np.int64)
    for source, target, sent in made.profile["traffic_edges"]:
        traffic[source, target] = sent
    arcs, each = network(comm.size), 2 * 2 * 6 * 8
    expected = np.zeros_like(traffic)
    for t in range(1, OPTIONS["iterations"] + 1):
        layer = arcs.layers[arcs.turns.at(t)]
        np.add.at(expected, (layer.sources, layer.receivers), each)
    np.testing.assert_array_equal(traffic, expected)
    assert made.profile["bytes_by_rank"] == traffic.sum(axis=1).tolist()
    assert made.profile["messages_by_rank"] == (traffic.sum(axis=1) // each).tolist()
    events = json.loads((folder / "profiled" / "trace.json").read_text())["traceEvents"]
    begun, ended = ({e["id"] for e in events if e["ph"] == phase} for phase in "sf")
    assert begun == ended
    assert bool(begun) == (comm.size > 1)


@pytest.mark.parametrize(
    "options",
    [
        {"graph": "digraph:arcs=3", "algorithm": "gt-adaptive-pp"},
        {"graph": "one-peer-exponential", "algorithm": "gt-adaptive"},
        {"graph": "ring", "matchings": "random", "algorithm": "gt"},
    ],
    ids=str,
)
def test_families_of_the_package_equal_stacked(comm, options):
    if comm.size < 3:
        return
    ours = mpi_gt.run(comm, **options, **OPTIONS)
    stacked = comm.bcast(
        mpi_gt.run(stacked=True, n=comm.size, **options, **OPTIONS) if comm.rank == 0 else None
    )
    assert np.abs(ours.x - stacked.x[comm.rank]).max() <= 1e-12


def test_a_method_that_needs_another_graph_is_refused_on_all_ranks(comm, monkeypatch):
    instead_of_er(monkeypatch, "mixed")
    with pytest.raises(UserError, match="exact-diffusion needs a graph that stays the same"):
        mpi_gt.run(comm, algorithm="exact-diffusion", **OPTIONS)
    if comm.size > 2:
        with pytest.raises(UserError, match="gt needs doubly stochastic weights"):
            mpi_gt.run(comm, algorithm="gt", **OPTIONS)


def test_a_budget_of_bytes_counts_the_targets_of_each_layer(comm, network):
    full = mpi_gt.run(comm, algorithm="push-pull", log_every=1, **OPTIONS)
    spent = comm.bcast([row["bytes"] for row in full.metrics if row["seed"] == 0])
    if comm.size == 1:
        return
    limit = (spent[20] + spent[19]) / 2  # in the midst of iteration 20
    some = mpi_gt.run(comm, algorithm="push-pull", budget=f"bytes={limit}", log_every=1, **OPTIONS)
    if comm.rank == 0:
        assert some.metrics[-1]["iteration"] == 20
        assert some.metrics[-1]["bytes"] == spent[20]
