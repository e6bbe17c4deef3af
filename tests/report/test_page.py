"""The page of `mpi-gt report`: from any subset of files, sound or not."""

import base64
import hashlib
import json
import re
import shutil
from pathlib import Path
from random import Random

import numpy as np
import pytest

import mpi_gt
from mpi_gt.cli.main import main
from mpi_gt.plots.performance import traffic_matrix
from mpi_gt.report.directories import read_directories
from mpi_gt.report.page import make_page
from mpi_gt.rundir.curves import read_curves

EVIL = "</script><img src=x onerror=alert(1)>"


def stacked(folder, **options):
    mpi_gt.run(stacked=True, n=3, iterations=10, out=str(folder), **options)
    return folder


def page_of(*folders, bundle="/* plotly */") -> str:
    return make_page(read_directories(folders), bundle)


def data_of(page) -> dict:
    (text,) = re.findall(r'id="data">(.*?)</script>', page, flags=re.DOTALL)
    return json.loads(text)


def text_of(page) -> str:
    return re.sub(r"<script.*?</script>|<style.*?</style>|<[^>]*>", " ", page, flags=re.DOTALL)


def test_a_channel_is_said_to_be_emulated(tmp_path):
    page = text_of(page_of(stacked(tmp_path / "a", channel="loss=0.3", algorithm="gt")))
    assert "loss=0.3 (emulated at the receivers" in page
    assert "the channel breaks mean s = mean g" in page
    assert "emulated" not in text_of(page_of(stacked(tmp_path / "b", channel="loss=0")))


def test_curves_are_the_numbers_of_metrics_csv(tmp_path):
    folder = stacked(tmp_path / "a", seeds=4, log_every=1)
    rows = read_curves(folder / "metrics.csv", "a")[0][0]
    assert rows.metrics["gap"].shape == (4, 11)
    data = data_of(page_of(folder))
    assert data["schema"] == 1
    (curve,) = data["curves"]
    told = curve["metrics"]["gap"]
    np.testing.assert_allclose(told["mean"], rows.metrics["gap"].mean(axis=0), rtol=1e-4)
    np.testing.assert_allclose(told["low"], rows.metrics["gap"].min(axis=0), rtol=1e-4)
    np.testing.assert_allclose(told["high"], rows.metrics["gap"].max(axis=0), rtol=1e-4)
    np.testing.assert_allclose(told["seeds"], rows.metrics["gap"], rtol=1e-4)
    assert curve["across"]["iteration"] == list(range(11))
    facts = json.loads((folder / "run.json").read_text())
    assert curve["across"]["bytes"][-1] == facts["bytes_sent"] / 4


def test_a_page_says_what_ran_and_how_it_ended(made):
    page = text_of(page_of(made / "compare", made / "profile", made / "bench"))
    for text in ("Open MPI", "gt-adaptive,dsgd", "30 iterations, 3 seeds", "finished", "rho_A"):
        assert text in page
    assert "ranks share" in page or "ranks per core" in page
    assert "rank 2:" in page  # the straggler
    assert "latency" in page
    figures = data_of(page_of(made / "profile"))["figures"]
    facts = json.loads((made / "profile" / "run.json").read_text())
    edges = figures["graph-0"]["data"][0]["x"].count(None)
    assert edges == facts["graph"]["edges"]
    matrix = np.array(figures["traffic-0"]["data"][0]["z"], dtype=float)
    profile = json.loads((made / "profile" / "profile.json").read_text())
    np.testing.assert_allclose(np.nan_to_num(matrix), traffic_matrix(profile)[0])
    assert np.nansum(matrix) * 30 == pytest.approx(sum(profile["bytes_by_rank"]))
    bars = sum(np.array(bar["y"]) for bar in figures["phases-0"]["data"])
    np.testing.assert_allclose(bars.mean(), profile["seconds_per_iteration"] * 1e6, rtol=1e-3)


def test_the_fit_is_drawn_as_fitted(made):
    bench = json.loads((made / "bench" / "bench.json").read_text())
    figures = data_of(page_of(made / "bench"))["figures"]
    lines = [trace for trace in figures["bench-0-0"]["data"] if trace["mode"] == "lines"]
    (fit,) = (f for f in bench["fits"] if (f["exchange"], f["graph"]) == ("neighbor", "ring"))
    bandwidth = fit["bandwidth"] or float("inf")
    seconds = fit["latency"] + 2 * (fit["per_message"] + 160e3 / bandwidth)
    assert lines[0]["y"][-1] == pytest.approx(seconds * 1e6, rel=1e-3)


