"""Runs of methods with phases, stopped between them and resumed; and those of former versions."""

import csv
import json
from collections import namedtuple

import pytest
from algorithms.oracles import VARIANTS
from resuming import assert_same, resume, run, stopped, table

from mpi_gt.rundir.checkpoint import part_path, read_part, write_part
from mpi_gt.rundir.run_json import read_facts


@pytest.mark.parametrize("spec", VARIANTS)
@pytest.mark.parametrize("problem", ["huber", "softmax:rows=80,features=3,batch=4"])
def test_stopped_between_phases_and_resumed_is_the_same_run(tmp_path, monkeypatch, spec, problem):
    """The columns bytes and gradients go on as well."""
    words = ["--algorithm", spec, "--problem", problem]
    run(tmp_path / "reference", *words)
    out = tmp_path / "run"
    every = 1
    if "every=" in spec:
        every = int(spec.partition("every=")[2][0])
    stopped(monkeypatch, out, *words, at=19)
    at = read_facts(out)["stopped"]["iteration"]
    assert at == 19 + every  # stacked nodes know of it in the next exchange
    resume(out)
    assert read_facts(out)["resumes"][0]["iteration"] == at  # it did not start over
    assert_same(out, tmp_path / "reference")
    assert int(table(out)[-1]["gradients"]) > 60


def test_an_array_of_another_width_than_the_method_s_is_one_message(tmp_path, monkeypatch, capsys):
    out = tmp_path / "run"
    stopped(monkeypatch, out, "--algorithm", "push-diging")
    path = next(path for slot in range(2) if (path := part_path(out, slot, 0)).exists())
    part = read_part(path)
    header = {key: value for key, value in part.header.items() if key != "fields"}
    arrays = {**part.arrays, "w": part.arrays["x"]}
    write_part(path, header, namedtuple("State", arrays)(**arrays))
    resume(out, expect=1)
    assert "is not of this method: its w is" in capsys.readouterr().err


def as_a_former_version_wrote_it(out):
    """Take what counts gradients, and newer options, out of a stopped run."""
    rows = list(csv.reader((out / "metrics.csv").open(newline="")))
    place = rows[0].index("gradients")
    text = "".join(",".join(row[:place] + row[place + 1 :]) + "\n" for row in rows)
    (out / "metrics.csv").write_text(text)
    facts = json.loads((out / "run.json").read_text())
    import hashlib

    mark = {"length": len(text), "sha256": hashlib.sha256(text.encode()).hexdigest()}
    del facts["config"]["budget"], facts["identity"]["budget"]
    for parameters in facts["identity"]["algorithm"].values():
        for name in ("every", "beta3"):
            parameters.pop(name, None)
    (out / "run.json").write_text(json.dumps(facts))
    identity = json.dumps(facts["identity"], sort_keys=True).encode()
    for slot in range(2):
        path = part_path(out, slot, 0)
        if path.exists():
            part = read_part(path)
            header = {**part.header, "metrics": mark}
            header["identity"] = hashlib.sha256(identity).hexdigest()
            del header["gradients"], header["fields"]
            state = type("State", (tuple,), {"_fields": tuple(part.arrays)})(part.arrays.values())
            write_part(path, header, state)


@pytest.mark.parametrize("spec", ["gt-adaptive", "dsgd:lr=0.1", "d-amsgrad"])
def test_a_run_of_a_former_version_goes_on_with_the_columns_it_has(tmp_path, monkeypatch, spec):
    run(tmp_path / "reference", "--algorithm", spec)
    out = tmp_path / "run"
    stopped(monkeypatch, out, "--algorithm", spec)
    as_a_former_version_wrote_it(out)
    resume(out)
    assert "gradients" not in table(out)[0]
    expected = [
        {name: cell for name, cell in row.items() if name != "gradients"}
        for row in table(tmp_path / "reference")
    ]
    assert table(out) == expected
    final = (out / "final.npz").read_bytes()
    assert final == (tmp_path / "reference" / "final.npz").read_bytes()
    assert read_facts(out)["gradients"] == 61


def test_a_budget_is_kept_on_resume(tmp_path, monkeypatch, capsys):
    from mpi_gt.cli.main import main

    words = ["compare", "--stacked", "-n", "4", "--algorithms", "gt,gt-sarah:period=5,k-gt"]
    words += ["--budget", "gradients=90", "--quiet"]
    assert main([*words, "--out", str(tmp_path / "reference")]) == 0
    from resuming import stop_at

    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        stop_at(patch, 31)
        assert main([*words, "--out", str(out)]) == 85
    assert main([*words[:-3], "--budget", "gradients=91", "--out", str(out), "--resume"]) == 2
    assert "budget" in capsys.readouterr().err
    resume(out)
    assert_same(out, tmp_path / "reference")
    last = {row["algorithm"]: int(row["gradients"]) for row in table(out)}
    assert last == {"gt": 90, "gt-sarah": 90, "k-gt": 90}
