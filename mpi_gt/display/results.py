"""What a person sees of a run: its progress, as a bar or as plain lines, and its result."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .console import console

if TYPE_CHECKING:
    from rich.table import Table

    from ..graphs import Network


def show(facts: dict[str, Any]) -> None:
    """The result as a table, and where to find it."""
    config = facts["config"]
    output = console(sys.stdout)
    if config["algorithms"] is None:
        output.print(_result_table(facts))
        if "audit" in facts:
            from .theory import show_audit

            show_audit(facts["audit"], output)
    elif config["lr"] is not None:
        output.print(_sweep_table(facts))
    else:
        output.print(_comparison_table(facts))
    written = ["run.json", "metrics.csv", "final.npz", "audit.json", *facts.get("figures", [])]
    if config["profile"]:
        written += ["profile.json", "profile.npz", "profile.png", "trace.json"]
    if config["algorithms"] is not None:
        written += ["summary.json", "sweep.json"]
    for path in (Path(config["out"], name) for name in written):
        if path.exists():
            output.print(f"wrote {path}", markup=False, highlight=False, soft_wrap=True)


def _result_table(facts: dict[str, Any]) -> "Table":
    from rich.table import Table
    from rich.text import Text

    config, graph = facts["config"], facts["graph"]
    (label,) = facts["results"]
    table = Table(title=Text(f"{label} on {config['problem']}, mean over seeds"))
    table.add_column("measure")
    table.add_column("value", justify="right")
    for metric, value in facts["final"].items():
        if value is not None:
            table.add_row(metric, f"{value:.6e}")
    if "test_accuracy" in facts:
        table.add_row("test accuracy", f"{facts['test_accuracy']:.4f}")
    table.add_row("microseconds per iteration", f"{facts['seconds_per_iteration'] * 1e6:.1f}")
    table.add_row("bytes sent, all nodes", f"{facts['bytes_sent']:,}")
    table.add_row("graph", f"{graph['nodes']} nodes, {graph['edges']} edges")
    table.add_row("rho_A", f"{graph['rho_A']:.6f}")
    return table


def _comparison_table(facts: dict[str, Any]) -> "Table":
    from rich.table import Table
    from rich.text import Text

    config, summary = facts["config"], facts["summary"]
    title = (
        f"{config['problem']}, {config['iterations']} iterations, {config['seeds']} seeds: "
        "means over seeds and the last fifth of the logged iterations"
    )
    table = Table(title=Text(title))
    table.add_column("algorithm")
    for name in ("loss", "gap", "‖∇f‖²", "consensus", "µs/it", "bytes/it", "gap < 1e-3 at"):
        table.add_column(name, justify="right")
    for label, row in summary.items():
        if "error" in row:
            table.add_row(Text(label), "diverged")
            continue
        first = row["first_below_1e-3"]
        table.add_row(
            Text(label),
            f"{row['loss']:.6g}",
            *(f"{row[metric]:.2e}" for metric in ("gap", "grad_norm2", "consensus")),
            f"{row['seconds_per_iteration'] * 1e6:.0f}",
            f"{row['bytes_per_iteration']:,.0f}",
            "-" if first is None else str(first),
        )
    return table


def _sweep_table(facts: dict[str, Any]) -> "Table":
    from rich.table import Table
    from rich.text import Text

    config = facts["config"]
    table = Table(title=Text(f"{config['problem']}: each method at its own best stepsize"))
    table.add_column("method")
    for name in ("lr for the gap", "gap", "lr for the loss", "loss"):
        table.add_column(name, justify="right")
    for method, of in facts["sweep"].items():
        cells = []
        for metric in ("gap", "loss"):
            best = of[f"best_{metric}"]
            cells += [f"{best['lr']:g}", f"{best[metric]:.4g}"] if best else ["diverged", "-"]
        table.add_row(Text(method), *cells)
    return table


def show_graph(name: str, weights: str, network: "Network") -> None:
    """What decides how fast averages spread over a graph, and what a node has to send."""
    import networkx as nx
    from rich.table import Table
    from rich.text import Text

    facts = network.facts()
    table = Table(title=Text(f"{name}, {weights} weights"))
    table.add_column("measure")
    table.add_column("value", justify="right")
    table.add_row("nodes", str(facts["nodes"]))
    table.add_row("edges", str(facts["edges"]))
    degrees = (facts["degree_min"], facts["degree_mean"], facts["degree_max"])
    table.add_row("degree, least / mean / most", "{} / {:.2f} / {}".format(*degrees))
    table.add_row("diameter", str(nx.diameter(network.graph)))
    table.add_row("rho_A", f"{facts['rho_A']:.12g}")
    table.add_row("spectral gap, 1 - rho_A", f"{1 - facts['rho_A']:.12g}")
    console(sys.stdout).print(table)


def show_runs(runs: list[dict[str, str]]) -> None:
    """One line a run, and below the table what is to be said of it."""
    from rich.table import Table
    from rich.text import Text

    table = Table()
    for name in runs[0]:
        if name != "note":
            table.add_column(name, overflow="fold")
    for run in runs:
        table.add_row(*(Text(cell) for name, cell in run.items() if name != "note"))
    output = console(sys.stdout)
    output.print(table)
    for run in runs:
        if run["note"]:
            note = f"{run['run']}: {run['note']}"
            output.print(note, markup=False, highlight=False, soft_wrap=True)
