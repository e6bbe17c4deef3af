"""`mpi-gt predict --compress`: the model, and where it breaks even."""

import json

import pytest

from mpi_gt.cli.main import main

CODEC = {
    "compress": "sign",
    "encode_base": 2e-6,
    "encode_rate": 1e9,
    "decode_base": 1e-6,
    "decode_rate": 2e9,
}


@pytest.fixture
def bench(tmp_path):
    fit = {"exchange": "neighbor", "graph": "ring", "latency": 1e-5, "bandwidth": 1e9}
    fit |= {"per_message": 0.0, "r2": 1.0, "worst": 0.0}
    (tmp_path / "bench.json").write_text(json.dumps({"fits": [fit], "codecs": [CODEC]}))
    return tmp_path


def predict(bench, capsys, *words):
    common = ["predict", "-n", "8", "--graphs", "ring", "--compute", "1us", "--json"]
    assert main([*common, "--bench", str(bench), "--compress", "sign", *words]) == 0
    found = json.loads(capsys.readouterr().out)
    return found["rows"][0], found["compressed"][0]


def test_the_terms_of_the_model(bench, capsys):
    plain, found = predict(bench, capsys, "--dim", "1000", "--seeds", "3")
    numbers, payload = 6000, 2 * 3 * (8 + 125)
    assert found["bytes"] == payload
    assert found["codec"]["source"].endswith(str(bench))
    (row,) = found["rows"]
    assert row["encode"] == pytest.approx(2e-6 + numbers / 1e9)
    assert row["decode"] == pytest.approx(2 * (1e-6 + numbers / 2e9))
    assert row["communication"] == pytest.approx(1e-5 + 2 * payload / 1e9)
    total = 1e-6 + row["encode"] + row["decode"] + row["communication"]
    assert row["iteration"] == pytest.approx(total)
    assert row["ratio"] == pytest.approx(total / plain["iteration"])


def test_float32_has_half_the_bytes_to_save(bench, capsys):
    _, found = predict(bench, capsys, "--dim", "1000", "--dtype", "float32")
    assert found["bytes"] == 2 * (4 + 125)
    (row,) = found["rows"]
    assert row["encode"] == pytest.approx(2e-6 + 2000 / 1e9)


def test_it_breaks_even_at_the_bandwidth_and_at_the_size_that_it_names(bench, capsys):
    _, found = predict(bench, capsys, "--dim", "5000")
    (row,) = found["rows"]
    for factor, pays in ((0.99, True), (1.01, False)):
        speed = ["--bandwidth", f"{factor * row['pays_below']:.6f}"]
        _, other = predict(bench, capsys, "--dim", "5000", *speed)
        assert (other["rows"][0]["ratio"] < 1) is pays
    dim = row["pays_from"] // 16
    for length, pays in ((dim, True), (dim - 1, False)):
        _, other = predict(bench, capsys, "--dim", str(length))
        assert (other["rows"][0]["ratio"] < 1) is pays
    _, fast = predict(bench, capsys, "--bandwidth", "1e15")
    assert fast["rows"][0]["pays_from"] is None


def test_what_the_bench_lacks_is_timed_here(bench, capsys):
    words = ["predict", "-n", "8", "--graphs", "ring,complete", "--compute", "1us", "--dim", "1e5"]
    assert main([*words, "--bench", str(bench), "--compress", "bfloat16", "none"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "with bfloat16: messages of 400,000 bytes, not 1,600,000" in shown
    assert "bfloat16: encoding and decoding timed on this machine" in shown
    assert "nowhere" in shown  # none saves nothing


@pytest.mark.parametrize(
    "damage", [{"encode_rate": -1.0}, {"decode_base": "soon"}, {"compress": 3}]
)
def test_damaged_codecs(bench, capsys, damage):
    content = json.loads((bench / "bench.json").read_text())
    content["codecs"] = [{**CODEC, **damage}]
    (bench / "bench.json").write_text(json.dumps(content))
    words = ["predict", "-n", "4", "--compute", "1us", "--bench", str(bench), "--compress", "sign"]
    assert main(words) == 2
    assert capsys.readouterr().err.count("mpi-gt: error:") == 1


def test_codecs_that_take_no_time(bench, capsys):
    content = json.loads((bench / "bench.json").read_text())
    free = {"encode_base": 0, "encode_rate": None, "decode_base": 0, "decode_rate": None}
    content["codecs"] = [{**CODEC, **free}]
    (bench / "bench.json").write_text(json.dumps(content))
    _, found = predict(bench, capsys)
    assert found["rows"][0]["ratio"] < 1
