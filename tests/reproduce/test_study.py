"""The paper's experiments at small sizes; claims and sweeps."""

import csv
import json
import os
import signal
import time

import numpy as np
import pytest
from support import FIGURES, finish, start

from mpi_gt.cli.main import main
from mpi_gt.config import stepsizes, to_arguments
from mpi_gt.errors import UserError
from mpi_gt.reproduce.claims import Measured, judge, judge_all, paired
from mpi_gt.reproduce.study import EXPERIMENTS, lock_directory, make_study
from mpi_gt.rundir.run_json import ranks_are_up

SMALL = [
    "--stacked",
    "-n",
    "4",
    "--iterations",
    "40",
    "--log-every",
    "2",
    "--seeds",
    "3",
    "--quiet",
]
HUBER = ["gt-adaptive", "dsgd", "gt", "dsgd-momentum", "d-amsgrad", "d-adabound", "gtadam"]


def test_the_paper_s_parameters():
    study = make_study("huber", "literal", False, {}, None)
    assert list(study.runs) == HUBER
    for config in study.runs.values():
        assert (config.n, config.iterations, config.seeds) == (16, 20000, 50)
        assert config.graph == "er:p=0.7,seed=0"
        entry = config.entries()[0]
        assert entry.algorithm.lr == 0.01
        adaptive = entry.label in ("d-amsgrad", "d-adabound")
        assert entry.algorithm.schedule == ("sqrt" if adaptive else "constant")
    first = study.runs["gt-adaptive"].entries()[0].algorithm
    assert (first.beta1, first.beta2, first.vmin, first.vmax) == (0.9, 0.999, 1e-8, 100)
    for name in ("a9a", "covertype", "mnist"):
        study = make_study(name, "literal", False, {}, None)
        rates = {label: c.entries()[0].algorithm.lr for label, c in study.runs.items()}
        assert rates == {"gt-adaptive": 0.001, "dsgd": 0.1, "gt": 0.1, "dsgd-momentum": 0.1}
        config = study.runs["gt"]
        assert (config.n, config.iterations, config.seeds) == (16, 2000, 10)
        assert "batch=32" in config.problem
        sorted_study = make_study(name, "label-sorted", False, {}, None)
        assert "split=label" in sorted_study.runs["gt"].problem
    varied = make_study("huber", "heterogeneous", False, {}, None).runs
    assert "spread=0.3" in varied["gt"].problem
    assert {label: c.entries()[0].algorithm.lr for label, c in varied.items()} == {
        label: 0.001 if label == "gt-adaptive" else 0.1 for label in HUBER
    }


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    out = tmp_path_factory.mktemp("reproduce") / "huber"
    assert main(["reproduce", "huber", *SMALL, "--out", str(out)]) == 0
    return out


