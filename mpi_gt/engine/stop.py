"""Requests to stop in an orderly way: signals to this process, and the file DIR/stop."""

import signal
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from ..rundir.layout import STOP_FILE

LOOK_EVERY = 0.5  # seconds from one look for the file to the next


class StopRequest:
    """Whether this process was asked to stop. Only the command line has it listen to signals."""

    def __init__(self) -> None:
        self._asked = False
        self.wake: Callable[[], None] = lambda: None
        """Called when it is: whoever looks only now and then shall look."""

    @property
    def asked(self) -> bool:
        return self._asked

    @asked.setter
    def asked(self, asked: bool) -> None:
        self._asked = asked
        self.wake()

    def listen(self, *numbers: signal.Signals) -> None:
        """From now on these signals no longer end the process, but ask it to stop."""
        for number in numbers:
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.asked and number == signal.SIGINT:
            raise KeyboardInterrupt  # asked twice: at once
        self.asked = True


class StopFile:
    """Root's look for DIR/stop, now and then: a look at each iteration would cost too much."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / STOP_FILE
        self._next = 0.0

    def is_there(self, now: float) -> bool:
        if now < self._next:
            return False
        self._next = now + LOOK_EVERY
        return self._path.exists()
