"""A method's view of its node: oracles for methods that are written outside the package."""

import threading
from functools import partial

import numpy as np
import own_methods
import pytest
from resuming import assert_same, resume, run, stopped

import mpi_gt
from mpi_gt.algorithms.gt import GradientTracking
from mpi_gt.cli.main import main
from mpi_gt.comm.stacked import ReadyMix, ReadyMixes
from mpi_gt.config import RunConfig
from mpi_gt.engine.build import build_stacked
from mpi_gt.engine.loop import Method
from mpi_gt.engine.place import METHODS, Placed, asks_for_place, with_place
from mpi_gt.fuse import compiled
from mpi_gt.graphs import build_network
from mpi_gt.problems.base import Place, Problem
from mpi_gt.problems.huber import Huber

N, SEEDS, DIM = 8, 2, 6
QUADRATIC = "huber:dim=6,noise=0,spread=0.5,threshold=1000"
OPTIONS = {"problem": QUADRATIC, "graph": "ring", "seeds": SEEDS, "n": N, "stacked": True}


def solve(name, iterations=60, **options):
    return mpi_gt.run(
        algorithm=f"own_methods:{name}", iterations=iterations, **{**OPTIONS, **options}
    )


class Serial:
    """The same quadratic for an independent implementation: all nodes as (nodes, seeds, dim)."""

    def __init__(self, noise=0.0):
        self.matrix = build_network("ring", None, N).matrix
        self.problems = [
            Huber(Place(node, N, tuple(range(SEEDS))), dim=DIM, noise=noise, spread=0.5,
                  threshold=1000)
            for node in range(N)
        ]  # fmt: skip

    def gradient(self, t, x):
        return np.stack([p.gradient(t, own) for p, own in zip(self.problems, x, strict=True)])

    def mix(self, x):
        return np.tensordot(self.matrix, x, axes=1)


def test_extra_is_the_recursion_with_two_matrices():
    """x_{k+2} = (I + A) x_{k+1} - (I + A)/2 x_k - a (grad_{k+1} - grad_k)."""
    serial, a = Serial(), 0.5
    before = np.zeros((N, SEEDS, DIM))
    x = serial.mix(before) - a * serial.gradient(1, before)
    for t in range(2, 61):
        step = a * (serial.gradient(t, x) - serial.gradient(t - 1, before))
        x, before = x + serial.mix(x) - (before + serial.mix(before)) / 2 - step, x
    np.testing.assert_allclose(solve("Extra:lr=0.5").x, x, atol=1e-12)
    np.testing.assert_allclose(solve("EdgeExtra:lr=0.5").x, x, atol=1e-12)
    assert solve("EdgeExtra:lr=0.5", 300).metrics[-1]["gap"] < 1e-18


def test_admm_is_the_recursion_with_the_laplacian():
    serial, a, c = Serial(), 0.5, 0.3
    laplacian = 2 * np.eye(N) - (serial.matrix > 0) + np.eye(N)
    x = p = np.zeros((N, SEEDS, DIM))
    for t in range(1, 61):
        apart = np.tensordot(laplacian, x, axes=1)
        x = x - (serial.gradient(t, x) + p + c * apart) / (4 * c + 1 / a)
        p = p + c * np.tensordot(laplacian, x, axes=1)
    np.testing.assert_allclose(solve("Admm:lr=0.5,c=0.3").x, x, atol=1e-12)
    assert solve("Admm:lr=0.5,c=0.3", 1000).metrics[-1]["gap"] < 1e-18


def test_a_stepsize_from_the_local_constant():
    serial, x = Serial(), np.zeros((N, SEEDS, DIM))
    rates = np.array([0.5 / np.linalg.norm(p._phi, ord=2, axis=(1, 2)).max() ** 2
                      for p in serial.problems])  # fmt: skip
    assert len(set(rates)) == N
    for t in range(1, 61):
        x = serial.mix(x) - rates[:, np.newaxis, np.newaxis] * serial.gradient(t, x)
    np.testing.assert_allclose(solve("OwnRate:lr=0.5").x, x, atol=1e-12)


