"""The page of results: which studies it has, and its tables of verdicts."""

import importlib.util
from pathlib import Path

import pytest

from mpi_gt.reproduce.markdown import claim_table
from mpi_gt.reproduce.study import EXPERIMENTS, make_study

SCRIPT = Path(__file__).parents[2] / "scripts" / "results.py"


@pytest.fixture(scope="module")
def results():
    spec = importlib.util.spec_from_file_location("results", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_studies_of_the_page_are_directories_of_reproduce(results):
    for name, options in results.STUDIES.items():
        variant = next((each for each in results.VARIANTS if name.endswith(f"-{each}")), "literal")
        experiment = name.removesuffix(f"-{variant}")
        assert experiment in EXPERIMENTS
        study = make_study(experiment, variant, False, {}, None, "--tuned" in options)
        assert study.directory.name == f"reproduce-{name}"


def claim(text, verdict):
    return {
        "claim": text, "verdict": verdict, "measure": "loss", "estimate": 1.0,
        "interval": [0.5, 1.5], "against": "dsgd", "why": "it is so",
    }  # fmt: skip


def test_verdicts_are_read_from_the_tables_that_reproduce_writes(results):
    claims = [claim("first", "holds"), claim("second", "not decided")]
    tuned = [claim("first", "does not hold"), claim("second", "holds")]
    table = "\n".join(claim_table(claims, "claim of the paper", tuned))
    ours = "\n".join(claim_table(claims, "claim"))  # of a variant that the paper says nothing of
    once = "\n".join(claim_table(claims[:1], "claim of the paper"))
    page = f"### One\n\ntext\n\n{table}\n\n### Two\n\n{ours}\n\n### Three\n\n{once}\n"
    assert list(results.verdict_table(page))[2:] == [
        "| One | first | holds | does not hold |",
        "| One | second | not decided | holds |",
        "| Three | first | holds | not tuned |",
    ]
    assert list(results.short_table(page))[2:] == [
        "| One | 2 | 1 | 1 |",
        "| Three | 1 | 1 | not tuned |",
    ]


def test_only_what_is_between_the_markers_is_replaced(results, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n<a>\n\nold\n<b>\nafter\n")
    for _ in range(2):
        results.put_between(page, "<a>", "<b>", "new\n")
        assert page.read_text() == "before\n<a>\n\nnew\n\n<b>\nafter\n"
    with pytest.raises(SystemExit, match="lacks the lines"):
        results.put_between(page, "<c>", "<b>", "new\n")


def test_sections_keep_their_places(results):
    kept = "### One\n\na\n\n### Two\n\nb\n"
    assert results.replaced(kept, ["### One\n\nc"]) == "### One\n\nc\n\n### Two\n\nb\n"
    assert results.replaced(kept, ["### Three\n\nd"]).endswith("b\n\n### Three\n\nd\n")
