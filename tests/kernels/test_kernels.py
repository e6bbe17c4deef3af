"""The compiled kernels against the same in numpy: to the last bit, but for the Huber products."""

import importlib
import json
import signal
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from mpi_gt import kernels
from mpi_gt.comm.exchange import Message
from mpi_gt.fuse import entrywise
from mpi_gt.kernels import reference as twins
from mpi_gt.problems import Place
from mpi_gt.problems.base import Draws
from mpi_gt.problems.cross_entropy import slopes
from mpi_gt.problems.huber import Huber
from mpi_gt.problems.truncated_normal import TruncatedNormal

ROOT = Path(__file__).parent.parent


pytestmark = pytest.mark.usefixtures("kernels_built")


@pytest.mark.parametrize("width", [1, 3, 10, 123, 300, 100_000])
def test_the_same_draws(by_numpy, width):
    place = Place(3, 5, (0, 7, 2**63 + 5))
    compiled_draws, draws = Draws(place, 4, width), by_numpy(lambda: Draws(place, 4, width))
    for t in (1, 2, 3, 16, 17, 255, 256, 257, 1000, 5):
        expected = by_numpy(lambda t=t: draws.at(t))
        np.testing.assert_array_equal(compiled_draws.at(t), expected)
        assert not compiled_draws.at(t).flags.writeable


def test_the_same_noise(by_numpy):
    uniform = np.random.default_rng(0).random((3, 50, 10))
    samples = TruncatedNormal(0.2, 0.1).sample(uniform)
    plain = by_numpy(lambda: TruncatedNormal(0.2, 0.1).sample(uniform))
    np.testing.assert_array_equal(samples, plain)
    assert np.abs(samples).max() <= 0.1


@pytest.mark.parametrize("seeds", [(0,), (4, 2**64 - 1), tuple(range(50))], ids=len)
def test_the_same_noise_without_python(by_numpy, seeds):
    """What the kernels draw and transform by themselves, at any t, within a block and past it."""
    place = Place(2, 5, seeds)
    drawn = Draws(place, 4, 10, TruncatedNormal(0.2, 0.1).sample)
    draws = by_numpy(lambda: Draws(place, 4, 10, TruncatedNormal(0.2, 0.1).sample))
    assert drawn._program is not None
    assert draws._program is None
    kept = drawn.at(1), drawn.at(1).copy()
    for t in (1, 2, 3, 255, 256, 257, 258, 1, 10_000):
        np.testing.assert_array_equal(drawn.at(t), by_numpy(lambda t=t: draws.at(t)))
        assert not drawn.at(t).flags.writeable
    np.testing.assert_array_equal(*kept)  # what was given away is not drawn over
    with pytest.raises(ValueError, match="cannot be drawn"):
        drawn.at(0)


class Sent:
    """A message to nobody: what comes is what was put there, and calls are written down."""

    def __init__(self, way, counts=(2,), degree=4, shape=(3, 4), dtype=np.float64, blocking=False):
        random = np.random.default_rng(degree)
        self.calls = []
        self.heeded = None

        class Node(way.NodeCounters):
            def check_headers(node, headers):
                self.heeded = headers.copy()

        self.node = Node()
        self.node.iteration, self.node.stop_at, self.node.waits = 5, 2**63 - 1, 0
        self.node.bytes_sent = 0
        self.messages = [Message(degree, count, shape, np.dtype(dtype)) for count in counts]
        for message in self.messages:
            for received in message.received:
                received[:] = random.standard_normal(received.shape)
            message.headers[:] = 5, 2**63 - 1
        weights = random.random(degree + 1).astype(dtype)
        letters = tuple((m.header, m.headers, m.slots, m.received) for m in self.messages)
        finish = None if blocking else lambda which: self.note("finish", which)
        self.transfer = way.Transfer(
            self.node, self, letters, weights, degree // 2, 99,
            lambda: self.note("start"), finish, self.fill,
        )  # fmt: skip
        self.transfer.results = tuple(way.PendingMix(self.transfer, i) for i in range(sum(counts)))

    def note(self, *what):
        assert self.node.waiting is self
        self.calls.append(what)

    def fill(self, *vectors):
        vectors = iter(vectors)
        for message in self.messages:
            mine = tuple(next(vectors) for _ in message.slots)
            message.fill(self.node.iteration, self.node.stop_at, mine)


def both(*arguments, **options):
    return [Sent(way, *arguments, **options) for way in (kernels.C, twins)]


