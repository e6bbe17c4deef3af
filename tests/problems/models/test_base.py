"""What problems with a model of the user's share, for JAX and PyTorch in turn."""

import csv
import json

import numpy as np
import pytest
from own_models import NAMES, by_hand, require, write
from resuming import assert_same, resume, run, stopped

import mpi_gt
from mpi_gt.cli.main import main
from mpi_gt.errors import UserError
from mpi_gt.problems import PROBLEMS, Place
from mpi_gt.problems.models.base import ModelProblem, chunk_size

SMALL = {"rows": 60, "features": 5, "classes": 3, "batch": 4}


@pytest.fixture(params=["jax", "torch"])
def package(request):
    require(request.param)
    return request.param


@pytest.fixture
def spec(package, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return write(tmp_path, package)


@pytest.fixture
def make(spec, package):
    def make(node=0, nodes=2, seeds=(0, 1), dtype=np.float64, **options):
        model = f"net:{NAMES[package]}"
        place = Place(node, nodes, tuple(seeds), np.dtype(dtype))
        return PROBLEMS[package](place, **{"model": model, **SMALL, **options})

    return make


def starts(problem, dtype=np.float64):
    return np.stack([problem.start(seed) for seed in problem._place.seeds]).astype(dtype)


def shifted(problem, dtype=np.float64):
    x = starts(problem)
    return (x + 0.3 * np.random.default_rng(3).standard_normal(x.shape)).astype(dtype)


@pytest.mark.parametrize(("dtype", "within"), [(np.float64, 1e-12), (np.float32, 1e-5)])
def test_a_stochastic_gradient_is_that_of_its_rows_by_hand(make, dtype, within):
    problem = make(dtype=dtype)
    x = shifted(problem, dtype)
    x.flags.writeable = False
    for t in (1, 7):
        gradient, rows = problem.gradient(t, x), problem._rows.at(t)
        assert gradient.dtype == dtype
        assert gradient.flags.writeable
        for seed in range(2):
            own = rows[seed]
            expected = by_hand(x[seed], problem._x[own], problem._labels[own])[1]
            np.testing.assert_allclose(gradient[seed], expected, atol=within, rtol=within)


@pytest.mark.parametrize(("dtype", "within"), [(np.float64, 1e-12), (np.float32, 1e-5)])
def test_gradients_agree_with_those_of_mlp(make, dtype, within):
    problem = make(dtype=dtype)
    mlp = PROBLEMS["mlp"](problem._place, hidden=6, **SMALL)
    x = shifted(problem, dtype)
    np.testing.assert_allclose(problem.gradient(2, x), mlp.gradient(2, x), atol=within)
    x = x.astype(np.float64)
    for ours, theirs in zip(problem.evaluate(x), mlp.evaluate(x), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-12)
    np.testing.assert_array_equal(problem.accuracy(x), mlp.accuracy(x))
    np.testing.assert_array_equal(problem.test_score(x), mlp.test_score(x))


def test_the_exact_gradient_by_hand_and_against_differences(make):
    problem = make()
    x = shifted(problem)
    loss, gradient = problem.evaluate(x)
    for seed in range(2):
        by_numpy = by_hand(x[seed], problem._x.astype(float), problem._labels)
        np.testing.assert_allclose(loss[seed], by_numpy[0], rtol=1e-12)
        np.testing.assert_allclose(gradient[seed], by_numpy[1], atol=1e-12)
    for j in range(0, problem.dim, 7):
        step = 1e-6 * np.eye(problem.dim)[j]
        slope = (problem.evaluate(x + step)[0] - problem.evaluate(x - step)[0]) / 2e-6
        np.testing.assert_allclose(gradient[:, j], slope, atol=1e-8)


def test_chunks_change_nothing_but_the_rounding(make, monkeypatch):
    problem = make()
    x = shifted(problem)
    whole, accuracy = problem.evaluate(x), problem.accuracy(x)
    monkeypatch.setattr(ModelProblem, "CHUNK", 35)  # 7 rows at once, and a last chunk of 2
    assert problem._chunk_rows == 6
    monkeypatch.setattr("mpi_gt.problems.models.base.chunk_size", lambda rows, most: most)
    assert problem._chunk_rows == 7
    parts = problem.evaluate(x.copy())
    for all_at_once, summed in zip(whole, parts, strict=True):
        np.testing.assert_allclose(summed, all_at_once, rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(problem.accuracy(x.copy()), accuracy)


def test_chunk_sizes_divide_the_rows_where_they_can():
    assert chunk_size(100, 200) == 100
    assert chunk_size(3750, 334) == 250
    assert chunk_size(101, 30) == 26  # a prime: four chunks, the last one of 23
    assert chunk_size(7, 1) == 1


def test_the_start_depends_on_the_seed_alone(make):
    here, there, narrow = make(), make(node=1), make(dtype=np.float32)
    np.testing.assert_array_equal(starts(here), starts(there))
    np.testing.assert_array_equal(starts(here), starts(narrow))
    assert np.abs(here.start(0) - here.start(1)).max() > 0.01
    np.testing.assert_array_equal(make(seeds=(1,)).start(1), here.start(1))


def test_accuracies_count_the_largest_score(make):
    problem = make()
    x = shifted(problem)
    for seed, accuracy in enumerate(problem.accuracy(x)):
        labels = [
            int(np.argmin([by_hand(x[seed], row[np.newaxis], np.array([k]))[0] for k in range(3)]))
            for row in problem._x.astype(float)
        ]
        assert accuracy == (labels == problem._labels).mean()
    score = problem.test_score(x)
    assert score[-1] == 7  # of 15 test rows and two nodes
    assert (score[:-1] >= 0).all()
    assert (score[:-1] <= 7).all()


def test_a_run_learns_and_records_what_computed_it(spec, package, tmp_path):
    words = ["--stacked", "-n", "3", "--algorithm", "gt:lr=0.5", "--iterations", "60"]
    assert main(["run", "--problem", spec, *words, "--out", "out", "--quiet"]) == 0
    facts = json.loads((tmp_path / "out/run.json").read_text())
    assert facts["problem"]["parameters"] == 57
    assert facts["problem"]["computed_by"][package] == facts["identity"]["model"][package]
    assert len(facts["identity"]["model"]["source"]) == 64
    with (tmp_path / "out/metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert float(rows[-1]["loss"]) < 0.3 * float(rows[0]["loss"])
    assert float(rows[-1]["accuracy"]) > 0.9


def test_a_stopped_run_is_resumed_to_the_same_bits(spec, tmp_path, monkeypatch):
    words = ["--problem", spec, "--algorithm", "gt-adaptive:lr=0.05", "--dtype", "float32"]
    run(tmp_path / "whole", *words)
    stopped(monkeypatch, tmp_path / "parts", *words)
    resume(tmp_path / "parts")
    assert_same(tmp_path / "parts", tmp_path / "whole")


def test_another_version_or_another_source_cannot_resume_a_run(
    spec, package, tmp_path, monkeypatch, capsys
):
    stopped(monkeypatch, tmp_path / "out", "--problem", spec)
    with monkeypatch.context() as patch:
        patch.setattr("mpi_gt.problems.models.base.versions_of", lambda *names: {names[0]: "0.1"})
        resume(tmp_path / "out", expect=2)
    assert "holds another run: its model was" in capsys.readouterr().err
    file = tmp_path / "net.py"
    file.write_text(file.read_text() + "\nchanged = True\n")
    resume(tmp_path / "out", expect=2)
    assert "holds another run: its model was" in capsys.readouterr().err


def test_python_takes_a_model_by_its_name_and_by_its_file(package, spec):
    options = {"n": 2, "stacked": True, "iterations": 3, "algorithm": "gt:lr=0.1"}
    by_name = mpi_gt.run(problem=spec, **options)
    given = {**SMALL, "model": f"./net.py:{NAMES[package]}"}
    by_file = mpi_gt.run(problem=(package, given), **options)
    np.testing.assert_array_equal(by_name.x, by_file.x)


def test_reproducible_on_every_processor_is_refused(make, spec, capsys):
    words = ["--stacked", "-n", "2", "--iterations", "2", "--reproducible", "--out", "out"]
    assert main(["run", "--problem", spec, *words]) == 2
    assert "softmax and huber give the same bits" in capsys.readouterr().err


def test_rows_that_do_not_fit_the_model_are_refused(make):
    with pytest.raises(UserError, match=r"net:\w+(\(\))? failed: \w+: .*\(.*, line \d+\)"):
        make(features=4)
    with pytest.raises((UserError, ValueError), match=r"3 scores per row|4 classes"):
        make(classes=4)


def test_without_a_model_the_message_shows_one(package, capsys):
    words = ["run", "--stacked", "-n", "2", "--problem", package, "--out", "out"]
    assert main(words) == 2
    assert f"as in {package}:model=my_module:{NAMES[package]}" in capsys.readouterr().err
