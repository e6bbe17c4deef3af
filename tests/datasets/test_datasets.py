"""Finding, checking, fetching and preparing data, and the real files if present."""

import gzip
import hashlib
import http.server
import multiprocessing
import shutil
import threading

import numpy as np
import pytest

from mpi_gt.cli.main import main
from mpi_gt.datasets import DATASETS, Prepared, raw, store
from mpi_gt.datasets.catalog import Dataset, RawFile
from mpi_gt.errors import UserError

CONTENT = b"+1 1:0.5 3:2\n-1 2:1\n" * 500


def parse_toy(raw):
    numbers = np.frombuffer(raw["toy"][:1000], np.uint8).reshape(100, 10)
    return {"train": (numbers, (numbers[:, 0] % 2).astype(np.uint8))}


def toy(*urls):
    file = RawFile("toy", hashlib.sha256(CONTENT).hexdigest(), urls)
    return Dataset("toy", "a toy", 100, 10, 2, (file,), parse_toy)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("MPI_GT_DATA", raising=False)
    return tmp_path / "cache" / "mpi-gt"


# ---- the real files

COUNTS = {
    "a9a": {"train": (32561, [24720, 7841]), "test": (16281, [12435, 3846])},
    "covertype": {"train": (581012, [211840, 283301, 35754, 2747, 9493, 17367, 20510])},
    "mnist": {
        "train": (60000, [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]),
        "test": (10000, [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]),
    },
}


@pytest.mark.parametrize("name", DATASETS)
def test_real_dataset(name, prepared_data):
    dataset = DATASETS[name]
    for part, (rows, counts) in COUNTS[name].items():
        source = Prepared.of(dataset, part)
        labels = source.labels()
        assert np.bincount(labels).tolist() == counts
        assert len(labels) == rows
        whole = np.load(source.folder / f"{part}-x.npy", mmap_mode="r")
        assert whole.shape == (rows, dataset.features)
        assert whole.dtype in (np.float32, np.uint8)
        some = np.sort(np.random.default_rng(0).choice(rows, 999, replace=False))
        np.testing.assert_array_equal(source.read(some), whole[some])
    assert dataset.rows == COUNTS[name]["train"][0]
    assert Prepared.of(dataset, "test").exists() == ("test" in COUNTS[name])


def test_features_are_as_the_mathematics_says(prepared_data):
    covertype = np.load(prepared_data / "covertype-1" / "train-x.npy")
    np.testing.assert_allclose(covertype[:, :10].mean(axis=0, dtype=float), 0, atol=1e-6)
    np.testing.assert_allclose(covertype[:, :10].std(axis=0, dtype=float), 1, atol=1e-6)
    assert set(np.unique(covertype[:, 10:])) == {0, 1}
    a9a = np.load(prepared_data / "a9a-1" / "train-x.npy")
    assert int(a9a.sum()) == 451592
    mnist = Prepared.of(DATASETS["mnist"])
    assert mnist.scale * np.load(mnist.folder / "train-x.npy").max() == 1


def test_verify_the_real_files(data_dir, capsys):
    assert main(["data", "verify", "a9a", "--data-dir", str(data_dir)]) == 0
    assert capsys.readouterr().out.count("as published") == 2


# ---- looking for files, and the wrong ones


def place(folder, content, suffix=".gz"):
    path = folder / "toy" / f"toy{suffix}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content) if suffix == ".gz" else content)
    return path


def test_order_of_folders(cache, tmp_path, monkeypatch):
    dataset = toy()
    file = dataset.files[0]
    assert raw.find_raw(dataset, file, None) is None
    last = place(cache / "raw", CONTENT)
    assert raw.find_raw(dataset, file, None) == last
    second = place(tmp_path / "variable", CONTENT, "")
    monkeypatch.setenv("MPI_GT_DATA", str(tmp_path / "variable"))
    assert raw.find_raw(dataset, file, None) == second
    first = place(tmp_path / "given", CONTENT)
    assert raw.find_raw(dataset, file, str(tmp_path / "given")) == first


def test_a_wrong_file_is_named_with_both_hashes_and_left_alone(cache, tmp_path):
    path = place(tmp_path, CONTENT[:-1])
    before = path.read_bytes()
    wrong = hashlib.sha256(CONTENT[:-1]).hexdigest()
    right = hashlib.sha256(CONTENT).hexdigest()
    with pytest.raises(UserError, match=f"{wrong}.*{right}"):
        store.prepare(toy(), str(tmp_path))
    assert path.read_bytes() == before
    assert not (cache / "prepared").exists()


