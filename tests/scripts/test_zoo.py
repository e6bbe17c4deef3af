"""The page of all methods is what scripts/zoo would write now, and its numbers are what it says."""

import re
from dataclasses import replace

import numpy as np
import pytest
from support import ROOT_OF_REPOSITORY

import mpi_gt
from mpi_gt.algorithms import ALGORITHMS
from mpi_gt.comm.stacked import StackedProblem
from mpi_gt.problems import PROBLEMS, Place
from mpi_gt.spec import parse

ZOO = ROOT_OF_REPOSITORY / "scripts" / "zoo"
LARGEST = 400_000  # bytes of all pictures


@pytest.fixture
def page(monkeypatch):
    monkeypatch.syspath_prepend(str(ZOO))
    import page

    return page


@pytest.fixture
def trials(monkeypatch):
    monkeypatch.syspath_prepend(str(ZOO))
    import trials

    return trials


@pytest.fixture
def written(page):
    return page.PAGE.read_text(encoding="utf-8")


def test_the_text_is_what_the_generator_writes_now(page, written):
    now = page.whole_page(page.measured_of(written))
    assert written == now, "scripts/zoo/run --text writes the page anew"


def test_every_method_has_a_section_a_row_of_rates_and_a_picture(page, written):
    assert re.findall(r"^### (.*)", written, re.MULTILINE) == list(ALGORITHMS)
    rows = re.findall(r"^\| \[(.+?)\]\(#\1\) \|(.*`lr=.*)\|$", written, re.MULTILINE)
    assert [name for name, _ in rows] == list(ALGORITHMS), "scripts/zoo/run measures all methods"
    pictures = re.findall(r"!\[(.+?)\]\(\S+/zoo/\1\.png\)", written)
    assert pictures == list(ALGORITHMS)
    assert {path.stem for path in page.PICTURES.iterdir()} == set(ALGORITHMS)
    for name, cells in rows:
        directed = cells.split("|")[-1].strip()
        without = ALGORITHMS[name].graph != "directed"
        assert (directed == "takes no such graph") == without
        assert cells.count("`lr=") == (3 if without else 4)


def test_the_measured_part_is_about_the_problems_of_the_script(page, trials, written):
    for each in trials.SETTINGS:
        row = f"| {each.note} | `{each.problem}` | `{each.graph}` | {each.iterations} |"
        assert row in page.measured_of(written), "scripts/zoo/run measures anew"


def test_the_pictures_are_small(page):
    assert sum(path.stat().st_size for path in page.PICTURES.iterdir()) < LARGEST


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_bytes_are_those_of_what_is_named(page, name):
    """Vectors of `dim` numbers each, but for the number w of push-sum and compressed ones."""
    names, size = re.fullmatch(r"(.+): (\d+) bytes to each .*", page.sent_by(name)).groups()
    vectors = names.split(", ")
    plain = sum(8 if each == "w" else 8 * page.DIM for each in vectors)
    compressed = ALGORITHMS[name]().compressor is not None
    assert int(size) < plain if compressed else int(size) == plain


def test_a_rate_is_the_factor_per_iteration_down_to_the_floor(trials):
    t = np.arange(0, 401, 5)
    falling = trials.Curve(0.1, t, np.stack([0.9**t, 0.9**t], axis=1))
    assert falling.rate == pytest.approx(0.9)
    floored = trials.Curve(0.1, t, np.maximum(0.9**t, 1e-6)[:, None])
    assert floored.rate == pytest.approx(0.9)
    assert floored.end == pytest.approx(1e-6)
    assert falling.score < floored.score
    assert trials.Curve(0.1, t, np.ones((len(t), 1))).rate is None


