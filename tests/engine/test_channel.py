"""Runs over an unreliable channel, stacked: what they promise, show and resume."""

import numpy as np
import pytest
from resuming import assert_same, resume, run, stopped
from support import facts

import mpi_gt
from mpi_gt.algorithms import ALGORITHMS
from mpi_gt.channels import Channel
from mpi_gt.channels.draws import Draws
from mpi_gt.channels.methods import methods_for
from mpi_gt.cli.main import main
from mpi_gt.errors import UserError

OPTIONS = {"n": 6, "stacked": True, "iterations": 50, "seeds": 2, "log_every": 10}
PROBLEM = {"problem": "huber:dim=5,spread=0.3", "graph": "er:p=0.7"}


def tracking(result):
    return np.array([row["tracking"] for row in result.metrics])


@pytest.mark.parametrize("algorithm", ["gt", "gt-adaptive"])
@pytest.mark.parametrize("channel", ["links=0.1", "links=0.5,burst=3", "inactive=0.2"])
def test_links_and_inactive_nodes_keep_mean_s_at_mean_g(algorithm, channel):
    made = mpi_gt.run(algorithm=algorithm, channel=channel, **OPTIONS, **PROBLEM)
    assert tracking(made).max() < 1e-12
    plain = mpi_gt.run(algorithm=algorithm, **OPTIONS, **PROBLEM)
    assert np.abs(made.x - plain.x).max() > 1e-6


@pytest.mark.parametrize("channel", ["loss=0.05", "noise=1e-3"])
def test_what_breaks_tracking_is_reported(channel):
    made = mpi_gt.run(algorithm="gt", channel=channel, **OPTIONS, **PROBLEM)
    assert tracking(made)[-1] > 1e-5
    assert made.facts["tracking_error"]["tracking"] > 0
    assert any("the channel breaks mean s = mean g" in line for line in made.facts["warnings"])


@pytest.mark.parametrize("channel", ["links=0", "loss=0,noise=0", "inactive=0,seed=3"])
def test_a_channel_that_loses_nothing_changes_no_bit(channel):
    made = mpi_gt.run(channel=channel, **OPTIONS, **PROBLEM)
    plain = mpi_gt.run(**OPTIONS, **PROBLEM)
    assert made.x.tobytes() == plain.x.tobytes()
    assert [{**row, "seconds": 0} for row in made.metrics] == [
        {**row, "seconds": 0} for row in plain.metrics
    ]
    assert "channel" not in made.facts


def test_inactive_nodes_stay_where_they_are():
    """Every method's x is compared before and after each step."""
    draws = Draws(Channel.of("inactive=0.4"))
    before = None
    for iterations in range(1, 12):
        made = mpi_gt.run(
            algorithms="gt,gt-adaptive,dsgd,k-gt",
            channel="inactive=0.4",
            **{**OPTIONS, **PROBLEM, "iterations": iterations},
        )
        if before is not None:
            active = [draws.active(iterations, node) for node in range(6)]
            for label, x in made.outputs.items():
                same = [np.array_equal(*pair) for pair in zip(before[label], x, strict=True)]
                assert [not each for each in same] == active, (iterations, label)
        before = made.outputs
    rests = sum(not draws.active(t, 0) for t in range(1, 12))
    assert rests > 0
    (gradients,) = {row["gradients"] for row in made.metrics if row["iteration"] == 11}
    assert gradients == 12 - rests  # of node 0, that of the start included


def test_noise_alone_disturbs_x_as_its_deviation_says():
    """With lr = 0 nearly, x is the mixed noise: each entry has sum_j A_ij^2 of its variance."""
    options = {**OPTIONS, "iterations": 1, "seeds": 200, "n": 4, "graph": "complete"}
    made = mpi_gt.run(algorithm="dsgd:lr=1e-12", channel="noise=0.1", **options, problem="huber")
    assert np.std(made.x - made.x.mean()) == pytest.approx(0.1 * np.sqrt(3 / 16), rel=0.03)


def test_every_method_that_takes_a_channel_runs():
    names = methods_for(["links", "noise"])
    made = mpi_gt.run(algorithms=names, channel="links=0.2,noise=1e-3", **OPTIONS, **PROBLEM)
    assert list(made.outputs) == names.split(",")
    assert len(made.outputs) < len(ALGORITHMS)


def test_bytes_count_all_that_mpi_carries():
    made = mpi_gt.run(channel="loss=0.9,inactive=0.5", **OPTIONS, **PROBLEM)
    plain = mpi_gt.run(**OPTIONS, **PROBLEM)
    assert made.metrics[-1]["bytes"] == plain.metrics[-1]["bytes"]
    assert made.facts["channel"]["emulated"]


@pytest.mark.parametrize("channel", ["links=0.3,burst=4,noise=0.01", "inactive=0.3,loss=0.1"])
def test_a_resumed_run_gives_the_same_bits(monkeypatch, tmp_path, channel):
    run(tmp_path / "reference", "--channel", channel)
    stopped(monkeypatch, tmp_path / "run", "--channel", channel)
    resume(tmp_path / "run")
    assert_same(tmp_path / "run", tmp_path / "reference")


def test_another_channel_is_another_run(monkeypatch, tmp_path, capsys):
    stopped(monkeypatch, tmp_path / "run", "--channel", "links=0.3")
    words = ["--resume", "--channel", "links=0.3,seed=1"]
    run(tmp_path / "run", *words, expect=2)
    assert "its channel was" in capsys.readouterr().err
    run(tmp_path / "run", "--resume", "--channel", "links=0.30")


def test_the_output_says_that_it_is_emulated(tmp_path, capsys):
    words = ["run", "-n", "4", "--stacked", "--iterations", "20", "--algorithm", "gt"]
    out = tmp_path / "run"
    assert main([*words, "--channel", "loss=0.2,inactive=0.1", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "channel loss=0.2,inactive=0.1: emulated at the receivers" in printed
    assert "the channel breaks mean s = mean g of distributed GT (gt)" in printed
    assert "node 0" in printed
    assert facts(out)["channel"]["loss"] == 0.2
    assert mpi_gt.load(out).summary_rows[0]["channel"] == "loss=0.2,inactive=0.1"


@pytest.mark.parametrize("algorithm", ["extra", "beer"])
def test_a_method_that_the_channel_breaks_is_refused(algorithm):
    with pytest.raises(UserError, match=f"{algorithm} .*gt-adaptive"):
        mpi_gt.run(algorithm=algorithm, channel="links=0.1", **OPTIONS)