def table(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_output(small):
    for name in ("figure.png", "figure.pdf", "summary.json", "summary.md", "claims.json"):
        assert (small / name).stat().st_size > 200
    rows = table(small / "metrics.csv")
    assert len(rows) == 7 * 3 * 21
    assert list(dict.fromkeys(row["algorithm"] for row in rows)) == HUBER
    claims = json.loads((small / "claims.json").read_text())
    assert len(claims) == 6
    for claim in claims:
        assert claim["verdict"] in ("holds", "does not hold", "not decided")
        low, high = claim["interval"]
        assert low <= claim["estimate"] <= high
    text = (small / "summary.md").read_text()
    for claim in claims:
        assert f"| {claim['claim']} | **{claim['verdict']}** |" in text
    summary = json.loads((small / "summary.json").read_text())
    gaps = [
        np.mean(
            [float(r["gap"]) for r in rows if r["algorithm"] == "gt" and r["seed"] == seed][-5:]
        )
        for seed in "012"
    ]
    cell = summary["methods"]["gt"]["gap"]
    assert cell["mean"] == pytest.approx(np.mean(gaps))
    assert (cell["min"], cell["max"]) == (pytest.approx(min(gaps)), pytest.approx(max(gaps)))


def test_finished_algorithms_are_not_run_again(small):
    before = {path: path.stat().st_mtime_ns for path in small.glob("*/final.npz")}
    assert len(before) == 7
    (small / "dsgd" / "run.json").unlink()  # as if it had been interrupted
    metrics = (small / "metrics.csv").read_text().splitlines()
    assert main(["reproduce", "huber", *SMALL, "--out", str(small)]) == 0
    again = {path.parent.name for path, at in before.items() if path.stat().st_mtime_ns != at}
    assert again == {"dsgd"}

    def without_seconds(lines):
        return [line.split(",")[:9] + line.split(",")[10:] for line in lines]

    fresh = (small / "metrics.csv").read_text().splitlines()
    assert without_seconds(fresh) == without_seconds(metrics)


def test_other_options_in_the_same_directory_are_refused(small, capsys):
    words = ["reproduce", "huber", *SMALL, "--out", str(small), "--seeds", "2"]
    assert main(words) == 2
    assert "seeds = 3, not 2" in capsys.readouterr().err
    assert main([*words, "--overwrite"]) == 0
    assert len(table(small / "metrics.csv")) == 7 * 2 * 21


def test_quick_says_so_everywhere(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["reproduce", "huber", "--quick", "--stacked", "-n", "3", "--iterations", "20"]
    assert main([*words, "--variant", "heterogeneous"]) == 0
    shown = capsys.readouterr()
    folder = tmp_path / "runs" / "reproduce-huber-heterogeneous-quick"
    assert "a quick look" in shown.out
    assert "a quick look" in (folder / "summary.md").read_text()
    assert "gtadam: done" in shown.err
    assert "gtadam: done" in (folder / "progress.log").read_text()


@pytest.mark.parametrize(
    "words",
    [
        ["hubber"],
        ["huber", "--variant", "label-sorted"],
        ["mnist", "--variant", "heterogeneous"],
        ["huber", "--iterations", "0"],
        ["huber", "--nothing"],
        [],
    ],
    ids=" ".join,
)
def test_bad_input(words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", *words]) == 2
    assert capsys.readouterr().err.count("mpi-gt: error:") == 1
    assert not list(tmp_path.iterdir())


def test_under_both_launchers(openmpi, call, tmp_path):
    words = ["reproduce", "huber", "-n", "3", "--iterations", "20", "--seeds", "2"]
    words += ["--algorithms", "gt-adaptive,dsgd"]
    call(openmpi.mpi_gt(*words, "--out", tmp_path / "child"))
    call(openmpi.mpirun(3, str(openmpi.bin / "mpi-gt"), *words, "--out", str(tmp_path / "ranks")))
    for name in ("gt-adaptive", "dsgd"):
        outputs = [tmp_path / way / name / "final.npz" for way in ("child", "ranks")]
        assert outputs[0].read_bytes() == outputs[1].read_bytes()
    verdicts = [json.loads((tmp_path / w / "claims.json").read_text()) for w in ("child", "ranks")]
    assert verdicts[0] == verdicts[1]


def test_an_interrupted_experiment_goes_on(openmpi, call, tmp_path):
    out = tmp_path / "run"
    words = [
        "reproduce",
        "huber",
        "-n",
        "3",
        "--iterations",
        "3000",
        "--log-every",
        "100",
        "--seeds",
        "5",
    ]
    words += ["--algorithms", "dsgd,gt", "--out", out]
    process = start(openmpi.mpi_gt(*words))
    begin = time.monotonic()
    while not ranks_are_up(out / "gt"):
        assert time.monotonic() - begin < 60
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGINT)
    assert finish(process, limit=30).code == 85
    done = (out / "dsgd" / "final.npz").stat().st_mtime_ns
    call(openmpi.mpi_gt(*words), env=FIGURES)
    assert (out / "dsgd" / "final.npz").stat().st_mtime_ns == done
    assert (out / "figure.png").exists()


def test_every_file_of_an_experiment_is_a_command():
    for name in EXPERIMENTS:
        for config in make_study(name, "literal", True, {}, None).runs.values():
            words = to_arguments(config)
            assert words[0] == "run"
            assert f"--problem={config.problem}" in words


# ---- claims


def test_paired_interval_by_hand():
    ours, theirs = np.array([1.0, 2, 3, 4]), np.array([0.0, 2, 2, 4])
    mean, (low, high) = paired(ours, theirs)
    # differences 1, 0, 1, 0: mean 0.5, sd 0.57735, t(3, 0.975) = 3.18245
    assert mean == 0.5
    assert high - low == pytest.approx(2 * 3.182446 * 0.577350 / 2, rel=1e-6)
    assert paired(ours[:1], theirs[:1]) == (1.0, None)


def test_verdicts():
    noise = np.array([0.0, 0.1, -0.1, 0.05, -0.05])

    def verdict(*offsets):
        values = {str(i): noise[::-1] + offset for i, offset in enumerate(offsets)}
        return judge("c", "m", lambda other: (noise, values[other]), values)

    assert verdict(1, 2).verdict == "holds"
    assert verdict(1, -1).verdict == "does not hold"
    assert verdict(1, 0).verdict == "not decided"
    assert verdict(1, 0).against == "1"
    assert verdict().verdict == "not decided"


def rows_of(curves):
    return [
        {"algorithm": name, "seed": seed, "iteration": t, "loss": f(t) + 1e-6 * seed, "gap": f(t)}
        for name, f in curves.items()
        for seed in range(3)
        for t in range(0, 101)
    ]


def test_claims_of_curves_that_satisfy_and_violate_them():
    as_claimed = {
        "gt-adaptive": lambda t: 1.0 * 0.9**t,
        "dsgd": lambda t: 1.0 * 0.5**t + 0.1,
        "gt": lambda t: 1.0 * 0.95**t + 0.1,
        "dsgd-momentum": lambda t: 1.0 * 0.5**t + 0.1,
        "d-amsgrad": lambda t: 1.0 * 0.97**t + 0.1,
        "d-adabound": lambda t: 1.0 * 0.97**t + 0.1,
    }
    claims = judge_all(rows_of(as_claimed), regression=True)
    assert [claim["verdict"] for claim in claims] == ["holds"] * 6
    reversed_roles = {**as_claimed, "gt-adaptive": lambda t: 1.0 * 0.99**t + 0.5}
    claims = judge_all(rows_of(reversed_roles), regression=True)
    verdicts = {claim["claim"]: claim["verdict"] for claim in claims}
    assert verdicts.pop("DSGD and Momentum DSGD are faster at the beginning") == "holds"
    assert set(verdicts.values()) == {"does not hold"}
    assert len(judge_all(rows_of(as_claimed), regression=False)) == 2


def test_gtadam_is_in_no_claim():
    curves = {name: lambda t: 2.0 for name in ("dsgd", "gt", "dsgd-momentum")}
    curves.update({"gt-adaptive": lambda t: 1.0, "gtadam": lambda t: 0.0})
    claims = judge_all(rows_of(curves), regression=False)
    assert [claim["verdict"] for claim in claims] == ["holds"] * 2
    assert Measured(rows_of(curves)).tail("dsgd", "gap").tolist() == [2.0] * 3


# ---- sweeps


def test_grid():
    assert stepsizes("1e-4..1", None) == [
        1e-4,
        0.000316,
        1e-3,
        0.00316,
        0.01,
        0.0316,
        0.1,
        0.316,
        1,
    ]
    assert stepsizes("0.1..10", 3) == [0.1, 1, 10]
    assert stepsizes("0.1", None) == [0.1]
    assert stepsizes("0.12345..1.2345", 3)[::2] == [0.12345, 1.2345]
    assert stepsizes("1e-200..1e200", 2) == [1e-200, 1e200]
    for bad in ("0..1", "1..0.1", "a..b", "", "1e-4..inf", "0.1..0.1"):
        with pytest.raises(UserError):
            stepsizes(bad, None)


@pytest.mark.figures
def test_sweep(tmp_path, capsys):
    out = tmp_path / "run"
    words = ["sweep", "--stacked", "-n", "3", "--iterations", "60", "--lr", "0.01..1e30"]
    words += ["--points", "3", "--algorithms", "gt,dsgd:order=atc", "--out", str(out)]
    assert main(words) == 0
    shown = capsys.readouterr().out
    assert "best stepsize" in shown
    sweep = json.loads((out / "sweep.json").read_text())
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
        ["compare", "--lr", "0.1..1"],
    ],
    ids=" ".join,
)
def test_bad_sweep(words, capsys, tmp_path):
    assert main([*words, "--stacked", "-n", "3", "--out", str(tmp_path / "run")]) == 2
    assert capsys.readouterr().err.count("mpi-gt: error:") == 1


