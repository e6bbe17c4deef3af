"""What communication costs: fits, phases, profile, trace, straggler, bench, scale, predict."""

import csv
import gc
import itertools
import json
import weakref
from collections import Counter
from dataclasses import asdict
from time import perf_counter_ns

import numpy as np
import pytest
from support import FIGURES, skip_or_fail

from mpi_gt import kernels
from mpi_gt.cli.laboratory import seconds, speed
from mpi_gt.cli.main import main
from mpi_gt.comm import EXCHANGE_NAMES
from mpi_gt.config import RunConfig
from mpi_gt.display.performance import explanations
from mpi_gt.engine.resume import config_of_run
from mpi_gt.errors import UserError
from mpi_gt.kernels import reference as twins
from mpi_gt.performance import scaling
from mpi_gt.performance.bench import BenchPlan, fits_of, size
from mpi_gt.performance.cost_model import Cost, fit
from mpi_gt.performance.phases import (
    AWAIT,
    BEGIN,
    EXCHANGE,
    GRADIENT,
    ITERATION,
    METRIC,
    PACKING,
    PHASES,
    POST,
    UNATTRIBUTED,
    UPDATE,
)
from mpi_gt.performance.profiler import straggler_of
from mpi_gt.performance.stamps import Phases, Stamps
from mpi_gt.problems.straggler import Straggler


def test_a_fit_finds_the_numbers_that_made_the_times():
    true = Cost(latency=30e-6, bandwidth=2e9, per_message=1.5e-6)
    degrees = [2, 2, 2, 11, 11, 11]
    sizes = [160, 16_000, 1_600_000] * 2
    times = [true.seconds(d, s) for d, s in zip(degrees, sizes, strict=True)]
    found = fit(degrees, sizes, times)
    assert found.latency == pytest.approx(true.latency, rel=1e-6)
    assert found.bandwidth == pytest.approx(true.bandwidth, rel=1e-6)
    assert found.per_message == pytest.approx(true.per_message, rel=1e-6)
    assert found.r2 == pytest.approx(1)
    assert found.worst < 1e-9


def test_a_fit_is_never_negative_and_says_how_good_it_is():
    falling = fit([2, 2, 2], [160, 1600, 16_000], [5e-5, 4e-5, 3e-5])
    assert falling.latency > 0
    assert falling.bandwidth == np.inf
    assert falling.worst > 0.2
    assert falling.r2 < 0.7


def test_fits_by_graph_and_over_all():
    cost = Cost(1e-5, 1e9, 2e-6)
    rows = [
        {"graph": g, "degree": d, "exchange": "p2p", "bytes": s, "median": cost.seconds(d, s)}
        for g, d in (("ring", 2), ("complete", 7))
        for s in (160, 16_000)
    ]
    fits = fits_of(rows)
    assert [fit["graph"] for fit in fits] == ["ring", "complete", None]
    assert fits[-1]["per_message"] == pytest.approx(2e-6)
    assert fits[0]["latency"] == pytest.approx(1e-5 + 2 * 2e-6)  # not to be told apart there


@pytest.mark.parametrize(
    ("text", "bytes_"), [("160", 160), ("16e3", 16000), ("1.6MB", 1600000), ("4KiB", 4096)]
)
def test_sizes(text, bytes_):
    assert size("--sizes", text) == bytes_


@pytest.mark.parametrize("text", ["", "x", "1.5", "16 lumps", "inf", "nan"])
def test_what_is_no_size(text):
    with pytest.raises(UserError, match="--sizes"):
        size("--sizes", text)


def test_times_and_speeds():
    assert seconds("--latency", "2us") == pytest.approx(2e-6)
    assert seconds("--latency", "0.5ms") == pytest.approx(5e-4)
    assert seconds("--latency", "3") == 3
    assert speed("--bandwidth", "12GB/s") == 12e9
    assert speed("--bandwidth", "1.07GB/s") == pytest.approx(1.07e9)
    for text in ("-1us", "quick", "inf"):
        with pytest.raises(UserError):
            seconds("--latency", text)