@pytest.mark.parametrize("degree", [0, 1, 4, 9, 70])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_same_sums(degree, dtype):
    for length in (1, 10, 5000):
        z = np.random.default_rng(0).standard_normal(length).astype(dtype)
        sums = []
        for sent in both((1,), degree, (length,), dtype):
            (arrival,) = sent.transfer(z)
            sums.append(arrival.wait())
        assert sums[0].dtype == dtype
        np.testing.assert_array_equal(*sums)


@pytest.mark.parametrize("counts", [(2,), (1, 1)])
@pytest.mark.parametrize("blocking", [False, True])
def test_the_same_posts(counts, blocking):
    vectors = np.random.default_rng(0).standard_normal((2, 3, 4))
    seen = []
    for sent in both(counts, blocking=blocking):
        first, second = sent.transfer(*vectors)
        results = second.wait(), first.wait()
        assert sent.node.waiting is None
        assert sent.heeded is None
        with pytest.raises(RuntimeError, match="waited for already"):
            first.wait()
        seen.append(
            (sent.calls, sent.node.waits, sent.node.bytes_sent,
             [m.send.tobytes() for m in sent.messages], [z.tobytes() for z in results])
        )  # fmt: skip
    assert seen[0] == seen[1]
    assert seen[0][0][0] == ("start",)
    finished = [("finish", which) for which in range(len(counts))]
    assert seen[0][0][1:] == ([] if blocking else finished[::-1])


def test_a_header_that_differs_is_heeded():
    for sent in both():
        sent.messages[0].headers[2, 1] = 40
        for arrival in sent.transfer(*np.ones((2, 3, 4))):
            arrival.wait()
        assert sent.heeded[2].tolist() == [5, 40]


@pytest.mark.parametrize("odd", [np.ones((3, 4), np.float32), np.ones((4, 3)).T, np.ones((2, 4))])
def test_vectors_of_another_kind(odd):
    sends = []
    for sent in both():
        vectors = np.zeros((3, 4)), odd
        if odd.shape == (3, 4):
            for arrival in sent.transfer(*vectors):
                arrival.wait()
        else:
            with pytest.raises(ValueError, match=r"a vector of shape \(2, 4\)"):
                sent.transfer(*vectors)
        sends.append(sent.messages[0].send.tobytes())
    assert sends[0] == sends[1]


def test_results_are_the_caller_s_own():
    """The kernels take an array again only where nobody else has it, or a part of it."""
    (sent, _) = both((1,), shape=(6,))
    kept = []
    for t in range(20):
        (arrival,) = sent.transfer(np.full(6, float(t)))
        mixed = arrival.wait()
        kept.append((mixed if t % 3 else mixed[1:3], mixed.copy() if t % 3 else mixed[1:3].copy()))
        if t % 4 == 0:
            mixed.flags.writeable = False
    for array, then in kept:
        np.testing.assert_array_equal(array, then)
    del mixed, array, kept, then
    (arrival,) = sent.transfer(np.zeros(6))
    assert arrival.wait().flags.writeable


def test_a_post_that_is_watched():
    for sent in both(counts=(1,)):
        stamps = np.zeros(100, dtype=np.int64)
        stamps[0] = 1
        sent.transfer.watch(stamps, 7, 8)
        (arrival,) = sent.transfer(np.ones((3, 4)))
        arrival.wait()
        assert stamps[0] == 9
        assert stamps[1:9:2].tolist() == [7, 8, 7, 8]
        assert (np.diff(stamps[2:9:2]) >= 0).all()


@pytest.mark.parametrize("way", [kernels.C, twins], ids=["compiled", "twin"])
def test_mix_has_a_post_for_each_number_of_vectors(way):
    made = []

    def make(*vectors):
        made.append(len(vectors))
        return Sent(way, (len(vectors),)).transfer

    mix = way.Mix(make)
    z = np.ones((3, 4))
    (one,) = mix(z)
    with pytest.raises(RuntimeError, match="never waited for"):
        mix(z, z)
    one.wait()
    for arrival in mix(z, z):
        arrival.wait()
    mix(z)[0].wait()
    assert made == [1, 2]