# ---- what a review found


def test_overwrite_destroys_nothing_before_all_is_checked(small, tmp_path, capsys):
    before = sorted(path.name for path in small.iterdir())
    words = ["reproduce", "huber", *SMALL, "--overwrite", "--out", str(small)]
    assert main([*words, "--variant", "nothing"]) == 2
    assert main([*words, "--iterations", "0"]) == 2
    assert sorted(path.name for path in small.iterdir()) == before
    assert (small / "gt" / "final.npz").exists()


def test_a_folder_of_somebody_else_s_is_left_alone(tmp_path, capsys):
    (tmp_path / "run" / "gt").mkdir(parents=True)
    (tmp_path / "run" / "gt" / "thesis.tex").write_text("mine")
    words = ["reproduce", "huber", *SMALL, "--out", str(tmp_path / "run")]
    assert main(words) == 2
    assert "thesis.tex is in the way" in capsys.readouterr().err
    for bad in (["--out", ""], ["--out", str(tmp_path / "run" / "gt" / "thesis.tex")]):
        assert main(["reproduce", "huber", *SMALL, *bad]) == 2
        assert capsys.readouterr().err.count("mpi-gt: error:") == 1


def test_a_second_call_is_kept_out(tmp_path, capsys):
    with lock_directory(tmp_path):
        assert main(["reproduce", "huber", *SMALL, "--out", str(tmp_path)]) == 2
    assert "another call is at work" in capsys.readouterr().err