def test_claims_and_audit_are_shown_with_their_verdicts(tmp_path):
    folder = stacked(tmp_path / "a")
    claim = {
        "claim": "it is the best", "verdict": "does not hold", "measure": "gap", "estimate": 0.5,
        "interval": [0.25, 0.75], "against": "dsgd",
        "bootstrap": [0.375, 0.75], "why": "its interval lies farthest above zero",
    }  # fmt: skip
    (folder / "claims.json").write_text(json.dumps({"schema": 1, "claims": [claim]}))
    one = {"left": 3.5, "right": None, "ratio": None, "verdict": "holds"}
    forms = {"paper": {**one, "verdict": "violated"}, "corrected": {**one, "applies": False}}
    audit = {"lemmas": {"3": forms}, "theorem": forms, "corollary": forms}
    (folder / "audit.json").write_text(json.dumps(audit))
    page = page_of(folder)
    assert 'class="badge" data-status="does-not-hold"' in page
    assert "0.5 [0.25, 0.75] by bootstrap [0.375, 0.75]" in text_of(page)
    assert "its interval lies farthest above zero" in text_of(page)
    for verdict in ("violated", "no-claim"):
        assert page.count(f'class="badge" data-status="{verdict}"') == 3


def test_the_curves_of_a_study_carry_their_stepsizes(tmp_path):
    folder = stacked(tmp_path / "a")
    (folder / "run.json").unlink()
    methods = {"gt-adaptive": {"algorithm": "gt-adaptive:lr=0.25,beta1=0.9"}}
    (folder / "summary.json").write_text(json.dumps({"schema": 1, "methods": methods}))
    (curve,) = data_of(page_of(folder))["curves"]
    assert curve["name"] == "Algorithm 1 (gt-adaptive, lr 0.25)"


@pytest.mark.parametrize(
    ("status", "shown"), [("failed", "its disk was full"), ("stopped", "mpi-gt resume")]
)
def test_a_run_that_did_not_finish_is_told_as_such(tmp_path, status, shown):
    folder = stacked(tmp_path / "a", checkpoint_every=5)
    facts = json.loads((folder / "run.json").read_text())
    facts.update(status=status, error="its disk was full", resumes=[{"at": "now"}])
    (folder / "run.json").write_text(json.dumps(facts))
    page = page_of(folder)
    assert f'class="badge" data-status="{status}"' in page
    assert shown in text_of(page)
    assert "resumed once" in text_of(page)


def test_divergence_is_told_of_the_one_that_diverged(tmp_path):
    with pytest.raises(mpi_gt.Diverged):
        stacked(tmp_path / "a", algorithms="gt-adaptive,gt:lr=1e200")
    page = page_of(tmp_path / "a")
    assert "distributed GT (gt, lr 1e+200) diverged:" in text_of(page)
    table = page.partition('id="summary"')[2].partition("</table>")[0]
    rows = r'<span><span>([^<]+)</span></span></div>.*?<span class="badge" data-status="(\w+)"'
    assert re.findall(rows, table) == [
        ("Algorithm 1 (gt-adaptive, lr 0.01)", "finished"),
        ("distributed GT (gt, lr 1e+200)", "diverged"),
    ]


def test_names_carry_the_stepsize_once(tmp_path):
    methods = "gt-adaptive,gt:lr=0.02,gt:order=atc,dsgd:lr=0.03,order=atc"
    folder = stacked(tmp_path / "a", algorithms=methods)
    names = [
        "Algorithm 1 (gt-adaptive, lr 0.01)",
        "distributed GT (gt, lr 0.02)",
        "distributed GT (gt, order atc, lr 0.01)",
        "DSGD (dsgd, lr 0.03)",
    ]
    assert [curve["name"] for curve in data_of(page_of(folder))["curves"]] == names
    facts = json.loads((folder / "run.json").read_text())
    del facts["options"]  # as of former versions
    (folder / "run.json").write_text(json.dumps(facts))
    page = page_of(folder)
    assert [curve["name"] for curve in data_of(page)["curves"]] == names
    (folder / "run.json").unlink()
    assert data_of(page_of(folder))["curves"][0]["name"] == "Algorithm 1 (gt-adaptive)"


