"""The network with one hidden layer: loss, gradients, start, and the accuracy on test rows."""

import csv
import json

import numpy as np
import pytest

import mpi_gt
from mpi_gt.cli.main import main
from mpi_gt.errors import UserError
from mpi_gt.problems import Mlp, Place

SMALL = {"rows": 300, "features": 5, "classes": 3, "hidden": 4}


def make(node=0, nodes=2, seeds=(0, 1), dtype=np.float64, reproducible=False, **options):
    place = Place(node, nodes, seeds, np.dtype(dtype), reproducible=reproducible)
    return Mlp(place, **{**SMALL, **options})


def point(problem, seeds=(0, 1)):
    noise = np.random.default_rng(3).standard_normal((len(seeds), problem.dim))
    return np.stack([problem.start(seed) for seed in seeds]) + 0.3 * noise


def unpack(problem, x):
    """Return the pytree [(W1, b1), (W2, b2)] of one seed's x."""
    hidden, features, classes = problem.hidden, problem._x.shape[1], problem.classes
    sizes = [hidden * features, hidden, classes * hidden]
    w1, b1, w2, b2 = np.split(x, np.cumsum(sizes))
    return [(w1.reshape(hidden, features), b1), (w2.reshape(classes, hidden), b2)]


def by_hand(problem, x, activation):
    """Return the loss of one seed's x, row by row."""
    (w1, b1), (w2, b2) = unpack(problem, x)
    loss = 0.0
    for y, label in zip(problem._x.astype(float), problem._labels, strict=True):
        z = w2 @ activation(w1 @ (y * problem._scale) + b1) + b2
        loss -= np.log(np.exp(z[label]) / np.exp(z).sum())
    return loss / len(problem._x) + problem.reg / 2 * x @ x


ACTIVATIONS = {"tanh": np.tanh, "relu": lambda z: np.maximum(z, 0)}


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_loss_by_hand(activation):
    problem = make(activation=activation, reg=0.2)
    x = point(problem)
    expected = [by_hand(problem, each, ACTIVATIONS[activation]) for each in x]
    np.testing.assert_allclose(problem.evaluate(x)[0], expected, rtol=1e-12)


@pytest.mark.parametrize("reproducible", [False, True])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_gradient_against_differences_of_the_loss(activation, reproducible, kernels_built):
    problem = make(activation=activation, reg=0.3, reproducible=reproducible)
    x = point(problem)
    _, gradient = problem.evaluate(x)
    for j in range(problem.dim):
        step = 1e-6 * np.eye(problem.dim)[j]
        slope = (problem.evaluate(x + step)[0] - problem.evaluate(x - step)[0]) / 2e-6
        np.testing.assert_allclose(gradient[:, j], slope, rtol=1e-5, atol=1e-8)


def jax_gradient(problem, x, y, labels):
    jax = pytest.importorskip("jax")
    from jax.flatten_util import ravel_pytree

    tree = [tuple(map(jax.numpy.asarray, layer)) for layer in unpack(problem, x)]
    flat, unravel = ravel_pytree(tree)
    np.testing.assert_array_equal(np.asarray(flat), x)  # the documented order

    def loss(flat):
        (w1, b1), (w2, b2) = unravel(flat)
        z = jax.numpy.tanh(y @ w1.T + b1) @ w2.T + b2
        return -jax.nn.log_softmax(z)[np.arange(len(y)), labels].mean()

    return np.asarray(jax.grad(loss)(flat))


def torch_gradient(problem, x, y, labels):
    torch = pytest.importorskip("torch")
    from torch import nn

    sizes = problem._x.shape[1], problem.hidden, problem.classes
    net = nn.Sequential(nn.Linear(*sizes[:2]), nn.Tanh(), nn.Linear(*sizes[1:]))
    nn.utils.vector_to_parameters(torch.tensor(x), net.parameters())
    loss = nn.functional.cross_entropy(net(torch.tensor(y)), torch.tensor(labels))
    slopes = torch.autograd.grad(loss, list(net.parameters()))
    return nn.utils.parameters_to_vector(slopes).numpy()


