"""Whole runs in one process: numbers, metrics, divergence. Real ranks are in tests/system."""

import csv
import json
import signal
import sys
import time

import numpy as np
import pytest

import mpi_gt
from mpi_gt.errors import Diverged, UserError


def stacked(**options):
    return mpi_gt.run(**{"stacked": True, "n": 5, "iterations": 50, **options})


def rows(directory):
    with (directory / "metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_one_seed_of_several_equals_that_seed_alone():
    together = stacked(n=16, iterations=500, seeds=5)
    alone = stacked(n=16, iterations=500, seeds=1, seed=3)
    assert np.abs(together.x[:, 3] - alone.x[:, 0]).max() <= 1e-12


def test_the_first_and_the_last_are_logged_always(tmp_path):
    stacked(iterations=25, log_every=10, seeds=2, seed=7, out=str(tmp_path / "run"))
    assert [(int(r["seed"]), int(r["iteration"])) for r in rows(tmp_path / "run")] == [
        (seed, iteration) for iteration in (0, 10, 20, 25) for seed in (7, 8)
    ]


def test_metrics_against_their_definition(tmp_path):
    """Computed from final.npz and the problem's own data, without engine/metrics.py."""
    random = np.random.default_rng(0)
    phi, x_star = random.standard_normal((5, 3, 3)), random.standard_normal((5, 3))
    np.savez(tmp_path / "data.npz", Phi=phi, x_star=x_star)
    out = tmp_path / "run"
    stacked(problem=f"huber:data={tmp_path / 'data.npz'},noise=0,threshold=0.7", out=str(out))
    with np.load(out / "final.npz") as file:
        x = file["x"][:, 0]
    xbar = x.mean(axis=0)
    residual = np.einsum("nij,nj->ni", phi, x_star - xbar)
    huber = np.where(abs(residual) <= 0.7, residual**2 / 2, 0.7 * (abs(residual) - 0.35))
    gradient = -np.einsum("nji,nj->ni", phi, residual.clip(-0.7, 0.7)).mean(axis=0)
    last = rows(out)[-1]
    assert float(last["loss"]) == pytest.approx(huber.sum(axis=1).mean())
    assert float(last["grad_norm2"]) == pytest.approx((gradient**2).sum())
    assert float(last["consensus"]) == pytest.approx(((x - xbar) ** 2).sum(axis=1).mean())


def test_start_from_a_file(tmp_path):
    start = np.arange(50.0).reshape(5, 10)
    np.save(tmp_path / "x1.npy", start)
    result = stacked(x1=str(tmp_path / "x1.npy"), iterations=1, seeds=2)
    spread = start - start.mean(axis=0)
    expected = (spread**2).sum(axis=1).mean()
    assert [row["consensus"] for row in result.metrics[:2]] == pytest.approx([expected] * 2)
    np.save(tmp_path / "x1.npy", start[0])
    assert stacked(x1=str(tmp_path / "x1.npy"), iterations=1).metrics[0]["consensus"] == 0


@pytest.mark.parametrize("shape", [(3,), (4, 10), (5, 10, 1), ()])
def test_start_of_a_wrong_shape(tmp_path, shape):
    np.save(tmp_path / "x1.npy", np.zeros(shape))
    with pytest.raises(UserError, match=r"x1\.npy"):
        stacked(x1=str(tmp_path / "x1.npy"))


def test_float32():
    result = stacked(dtype="float32", iterations=300)
    reference = stacked(iterations=300)
    assert result.x.dtype == np.float32
    assert np.abs(result.x - reference.x).max() < 1e-3
    assert not result.facts["warnings"]


@pytest.mark.figures
def test_divergence_keeps_what_was_measured(tmp_path):
    out = tmp_path / "run"
    with pytest.raises(Diverged, match=r"after iteration 10: node \d, seed 1"):
        stacked(algorithm="gt-adaptive:lr=1e308", log_every=10, seed=1, out=str(out))
    assert [row["iteration"] for row in rows(out)] == ["0"]
    facts = json.loads((out / "run.json").read_text())
    assert (facts["status"], facts["exit_code"]) == ("failed", 3)
    assert "seed 1" in facts["error"]
    assert not (out / "final.npz").exists()
    assert (out / "gap.png").exists()


def test_divergence_names_the_node_whose_state_it_is(tmp_path):
    """One bad state makes the mean bad, and with it the loss of every node at the mean."""
    phi = np.stack([np.eye(2)] * 4)
    theta = np.ones((4, 2))
    phi[3] *= 1e76
    theta[3] = 1e77
    np.savez(tmp_path / "data.npz", Phi=phi, theta=theta)
    with pytest.raises(Diverged, match="after iteration 1: node 3, seed 0"):
        stacked(
            n=4,
            graph="ring",
            problem=f"huber:data={tmp_path / 'data.npz'},noise=0,threshold=1e78",
            algorithm="gt-adaptive:lr=1e300",
            log_every=1,
        )


def test_metrics_that_are_not_finite_are_a_divergence(tmp_path):
    np.save(tmp_path / "x1.npy", np.array([[1e200] * 10, [-1e200] * 10, [0.0] * 10]))
    with pytest.raises(Diverged, match="after iteration 0"):
        stacked(n=3, x1=str(tmp_path / "x1.npy"), out=str(tmp_path / "run"))
    json.loads((tmp_path / "run" / "run.json").read_text(), parse_constant=pytest.fail)


def test_values_too_large_for_float32_are_bad_input(tmp_path):
    np.save(tmp_path / "x1.npy", np.full(10, 1e300))
    with pytest.raises(UserError, match="too large for float32"):
        stacked(x1=str(tmp_path / "x1.npy"), dtype="float32")


def test_what_a_python_caller_may_give(tmp_path):
    result = stacked(
        iterations=np.int64(3), out=tmp_path / "run", dtype=np.float32, log_every=np.int32(1)
    )
    assert result.x.dtype == np.float32
    assert (tmp_path / "run" / "final.npz").exists()
    for bad in ({"quiet": "false"}, {"problem": None}, {"iterations": 2.5}, {"seeds": True},
                {"out": "a\0b"}, {"dtype": int}):  # fmt: skip
        with pytest.raises(UserError, match=next(iter(bad))):
            stacked(**bad)


def test_a_stacked_run_stops_when_asked_and_says_so(tmp_path):
    from support import finish, start

    out = tmp_path / "run"
    words = ["-m", "mpi_gt", "run", "--stacked", "-n", "3", "--iterations", "1e9", "--log-every"]
    process = start([sys.executable, *words, "10", "--quiet", "--out", out])
    begin = time.monotonic()
    while not (out / "metrics.csv").exists() or (out / "metrics.csv").stat().st_size < 500:
        assert time.monotonic() - begin < 30
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    done = finish(process, limit=20)
    assert done.code == 85
    assert f"mpi-gt resume {out}" in done.err
    facts = json.loads((out / "run.json").read_text())
    assert (facts["status"], facts["exit_code"]) == ("stopped", 85)


def test_lost_message_is_reported_at_once(tmp_path, capsys, monkeypatch):
    """A mix that loses what one neighbour sent breaks mean(s) = mean(g)."""
    from mpi_gt.comm.stacked import StackedNode

    def lossy(self, *vectors):
        exact = self.send(*vectors)
        if self.iteration == 7:
            exact[1]._value[0] *= 0.9
        return exact

    monkeypatch.setattr(StackedNode, "mix", lossy)
    out = tmp_path / "run"
    stacked(iterations=20, log_every=1, quiet=False, out=str(out))
    facts = json.loads((out / "run.json").read_text())
    assert facts["tracking_error"]["iteration"] == 7
    assert "tracking error" in facts["warnings"][0]
    assert capsys.readouterr().err.count("tracking error") == 1


def test_two_runs_give_the_same_bits(tmp_path):
    for name in "ab":
        stacked(seeds=2, out=str(tmp_path / name))
    final = [(tmp_path / name / "final.npz").read_bytes() for name in "ab"]
    assert final[0] == final[1]
    tables = [[{**row, "seconds": ""} for row in rows(tmp_path / name)] for name in "ab"]
    assert tables[0] == tables[1]


def test_unknown_option_of_the_api():
    with pytest.raises(UserError, match="did you mean 'iterations'"):
        stacked(iteration=5)
    with pytest.raises(UserError, match="communicator"):
        mpi_gt.run(iterations=5)
