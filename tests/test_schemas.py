"""Every JSON file and text of the program has a schema, and one of a later version is refused."""

import ast
import json
from pathlib import Path

import pytest
from resuming import run, stopped
from support import json_files

import mpi_gt
from mpi_gt.cli.main import main
from mpi_gt.errors import UserError
from mpi_gt.files import SCHEMAS, kind_of, read_json
from mpi_gt.rundir.atomic import write_json
from mpi_gt.rundir.run_json import read_facts

STACKED = ["--stacked", "-n", "3", "--iterations", "20", "--quiet", "--no-figures"]
PACKAGE = Path(mpi_gt.__file__).parent


def test_all_files_of_runs_have_a_schema(tmp_path):
    """Files of bench, profile, scale and reproduce: in their own tests, after real runs."""
    audited = ["--problem", "huber", "--algorithm", "gt-adaptive:vmin=1,vmax=1", "--audit"]
    assert main(["run", *STACKED, *audited, "--out", str(tmp_path / "run")]) == 0
    methods = ["--algorithms", "gt,dsgd"]
    assert main(["compare", *STACKED, *methods, "--out", str(tmp_path / "compare")]) == 0
    swept = [*methods, "--lr", "0.01..0.1", "--out", str(tmp_path / "sweep")]
    assert main(["sweep", *STACKED, *swept]) == 0
    grid = [*methods, "--over", "seed=1,2", "--out", str(tmp_path / "grid")]
    assert main(["sweep", *STACKED, *grid]) == 0
    model = ["--latency", "1us", "--bandwidth", "1GB/s", "--compute", "1us", "--quiet"]
    assert main(["predict", "-n", "4", *model, "--out", str(tmp_path / "prediction")]) == 0
    names = {path.name: set(json_files(path)) for path in tmp_path.iterdir()}
    assert names == {
        "run": {"run.json", "audit.json"},
        "compare": {"run.json", "summary.json"},
        "sweep": {"run.json", "summary.json", "sweep.json"},
        "grid": {"run.json"},
        "prediction": {"prediction.json"},
    }
    assert len(list((tmp_path / "grid").rglob("run.json"))) == 1 + 4


def test_a_run_that_is_under_way_or_has_failed_has_a_schema_as_well(tmp_path, monkeypatch):
    stopped(monkeypatch, tmp_path / "stopped")
    run(tmp_path / "diverged", "--algorithm", "gt:lr=1e308", expect=3)
    assert set(json_files(tmp_path)) == {"run.json"}


@pytest.mark.parametrize(
    "words",
    [
        ["graph", "ring", "-n", "8"],
        ["describe"],
        ["describe", "graph"],
        ["describe", "problem", "huber"],
        ["theory", "--algorithm", "gt-adaptive:vmin=1,vmax=1", "-n", "3"],
        ["predict", "-n", "4", "--latency", "1us", "--bandwidth", "1GB/s", "--compute", "1us"],
    ],
)
def test_printed_json_has_a_schema(words, capsys):
    assert main([*words, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert next(iter(printed.items())) == ("schema", 1)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("run.json", ["status", "DIR"]),
        ("run.json", ["watch", "--once", "DIR"]),
        ("run.json", ["resume", "DIR"]),
        ("profile.json", ["predict", "-n", "4", "--latency", "1us", "--bandwidth", "1GB/s",
                          "--profile", "DIR"]),
        ("bench.json", ["predict", "-n", "4", "--bench", "DIR"]),
    ],
)  # fmt: skip
def test_a_later_schema_is_refused_in_one_message(name, words, tmp_path, capsys):
    out = tmp_path / "run"
    run(out)
    later = SCHEMAS[kind_of(Path(name))] + 1
    (out / name).write_text(json.dumps({"schema": later, "fits": [], "config": {}}))
    before = (out / name).read_bytes()
    capsys.readouterr()
    assert main([str(out) if word == "DIR" else word for word in words]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == (
        f"mpi-gt: error: {out / name} has schema {later} and is of a later version of mpi-gt: "
        f"this one reads schemas up to {later - 1}\n"
    )
    assert (out / name).read_bytes() == before


def test_tables_and_pages_refuse_a_later_schema(tmp_path):
    out = tmp_path / "run"
    run(out)
    (out / "run.json").write_text(json.dumps({"schema": 2}))
    with pytest.raises(UserError, match="later version"):
        mpi_gt.load(out)
    page = out / "page.html"
    assert main(["report", str(out), "--out", str(page)]) == 0
    assert "has schema 2 and is of a later version" in page.read_text()


def test_files_of_versions_that_wrote_no_schema_are_read(tmp_path, capsys):
    out = tmp_path / "run"
    run(out, "--seeds", "2")
    facts = json.loads((out / "run.json").read_text())
    del facts["schema"]
    (out / "run.json").write_text(json.dumps(facts))
    assert read_facts(out)["config"] == facts["config"]
    assert main(["status", str(out)]) == 0
    assert len(mpi_gt.load(out).config) == 1


@pytest.mark.parametrize("number", [0, -1, 1.0, True, "1", None, [1]])
def test_a_schema_that_is_no_whole_number_is_damage(number, tmp_path):
    (tmp_path / "run.json").write_text(json.dumps({"schema": number}))
    with pytest.raises(UserError, match=r"run\.json is damaged: its schema must be"):
        read_json(tmp_path / "run.json")


def test_a_file_is_written_with_the_present_schema_whatever_was_read(tmp_path):
    write_json(tmp_path / "bench.json", {"rows": [], "schema": 77})
    assert json.loads((tmp_path / "bench.json").read_text()) == {"schema": 1, "rows": []}
    assert read_json(tmp_path / "bench.json") == {"rows": []}
    with pytest.raises(KeyError, match="no schema"):
        write_json(tmp_path / "novel.json", {})


def test_no_module_prints_or_writes_json_past_the_schemas():
    """Others that call json.dumps: a hash, a check, a part of a file that is written in pieces."""
    allowed = {
        "files.py": 2,  # the text of all files, and values in messages
        "rundir/checkpoint.py": 1,  # the header of a binary file, which has a version of its own
        "rundir/checkpoint_files.py": 1,  # the index of one
        "rundir/lock.py": 1,
        "rundir/remains.py": 2,
        "launchers/relay.py": 1,  # a text between two processes
        "engine/user_code/checks.py": 1,
        "engine/identity.py": 2,
        "report/page.py": 1,
        "report/sections.py": 1,
        "report/live.py": 1,  # to the page, from the version that made it
        "performance/trace.py": 2,
        "performance/c_floor.py": 1,
        "datasets/digests.py": 2,
        "datasets/store.py": 1,  # sizes.json, which only versions before the schemas read
    }
    found = {}
    for path in PACKAGE.rglob("*.py"):
        calls = [
            node
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.Attribute)
            and node.attr in ("dump", "dumps")
            and isinstance(node.value, ast.Name)
            and node.value.id == "json"
        ]
        if calls:
            found[path.relative_to(PACKAGE).as_posix()] = len(calls)
    assert found == allowed
