"""The profile of a run: every rank's phases, who waited for whom, what could be hidden, a trace."""

import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import plots
from ..plots.performance import draw_profile
from ..rundir.atomic import write_json
from .clock_sync import Alignment, Reading, read_clock
from .phases import ITERATION, OWN, PHASES
from .stamps import Phases
from .trace import Track, write_trace

if TYPE_CHECKING:
    from ..comm.node import Node

Array = NDArray[Any]

CHUNK = 1 << 16
LATE = 0.2  # the share of an iteration by which a node must lag to be called a straggler


class Profiler:
    """On every rank of a run that is to be profiled."""

    def __init__(self, node: "Node", iterations: int, window: range) -> None:
        self._node = node
        self._first: Reading = read_clock(node.world)
        self.phases = Phases(iterations, window)
        node.make_plan = self.phases.make_plan

    def report(
        self, hosts: list[str], stacked: float | None, directory: Path | None
    ) -> dict[str, Any]:
        """What root says of it (else empty); every rank calls this after the last iteration."""
        node, phases = self._node, self.phases
        alignment = Alignment(self._first, read_clock(node.world))
        waits = Waits.of(node, phases, alignment)
        own = phases.seconds[1:]
        summary = np.array(
            [
                *own.mean(axis=0),
                waits.waiting[1:].mean(),
                waits.hidden[1:].mean(),
                alignment.offset * 1e-9,
                alignment.drift,
                alignment.uncertainty * 1e-9,
                node.bytes_sent,
                waits.messages,
            ]
        )
        rows = node.gather(summary)
        traffic = node.gather(self._traffic())
        tracks = node.world.gather(self._track(alignment))
        series = node.stream_to_root(np.column_stack([own, waits.waiting[1:]]))
        if rows is None or traffic is None or series is None or tracks is None:
            return {}
        found = summarise(rows, traffic, stacked, len(own))
        found["hosts"] = hosts
        times = _keep(series, directory, node.nodes)
        found["own_seconds"] = times.own
        found["iteration_seconds"] = dict(
            zip(("min", "median", "p95", "p99", "max"), times.quantiles, strict=True)
        )
        if directory is not None:
            self._write(directory, found, times, tracks, hosts)
        return found

    def _write(
        self, directory: Path, found: dict[str, Any], times: "Times", tracks: Any, hosts: list[str]
    ) -> None:
        window = self.phases.window
        clocks = {"window": [window.start, window.stop], **found["clocks"]}
        placed = (
            Track(
                rank, hosts[rank], neighbours, stretches, first, self._node.exchange_class.blocking
            )
            for rank, (neighbours, stretches, first) in enumerate(tracks)
        )
        found["trace"] = {
            "iterations": [window.start, window.stop],
            "events": write_trace(directory / "trace.json", placed, clocks),
        }
        write_json(directory / "profile.json", found)
        if plots.available():
            draw_profile(directory / "profile.png", found, times.histogram)

    def _traffic(self) -> Array:
        """Vector bytes from this node to each other."""
        node = self._node
        sent = np.zeros(node.nodes, dtype=np.int64)
        neighbours = list(node.row.neighbours)
        if neighbours:
            sent[neighbours] = node.bytes_sent // len(neighbours)
            if node.exchange_class.to_all:
                sent[:] = sent[neighbours[0]]
                sent[node.row.node] = 0
        return sent

    def _track(self, alignment: Alignment) -> tuple[list[int], Array, int]:
        """The kept stretches in root's time, and the number of the first exchange in them."""
        kept = np.concatenate([np.empty((0, 4), np.int64), *self.phases.kept])
        kept[:, 2:] = alignment.to_root(kept[:, 2:])
        calls = self.phases.calls
        inside = calls[calls[:, 0] >= self.phases.window.start]
        return list(self._node.row.neighbours), kept, int(inside[0, 1]) if len(inside) else 0


@dataclass(frozen=True)
class Waits:
    """By iteration, in seconds: in an exchange before the last neighbour had entered it, and
    outside of it meanwhile: a message that was not there yet, and nobody stood waiting."""

    waiting: Array
    hidden: Array
    messages: int

    @classmethod
    def of(cls, node: "Node", phases: Phases, alignment: Alignment) -> "Waits":
        iteration, number, *times = phases.calls.T
        begins, ends = (alignment.to_root(moments) for moments in times)
        posting = np.diff(number, prepend=-1) > 0
        latest = last_neighbour(node, begins[posting])
        inside = np.clip(np.minimum(ends, latest[number]) - begins, 0, None)
        awaited = np.bincount(number[~posting], inside[~posting], minlength=len(latest))
        hidden = np.clip(latest - ends[posting] - awaited, 0, None)
        rows = len(phases.seconds)
        messages = (~posting).sum() if node.exchange_class.separate else posting.sum()
        return cls(
            np.bincount(iteration, inside, minlength=rows) * 1e-9,
            np.bincount(iteration[posting], hidden, minlength=rows) * 1e-9,
            int(messages)
            * (node.nodes - 1 if node.exchange_class.to_all else len(node.row.neighbours)),
        )