@pytest.mark.figures
def test_a_method_that_diverges_is_reported_beside_the_others(tmp_path):
    words = ["reproduce", "huber", *SMALL, "--algorithms", "gt-adaptive:lr=1e308,dsgd"]
    for _ in range(2):  # the second call finds all of it done
        assert main([*words, "--out", str(tmp_path)]) == 3
    text = (tmp_path / "summary.md").read_text()
    assert "| gt-adaptive | diverged" in text
    assert "changed: " in text
    claims = json.loads((tmp_path / "claims.json").read_text())
    assert {claim["verdict"] for claim in claims} == {"not decided"}
    assert (tmp_path / "figure.png").exists()


def test_a_claim_does_not_hold_on_part_of_the_field():
    curves = {"gt-adaptive": lambda t: 1.0, "dsgd": lambda t: 2.0}
    for claim in judge_all(rows_of(curves), regression=False):
        assert claim["verdict"] == "not decided"
        assert claim["missing"] == ["gt", "dsgd-momentum"]


def test_the_comparison_shown_is_the_one_that_decides():
    noise = np.array([-1.0, 1, -1, 1])
    values = {"noisy": -5 + 30 * noise, "sure": -1 + 0.01 * noise}
    found = judge("c", "m", lambda other: (np.zeros(4), values[other]), values)
    assert (found.verdict, found.against) == ("does not hold", "sure")
    assert found.interval[0] > 0
    values = {"noisy": 5 + 30 * noise, "sure": 1 + 0.01 * noise}
    found = judge("c", "m", lambda other: (np.zeros(4), values[other]), values)
    assert (found.verdict, found.against) == ("not decided", "noisy")


def test_help_has_no_defaults_that_are_not_its_own(capsys):
    with pytest.raises(SystemExit):
        main(["reproduce", "--help"])
    assert "default 2000" not in capsys.readouterr().out


def test_unknown_flags_of_every_command(capsys):
    for command in ("run", "compare", "sweep", "graph ring -n 3", "data list", "reproduce huber"):
        assert main([*command.split(), "--bogus"]) == 2
        assert "does not take '--bogus'" in capsys.readouterr().err
