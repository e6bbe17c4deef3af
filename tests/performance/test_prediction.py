"""`mpi-gt predict`: times and speeds as typed, the model's predictions, and a check by a run."""

import json

import pytest

from mpi_gt.cli.commands.predict import parse_seconds, parse_speed
from mpi_gt.cli.main import main
from mpi_gt.errors import UserError

MACHINE = ["-n", "8", "--latency", "2us", "--bandwidth", "1GB/s", "--compute", "5us"]


def test_times_and_speeds():
    assert parse_seconds("--latency", "2us") == pytest.approx(2e-6)
    assert parse_seconds("--latency", "0.5ms") == pytest.approx(5e-4)
    assert parse_seconds("--latency", "3") == 3
    assert parse_speed("--bandwidth", "12GB/s") == 12e9
    assert parse_speed("--bandwidth", "1.07GB/s") == pytest.approx(1.07e9)
    for text in ("-1us", "quick", "inf"):
        with pytest.raises(UserError):
            parse_seconds("--latency", text)


def test_predict(capsys):
    words = ["predict", "-n", "8", "--latency", "2us", "--bandwidth", "1GB/s", "--dim", "1000"]
    assert main([*words, "--compute", "5us", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    ring = next(row for row in found["rows"] if row["graph"] == "ring")
    assert found["bytes"] == 16_000
    assert ring["communication"] == pytest.approx(2e-6 + 2 * 16e3 / 1e9)
    assert ring["iteration"] == pytest.approx(5e-6 + ring["communication"])
    assert main([*words, "--graphs", "exponential"]) == 0
    assert "exponential" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        ["-n", "8"],
        ["-n", "8", "--latency", "2us"],
        ["--latency", "2us", "--bandwidth", "1GB/s"],
        ["-n", "0", "--latency", "2us", "--bandwidth", "1GB/s"],
        ["-n", "7", "--graphs", "hypercube", "--latency", "2us", "--bandwidth", "1GB/s"],
        ["-n", "8", "--latency", "2us", "--bandwidth", "0"],
        ["-n", "8", "--latency", "2us", "--bandwidth", "1GB/s", "--dtype", "int8"],
        ["-n", "8", "--bench", "absent"],
        ["-n", "8", "--dim", "1e9", "--latency", "2us", "--bandwidth", "1GB/s"],
        ["-n", "9999", "--graphs", "complete", "--latency", "2us", "--bandwidth", "1GB/s"],
        ["-n", "8", "--latency", "2us", "--bandwidth", "1GB/s", "--out", "/proc/x"],
        ["--check", "absent", "--latency", "2us", "--bandwidth", "1GB/s"],
        [*MACHINE, "--compress", "qsgd:bits=3"],
        [*MACHINE, "--compress", "zip"],
        [*MACHINE, "--compress", ""],
        [*MACHINE, "--compress", "sign,sign"],
        [*MACHINE, "--compress", "top:k=11"],  # of 10 entries
        [*MACHINE, "--compress", "missing_module:Class"],
        [*MACHINE, "--compress", "sign", "--check", "absent"],
    ],
)
def test_predict_refuses(words, capsys):
    assert main(["predict", *words]) == 2
    assert capsys.readouterr().err.count("mpi-gt: error:") == 1


def test_the_model_is_checked_against_a_run(openmpi, call, tmp_path):
    measure = ["-n", "2", "--quiet", "--out"]
    sizes = ["--sizes", "160,16kB", "--exchanges", "neighbor", "--seconds", "0.05"]
    call(openmpi.mpi_gt("bench", *sizes, *measure, tmp_path / "b"))
    call(openmpi.mpi_gt("profile", "--iterations", "100", *measure, tmp_path / "p"))
    words = ["predict", "--bench", tmp_path / "b", "--check", tmp_path / "p"]
    done = call(openmpi.mpi_gt(*words))
    assert "predicted" in done.out
    assert "%" in done.out
