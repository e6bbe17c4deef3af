"""One node's rows of a dataset, for problems of one's own."""

import multiprocessing
import time

import numpy as np
import pytest

from mpi_gt import datasets
from mpi_gt.datasets import store
from mpi_gt.errors import UserError
from mpi_gt.problems.base import Place
from mpi_gt.problems.softmax import Softmax

NODES = 3


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A small dataset with integer features, prepared in a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    random = np.random.default_rng(0)

    def parse(raw):
        time.sleep(0.2)  # long enough for other processes to come
        (tmp_path / f"parsed-{time.monotonic_ns()}").touch()
        rows = {"train": 40, "test": 10}
        return {
            part: (random.integers(0, 255, (n, 5), np.uint8), (np.arange(n) % 2).astype(np.uint8))
            for part, n in rows.items()
        }

    made = datasets.Dataset("toy", "", 40, 5, 2, (), parse, scale=1 / 255)
    monkeypatch.setitem(datasets.DATASETS, "toy", made)
    return tmp_path


def places(dtype=np.float64, nodes=NODES):
    return [Place(node, nodes, (0,), np.dtype(dtype)) for node in range(nodes)]


@pytest.mark.parametrize("split", ["iid", "label", "dirichlet:0.5"])
@pytest.mark.parametrize(("part", "rows"), [("train", 13), ("test", 3)])
@pytest.mark.usefixtures("toy")
def test_every_node_has_its_own_rows(split, part, rows):
    taken = [place.dataset("toy", split, part) for place in places()]
    folder = datasets.prepared_folder(datasets.DATASETS["toy"])
    stored, labels = (np.load(folder / f"{part}-{what}.npy") for what in "xy")
    seen = []
    for x, y in taken:
        assert x.shape == (rows, 5)
        assert y.shape == (rows,)
        assert x.dtype == np.float64
        for row, label in zip(x, y, strict=True):
            (at,) = np.flatnonzero((np.abs(stored / 255 - row) < 1e-12).all(axis=1))
            assert labels[at] == label
            seen.append(at)
    assert len(set(seen)) == NODES * rows
    again = places()[1].dataset("toy", split, part)
    np.testing.assert_array_equal(again[0], taken[1][0])
    if split == "iid":
        other = places()[1].dataset("toy", split, part, split_seed=1)
        assert not np.array_equal(other[0], again[0])


def test_the_rows_are_those_of_softmax():
    for place in places():
        x, y = place.dataset("synthetic", "label")
        same = Softmax(place, split="label")
        np.testing.assert_array_equal(x, same._x)
        np.testing.assert_array_equal(y, same._labels)
    assert places(np.float32)[0].dataset("synthetic")[0].dtype == np.float32


def take(node):
    Place(node, 4, (0,)).dataset("toy")


def test_one_process_prepares_what_all_of_them_need(toy):
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=take, args=(node,)) for node in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert len(list(toy.glob("parsed-*"))) == 1


def test_damage_is_found(toy):
    store.prepare(datasets.DATASETS["toy"])
    path = datasets.prepared_folder(datasets.DATASETS["toy"]) / "train-x.npy"
    content = bytearray(path.read_bytes())
    content[-30] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"train-x\.npy is damaged: rows 0 to 39"):
        [place.dataset("toy") for place in places()]


WRONG = {
    "name": (("toi",), r"unknown dataset 'toi'.*toy"),
    "split": (("toy", "even"), "split must be iid, label or dirichlet:CONC"),
    "part as split": (("toy", "test"), "for that part give part='test'"),
    "part": (("toy", "iid", "valid"), "must be train or test, not 'valid'"),
    "seed": (("toy", "iid", "train", -1), "split_seed must be in"),
    "text": (("toy", None), "split must be"),
}


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.usefixtures("toy")
def test_wrong_arguments(case):
    arguments, message = WRONG[case]
    with pytest.raises(UserError, match=message):
        places()[0].dataset(*arguments)


@pytest.mark.usefixtures("toy")
def test_too_many_nodes_and_parts_that_do_not_exist(monkeypatch):
    with pytest.raises(UserError, match="dataset toy: 10 rows are too few for 11 nodes"):
        places(nodes=11)[0].dataset("toy", part="test")
    monkeypatch.setattr("mpi_gt.datasets.Prepared.exists", lambda self: False)
    with pytest.raises(UserError, match="dataset toy has no test part"):
        places()[0].dataset("toy", part="test")


def test_a_problem_of_one_s_own_on_a_known_dataset(data_dir, tmp_path, monkeypatch):
    import mpi_gt

    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(
        "import numpy as np\n"
        "from mpi_gt.problems.base import Problem\n"
        "class Linear(Problem):\n"
        "    def __init__(self, place):\n"
        "        self.a, y = place.dataset('a9a', 'label')\n"
        "        self.y, self.dim = 2.0 * y - 1, self.a.shape[1]\n"
        "    def gradient(self, t, x):\n"
        "        return self.evaluate(x)[1]\n"
        "    def evaluate(self, x):\n"
        "        r = x @ self.a.T - self.y\n"
        "        return (r * r).mean(axis=-1) / 2, r @ self.a / len(self.a)\n"
    )
    options = {"problem": "mine:Linear", "algorithm": "gt:lr=0.1", "data_dir": str(data_dir)}
    result = mpi_gt.run(stacked=True, n=4, iterations=20, **options)
    assert result.metrics[0]["loss"] == pytest.approx(0.5)
    assert result.metrics[-1]["loss"] < 0.49
