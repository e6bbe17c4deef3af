"""`mpi-gt bench`: its options, its measurements on real ranks, and the fits to them."""

import csv
import json

import pytest
from support import FIGURES, json_files

from mpi_gt.comm import EXCHANGE_NAMES
from mpi_gt.errors import UserError
from mpi_gt.performance.bench import fits_of
from mpi_gt.performance.bench_plan import BenchPlan, parse_size
from mpi_gt.performance.cost_model import Cost


def test_fits_by_graph_and_over_all():
    cost = Cost(1e-5, 1e9, 2e-6)
    rows = [
        {"graph": g, "degree": d, "exchange": "p2p", "bytes": s, "median": cost.seconds(d, s)}
        for g, d in (("ring", 2), ("complete", 7))
        for s in (160, 16_000)
    ]
    fits = fits_of(rows)
    assert [fit["graph"] for fit in fits] == ["ring", "complete", None]
    assert fits[-1]["per_message"] == pytest.approx(2e-6)
    assert fits[0]["latency"] == pytest.approx(1e-5 + 2 * 2e-6)  # inseparable in one graph


@pytest.mark.parametrize(
    ("text", "bytes_"), [("160", 160), ("16e3", 16000), ("1.6MB", 1600000), ("4KiB", 4096)]
)
def test_sizes(text, bytes_):
    assert parse_size("--sizes", text) == bytes_


@pytest.mark.parametrize("text", ["", "x", "1.5", "16 lumps", "inf", "nan"])
def test_what_is_no_size(text):
    with pytest.raises(UserError, match="--sizes"):
        parse_size("--sizes", text)


@pytest.mark.parametrize(
    "given",
    [
        {"sizes": "17"},
        {"sizes": "0"},
        {"graphs": "triangle"},
        {"exchanges": "pigeon"},
        {"seconds": "0"},
        {"seconds": "soon"},
        {"n": "0"},
        {"compress": ["zip"]},
        {"compress": ["qsgd:bits=3"]},
        {"compress": [""]},
        {"compress": ["sign", "sign"]},
        {"compress": ["top:k=11"], "sizes": "160,16kB"},  # 10 entries
        {"compress": ["missing_module:Class"]},
    ],
)
def test_bench_refuses(given):
    with pytest.raises(UserError):
        BenchPlan.of(given)


def test_bench(mpi, compiler, call, tmp_path):
    words = ["bench", "-n", "3", "--sizes", "160,16kB", "--graphs", "ring,star", "--seconds"]
    done = call(mpi.mpi_gt(*words, "0.02", "--out", tmp_path / "b"), env=FIGURES, limit=200)
    found = json.loads((tmp_path / "b" / "bench.json").read_text())
    assert not found["skipped"], done
    assert "neighbor / C" in done.out
    measured = {(row["graph"], row["exchange"], row["bytes"]) for row in found["rows"]}
    assert len(measured) == len(found["rows"]) == 2 * 2 * (len(EXCHANGE_NAMES) + 1)
    for row in found["rows"]:
        assert 0 < row["min"] <= row["median"] <= row["p95"] <= row["p99"] < 10
    with (tmp_path / "b" / "bench.csv").open() as file:
        assert len(list(csv.DictReader(file))) == len(found["rows"])
    assert {"bench.json", "bench.columns.json"} == set(json_files(tmp_path / "b"))
    assert (tmp_path / "b" / "bench.png").exists()
    assert not list((tmp_path / "b").glob("floor*"))
    again = call(mpi.mpi_gt(*words, "0.02", "--out", tmp_path / "b"), expect=2)
    assert "exists" in again.err


def test_bench_under_an_mpirun_of_ones_own(openmpi, call, tmp_path):
    words = ["bench", "--sizes", "160", "--graphs", "ring", "--exchanges", "neighbor,pickle"]
    out = ["--seconds", "0.02", "--out", str(tmp_path / "b")]
    call(openmpi.mpirun(2, str(openmpi.bin / "mpi-gt"), *words, *out))
    found = json.loads((tmp_path / "b" / "bench.json").read_text())
    assert [row["exchange"] for row in found["rows"]] == ["neighbor", "pickle"]
    assert not {"compressed", "pays", "codecs"} & set(found)  # without --compress as ever
    header = (tmp_path / "b" / "bench.csv").read_text().partition("\n")[0]
    assert header == "graph,degree,exchange,bytes,samples,min,median,p95,p99,MB_per_s"


OWN = """
import numpy as np

class Single:
    def size(self, seeds, dim, dtype):
        return 4 * seeds * dim

    def encode(self, z, uniform):
        return z.astype(np.float32).reshape(-1).view(np.uint8)

    def decode(self, payload, shape, dtype):
        return payload.view(np.float32).reshape(shape).astype(dtype)
"""


def test_compressed_exchanges_beside_uncompressed_ones(openmpi, call, tmp_path):
    (tmp_path / "own_codec.py").write_text(OWN)
    specs = ["qsgd:bits=4,sign", "own_codec:Single"]
    words = ["bench", "-n", "2", "--sizes", "160,16kB", "--graphs", "star", "--seconds", "0.001"]
    words += ["--compress", *specs, "--out", "b"]
    done = call(openmpi.mpi_gt(*words), cwd=tmp_path, env=FIGURES, limit=200)
    found = json.loads((tmp_path / "b" / "bench.json").read_text())
    sent = {
        ("qsgd:bits=4", 160): 2 * (4 + 5),  # a scale and half a byte per entry
        ("qsgd:bits=4", 16_000): 2 * (16 * 4 + 500),
        ("sign", 160): 2 * (8 + 2),
        ("sign", 16_000): 2 * (8 + 125),
        ("own_codec:Single", 160): 80,
        ("own_codec:Single", 16_000): 8000,
    }
    rows = {(r["exchange"], r["compress"], r["bytes"]): r for r in found["compressed"]}
    assert set(rows) == {(name, *key) for name in EXCHANGE_NAMES for key in sent}
    plain = {(r["exchange"], r["bytes"]): r["median"] for r in found["rows"]}
    for (name, compress, size), row in rows.items():
        assert row["sent"] == sent[compress, size]
        assert row["uncompressed"] == plain[name, size]
        assert row["ratio"] == pytest.approx(row["median"] / plain[name, size])
        assert min(row["encode"], row["wire"], row["decode"]) > 0
        assert row["shortest"]["encode"] <= row["encode"]
    assert len(found["pays"]) == 3 * len(EXCHANGE_NAMES)
    assert [codec["compress"] for codec in found["codecs"]] == [
        "qsgd:bits=4",
        "sign",
        "own_codec:Single",
    ]
    assert {fit["exchange"] for fit in found["fits"]} >= set(EXCHANGE_NAMES)
    with (tmp_path / "b" / "bench.csv").open() as file:
        table = list(csv.DictReader(file))
    assert len(table) == len(found["rows"]) + len(rows)
    listed = json_files(tmp_path / "b")["bench.columns.json"]["columns"]
    assert [column["name"] for column in listed] == list(table[0])
    units = {column["name"]: column["unit"] for column in listed}
    assert {units[name] for name in ("min", "median", "p99", "encode", "wire", "decode")} == {"s"}
    assert (units["bytes"], units["sent"], units["MB_per_s"]) == ("bytes", "bytes", "MB/s")
    assert [row["compress"] for row in table].count("sign") == 2 * len(EXCHANGE_NAMES)
    assert "star: sign pays " in done.out
    assert (tmp_path / "b" / "bench.png").stat().st_size > 20_000
