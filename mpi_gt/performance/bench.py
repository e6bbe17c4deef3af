"""Benchmarks for `mpi-gt bench`: the time of an exchange by exchange, graph and message size."""

import math
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import machine, plots
from ..compressors import make_compressor
from ..display.graphs import placement_sentence
from ..errors import UserError
from ..graphs import IN_RANK_ORDER, build_network
from ..plots.performance import draw_bench
from ..rundir.atomic import write_json
from ..rundir.columns import Column, write_table
from ..rundir.layout import require_free
from . import codecs
from .bench_plan import BenchPlan
from .c_floor import FloorTimer, load_floor
from .codecs import codecs_of, pays_of, stages_of
from .cost_model import Cost, fit

if TYPE_CHECKING:
    from mpi4py import MPI

    from ..comm.compressed_timing import CompressedTimer
    from ..comm.node import Node
    from ..comm.placement import PlacedRanks
    from ..comm.timing import ExchangeTimer

    Timer = ExchangeTimer | FloorTimer | CompressedTimer

Array = NDArray[Any]

FLOOR = "C"
"""The name, among the exchanges, of the same collective called from C."""
COLUMNS = {
    "graph": Column("", "graph whose neighbours exchange messages"),
    "degree": Column("1", "messages that the busiest rank receives in an exchange"),
    "exchange": Column("", "way to exchange them; C: the same collective, called from C"),
    "bytes": Column("bytes", "size of a message, before compression"),
    "samples": Column("1", "samples of the time of an exchange, each as the slowest rank saw it"),
    "min": Column("s", "shortest of them"),
    "median": Column("s", "median of them"),
    "p95": Column("s", "quantile 0.95 of them"),
    "p99": Column("s", "quantile 0.99 of them"),
    "MB_per_s": Column("MB/s", "degree * bytes / median / 1e6"),
}
"""The columns of bench.csv."""
GROUP, MOST = 20, 200  # samples per check of their spread, and samples in all


def run(plan: BenchPlan, comm: "MPI.Intracomm") -> dict[str, Any]:
    """Measure all exchanges, graphs and sizes; return the content of bench.json on root.

    Collective: every rank calls it. The other ranks return an empty dictionary.
    """
    from ..comm.collective import on_every_rank, on_root
    from ..comm.exchange import EXCHANGES
    from ..comm.node import Node
    from ..comm.placement import placed_ranks

    if plan.n not in (None, comm.size):
        raise UserError(f"-n {plan.n} was asked for, but there are {comm.size} MPI ranks")
    ranks = comm.gather(machine.rank_facts())
    results = on_root(comm, lambda: _Results(plan, comm.size, ranks))
    compressors = on_every_rank(comm, lambda: [make_compressor(spec) for spec in plan.compress])
    floor, reason = load_floor(Path(plan.out or "."), comm)
    skipped: dict[str, str] = {} if reason is None else {FLOOR: reason}
    for spec in plan.graphs:
        make = partial(build_network, spec, None, comm.size)
        with placed_ranks(comm, plan.place, make) as placed:

            def rows(placed: "PlacedRanks" = placed) -> list[Any]:
                network = placed.take_network()
                assert network is not None
                return [network.row(node) for node in range(network.nodes)]

            own = placed.comm.scatter(on_root(placed.comm, rows))
            node = Node(placed.comm, own, EXCHANGES["neighbor"])
            if results:
                results.place(spec, placed.facts)
            _measure_graph(plan, spec, node, floor, compressors, results, skipped)
            node.free()
    return on_root(comm, lambda: results.finish(skipped) if results else {}) or {}


