"""Predictions for `mpi-gt predict`: the time of an iteration on another machine, by cost model."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..algorithms import ALGORITHMS
from ..errors import UserError
from ..files import NOT_NEGATIVE, NUMBER, POSITIVE, TEXT, Each, OrNone, Record, read_table
from ..fuse import compiled
from ..graphs import build_network
from ..kernels import NodeCounters, PendingMix, Transfer
from ..memory import require_memory
from ..rundir.run_json import read_profile, require_facts
from .cost_model import Cost

FAMILIES = (
    "ring", "torus", "hypercube", "exponential", "one-peer-exponential", "er:p=0.7", "complete",
    "star",
)  # fmt: skip
LARGEST = 10**8  # numbers in a vector that is timed on this machine
TIMED = 10  # arrays of that size that the timing takes
PROFILED = ("own_seconds", "seconds_per_iteration", "bytes_by_rank", "iterations")
"""The keys of profile.json that a prediction needs."""
RUN = (
    "ranks_per_core",
    "hosts",
    "graph.degree_max",
    "problem.dim",
    "config.seeds",
    "config.problem",
    "config.graph",
)
"""The keys of run.json that a prediction needs."""
BENCH = {
    "fits": Each(
        Record(
            {
                "exchange": TEXT,
                "latency": NOT_NEGATIVE,
                "bandwidth": OrNone(POSITIVE),
                "per_message": NOT_NEGATIVE,
                "r2": NUMBER,
                "worst": NUMBER,
            }
        )
    )
}
"""The kinds of the values in bench.json that are read again."""


@dataclass(frozen=True)
class Compute:
    """The time of a node's own work per iteration: `base` seconds plus `each` per neighbour."""

    base: float
    each: float
    source: str

    def seconds(self, degree: float) -> float:
        return self.base + self.each * degree


