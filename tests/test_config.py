"""RunConfig: which options go together, labels, stepsizes, how often a run measures."""

import pytest

from mpi_gt.config import RunConfig, stepsizes
from mpi_gt.errors import UserError


@pytest.mark.parametrize(
    "options",
    [
        {"profile": True, "stacked": True, "n": 4},
        {"profile": True, "algorithms": "gt,dsgd"},
        {"trace_iterations": "1:5"},
        {"profile": True, "trace_iterations": "5:1"},
        {"profile": True, "trace_iterations": "0:5"},
        {"profile": True, "trace_iterations": "7"},
        {"profile": True, "trace_iterations": f"1:{'9' * 5000}"},
        {"out": "x" * 300},
        {"profile": True, "trace_iterations": "1:9999999"},
        {"straggler": "node=4,ms=1", "n": 4},
        {"straggler": "node=1,ms=200000"},
        {"profile": True, "iterations": 10**9},
        {"straggler": "node=1,ms=1", "n": 4, "stacked": True},
        {"exchange": "automatic"},
    ],
)
def test_what_cannot_be_profiled(options):
    with pytest.raises(UserError):
        RunConfig.of(options)


def test_the_trace_shows_a_hundred_iterations_in_the_middle_unless_told():
    assert RunConfig.of({"iterations": 1000, "profile": True}).trace_window == range(450, 550)
    assert RunConfig.of({"iterations": 30, "profile": True}).trace_window == range(1, 31)
    told = RunConfig.of({"iterations": 30, "profile": True, "trace_iterations": "3:4"})
    assert told.trace_window == range(3, 5)


def labels(text):
    return [entry.label for entry in RunConfig(algorithms=text).entries()]


def test_labels():
    assert labels("gt,dsgd:lr=0.1") == ["gt", "dsgd"]
    assert labels("dsgd,dsgd:lr=0.1,gt") == ["dsgd", "dsgd:lr=0.1", "gt"]
    for bad in ("dsgd,dsgd", "dsgd:lr=1,dsgd:lr=1", "", "dsgd,", "lr=0.1,dsgd", "dsgd:lr=0"):
        if bad == "dsgd,":
            assert labels(bad) == ["dsgd"]
        else:
            with pytest.raises(UserError):
                labels(bad)


def test_default_is_two_hundred_measurements():
    assert RunConfig(iterations=2000).log_interval == 10
    assert RunConfig(iterations=2001).log_interval == 11
    assert RunConfig(iterations=7).log_interval == 1


def test_grid():
    assert stepsizes("1e-4..1", None) == [
        1e-4,
        0.000316,
        1e-3,
        0.00316,
        0.01,
        0.0316,
        0.1,
        0.316,
        1,
    ]
    assert stepsizes("0.1..10", 3) == [0.1, 1, 10]
    assert stepsizes("0.1", None) == [0.1]
    assert stepsizes("0.12345..1.2345", 3)[::2] == [0.12345, 1.2345]
    assert stepsizes("1e-200..1e200", 2) == [1e-200, 1e200]
    for bad in ("0..1", "1..0.1", "a..b", "", "1e-4..inf", "0.1..0.1"):
        with pytest.raises(UserError):
            stepsizes(bad, None)


@pytest.mark.parametrize("wrong", ["rows=5", "batch=0", "reg=-1", "split=x", "split_seed=-1"])
def test_options_of_a_dataset_are_checked_before_it_is_downloaded(wrong):
    with pytest.raises(UserError, match="problem softmax: "):
        RunConfig.of({"problem": f"softmax:dataset=mnist,{wrong}"})
