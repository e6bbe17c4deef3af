"""What methods ask of problems and graphs; users' classes that use all of it."""

from types import SimpleNamespace

import numpy as np
import pytest

import mpi_gt
from mpi_gt.cli.main import main
from mpi_gt.engine.contracts import full_gradient, require_graph
from mpi_gt.errors import UserCodeError, UserError
from mpi_gt.graphs.network import Arcs, Layer, Turns, layer_of_matrix
from mpi_gt.problems import Huber, Place

OUTSIDE = "algorithms.outside"


def run(algorithm, **options):
    options = {"iterations": 40, "seeds": 2, "quiet": True, "stacked": True, "n": 4, **options}
    return mpi_gt.run(algorithm=algorithm, **options)


@pytest.mark.parametrize(
    ("outside", "inside"),
    [
        ("PushSum:lr=0.1", "dsgd:order=atc,lr=0.1"),
        ("Local:lr=0.1", "dsgd:order=atc,every=3,lr=0.1"),
        ("Refreshed:lr=0.1", "gt-sarah:period=5,lr=0.1"),
        ("Unmarked:lr=0.1", "gt-sarah:period=5,lr=0.1"),
    ],
)
def test_a_class_of_the_user_s_does_what_the_package_s_does(outside, inside):
    ours, theirs = run(f"{OUTSIDE}:{outside}"), run(inside)
    assert np.abs(ours.x - theirs.x).max() < 1e-13
    for mine, other in zip(ours.metrics, theirs.metrics, strict=True):
        assert (mine["iteration"], mine["gradients"]) == (other["iteration"], other["gradients"])


