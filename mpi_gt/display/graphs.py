"""The table of a graph for the terminal."""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .console import console, counted

if TYPE_CHECKING:
    from rich.table import Table

    from ..graphs import Network

MOST_ROWS = 20  # layers in the table


def show_graph(name: str, weights: str | None, network: "Network") -> None:
    """Show size, degrees, diameter and rates of a graph with its weights, and its layers."""
    from rich.table import Table
    from rich.text import Text

    facts = network.facts()
    rule = "pull and push" if network.directed else weights or "metropolis"
    table = Table(title=Text(f"{name}, {rule} weights"))
    table.add_column("quantity")
    table.add_column("value", justify="right")
    table.add_row("nodes", str(facts["nodes"]))
    table.add_row("arcs" if network.directed else "edges", str(facts["edges"]))
    degrees = (facts["degree_min"], facts["degree_mean"], facts["degree_max"])
    what = "targets" if network.directed else "degree"
    per_step = " in a step" if network.changes else ""
    row = "{} / {:.2f} / {}".format(*degrees)
    table.add_row(f"{what}{per_step}: smallest / mean / largest", row)
    if network.directed and not network.changes:
        heard = network.union.in_degrees
        row = f"{heard.min()} / {heard.mean():.2f} / {heard.max()}"
        table.add_row("sources: smallest / mean / largest", row)
    if network.changes:
        table.add_row("layers", f"{len(network.shapes)}, {facts['turns']}")
    length, sure = network.diameter()
    table.add_row("diameter", str(length) if sure else f"at least {length}")
    _add_rates(table, network)
    console(sys.stdout).print(table)
    if network.changes:
        console(sys.stdout).print(_layers(network))


def placement_sentence(facts: Mapping[str, Any]) -> str:
    """Return the facts of a placement in one line."""
    what = "arcs" if facts.get("directed") else "edges"
    layers = f" of all {facts['layers']} layers" if "layers" in facts else ""
    hosts = counted(facts["hosts"], "host")
    if facts["hosts"] == 1:
        return f"placement: {hosts}, so that no {what[:-1]} is between hosts"
    cut = f"{facts['between_hosts']:,} of {facts['edges']:,} {what}{layers} between hosts"
    return f"placement: {hosts}, {cut} ({facts['in_rank_order']:,} in rank order)"


def describe_rates(network: "Network", digits: int) -> str:
    """Return the rates in one line, such as `rho_A 0.1234`."""
    return ", ".join(
        f"rho_{kind} {_number(rate, f'.{digits}f')}" for kind, rate in network.rates.items()
    )


def _add_rates(table: "Table", network: "Network") -> None:
    for kind, rate in network.rates.items():
        what = f"rho_{kind}"
        if network.arcs.turns.seed is not None and network.changes:
            what += ", root mean square of a step"
        elif network.changes:
            what += f" per step, of a period of {len(network.shapes)}"
        table.add_row(what, _number(rate, ".12g"))
        if kind == "A" and not network.changes:
            gap = None if rate is None else 1 - rate
            table.add_row("spectral gap, 1 - rho_A", _number(gap, ".12g"))


def _number(value: float | None, form: str) -> str:
    return "not found" if value is None else f"{value:{form}}"


def _layers(network: "Network") -> "Table":
    """Return a table with one row per layer."""
    from rich.table import Table

    table = Table(title="layers")
    for name in ("layer", "edges or arcs", "largest degree", "nodes at rest"):
        table.add_column(name, justify="right")
    for number, shape in enumerate(network.shapes[:MOST_ROWS]):
        arcs = "arcs" if shape.directed else "edges"
        resting = int(((shape.out_degrees == 0) & (shape.in_degrees == 0)).sum())
        row: list[Any] = [number, f"{shape.edges} {arcs}", shape.out_degrees.max(), resting]
        table.add_row(*map(str, row))
    if len(network.shapes) > MOST_ROWS:
        table.add_row("...", f"{len(network.shapes) - MOST_ROWS} more", "", "")
    return table