def measured_here(dim: int, seeds: int, dtype: str, vectors: int = 2) -> Compute:
    """Time the update of gt-adaptive and the weighted sum on this machine, without any gradient."""
    if seeds * dim > LARGEST:
        raise UserError(
            f"{seeds * dim:,} numbers are too many to time on this machine: give --compute TIME"
        )
    shape, kind = (seeds, dim), np.dtype(dtype)
    require_memory(
        f"timing an update of {seeds * dim:,} numbers here",
        TIMED * seeds * dim * kind.itemsize,
        remedy="give --compute TIME",
    )
    algorithm = ALGORITHMS["gt-adaptive"]()
    z = np.linspace(-1, 1, seeds * dim).astype(kind).reshape(shape)

    class Ready:
        def wait(self) -> Any:
            return z

    grad: Any = lambda x: z  # noqa: E731 (gt-adaptive asks for no exact gradient)
    state = algorithm.init(z, grad)
    step = compiled(algorithm, state)
    base = shortest(lambda: step(1, state, lambda *v: (Ready(),) * vectors, grad))
    rows = max(1, min(8, 2**26 // max(1, z.nbytes)))
    headers = np.zeros((rows + 1, 2), dtype=np.int64)
    received = np.tile(z.reshape(1, -1), (rows, 1))
    slot, weights = z.copy(), np.full((1, rows + 1), 1 / (rows + 1), kind)
    buffers = headers[0], headers[1:], (slot,), (received,)
    transfer = Transfer(
        NodeCounters(),
        None,
        (buffers,),
        weights,
        0,
        0,
        lambda: None,
        None,
        partial(np.copyto, slot),
    )
    pending = PendingMix(transfer, 0)

    def mix() -> None:
        transfer(z)
        pending.wait()

    each = vectors * shortest(mix) / rows
    return Compute(base, each, "update and weighted sum timed on this machine, no gradient")


def shortest(work: Callable[[], object], budget: float = 0.5) -> float:
    """Return the shortest of several times: that of an undisturbed call."""
    best, spent = math.inf, 0.0
    while spent < budget:
        began = time.perf_counter()
        work()
        took = time.perf_counter() - began
        best, spent = min(best, took), spent + took + 1e-6
    return best


def from_profile(directory: Path, dim: int, seeds: int) -> Compute:
    """Return the own work of a profiled run, scaled to this size."""
    profile, facts = _read(directory)
    size = facts["config"]["seeds"] * facts["problem"]["dim"]
    scale = seeds * dim / size
    text = f"compute of {directory}" + (f", times {scale:.3g} for the size" if scale != 1 else "")
    return Compute(profile["own_seconds"] * scale, 0.0, text)


def _read(directory: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the content of profile.json and of run.json."""
    for name in ("run.json", "profile.json"):
        if not (directory / name).exists():
            raise UserError(f"{directory} holds no profiled run: it has no {name}")
    return read_profile(directory, PROFILED), require_facts(directory, RUN)


def from_bench(directory: Path, exchange: str) -> Cost:
    """Return the fitted cost of an exchange over all graphs, from the output of `mpi-gt bench`."""
    if not (directory / "bench.json").exists():
        raise UserError(f"{directory} holds no results of mpi-gt bench: it has no bench.json")
    fitted = read_table(directory / "bench.json", BENCH, ("fits",))["fits"]
    if not fitted:
        raise UserError(f"{directory} has no fits: a fit needs two sizes and two ranks")
    fits = [fit for fit in fitted if fit["exchange"] == exchange]
    if not fits:
        known = sorted({fit["exchange"] for fit in fitted})
        raise UserError(f"{directory} has no fit of {exchange}; it has {', '.join(known)}")
    fit = fits[-1]  # the last one is over all graphs
    bandwidth = math.inf if fit["bandwidth"] is None else fit["bandwidth"]
    return Cost(fit["latency"], bandwidth, fit["per_message"], fit["r2"], fit["worst"])


def rows_of(
    nodes: int, graphs: list[str] | None, payload: int, cost: Cost, compute: Compute
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return one row per graph, and why other graphs were left out.

    Without `graphs`, all families are tried and those that `nodes` does not suit are left out. An
    unsuitable graph that was named is an error.
    """
    rows, left_out = [], []
    for spec in graphs or FAMILIES:
        try:
            rows.append(_row(nodes, spec, payload, cost, compute))
        except UserError as error:
            if graphs is not None:
                raise
            left_out.append(f"{spec}: {error}")
    return rows, left_out


def _row(nodes: int, spec: str, payload: int, cost: Cost, compute: Compute) -> dict[str, Any]:
    network = build_network(spec, None, nodes)
    # of pull and push, the slower one decides
    rates = list(network.rates.values())
    mixing = None if None in rates else max(rate for rate in rates if rate is not None)
    degree = max(int(shape.out_degrees.max()) for shape in network.shapes)
    own, exchange = compute.seconds(degree), cost.seconds(degree, payload)
    total = own + exchange
    halving = None
    if mixing is not None:
        halving = total * (math.log(2) / -math.log(mixing) if mixing > 1e-15 else 1)
    return {
        "graph": spec,
        "degree": degree,
        "bytes_per_rank": degree * payload,
        "compute": own,
        "communication": exchange,
        "iteration": total,
        "iterations_per_second": 1 / total if total else None,
        "rho_A": mixing,
        "seconds_to_halve_disagreement": halving,
    }


def check(directory: Path, cost: Cost) -> dict[str, Any]:
    """Compare the prediction for a profiled run with its measured time."""
    profile, facts = _read(directory)
    config = facts["config"]
    degree = facts["graph"]["degree_max"]
    sent = max(profile["bytes_by_rank"], default=0) / profile["iterations"]
    # ranks that share a core take turns
    own = profile["own_seconds"] * max(1.0, facts["ranks_per_core"])
    predicted = own + cost.seconds(degree, sent / max(1, degree))
    measured = profile["seconds_per_iteration"]
    return {
        "run": str(directory),
        "what": f"{config['problem']} on {config['graph'] or 'er'}, {len(facts['hosts'])} ranks",
        "predicted": predicted,
        "measured": measured,
        "error": predicted / measured - 1,
    }