def _measure_graph(
    plan: BenchPlan,
    spec: str,
    node: "Node",
    floor: Any,
    compressors: Sequence[Any],
    results: "_Results | None",
    skipped: dict[str, str],
) -> None:
    """Measure all exchanges and sizes on one graph. Collective: every rank calls it."""
    from ..comm.compressed_timing import CompressedTimer
    from ..comm.exchange import EXCHANGES
    from ..comm.timing import unavailable_reason

    degree = max(node.world.allgather(max(len(layer.sources) for layer in node.row.layers)))
    groups = []
    for name in plan.exchanges:
        reason = unavailable_reason(node, EXCHANGES[name])
        if reason is not None:
            skipped[name] = reason
        else:  # the floor takes turns with the exchange whose floor it is
            groups.append([name, FLOOR] if floor and name == "neighbor" else [name])
    if floor and "neighbor" not in plan.exchanges:
        groups.append([FLOOR])
    for names in groups:
        coders = [] if names == [FLOOR] else compressors
        for payload in plan.sizes:
            if reason := _too_large(node, names[0], payload):
                skipped[f"{names[0]}, {payload} bytes"] = reason
                continue
            timers = [_timer(node, name, payload, floor) for name in names]
            coded = [CompressedTimer(node, EXCHANGES[names[0]], payload, each) for each in coders]
            samples = measure(node, [*timers, *coded], plan.seconds)
            stages = [stages_of(node, timer, len(samples[0])) for timer in coded]
            if results:
                results.add(spec, degree, names, payload, samples, stages)


def _too_large(node: "Node", name: str, payload: int) -> str | None:
    """Return why messages of this size from every rank to every rank cannot be measured, if so.

    Collective: every rank calls it, and all get the same answer.
    """
    from ..comm.exchange import EXCHANGES
    from ..comm.timing import unavailable_reason

    if name == FLOOR or not EXCHANGES[name].to_all:
        return None
    return unavailable_reason(node, EXCHANGES[name], trial=False, payload=payload)


def _timer(node: "Node", name: str, payload: int, floor: Any) -> "ExchangeTimer | FloorTimer":
    from ..comm.exchange import EXCHANGES
    from ..comm.timing import ExchangeTimer

    if name == FLOOR:
        return FloorTimer(node, floor, payload)
    return ExchangeTimer(node, EXCHANGES[name], payload)


def measure(node: "Node", timers: Sequence["Timer"], seconds: float) -> list[Array]:
    """Return samples of the time of one exchange per timer, each as the slowest rank saw it.

    Collective: every rank calls it. The timers take turns, so a disturbance of the machine hits all
    of them alike. A sample is the mean over a batch of exchanges that takes about a millisecond.
    Sampling ends when the medians are known to 5%, after `seconds` per timer, or after MOST
    samples.
    """
    from ..comm.timing import slowest

    for timer in timers:
        timer.check(2)
    once = slowest(node, [timer.seconds(3) for _ in range(3) for timer in timers])
    count = min(20, max(1, math.ceil(1e-3 / once.min())))  # the same for all, to be compared
    samples = np.empty((0, len(timers)))
    while len(samples) < MOST:
        group = np.empty((GROUP, len(timers)))
        for k in range(GROUP):  # each begins in turn: to be the first after a pause is no privilege
            for j in (*range(k % len(timers), len(timers)), *range(k % len(timers))):
                group[k, j] = timers[j].seconds(count)
        largest = slowest(node, group.ravel()).reshape(group.shape)
        samples = np.concatenate([samples, largest])
        if samples.sum() * count > seconds * len(timers) or all(map(_is_precise, samples.T)):
            break
    for timer in timers:
        timer.check(3)
        timer.free()
    return list(samples.T)


def _is_precise(samples: Array) -> bool:
    """Return True if the 95% confidence interval of the median is narrower than 10% of it.

    The interval is that between two order statistics.
    """
    if len(samples) < 3 * GROUP:
        return False
    ordered, half = np.sort(samples), 0.98 * math.sqrt(len(samples))
    middle = len(samples) / 2
    low, high = ordered[int(middle - half)], ordered[min(len(samples) - 1, int(middle + half))]
    return bool(high - low < 0.1 * np.median(samples))


