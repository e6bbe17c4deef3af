"""Requests to stop a run at a checkpoint: signals to this process, and the file DIR/stop."""

import signal
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from ..rundir.layout import STOP_FILE

POLL_SECONDS = 0.5  # from one check for the stop file to the next


class StopRequest:
    """A request to this process to stop. Only the command line lets signals set it."""

    def __init__(self) -> None:
        self._requested = False
        self.wake: Callable[[], None] = lambda: None
        """Called on a request, so that the compiled loop returns to Python and acts on it."""

    @property
    def requested(self) -> bool:
        return self._requested

    @requested.setter
    def requested(self, requested: bool) -> None:
        self._requested = requested
        self.wake()

    def listen(self, *numbers: signal.Signals) -> None:
        """Let these signals request a stop instead of ending the process."""
        for number in numbers:
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.requested and number == signal.SIGINT:
            raise KeyboardInterrupt  # a second Ctrl-C ends the process at once
        self.requested = True


class StopFile:
    """The file DIR/stop, for root. It is checked twice a second, not at each iteration.

    A system call per iteration would cost too much.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory / STOP_FILE
        self.next = 0.0
        """The time of the next check, by time.monotonic."""

    def exists(self, now: float) -> bool:
        """Return True if the file is there; return False between two checks of the disk."""
        if now < self.next:
            return False
        self.next = now + POLL_SECONDS
        return self._path.exists()
