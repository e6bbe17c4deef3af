"""Each method at its own best stepsize: the search, and the second verdict of each claim."""

import json

import pytest

from mpi_gt.algorithms.stepsizes import with_stepsize, without_stepsize
from mpi_gt.cli.main import main
from mpi_gt.errors import UserError
from mpi_gt.reproduce.claims import Field, judge_all
from mpi_gt.reproduce.study import make_study, tuned_study
from mpi_gt.reproduce.tuning import (
    CRITERIA,
    GRID,
    LEAST,
    Tuning,
    best_of,
    missing_points,
    stepsizes,
)

SMALL = [
    *("reproduce", "huber", "--tuned", "--stacked", "-n", "4", "--iterations", "60"),
    *("--log-every", "2", "--seeds", "3", "--quiet", "--algorithms", "gt-adaptive,dsgd:lr=0.1"),
]
FIRST = stepsizes(GRID, None)


def scores(**values):
    """Return the scores of the method m: value by stepsize, the same for both criteria."""
    return {"m": {float(lr): {"loss": v, "gap": v} for lr, v in values["m"].items()}}


@pytest.mark.parametrize(
    ("spec", "bare", "set_again"),
    [
        ("gt", "gt", "gt:lr=0.5"),
        ("gt:lr=0.1", "gt", "gt:lr=0.5"),
        ("gt:order=atc, lr=0.1", "gt:order=atc", "gt:lr=0.5,order=atc"),
        ("my.module:Mine", "my.module:Mine", "my.module:Mine:lr=0.5"),
        ("folder/my.py:Mine:lr=1,k=2", "folder/my.py:Mine:k=2", "folder/my.py:Mine:lr=0.5,k=2"),
        ("beer:lr=1,compress=m:C", "beer:compress=m:C", "beer:lr=0.5,compress=m:C"),
    ],
)
def test_the_stepsize_of_a_specification_is_replaced(spec, bare, set_again):
    assert without_stepsize(spec) == bare
    assert with_stepsize(bare, 0.5) == set_again


def test_the_search_begins_with_the_common_grid():
    assert missing_points({"m": {}}, {"m": "gt"}) == [("m", lr) for lr in FIRST]


@pytest.mark.parametrize(
    ("best", "wanted"),
    [
        (0.01, []),
        (FIRST[-1], [3.16, 10]),
        (FIRST[0], [1e-5, 3.16e-5]),
    ],
)
def test_an_optimum_at_the_edge_widens_the_grid(best, wanted):
    found = scores(m={lr: 0.0 if lr == best else 1.0 for lr in FIRST})
    assert missing_points(found, {"m": "gt"}) == [("m", lr) for lr in wanted]


def test_a_method_that_diverges_everywhere_gets_smaller_steps_but_not_for_ever():
    tried = dict.fromkeys(FIRST, None)
    while wanted := missing_points(scores(m=tried), {"m": "gt"}):
        assert max(lr for _, lr in wanted) < min(tried)
        tried |= {lr: None for _, lr in wanted}
    assert min(tried) == LEAST
    assert best_of(scores(m=tried)["m"], "loss") is None


def test_each_criterion_has_its_own_best_stepsize():
    own = {0.1: {"loss": 1.0, "gap": 3.0}, 0.2: {"loss": 2.0, "gap": 1.0}}
    assert (best_of(own, "loss"), best_of(own, "gap")) == (0.1, 0.2)


def rows_of(values):
    return [
        {"algorithm": label, "iteration": t, "seed": seed, "loss": v + seed / 100, "gap": v}
        for label, v in values.items()
        for t in (0, 10, 20)
        for seed in range(3)
    ]


def test_a_claim_is_judged_at_the_stepsizes_that_are_best_for_its_metric():
    labels = {
        "loss": {"gt-adaptive": "ours:lr=1", "dsgd": "theirs:lr=1"},
        "gap": {"gt-adaptive": "ours:lr=2", "dsgd": "theirs:lr=2"},
    }
    values = {"ours:lr=1": 1.0, "theirs:lr=1": 2.0, "ours:lr=2": 5.0, "theirs:lr=2": 4.0}
    steps = {label: label.partition("=")[2] for label in values}
    loss, gap = judge_all(rows_of(values), False, Field(labels, steps))[:2]
    assert loss["estimate"] == pytest.approx(-1.0)
    assert gap["estimate"] == pytest.approx(1.0)
    assert loss["measure"].endswith("Algorithm 1 minus DSGD (lr 1 and 1)")
    assert gap["verdict"] == "does not hold"
    assert loss["verdict"] == "not decided"  # gt and dsgd-momentum did not run
    assert loss["missing"] == ["gt", "dsgd-momentum"]


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    out = tmp_path_factory.mktemp("reproduce") / "huber"
    assert main([*SMALL, "--out", str(out)]) == 0
    return out