class _Results:
    """The results on root: shows progress, then writes bench.csv, bench.json and bench.png."""

    def __init__(self, plan: BenchPlan, nodes: int, ranks: Any) -> None:
        self._plan = plan
        self._rows: list[dict[str, Any]] = []
        self._compressed: list[dict[str, Any]] = []
        self._placements: dict[str, dict[str, Any]] = {}  # by graph
        self._facts = machine.run_facts(ranks)
        self._directory = Path(plan.out or ".")
        require_free(self._directory, overwrite=True)  # it is claimed by now
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"cannot write to {self._directory}: {error.strerror}") from None
        for spec in plan.graphs:  # an unsuitable graph is an error before anything is measured
            build_network(spec, None, nodes)
        self._total = len(plan.graphs) * len(plan.exchanges) * len(plan.sizes)
        self._shown = time.monotonic()

    def place(self, graph: str, facts: dict[str, Any]) -> None:
        """Keep the placement for a graph, unless there is but one host and its ranks in order."""
        if facts["hosts"] > 1 or self._plan.place != IN_RANK_ORDER:
            self._placements[graph] = facts
        if self._plan.place != IN_RANK_ORDER and not self._plan.quiet:
            print(f"{graph}: {placement_sentence(facts)}", file=sys.stderr, flush=True)

    def add(
        self,
        graph: str,
        degree: int,
        names: list[str],
        payload: int,
        samples: list[Array],
        coded: list[dict[str, Any]],
    ) -> None:
        """Add the samples of exchanges that took turns, and then of the first one compressed."""
        name, count = names[0], len(names)
        measured = [
            row_of(graph, degree, each, payload, own.tolist())
            for each, own in zip([*names, *[name] * len(coded)], samples, strict=True)
        ]
        self._rows += measured[:count]
        plain = measured[0]["median"]
        for row, spec, stages in zip(measured[count:], self._plan.compress, coded, strict=False):
            beside = {"uncompressed": plain, "ratio": row["median"] / plain}
            self._compressed.append({**row, "compress": spec, **stages, **beside})
        if not self._plan.quiet and time.monotonic() - self._shown > 2:
            self._shown = time.monotonic()
            text = f"bench: {len(self._rows)} of {self._total}: {graph}, {name}, {payload} bytes"
            print(text, file=sys.stderr, flush=True)

    def finish(self, skipped: dict[str, str]) -> dict[str, Any]:
        """Write all files and return the content of bench.json."""
        rows = sorted(self._rows, key=lambda row: row["exchange"] == FLOOR)  # the floor is last
        content = {
            "plan": asdict(self._plan),
            **self._facts,
            "rows": rows,
            "fits": fits_of(rows),
            "skipped": skipped,
            **({"placements": self._placements} if self._placements else {}),
        }
        columns = COLUMNS
        if coded := self._compressed:
            content |= {"compressed": coded, "pays": pays_of(coded), "codecs": codecs_of(coded)}
            columns = {**columns, **codecs.COLUMNS}
        write_json(self._directory / "bench.json", content)
        lines = [{name: row.get(name) for name in columns} for row in (*rows, *coded)]
        header = write_table(self._directory / "bench.csv", columns, lines)
        written = ["bench.json", "bench.csv", header.name]
        if rows and plots.available():
            figure = self._directory / "bench.png"
            drawn, warning = plots.try_to_draw(lambda: draw_bench(figure, content))
            written += [path.name for path in drawn]
            if warning:
                print(f"mpi-gt: warning: {warning}", file=sys.stderr, flush=True)
        content["written"] = [str(self._directory / name) for name in written]
        return content


def row_of(
    graph: str, degree: int, name: str, payload: int, samples: Sequence[float]
) -> dict[str, Any]:
    """Return the row of bench.csv for these samples."""
    low, median, p95, p99 = np.quantile(samples, [0, 0.5, 0.95, 0.99]).tolist()
    return {
        "graph": graph,
        "degree": degree,
        "exchange": name,
        "bytes": payload,
        "samples": len(samples),
        "min": low,
        "median": median,
        "p95": p95,
        "p99": p99,
        "MB_per_s": degree * payload / median / 1e6,
    }


def fits_of(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Fit the cost model to each exchange, per graph and then over all graphs together."""
    fits = []
    for name in dict.fromkeys(row["exchange"] for row in rows):
        own = [row for row in rows if row["exchange"] == name]
        graphs = list(dict.fromkeys(row["graph"] for row in own))
        for graph in [*graphs, None] if len(graphs) > 1 else graphs:
            part = [row for row in own if graph in (None, row["graph"])]
            if len({row["bytes"] for row in part}) < 2 or not all(row["degree"] for row in part):
                continue  # a line needs two sizes, and a message needs a neighbour
            cost = fit(*([row[key] for row in part] for key in ("degree", "bytes", "median")))
            fits.append({"exchange": name, "graph": graph, **_plain(cost)})
    return fits


def _plain(cost: Cost) -> dict[str, float | None]:
    """Return the cost for JSON, which has no infinity."""
    return {key: value if math.isfinite(value) else None for key, value in asdict(cost).items()}
