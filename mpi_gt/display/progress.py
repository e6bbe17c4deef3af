"""display.progress."""

import sys
from collections.abc import Callable
from typing import Protocol

from .console import console, on_terminal


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