@pytest.mark.parametrize(
    "given",
    [
        {"sizes": "17"},
        {"sizes": "0"},
        {"graphs": "triangle"},
        {"exchanges": "pigeon"},
        {"seconds": "0"},
        {"seconds": "soon"},
        {"n": "0"},
    ],
)
def test_bench_refuses(given):
    with pytest.raises(UserError):
        BenchPlan.of(given)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "node=1",
        "ms=5",
        "node=x,ms=5",
        "node=-1,ms=5",
        "node=1,ms=-5",
        "node=1,ms=5,jitter=6",
        "node=1,ms=5,probability=0",
        "node=1,ms=nan",
        "node=1,ms=5,colour=red",
    ],
)
def test_stragglers_that_are_none(text):
    with pytest.raises(UserError, match="straggler"):
        Straggler.of(text)


@pytest.mark.parametrize(
    "options",
    [
        {"profile": True, "stacked": True, "n": 4},
        {"profile": True, "algorithms": "gt,dsgd"},
        {"trace_iterations": "1:5"},
        {"profile": True, "trace_iterations": "5:1"},
        {"profile": True, "trace_iterations": "0:5"},
        {"profile": True, "trace_iterations": "7"},
        {"profile": True, "trace_iterations": "1:9999999"},
        {"straggler": "node=4,ms=1", "n": 4},
        {"straggler": "node=1,ms=200000"},
        {"profile": True, "iterations": 10**9},
        {"straggler": "node=1,ms=1", "n": 4, "stacked": True},
        {"exchange": "automatic"},
    ],
)
def test_what_cannot_be_profiled(options):
    with pytest.raises(UserError):
        RunConfig.of(options)


def test_only_that_node_is_slow():
    def gradient(t, x):
        return x + t

    slow = Straggler.of("node=2,ms=1,jitter=1,probability=0.5")
    assert slow.slow(gradient, 1) is gradient
    assert slow.slow(gradient, 2)(3, 4) == 7


def test_the_trace_shows_a_hundred_iterations_in_the_middle_unless_told():
    assert RunConfig.of({"iterations": 1000, "profile": True}).trace_window == range(450, 550)
    assert RunConfig.of({"iterations": 30, "profile": True}).trace_window == range(1, 31)
    told = RunConfig.of({"iterations": 30, "profile": True, "trace_iterations": "3:4"})
    assert told.trace_window == range(3, 5)


def test_stamps_add_up_to_phases_however_often_they_are_folded(monkeypatch):
    """Made-up times; a plain loop over the stamps says the same."""
    random = np.random.default_rng(0)
    now = 0
    clock = []

    def tick():
        nonlocal now
        now += int(random.integers(1, 1000))
        clock.append(now)
        return now

    monkeypatch.setattr("mpi_gt.kernels.reference.perf_counter_ns", tick)
    monkeypatch.setattr(
        "mpi_gt.performance.stamps.stamp", twins.stamp
    )  # the kernels' clock is the real one
    codes = [BEGIN, PACKING, POST, PACKING, UPDATE, AWAIT, PACKING, GRADIENT, UPDATE, UNATTRIBUTED]
    iterations = 20
    phases = Phases(iterations, range(5, 8))
    expected = np.zeros((iterations + 1, len(PHASES)))
    stamped = [(0, UNATTRIBUTED, clock[0])]
    for t in range(1, iterations + 1):
        for code in codes:
            phases.enter(code)
            stamped.append((t, code, now))
        if t % 6 == 0:
            with phases.during(METRIC):
                stamped.append((t, METRIC, now))
            stamped.append((t, UNATTRIBUTED, now))
        if t in (3, 4, 11):
            phases.flush()  # profiling, then unattributed again
            stamped += [(t, len(PHASES) - 1, clock[-2]), (t, UNATTRIBUTED, clock[-1])]
    phases.close()
    stamped.append((iterations, len(PHASES) - 1, clock[-2]))
    plain = {BEGIN: UPDATE, POST: EXCHANGE, AWAIT: EXCHANGE}
    for (t, code, begin), (_, _, end) in itertools.pairwise(stamped):
        expected[t, plain.get(code, code)] += (end - begin) * 1e-9
    np.testing.assert_allclose(phases.seconds, expected, atol=1e-15)
    assert phases.calls[:, 1].tolist() == [e for e in range(iterations) for _ in "pa"]
    assert phases.calls[:, 0].tolist() == [t for t in range(1, iterations + 1) for _ in "pa"]
    kept = np.concatenate(phases.kept)
    assert set(kept[:, 0]) == {5, 6, 7}
    assert (kept[1:, 2] == kept[:-1, 3]).all()  # no gap


