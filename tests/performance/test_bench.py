"""`mpi-gt bench`: its options, its measurements on real ranks, and the fits to them."""

import csv
import json

import pytest
from support import FIGURES

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
