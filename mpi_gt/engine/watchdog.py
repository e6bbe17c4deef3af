"""The watchdog: it ends a rank that waits for others too long, and names the silent ones.

It is a thread beside the rank's work that never calls MPI. Several times within the limit it checks
whether the rank is still in the same wait. An exchange may take `limit` seconds. A collective call
of all ranks may take `limit` seconds plus ten times the longest stretch of work of this rank
without any wait: the work of other ranks takes about as long as its own. Before and after the
iterations that need not be so: one rank prepares data or writes files. It changes the sign of life
then (see `rundir.watchdog_reports`), and the others wait for as long as they see that.

A neighbour is silent if its message of this iteration is not in the receive buffer. If all messages
have arrived (it is this rank's own message that nobody receives), or in a collective call, those
are silent that are not among the stuck ones (see `rundir.watchdog_reports`).

It also ends a rank whose launcher is gone, where the kernel does not (`launchers.parent`). MPI does
so only in its own calls: ranks that wait for each other in shared memory would sleep on, and keep
the run directory locked.
"""

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..config import RunConfig
from ..errors import STUCK_EXIT_CODE
from ..launchers.detect import detect_launch
from ..rundir.run_json import mark_failed, read_facts
from ..rundir.watchdog_reports import (
    WATCH,
    has_reports,
    read_reports,
    read_sign,
    read_stuck,
    remove_sign,
    send_stuck,
    show_sign,
    write_report,
)

if TYPE_CHECKING:
    from mpi4py import MPI

PATIENCE = 10  # times the longest own work is allowed on top of the limit for collective calls
NAMED = 8  # silent ranks to name at most