def test_compiled_stamps_are_those_of_python():
    if kernels.C is None:
        skip_or_fail("the kernels were not built")
    stamps = Stamps()
    before = perf_counter_ns()
    stamps.add(3)
    stamps.add(7)
    twins.stamp(stamps.words, 9)
    codes, times = stamps.pairs.T
    assert codes.tolist() == [3, 7, 9]
    assert before <= times[0] <= times[1] <= times[2] <= perf_counter_ns()
    stamps.keep_last()
    assert stamps.pairs.tolist() == [[9, times[2]]]
    stamps.words[0] = len(stamps.words)
    with pytest.raises(RuntimeError, match="too many"):
        stamps.add(1)


@pytest.mark.parametrize("compiled", [True, False])
def test_a_function_between_two_stamps(compiled, monkeypatch):
    if not compiled:
        monkeypatch.setattr("mpi_gt.kernels.C", None)
    elif kernels.C is None:
        skip_or_fail("the kernels were not built")
    stamps = Stamps()

    def divide(a, b):
        return a / b

    watched = stamps.around(3, 7, divide)
    assert watched(7, b=2) == 3.5
    assert stamps.pairs[:, 0].tolist() == [3, 7]
    with pytest.raises(ZeroDivisionError):
        watched(7, 0)
    assert stamps.pairs[:, 0].tolist() == [3, 7, 3]


def test_a_watched_method_of_an_object_does_not_keep_it_alive():
    class Thing:
        def method(self):
            return self

    thing = Thing()
    thing.method = Stamps().around(1, 2, thing.method)
    assert thing.method() is thing
    gone = weakref.ref(thing)
    del thing
    gc.collect()
    assert gone() is None


def test_a_straggler_stands_out_or_there_is_none():
    own = np.array([1e-3, 1.1e-3, 6e-3, 0.9e-3])
    found = straggler_of(own, mean=6.5e-3)
    assert found["node"] == 2
    assert found["excess"] == pytest.approx(5e-3)
    assert straggler_of(np.array([1e-3, 1.1e-3, 1.3e-3]), mean=6e-3) is None
    assert straggler_of(np.array([1e-3]), mean=1e-3) is None


def profiled(directory):
    return json.loads((directory / "profile.json").read_text())


def check_trace(path, ranks):
    """The Chrome trace event format: slices nest and end, flows pair up, times do not run back."""
    trace = json.loads(path.read_text())
    events = trace["traceEvents"]
    assert {event["tid"] for event in events} == set(range(ranks))
    sent, arrived = {}, {}
    for rank in range(ranks):
        stack, last = [], -np.inf
        for event in (e for e in events if e["tid"] == rank and e["ph"] != "M"):
            assert event["ts"] >= last
            last = event["ts"]
            if event["ph"] == "B":
                stack.append(event["name"])
            elif event["ph"] == "E":
                assert stack.pop() == event["name"]
            elif event["ph"] == "s":
                assert stack[-1] == "exchange: post"
                assert event["id"] not in sent
                sent[event["id"]] = event["ts"]
            else:
                assert event["ph"] == "f"
                assert event["bp"] == "e"
                assert stack[-1].startswith("exchange")
                assert event["id"] not in arrived
                arrived[event["id"]] = event["ts"]
        assert not stack
    assert sent.keys() == arrived.keys()
    assert all(sent[key] <= arrived[key] for key in sent)
    return Counter(event["name"] for event in events if event["ph"] == "B"), len(sent)