def test_a_stacked_run_says_so(tmp_path, made):
    page = text_of(page_of(stacked(tmp_path / "a")))
    assert "none: stacked, all nodes in one process" in page
    assert "neighbor" not in page.partition("configuration")[0]
    assert "stacked, all nodes" not in text_of(page_of(made / "compare"))


def test_the_loss_is_shown_above_its_minimum_where_that_is_known(tmp_path):
    known = stacked(tmp_path / "a")
    unknown = stacked(tmp_path / "b", problem="huber:spread=0.5")
    shown = {
        name: list(data_of(page_of(*folders))["metrics"])
        for name, folders in {"known": [known], "not": [unknown], "both": [known, unknown]}.items()
    }
    assert shown["known"][:2] == ["gap", "suboptimality"]
    assert shown["known"][-1] == "loss"
    assert shown["not"][:2] == shown["both"][:2] == ["gap", "loss"]
    assert "suboptimality" not in shown["not"]
    assert shown["both"][-1] == "suboptimality"


def test_one_method_leaves_the_colours_to_the_directories(tmp_path):
    folders = [stacked(tmp_path / name) for name in "abc"]
    curves = data_of(page_of(*folders))["curves"]
    assert [(curve["method"], curve["directory"]) for curve in curves] == [(0, 0), (1, 1), (2, 2)]
    several = stacked(tmp_path / "d", algorithms="gt,gt-adaptive")
    curves = data_of(page_of(*folders, several))["curves"]
    assert [curve["method"] for curve in curves] == [0, 0, 0, 1, 0]
    assert [curve["directory"] for curve in curves] == [0, 1, 2, 3, 3]


def test_an_axis_that_no_curve_has_is_not_offered(tmp_path):
    folder = stacked(tmp_path / "a")
    order = re.findall(r'name="across" value="(\w+)"', page_of(folder))
    assert order == ["iteration", "gradients", "bytes", "seconds"]
    lines = (folder / "metrics.csv").read_text().splitlines()
    place = lines[0].split(",").index("gradients")  # former versions have no such column
    cells = [line.split(",") for line in lines]
    table = [",".join(row[:place] + row[place + 1 :]) for row in cells]
    (folder / "metrics.csv").write_text("\n".join(table) + "\n")
    assert 'name="across" value="gradients"' not in page_of(folder)


def test_the_policy_names_the_scripts(tmp_path):
    page = page_of(stacked(tmp_path / "a"), bundle="'</script>'; // naïve")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    scripts = re.findall(r"<script>(.*?)</script>", page, flags=re.DOTALL)
    assert len(scripts) == 2
    for script in scripts:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert "unsafe-inline" not in policy.partition("script-src")[2].partition(";")[0]
    assert "connect-src 'none'" in policy


def test_a_last_line_without_its_end_is_not_believed(tmp_path):
    """Its last number may lack digits."""
    folder = stacked(tmp_path / "a", log_every=1)
    text = (folder / "metrics.csv").read_text()
    (folder / "metrics.csv").write_text(text[:-2])  # not all of the last number
    curves, troubles = read_curves(folder / "metrics.csv", "a")
    assert curves[0].points == 10
    assert troubles == ["metrics.csv: skipped 1 line, incomplete or not numeric"]
    curves, troubles = read_curves(folder / "metrics.csv", "a", growing=True)
    assert (curves[0].points, troubles) == (10, [])


def test_torn_files_cost_only_themselves(tmp_path):
    folder = stacked(tmp_path / "a")
    table = (folder / "metrics.csv").read_text()
    (folder / "metrics.csv").write_text(table + "gt-adaptive,0,11,0.2")
    (folder / "profile.json").write_text('{"phases": {')
    (folder / "bench.json").write_text('{"rows": [{"graph": 1}], "fits": []}')
    (folder / "audit.json").write_text("[]")
    page = page_of(folder)
    assert len(data_of(page)["curves"][0]["across"]["iteration"]) == 11
    for text in ("skipped 1 line", "profile.json cannot", "bench.json is not", "audit.json is"):
        assert text in text_of(page)


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"config": [], "hosts": 3}', "\x00"])
def test_any_run_json_makes_a_page(tmp_path, content):
    folder = stacked(tmp_path / "a")
    (folder / "run.json").write_text(content)
    assert len(data_of(page_of(folder))["curves"]) == 1