def test_buffers_that_do_not_fit_are_refused():
    node, weights = kernels.C.NodeCounters(), np.ones(3)
    header, headers = np.zeros(2, np.int64), np.zeros((2, 2), np.int64)
    slot, received = np.zeros((1, 4)), np.zeros((2, 4))

    def post(letter=(header, headers, (slot,), (received,)), weights=weights, place=1):
        nothing = int
        return kernels.C.Transfer(node, None, (letter,), weights, place, 0, nothing, None, nothing)

    post()
    with pytest.raises(TypeError, match="takes 1 vectors"):
        post()(slot, slot)
    for letter in (
        (header[:1], headers, (slot,), (received,)),
        (header, headers[:1], (slot,), (received,)),
        (header, headers[:, ::-1], (slot,), (received,)),
        (header, headers.astype(object), (slot,), (received,)),
        (header, headers, (slot,), (received.astype(">f8"),)),
        (header, headers, (slot,), (received[:1],)),
        (header, headers, (slot,), (received[:, :3],)),
        (header, headers, (slot.astype(np.float32),), (received,)),
        (header, headers, (slot,), (received.T.copy().T,)),
        (header, headers, (slot, slot), (received,)),
        (header, headers, (), ()),
    ):
        with pytest.raises(ValueError, match=r"do not fit|nothing to post"):
            post(letter)
    for wrong in ({"weights": np.ones(3, int)}, {"place": 3}, {"place": -1}):
        with pytest.raises(ValueError, match="weights"):
            post(**wrong)
    with pytest.raises(ValueError, match="no such vector"):
        kernels.C.PendingMix(post(), 1)


def test_the_gradient_of_the_iteration_to_come():
    for way in (kernels.C, twins):
        node = way.NodeCounters()
        node.iteration = 41
        grad = way.NextGradient(node, lambda t, x: (t, x))
        assert grad("x") == (42, "x")


def test_kernels_of_another_version_are_not_used(monkeypatch):
    assert kernels.C.VERSION == kernels.VERSION
    try:
        with monkeypatch.context() as patch:
            patch.setattr(kernels.C, "VERSION", 1)
            with pytest.warns(UserWarning, match="install it again"):
                assert importlib.reload(kernels).C is None
    finally:
        assert importlib.reload(kernels).C is not None


@pytest.mark.parametrize("way", [kernels.C, twins], ids=["compiled", "twin"])
class TestWalk:
    def test_it_goes_on_until_something_is_due(self, way):
        node, taken = way.NodeCounters(), []

        def step(t, state, mix, grad):
            assert (node.iteration, mix, grad) == (t, "mix", "grad")
            taken.append(t)
            if t == 12:
                node.due = 13  # what was due at 20 is now due at once
            return f"state {t}"

        walk = partial(way.advance, step, node, "mix", "grad", 15)
        states = ["start"]
        assert (walk(0, states), states) == (1, ["start", "state 1"])
        node.due = 5
        assert (walk(1, states), states) == (5, ["state 4", "state 5"])
        node.due = 20
        assert (walk(5, states), states) == (13, ["state 12", "state 13"])
        node.due = 20
        assert (walk(13, states), states) == (15, ["state 14", "state 15"])
        assert taken == list(range(1, 16))
        assert (walk(15, states), states) == (15, [None, "state 15"])

    def test_an_error_and_a_signal_end_it(self, way, request):
        # a shell has its background jobs ignore it
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
        node = way.NodeCounters()
        node.due = 1000

        def step(t, state, mix, grad):
            if t == 3:
                signal.raise_signal(signal.SIGINT)
            return state

        state = ["some state"]
        references = sys.getrefcount(state)
        with pytest.raises(KeyboardInterrupt):
            way.advance(step, node, None, None, 1000, 0, [state])
        assert node.iteration in (3, 4)
        with pytest.raises(ZeroDivisionError):
            way.advance(lambda *_: 1 / 0, node, None, None, 1000, 0, [state])
        assert sys.getrefcount(state) == references


def test_a_gradient_of_the_user_s_own_is_called():
    class Mine(Huber):
        def gradient(self, t, x):
            return 2 * super().gradient(t, x)

    x, place = np.ones((1, 10)), Place(0, 1, (0,))
    mine, plain = Mine(place), Huber(place)
    assert plain._kernel is not None
    assert mine._kernel is None
    np.testing.assert_array_equal(mine.gradient(1, x), 2 * plain._kernel(1, x))