@pytest.mark.parametrize("by_numpy", [False, True])
def test_rand_k_draws_from_philox_by_seed_node_and_t(by_numpy, monkeypatch):
    """The key is [seed, (2^31 + purpose) 2^32 + node], the counter holds the block of 256."""
    if by_numpy:
        monkeypatch.setattr("mpi_gt.kernels.C", None)
    serial, x, k, first = Serial(noise=0.2), np.zeros((N, SEEDS, DIM)), 2, 5
    serial.problems = [Huber(Place(i, N, (5, 6)), dim=DIM, noise=0.2, spread=0.5, threshold=1000)
                       for i in range(N)]  # fmt: skip
    drawn = np.empty((300, N, SEEDS, DIM))
    for node in range(N):
        for seed in range(SEEDS):
            for block in range(2):
                key = np.array([first + seed, (2**31 + 7) * 2**32 + node], np.uint64)
                philox = np.random.Philox(key=key, counter=np.array([0, block, 0, 0], np.uint64))
                rows = drawn[256 * block : 256 * (block + 1), node, seed]
                rows[:] = np.random.Generator(philox).random(rows.shape)
    for t in range(1, 301):
        g = serial.gradient(t, x)
        smallest = np.sort(drawn[t - 1], axis=-1)[..., [-k]]
        x = serial.mix(x) - 0.05 * g * (drawn[t - 1] >= smallest) * DIM / k
    problem = QUADRATIC.replace("noise=0", "noise=0.2")
    result = solve("RandK:lr=0.05,k=2", 300, seed=first, problem=problem)
    np.testing.assert_allclose(result.x, x, atol=1e-12)


def test_the_median_of_the_neighbourhood():
    serial, x = Serial(), np.zeros((N, SEEDS, DIM))
    for t in range(1, 31):
        g = serial.gradient(t, x)
        near = [[(i - 1) % N, i, (i + 1) % N] for i in range(N)]
        slope = np.stack([g[three].sum(axis=0) for three in near])
        x = np.stack([np.median(x[three], axis=0) for three in near])
        x = serial.mix(x - 0.1 * 0.5 * slope)
    result = solve("Median:lr=0.1", 30)
    np.testing.assert_allclose(result.x, x, atol=1e-12)
    edges, vectors = 2 * N, 3
    assert result.metrics[-1]["bytes"] == 30 * edges * vectors * DIM * 8


@pytest.mark.parametrize("name", ["EdgeExtra:lr=0.5", "Admm:lr=0.5", "OwnRate", "RandK", "Median"])
def test_resumed_to_the_same_bits(name, tmp_path, monkeypatch):
    words = ["--algorithm", f"own_methods:{name}", "--problem", "huber:dim=6,spread=0.3"]
    run(tmp_path / "whole", *words)
    stopped(monkeypatch, tmp_path / "parts", *words)
    resume(tmp_path / "parts")
    assert_same(tmp_path / "parts", tmp_path / "whole")


def test_a_comparison_with_methods_of_the_package():
    options = {**OPTIONS, "iterations": 50}
    result = mpi_gt.run(**options, algorithms="own_methods:OwnRate,gt,own_methods:Admm")
    alone = mpi_gt.run(**options, algorithm="gt")
    np.testing.assert_array_equal(result.outputs["gt"], alone.x)


def test_what_a_place_holds():
    config = RunConfig.of({**OPTIONS, "seed": 3, "dtype": "float32"})
    places = build_stacked(config).places
    assert [place.node for place in places] == list(range(N))
    place = places[3]
    assert place.neighbours == place.neighbors == (2, 4)
    assert (place.nodes, place.seeds, place.dtype) == (N, (3, 4), np.float32)
    row = build_network("ring", None, N).matrix[3]
    assert dict(place.weights) == {j: row[j] for j in (2, 3, 4)}
    assert list(place.weights) == [2, 3, 4]
    with pytest.raises(TypeError):
        place.weights[2] = 1.0
    assert place.constants.L.exact
    assert place.constants.L.value == pytest.approx(place.problem.constants().L.value)


def test_the_numbers_of_methods_are_not_those_of_problems():
    place = build_stacked(RunConfig.of(OPTIONS)).places[1]
    ours, theirs = (at.random(0, 4).random(5) for at in (place, place.at))
    assert not np.isin(ours, theirs).any()
    np.testing.assert_array_equal(ours, place.at.random(0, METHODS + 4).random(5))
    other = build_stacked(RunConfig.of(OPTIONS)).places[2]
    assert not np.isin(other.random(0, 4).random(5), ours).any()
    shared = [at.random(0, 4, shared=True).random(5) for at in (place, other)]
    np.testing.assert_array_equal(*shared)
    drawn = place.draws(300, 4, 5)
    assert drawn.shape == (SEEDS, 5)
    np.testing.assert_array_equal(place.draws(300, 4, 5), drawn)
    assert not np.isin(place.draws(301, 4, 5), drawn).any()
    for wrong in (lambda: place.random(0, 2**31), lambda: place.random(0, -1),
                  lambda: place.draws(1, -1, 3), lambda: place.draws(1, 0, 0),
                  lambda: place.draws(0, 0, 3)):  # fmt: skip
        with pytest.raises(ValueError, match=r"must be|numbered from 1"):
            wrong()


def test_a_problem_without_constants_has_none():
    class Bowl(Problem):
        def __init__(self, place):
            self.dim = 1

        gradient = evaluate = None

    place = build_stacked(RunConfig.of(OPTIONS)).places[0]
    bare = type(place)(place.at, place.row, Bowl(place.at))
    assert bare.constants is None


