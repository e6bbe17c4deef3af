"""The problem jax: what a user's module may hold, and what is refused."""

import csv

import numpy as np
import pytest
from own_models import require, write

from mpi_gt.cli.main import main
from mpi_gt.errors import UserError
from mpi_gt.problems import JaxModel, Place

SMALL = {"rows": 60, "features": 5, "classes": 3, "batch": 4}
RUN = ["run", "--stacked", "-n", "2", "--iterations", "5", "--out", "out", "--quiet"]


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A function that writes the module net with some lines more, and returns its problem."""
    require("jax")
    monkeypatch.chdir(tmp_path)

    def module(more=""):
        return write(tmp_path, "jax", more)

    return module


def make(seeds=(0, 1)):
    return JaxModel(Place(0, 2, seeds), model="net:loss", **SMALL)


def test_x_is_in_the_order_of_ravel_pytree(module):
    import jax
    from jax.flatten_util import ravel_pytree

    module()
    problem = make(seeds=(5, 2**62))
    for seed in problem._place.seeds:
        with jax.enable_x64(True):
            params = problem._net.init(jax.random.key(seed))
            expected = np.asarray(ravel_pytree(params)[0])
        np.testing.assert_allclose(problem.start(seed), expected, rtol=1e-14)


def test_the_dtype_of_the_process_stays_as_it_is(module):
    import jax.numpy as jnp

    module()
    problem = make()
    problem.evaluate(np.stack([problem.start(0), problem.start(1)]))
    assert jnp.zeros(1).dtype == np.float32


def test_an_init_that_cannot_be_compiled_is_called_as_it_is(module):
    module(
        "import numpy as np\n"
        "def init(key):\n"
        "    random = np.random.default_rng(int(jax.random.key_data(key)[-1]))\n"
        "    draw = random.standard_normal\n"
        "    return [(draw((6, 5)), np.zeros(6)), (draw((3, 6)), np.zeros(3))]\n"
    )
    problem = make()
    draw = np.random.default_rng(1).standard_normal
    expected = np.concatenate(
        [draw((6, 5)).ravel(), np.zeros(6), draw((3, 6)).ravel(), np.zeros(3)]
    )
    np.testing.assert_array_equal(problem.start(1), expected)
    assert not np.array_equal(problem.start(0), problem.start(1))


def test_without_predict_a_run_has_no_accuracy(module, tmp_path):
    spec = module("")
    text = (tmp_path / "net.py").read_text()
    (tmp_path / "net.py").write_text(text.replace("predict", "scores_of"))
    assert main([*RUN, "--problem", spec]) == 0
    with (tmp_path / "out/metrics.csv").open(newline="") as file:
        first = next(csv.DictReader(file))
    assert not first.get("accuracy")
    assert "test_accuracy" not in (tmp_path / "out/run.json").read_text()


def test_predict_may_return_labels(module, tmp_path):
    module("by_score = predict\ndef labels(*at):\n    return by_score(*at).argmax(axis=1)\n")
    scores = make()
    (tmp_path / "whole.py").write_text("from net import init, loss, labels as predict\n")
    labels = JaxModel(Place(0, 2, (0, 1)), model="whole:loss", **SMALL)
    assert labels._net.predict is not scores._net.predict
    x = np.stack([scores.start(0), scores.start(1)])
    np.testing.assert_array_equal(labels.accuracy(x), scores.accuracy(x))
    np.testing.assert_array_equal(labels.test_score(x), scores.test_score(x))


BROKEN = {
    "a vector": ("loss = lambda p, x, y: predict(p, x).sum(axis=1)", "one real number, not an arr"),
    "an integer": ("loss = lambda p, x, y: y.sum()", "one real number, not a number and dtype"),
    "a tuple": ("loss = lambda p, x, y: (1.0, 2.0)", "one real number, not a tuple"),
    "a sum": ("one = loss\nloss = lambda p, x, y: one(p, x, y) * len(y)", "must be the mean"),
    "spread": ("loss = lambda p, x, y: predict(p, x).std()", "must be the mean"),
    "nan": ("one = loss\nloss = lambda p, x, y: one(p, x, y) * jnp.nan", "is nan at the start"),
    "nan slope": ("loss = lambda p, x, y: jnp.sqrt(0 * p[0][0]).sum()", "gradient of net:"),
    "nan weights": ("def init(key): return [(jnp.full((6, 5), jnp.nan), jnp.zeros(6)),"
                    "(jnp.zeros((3, 6)), jnp.zeros(3))]", "x_1 must be finite"),
    "fails": ("def loss(p, x, y): return p['no']", r"net:loss failed: .*net.py, line \d+"),
    "no init": ("del init", r"no init\(key\)"),
    "init fails": ("def init(key): return 1 / 0", r"net:init failed: ZeroDivisionError.*net.py"),
    "no parameters": ("init = lambda key: {}", "net:init returns no parameters"),
    "integers": ("init = lambda key: {'w': jnp.ones(3), 'n': jnp.arange(3)}", r"\['n'\] are of"),
    "complex": ("init = lambda key: 1j * jnp.ones(3)", "dtype complex"),
    "few scores": ("three = predict\npredict = lambda p, x: three(p, x)[:, :2]", "2 scores"),
    "no scores": ("base = predict\nloss = lambda p, x, y: base(p, x).mean()\n"
                  "predict = lambda p, x: base(p, x)[:, 0]", r"must return scores \(rows, cl"),
    "no function": ("predict = 3", "net:predict is no function"),
    "no module": ("import nothing_at_all", "needs a missing module"),
    "syntax": ("def", "importing the module failed: SyntaxError"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_what_cannot_work_is_refused_in_one_message(module, name, capsys):
    more, message = BROKEN[name]
    assert main([*RUN, "--problem", module(more + "\n")]) == 2
    error = capsys.readouterr().err
    assert error.count("error:") == 1
    with pytest.raises(UserError, match=message):
        raise UserError(error)