@pytest.mark.parametrize("name", ["run.json", "metrics.csv", "bench.json"])
def test_one_file_is_enough(tmp_path, made, name):
    source = made / ("bench" if name == "bench.json" else "compare")
    (tmp_path / "a").mkdir()
    shutil.copy(source / name, tmp_path / "a")
    assert "<h3>a " in page_of(tmp_path / "a")


@pytest.mark.parametrize("text", ['{"claims": 5}', '{"foo": 5}', '{"claims": [], "tuned": [3]}'])
def test_damaged_claims_cost_only_themselves(made, tmp_path, text):
    folder = shutil.copytree(made / "compare", tmp_path / "run")
    (folder / "claims.json").write_text(text)
    assert "claims.json is damaged" in page_of(folder)


def test_whatever_is_damaged_there_is_a_page(made, tmp_path):
    """Files with values of other types, missing parts or a torn end, many times at random."""
    random = Random(0)

    def damage(value):
        if random.random() < 0.03:
            return random.choice([None, [], {}, "x", -1, float("inf"), True])
        if isinstance(value, dict):
            return {key: damage(v) for key, v in value.items() if random.random() > 0.02}
        if isinstance(value, list):
            return [damage(v) for v in value if random.random() > 0.02]
        return value

    for number in range(60):
        folder = tmp_path / str(number)
        folder.mkdir()
        for file in (made / random.choice(["compare", "profile", "bench"])).iterdir():
            if file.suffix not in (".json", ".csv") or file.name == "trace.json":
                continue
            text = file.read_text()
            if file.suffix == ".json" and random.random() < 0.8:
                text = json.dumps(damage(json.loads(text)))
            elif random.random() < 0.5:
                text = text[: random.randrange(len(text))]
            (folder / file.name).write_text(text)
        data_of(page_of(folder))


def test_text_from_files_is_escaped(tmp_path):
    folder = stacked(tmp_path / "<b>a&b")
    facts = (folder / "run.json").read_text().replace("gt-adaptive", EVIL)
    (folder / "run.json").write_text(facts)
    table = (folder / "metrics.csv").read_text().replace("gt-adaptive", EVIL)
    (folder / "metrics.csv").write_text(table)
    claim = dict.fromkeys(("claim", "verdict", "measure", "against"), EVIL)
    claims = [{**claim, "estimate": None, "interval": None}]
    (folder / "claims.json").write_text(json.dumps(claims))
    page = page_of(folder)
    assert "<img" not in page
    assert "<b>a" not in page
    assert EVIL in data_of(page)["curves"][0]["name"]


def test_a_large_study_stays_small(tmp_path):
    header = (
        "algorithm,seed,iteration,loss,grad_norm2,consensus,gap,tracking,accuracy,seconds,bytes"
    )
    random = np.random.default_rng(0)
    for number in range(3):
        folder = tmp_path / f"study-{number}"
        folder.mkdir()
        lines = [header]
        for label in ("a", "b", "c", "d"):
            values = random.random((30 * 300, 5))
            for k, v in enumerate(values):
                cells = ",".join(map(repr, v.tolist()))
                lines.append(f"{label},{k % 30},{k // 30},{cells},,{k * 1e-4},{k * 160}")
        (folder / "metrics.csv").write_text("\n".join(lines))
    page = page_of(tmp_path)  # the directories in it
    assert len(page) < 3e6
    assert "at most" in text_of(page)
    assert len(data_of(page)["curves"]) == 12


def test_only_a_page_is_replaced(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    stacked(Path("a"))
    assert main(["report", "a", "-o", "a/metrics.csv"]) == 2
    assert "is not a report" in capsys.readouterr().err
    for _ in range(2):
        assert main(["report", "a"]) == 0
    size = Path("report.html").stat().st_size
    assert 4e6 < size < 8e6
    Path("empty").mkdir()
    assert main(["report", "absent"]) == 2
    assert "is not a directory" in capsys.readouterr().err
    assert main(["report", "empty"]) == 2
    assert "nothing to report" in capsys.readouterr().err
