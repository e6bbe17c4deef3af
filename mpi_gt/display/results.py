"""The tables of a finished run, a comparison and a sweep."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..algorithms import full_name, name_with_stepsize
from .channel import channel_sentences
from .console import console, counted

if TYPE_CHECKING:
    from rich.table import Table


METRICS = ("gap", "loss")
"""The metrics by which a sweep chooses stepsizes."""


def show(facts: dict[str, Any]) -> None:
    """Show the result of a run, a comparison or a sweep, and list the files it wrote."""
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
        output.print(_comparison_table(facts, output.width))
    for sentence in channel_sentences(facts):
        output.print(sentence, markup=False, highlight=False, soft_wrap=True)
    written = ["run.json", "metrics.csv", "final.npz", "audit.json", *facts.get("figures", [])]
    if config["profile"]:
        written += ["profile.json", "profile.npz", "profile.png", "trace.json"]
    if config["algorithms"] is not None:
        written += ["summary.json", "sweep.json"]
    for path in (Path(config["out"], name) for name in written):
        if path.exists():
            output.print(f"wrote {path}", markup=False, highlight=False, soft_wrap=True)


def names_of(facts: Mapping[str, Any]) -> dict[str, str]:
    """Return the name of each method of a run by its label, with the stepsize."""
    methods = facts["options"]["algorithm"]
    return {
        label: name_with_stepsize(label, method["options"].get("lr"))
        for label, method in methods.items()
    }


def _result_table(facts: dict[str, Any]) -> "Table":
    from rich.table import Table
    from rich.text import Text

    config, graph = facts["config"], facts["graph"]
    (label,) = facts["results"]
    seeds = counted(config["seeds"], "seed")
    over = f"mean over {seeds}" if config["seeds"] > 1 else seeds
    title = f"{names_of(facts)[label]} on {config['problem']}"
    table = Table(title=Text(title), caption=f"metrics at the last iteration, {over}")
    table.add_column("quantity")
    table.add_column("value", justify="right")
    for metric, value in facts["final"].items():
        if value is not None:
            table.add_row(metric, f"{value:.6e}")
    if "test_accuracy" in facts:
        table.add_row("test accuracy", f"{facts['test_accuracy']:.4f}")
    table.add_row("time per iteration (µs)", f"{facts['seconds_per_iteration'] * 1e6:.1f}")
    # of one seed, as in metrics.csv: run.json has the bytes of all seeds
    each = facts["bytes_sent"] // config["seeds"]
    table.add_row("bytes sent per seed, all nodes", f"{each:,}")
    if facts.get("gradients") is not None:
        whose = "node 0" if facts.get("channel", {}).get("inactive") else "each node"
        table.add_row(f"sample gradients per seed, {whose}", f"{facts['gradients']:,}")
    what = "arc" if graph.get("directed") else "edge"
    table.add_row("graph", f"{graph['nodes']} nodes, {counted(graph['edges'], what)}")
    for name in ("rho_A", "rho_pull", "rho_push"):
        if graph.get(name) is not None:
            table.add_row(name, f"{graph[name]:.6f}")
    return table


def length_of(config: Mapping[str, Any]) -> str:
    """Return how long a run goes on: its iterations or its budget, for display."""
    if config.get("budget"):
        return f"budget {config['budget']}"
    return counted(config["iterations"], "iteration")


def _comparison_table(facts: dict[str, Any], width: int) -> "Table":
    """Build the table of a comparison so that it fits into `width` columns, 80 or more."""
    from rich.table import Table
    from rich.text import Text

    config, summary = facts["config"], facts["summary"]
    title = (
        f"{config['problem']}, {length_of(config)}, "
        f"{counted(config['seeds'], 'seed')}: "
        "means over seeds and the last fifth of the logged iterations"
    )
    caption = (
        "µs, bytes: per iteration (bytes of all nodes, one seed)\n"
        "gap < 1e-3 at: first logged iteration with such a gap"
    )
    padding = 0 if width < 100 else 1
    table = Table(title=Text(title), caption=Text(caption), padding=(0, padding))
    table.add_column("method", overflow="fold")
    for name in ("loss", "gap", "‖∇f(x̄)‖²", "consensus", "µs", "bytes", "gap <\n1e-3 at"):
        table.add_column(name, justify="right")
    names = names_of(facts)
    for label, row in summary.items():
        name = names[label]
        method = Text(name if width >= 120 else name.replace(" (", "\n("))
        if "error" in row:
            table.add_row(method, "diverged")
            continue
        first = row["first_below_1e-3"]
        table.add_row(
            method,
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
    title = (
        f"{config['problem']}, {length_of(config)}, "
        f"{counted(config['seeds'], 'seed')}: each method at its own best stepsize; "
        "means over seeds and the last fifth of the logged iterations"
    )
    ends = any(_at_end(swept, metric) for swept in facts["sweep"].values() for metric in METRICS)
    caption = "(!): at the end of the range, beyond which it may be better still" if ends else None
    table = Table(title=Text(title), caption=caption)
    table.add_column("method", overflow="fold")
    for name in ("lr of the smallest gap", "gap", "lr of the smallest loss", "loss"):
        table.add_column(name, justify="right")
    for method, swept in facts["sweep"].items():
        cells = []
        for metric in METRICS:
            best = swept[f"best_{metric}"]
            mark = " (!)" if _at_end(swept, metric) else ""
            cells += [f"{best['lr']:g}{mark}", f"{best[metric]:.4g}"] if best else ["diverged", "-"]
        table.add_row(Text(full_name(method)), *cells)
    return table


def _at_end(swept: dict[str, Any], metric: str) -> bool:
    """Return whether the best stepsize is the smallest or the largest that was tried."""
    tried, best = swept["lr"], swept[f"best_{metric}"]
    return bool(best) and len(tried) > 1 and best["lr"] in (min(tried), max(tried))
