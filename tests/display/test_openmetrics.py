"""`mpi-gt status --openmetrics`: what Prometheus and the node exporter read."""

import re

import pytest
from resuming import run

from mpi_gt.cli.main import main
from mpi_gt.display.openmetrics import FAMILIES, openmetrics
from mpi_gt.rundir.run_state import Points, RunState

RUNNING = RunState(
    run="runs/a",
    status="running",
    note="",
    written=1.5e9,
    ranks=4,
    algorithms=("gt", "dsgd"),
    algorithm="gt",
    iteration=50,
    iterations=200,
    gap=1.25e-3,
    seconds=0.5,
    bytes_sent=2**60,
    iterations_per_second=100.0,
    seconds_left=3.5,
)
LINE = re.compile(
    r"# (TYPE [a-z_]+ (gauge|counter)|UNIT [a-z_]+ (seconds|bytes)|HELP [a-z_]+ [^\n\"]+|EOF)"
    r'|[a-z_]+\{[a-z]+="([^"\\\n]|\\["\\n])*"(,[a-z]+="([^"\\\n]|\\["\\n])*")*\} -?[0-9.e+-]+'
)


def parsed(text):
    """Return all samples as both parsers see them: that of OpenMetrics, and of the older format."""
    parser = pytest.importorskip("prometheus_client.openmetrics.parser")
    older = pytest.importorskip("prometheus_client.parser")
    found = [
        {
            (sample.name, *sample.labels.values()): sample.value
            for family in read(text)
            for sample in family.samples
        }
        for read in (
            parser.text_string_to_metric_families,
            older.text_string_to_metric_families,
        )
    ]
    assert found[0] == found[1]
    return found[0]


def test_the_text_has_all_metrics_of_a_running_job():
    text = openmetrics([RUNNING]) + "\n"
    assert text.endswith("\n# EOF\n")
    for line in text.splitlines():
        assert LINE.fullmatch(line), line
    for family in FAMILIES:
        assert text.count(f"# TYPE {family.name} ") == text.count(f"# HELP {family.name} ") == 1
        assert not family.unit or family.name.endswith(f"_{family.unit}")
    samples = parsed(text)
    assert samples.pop(("mpi_gt_state", "runs/a", "running")) == 1
    others = [samples.pop(key) for key in list(samples) if key[0] == "mpi_gt_state"]
    assert others == [0, 0, 0, 0]
    assert samples == {
        ("mpi_gt_ranks", "runs/a"): 4,
        ("mpi_gt_last_write_timestamp_seconds", "runs/a"): 1.5e9,
        ("mpi_gt_left_seconds", "runs/a"): 3.5,
        ("mpi_gt_iteration", "runs/a", "gt"): 50,
        ("mpi_gt_iterations", "runs/a", "gt"): 200,
        ("mpi_gt_gap", "runs/a", "gt"): 1.25e-3,
        ("mpi_gt_iterations_per_second", "runs/a", "gt"): 100,
        ("mpi_gt_iterating_seconds_total", "runs/a", "gt"): 0.5,
        ("mpi_gt_sent_bytes_total", "runs/a", "gt"): 2**60,
    }


def test_names_with_quotes_backslashes_and_line_ends_are_escaped():
    for name in ('a"b', "a\\nb", "a\nb", "a\\", "ü{},=#", "a\udcffb"):
        text = openmetrics([RunState(name, "failed", "")]) + "\n"
        assert all(LINE.fullmatch(line) for line in text.split("\n")[:-1]), name
        assert parsed(text)["mpi_gt_state", name.replace("\udcff", "?"), "failed"] == 1


def test_a_run_without_a_measurement_has_a_state_only():
    samples = parsed(openmetrics([RunState("a", "stale", "")]) + "\n")
    assert {key[0] for key in samples} == {"mpi_gt_state"}
    assert sum(samples.values()) == 1


def test_a_sweep_counts_its_points():
    text = openmetrics([RUNNING, RunState("b", "running", "", points=Points(3, 1, 9))]) + "\n"
    samples = parsed(text)
    assert [samples["mpi_gt_sweep_points", "b", name] for name in ("done", "failed", "all")] == [
        3, 1, 9,
    ]  # fmt: skip
    assert ("mpi_gt_iteration", "runs/a", "gt") in samples


def test_the_command_prints_it(tmp_path, capsys):
    run(tmp_path / "a")
    run(tmp_path / "b", "--algorithm", "gt:lr=1e308", expect=3)
    capsys.readouterr()
    names = [str(tmp_path / name) for name in ("a", "b", "a")]  # one of them twice
    assert main(["status", "--openmetrics", *names]) == 0
    samples = parsed(capsys.readouterr().out)
    assert samples["mpi_gt_state", names[0], "finished"] == 1
    assert samples["mpi_gt_iteration", names[0], "gt-adaptive"] == 60
    assert samples["mpi_gt_state", names[1], "failed"] == 1
    assert main(["status", "--openmetrics", "--json", names[0]]) == 2
