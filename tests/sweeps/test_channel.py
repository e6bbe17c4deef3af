"""Sweeps over an unreliable channel."""

import csv
import json

import pytest

import mpi_gt
from mpi_gt.channels.methods import methods_for
from mpi_gt.cli.main import main
from mpi_gt.errors import UserError
from mpi_gt.sweeps.grid import make_grid

BASE = ["sweep", "--stacked", "-n", "3", "--iterations", "10"]


def table(out):
    with (out / "sweep.csv").open() as file:
        return list(csv.DictReader(file))


@pytest.mark.figures
def test_a_range_in_the_channel_is_an_axis_with_a_figure(tmp_path, capsys):
    out = tmp_path / "grid"
    words = [*BASE, "--algorithms", "gt,dsgd", "--iterations", "40", "--out", str(out)]
    assert main([*words, "--channel", "loss=0..0.3:4,burst=2"]) == 0
    rows = table(out)
    assert [row["channel.loss"] for row in rows] == ["0", "0.1", "0.2", "0.3"] * 2
    assert {row["channel.burst"] for row in rows} == {"2"}
    assert {row["status"] for row in rows} == {"finished"}
    assert len({row["gap"] for row in rows}) == 8
    assert (out / "sweep-channel.loss.png").stat().st_size > 1000
    assert "the channel is emulated" in capsys.readouterr().out
    best = json.loads((out / "run.json").read_text())["best"]
    assert len(best) == 8  # gaps of different channels are not compared
    assert main([*words, "--channel", "loss=0..0.3:4,burst=2"]) == 0
    assert table(out) == rows


def test_channels_on_axes_of_all_kinds():
    options = {"n": 3, "stacked": True, "iterations": 5, "algorithms": "gt"}

    def channels(over, **more):
        return [point.config.channel for point in make_grid({**options, **more}, over).points]

    assert channels(["channel.links=0,0.1"]) == ["links=0", "links=0.1"]
    assert channels({"channel.links": [0.1, 0.2]}, channel="noise=0.1") == [
        "noise=0.1,links=0.1", "noise=0.1,links=0.2",
    ]  # fmt: skip
    assert channels(["channel=links=0.1;loss=0.2,burst=3"]) == ["links=0.1", "loss=0.2,burst=3"]
    assert channels(["seed=0,1"], channel="links=0.1") == ["links=0.1"] * 2
    assert channels({}, channel="loss=0.1..0.2:2") == ["loss=0.1", "loss=0.2"]


def test_all_methods_are_those_that_take_the_channel():
    options = {"n": 3, "stacked": True, "iterations": 5, "channel": "loss=0..0.1:2"}
    assert make_grid(options, []).methods == methods_for(["loss"]).split(",")


@pytest.mark.parametrize(
    ("over", "channel", "message"),
    [
        (["channel.los=0.1"], None, "there is no axis 'channel.los'; did you mean 'channel.loss'"),
        (["channel.loss=0.1"], "loss=0..0.3", "channel.loss is given twice"),
        (["channel=links=0.1"], "loss=0.1", "channel is given twice"),
        (["channel.loss=0.1,1"], None, "loss must be in"),
        ([], "loss=0..1", "0 <= LOW < HIGH < 1"),
        ([], None, "over names no axis"),
    ],
)
def test_bad_channels_on_axes(over, channel, message):
    options = {"n": 3, "stacked": True, "algorithms": "gt"}
    with pytest.raises(UserError, match=message):
        make_grid({**options, **({"channel": channel} if channel else {})}, over)


def test_a_method_that_does_not_take_the_channel_is_named(tmp_path, capsys):
    words = [*BASE, "--algorithms", "gt,extra", "--channel", "loss=0..0.3"]
    assert main([*words, "--out", str(tmp_path / "grid")]) == 2
    assert "extra needs the same mixing matrix" in capsys.readouterr().err


def test_from_python_and_from_a_file(tmp_path):
    runs = mpi_gt.sweep(
        {"channel.inactive": [0, 0.5]}, n=3, stacked=True, iterations=5, algorithms="gt",
        out=tmp_path / "python", no_figures=True,
    )  # fmt: skip
    assert [row["channel"] for row in runs.summary_rows] == ["inactive=0", "inactive=0.5"]
    file = tmp_path / "sweep.toml"
    file.write_text('channel = "links=0..0.2:2"\nalgorithms = "gt"\n')
    out = tmp_path / "file"
    assert main([*BASE, str(file), "--no-figures", "--out", str(out)]) == 0
    assert [row["channel.links"] for row in table(out)] == ["0", "0.2"]
