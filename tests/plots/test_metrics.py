"""The figures of a run."""

import pytest

import mpi_gt
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
    for path in draw_run(tmp_path):
        assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.figures
def test_figures_are_pictures(tmp_path):
    stacked(seeds=3, out=str(tmp_path / "run"))
    for name in ("loss.png", "gap.png"):
        assert (tmp_path / "run" / name).read_bytes().startswith(b"\x89PNG")
