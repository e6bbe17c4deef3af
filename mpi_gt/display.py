"""What a person sees of a run: its progress, as a bar or as plain lines, and its result."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TextIO

if TYPE_CHECKING:
    from rich.console import Console

TERMINAL = "MPI_GT_TERMINAL"
"""Set by `mpi-gt run -n` to the width of the terminal it runs on, which ranks cannot see."""


class Progress(Protocol):
    def update(self, iteration: int, text: str) -> None: ...
    def note(self, text: str) -> None: ...
    def close(self) -> None: ...


class Silent:
    """Says nothing (but for warnings, where `note` is kept)."""

    def update(self, iteration: int, text: str) -> None:
        pass

    def note(self, text: str) -> None:
        pass

    def close(self) -> None:
        pass


class Lines(Silent):
    """About twenty lines, whatever the number of iterations."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._next = 0

    def update(self, iteration: int, text: str) -> None:
        if iteration >= self._next or iteration == self._total:
            self._next = iteration + max(1, self._total // 20)
            width = len(str(self._total))
            self.note(f"iteration {iteration:{width}d}/{self._total}  {text}")

    def note(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


class Bar:
    """A bar with the time left."""

    def __init__(self, total: int) -> None:
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        self._bar = RichProgress(
            TextColumn("iteration {task.completed}/{task.total}"),
            BarColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.description}"),
            console=console(sys.stderr),
        )
        self._task = self._bar.add_task("", total=total)
        self._bar.start()

    def update(self, iteration: int, text: str) -> None:
        self._bar.update(self._task, completed=iteration, description=text)

    def note(self, text: str) -> None:
        self._bar.console.print(text, markup=False, highlight=False)

    def close(self) -> None:
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
    from rich.table import Table

    config, graph = facts["config"], facts["graph"]
    table = Table(title=f"{config['algorithm']} on {config['problem']}, mean over seeds")
    table.add_column("measure")
    table.add_column("value", justify="right")
    for metric, value in facts["final"].items():
        if value is not None:
            table.add_row(metric, f"{value:.6e}")
    table.add_row("microseconds per iteration", f"{facts['seconds_per_iteration'] * 1e6:.1f}")
    table.add_row("bytes sent, all nodes", f"{facts['bytes_sent']:,}")
    table.add_row("graph", f"{graph['nodes']} nodes, {graph['edges']} edges")
    table.add_row("rho_A", f"{graph['rho_A']:.6f}")
    output = console(sys.stdout)
    output.print(table)
    for name in ("run.json", "metrics.csv", "final.npz", *facts.get("figures", [])):
        path = Path(config["out"], name)
        output.print(f"wrote {path}", markup=False, highlight=False, soft_wrap=True)
