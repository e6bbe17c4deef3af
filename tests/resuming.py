"""Helpers for tests that stop a run in one process and resume it."""

import csv

from mpi_gt.cli.main import main

WORDS = ["run", "--stacked", "-n", "4", "--iterations", "60", "--log-every", "7", "--seeds", "2"]


def table(directory):
    with (directory / "metrics.csv").open(newline="") as file:
        return [{**row, "seconds": ""} for row in csv.DictReader(file)]


def assert_same(directory, reference):
    assert table(directory) == table(reference)
    assert (directory / "final.npz").read_bytes() == (reference / "final.npz").read_bytes()


def run(out, *words, expect=0):
    assert main([*WORDS, "--out", str(out), "--quiet", *words]) == expect


def resume(out, *words, expect=0):
    assert main(["resume", str(out), "--quiet", *words]) == expect


def stop_at(monkeypatch, iteration):
    """Request a stop of the run before that iteration, as a signal would."""
    from mpi_gt.engine.checkpointer import Checkpointer

    poll_stop = Checkpointer.poll_stop

    def asking(self, t):
        if t == iteration:
            self._stop.requested = True
        poll_stop(self, t)

    monkeypatch.setattr(Checkpointer, "poll_stop", asking)
    monkeypatch.setattr("mpi_gt.engine.stop.POLL_SECONDS", 0)  # it is called before each step then


def stopped(monkeypatch, out, *words, at=30):
    with monkeypatch.context() as patch:
        stop_at(patch, at)
        run(out, *words, expect=85)


def damage_flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)