def read(path):
    return json.loads(path.read_text())


def test_every_claim_has_two_verdicts(small):
    claims = read(small / "claims.json")
    assert [c["claim"] for c in claims["claims"]] == [c["claim"] for c in claims["tuned"]]
    text = (small / "summary.md").read_text()
    assert "| at the stepsizes of the paper | measured | each at its best stepsize |" in text
    assert "on 3 other seeds (from 1000 on)" in text


def test_the_search_shares_no_seed_with_the_runs_that_judge(small):
    search = read(small / "tuning" / "round-1" / "run.json")["config"]
    final = [read(path)["config"] for path in (small / "tuned").glob("*/run.json")]
    assert final
    for config in final:
        assert config["seed"] + config["seeds"] <= search["seed"]
        assert (config["seed"], config["seeds"]) == (0, 3)


def test_the_chosen_stepsizes_are_the_best_of_the_search_and_within_its_grid(small):
    tuned = read(small / "summary.json")["tuned"]
    for metric, chosen in tuned["stepsizes"].items():
        assert set(chosen) == {"gt-adaptive", "dsgd"}
        for label, lr in chosen.items():
            tried = {point["lr"]: point[metric] for point in tuned["grid"][label]}
            assert tried[lr] == min(value for value in tried.values() if value is not None)
            assert min(tried) < lr < max(tried)
    text = (small / "summary.md").read_text()
    assert "| loss, at lr |" in text
    assert "| gap, at lr |" in text


def test_a_second_call_runs_nothing_and_gives_the_same_verdicts(small):
    files = [*small.rglob("run.json"), *small.rglob("final.npz")]
    before = {path: path.stat().st_mtime_ns for path in files}
    claims = (small / "claims.json").read_bytes()
    assert main([*SMALL, "--out", str(small)]) == 0
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert (small / "claims.json").read_bytes() == claims


@pytest.mark.parametrize(
    ("experiment", "variant", "message"),
    [
        ("mnist-mlp", "literal", "has tuned stepsizes already"),
        ("huber", "networks", "the variant networks is not about them"),
        ("a9a", "compressed", "the variant compressed is not about them"),
    ],
)
def test_tuning_is_refused_where_it_has_no_meaning(experiment, variant, message):
    with pytest.raises(UserError, match=message):
        make_study(experiment, variant, False, {}, None, tuned=True)


def test_a_method_may_run_twice_with_other_options(monkeypatch):
    methods = {"algorithms": "gt,dsgd:lr=0.1,dsgd:lr=0.2,order=atc"}
    study = make_study("huber", "literal", False, methods, None, tuned=True)
    best = {metric: dict.fromkeys(study.runs, 0.5) for metric in CRITERIA}
    monkeypatch.setattr(Tuning, "best", lambda self: best)
    tuned, labels = tuned_study(study)
    assert list(tuned.runs) == ["gt:lr=0.5", "dsgd:lr=0.5", "dsgd:lr=0.5,order=atc"]
    assert [config.algorithm for config in tuned.runs.values()] == list(tuned.runs)
    assert list(labels["gap"].values()) == list(tuned.runs)


def test_methods_that_differ_in_their_stepsize_only_are_refused():
    methods = {"algorithms": "gt:lr=0.01,gt:lr=0.02"}
    with pytest.raises(UserError, match="differ in theirs only"):
        make_study("huber", "literal", False, methods, None, tuned=True)


@pytest.mark.parametrize("summary", [[], 3, "text"])
def test_a_damaged_summary_of_the_search_is_refused(tmp_path, summary, capsys):
    words = [*SMALL, "--out", str(tmp_path / "study")]
    file = tmp_path / "study" / "tuning" / "round-1" / "run.json"
    assert main(words) == 0
    file.write_text(json.dumps({**json.loads(file.read_text()), "summary": summary}))
    assert main(words) == 2
    assert "round-1/run.json is damaged" in capsys.readouterr().err