def test_a_truncated_file_is_an_error(cache, tmp_path):
    path = place(tmp_path, CONTENT)
    whole = path.read_bytes()
    right = hashlib.sha256(CONTENT).hexdigest()
    damaged = bytearray(whole)
    damaged[len(whole) // 2] ^= 0xFF
    for content in (whole[:-20], bytes(damaged), b""):
        path.write_bytes(content)
        stored = hashlib.sha256(content).hexdigest()
        with pytest.raises(UserError) as failed:
            store.prepare(toy(), str(tmp_path))
        assert right in str(failed.value)
        assert stored in str(failed.value) or "not the published" in str(failed.value)
        assert path.read_bytes() == content


def test_prepared_once_and_made_again_where_damaged(cache, tmp_path):
    path = place(tmp_path, CONTENT)
    said = []
    folder = store.prepare(toy(), str(tmp_path), said.append)
    assert len(said) == 1
    path.unlink()  # no longer needed
    assert store.prepare(toy(), str(tmp_path), said.append) == folder
    assert len(said) == 1
    whole = (folder / "train-x.npy").read_bytes()
    (folder / "train-x.npy").write_bytes(whole[:-1])
    place(tmp_path, CONTENT)
    store.prepare(toy(), str(tmp_path), said.append)
    assert (folder / "train-x.npy").read_bytes() == whole
    assert [entry.name for entry in folder.parent.iterdir()] == ["toy-1"]


def damaged_files(folder):
    """Yield after each kind of damage to a prepared dataset: a flipped bit, zeros, a cut, ..."""
    for path in sorted(folder.iterdir()):
        whole = path.read_bytes()
        if path.name == "sizes.json":  # for former versions only
            continue
        for place in range(0, len(whole), max(1, len(whole) // 20)):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
            yield f"{path.name}, byte {place}"
        for content in (b"", whole[:-1], whole + b"0", b"\0" * len(whole)):
            path.write_bytes(content)
            yield f"{path.name}, {len(content)} bytes"
        path.unlink()
        path.mkdir()
        yield f"{path.name}, a folder"
        shutil.rmtree(folder)
        folder.write_text("a file")
        yield "a file instead of the folder"


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_damaged_cache_is_found_and_prepared_again(cache, tmp_path, monkeypatch):
    monkeypatch.setattr("mpi_gt.datasets.digests.BLOCK", 100)  # ten rows per block
    place(tmp_path, CONTENT)
    folder = store.prepare(toy(), str(tmp_path))
    whole, rows = contents(folder), Prepared.of(toy()).read(np.arange(100))
    count = 0
    for count, what in enumerate(damaged_files(folder), 1):  # noqa: B007
        said = []
        store.prepare(toy(), str(tmp_path), said.append)
        assert len(said) == 1, what
        assert "again" in said[0], what
        assert contents(folder) == whole, what
    assert count > 60
    np.testing.assert_array_equal(Prepared.of(toy()).read(np.arange(100)), rows)
    assert [entry.name for entry in folder.parent.iterdir()] == ["toy-1"]


def test_a_rank_checks_the_blocks_that_it_reads(cache, tmp_path, monkeypatch):
    monkeypatch.setattr("mpi_gt.datasets.digests.BLOCK", 100)
    place(tmp_path, CONTENT)
    folder = store.prepare(toy(), str(tmp_path))
    flip(folder / "train-x.npy", -1)  # in the last of ten blocks
    source = Prepared.of(toy())
    assert source.read(np.arange(0, 90, 7)).shape == (13, 10)
    with pytest.raises(UserError, match=r"train-x.npy is damaged: rows 90 to 99"):
        source.read(np.arange(0, 95, 7))
    flip(folder / "train-y.npy", -1)
    with pytest.raises(UserError, match=r"train-y.npy is damaged"):
        source.labels()
    (folder / "digests.json").unlink()
    with pytest.raises(UserError, match=r"digests.json"):
        source.labels()


def flip(path, place):
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def test_a_cache_of_a_former_version_is_prepared_again(cache, tmp_path):
    path = place(tmp_path, CONTENT)
    folder = store.prepare(toy(), str(tmp_path))
    digest = Prepared.of(toy()).sha256()
    (folder / "digests.json").unlink()
    path.unlink()
    with pytest.raises(UserError, match=r"has no digests.json"):
        store.prepare(toy("http://127.0.0.1:9/toy"), str(tmp_path))
    place(tmp_path, CONTENT)
    store.prepare(toy(), str(tmp_path))
    assert Prepared.of(toy()).sha256() == digest


def prepare_toy(folder):
    store.prepare(toy(), folder)


@pytest.mark.parametrize("before", ["nothing", "damage"])
def test_two_jobs_may_prepare_at_the_same_time(cache, tmp_path, before):
    place(tmp_path, CONTENT)
    if before == "damage":
        flip(store.prepare(toy(), str(tmp_path)) / "train-x.npy", -1)
    context = multiprocessing.get_context("fork")
    jobs = [context.Process(target=prepare_toy, args=(str(tmp_path),)) for _ in range(6)]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join(60)
    assert [job.exitcode for job in jobs] == [0] * 6
    assert [entry.name for entry in (cache / "prepared").iterdir()] == ["toy-1"]


def test_a_cache_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    place(tmp_path, CONTENT)
    with pytest.raises(UserError, match="cannot write"):
        store.prepare(toy(), str(tmp_path))


# ---- downloading, from a server on this machine


class Server(http.server.BaseHTTPRequestHandler):
    """A server of /good and /bad in whole, of /cut in halves, and never of /gone."""

    requests: list[str] = []  # noqa: RUF012

    def do_GET(self):
        Server.requests.append(f"{self.path} {self.headers.get('Range', '')}")
        content = gzip.compress(CONTENT if self.path != "/bad/toy.gz" else b"other", mtime=0)
        if self.path == "/gone/toy.gz":
            self.send_error(404)
            return
        begin = 0
        if "Range" in self.headers:
            begin = int(self.headers["Range"].removeprefix("bytes=").removesuffix("-"))
            self.send_response(206)
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(content) - begin))
        self.end_headers()
        rest = content[begin:]
        self.wfile.write(rest[: len(rest) // 2] if "cut" in self.path and begin == 0 else rest)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server():
    Server.requests = []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


def test_download(cache, server):
    folder = store.prepare(toy(f"{server}/good/toy.gz"))
    assert (folder / "train-x.npy").exists()
    assert (cache / "raw" / "toy" / "toy.gz").exists()


def test_an_interrupted_download_is_resumed(cache, server):
    store.prepare(toy(f"{server}/cut/toy.gz"))
    first, second = Server.requests
    assert first == "/cut/toy.gz "
    assert "bytes=" in second


def test_the_next_mirror_is_tried(cache, server):
    store.prepare(toy(f"{server}/gone/toy.gz", f"{server}/good/toy.gz"))


@pytest.mark.parametrize(("path", "reason"), [("gone", "Not Found"), ("bad", "sha256")])
def test_a_failed_download_says_where_to_put_the_file(cache, server, path, reason, monkeypatch):
    monkeypatch.setattr(raw.time, "sleep", lambda seconds: None)
    with pytest.raises(UserError, match=reason) as failed:
        store.prepare(toy(f"{server}/{path}/toy.gz"))
    assert str(cache / "raw" / "toy" / "toy") in str(failed.value)
    assert raw.find_raw(toy(), toy().files[0], None) is None


def test_a_silent_server_is_a_time_out_with_a_message(cache, monkeypatch):
    import socket

    monkeypatch.setattr(raw, "TIMEOUT", 0.2)
    monkeypatch.setattr(raw.time, "sleep", lambda seconds: None)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/toy"
        with pytest.raises(UserError, match="timed out"):
            store.prepare(toy(url))


# ---- the command


def test_data_command(cache, capsys, tmp_path):
    assert main(["data", "list"]) == 0
    text = capsys.readouterr().out
    for name in DATASETS:
        assert name in text
    assert "prepared: no" in text
    assert main(["data", "list", "--quiet", "--out", str(tmp_path / "list.txt")]) == 0
    assert capsys.readouterr().out == ""
    assert (tmp_path / "list.txt").read_text() == text
    for words in (["verify"], ["verify", "mnst"], ["prepare"], ["fetch", "a9a"], ["list", "a9a"],
                  ["verify", "a9a"]):  # fmt: skip
        assert main(["data", *words]) == 2
        assert capsys.readouterr().err.count("mpi-gt: error:") == 1
