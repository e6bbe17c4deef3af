"""The watchdog: it ends a rank that waits for others too long, and names the silent neighbour.

It is a thread beside the loop that never calls MPI. Several times within the limit it checks
whether the rank is still in the same wait. An exchange may take `limit` seconds. A collective call
of all ranks (measuring, saving) may take `limit` seconds plus ten times the longest stretch of work
of this rank without any wait: the work of other ranks takes about as long as its own.

A neighbour is silent if its message of this iteration is not in the receive buffer. If all messages
have arrived (it is this rank's own message that nobody receives), those neighbours are silent that
have not reported themselves stuck.
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

PATIENCE = 10  # times the longest own work is allowed on top of the limit for collective calls


class Watchdog:
    """The watchdog of one rank, active inside its `with` block; `limit` 0 turns it off."""

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
            self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        waited = worked = longest = 0.0
        last = -1
        before = time.monotonic()
        while not self._over.wait(self._tick):
            now = time.monotonic()
            # at most two ticks: a rank that was itself suspended has not waited all that time
            passed, before = min(now - before, 2 * self._tick), now
            waiting, waits = self._node.waiting, self._node.waits
            if waiting is None:
                worked = worked + passed if waits == last else passed
                longest, waited = max(longest, worked), 0.0
            else:
                waited = waited + passed if waits == last else 0.0
                if waited > self._limit and waited > self._limit + self._slack(waiting, longest):
                    self._give_up(waiting, waited)
            last = waits

    def _slack(self, waiting: Any, longest: float) -> float:
        """Return the seconds beyond the limit that this wait may take."""
        if _is_collective(waiting):
            return PATIENCE * longest
        # with all messages there, check once more: the rank may be about to continue
        return 0.0 if _silent(waiting) else self._tick

    def _give_up(self, waiting: Any, waited: float) -> None:
        """Write this rank's report, wait for those of other stuck ranks, and end the process.

        The rank that was stuck first prints the error.
        """
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
            report["text"] = _describe(report)
            self._write(report)
            print(f"mpi-gt: error: {report['text']}", file=sys.stderr, flush=True)
            if self._directory is not None:
                mark_failed(self._directory, report["text"], STUCK_EXIT_CODE)
        else:
            time.sleep(4 * self._tick)  # until that rank has printed the error
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
            "for": waiting if _is_collective(waiting) else "its neighbours",
            "neighbours": [] if _is_collective(waiting) else neighbours,
            "silent": [each for each in neighbours if each["node"] in silent],
        }
        return {**report, "text": _describe(report)}

    def _write(self, report: dict[str, Any]) -> None:
        if self._directory is not None:
            folder = self._directory / WATCHDOG
            with contextlib.suppress(OSError, StorageError):
                folder.mkdir(exist_ok=True)
                write_json(folder / f"node-{report['node']:05d}.json", report)


def _is_collective(waiting: Any) -> bool:
    """Return True if the rank waits in a collective call, False if it waits for its neighbours.

    `node.waiting` holds a text in the first case and a Plan in the second.
    """
    return isinstance(waiting, str)


def _silent(waiting: Any) -> list[int]:
    return [] if _is_collective(waiting) else waiting.silent()


def _describe(report: dict[str, Any]) -> str:
    names = ", ".join(f"node {each['node']} on {each['host']}" for each in report["silent"])
    return (
        f"watchdog: node {report['node']} on {report['host']}, iteration {report['iteration']}, "
        f"has waited {report['seconds']:.0f} s for {report['for']}; "
        + (f"silent: {names}" if names else "the buffers do not show which node is silent")
    )
