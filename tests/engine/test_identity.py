"""The identity of a run: its dataset belongs to it, and runs of former versions can be resumed."""

import hashlib
import json

import numpy as np
import pytest
from resuming import assert_same

from mpi_gt.cli.main import main
from mpi_gt.datasets import DATASETS, Prepared
from mpi_gt.datasets.catalog import Dataset, RawFile
from mpi_gt.rundir.checkpoint import part_path, read_part, write_part

CONTENT = bytes(range(256)) * 10


def parse(raw):
    x = np.frombuffer(raw["toy"], np.uint8).reshape(-1, 10)
    y = np.arange(len(x)).astype(np.uint8) % 3
    return {"train": (x[:200], y[:200]), "test": (x[200:], y[200:])}


@pytest.fixture
def words(tmp_path, monkeypatch):
    """The beginning of a command on a dataset of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file = RawFile("toy", hashlib.sha256(CONTENT).hexdigest(), ("http://127.0.0.1:9/toy",))
    toy = Dataset("toy", "a toy", 200, 10, 3, (file,), parse, 1 / 255)
    monkeypatch.setitem(DATASETS, "toy", toy)
    (tmp_path / "raw" / "toy").mkdir(parents=True)
    (tmp_path / "raw" / "toy" / "toy").write_bytes(CONTENT)
    return ["run", "--stacked", "-n", "3", "--problem", "softmax:dataset=toy", "--log-every", "5",
            "--data-dir", str(tmp_path / "raw"), "--quiet"]  # fmt: skip


def facts_of(out):
    return json.loads((out / "run.json").read_text())


def test_the_dataset_is_part_of_the_identity(words, tmp_path, capsys):
    out = tmp_path / "run"
    assert main([*words, "--iterations", "20", "--checkpoint-every", "10", "--out", str(out)]) == 0
    facts = facts_of(out)
    digest = Prepared.of(DATASETS["toy"]).sha256()
    assert facts["problem"]["data_sha256"] == facts["identity"]["data"] == digest
    facts["identity"]["data"] = "another"
    (out / "run.json").write_text(json.dumps(facts))
    assert main(["resume", str(out), "--iterations", "40", "--quiet"]) == 2
    assert "its data was another, now it is " in capsys.readouterr().err


def test_a_run_of_a_former_version_is_resumed(words, tmp_path):
    out, whole = tmp_path / "run", tmp_path / "whole"
    assert main([*words, "--iterations", "20", "--checkpoint-every", "10", "--out", str(out)]) == 0
    assert main([*words, "--iterations", "40", "--out", str(whole)]) == 0
    facts = facts_of(out)
    del facts["identity"]["data"], facts["problem"]["data_sha256"]
    (out / "run.json").write_text(json.dumps(facts))
    former = hashlib.sha256(json.dumps(facts["identity"], sort_keys=True).encode()).hexdigest()
    for slot in (0, 1):
        path = part_path(out, slot, 0)
        part = read_part(path)
        header = {**part.header, "identity": former}
        header.pop("fields")
        state = type("State", (tuple,), {"_fields": tuple(part.arrays)})(part.arrays.values())
        write_part(path, header, state)
    for iterations in ("30", "40"):  # the second time, it is a run that was resumed
        assert main(["resume", str(out), "--iterations", iterations, "--quiet"]) == 0
    assert_same(out, whole)
    facts = facts_of(out)
    assert [resumed["iteration"] for resumed in facts["resumes"]] == [20, 30]
    assert facts["warnings"] == []
    assert "data" not in facts["identity"]


def test_a_test_part_damaged_meanwhile_costs_the_test_accuracy_only(
    words, tmp_path, monkeypatch, capfd
):
    from mpi_gt.engine import loop

    solve = loop.solve

    def damage_and_solve(*rest, **options):
        (Prepared.of(DATASETS["toy"]).folder / "test-x.npy").write_bytes(b"")
        return solve(*rest, **options)

    monkeypatch.setattr(loop, "solve", damage_and_solve)
    assert main([*words, "--iterations", "20", "--out", str(tmp_path / "run")]) == 0
    assert "no test accuracy" in capfd.readouterr().err
    facts = facts_of(tmp_path / "run")
    assert facts["status"] == "finished"
    assert "test_accuracy" not in facts