def test_a_profile(mpi, call, tmp_path):
    require_sound_profile(mpi, "nonblocking", call, tmp_path)


@pytest.mark.parametrize("exchange", ["neighbor", "persistent"])
def test_a_profile_of_other_exchanges(openmpi, exchange, call, tmp_path):
    require_sound_profile(openmpi, exchange, call, tmp_path)


def require_sound_profile(mpi, exchange, call, tmp_path):
    options = ["run", "-n", "4", "--graph", "ring", "--iterations", "150", "--exchange", exchange]
    call(mpi.mpi_gt(*options, "--out", tmp_path / "plain", "--quiet"))
    window = ["--trace-iterations", "20:29"]
    done = call(mpi.mpi_gt(*options, "--profile", *window, "--out", tmp_path / "a"), env=FIGURES)
    assert "of it waiting" in done.out
    assert (tmp_path / "plain" / "final.npz").read_bytes() == (
        tmp_path / "a" / "final.npz"
    ).read_bytes()

    found = profiled(tmp_path / "a")
    shares = {name: phase["share"] for name, phase in found["phases"].items()}
    assert sum(shares[name] for name in ITERATION) == pytest.approx(1)
    assert all(shares[name] > 0 for name in ITERATION)
    for rank in range(4):
        waiting = found["waiting"]["by_rank"][rank]
        assert 0 <= waiting <= found["phases"]["exchange"]["by_rank"][rank]
    assert found["ratio_to_stacked"] > 0
    messages = 2 if exchange == "nonblocking" else 1
    assert found["messages_by_rank"] == [150 * 2 * messages] * 4
    assert found["traffic"][0] == [0, 150 * 160, 0, 150 * 160]
    assert (found["hidden_share"] > 0) == (exchange != "neighbor") or found["hidden_share"] == 0
    run = json.loads((tmp_path / "a" / "run.json").read_text())
    assert run["exchange"] == {"name": exchange}
    # the two clocks see the same loop; the run's own also counts the first gradient, at x_1
    assert 0.1 < found["seconds_per_iteration"] / run["seconds_per_iteration"] < 2

    slices, flows = check_trace(tmp_path / "a" / "trace.json", 4)
    assert slices["gradient"] == 4 * 10
    assert slices["iteration 20"] == 4
    assert flows == 10 * 4 * 2 * messages
    with np.load(tmp_path / "a" / "profile.npz") as file:
        assert file["rank_3"].shape == (150, len(PHASES) + 1)
        assert file["columns"].tolist() == [*PHASES, "waiting"]
    assert (tmp_path / "a" / "profile.png").stat().st_size > 10_000


def test_the_profile_names_the_straggler(openmpi, call, tmp_path):
    out = ["--iterations", "60", "--log-every", "60", "--out", tmp_path / "a"]
    done = call(openmpi.mpi_gt("profile", "-n", "4", "--straggler", "node=2,ms=20", *out))
    assert "straggler: node 2" in done.out
    slow = profiled(tmp_path / "a")["straggler"]
    assert slow["node"] == 2
    assert slow["excess"] == pytest.approx(0.02, rel=0.5)
    waiting = profiled(tmp_path / "a")["waiting"]["by_rank"]
    assert waiting[2] < min(waiting[:2] + waiting[3:])


def test_one_rank_has_nobody_to_wait_for(openmpi, call, tmp_path):
    words = ["profile", "-n", "1", "--iterations", "20", "--quiet", "--out", tmp_path / "a"]
    call(openmpi.mpi_gt(*words))
    found = profiled(tmp_path / "a")
    assert found["waiting"]["mean"] == 0
    assert found["traffic"] == [[0]]
    assert explanations(found)