@pytest.mark.figures
def test_a_small_trial(page, trials, tmp_path):
    from PIL import Image
    from strips import draw_strips

    short = [replace(each, iterations=4 * each.log_every) for each in trials.SETTINGS]
    made = dict(trials.try_methods(["gt", "sgp"], short, "1e-2..1"))
    assert [trial is None for trial in made["gt"]] == [False, False, False, True]
    assert [trial is None for trial in made["sgp"]] == [False] * 4
    for trial in filter(None, [*made["gt"], *made["sgp"]]):
        assert trial.lr in (0.01, 0.0316, 0.1, 0.316, 1.0)
        assert trial.curve.gaps.shape == (5, trials.SEEDS)
        assert trial.curve.end < trial.curve.mean[0]
    text = page.measured_part(short, made)
    assert re.search(r"^\| \[gt\]\(#gt\) \| 0\.\d{3}, \S+, `lr=\S+` \|", text, re.MULTILINE)
    (tmp_path / "gone.png").touch()
    pictures = draw_strips(tmp_path, short, made)
    assert sorted(tmp_path.iterdir()) == sorted(pictures) == [
        tmp_path / "gt.png", tmp_path / "sgp.png",
    ]  # fmt: skip
    with Image.open(pictures[0]) as picture:
        assert picture.mode == "P"
        assert picture.width > 4 * picture.height


def test_other_methods_are_refused_on_the_directed_graph(trials):
    for name in ALGORITHMS:
        last = replace(trials.SETTINGS[-1], iterations=2, log_every=1)
        if not last.takes(name):
            with pytest.raises(mpi_gt.UserError, match="doubly stochastic"):
                trials.run(last, name, "0.1", 0, 1)


def test_a_stepsize_that_diverges_is_left_out(trials):
    network = replace(trials.SETTINGS[2], iterations=200)
    curves = trials.run(network, "dsgd", "1e-2..1e4", 0, 1)
    assert 0.01 in curves
    assert 1e4 not in curves


def problem_of(trials, setting, count=None):
    """Return the problem of all nodes for that many seeds, by default all, and its start."""
    _, kind, options = parse("problem", PROBLEMS, setting.problem)
    seeds = tuple(range(trials.FIRST_SEED, trials.FIRST_SEED + (count or trials.SEEDS)))
    places = [Place(node, trials.NODES, seeds) for node in range(trials.NODES)]
    problems = [kind(place, **options) for place in places]
    start = np.stack([problems[0].start(seed) for seed in seeds])
    return StackedProblem(problems), start


def hessian(problem, x):
    """Return the Hessian of the mean over nodes, by differences, of shape (seeds, dim, dim)."""
    step = 1e-5 * np.eye(x.shape[1])
    rows = [problem.evaluate(x + e)[1] - problem.evaluate(x - e)[1] for e in step]
    return np.stack([row.mean(axis=0) for row in rows], axis=1) / 2e-5


def test_the_problems_are_what_their_names_say(trials):
    made = [problem_of(trials, each) for each in trials.SETTINGS]
    eigenvalues = [np.linalg.eigvalsh(hessian(*each)) for each in made]
    for convex in (0, 1, 3):
        problem, start = made[convex]
        assert eigenvalues[convex].min() > 0.05
        further = np.linalg.eigvalsh(hessian(problem, start + 5))
        np.testing.assert_allclose(further, eigenvalues[convex], atol=1e-6)  # the same anywhere
    assert eigenvalues[2][:, 0].max() < -0.1  # for every seed
    for number, (problem, start) in enumerate(made):
        points = np.repeat(start[np.newaxis], trials.NODES, axis=0)
        noise = np.abs(problem.gradient(1, points) - problem.evaluate(start)[1]).max()
        assert (noise > 1e-3) if number == 1 else (noise < 1e-12)


@pytest.mark.parametrize(("number", "same"), [(0, True), (2, False), (3, False)])
def test_nodes_have_one_minimiser_or_their_own(trials, number, same):
    setting = trials.SETTINGS[number]
    result = mpi_gt.run(
        stacked=True, n=trials.NODES, problem=setting.problem, graph="complete",
        algorithm="gt:order=atc,lr=0.3", iterations=1500, seeds=2, log_every=1500,
    )  # fmt: skip
    at_minimum = problem_of(trials, setting, 2)[0].evaluate(result.x.mean(axis=0))[1]
    assert np.abs(at_minimum.mean(axis=0)).max() < 1e-6
    assert (np.abs(at_minimum).max() < 1e-6) == same
