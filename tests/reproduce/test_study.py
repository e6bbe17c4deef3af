"""The paper's experiments at small sizes."""

import csv
import json
import os
import signal
import time

import numpy as np
import pytest
from support import FIGURES, finish, json_files, start

from mpi_gt.cli.main import main
from mpi_gt.config import to_arguments
from mpi_gt.reproduce.study import EXPERIMENTS, make_study
from mpi_gt.rundir.lock import claim
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
    assert {"run.json", "summary.json", "claims.json"} <= set(json_files(small))
    rows = table(small / "metrics.csv")
    assert len(rows) == 7 * 3 * 21
    assert list(dict.fromkeys(row["algorithm"] for row in rows)) == HUBER
    claims = json.loads((small / "claims.json").read_text())["claims"]
    assert len(claims) == 6
    for each in claims:
        assert each["verdict"] in ("holds", "does not hold", "not decided")
        low, high = each["interval"]
        assert low <= each["estimate"] <= high
    text = (small / "summary.md").read_text()
    for each in claims:
        assert f"| {each['claim']} | **{each['verdict']}** | {each['measure']}: " in text
    assert "Algorithm 1 minus " in claims[0]["measure"]
    assert "| DSGD (dsgd) |" in text
    assert "The paper makes no claim about GTAdam." in text
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
    assert "GTAdam (gtadam): done" in shown.err
    assert "GTAdam (gtadam): done" in (folder / "progress.log").read_text()


@pytest.mark.parametrize(
    "words",
    [
        ["hubber"],
        ["huber", "--variant", "label-sorted"],
        ["mnist", "--variant", "heterogeneous"],
        ["huber", "--iterations", "0"],
        ["huber", "--nothing"],
        ["huber", "--stacked", "--x1", "missing.npy"],  # found while the first run is built
        ["huber", "--stacked", "--problem", "huber:threshold=0"],
        [],
    ],
    ids=" ".join,
)
def test_bad_input(words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", *words]) == 2
    assert capsys.readouterr().err.count("mpi-gt: error:") == 1
    assert not list(tmp_path.iterdir())


def test_bad_input_on_ranks_leaves_nothing(openmpi, call, tmp_path):
    words = ["reproduce", "huber", "--problem", "huber:threshold=0"]
    done = call(openmpi.mpi_gt(*words, "-n", "2"), cwd=tmp_path, expect=2)
    assert done.err.count("mpi-gt: error:") == 1
    call(openmpi.mpirun(2, str(openmpi.bin / "mpi-gt"), *words), cwd=tmp_path, expect=2)
    assert not list(tmp_path.iterdir())


def test_under_both_launchers(openmpi, call, tmp_path):
    words = ["reproduce", "huber", "-n", "3", "--iterations", "20", "--seeds", "2"]
    words += ["--algorithms", "gt-adaptive,dsgd"]
    call(openmpi.mpi_gt(*words, "--out", tmp_path / "child"))
    call(openmpi.mpirun(3, str(openmpi.bin / "mpi-gt"), *words, "--out", str(tmp_path / "ranks")))
    for name in ("gt-adaptive", "dsgd"):
        outputs = [tmp_path / way / name / "final.npz" for way in ("child", "ranks")]
        assert outputs[0].read_bytes() == outputs[1].read_bytes()
    verdicts = [
        json.loads((tmp_path / w / "claims.json").read_text())["claims"] for w in ("child", "ranks")
    ]
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
    with claim(tmp_path):
        assert main(["reproduce", "huber", *SMALL, "--out", str(tmp_path)]) == 2
    assert "is in use by process" in capsys.readouterr().err


@pytest.mark.figures
def test_a_method_that_diverges_is_reported_beside_the_others(tmp_path):
    words = ["reproduce", "huber", *SMALL, "--algorithms", "gt-adaptive:lr=1e308,dsgd"]
    for _ in range(2):  # the second call finds all of it done
        assert main([*words, "--out", str(tmp_path)]) == 3
    text = (tmp_path / "summary.md").read_text()
    assert "| Algorithm 1 (gt-adaptive) | 1e308 |  | diverged" in text
    assert "GTAdam" not in text
    assert "changed: " in text
    claims = json.loads((tmp_path / "claims.json").read_text())["claims"]
    assert {claim["verdict"] for claim in claims} == {"not decided"}
    assert (tmp_path / "figure.png").exists()


@pytest.mark.figures
def test_the_variant_at_an_equal_budget(tmp_path, capsys):
    words = ["reproduce", "a9a", "--variant", "variance-reduced", "--stacked", "-n", "4"]
    words += ["--problem", "softmax:rows=400", "--budget", "gradients=3000", "--out", str(tmp_path)]
    assert main([*words, "--seeds", "2"]) == 0
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert "budget gradients=3000" in summary["note"]
    methods = summary["methods"]
    assert list(methods) == ["gt-adaptive", "gt-adaptive-vr", "gt-sarah", "gt-svrg", "gt-hsgd"]
    for row in methods.values():
        assert 3000 <= row["gradients"] < 3100
    assert methods["gt-adaptive"]["iterations"] == 93
    page = (tmp_path / "summary.md").read_text()
    assert "the floor of Algorithm 1 is removed" in page
    assert "| 93 |" in page
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    log = (tmp_path / "progress.log").read_text()
    assert "GT-SVRG (gt-svrg): done" in log
    assert (
        main([*words[:-4], "--budget", "gradients=9", "--out", str(tmp_path), "--seeds", "2"]) == 2
    )
    assert "budget = gradients=3000" in capsys.readouterr().err