def test_a_step_may_mix_more_than_once_where_t_decides():
    result = run(f"{OUTSIDE}:Twice")
    degrees = 2 * result.facts["graph"]["edges"]
    vectors = 40 + 2 * (40 // 3)
    assert result.metrics[-1]["bytes"] == degrees * vectors * 10 * 8


def test_a_step_that_does_not_exchange_where_it_promised_is_an_error():
    with pytest.raises(UserCodeError, match="called mix 1 times in the first step and 0 now"):
        run(f"{OUTSIDE}:Local:forgets=true")


@pytest.mark.parametrize("every", ["0", "-1"])
def test_an_interval_that_is_none(every, capsys, tmp_path):
    words = ["run", "--stacked", "-n", "3", "--out", str(tmp_path / "run")]
    assert main([*words, "--algorithm", f"{OUTSIDE}:Local:every={every}"]) == 2
    assert "every must be a whole number >= 1" in capsys.readouterr().err


def test_gradients_are_counted_by_what_the_problem_says():
    """Where the nodes' rows differ, those of the largest count: 13 here."""
    result = run("gt-sarah:period=10", problem=f"{OUTSIDE}:Bowl")
    assert result.metrics[0]["gradients"] == 13
    assert result.metrics[-1]["gradients"] == 13 * 5 + 36 * 8
    assert run("gt", problem=f"{OUTSIDE}:Bowl").metrics[-1]["gradients"] == 41 * 4


def test_a_problem_may_use_the_names_of_the_counts_for_something_else():
    assert run("gt", problem=f"{OUTSIDE}:Uncounted").metrics[-1]["gradients"] == 41


@pytest.mark.parametrize(
    "spec", ["gt-sarah", "gt-svrg", "gt-hsgd", "gt-adaptive-vr", f"{OUTSIDE}:Refreshed"]
)
def test_a_method_that_needs_an_exact_gradient_is_refused_without_one(spec, capsys, tmp_path):
    out = tmp_path / "run"
    words = ["run", "--stacked", "-n", "3", "--problem", f"{OUTSIDE}:Estimated", "--out", str(out)]
    assert main([*words, "--algorithm", spec]) == 2
    printed = capsys.readouterr().err
    assert "exact gradient" in printed
    assert len(printed.splitlines()) == 1
    assert not out.exists()


@pytest.mark.parametrize(
    "spec", ["gt", "gt-hsgd:start=batch", "gt-hsgd:beta=1", "gt-adaptive-vr:period=0,start=batch"]
)
def test_methods_that_do_without(spec):
    run(spec, problem=f"{OUTSIDE}:Estimated")


def layers_of(*matrices, seed=None):
    layers = tuple(layer_of_matrix(a, (a != 0) & ~np.eye(len(a), dtype=bool)) for a in matrices)
    return Arcs(layers, Turns(len(layers), seed))


def entry(name, **options):
    return SimpleNamespace(label=name, algorithm=mpi_gt.algorithms.ALGORITHMS[name](**options))


def matching(*pairs, nodes=4):
    a = np.eye(nodes)
    for i, j in pairs:
        a[np.ix_((i, j), (i, j))] = 0.5
    return a


@pytest.mark.parametrize("name", ["extra", "beer", "choco-sgd", "lead", "exact-diffusion"])
def test_methods_that_need_one_graph_refuse_a_changing_one(name):
    arcs = layers_of(matching((0, 1), (2, 3)), matching((1, 2), (3, 0)))
    require_graph([entry("gt-adaptive"), entry("gt"), entry("dsgd"), entry("k-gt", every=3)], arcs)
    with pytest.raises(UserError, match=rf"{name} needs a graph that stays the same.*2 layers; gt"):
        require_graph([entry(name)], arcs)


def test_a_directed_graph_without_a_doubly_stochastic_matrix():
    weights = {kind: np.full(3, 0.5) for kind in ("pull", "push")}
    own = {kind: np.full(3, 0.5) for kind in ("pull", "push")}
    arcs = Arcs((Layer(np.arange(4), np.array([2, 0, 1]), weights, own),))
    with pytest.raises(UserError, match=r"gt needs doubly stochastic weights.*push-pull"):
        require_graph([entry("gt")], arcs)
    pulls = SimpleNamespace(graph="directed", kinds=("pull", "push"))
    require_graph([SimpleNamespace(label="own", algorithm=pulls)], arcs)


@pytest.mark.parametrize(
    "wrong", [{"kinds": ("B",)}, {"kinds": ()}, {"kinds": "A"}, {"graph": "round"}]
)
def test_a_user_s_class_that_names_no_known_graph(wrong):
    own = SimpleNamespace(label="own", algorithm=SimpleNamespace(**wrong))
    with pytest.raises(UserError, match=r"kinds must be a tuple of A|graph must be one of any"):
        require_graph([own], layers_of(np.full((4, 4), 0.25)))


def test_exchanges_that_always_meet_the_same_layers_are_refused():
    halves = matching((0, 1), (2, 3)), matching((1, 2), (3, 0))
    with pytest.raises(UserError, match="every 4 iterations, and so uses 1 of the 2 layers only"):
        require_graph([entry("k-gt", every=4)], layers_of(*halves))
    require_graph([entry("k-gt", every=4)], layers_of(*halves, seed=0))
    require_graph([entry("k-gt", every=4)], layers_of(*([np.full((4, 4), 0.25)] * 2)))
    require_graph([entry("k-gt", every=2)], layers_of(*halves, *halves[::-1], halves[0], halves[0]))


def test_symmetric_weights_are_required_where_they_are_needed():
    entries = [
        SimpleNamespace(label=name, algorithm=mpi_gt.algorithms.ALGORITHMS[name]())
        for name in ("gt", "extra")
    ]
    one_way = layers_of(np.roll(np.eye(4), 1, axis=1) / 2 + np.eye(4) / 2)
    require_graph(entries[:1], one_way)
    require_graph(entries, layers_of(np.full((4, 4), 0.25)))
    with pytest.raises(UserError, match="extra needs symmetric weights"):
        require_graph(entries, one_way)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_exact_gradient_is_in_the_dtype_of_x_and_the_caller_s_own(dtype):
    problem = Huber(Place(0, 2, (0, 1), np.dtype(dtype)), noise=0.0)
    x = np.full((2, 10), 0.25, dtype)
    made = full_gradient(problem)(x)
    assert made.dtype == dtype
    np.testing.assert_allclose(made, problem.gradient(1, x), rtol=1e-5)
    made[:] = 7
    assert (x == 0.25).all()


@pytest.mark.parametrize(
    "spec", ["gt-sarah:period=3", "gt-svrg:period=3", "gt-adaptive-vr:period=3"]
)
def test_single_precision(spec):
    one, other = (run(spec, dtype=dtype, iterations=30) for dtype in ("float32", "float64"))
    assert one.x.dtype == np.float32
    assert np.abs(one.x - other.x).max() < 1e-4


@pytest.mark.parametrize(
    "spec",
    ["gt-sarah:period=-1", "gt-adaptive-vr:period=-1", "exact-diffusion:every=0", "gt-hsgd:beta=2",
     "dsgd:every=2", "gt:every=2", "k-gt:every=0", "gt-svrg:period=1.5", "d-amsgrad:beta3=1"],
)  # fmt: skip
def test_bad_options_are_one_message(spec, capsys, tmp_path):
    out = tmp_path / "run"
    assert main(["run", "-n", "4", "--algorithm", spec, "--out", str(out)]) == 2
    printed = capsys.readouterr().err
    assert len(printed.splitlines()) == 1
    assert printed.startswith("mpi-gt: error: ")
    assert not out.exists()
