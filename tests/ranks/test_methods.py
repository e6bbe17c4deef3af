"""Methods with estimators, local steps and phases, on real ranks."""

import sys
from pathlib import Path

import numpy as np
import pytest
from mpi4py import MPI

import mpi_gt
from mpi_gt.comm import EXCHANGE_NAMES
from mpi_gt.comm.node import Node
from mpi_gt.config import RunConfig
from mpi_gt.engine.run import run as run_experiment
from mpi_gt.engine.stop import StopRequest
from mpi_gt.errors import Stopped

sys.path.insert(0, str(Path(__file__).parent.parent))
from algorithms.oracles import NOISY, PAIRS, VARIANTS, Q

pytestmark = pytest.mark.mpi


@pytest.fixture
def comm():
    made = MPI.COMM_WORLD.Dup()
    yield made
    made.Free()


def outputs(comm, specs, **options):
    """Return this rank's output of each method, by its specification."""
    specs = list(dict.fromkeys(specs))
    made = mpi_gt.run(comm, algorithms=",".join(specs), quiet=True, **options).outputs
    return dict(zip(specs, made.values(), strict=True))


def test_oracles(comm):
    """tests/algorithms/test_oracles.py says what the pairs are about."""
    specs = [spec for pair in PAIRS for spec in (pair.one, pair.other)]
    by_problem = {
        problem: outputs(comm, specs, problem=problem, iterations=40, seeds=2)
        for problem in (NOISY, Q)
    }
    for pair in PAIRS:
        one = by_problem[pair.problem][pair.one]
        other = by_problem[pair.problem_of_other or pair.problem][pair.other]
        assert np.abs(one - other).max() <= pair.within, pair


def require_equal_to_stacked(comm, options):
    """Run on ranks and stacked; compare the outputs and what was counted."""
    ours = mpi_gt.run(comm, **options)
    stacked = comm.bcast(
        mpi_gt.run(stacked=True, n=comm.size, **options) if comm.rank == 0 else None
    )
    for name, x in ours.outputs.items():
        assert np.abs(x - stacked.outputs[name][comm.rank]).max() <= 1e-12, name
    if comm.rank == 0:
        for mine, theirs in zip(ours.metrics, stacked.metrics, strict=True):
            for name in ("bytes", "gradients", "iteration"):
                assert mine[name] == theirs[name]


def test_every_variant_equals_stacked(comm):
    options = {"algorithms": ",".join(VARIANTS), "iterations": 30, "seeds": 2, "quiet": True}
    require_equal_to_stacked(comm, options)


def test_all_exchanges_give_the_same_bits_with_every_variant(comm):
    options = {"algorithms": ",".join(VARIANTS), "iterations": 5, "quiet": True}
    results = set()
    for exchange in EXCHANGE_NAMES:
        made = mpi_gt.run(comm, exchange=exchange, **options).outputs
        results.add(b"".join(x.tobytes() for x in made.values()))
    assert len(results) == 1


def test_a_seed_of_several_has_the_bits_of_that_seed_alone(comm):
    together = outputs(comm, VARIANTS, iterations=13, seeds=3)
    alone = outputs(comm, VARIANTS, iterations=13, seed=2)
    for name, x in together.items():
        np.testing.assert_array_equal(x[2:], alone[name])


def test_a_stop_is_known_everywhere_though_exchanges_are_rare(comm, tmp_path_factory, monkeypatch):
    asked = 17
    out = comm.bcast(str(tmp_path_factory.mktemp("run") / "stopped"))
    options = {
        "algorithm": "exact-diffusion:every=7", "graph": "path", "iterations": 1000,
        "log_every": 1000, "out": out, "quiet": True,
    }  # fmt: skip
    stop = StopRequest()
    stepper = Node.stepper

    def asking(node, step, grad, last):
        def stepping(t, *rest):
            if t == asked and comm.rank == comm.size - 1:
                stop.requested = True
            return step(t, *rest)

        return stepper(node, stepping, grad, last)

    with monkeypatch.context() as patch:
        patch.setattr(Node, "stepper", asking)
        known = asked + 1 + 7 * max(1, comm.size - 1)  # as many exchanges as the path is long
        with pytest.raises(Stopped, match=f"after iteration {known} of 1000"):
            run_experiment(RunConfig.of(options), comm, stop)


def test_a_budget_ends_all_ranks_at_the_same_iteration(comm):
    words = {"algorithms": "gt,gt-sarah:period=5,exact-diffusion:every=3", "quiet": True}
    problem = f"softmax:rows={40 * comm.size},batch=8"
    result = mpi_gt.run(comm, budget="gradients=1000", problem=problem, **words)
    if comm.rank == 0:
        for label in result.outputs:
            *_, before, last = [row for row in result.metrics if row["algorithm"] == label]
            assert before["gradients"] < 1000 <= last["gradients"] < 1000 + 16 * 4


def test_classes_of_the_user_s_equal_stacked(comm):
    """With vectors of another width, exchanges every third iteration, two exchanges, phases."""
    names = ("PushSum", "Local", "Twice", "Refreshed", "Unmarked")
    options = {
        "algorithms": ",".join(f"algorithms.outside:{name}" for name in names),
        "iterations": 20, "seeds": 2, "quiet": True,
    }  # fmt: skip
    require_equal_to_stacked(comm, options)
