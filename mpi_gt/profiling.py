"""Where the time goes."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Clock:
    """Seconds since it was made, less those while it was paused; begins with `passed`."""

    def __init__(self, passed: float = 0.0) -> None:
        self._started = time.perf_counter() - passed
        self._paused = 0.0
        self._pause_began: float | None = None

    @property
    def seconds(self) -> float:
        now = time.perf_counter() if self._pause_began is None else self._pause_began
        return now - self._started - self._paused

    @contextmanager
    def paused(self) -> Iterator[None]:
        self._pause_began = time.perf_counter()
        try:
            yield
        finally:
            self._paused += time.perf_counter() - self._pause_began
            self._pause_began = None
