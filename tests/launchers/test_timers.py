"""Coarse timers, and that they are fine again afterwards."""

from pathlib import Path

import pytest

from mpi_gt.launchers.timers import SLACK, coarse_timers

FILE = Path("/proc/self/timerslack_ns")


def slack():
    return int(FILE.read_text())


@pytest.mark.skipif(not FILE.exists(), reason="no timer slack in this kernel")
def test_sleeps_are_coarse_within_the_block_only():
    before = slack()
    with coarse_timers():
        assert slack() == SLACK
    assert slack() == before
    with pytest.raises(ZeroDivisionError), coarse_timers(123_456):
        assert slack() / 0 == 123_456
    assert slack() == before


def test_without_the_call_nothing_happens(monkeypatch):
    monkeypatch.setattr("ctypes.CDLL", lambda name: object())
    with coarse_timers():
        pass