class Watchdog:
    """The watchdog of one rank; it watches a WatchedComm, and a Node while there is one."""

    def __init__(self, comm: Any) -> None:
        self._comm = comm
        self._node: Any = None
        self._hosts: Mapping[int, str] = {}  # by neighbour
        self._limit = 0.0
        self._directory: Path | None = None
        self._tick = 1.0
        self._launcher = None if detect_launch() is None else os.getppid()
        self._over = threading.Event()
        self._shows = True  # signs of life, while a run is under way
        self._showing = threading.Lock()
        self._thread: threading.Thread | None = None

    def guard(self, limit: float, directory: Path | None) -> None:
        """Watch from now on with this limit, in seconds; 0: waits may take any time."""
        self._limit, self._directory, self._shows = limit, directory, True
        self._tick = min(1.0, limit / 8) or 1.0
        if (limit or self._launcher is not None) and self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
            self._thread.start()

    def watch(self, comm: Any) -> None:
        """Watch the waits of this communicator, and no longer those of the former one."""
        self._comm = comm

    def attach(self, node: Any, directory: Path | None, hosts: Mapping[int, str]) -> None:
        """Watch the waits of this node as well; `hosts` holds the host of each neighbour."""
        self._directory, self._hosts = directory, hosts
        self._node = node

    def detach(self) -> None:
        """Forget the node: its run is over."""
        self._node = None

    def end_signs(self, remove: bool) -> None:
        """Show no sign of life until the next run; with `remove`, take away the last one."""
        with self._showing:
            self._shows = False
            if remove:
                remove_sign(self._directory)

    def guard_exit(self) -> None:
        """Have the kernel end this process if MPI_Finalize never returns: no thread runs in it."""
        if self._limit:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(max(1, int(2 * self._limit)))

    def close(self) -> None:
        """Stop watching."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def _sources(self) -> list[Any]:
        """Return the objects with a record of waits: node first, for its waits are in the loop."""
        node = self._node
        return [self._comm] if node is None else [node, node.world, self._comm]

    def _watch(self) -> None:
        waited = worked = longest = 0.0
        last = -1
        sign, shown = "", 0.0
        before = time.monotonic()
        while not self._over.wait(self._tick):
            now = time.monotonic()
            # at most two ticks: a rank that was itself suspended has not waited all that time
            passed, before = min(now - before, 2 * self._tick), now
            if self._launcher not in (None, os.getppid()):
                os._exit(1)  # nobody is left to report to; the front end or a resume cleans up
            if not self._limit:
                continue
            sources = self._sources()
            source = next((each for each in sources if each.waiting is not None), None)
            waits = sum(each.waits for each in sources)
            if source is None:
                worked, shown = (worked + passed, shown) if waits == last else (passed, 0.0)
                longest, waited = max(longest, worked), 0.0
                if worked - shown > self._limit / 8:
                    self._show_sign()
                    shown = worked
            else:
                shown = 0.0
                waited = waited + passed if waits == last else 0.0
                if source is not self._node and waited > self._limit / 2:
                    seen, sign = sign, read_sign(self._directory)
                    waited = waited if seen == sign else 0.0
                self._require_progress(source.waiting, waited, longest)
            last = waits

    def _show_sign(self) -> None:
        with self._showing:
            if self._shows:
                show_sign(self._directory)

    def _require_progress(self, waiting: Any, waited: float, longest: float) -> None:
        """End this rank if it has waited too long, or long enough while another rank gives up.

        In a collective call all ranks wait for the same one; each has its own idea of how long.
        """
        limit = self._limit
        if not 0 < limit / 2 < waited:
            return
        over = waited > limit and waited > limit + self._slack(waiting, longest)
        if over or (_is_collective(waiting) and has_reports(self._directory)):
            self._give_up(waiting, waited)

    def _slack(self, waiting: Any, longest: float) -> float:
        """Return the seconds beyond the limit that this wait may take."""
        if _is_collective(waiting):
            return PATIENCE * longest
        # with all messages there, check once more: the rank may be about to continue
        return 0.0 if _silent(waiting) else self._tick

    def _give_up(self, waiting: Any, waited: float) -> None:
        """Report that this rank is stuck, wait for others that are, and end the process.

        The rank that was stuck first prints the error.
        """
        report = self._report(waiting, waited)
        if self._directory is not None:
            send_stuck(self._directory, report)
            time.sleep(4 * self._tick)
        reports = read_reports(self._directory) or [report]
        if reports[0]["node"] == report["node"]:
            stuck = {other["node"] for other in reports} | read_stuck(self._directory)
            others = report["neighbours"] or self._all_nodes(stuck)
            report["silent"] = report["silent"] or [
                each for each in others if each["node"] not in stuck
            ]
            report["text"] = _describe(report)
            if self._directory is not None:
                write_report(self._directory, report)
            print(f"mpi-gt: error: {report['text']}", file=sys.stderr, flush=True)
            if self._directory is not None:
                mark_failed(self._directory, report["text"], STUCK_EXIT_CODE)
        else:
            time.sleep(4 * self._tick)  # until that rank has printed the error
        os._exit(STUCK_EXIT_CODE)

    def _all_nodes(self, stuck: set[int]) -> list[dict[str, Any]]:
        """Return all nodes if most of them are stuck, so that the others can be named."""
        size = self._comm.size
        if size - len(stuck) > NAMED:
            return []
        hosts = [] if self._directory is None else read_facts(self._directory).get("hosts", [])
        if len(hosts) != size:
            return [{"node": node} for node in range(size)]
        return [{"node": node, "host": host} for node, host in enumerate(hosts)]

    def _report(self, waiting: Any, waited: float) -> dict[str, Any]:
        node, neighbours, silent = self._node, [], _silent(waiting)
        if not _is_collective(waiting):
            ends = {*waiting.row.sources, *waiting.row.targets}
            neighbours = [{"node": j, "host": self._hosts[j]} for j in sorted(ends)]
        report = {
            "node": self._comm.rank,
            "host": os.uname().nodename,
            "iteration": 0 if node is None else node.iteration,
            "waits": sum(each.waits for each in self._sources()),
            "seconds": round(waited, 1),
            "for": waiting if _is_collective(waiting) else "its neighbours",
            "neighbours": neighbours,
            "silent": [each for each in neighbours if each["node"] in silent],
        }
        return {**report, "text": _describe(report)}


def guard_start(comm: Any) -> Watchdog:
    """Return the watchdog of this rank, at work already, with what a front end has set."""
    watchdog = comm.watchdog = Watchdog(comm)
    limit, _, directory = os.environ.get(WATCH, "").partition(" ")
    watchdog.guard(int(limit) if limit.isdecimal() else 0, Path(directory) if directory else None)
    return watchdog


@contextlib.contextmanager
def watch_run(config: RunConfig, comm: "MPI.Intracomm | None") -> "Iterator[MPI.Intracomm | None]":
    """Guard one run from its beginning to its end; yield the communicator to use in it.

    A rank that was started by a command has a watchdog already, which adopts the limit of this run.
    """
    if comm is None or config.stacked or not (config.watchdog or hasattr(comm, "watchdog")):
        yield comm
        return
    from ..comm.collective import WatchedComm  # here: it imports MPI

    watched = comm if isinstance(comm, WatchedComm) else WatchedComm(comm)
    own = watched.watchdog is None
    watchdog = watched.watchdog or Watchdog(watched)
    directory = None if config.out is None else Path(config.out).absolute()
    watchdog.guard(config.watchdog, directory)
    watched.watchdog = watchdog
    try:
        yield watched
    finally:
        watchdog.detach()
        watchdog.end_signs(remove=comm.rank == 0)
        if own:
            watchdog.close()


def _is_collective(waiting: Any) -> bool:
    """Return True if the rank waits in a collective call, False if it waits for its neighbours.

    `waiting` is a text in the first case and a Plan in the second.
    """
    return isinstance(waiting, str)


def _silent(waiting: Any) -> list[int]:
    return [] if _is_collective(waiting) else waiting.silent()


def _describe(report: dict[str, Any]) -> str:
    names = ", ".join(
        f"node {each['node']}" + (f" on {each['host']}" if "host" in each else "")
        for each in report["silent"]
    )
    when = f"iteration {report['iteration']}" if report["iteration"] else "before iteration 1"
    return (
        f"watchdog: node {report['node']} on {report['host']}, {when}, "
        f"has waited {report['seconds']:.0f} s for {report['for']}; "
        + (f"silent: {names}" if names else "the buffers do not show which node is silent")
    )