def last_neighbour(node: "Node", entered: Array) -> Array:
    """When the last neighbour entered each exchange (ns of root's clock)."""
    degree = len(node.row.neighbours)
    latest = entered.copy()  # without neighbours there is nobody to wait for
    for begin in range(0, len(entered), CHUNK):
        piece = np.ascontiguousarray(entered[begin : begin + CHUNK])
        theirs = np.empty((degree, len(piece)), dtype=np.int64)
        node.graph_comm.Neighbor_allgather(piece, theirs)
        if degree:
            latest[begin : begin + CHUNK] = theirs.max(axis=0)
    return latest


def summarise(
    rows: Array, traffic: Array, stacked: float | None, iterations: int
) -> dict[str, Any]:
    """The profile in numbers, seconds an iteration. `rows`: what each rank has summed up."""
    phases = rows[:, : len(PHASES)]
    waiting, hidden, offset, drift, uncertainty, sent, messages = rows[:, len(PHASES) :].T
    column = {name: phases[:, PHASES.index(name)] for name in PHASES}
    mean = float(np.sum([column[name] for name in ITERATION], axis=0).mean())
    exposed = column["exchange"]
    own = np.sum([column[name] for name in OWN], axis=0)
    found: dict[str, Any] = {
        "iterations": iterations,
        "seconds_per_iteration": mean,
        "phases": {
            name: {
                "mean": float(values.mean()),
                "share": float(values.mean() / mean) if name in ITERATION else None,
                "imbalance": float(values.max() / values.mean()) if values.mean() > 0 else None,
                "by_rank": values.tolist(),
            }
            for name, values in column.items()
        },
        "waiting": {
            "mean": float(waiting.mean()),
            "share": float(waiting.mean() / mean),
            "by_rank": waiting.tolist(),
        },
        "exposed_communication": float(exposed.mean()),
        "hidden_communication": float(hidden.mean()),
        "hidden_share": _share(hidden.mean(), exposed.mean() + hidden.mean()),
        "stacked_seconds_per_iteration": stacked,
        "ratio_to_stacked": mean / stacked if stacked else None,
        "bytes_by_rank": sent.astype(int).tolist(),
        "messages_by_rank": messages.astype(int).tolist(),
        "traffic": traffic.tolist(),
        "clocks": {
            "offset": offset.tolist(),
            "drift": drift.tolist(),
            "uncertainty": uncertainty.tolist(),
        },
        "straggler": straggler_of(own, mean),
    }
    return found


def _share(part: float, whole: float) -> float:
    return float(part / whole) if whole > 0 else 0.0


def straggler_of(own: Array, mean: float) -> dict[str, Any] | None:
    """The node whose own time keeps the others waiting: none, where no node stands out."""
    if len(own) < 2:
        return None
    node = int(np.argmax(own))
    typical = float(np.median(np.delete(own, node)))
    excess = float(own[node]) - typical
    if excess < LATE * mean:
        return None
    return {"node": node, "own": float(own[node]), "typical": typical, "excess": excess}


@dataclass(frozen=True)
class Times:
    """Iteration times of all ranks and iterations: quantiles, and counts by size."""

    quantiles: list[float]
    own: float  # a node's own work in a typical iteration: the median, so without interruptions
    histogram: tuple[Array, Array]


def _keep(series: Iterator[Array], directory: Path | None, ranks: int) -> Times:
    """profile.npz: by rank, iteration and phase; one rank in memory at a time."""
    places = [PHASES.index(name) for name in ITERATION]
    own = [PHASES.index(name) for name in OWN]
    totals, owns = [], []
    archive = zipfile.ZipFile(directory / "profile.npz", "w") if directory else None
    for rank, values in enumerate(series):
        totals.append(values[:, places].sum(axis=1))
        owns.append(float(np.median(values[:, own].sum(axis=1))))
        if archive is not None:
            with archive.open(f"rank_{rank}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, values.astype(np.float32), allow_pickle=False)
    if archive is not None:
        with archive.open("columns.npy", "w") as file:
            names = np.array([*PHASES, "waiting"])
            np.lib.format.write_array(file, names, allow_pickle=False)
        archive.close()
    everything = np.concatenate(totals)
    edges = np.geomspace(max(everything.min(), 1e-9), everything.max() * 1.001, 61)
    counts, _ = np.histogram(everything, edges)
    quantiles = np.quantile(everything, [0, 0.5, 0.95, 0.99, 1]).tolist()
    return Times(quantiles, float(np.mean(owns)), (edges, counts))
