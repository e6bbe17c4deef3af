"""The benchmark compares equal work: its reference in C ends where mpi-gt ends."""

import sys

import numpy as np
import pytest
from support import ROOT_OF_REPOSITORY, temporary_files

BENCH = ROOT_OF_REPOSITORY / "scripts" / "bench"
RANKS = 4


@pytest.fixture
def sides(monkeypatch, compiler):
    monkeypatch.syspath_prepend(str(BENCH))
    import sides

    return sides


@pytest.fixture
def machine(sides, tmp_path, monkeypatch):
    for name, value in temporary_files().items():
        monkeypatch.setenv(name, value)
    return sides.Machine(tmp_path)


@pytest.mark.parametrize(("how", "exchange"), [([], "neighbor"), (["shared"], "shared")])
def test_the_reference_does_the_same_iteration(sides, machine, tmp_path, how, exchange):
    folder = tmp_path / "huber"
    sides.write_huber(folder, RANKS, 3, noise=False)
    assert len(machine.c("huber", RANKS, folder, 100, *how)) == sides.PARTS
    options = ["--problem=huber:noise=0", "--seeds=3", f"--exchange={exchange}"]
    assert len(machine.ours(RANKS, 100, *options)) == sides.PARTS
    with np.load(tmp_path / "run" / "final.npz") as final:
        x = final["x"]
    assert np.abs(x).max() > 0.1
    assert np.abs(x - sides.read_reference(folder, RANKS, 3, 10)).max() <= 1e-9


@pytest.mark.parametrize(("how", "exchange"), [([], "neighbor"), (["shared"], "shared")])
def test_the_reference_mixes_the_same(sides, machine, tmp_path, how, exchange):
    folder = tmp_path / "mix"
    sides.write_mix(folder, RANKS, 3000)
    machine.c("mix", RANKS, folder, 20, *how)
    words = ["mix", str(folder), "3000", "20", sides.GRAPH, exchange]
    printed = machine.on_ranks(RANKS, sys.executable, str(BENCH / "ours.py"), *words)
    assert len(printed.split()) == sides.PARTS
    for rank, theirs in enumerate(sides.read_reference(folder, RANKS, 1, 3000)):
        ours = np.fromfile(folder / f"ours-{rank}.bin")
        assert np.ptp(ours) > 1
        np.testing.assert_allclose(ours, theirs[0], rtol=0, atol=1e-9)


@pytest.mark.parametrize("option", ["log_every=10", "checkpoint_every=10"])
def test_both_sides_of_an_option_take_turns(sides, machine, tmp_path, option):
    words = ["option", option, "2", "40", str(tmp_path / "run")]
    printed = machine.on_ranks(RANKS, sys.executable, str(BENCH / "ours.py"), *words)
    assert all(float(word) > 0 for word in printed.split())
    assert [len(line.split()) for line in printed.splitlines()] == [2, 2]
    table = (tmp_path / "run" / "metrics.csv").read_text().splitlines()
    runs_with, runs_without = 3, 2  # one of the runs with it is a warm-up
    logged = 5 if option.startswith("log") else 2
    assert len(table) == 1 + 50 * (runs_with * logged + runs_without * 2)
    saved = {path.name for path in (tmp_path / "run").rglob("checkpoint*")}
    assert bool(saved) == option.startswith("checkpoint")


def test_methods_take_turns(machine):
    methods = ["gt", "gt-adaptive-compressed:compress=sign", "beer:compress=qsgd,bits=8"]
    words = ["methods", "2", "8", "3", "huber", "neighbor", *methods]
    printed = machine.on_ranks(RANKS, sys.executable, str(BENCH / "ours.py"), *words)
    turns = [[float(word) for word in line.split()] for line in printed.splitlines()]
    assert [len(turn) for turn in turns] == [3, 3]
    assert all(0 < seconds < 10 for turn in turns for seconds in turn)


@pytest.mark.usefixtures("sides")
def test_compressors_are_timed_beside_a_copy():
    import local

    times = local.codec("qsgd:bits=8", 1, repeats=2)
    assert sorted(times) == ["copy", "decode", "draws", "encode"]
    assert all(0 < seconds < 1 for seconds in times.values())
    assert "draws" not in local.codec("sign", 2, repeats=1)
