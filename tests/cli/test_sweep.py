"""`mpi-gt sweep` in one process."""

import json

import numpy as np
import pytest

from mpi_gt.cli.main import main


@pytest.mark.figures
def test_sweep(tmp_path, capsys):
    out = tmp_path / "run"
    words = ["sweep", "--stacked", "-n", "3", "--iterations", "60", "--lr", "0.01..1e30"]
    words += ["--points", "3", "--algorithms", "gt,dsgd:order=atc", "--out", str(out)]
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert "best stepsize" in shown
    sweep = json.loads((out / "sweep.json").read_text())
    assert sweep.pop("schema") == 1
    assert list(sweep) == ["gt", "dsgd:order=atc"]
    for of in sweep.values():
        assert of["lr"] == [0.01, 1e14, 1e30]
        best = int(np.nanargmin(np.array(of["gap"], dtype=float)))
        assert of["best_gap"] == {"gap": of["gap"][best], "lr": of["lr"][best]}
    assert (out / "sweep.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "words",
    [
        ["sweep", "--lr", "1..0"],
        ["sweep", "--algorithms", "dsgd:lr=0.1"],
        ["sweep", "--points", "1"],
        ["sweep", "--lr", "1e-300..1e300"],
        ["compare", "--lr", "0.1..1"],
    ],
    ids=" ".join,
)
def test_bad_sweep(words, capsys, tmp_path):
    assert main([*words, "--stacked", "-n", "3", "--out", str(tmp_path / "run")]) == 2
    assert capsys.readouterr().err.count("mpi-gt: error:") == 1
