"""The same method on several networks: runs, table and claims of the variant `networks`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from ..algorithms import display_name
from ..config import RunConfig
from ..errors import UserError
from .claims import Field
from .judging import Array, Measured, judge

VARIANT = "networks"
AGAINST = ("iteration", "bytes")
"""The horizontal axes of the figure, which has the gap against each of them."""
DENSE, ONE_PEER, RING, DIRECTED = "er", "one peer", "ring", "digraph"
"""Names of networks in the experiment's file, of which the claims speak."""


def configs_of(
    networks: Sequence[Mapping[str, str]], config: RunConfig, overrides: Mapping[str, Any]
) -> dict[str, RunConfig]:
    """Return the run on each network of the experiment's file, by label."""
    for option in ("graph", "weights", "matchings", "algorithms"):
        if option in overrides:
            raise UserError(f"the variant {VARIANT} has its own {option}: leave --{option} out")
    runs = {}
    for network in networks:
        options = dict(network)
        name = options.pop("name")
        own = replace(config, algorithms=None, **options)  # type: ignore[arg-type]
        runs[f"{own.entries()[0].label.partition(':')[0]}:graph={name}"] = own
    return runs


def name_of(label: str) -> str:
    """Return the name of the network in a label."""
    return label.partition("=")[2]


class EqualBytes:
    """Every run cut where it has sent as many bytes as the cheapest one sends in all."""

    def __init__(self, rows: Iterable[Mapping[str, Any]]) -> None:
        self._rows: dict[str, list[Mapping[str, Any]]] = {}
        for row in rows:
            self._rows.setdefault(row["algorithm"], []).append(row)
        totals = [max(int(row["bytes"]) for row in own) for own in self._rows.values()]
        self.bytes = min(totals, default=0)
        kept = [
            row for own in self._rows.values() for row in own if int(row["bytes"]) <= self.bytes
        ]
        self.measured = Measured(kept)
        self.iterations = {
            label: max(int(row["iteration"]) for row in kept if row["algorithm"] == label)
            for label in self._rows
        }


def judge_networks(
    rows: Sequence[Mapping[str, Any]], field: Field | None = None
) -> list[dict[str, Any]]:
    """Judge what a network does to the gap, at equal iterations and at equal bytes."""
    whole, cut = Measured(rows), EqualBytes(rows).measured
    labels = {name_of(label): label for label in whole.labels}

    def log_gap(measured: Measured, name: str) -> Array:
        return np.log10(measured.tail(labels[name], "gap"))

    def within_two(name: str) -> tuple[Array, Array]:
        return log_gap(whole, ONE_PEER), log_gap(whole, name) + np.log10(2)

    def at_equal_bytes(name: str) -> tuple[Array, Array]:
        return log_gap(cut, ONE_PEER), log_gap(cut, name)

    def directed(name: str) -> tuple[Array, Array]:
        return log_gap(whole, DIRECTED), log_gap(whole, name) + np.log10(2)

    def verdict(claim: str, measure: str, smaller: Any, ours: str, others: list[str]) -> Any:
        missing = [name for name in (ours, *others) if name not in labels]
        ran = [name for name in others if name in labels] if ours in labels else []
        return judge(
            claim, measure, smaller, ran, missing,
            steps=lambda name: (field or Field()).steps(labels[ours], labels[name]),
        )  # fmt: skip

    last = "log10 of the mean gap over the last fifth"
    verdicts = [
        verdict(
            "with one peer per step the gap is at most twice that on er, after as many steps",
            last + f", {ONE_PEER} minus twice {{other}}", within_two, ONE_PEER, [DENSE],
        ),
        verdict(
            "with one peer per step the gap is smaller than on er and ring, after as many bytes",
            last + f" of the steps that the bytes allow, {ONE_PEER} minus {{other}}",
            at_equal_bytes, ONE_PEER, [DENSE, RING],
        ),
        verdict(
            "on a directed graph the push-pull form has at most twice the gap of Algorithm 1 on er",
            last + f", {DIRECTED} minus twice {{other}}", directed, DIRECTED, [DENSE],
        ),
    ]  # fmt: skip
    return [asdict(each) for each in verdicts]


def _rate(graph: Mapping[str, Any]) -> str:
    """Return how fast mixing averages: rho_A, or without A the slower of pull and push."""
    rates = [graph[key] for key in ("rho_A", "rho_pull", "rho_push") if graph.get(key) is not None]
    return f"{max(rates):.3f}" if rates else ""


def network_table(
    rows: Sequence[Mapping[str, Any]], graphs: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    """Give the lines of the table of networks; `graphs` are the facts of each run's graph."""
    cut = EqualBytes(rows)
    whole = Measured(rows)
    yield (
        "| network | method | rho of a step | gap after all steps "
        f"| gap after {cut.bytes / 1e6:,.1f} MB | steps for these bytes |"
    )
    yield "|---|---|---|---|---|---|"
    for label, graph in graphs.items():
        gaps = [float(each.tail(label, "gap").mean()) for each in (whole, cut.measured)]
        yield (
            f"| {name_of(label)} | {display_name(label)} | {_rate(graph)} | {gaps[0]:.2e} "
            f"| {gaps[1]:.2e} | {cut.iterations[label]} |"
        )
