"""Runs with compressed messages: compressors of users, bad input, resuming, bytes."""

import json

import numpy as np
import pytest

import mpi_gt
from mpi_gt.errors import UserCodeError, UserError

OWN = '''
import numpy as np


class Halves:
    """Every second entry, as float32."""

    unbiased = False

    def __init__(self, first: int = 0):
        self.first = first

    def size(self, seeds, dim, dtype):
        return 4 * seeds * len(range(self.first, dim, 2))

    def encode(self, z, uniform):
        kept = np.ascontiguousarray(z[:, self.first :: 2], np.float32)
        return kept.reshape(-1).view(np.uint8)

    def decode(self, payload, shape, dtype):
        made = np.zeros(shape, dtype)
        made[:, self.first :: 2] = payload.view(np.float32).reshape(shape[0], -1)
        return made

    def delta(self, dim):
        return 0.5


class Rounded(Halves):
    random = True

    def size(self, seeds, dim, dtype):
        return seeds * dim

    def encode(self, z, uniform):
        return np.floor(np.clip(z, -1, 1) * 100 + 127 + uniform).astype(np.uint8).reshape(-1)

    def decode(self, payload, shape, dtype):
        return ((payload.astype(float) - 127) / 100).astype(dtype).reshape(shape)


class Long(Halves):
    def encode(self, z, uniform):
        return np.zeros(3, np.uint8)


class Flat(Halves):
    def decode(self, payload, shape, dtype):
        return np.zeros(shape[1])


class Moody(Halves):
    def encode(self, z, uniform):
        return np.frombuffer(np.random.default_rng().bytes(self.size(*z.shape, z.dtype)), np.uint8)


class Broken(Halves):
    def encode(self, z, uniform):
        raise KeyError("payload")


class Writes(Halves):
    def encode(self, z, uniform):
        z[:] = 0


class NoDelta:
    size, encode, decode = Halves.size, Halves.encode, Halves.decode
    first = 0


class Late(Halves):
    calls = 0

    def encode(self, z, uniform):
        self.calls += 1
        if self.calls > 60:
            raise ValueError("no more")
        return super().encode(z, uniform)


class Half:
    def size(self, seeds, dim, dtype):
        return 1
'''
RUN = {"stacked": True, "n": 4, "iterations": 40, "quiet": True, "seeds": 2}


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "shrink.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "shrink", raising=False)


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize("name", ["Halves", "Halves:first=1", "Rounded"])
def test_a_compressor_of_the_user(name, tmp_path):
    size = {"Halves": 20, "Halves:first=1": 20, "Rounded": 10}[name]
    out = tmp_path / "run"
    mpi_gt.run(algorithm=f"beer:compress=shrink:{name}", out=str(out), **RUN)
    rows = (out / "metrics.csv").read_text().splitlines()
    sent = int(rows[-1].split(",")[rows[0].split(",").index("bytes")])
    edges = json.loads((out / "run.json").read_text())["graph"]["edges"]
    assert sent == 40 * 2 * 2 * edges * size


@pytest.mark.usefixtures("own")
@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("shrink:Long", r"Long.encode must return an array of shape \(40,\) and dtype uint8"),
        ("shrink:Flat", r"Flat.decode must return an array of shape \(2, 10\)"),
        ("shrink:Moody", "Moody.encode gives other numbers when it is called again"),
        ("shrink:Broken", "Broken.encode failed: KeyError"),
        ("shrink:Writes", "Writes.encode failed: ValueError: assignment destination is read-only"),
        ("shrink:NoDelta", "NoDelta has no method delta.*give gamma"),
        ("shrink:Half", r"lacks encode\(\), decode\(\)"),
        ("shrink:Nothing", "has no such class"),
        ("nowhere:Nothing", "no module 'nowhere'"),
        ("shrink:Halves:last=1", "no option 'last'"),
        ("lead", "unknown compressor 'lead'"),
        ("top,k=11", "beer: k must be at most all 10 entries, not 11"),
        ("qsgd,bits=3", "bits must be 2, 4 or 8, not 3"),
        ("sign,gamma=1.01", "gamma must be in"),
        ("sign,gamma=-1", "gamma must be in"),
    ],
)
def test_bad_compressors_are_refused(spec, message):
    with pytest.raises(UserError, match=message):
        mpi_gt.run(algorithm=f"beer:compress={spec}", **RUN)


@pytest.mark.usefixtures("own")
def test_a_compressor_that_fails_later_is_named():
    with pytest.raises(ValueError, match="no more") as caught:
        mpi_gt.run(algorithm="beer:compress=shrink:Late", **RUN)
    assert caught.value.user_call == "Late.encode"
    assert not isinstance(caught.value, UserCodeError)


@pytest.mark.parametrize(
    "name", ["gt-adaptive-compressed:beta=0,period=7", "beer", "choco-sgd", "lead"]
)
def test_a_resumed_run_has_the_same_bits(name, tmp_path):
    run = {**RUN, "algorithm": name, "checkpoint_every": 17}
    mpi_gt.run(out=str(tmp_path / "whole"), **run)
    mpi_gt.run(out=str(tmp_path / "part"), **{**run, "iterations": 17})
    mpi_gt.run(out=str(tmp_path / "part"), resume=True, **run)
    whole, part = (np.load(tmp_path / each / "final.npz")["x"] for each in ("whole", "part"))
    assert whole.tobytes() == part.tobytes()


def test_a_budget_of_bytes_counts_payloads(tmp_path):
    out = tmp_path / "run"
    mpi_gt.run(
        algorithms="beer:compress=sign,gt", budget="bytes=20000", out=str(out),
        stacked=True, n=4, quiet=True,
    )  # fmt: skip
    planned = json.loads((out / "run.json").read_text())["planned"]
    edges = json.loads((out / "run.json").read_text())["graph"]["edges"]
    assert planned["beer"] == -(-20000 // (2 * edges * 2 * 10))
    assert planned["gt"] == -(-20000 // (2 * edges * 2 * 80))
