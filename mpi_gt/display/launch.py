"""The progress of a run that another process carries out, as its metrics.csv tells."""

import sys
from pathlib import Path
from typing import Any

from ..rundir.metrics_csv import is_number, read_last_row
from ..rundir.run_json import planned_iterations, read_facts
from .console import on_terminal
from .progress import Bar, Lines, NotebookLine, Progress, Silent, in_notebook


def choose(progress: bool | None) -> Progress:
    """Return the display of a launched run; None: a bar on a terminal or in a notebook only."""
    if progress is False or (progress is None and not (in_notebook() or on_terminal())):
        return Silent()
    if in_notebook():
        return NotebookLine()
    return Bar() if on_terminal() else Lines()


class LaunchDisplay:
    """A display that follows a run directory for as long as the context is open."""

    def __init__(self, directory: Path, progress: bool | None) -> None:
        self._directory = directory
        self._choice = progress
        self._progress: Progress | None = None
        self._label: str | None = None
        self._seen: tuple[str, str] | None = None

    def __enter__(self) -> "LaunchDisplay":
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress is not None and self._label is not None:
            self._progress.end()

    def update(self) -> None:
        """Show the latest measurement, if there is a new one."""
        if self._choice is False:
            return
        row = read_last_row(self._directory)
        seen = (row.get("algorithm", ""), row.get("iteration", ""))
        if row and seen != self._seen:
            self._seen = seen
            self._show(row)

    def note(self, text: str) -> None:
        """Show a message beside the progress, whatever there is of it."""
        if self._progress is None or type(self._progress) is Silent:
            print(f"mpi-gt: {text}", file=sys.stderr, flush=True)
        else:
            self._progress.note(text)

    def _show(self, row: dict[str, Any]) -> None:
        new = row["algorithm"] != self._label
        facts = read_facts(self._directory) if new else {}
        if new and not facts:
            return
        if self._progress is None:
            self._progress = choose(self._choice)
            for warning in facts.get("warnings", []):
                self._progress.note(f"warning: {warning}")
        if new:
            if self._label is not None:
                self._progress.end()
            self._label = row["algorithm"]
            self._progress.begin(self._label, planned_iterations(facts, self._label))
        metrics = [
            f"{name} {float(row[name]):{form}}"
            for name, form in (("loss", ".6g"), ("gap", ".3e"))
            if is_number(row.get(name))
        ]
        shown = "  ".join([*metrics, f"{float(row['seconds']):.1f} s"])
        self._progress.update(int(row["iteration"]), lambda: shown)