def test_draws_by_a_program_that_does_not_fit():
    draws = Draws(Place(0, 1, (0,)), 1, 4, entrywise(lambda a: a + 1, 1))
    draws._program = entrywise(lambda a, b: a + b, 2).program  # of two arrays
    np.testing.assert_array_equal(draws(1), Draws(Place(0, 1, (0,)), 1, 4)(1) + 1)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"dim": 1},
        {"dim": 64, "reduce": "mean"},
        {"dim": 65},
        {"noise": 0.0},
        {"phi": "diagonal"},
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_huber_gradient_but_for_rounding(by_numpy, options, dtype):
    place = Place(1, 4, (3, 4, 5), np.dtype(dtype))
    problem = Huber(place, **options)
    plain = by_numpy(lambda: Huber(place, **options))
    x = np.random.default_rng(0).uniform(-4, 4, (3, problem.dim)).astype(dtype)
    for t in (1, 2, 300):
        gradient = problem.gradient(t, x)
        expected = by_numpy(lambda t=t: plain.gradient(t, x))
        assert gradient.dtype == dtype
        tolerance = 1e-13 if dtype == np.float64 else 1e-5
        np.testing.assert_allclose(gradient, expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"dim": 1, "reduce": "mean"},
        {"noise": 0.0},
        {"threshold": 0.05},  # within reach of the noise from one kink to the other
        {"threshold": 1e-9},
        {"noise": 1e-3, "truncate": 1.0},
        {"dim": 65},
        {"phi": "diagonal"},
    ],
    ids=str,
)
def test_the_expected_huber_loss_but_for_rounding(by_numpy, options):
    seeds = tuple(range(20))
    problem = Huber(Place(1, 4, seeds), **options)
    plain = by_numpy(lambda: Huber(Place(1, 4, seeds), **options))
    random = np.random.default_rng(0)
    x = random.uniform(-4, 4, (20, problem.dim))  # on both sides of the kinks
    x_star = [Place(1, 4, seeds).random(seed, Huber.X_STAR, shared=True) for seed in seeds]
    near = np.stack([draw.uniform(-1, 1, problem.dim) for draw in x_star])
    near += random.uniform(-0.1, 0.1, near.shape)  # and between them
    for at in (x, near, np.asfortranarray(x), x.astype(np.float32)):
        for value, expected in zip(problem.evaluate(at), plain.evaluate(at), strict=True):
            assert value.dtype == np.float64
            np.testing.assert_allclose(value, expected, rtol=1e-13, atol=1e-13)
    x[3, 0] = np.nan
    loss, gradient = problem.evaluate(x)
    assert np.flatnonzero(np.isnan(loss)).tolist() == [3]
    assert np.flatnonzero(np.isnan(gradient).any(axis=1)).tolist() == [3]


@pytest.mark.parametrize("shape", [(50, 1, 10), (333, 10, 7), (3, 2, 2000), (1, 1, 2), (0, 1, 2)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_softmax_slopes_but_for_rounding(by_numpy, shape, dtype):
    random = np.random.default_rng(0)
    rows, groups, classes = shape
    spread = np.exp(random.uniform(-3, 7, (rows, groups, 1)))
    z = (random.standard_normal(shape) * spread).astype(dtype)
    labels = random.integers(0, classes, rows)
    z[: rows // 2, :, 0] = z[: rows // 2].max(axis=2)  # often two are the largest: the first counts

    def compute():
        slope, loss, correct = z.copy(), np.ones(groups), np.ones(groups, np.int64)
        slopes(slope, labels, 0.25, loss, correct)
        return slope, loss, correct

    (slope, loss, correct), (expected, expected_loss, expected_correct) = (
        compute(),
        by_numpy(compute),
    )
    epsilon = 2e-16 if dtype == np.float64 else 1e-6
    assert slope.dtype == dtype
    np.testing.assert_allclose(slope, expected, rtol=0, atol=epsilon)
    np.testing.assert_allclose(loss, expected_loss, rtol=10 * epsilon)
    np.testing.assert_array_equal(correct, expected_correct)


def test_what_is_not_finite_stays_so():
    z = np.array([[[np.nan, 1.0, 2.0]], [[np.inf, 1.0, 2.0]]])
    loss = np.zeros(1)
    slopes(z, np.array([0, 1]), 1.0, loss)
    assert np.isnan(z).any(axis=2).all()
    assert np.isnan(loss[0])


def test_a_run_without_the_kernels(tmp_path, call, openmpi):
    """The same numbers but for rounding; run.json says which it was."""
    outputs = []
    for name in ("c", "numpy"):
        out = tmp_path / name
        words = openmpi.mpi_gt("run", "-n", "4", "--iterations=200", "--seeds=3", f"--out={out}")
        call([*words, "--quiet"], env={"MPI_GT_KERNELS": name})
        assert json.loads((out / "run.json").read_text())["kernels"] == name
        outputs.append(np.load(out / "final.npz")["x"])
    np.testing.assert_allclose(*outputs, rtol=0, atol=1e-11)


def test_every_source_is_built():
    listed = (ROOT / "pyproject.toml").read_text()
    for path in (ROOT / "mpi_gt" / "kernels").glob("*.[ch]"):
        assert f'"{path.relative_to(ROOT)}"' in listed
