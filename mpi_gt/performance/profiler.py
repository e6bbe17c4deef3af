"""The profile of a run: phases of every rank, waiting times, hidden communication, and a trace."""

import contextlib
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import plots
from ..graphs.network import Turns
from ..plots.performance import draw_profile
from ..rundir.atomic import write_json, writing
from .clock_sync import Alignment, Reading, read_clock
from .phases import COMPRESSION, ITERATION, OWN, PHASES
from .stamps import Phases
from .trace import Ends, Track, write_trace

if TYPE_CHECKING:
    from ..comm.node import Node

Array = NDArray[Any]

CHUNK = 1 << 16  # times per exchange of them
EVENTS = 20  # of a node in the trace of an iteration, without its messages
MOST_EVENTS = 2 * 10**6  # of a trace: some 200 MB, which Perfetto can still show
LATE = 0.2  # the share of an iteration by which a node must lag to be called a straggler


class Profiler:
    """The profiler of one rank. Making one is collective: every rank of the run has its own."""

    def __init__(self, node: "Node", iterations: int, window: range) -> None:
        self._node = node
        self._first: Reading = read_clock(node.world)
        row = node.row
        degree = node.mean(np.array([sum(len(each.targets) for each in row.layers)]))
        assert degree is not None
        messages = node.nodes * float(degree[0]) / len(row.layers)
        window, self.warning = shortened(window, node.nodes, messages)
        """Says that trace.json shows fewer iterations than asked for; None if it does not."""
        self.phases = Phases(iterations, window)
        node.make_plan = self.phases.make_plan
        node.make_compressed_plan = self.phases.make_compressed_plan

    def finish(
        self, hosts: list[str], stacked: float | None, directory: Path | None
    ) -> dict[str, Any]:
        """Collect the profile of all ranks, write its files, and return profile.json on root.

        Collective: every rank calls it after the last iteration. The other ranks return an empty
        dictionary. `stacked` is the time per iteration of a stacked run.
        """
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
        traffic = node.world.gather(self._traffic())
        tracks = node.world.gather(self._track(alignment))
        series = node.stream_to_root(np.column_stack([own, waits.waiting[1:]]))
        if rows is None or traffic is None or series is None or tracks is None:
            return {}
        profile = summarise(rows, stacked, len(own))
        profile["traffic_edges"] = [edge for edges in traffic for edge in edges.tolist()]
        profile["hosts"] = hosts
        times = _write_series(series, directory)
        profile["own_seconds"] = times.own
        profile["iteration_seconds"] = dict(
            zip(("min", "median", "p95", "p99", "max"), times.quantiles, strict=True)
        )
        if directory is not None:
            self._write(directory, profile, times, tracks, hosts)
        return profile

    def _write(
        self,
        directory: Path,
        profile: dict[str, Any],
        times: "Times",
        tracks: Any,
        hosts: list[str],
    ) -> None:
        """Write trace.json, profile.json and profile.png."""
        window = self.phases.window
        clocks = {"window": [window.start, window.stop], **profile["clocks"]}
        placed = (
            Track(rank, hosts[rank], ends, stretches, first, self._node.exchange_class.blocking)
            for rank, (ends, stretches, first) in enumerate(tracks)
        )
        profile["trace"] = {
            "iterations": [window.start, window.stop],
            "events": write_trace(directory / "trace.json", placed, clocks),
        }
        write_json(directory / "profile.json", profile)
        if plots.available():
            figure = directory / "profile.png"
            _, warning = plots.try_to_draw(lambda: draw_profile(figure, profile, times.histogram))
            if warning:
                profile["warning"] = warning

    def _traffic(self) -> Array:
        """Return a row for each node that got vectors of this one: from, to, bytes."""
        node, sent = self._node, Counter[int]()
        for plan in node.plans:
            to_all = node.exchange_class.to_all and plan.row.targets
            for target in range(node.nodes) if to_all else plan.row.targets:
                sent[target] += plan.transfer.calls * plan.payload
        here = node.row.node
        found = [(here, to, size) for to, size in sorted(sent.items()) if to != here and size]
        return np.array(found, dtype=np.int64).reshape(-1, 3)

    def _track(self, alignment: Alignment) -> tuple[Ends, Array, int]:
        """Return the ends of messages by iteration of the window, its stretches in root's time, and
        its first exchange.
        """
        kept = np.concatenate([np.empty((0, 4), np.int64), *self.phases.kept])
        kept[:, 2:] = alignment.to_root(kept[:, 2:])
        calls = self.phases.calls
        inside = calls[calls[:, 0] >= self.phases.window.start]
        row = self._node.row
        ends = {}
        for t in self.phases.window:
            layer = row.layers[row.turns.at(t)]
            ends[t] = layer.sources, layer.targets
        return ends, kept, int(inside[0, 1]) if len(inside) else 0