@pytest.mark.parametrize("other", [jax_gradient, torch_gradient])
def test_gradient_is_that_of_other_packages_on_the_same_weights(other):
    problem = make(dtype=np.float32, features=30, hidden=16, seeds=(0,))
    x = point(problem, (0,)).astype(np.float32)
    rows = problem._rows.at(1)[0]
    expected = other(problem, x[0], problem._x[rows], problem._labels[rows])
    assert expected.dtype == np.float32
    ours = problem.gradient(1, x)[0]
    np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_stochastic_gradient_is_that_of_its_rows(activation):
    options = {"batch": 4, "reg": 0.1, "activation": activation}
    problem = make(**options)
    x = point(problem)
    for t in (1, 5):
        rows = problem._rows.at(t)
        assert rows.shape == (2, 4)
        for seed in range(2):
            alone = make(**options)
            alone._x, alone._labels = problem._x[rows[seed]], problem._labels[rows[seed]]
            expected = alone.evaluate(x)[1][seed]
            np.testing.assert_allclose(problem.gradient(t, x)[seed], expected, atol=1e-13)


def test_a_gradient_outlives_the_next_one():
    problem = make()
    x = point(problem)
    first = problem.gradient(1, x)
    kept = first.copy()
    assert not np.array_equal(problem.gradient(2, x), kept)
    np.testing.assert_array_equal(first, kept)


def test_one_seed_of_several_equals_that_seed_alone():
    together, alone = make(seeds=(3, 4, 5)), make(seeds=(4,))
    x = point(together, (3, 4, 5))
    for ours, theirs in (
        (together.gradient(7, x)[1], alone.gradient(7, x[1:2])[0]),
        (together.evaluate(x)[1][1], alone.evaluate(x[1:2])[1][0]),
        (together.start(4), alone.start(4)),
    ):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-14)


def test_chunks_change_nothing(monkeypatch):
    problem = make()
    x = point(problem)
    whole = *problem.evaluate(x), problem.accuracy(x), problem.test_score(x)
    monkeypatch.setattr(Mlp, "CHUNK", 7 * (5 + 2 * 11))  # 7 rows
    assert problem._chunk_rows == 7
    parts = make()
    for ours, theirs in zip(
        (*parts.evaluate(x), parts.accuracy(x), parts.test_score(x)), whole, strict=True
    ):
        np.testing.assert_allclose(ours, theirs, atol=1e-13)
    assert len(list(parts._test_chunks())) == 6


def test_float32():
    problem = make(dtype=np.float32)
    x = point(problem).astype(np.float32)
    x.flags.writeable = False
    gradient = problem.gradient(1, x)
    assert gradient.dtype == np.float32
    np.testing.assert_allclose(gradient, make().gradient(1, x.astype(float)), atol=1e-5)


def test_without_the_kernels_it_is_the_same_but_for_rounding(by_numpy):
    def results():
        problem = make(reg=0.1)
        x = point(problem)
        return problem.gradient(3, x), *problem.evaluate(x), problem.accuracy(x)

    for ours, theirs in zip(results(), by_numpy(results), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-13)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_no_overflow_at_weights_of_ten_thousand(activation):
    problem = make(activation=activation)
    x = 1e4 * np.ones((2, problem.dim)) * np.linspace(-1, 1, problem.dim)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        loss, gradient = problem.evaluate(x)
        stochastic = problem.gradient(1, x)
    for values in (loss, gradient, stochastic):
        assert np.isfinite(values).all()


def test_the_start_is_the_same_on_all_nodes_and_another_for_each_seed():
    starts = [make(node).start(1) for node in range(2)]
    np.testing.assert_array_equal(*starts)
    problem = make()
    assert not np.array_equal(problem.start(0), starts[0])
    (w1, b1), (w2, b2) = unpack(problem, starts[0])
    assert not b1.any()
    assert not b2.any()
    for w, inputs, outputs in ((w1, 5, 4), (w2, 4, 3)):
        bound = np.sqrt(6 / (inputs + outputs))
        assert 0.5 * bound < np.abs(w).max() <= bound
    result = mpi_gt.run(stacked=True, n=2, problem="mlp:hidden=3", iterations=1, seeds=2, seed=5)
    assert result.metrics[0]["consensus"] == 0
    assert result.metrics[0]["loss"] != result.metrics[1]["loss"]


