"""Threads that take turns: one runs at a time, in order, until it waits for another."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np


class Abandoned(BaseException):
    """The end of a thread whose work is of no use any more: another's has failed."""


class Stuck(Exception):
    """Threads that wait for others, none of which goes on; `waiting` holds their numbers."""

    def __init__(self, waiting: list[int]) -> None:
        super().__init__(f"threads {waiting} wait for each other")
        self.waiting = waiting


class Turns:
    """`count` threads, each of which runs until it waits or its work is done.

    Since only one of them runs, and always the lowest that can, the order of all that they do is
    fixed. `close` ends them.
    """

    def __init__(self, count: int) -> None:
        self._caller = _closed_gate()
        self._gates = [_closed_gate() for _ in range(count)]
        self._work: Callable[[int], Any] | None = None  # None: all threads are to end
        self._ready: dict[int, Callable[[], bool]] = {}  # by thread, of those that still work
        self._results: list[Any] = []
        self._error: BaseException | None = None
        self._threads: list[threading.Thread] = []

    def run(self, work: Callable[[int], Any]) -> list[Any]:
        """Return work(i) for each thread i; raise what one of them raises, or Stuck."""
        count = len(self._gates)
        self._work, self._results = work, [None] * count
        self._ready = dict.fromkeys(range(count), _always)
        if not self._threads:
            self._threads = [
                threading.Thread(target=self._serve, args=(i,), name=f"node {i}", daemon=True)
                for i in range(count)
            ]
            for thread in self._threads:
                thread.start()
        try:
            while self._ready:
                able = [i for i in sorted(self._ready) if self._ready[i]()]
                if not able:
                    raise Stuck(sorted(self._ready))
                for i in able:
                    self._give_turn(i)
        except BaseException:
            self.close()
            raise
        return self._results

    def wait_until(self, i: int, ready: Callable[[], bool]) -> None:
        """Let the other threads run until `ready()`. Called by thread i."""
        if ready():
            return
        self._ready[i] = ready
        self._caller.release()
        self._gates[i].acquire()
        if self._work is None:
            raise Abandoned

    def close(self) -> None:
        """End all threads; those that wait raise Abandoned."""
        self._work = None
        for i, thread in enumerate(self._threads):
            self._gates[i].release()
            thread.join()
        self._threads = []

    def _give_turn(self, i: int) -> None:
        self._gates[i].release()
        self._caller.acquire()
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _serve(self, i: int) -> None:
        """Do the work of thread i, time and again."""
        while True:
            self._gates[i].acquire()
            if self._work is None:
                return
            try:
                with np.errstate(all="ignore"):  # a setting of each thread
                    self._results[i] = self._work(i)
            except Abandoned:
                return
            except BaseException as error:
                self._error = error
            del self._ready[i]
            self._caller.release()


def _always() -> bool:
    return True


def _closed_gate() -> threading.Lock:
    gate = threading.Lock()
    gate.acquire()
    return gate
