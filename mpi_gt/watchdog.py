"""Ends a rank that waits for others too long, and tells for whom it waits.

A thread beside the loop, which never calls MPI: it only looks, a few times within the limit,
whether the rank is still in the same wait. An exchange may take `limit` seconds. What all ranks do
together (measuring, saving) may take that and ten times the longest that this rank has been at
work by itself: the others' share of the work takes about as long as its own.
"""

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .status import StorageError, mark_failed, write_json

EXIT_CODE = 86
FOLDER = "watchdog"
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
                slack = PATIENCE * longest if isinstance(waiting, str) else 0.0
                if waited > self._limit + slack:
                    self._end(waiting, waited)
            last = waits

    def _end(self, waiting: Any, waited: float) -> None:
        """Report, let the others do so too, and leave: who was stuck first knows most."""
        report = self._report(waiting, waited)
        if self._directory is not None:
            folder = self._directory / FOLDER
            with contextlib.suppress(OSError, StorageError):
                folder.mkdir(exist_ok=True)
                write_json(folder / f"node-{self._node.number:05d}.json", report)
            time.sleep(2 * self._tick)
        first = read_report(self._directory) or report
        if first["node"] == report["node"]:
            print(f"mpi-gt: error: {report['text']}", file=sys.stderr, flush=True)
            if self._directory is not None:
                mark_failed(self._directory, report["text"], EXIT_CODE)
        else:
            time.sleep(self._tick)  # the other one is telling
        os._exit(EXIT_CODE)

    def _report(self, waiting: Any, waited: float) -> dict[str, Any]:
        node = self._node
        report: dict[str, Any] = {
            "node": node.number,
            "iteration": node.iteration,
            "waits": node.waits,
            "seconds": waited,
            "silent": [],
        }
        where = f"watchdog: node {node.number} on {os.uname().nodename}, iteration {node.iteration}"
        if isinstance(waiting, str):
            text = f"{where}: waited {waited:.0f} s for {waiting}"
        else:
            neighbours = dict(zip(node.row.neighbours, self._hosts, strict=True))
            silent = waiting.silent()
            report["silent"] = [{"node": j, "host": neighbours[j]} for j in silent]
            names = ", ".join(f"node {j} on {neighbours[j]}" for j in silent)
            text = f"{where}: no answer for {waited:.0f} s from " + (
                names or "some neighbour (the buffers do not show which)"
            )
        report["text"] = text
        return report


def read_report(directory: Path | None) -> dict[str, Any] | None:
    """Of all ranks' reports the one of who was stuck first: the others waited for its like."""
    reports = []
    for path in sorted((directory / FOLDER).glob("*.json")) if directory is not None else ():
        with contextlib.suppress(OSError, ValueError):
            reports.append(json.loads(path.read_text(encoding="utf-8")))
    return min(reports, key=lambda report: (report["waits"], report["node"]), default=None)