def test_auto_takes_one_of_the_sensible_exchanges(openmpi, call, tmp_path):
    options = ["run", "-n", "3", "--iterations", "20", "--quiet"]
    call(openmpi.mpi_gt(*options, "--exchange", "auto", "--out", tmp_path / "auto"))
    call(openmpi.mpi_gt(*options, "--out", tmp_path / "plain"))
    chosen = json.loads((tmp_path / "auto" / "run.json").read_text())["exchange"]
    assert chosen["name"] == min(chosen["auto"], key=chosen["auto"].get)
    assert set(chosen["auto"]) >= {"neighbor", "p2p"}
    assert (tmp_path / "auto" / "final.npz").read_bytes() == (
        tmp_path / "plain" / "final.npz"
    ).read_bytes()


def test_bench(mpi, compiler, call, tmp_path):
    words = ["bench", "-n", "3", "--sizes", "160,16kB", "--graphs", "ring,star", "--seconds"]
    done = call(mpi.mpi_gt(*words, "0.02", "--out", tmp_path / "b"), env=FIGURES, limit=200)
    found = json.loads((tmp_path / "b" / "bench.json").read_text())
    assert not found["skipped"], done
    assert "neighbor / C" in done.out
    measured = {(row["graph"], row["exchange"], row["bytes"]) for row in found["rows"]}
    assert len(measured) == len(found["rows"]) == 2 * 2 * (len(EXCHANGE_NAMES) + 1)
    for row in found["rows"]:
        assert 0 < row["min"] <= row["median"] <= row["p95"] <= row["p99"] < 10
    with (tmp_path / "b" / "bench.csv").open() as file:
        assert len(list(csv.DictReader(file))) == len(found["rows"])
    assert (tmp_path / "b" / "bench.png").exists()
    assert not (tmp_path / "b" / "floor.json").exists()
    again = call(mpi.mpi_gt(*words, "0.02", "--out", tmp_path / "b"), expect=2)
    assert "exists" in again.err


def test_bench_under_an_mpirun_of_ones_own(openmpi, call, tmp_path):
    words = ["bench", "--sizes", "160", "--graphs", "ring", "--exchanges", "neighbor,pickle"]
    out = ["--seconds", "0.02", "--out", str(tmp_path / "b")]
    call(openmpi.mpirun(2, str(openmpi.bin / "mpi-gt"), *words, *out))
    found = json.loads((tmp_path / "b" / "bench.json").read_text())
    assert [row["exchange"] for row in found["rows"]] == ["neighbor", "pickle"]


def test_scale(openmpi, call, tmp_path):
    words = ["scale", "--ranks", "2,1", "--graphs", "complete", "--iterations", "10"]
    problem = "softmax:dataset=synthetic,batch=8"
    done = call(openmpi.mpi_gt(*words, "--problem", problem, "--out", tmp_path / "s"), env=FIGURES)
    assert "scaling" in done.out
    rows = json.loads((tmp_path / "s" / "scale.json").read_text())["rows"]
    assert [(row["mode"], row["ranks"], row["batch"]) for row in rows] == [
        ("strong", 1, 16),
        ("strong", 2, 8),
        ("weak", 1, 8),
        ("weak", 2, 8),
    ]
    assert [row["bytes_per_iteration"] > 0 for row in rows] == [False, True] * 2
    assert (tmp_path / "s" / "scale.png").exists()


def test_strong_scaling_needs_a_batch(tmp_path):
    config = RunConfig.of({"problem": "huber"})
    points = scaling.make_points(config, "2,4", "ring", None, tmp_path)
    assert {point.mode for point in points} == {"weak"}
    with pytest.raises(UserError, match="has none"):
        scaling.make_points(config, "2,4", "ring", "strong", tmp_path)
    for ranks in ("0", "x", "", "2,-1"):
        with pytest.raises(UserError):
            scaling.make_points(config, ranks, "ring", "weak", tmp_path)


def test_scale_finds_an_impossible_graph_before_the_first_run(tmp_path):
    config = RunConfig.of({"problem": "huber"})
    with pytest.raises(UserError, match="hypercube"):
        scaling.make_points(config, "2,3", "ring,hypercube", "weak", tmp_path)


