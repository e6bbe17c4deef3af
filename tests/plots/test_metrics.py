"""The figures of a run."""

import pytest

import mpi_gt
from mpi_gt.display.results import names_of, show
from mpi_gt.plots.metrics import draw_run
from mpi_gt.rundir.metrics_csv import COLUMNS


def stacked(**options):
    return mpi_gt.run(**{"stacked": True, "n": 5, "iterations": 50, **options})


@pytest.mark.figures
def test_figures_of_a_run_that_grew_past_what_can_be_drawn(tmp_path):
    grown = [1.0, 1e100, 1e249, 1e298, 1.7e308]
    lines = [
        f"dsgd,{seed},{t},{z},{z},0,{z},,,0,0,0" for t, z in enumerate(grown) for seed in (0, 1)
    ]
    (tmp_path / "metrics.csv").write_text("\n".join([",".join(COLUMNS), *lines]) + "\n")
    for path in draw_run(tmp_path, {"dsgd": "DSGD"}):
        assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.figures
def test_figures_are_pictures(tmp_path):
    stacked(seeds=3, out=str(tmp_path / "run"))
    for name in ("loss.png", "gap.png"):
        assert (tmp_path / "run" / name).read_bytes().startswith(b"\x89PNG")


def test_legends_and_tables_of_runs_state_the_stepsizes(tmp_path, capsys):
    methods = "gt,dsgd:lr=0.2,dsgd:order=atc,lr=0.3"
    result = stacked(n=3, iterations=2, algorithms=methods, out=str(tmp_path / "run"))
    names = [
        "distributed GT (gt, lr 0.01)",  # the default
        "DSGD (dsgd, lr 0.2)",
        "DSGD (dsgd, order atc, lr 0.3)",
    ]
    assert list(names_of(result.facts).values()) == names
    show(result.facts)
    printed = capsys.readouterr().out
    for name in names:
        for part in name.split(" (", 1):
            assert part in printed