def test_only_a_method_that_asks_gets_a_place():
    place = build_stacked(RunConfig.of(OPTIONS)).places[0]
    for method in (GradientTracking().step, own_methods.Extra().step):
        assert with_place(method, place) == method
    assert not asks_for_place(GradientTracking().init)
    assert asks_for_place(own_methods.RandK().init)
    assert not asks_for_place(own_methods.OwnRate().init)

    def by_keyword(t, state, mix, grad, *, place):
        return place

    assert with_place(by_keyword, place)(1, None, None, None) is place


@pytest.mark.usefixtures("kernels_built")
def test_a_fused_step_is_recorded_with_its_place():
    place = build_stacked(RunConfig.of(OPTIONS)).places[0]
    x = np.ones((SEEDS, DIM))
    for name, recorded in (("OwnRate", True), ("Extra", True), ("RandK", False)):
        algorithm = getattr(own_methods, name)()
        placed = Placed(algorithm, place)
        step = compiled(placed, placed.init(x, np.sin))
        assert (type(step).__name__ == "Replay") == recorded, name
    algorithm = own_methods.OwnRate()
    placed = Placed(algorithm, place)
    state = placed.init(x, np.sin)

    steps = compiled(placed, state), partial(algorithm.step, place=place)
    made = [step(3, state, lambda z: ReadyMixes([ReadyMix(z * 2)]), np.sin) for step in steps]
    for one, other in zip(*made, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_stacked_run_ends_its_threads():
    def count():
        return sum(thread.name.startswith("node ") for thread in threading.enumerate())

    experiment = build_stacked(RunConfig.of({**OPTIONS, "algorithm": "own_methods:RandK"}))
    with Method(experiment, experiment.entries[0]) as method:
        assert count() == 0  # none before they are needed
        start = method.init(experiment.x1, None)
        experiment.node.iteration = 1
        method.step(start)(1, start, None, None)
        assert count() == N
    assert count() == 0


SOURCE = """
import numpy as np
from mpi_gt.algorithms.dsgd import DSGD

class Mine(DSGD):
    def step(self, t, state, mix, grad, place):
        #first
        others = mix.each(state.x).wait()
        x = np.mean([state.x, *others.values()], axis=0) - self.lr * state.g
        #last
        return self.State(x, grad(x))
"""
WRONG = {
    "forgotten": ("others = mix.each(state.x).wait()", "mix.each(state.x); others = {}", 2,
                  "Mine.step must wait once for each result of mix"),
    "twice": ("#last", "mix.each(x).wait(); p = mix.each(x); p.wait(); p.wait()", 2,
              "Mine.step must wait once"),
    "later forgotten": ("#last", "if t == 3: place.seen = mix.each(x)", 1,
                        "call 2 of mix had 0 vectors"),
    "more later": ("#last", "if t == 3: mix.each(x, x)", 1, "call 2 of mix had 0 vectors"),
    "shape": ("mix.each(state.x)", "mix.each(state.x[:1])", 2,
              "Mine.step: the argument of mix has shape (1, 6), not (2, 6)"),
    "late shape": ("#first", "if t == 3: mix.each(state.x[:1])", 1,
                   "the argument of mix has shape (1, 6), not (2, 6)"),
    "write": ("#first", "if t == 3: state.x[:] = 0", 1, "read-only"),
    "purpose": ("#first", "place.draws(t, -1, 2)", 2, "the purpose of random numbers must be in"),
    "no field": ("#first", "place.neighbourhood", 2, "has no attribute 'neighbourhood'"),
    "change": ("#first", "place.row = None", 2, "cannot assign to field 'row'"),
    "one node": ("#first", "if t == 3 and place.node == 1: raise KeyError('odd')", 1, "'odd'"),
    "one node stops": ("others = mix.each(state.x).wait()",
                       "others = {} if t == 3 and place.node == 1 else mix.each(state.x).wait()",
                       1, "Mine.step called mix 1 times in the first step and 0 now"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_use_is_one_message(case, tmp_path, monkeypatch, capsys):
    line, by, code, message = WRONG[case]
    assert line in SOURCE
    (tmp_path / "mine.py").write_text(SOURCE.replace(line, by))
    monkeypatch.chdir(tmp_path)
    words = ["run", "--stacked", "-n", "3", "--iterations", "20", "--seeds", "2", "--quiet"]
    words += ["--problem", "huber:dim=6", "--algorithm", "mine:Mine", "--out", "run"]
    assert main(words) == code
    error = capsys.readouterr().err
    assert message in error
    assert error.count("mpi-gt: error: ") == 1
    assert error.count("  File ") <= 1
