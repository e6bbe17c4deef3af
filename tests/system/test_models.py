"""Networks of users on real ranks: killed, resumed, compared with a stacked run; one message."""

import os
import signal

import numpy as np
import pytest
from own_models import require, write
from resuming import assert_same
from support import finish, ranks_of, start, wait_for

from mpi_gt.rundir.checkpoint import glance, part_path

SIZE = ["-n", "2", "--seeds", "2", "--quiet", "--algorithm", "gt:lr=0.1", "--log-every", "20"]


@pytest.fixture(params=["jax", "torch"])
def spec(request, tmp_path):
    require(request.param)
    return write(tmp_path, request.param)


def test_killed_and_resumed_with_another_exchange_to_the_same_bits(openmpi, call, spec, tmp_path):
    words = ["run", "--problem", spec, *SIZE]
    out = tmp_path / "out"
    process = start(
        openmpi.mpi_gt(*words, "--iterations", 10**7, "--checkpoint-every", 20, "--out", out),
        cwd=tmp_path,
    )
    try:
        wait_for(lambda: part_path(out, 1, 0).exists(), limit=120)
        os.kill(ranks_of(out)[-1], signal.SIGKILL)
    except BaseException:
        process.kill()
        raise
    assert finish(process, limit=60).code == 1
    wait_for(lambda: not ranks_of(out), limit=15)
    at = max(glance(part_path(out, slot, 0))["iteration"] for slot in (0, 1)) + 50
    last = ["--iterations", at, "--quiet"]
    call(openmpi.mpi_gt("resume", out, *last, "--exchange", "p2p"), cwd=tmp_path, limit=300)
    call(openmpi.mpi_gt(*words, *last, "--out", tmp_path / "whole"), cwd=tmp_path, limit=300)
    assert_same(out, tmp_path / "whole")


def test_ranks_compute_as_a_stacked_run_does(openmpi, call, spec, tmp_path):
    words = ["run", "--problem", spec, *SIZE, "--iterations", "40"]
    call(openmpi.mpi_gt(*words, "--out", "ranks"), cwd=tmp_path, limit=300)
    call(openmpi.mpi_gt(*words, "--stacked", "--out", "stacked"), cwd=tmp_path, limit=300)
    ranks, stacked = (np.load(tmp_path / out / "final.npz")["x"] for out in ("ranks", "stacked"))
    np.testing.assert_allclose(ranks, stacked, atol=1e-12)


def test_a_start_that_differs_between_nodes_is_one_message(openmpi, call, tmp_path):
    require("jax")
    drawn = "import numpy as np\ninit = lambda key: [(np.random.rand(6, 5), np.zeros(6)), "
    spec = write(tmp_path, "jax", drawn + "(np.zeros((3, 6)), np.zeros(3))]\n")
    words = ["run", "--problem", spec, *SIZE, "--iterations", "5", "--out", "out"]
    done = call(openmpi.mpi_gt(*words), cwd=tmp_path, limit=300, expect=2)
    assert done.err.count("error:") == 1
    assert "the same x_1 on every node, but nodes 0 and 1 differ" in done.err