def shortened(window: range, nodes: int, messages: float) -> tuple[range, str | None]:
    """Return the first iterations of a trace's window that make MOST_EVENTS, and a warning if any.

    `messages` is the number of messages that all nodes together send in an iteration.
    """
    events = int(EVENTS * nodes + 4 * messages)  # a message begins and ends; x and s may go apart
    most = max(1, MOST_EVENTS // events)
    if len(window) <= most:
        return window, None
    kept = window[:most]
    return kept, (
        f"trace.json shows iterations {kept.start} to {kept.stop - 1} only: {nodes} ranks make "
        f"some {events:,} events per iteration, and no viewer takes more than {MOST_EVENTS:,} "
        "(--trace-iterations A:B chooses others)"
    )


@dataclass(frozen=True)
class Waits:
    """The waiting of one rank for its neighbours, by iteration, in seconds.

    Before its last neighbour has entered an exchange, a rank inside the exchange is `waiting`. From
    then on messages travel; while this rank works outside the exchange instead of awaiting them,
    they are `hidden`.
    """

    waiting: Array
    hidden: Array
    messages: int  # sent by this rank

    @classmethod
    def of(cls, node: "Node", phases: Phases, alignment: Alignment) -> "Waits":
        """Compute the waits of this rank. Collective: every rank calls it."""
        iteration, number, *times = phases.calls.T
        begins, ends = (alignment.to_root(moments) for moments in times)
        posting = np.diff(number, prepend=-1) > 0
        layers = layers_at(node.turns, iteration)
        latest = last_source(node, begins[posting], layers[posting])[number]
        rows = len(phases.seconds)
        counted = layers[~posting if node.exchange_class.separate else posting]
        targets = np.array([len(layer.targets) for layer in node.row.layers])

        def by_iteration(times: Array) -> Array:
            return np.bincount(iteration, times, minlength=rows) * 1e-9

        return cls(
            by_iteration(np.clip(np.minimum(ends, latest) - begins, 0, None)),
            by_iteration(hidden_times(posting, begins, ends, latest)),
            len(counted) * (node.nodes - 1)
            if node.exchange_class.to_all
            else int(targets[counted].sum()),
        )


def hidden_times(posting: Array, begins: Array, ends: Array, latest: Array) -> Array:
    """Return how long messages travelled while this rank worked, by call of an exchange.

    Of a call that awaits messages it is the time since the call before (which started the exchange,
    or awaited another message of it), or since the last neighbour entered the exchange, if that was
    later. Of a call that starts an exchange it is 0.
    """
    before = np.concatenate([begins[:1], ends[:-1]])
    worked = np.clip(begins - np.maximum(before, latest), 0, None)
    return np.where(posting, 0, worked)


def layers_at(turns: Turns, iterations: Array) -> Array:
    """Return the layer of each iteration."""
    distinct, places = np.unique(iterations, return_inverse=True)
    if turns.seed is None:
        layers = (distinct - 1) % turns.layers
    else:
        layers = np.array([turns.at(t) for t in distinct.tolist()], dtype=np.int64)
    return layers[places]


def last_source(node: "Node", entered: Array, layers: Array) -> Array:
    """Return when the last source entered each exchange (ns of root's clock).

    Collective: every rank calls it, with the times when it entered the exchanges itself, and the
    layers of the exchanges.
    """
    latest = entered.copy()  # a node without sources waits for nobody
    for number, comm in enumerate(node.graph_comms):
        degree = len(node.row.layers[number].sources)
        (exchanges,) = np.nonzero(layers == number)
        for begin in range(0, len(exchanges), CHUNK):
            piece = exchanges[begin : begin + CHUNK]
            theirs = np.empty((degree, len(piece)), dtype=np.int64)
            comm.Neighbor_allgather(np.ascontiguousarray(entered[piece]), theirs)
            if degree:
                latest[piece] = theirs.max(axis=0)
    return latest


def summarise(rows: Array, stacked: float | None, iterations: int) -> dict[str, Any]:
    """Return the profile without its files, in seconds per iteration.

    `rows` holds the sums of each rank, in the order of `Profiler.finish`.
    """
    phases = rows[:, : len(PHASES)]
    waiting, hidden, offset, drift, uncertainty, sent, messages = rows[:, len(PHASES) :].T
    column = {name: phases[:, PHASES.index(name)] for name in PHASES}
    mean = float(np.sum([column[name] for name in ITERATION], axis=0).mean())
    exposed = column["exchange"]
    own = np.sum([column[name] for name in OWN], axis=0)
    return {
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
            if name not in COMPRESSION or values.any()
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
        "clocks": {
            "offset": offset.tolist(),
            "drift": drift.tolist(),
            "uncertainty": uncertainty.tolist(),
        },
        "straggler": straggler_of(own, mean),
    }


def _share(part: float, whole: float) -> float:
    return float(part / whole) if whole > 0 else 0.0


def straggler_of(own: Array, mean: float) -> dict[str, Any] | None:
    """Return the node whose own time keeps the others waiting; None if no node stands out."""
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
    """The distribution of the times of all iterations on all ranks."""

    quantiles: list[float]
    own: float  # a node's own work per iteration: the median, which leaves out interruptions
    histogram: tuple[Array, Array]  # edges and counts


def _write_series(series: Iterator[Array], directory: Path | None) -> Times:
    """Write profile.npz, the times by rank, iteration and phase; return their distribution.

    Only one rank's times are in memory at once. Without a directory nothing is written.
    """
    places = [PHASES.index(name) for name in ITERATION]
    own = [PHASES.index(name) for name in OWN]
    totals, owns = [], []
    with contextlib.ExitStack() as opened:
        archive = None
        if directory is not None:
            opened.enter_context(writing(directory / "profile.npz"))
            archive = opened.enter_context(zipfile.ZipFile(directory / "profile.npz", "w"))
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
    everything = np.concatenate(totals)
    edges = np.geomspace(max(everything.min(), 1e-9), everything.max() * 1.001, 61)
    counts, _ = np.histogram(everything, edges)
    quantiles = np.quantile(everything, [0, 0.5, 0.95, 0.99, 1]).tolist()
    return Times(quantiles, float(np.mean(owns)), (edges, counts))
