"""`mpi-gt profile` on real ranks: shares, waiting time, traffic, the trace and the straggler."""

import json
from collections import Counter

import numpy as np
import pytest
from support import FIGURES

from mpi_gt.display.performance import explanations
from mpi_gt.performance.phases import (
    COMPRESSION,
    ITERATION,
    PHASES,
)
from mpi_gt.performance.profiler import hidden_times, straggler_of
from mpi_gt.performance.trace import flow_number


def test_a_straggler_stands_out_or_there_is_none():
    own = np.array([1e-3, 1.1e-3, 6e-3, 0.9e-3])
    found = straggler_of(own, mean=6.5e-3)
    assert found["node"] == 2
    assert found["excess"] == pytest.approx(5e-3)
    assert straggler_of(np.array([1e-3, 1.1e-3, 1.3e-3]), mean=6e-3) is None
    assert straggler_of(np.array([1e-3]), mean=1e-3) is None


def test_hidden_is_what_travels_while_the_rank_computes():
    # two exchanges: post, await, await; the last neighbour enters during the first work, then late
    posting = np.array([True, False, False, True, False, False])
    begins = np.array([0, 100, 200, 1000, 1100, 1200])
    ends = np.array([10, 110, 210, 1010, 1150, 1210])
    latest = np.array([40, 40, 40, 1140, 1140, 1140])
    found = hidden_times(posting, begins, ends, latest)
    assert found.tolist() == [0, 100 - 40, 200 - 110, 0, 0, 1200 - 1150]
    blocking = np.array([True, True])
    assert hidden_times(blocking, begins[:2], ends[:2], latest[:2]).tolist() == [0, 0]


def test_flows_have_whole_numbers_of_their_own():
    """Perfetto draws no arrow for a text."""
    numbers = [
        flow_number(exchange, part, source, target, 3)
        for exchange in range(4)
        for part in (0, 1, 63)
        for source in range(3)
        for target in range(3)
    ]
    assert all(type(number) is int for number in numbers)
    assert len(set(numbers)) == len(numbers)
    assert flow_number(10**6, 63, 9_999, 9_999, 10_000) < 2**53  # a JSON number


def profiled(directory):
    return json.loads((directory / "profile.json").read_text())


def check_trace(path, ranks):
    """Check the Chrome trace format: slices nest and end, flows pair up, times never decrease."""
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
                assert type(event["id"]) is int
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


def test_a_profile(mpich, call, tmp_path):
    require_sound_profile(mpich, "nonblocking", call, tmp_path)


@pytest.mark.parametrize("exchange", ["neighbor", "persistent"])
def test_a_profile_of_other_exchanges(openmpi, exchange, call, tmp_path):
    require_sound_profile(openmpi, exchange, call, tmp_path)


def require_sound_profile(mpi, exchange, call, tmp_path):
    options = ["run", "-n", "4", "--graph", "ring", "--iterations", "150", "--exchange", exchange]
    call(mpi.mpi_gt(*options, "--out", tmp_path / "plain", "--quiet"))
    window = ["--trace-iterations", "20:29"]
    done = call(mpi.mpi_gt(*options, "--profile", *window, "--out", tmp_path / "a"), env=FIGURES)
    assert "of which waiting" in done.out
    assert (tmp_path / "plain" / "final.npz").read_bytes() == (
        tmp_path / "a" / "final.npz"
    ).read_bytes()

    found = profiled(tmp_path / "a")
    shares = {name: phase["share"] for name, phase in found["phases"].items()}
    phases = [name for name in ITERATION if name not in COMPRESSION]
    assert sum(shares[name] for name in phases) == pytest.approx(1)
    assert all(shares[name] > 0 for name in phases)
    assert not shares.keys() & set(COMPRESSION)
    for rank in range(4):
        waiting = found["waiting"]["by_rank"][rank]
        assert 0 <= waiting <= found["phases"]["exchange"]["by_rank"][rank]
    assert found["ratio_to_stacked"] > 0
    messages = 2 if exchange == "nonblocking" else 1
    assert found["messages_by_rank"] == [150 * 2 * messages] * 4
    assert [edge for edge in found["traffic_edges"] if edge[0] == 0] == [
        [0, 1, 150 * 160],
        [0, 3, 150 * 160],
    ]
    assert (found["hidden_share"] > 0) == (exchange != "neighbor")
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
    assert found["traffic_edges"] == []
    assert explanations(found)


def test_a_profile_tells_encoding_and_decoding_apart(openmpi, call, tmp_path):
    call(
        openmpi.mpi_gt("run", "-n", "3", "--iterations", "40", "--algorithm", "beer:compress=sign",
                       "--profile", "--quiet", "--out", tmp_path / "a"),
    )  # fmt: skip
    shares = {name: each["share"] for name, each in profiled(tmp_path / "a")["phases"].items()}
    assert sum(shares[name] for name in ITERATION) == pytest.approx(1)
    assert all(shares[name] > 0 for name in ITERATION)
    check_trace(tmp_path / "a" / "trace.json", 3)
