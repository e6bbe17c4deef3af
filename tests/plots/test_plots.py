"""Names in figures, and figures that cannot be drawn."""

import json

import pytest

import mpi_gt
from mpi_gt.algorithms.gt import GradientTracking
from mpi_gt.config import RunConfig
from mpi_gt.errors import StorageError, UserError
from mpi_gt.plots import plain, try_to_draw

NAMES = (
    r"$\frac$",
    "$",
    r"\$x",
    "50%",
    "_hidden",
    "\N{GRINNING FACE}\N{CJK UNIFIED IDEOGRAPH-6F22}",
)


class Named(GradientTracking):
    def __init__(self, text: str = "") -> None:
        super().__init__()


@pytest.mark.figures
def test_any_name_can_be_drawn(tmp_path, monkeypatch, recwarn):
    monkeypatch.setattr("mpi_gt.user_classes._load", lambda *rest: Named)
    algorithms = ",".join(f"my:Named:text={name}" for name in (*NAMES, "x" * 450))
    facts = mpi_gt.run(
        stacked=True, n=2, iterations=3, algorithms=algorithms, out=str(tmp_path / "run")
    ).facts
    assert facts["figures"] == ["comparison.png"]
    assert facts["warnings"] == []
    assert not recwarn.list


def test_plain_text():
    assert plain("a\tb\n c") == "a b c"
    assert plain(r"$\frac$") == r"\$\frac\$"
    assert plain("x\udcff") == "x?"
    assert plain("x" * 5000).replace("\n", "") == "x" * 5000  # nothing is cut
    assert max(map(len, plain("x" * 5000).splitlines())) < 100


@pytest.mark.parametrize("text", ["a\nb", "x" * 70_000, "\udcff", "\x1b[31m"])
def test_names_that_cannot_be_shown_are_refused(text):
    with pytest.raises(UserError, match="a specification"):
        RunConfig.of({"algorithms": f"gt:lr={text},gt:lr=1"})


@pytest.mark.figures
def test_a_figure_that_fails_costs_no_result(tmp_path, monkeypatch, capsys):
    def fail(*rest, **options):
        raise RuntimeError("no ink")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", fail)
    out = tmp_path / "run"
    facts = mpi_gt.run(stacked=True, n=2, iterations=3, quiet=True, out=str(out)).facts
    assert facts["status"] == "finished"
    assert (out / "final.npz").exists()
    warning = "no figure could be drawn: RuntimeError: no ink"
    assert json.loads((out / "run.json").read_text())["warnings"] == [warning]
    assert capsys.readouterr().err.count(warning) == 1


def test_a_figure_on_a_full_disk():
    def fail():
        raise StorageError("cannot write a.png: No space left on device")

    assert try_to_draw(fail) == ([], "no figure: cannot write a.png: No space left on device")
