"""Progress of a study, on standard error and in progress.log."""

import contextlib
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ..algorithms import full_name
from ..algorithms.budget import Budget, Cost
from ..display.console import on_terminal
from ..display.progress import StudyBar
from ..rundir.metrics_csv import read_last_row

if TYPE_CHECKING:
    from .study import Study


class StudyProgress:
    """The progress of a study and its present algorithm, on standard error and in progress.log."""

    def __init__(self, study: "Study", pending: list[str], quiet: bool) -> None:
        self._study = study
        self._pending = pending
        self._quiet = quiet
        self._began = time.monotonic()
        self._done = 0
        self._total = sum(map(self._units, pending))
        self._next_line = 0.0
        self._log = (study.directory / "progress.log").open("a", encoding="utf-8")
        show_bar = not quiet and on_terminal()
        self._bar = StudyBar(study.title, self._total) if show_bar else None

    def begin(self, label: str) -> None:
        """Announce the next algorithm, and remove the measurements of an unfinished run of it."""
        self._label = label
        self._name = full_name(label)
        self._size = self._units(label)
        (Path(self._study.runs[label].out or "") / "metrics.csv").unlink(missing_ok=True)
        number = self._pending.index(label) + 1
        self._line(f"{self._name} ({number} of {len(self._pending)}): started")
        if self._bar:
            self._bar.begin(label, self._size)

    def refresh(self) -> None:
        """Show the iteration that the ranks have reached; the front end calls this now and then."""
        last = read_last_row(Path(self._study.runs[self._label].out or ""))
        iteration = self._reached(last)
        if self._bar:
            self._bar.update(iteration, self._done + iteration)
        share = (self._done + iteration) / self._total
        if time.monotonic() >= self._next_line and share > 0:
            self._next_line = time.monotonic() + 10
            spent = time.monotonic() - self._began
            self._line(
                f"{self._name} {self._shown(iteration)}; {100 * share:.0f}% of all, "
                f"{spent:.0f} s so far, about {spent / share - spent:.0f} s left"
            )

    def _units(self, label: str) -> int:
        """Return the iterations of a run, of all its methods; of a budget, in thousandths of it."""
        config = self._study.runs[label]
        if config.budget is not None:
            return 1000
        return config.iterations * (1 if config.algorithms is None else len(config.entries()))

    def _shown(self, reached: int) -> str:
        if self._study.budgeted:
            return f"{reached / 10:.0f}% of its budget"
        return f"iteration {reached}/{self._size}"

    def _reached(self, last: Mapping[str, str]) -> int:
        """Return how far the present run is by its last row, in the same units."""
        config = self._study.runs[self._label]
        budget = config.budget
        if budget is None:
            reached = int(last.get("iteration") or 0)
            if config.algorithms is not None and last.get("algorithm"):
                labels = [entry.label for entry in config.entries()]
                reached += config.iterations * labels.index(last["algorithm"])
            return reached
        limit = Budget.of(budget)
        spent = Cost(int(last.get("gradients") or 0), int(last.get("bytes") or 0))
        return min(1000, int(1000 * limit.share(spent)))

    def end(self) -> None:
        """Announce that the present algorithm is done."""
        self._done += self._size
        if self._bar:
            self._bar.update(self._size, self._done)
        self._line(f"{self._name}: done")

    def close(self) -> None:
        """Remove the bar and close progress.log."""
        if self._bar:
            self._bar.end()
        with contextlib.suppress(OSError):
            self._log.close()

    def _line(self, text: str) -> None:
        with contextlib.suppress(OSError):  # a full disk: the runs will say so
            print(f"{time.strftime('%H:%M:%S')} {text}", file=self._log, flush=True)
        if not self._quiet and self._bar is None:
            print(f"{self._study.name}: {text}", file=sys.stderr, flush=True)
