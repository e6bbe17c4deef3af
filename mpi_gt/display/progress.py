"""The progress of a run or a study on standard error: bars on a terminal, else plain lines."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from ..algorithms import display_name, full_name
from .console import console, on_terminal

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as RichProgress


class Progress(Protocol):
    """A display of one algorithm after the other.

    `update` calls `describe` for the text beside the iteration only if it shows the text; `note`
    prints a message without disturbing the display.
    """

    def begin(self, label: str, total: int) -> None: ...
    def update(self, iteration: int, describe: Callable[[], str]) -> None: ...
    def note(self, text: str) -> None: ...
    def end(self) -> None: ...


class Silent:
    """A progress display that shows nothing."""

    def begin(self, label: str, total: int) -> None:
        pass

    def update(self, iteration: int, describe: Callable[[], str]) -> None:
        pass

    def note(self, text: str) -> None:
        pass

    def end(self) -> None:
        pass


class Lines(Silent):
    """About twenty lines per algorithm, however many iterations it has."""

    def begin(self, label: str, total: int) -> None:
        self._total = total
        self._name = full_name(label)
        self._next = 0

    def update(self, iteration: int, describe: Callable[[], str]) -> None:
        if iteration >= self._next or iteration == self._total:
            self._next = iteration + max(1, self._total // 20)
            width = len(str(self._total))
            self.note(f"{self._name}  iteration {iteration:{width}d}/{self._total}  {describe()}")

    def note(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


class Bar:
    """A bar per algorithm, with the iteration, the time left and the latest metrics."""

    def __init__(self) -> None:
        self._console = console(sys.stderr)

    def begin(self, label: str, total: int) -> None:
        # with less than 100 columns, the full name would leave no room for the bar
        short = self._console.width < 100 and ":" not in label
        name = display_name(label) if short else full_name(label)
        if len(name) > self._console.width // 3:  # the bar would cut it
            self.note(name)
            name = ""
        self._bar = _rich_bar(self._console)
        self._task = self._bar.add_task("", total=total, name=name)
        self._bar.start()

    def update(self, iteration: int, describe: Callable[[], str]) -> None:
        self._bar.update(self._task, completed=iteration, description=describe())

    def note(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False)

    def end(self) -> None:
        self._bar.stop()


class NotebookLine(Silent):
    """One line of a notebook's output per algorithm, which each update replaces."""

    _handle: Any = None

    def begin(self, label: str, total: int) -> None:
        self._total = total
        self._name = full_name(label)
        self._handle = None

    def update(self, iteration: int, describe: Callable[[], str]) -> None:
        done = round(20 * iteration / self._total)
        bar = "█" * done + "░" * (20 - done)
        text = f"{self._name}  {iteration}/{self._total}  {bar}  {describe()}"
        content = {"text/plain": text}
        if self._handle is None:
            display = sys.modules["IPython"].display.display
            self._handle = display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)

    def note(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


def in_notebook() -> bool:
    """Return whether this process runs the cells of a notebook, which shows its output."""
    if "IPython" not in sys.modules:
        return False
    return hasattr(sys.modules["IPython"].get_ipython(), "kernel")


class StudyBar:
    """A bar for a whole study, and below it one for each algorithm that has begun."""

    def __init__(self, title: str, total: int) -> None:
        self._bar = _rich_bar(console(sys.stderr))
        self._whole = self._bar.add_task("", total=total, name=title)
        self._bar.start()

    def begin(self, label: str, total: int) -> None:
        self._task = self._bar.add_task("", total=total, name=f"  {full_name(label)}")

    def update(self, iteration: int, iterations_of_study: int) -> None:
        self._bar.update(self._task, completed=iteration)
        self._bar.update(self._whole, completed=iterations_of_study)

    def end(self) -> None:
        self._bar.stop()


def _rich_bar(output: "Console") -> "RichProgress":
    """Build the bar of all displays: its tasks have a `name`, and may have a description."""
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    return RichProgress(
        # without markup: a label may contain square brackets
        TextColumn("{task.fields[name]}  {task.completed}/{task.total}", markup=False),
        BarColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
        console=output,
    )


def choose_progress(quiet: bool) -> Progress:
    """Return the progress display for a run."""
    if quiet:
        return Silent()
    return Bar() if on_terminal() else Lines()