def test_the_accuracy_on_test_rows_is_a_column(tmp_path):
    out = tmp_path / "run"
    # 3 nodes: 1024 test rows are uneven shares
    words = ["run", "--stacked", "-n", "3", "--problem", "mlp:hidden=8", "--algorithm", "gt:lr=0.3"]
    assert main([*words, "--iterations", "200", "--seeds", "2", "--out", str(out), "--quiet"]) == 0
    run = json.loads((out / "run.json").read_text())
    assert run["test_accuracy"] > 0.9
    assert run["problem"]["parameters"] == 21 * 8 + 9 * 4
    with (out / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    last = [float(row["accuracy_test"]) for row in rows[-2:]]
    assert float(rows[0]["accuracy_test"]) < 0.6
    # by hand: the whole test part at the mean of the outputs
    problem = Mlp(Place(0, 1, (0, 1)), hidden=8)
    *correct, total = problem.test_score(np.load(out / "final.npz")["x"].mean(axis=0))
    assert total == 1024
    assert last == pytest.approx(np.array(correct) / total, abs=1e-12)
    assert run["test_accuracy"] == pytest.approx(np.mean(last))


def test_data_of_a_user_s_own_has_no_test_rows(tmp_path):
    random = np.random.default_rng(0)
    y = np.tile([3, 7, 9], 20)
    np.savez(tmp_path / "data.npz", X=random.standard_normal((60, 4)) + y[:, np.newaxis], y=y)
    problem = f"mlp:hidden=5,data={tmp_path / 'data.npz'}"
    result = mpi_gt.run(stacked=True, n=3, problem=problem, iterations=20)
    assert result.x.shape == (3, 1, 5 * 5 + 6 * 3)
    assert "accuracy_test" not in result.metrics[0]
    assert "test_accuracy" not in result.facts


def test_the_memory_holds_the_batch_of_each_node():
    """A stacked run of many nodes keeps as many."""

    def needed(here, batch):
        return Mlp.least_memory(8, here, 3, 4, dataset="mnist", batch=batch, hidden=64)

    for here in (1, 8):
        arrays = here * 3 * 32 * (8 + 4 * (784 + 2 * 64 + 10))
        assert needed(here, 64) - needed(here, 32) == arrays


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("hidden=0", "hidden must be at least 1, not 0"),
        ("hidden=-3", "hidden must be at least 1, not -3"),
        ("hidden=1.5", "hidden"),
        ("hidden=1e12", "needs .* PB, but this host has"),
        ("activation=sigmoid", "activation cannot be 'sigmoid'"),
        ("reg=-1", "reg must be >= 0"),
        ("reg=nan", "reg"),
        ("batch=0", "batch must be at least 1"),
        ("dataset=mnst", "unknown dataset 'mnst'"),
        ("dataset=mnist,rows=5", "rows cannot be used with dataset=mnist"),
        ("data=a.npz,libsvm=b", "takes one of dataset, data and libsvm"),
        ("split=sorted", "split"),
        ("layers=2", "layers"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(UserError, match=message):
        mpi_gt.run(stacked=True, n=3, problem=f"mlp:{options}")


@pytest.mark.parametrize("words", [["theory"], ["run", "--stacked", "--audit", "--quiet"]])
def test_the_theory_needs_constants_that_it_does_not_have(words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main([*words, "-n", "4", "--problem", "mlp"]) == 2
    assert "problem mlp has no method constants()" in capsys.readouterr().err


def test_mnist_is_learned(prepared_data):
    result = mpi_gt.run(
        stacked=True, n=4, graph="complete", problem="mlp:dataset=mnist,hidden=16",
        algorithm="gt:lr=0.5", iterations=300, log_every=300, dtype="float32",
    )  # fmt: skip
    assert result.metrics[0]["accuracy_test"] < 0.3
    assert result.facts["test_accuracy"] > 0.9