def test_scale_sets_the_batch_of_a_class_of_the_user(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(
        "from mpi_gt.problems.softmax import Softmax\n"
        "class Own(Softmax):\n    def __init__(self, place, batch: int = 5):\n        pass\n"
    )
    monkeypatch.chdir(tmp_path)
    config = RunConfig.of({"problem": "mine:Own"})
    points = scaling.make_points(config, "2,4", "ring", "strong", tmp_path)
    assert [point.config.problem for point in points] == ["mine:Own:batch=10", "mine:Own:batch=5"]


def test_efficiency_is_against_the_smallest():
    rows = [
        {"mode": mode, "graph": "ring", "ranks": n, "seconds_per_iteration": s}
        for mode, n, s in [("strong", 2, 1.0), ("strong", 4, 0.5), ("weak", 2, 1.0), ("weak", 4, 2)]
    ]
    scaling.add_efficiency(rows)
    assert [row["efficiency"] for row in rows] == [1, 1, 1, 0.5]


def test_predict(capsys):
    words = ["predict", "--nodes", "8", "--latency", "2us", "--bandwidth", "1GB/s", "--dim", "1000"]
    assert main([*words, "--compute", "5us", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    ring = next(row for row in found["rows"] if row["graph"] == "ring")
    assert found["bytes"] == 16_000
    assert ring["communication"] == pytest.approx(2e-6 + 2 * 16e3 / 1e9)
    assert ring["iteration"] == pytest.approx(5e-6 + ring["communication"])
    assert main([*words, "--graph", "exponential"]) == 0
    assert "exponential" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        ["--nodes", "8"],
        ["--nodes", "8", "--latency", "2us"],
        ["--latency", "2us", "--bandwidth", "1GB/s"],
        ["--nodes", "0", "--latency", "2us", "--bandwidth", "1GB/s"],
        ["--nodes", "7", "--graph", "hypercube", "--latency", "2us", "--bandwidth", "1GB/s"],
        ["--nodes", "8", "--latency", "2us", "--bandwidth", "0"],
        ["--nodes", "8", "--latency", "2us", "--bandwidth", "1GB/s", "--dtype", "int8"],
        ["--nodes", "8", "--bench", "absent"],
        ["--nodes", "8", "--dim", "1e9", "--latency", "2us", "--bandwidth", "1GB/s"],
        ["--nodes", "9999", "--graph", "complete", "--latency", "2us", "--bandwidth", "1GB/s"],
        ["--nodes", "8", "--latency", "2us", "--bandwidth", "1GB/s", "--out", "/proc/x"],
        ["--check", "absent", "--latency", "2us", "--bandwidth", "1GB/s"],
    ],
)
def test_predict_refuses(words, capsys):
    assert main(["predict", *words]) == 2
    assert "mpi-gt: error:" in capsys.readouterr().err


def test_the_model_is_checked_against_a_run(openmpi, call, tmp_path):
    measure = ["-n", "2", "--quiet", "--out"]
    sizes = ["--sizes", "160,16kB", "--exchanges", "neighbor", "--seconds", "0.05"]
    call(openmpi.mpi_gt("bench", *sizes, *measure, tmp_path / "b"))
    call(openmpi.mpi_gt("profile", "--iterations", "100", *measure, tmp_path / "p"))
    words = ["predict", "--bench", tmp_path / "b", "--check", tmp_path / "p"]
    done = call(openmpi.mpi_gt(*words))
    assert "predicted" in done.out
    assert "%" in done.out


def test_a_stopped_profile_goes_on_without_one_and_measures_as_often(tmp_path):
    config = RunConfig.of({"profile": True, "n": 4, "out": str(tmp_path)})
    facts = {"config": asdict(config), "status": "stopped"}
    (tmp_path / "run.json").write_text(json.dumps(facts))
    going = config_of_run(tmp_path, {}, None)
    assert not going.profile
    assert going.log_every == config.log_interval == 100
