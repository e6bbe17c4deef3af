"""What a person sees of a run: its progress, as a bar or as plain lines, and its result."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from ..graphs import Network

TERMINAL = "MPI_GT_TERMINAL"
"""Set by `mpi-gt run -n` to the width of the terminal it runs on, which ranks cannot see."""


class Progress(Protocol):
    """Shows one algorithm after the other; `note` is for what must be said meanwhile."""

    def begin(self, label: str) -> None: ...
    def update(self, iteration: int, tell: Callable[[], str]) -> None: ...
    def note(self, text: str) -> None: ...
    def end(self) -> None: ...


class Silent:
    def begin(self, label: str) -> None:
        pass

    def update(self, iteration: int, tell: Callable[[], str]) -> None:
        pass

    def note(self, text: str) -> None:
        pass

    def end(self) -> None:
        pass


class Lines(Silent):
    """About twenty lines an algorithm, whatever the number of iterations."""

    def __init__(self, total: int) -> None:
        self._total = total

    def begin(self, label: str) -> None:
        self._label = label
        self._next = 0

    def update(self, iteration: int, tell: Callable[[], str]) -> None:
        if iteration >= self._next or iteration == self._total:
            self._next = iteration + max(1, self._total // 20)
            width = len(str(self._total))
            self.note(f"{self._label}  iteration {iteration:{width}d}/{self._total}  {tell()}")

    def note(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


class Bar:
    """A bar with the time left."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._console = console(sys.stderr)

    def begin(self, label: str) -> None:
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        self._bar = RichProgress(
            TextColumn("{task.fields[label]}  {task.completed}/{task.total}", markup=False),
            BarColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.description}"),
            console=self._console,
        )
        self._task = self._bar.add_task("", total=self._total, label=label)
        self._bar.start()

    def update(self, iteration: int, tell: Callable[[], str]) -> None:
        self._bar.update(self._task, completed=iteration, description=tell())

    def note(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False)

    def end(self) -> None:
        self._bar.stop()


def choose_progress(total: int, quiet: bool) -> Progress:
    if quiet:
        return Silent()
    return Bar(total) if on_terminal() else Lines(total)


def on_terminal() -> bool:
    """Open MPI gives its ranks a pseudo-terminal as standard output, so both must be one."""
    return TERMINAL in os.environ or (sys.stdout.isatty() and sys.stderr.isatty())


def console(file: TextIO) -> "Console":
    from rich.console import Console

    options: dict[str, Any] = {}
    if TERMINAL in os.environ:
        options = {"force_terminal": True, "width": int(os.environ[TERMINAL])}
    elif not on_terminal():
        options = {"force_terminal": False, "width": 100}
    return Console(file=file, **options)


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
