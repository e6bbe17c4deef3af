"""Ends a rank that waits for others too long, and tells for whom it waits.

A thread beside the loop, which never calls MPI: it only looks, a few times within the limit,
whether the rank is still in the same wait. An exchange may take `limit` seconds. What all ranks do
together (measuring, saving) may take that and ten times the longest that this rank has been at
work by itself: the others' share of the work takes about as long as its own.

Who is silent: a neighbour whose stamp in the receive buffer is not of this iteration. Where all
stamps are (it is our own message that nobody takes), a neighbour that does not report to be stuck.
"""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import STUCK_EXIT_CODE, StorageError
from ..rundir.atomic import write_json
from ..rundir.layout import WATCHDOG
from ..rundir.run_json import mark_failed
from ..rundir.watchdog_reports import read_reports

PATIENCE = 10  # times the longest own work, for what all ranks do together


class Watchdog:
    """Looks after one rank's node while it is entered; `limit` 0 looks at nothing."""

    def __init__(
        self, node: Any, limit: float, directory: Path | None, hosts: Sequence[str]
    ) -> None:
        self._node = node
        self._limit = limit
        self._directory = directory
        self._hosts = hosts  # of the neighbours
        self._tick = min(1.0, limit / 8)
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> "Watchdog":
        if self._limit:
            self._thread = threading.Thread(target=self._look, name="watchdog", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _look(self) -> None:
        waited = worked = longest = 0.0
        last = -1
        before = time.monotonic()
        while not self._over.wait(self._tick):
            now = time.monotonic()
            # a rank that was itself suspended has not waited all that time
            passed, before = min(now - before, 2 * self._tick), now
            waiting, waits = self._node.waiting, self._node.waits
            if waiting is None:
                worked = worked + passed if waits == last else passed
                longest, waited = max(longest, worked), 0.0
            else:
                waited = waited + passed if waits == last else 0.0
                if waited > self._limit and waited > self._limit + self._slack(waiting, longest):
                    self._end(waiting, waited)
            last = waits

    def _slack(self, waiting: Any, longest: float) -> float:
        if _is_joint(waiting):
            return PATIENCE * longest
        # where all answers are there one more look: it may be about to go on
        return 0.0 if _silent(waiting) else self._tick

    def _end(self, waiting: Any, waited: float) -> None:
        """Report, let the others do so too, and leave. Who was stuck first tells."""
        report = self._report(waiting, waited)
        self._write(report)
        if self._directory is not None:
            time.sleep(4 * self._tick)
        reports = read_reports(self._directory) or [report]
        if reports[0]["node"] == report["node"]:
            stuck = {other["node"] for other in reports}
            report["silent"] = report["silent"] or [
                each for each in report["neighbours"] if each["node"] not in stuck
            ]
            report["text"] = _told(report)
            self._write(report)
            print(f"mpi-gt: error: {report['text']}", file=sys.stderr, flush=True)
            if self._directory is not None:
                mark_failed(self._directory, report["text"], STUCK_EXIT_CODE)
        else:
            time.sleep(4 * self._tick)  # the other one is telling
        os._exit(STUCK_EXIT_CODE)

    def _report(self, waiting: Any, waited: float) -> dict[str, Any]:
        node = self._node
        neighbours = [
            {"node": j, "host": host}
            for j, host in zip(node.row.neighbours, self._hosts, strict=True)
        ]
        silent = _silent(waiting)
        report = {
            "node": node.rank,
            "host": os.uname().nodename,
            "iteration": node.iteration,
            "waits": node.waits,
            "seconds": round(waited, 1),
            "for": waiting if _is_joint(waiting) else "its neighbours",
            "neighbours": [] if _is_joint(waiting) else neighbours,
            "silent": [each for each in neighbours if each["node"] in silent],
        }
        return {**report, "text": _told(report)}

    def _write(self, report: dict[str, Any]) -> None:
        if self._directory is not None:
            folder = self._directory / WATCHDOG
            with contextlib.suppress(OSError, StorageError):
                folder.mkdir(exist_ok=True)
                write_json(folder / f"node-{report['node']:05d}.json", report)


def _is_joint(waiting: Any) -> bool:
    """Whether it is for all ranks that this one waits, and not for its neighbours."""
    return isinstance(waiting, str)


def _silent(waiting: Any) -> list[int]:
    return [] if _is_joint(waiting) else waiting.silent()


def _told(report: dict[str, Any]) -> str:
    names = ", ".join(f"node {each['node']} on {each['host']}" for each in report["silent"])
    return (
        f"watchdog: node {report['node']} on {report['host']}, iteration {report['iteration']}, "
        f"has waited {report['seconds']:.0f} s for {report['for']}; "
        + (f"silent: {names}" if names else "the buffers do not show who is silent")
    )
