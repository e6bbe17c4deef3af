"""Objects in place of text, in runs of this process."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import networkx as nx
import numpy as np
import pytest

import mpi_gt
from mpi_gt.algorithms.base import Algorithm
from mpi_gt.algorithms.gt import GradientTracking
from mpi_gt.problems import Huber, Problem

RUN = {"stacked": True, "n": 4, "iterations": 20}


@dataclass(frozen=True)
class Normalised(Algorithm):
    """x+ = A(x - a g / |g|), with one norm per seed."""

    power: float = 1.0
    note: str = "none"

    class State(NamedTuple):
        x: np.ndarray
        g: np.ndarray

    def init(self, x, grad):
        assert x.ndim == 2
        return self.State(x, grad(x))

    def step(self, t, state, mix, grad):
        size = np.sqrt((state.g**2).sum(axis=1, keepdims=True)) ** self.power
        x = mix(state.x - self.rate(t) * state.g / size).wait()
        return self.State(x, grad(x))


class Quadratic(Problem):
    """f_i(x) = |x - i|² / 2 without noise."""

    def __init__(self, place, *, dim: int = 3, scale: float = 1.0):
        self.dim, self._target, self._scale = dim, place.node, scale

    def gradient(self, t, x):
        return self._scale * (x - self._target)

    def evaluate(self, x):
        off = x - self._target
        return self._scale * (off**2).sum(axis=1) / 2, self._scale * off


def x_of(**options):
    return mpi_gt.run(**RUN, **options).x


def test_objects_give_the_bits_of_the_texts():
    plain = x_of(problem="huber:spread=0.3", algorithm="gt:lr=0.05,order=atc", graph="ring")
    made = x_of(
        problem=(Huber, {"spread": 0.3}),
        algorithm=GradientTracking(lr=0.05, order="atc"),
        graph=nx.cycle_graph(4),
    )
    assert (made == plain).all()
    named = x_of(problem=("huber", {"spread": 0.3}), algorithm=("gt", {"lr": 0.05, "order": "atc"}),
                 graph=("ring", {}))  # fmt: skip
    assert (named == plain).all()


def test_only_options_that_differ_are_in_the_text():
    facts = mpi_gt.run(**RUN, algorithm=GradientTracking(lr=0.05)).facts
    assert facts["config"]["algorithm"] == "gt:lr=0.05"


def test_arrays_are_like_their_files(tmp_path):
    mixing = np.full((4, 4), 0.25)
    start = np.arange(10.0)
    np.save(tmp_path / "w.npy", mixing)
    np.save(tmp_path / "x.npy", start)
    by_file = x_of(weights=str(tmp_path / "w.npy"), x1=str(tmp_path / "x.npy"))
    assert (x_of(weights=mixing, x1=start) == by_file).all()
    assert (x_of(weights=mixing.tolist(), x1=start.tolist()) == by_file).all()


def test_several_algorithms_are_a_list():
    made = mpi_gt.run(**RUN, algorithms=[Normalised(), "dsgd", GradientTracking(lr=0.5)])
    assert list(made.outputs) == ["Normalised", "dsgd", "gt"]
    twice = mpi_gt.run(**RUN, algorithms=[Normalised(lr=0.1), Normalised(lr=0.2)])
    assert len(twice.outputs) == 2


def test_x_of_a_comparison_says_what_to_take():
    made = mpi_gt.run(**RUN, algorithms="gt,dsgd")
    with pytest.raises(mpi_gt.UserError, match=r"outputs\[NAME\] with one of 'gt', 'dsgd'"):
        _ = made.x


def test_classes_that_no_other_process_could_find():
    class Local(Normalised):
        """Known inside this function only."""

    class Mine(Quadratic):
        pass

    assert (x_of(algorithm=Local(lr=0.1)) == x_of(algorithm=Normalised(lr=0.1))).all()
    assert (x_of(problem=(Mine, {"dim": 2})) == x_of(problem=(Quadratic, {"dim": 2}))).all()


def test_two_classes_of_the_same_name_stay_apart():
    def make(factor):
        class Same(Normalised):
            def rate(self, t):
                return factor * self.lr

        return Same(lr=0.1)

    slow, fast = mpi_gt.run(**RUN, algorithms=[make(1), make(2)]).outputs.values()
    assert (slow == x_of(algorithm=Normalised(lr=0.1))).all()
    assert (fast == x_of(algorithm=Normalised(lr=0.2))).all()


def test_an_object_with_an_option_that_is_no_text_is_used_itself():
    @dataclass(frozen=True)
    class Scheduled(Normalised):
        rates: list = field(default_factory=list)

        def rate(self, t):
            return self.rates[t % len(self.rates)]

    assert (x_of(algorithm=Scheduled(rates=[0.1])) == x_of(algorithm=Normalised(lr=0.1))).all()


def test_what_a_node_keeps_in_itself_is_not_another_nodes():
    class Counting:
        def __init__(self):
            self.steps = 0

        class State(NamedTuple):
            x: np.ndarray

        def init(self, x, grad):
            return self.State(x)

        def step(self, t, state, mix, grad):
            self.steps += 1
            return self.State(mix(state.x).wait() + self.steps)

    x = x_of(algorithm=Counting(), problem=Quadratic)
    first = 1  # the trial of each class before a run is a step as well
    assert (x == sum(range(1 + first, 21 + first))).all()


def test_shapes_are_those_of_a_rank():
    """A norm over axis 1 is one over nodes, if all nodes are in one array."""
    alone = [x_of(algorithm=Normalised(lr=0.1), seeds=2, seed=s)[:, 0] for s in (0, 1)]
    both = x_of(algorithm=Normalised(lr=0.1), seeds=2)
    assert (both == np.stack(alone, axis=1)).all()


def test_a_run_directory_keeps_the_inputs(tmp_path):
    out = tmp_path / "run"
    options = {"graph": nx.path_graph(4), "x1": np.ones(10), "algorithm": Normalised(lr=0.1)}
    first = mpi_gt.run(**RUN, **options, out=out)
    assert sorted(path.suffix for path in (out / "inputs").iterdir()) == [".edges", ".npy"]
    assert first.directory == out
    with pytest.raises(mpi_gt.UserError, match="exists"):
        mpi_gt.run(**RUN, **options, out=out)
    longer = {**RUN, "iterations": 30}
    more = mpi_gt.run(**longer, **options, out=out, resume=True)
    whole = mpi_gt.run(**longer, **options)
    assert (more.x == whole.x).all()
    other = {**RUN, **options, "iterations": 40, "x1": np.zeros(10)}
    with pytest.raises(mpi_gt.UserError, match="holds another run"):
        mpi_gt.run(**other, out=out, resume=True)
    again = mpi_gt.run(**RUN, x1=np.zeros(10), out=out, overwrite=True)
    assert [path.name for path in (out / "inputs").iterdir()] == [
        Path(again.facts["config"]["x1"]).name
    ]


def test_inputs_are_removed_by_the_run_that_replaces_theirs_and_by_no_other(tmp_path):
    from mpi_gt.cli.main import main

    out = tmp_path / "run"
    mpi_gt.run(**RUN, x1=np.ones(10), out=out)
    (out / "inputs" / "mine.txt").write_text("not of a run")
    with pytest.raises(mpi_gt.UserError, match="dimensions"):
        mpi_gt.run(**RUN, x1=np.ones(3), out=out, overwrite=True)
    # the run that is still there needs its array
    assert main(["resume", str(out), "--iterations", "30", "--quiet"]) == 0
    words = ["run", "--stacked", "-n", "4", "--iterations", "5", "--quiet", "--out", str(out)]
    kept = next((out / "inputs").glob("x1-*.npy"))
    assert main([*words, "--overwrite", "--x1", str(kept)]) == 0
    assert main([*words, "--overwrite"]) == 0
    assert [path.name for path in (out / "inputs").iterdir()] == ["mine.txt"]
    (out / "inputs" / "mine.txt").unlink()
    assert main([*words, "--overwrite"]) == 0
    assert not (out / "inputs").exists()


def test_a_moved_run_finds_its_inputs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mpi_gt.run(**RUN, x1=np.ones(10), out="before")
    Path("before").rename("after")
    config = json.loads(Path("after/run.json").read_text())["config"]
    assert config["x1"].startswith("before/inputs/")
    from mpi_gt.cli.main import main

    assert main(["resume", "after", "--iterations", "30", "--quiet"]) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"algorithm": 5}, "a name, a class or an instance, not 5"),
        ({"algorithm": lambda x: x}, "a name, a class or an instance"),
        ({"algorithm": Quadratic}, r"lacks init\(\), step\(\)"),
        ({"algorithms": [3]}, "a name, a class or an instance, not 3"),
        ({"algorithm": (Normalised, {"note": "a,b"})}, "without commas"),
        ({"algorithm": (Normalised, {"speed": 1})}, "no option 'speed'"),
        ({"algorithm": (Normalised, {"lr": -1.0})}, "lr must be finite"),
        ({"problem": Normalised()}, "made on each node: pass its class"),
        ({"problem": Normalised}, r"lacks gradient\(\), evaluate\(\)"),
        ({"problem": (3, {})}, "a name or a class, not 3"),
        ({"graph": nx.path_graph(5)}, "graph of 5 nodes, but there are 4"),
        ({"graph": nx.DiGraph([(0, 1), (1, 2), (2, 3)])}, "not strongly connected"),
        ({"graph": nx.empty_graph(4)}, "node 0 has no edge"),
        ({"graph": nx.Graph([(0, 1), (2, 3)])}, "not connected"),
        ({"graph": 3}, "graph must be str or None, not 3"),
        ({"weights": np.eye(4)}, "not connected"),
        ({"weights": np.ones((4, 4), complex)}, "real numbers, not of complex128"),
        ({"weights": [[1], [1, 2]]}, "real numbers"),
        ({"x1": np.ones(3)}, "3 dimensions, but the problem has 10"),
        ({"x1": np.array([np.nan] * 10)}, "not finite"),
    ],
)
def test_objects_that_cannot_be_used_are_refused(options, message, tmp_path):
    with pytest.raises(mpi_gt.UserError, match=message):
        mpi_gt.run(**RUN, **options, out=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_a_table_of_pandas_is_an_array():
    pandas = pytest.importorskip("pandas")
    weights = np.full((4, 4), 0.25)
    a = mpi_gt.run(**RUN, graph="complete", weights=weights)
    b = mpi_gt.run(**RUN, graph="complete", weights=pandas.DataFrame(weights))
    assert (a.x == b.x).all()


def test_masked_entries_and_two_kinds_of_algorithms_are_refused():
    with pytest.raises(mpi_gt.UserError, match="masked"):
        mpi_gt.run(**RUN, x1=np.ma.masked_less(np.arange(10.0), 1))
    with pytest.raises(mpi_gt.UserError, match="both given"):
        mpi_gt.run(**RUN, algorithm="gt", algorithms=["gt", "dsgd"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"x1": np.full(10, np.nan)}, "x1[0] is nan: not finite"),
        ({"x1": np.ones((3, 10))}, "x1 has shape (3, 10), not"),
        ({"weights": np.eye(3)}, "weights has shape (3, 3)"),
        ({"graph": nx.cycle_graph(5)}, "graph is a graph of 5 nodes, but there are 4"),
    ],
)
@pytest.mark.parametrize("out", [{}, {"out": "run"}])
def test_messages_name_the_option_not_a_file_that_is_gone(
    options, message, out, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(mpi_gt.UserError) as caught:
        mpi_gt.run(**RUN, **options, **out)
    assert str(caught.value).startswith(message)
    assert list(tmp_path.iterdir()) == []
