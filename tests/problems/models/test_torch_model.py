"""The problem torch: what a module may hold, what is refused, and what is called seed by seed."""

import json

import numpy as np
import pytest
from own_models import require, write

from mpi_gt.cli.main import main
from mpi_gt.errors import UserError
from mpi_gt.problems import Place, TorchModel

SMALL = {"rows": 60, "features": 5, "classes": 3, "batch": 4}
RUN = ["run", "--stacked", "-n", "2", "--iterations", "5", "--seeds", "2", "--out", "out"]

NETS = """
class Branch(Net):
    def forward(self, x):
        return super().forward(x) if x.sum() > -1e9 else x

class Frozen(Net):
    def __init__(self):
        super().__init__()
        self[0].weight.requires_grad_(False)
        self.register_buffer("shift", torch.rand(5))

    def forward(self, x):
        return super().forward(x + self.shift)

class Pair(Net):
    def forward(self, x):
        return super().forward(x), x

class Norm(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.Linear(6, 3))

class Drop(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(5, 6), nn.Dropout(0.5), nn.Linear(6, 3))

class Counts(Net):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return super().forward(x)

class Narrow(nn.Linear):
    def __init__(self):
        super().__init__(5, 2)

class Lazy(nn.LazyLinear):
    def __init__(self):
        super().__init__(3)

class Whole(Net):
    def __init__(self):
        super().__init__()
        self.steps = nn.Parameter(torch.ones(2, dtype=int), requires_grad=False)

class Nan(Net):
    def forward(self, x):
        return super().forward(x) * float("nan")

class Needs(nn.Module):
    def __init__(self, width):
        super().__init__()

def empty():
    return nn.ReLU()

def number():
    return 3

def squares(output, labels):
    return ((output - nn.functional.one_hot(labels, 3)) ** 2).mean()

def of_pair(output, labels):
    return squares(output[0], labels)

def summed(output, labels):
    return squares(output, labels) * len(labels)

def vector(output, labels):
    return output[:, 0]

def wrong(output, labels):
    return output @ labels
"""


@pytest.fixture
def spec(tmp_path, monkeypatch):
    require("torch")
    monkeypatch.chdir(tmp_path)
    return write(tmp_path, "torch", NETS)


def make(net="Net", seeds=(0, 1), dtype=np.float64, **options):
    place = Place(0, 2, tuple(seeds), np.dtype(dtype))
    return TorchModel(place, model=f"net:{net}", **{**SMALL, **options})


def starts(problem):
    return np.stack([problem.start(seed) for seed in problem._place.seeds])


def test_x_is_in_the_order_of_the_parameters(spec):
    import torch

    problem = make(seeds=(3,))
    torch.manual_seed(3)
    net = problem._nets[0].module.__class__()
    expected = torch.cat([each.detach().ravel() for each in net.parameters()]).double()
    np.testing.assert_array_equal(problem.start(3), expected)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_seeds_together_are_as_seed_by_seed(spec, dtype):
    together = make(dtype=dtype)
    x = starts(together).astype(dtype)
    together.try_out(x)
    assert together._together
    assert together.warnings == []
    one_by_one = make("Branch", dtype=dtype)
    one_by_one.try_out(x)
    assert not one_by_one._together
    within = 1e-12 if dtype == np.float64 else 1e-5
    np.testing.assert_allclose(together.gradient(3, x), one_by_one.gradient(3, x), atol=within)
    for ours, theirs in zip(
        together.evaluate(x.astype(float)), one_by_one.evaluate(x.astype(float)), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, atol=1e-12)


def test_a_module_that_cannot_be_vectorised_is_said_once(spec, tmp_path, capsys):
    assert main([*RUN, "--problem", spec.replace("Net", "Branch")]) == 0
    (warning,) = json.loads((tmp_path / "out/run.json").read_text())["warnings"]
    assert "net:Branch cannot be vectorised over seeds" in warning
    assert capsys.readouterr().err.count("cannot be vectorised") == 1


def test_frozen_parameters_and_buffers_stay_those_of_their_seed(spec):
    problem = make("Frozen")
    assert problem.dim == 57 - 30
    x = starts(problem)
    problem.try_out(x)
    assert problem._together
    for row, seed in enumerate((0, 1)):
        alone = make("Frozen", seeds=(seed,))
        np.testing.assert_allclose(
            alone.evaluate(x[[row]])[1][0], problem.evaluate(x)[1][row], atol=1e-12
        )
    swapped = problem.evaluate(x[::-1])[0]
    assert np.abs(swapped[::-1] - problem.evaluate(x)[0]).max() > 1e-3


def test_another_loss_and_an_output_without_scores(spec, tmp_path):
    squares = make(loss="net:squares")
    assert squares._scores
    pair = make("Pair", loss="net:of_pair")
    x = starts(pair)
    pair.try_out(x)
    np.testing.assert_allclose(pair.evaluate(x)[0], squares.evaluate(x)[0], rtol=1e-12)
    assert pair.accuracy is None
    words = [*RUN, "--problem", f"{spec},loss=net:of_pair".replace("Net", "Pair")]
    assert main(words) == 0
    assert "test_accuracy" not in (tmp_path / "out/run.json").read_text()


BROKEN = {
    "Norm": "its layer 1 is a BatchNorm, whose statistics change",
    "Drop": "draws random numbers, as dropout does",
    "Counts": "its buffer calls changes",
    "Narrow": r"must return scores \(4 rows, 3 classes or more\), not \(4, 2\)",
    "Lazy": "give lazy layers their sizes",
    "Whole": "the parameter steps is of dtype torch.int64, not a float",
    "Nan": "is nan at the start",
    "Needs": r"Needs\(\) failed: TypeError",
    "empty": "has no parameters",
    "number": "returns a int, not a torch.nn.Module",
    "Missing": "no function or class of that name",
    "Net,loss=net:summed": "must be the mean of the losses",
    "Net,loss=net:vector": r"net:vector must return one real number, not shape \(4,\)",
    "Net,loss=net:wrong": r"failed: RuntimeError.*net.py, line \d+",
    "Net,loss=net:missing": "no function or class of that name",
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_cannot_work_is_refused_in_one_message(spec, name, capsys):
    assert main([*RUN, "--problem", spec.replace("Net", name)]) == 2
    error = capsys.readouterr().err
    assert error.count("error:") == 1
    with pytest.raises(UserError, match=BROKEN[name]):
        raise UserError(error)


def test_the_random_numbers_of_the_process_stay_as_they_are(spec):
    import torch

    before = torch.get_rng_state()
    problem = make()
    problem.try_out(starts(problem))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == 1
