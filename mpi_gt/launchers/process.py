"""mpirun, or srun, as a child process: signals are passed on, and one that is stuck is ended."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from ..rundir.run_json import ranks_are_up
from ..rundir.watchdog_reports import read_reports, read_sign
from .detect import OUTCOME
from .parent import dying_with_parent
from .relay import Relay

PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)

PATIENCE = 20  # seconds that a signal waits for ranks that are still starting
GRACE = 5  # seconds for mpirun to end by itself after the watchdog has ended a rank
UNNOTICED = 10  # seconds for mpirun to notice that a rank has ended before all are up
RANK = b"/start_rank.py"  # the script by which mpirun starts a rank
ALLOWANCE = 1.5  # times the limit of the watchdog: the ranks, which know more, are to speak first


class LauncherResult(NamedTuple):
    """The end of an mpirun: its exit code, and the signals that this process got meanwhile.

    `stuck` says why this process ended it, if it did; `report` why a rank did, if one said so.
    """

    exit_code: int
    signals: list[int]
    stuck: str | None
    report: str | None


def run_launcher(
    words: Sequence[str],
    env: dict[str, str],
    out: Path | None,
    on_tick: Callable[[], None] | None,
    limit: float = 0,
    inherited: Sequence[int] = (),
    end_signal: signal.Signals = signal.SIGKILL,
) -> LauncherResult:
    """Run mpirun as a child, pass signals on to it, and return when it has ended.

    With a run directory `out`, each signal asks for an orderly stop, and an mpirun that does not
    start its ranks, or does not end after them, is ended a while after `limit` seconds (0: never).
    `on_tick` is called twice per second in the meantime. mpirun inherits the files `inherited`;
    `end_signal` ends it, and the ranks with it.
    """
    child = _Child(out, limit, end_signal)
    exit_code = child.run(words, env, on_tick, inherited)
    return LauncherResult(exit_code, child.signals, child.stuck, child.report)


class _Child:
    """An mpirun in a session of its own, so that signals reach it through this process only.

    Each signal asks for an orderly stop: mpirun gets SIGUSR1 and sends it to the ranks, which
    handle it once all of them have started. Before that, Ctrl-C ends them (there is nothing to
    save yet), and any other signal waits for them to start. A second Ctrl-C kills mpirun.
    """

    def __init__(self, out: Path | None, limit: float, end_signal: signal.Signals) -> None:
        self.signals: list[int] = []
        self.stuck: str | None = None
        self.report: str | None = None
        self._out = out
        self._limit = limit
        self._end_signal = end_signal
        self._process: subprocess.Popen[bytes] | None = None

    def run(
        self,
        words: Sequence[str],
        env: dict[str, str],
        on_tick: Callable[[], None] | None,
        inherited: Sequence[int],
    ) -> int:
        """Start mpirun, wait for its end and return its exit code."""
        # a signal that is ignored (nohup, a background job) stays ignored
        handled = [number for number in PASSED_ON if signal.getsignal(number) != signal.SIG_IGN]
        previous = {number: signal.signal(number, self._pass_on) for number in handled}
        try:
            self._process = _start(words, env, inherited, self._end_signal)
            relay = Relay(self._process)
            if self._out is not None:
                watch = partial(self._end_stuck, self._process, self._out, env.get(OUTCOME))
                threading.Thread(target=watch, daemon=True).start()
            for number in self.signals:  # they came before mpirun was started
                self._act_on(number, self._process)
            exit_code = self._wait(self._process, on_tick)
            relay.finish()
            self.report = relay.report
            return exit_code
        finally:
            for number, handler in previous.items():
                if handler is not None:  # None: not set by Python, which cannot restore it
                    signal.signal(number, handler)

    def _wait(self, process: "subprocess.Popen[bytes]", on_tick: Callable[[], None] | None) -> int:
        while on_tick is not None:
            try:
                return process.wait(timeout=0.5)
            except subprocess.TimeoutExpired:
                on_tick()
        return process.wait()

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        self.signals.append(number)
        if self._process is not None:
            self._act_on(number, self._process)

    def _act_on(self, number: int, process: "subprocess.Popen[bytes]") -> None:
        if self.signals.count(signal.SIGINT) > 1:
            process.send_signal(self._end_signal)
        elif self._out is None:
            process.send_signal(number)  # without a run there is nothing to save
        elif ranks_are_up(self._out):
            process.send_signal(signal.SIGUSR1)
        elif number == signal.SIGINT:
            process.send_signal(number)
        else:
            threading.Thread(
                target=self._stop_later, args=[process, self._out], daemon=True
            ).start()

    def _stop_later(self, process: "subprocess.Popen[bytes]", out: Path) -> None:
        """Stop the run in an orderly way as soon as all ranks have started.

        Ranks that have not started within PATIENCE are ended: they have nothing to save.
        """
        until = time.monotonic() + PATIENCE
        while not ranks_are_up(out) and time.monotonic() < until:
            time.sleep(0.1)
        process.send_signal(signal.SIGUSR1 if ranks_are_up(out) else signal.SIGTERM)

    def _end_stuck(
        self, process: "subprocess.Popen[bytes]", out: Path, outcome: str | None
    ) -> None:
        """End an mpirun that is stuck: before its ranks are up, after their end, or amid them.

        Amid them the watchdogs of the ranks decide; mpirun may still wait for an unreachable host.
        """
        up, silence, last = False, 0.0, ""
        seen: set[int] = set()
        lost = 0.0  # seconds that mpirun has gone on without a rank that it had started
        before = time.monotonic()
        while not read_reports(out):
            if process.poll() is not None:
                return
            time.sleep(1)
            now = time.monotonic()
            passed, before = min(now - before, 2), now  # this process may have been suspended
            up, over = up or ranks_are_up(out), outcome is not None and Path(outcome).exists()
            if not (up or over):
                ranks = _ranks_of(process)
                lost, seen = (lost + passed if seen - ranks else 0.0), seen | ranks
                if lost > UNNOTICED and not ranks_are_up(out):
                    self.stuck = "a rank ended too soon, and mpirun did not notice it"
                    process.terminate()
                    break
            sign = f"{up} {over} {read_sign(out)}"
            silence, last = (silence + passed if sign == last else 0.0), sign
            if self._limit and silence > ALLOWANCE * self._limit + GRACE and (over or not up):
                what = "mpirun has not ended" if over else "the ranks are not up"
                self.stuck = f"{what} after {silence:.0f} s without a sign of life: was a rank "
                self.stuck += "or mpirun stopped, or is a host not reachable?"
                process.terminate()  # it can still end the ranks of other hosts
                break
        if self._end_signal != signal.SIGKILL:
            process.send_signal(self._end_signal)
        time.sleep(GRACE)
        _end_session(process)


def _session_of(process: "subprocess.Popen[bytes]") -> Iterator[int]:
    """Give the processes in the session of mpirun."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.getsid(int(folder.name)) == process.pid:
                yield int(folder.name)


def _ranks_of(process: "subprocess.Popen[bytes]") -> set[int]:
    """Return the ranks that mpirun has started on this host and that are alive."""
    ranks = set()
    for number in _session_of(process):
        with contextlib.suppress(OSError):  # it has ended; of a zombie the words are empty
            words = Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")
            if number != process.pid and any(word.endswith(RANK) for word in words[:3]):
                ranks.add(number)
    return ranks


def _end_session(process: "subprocess.Popen[bytes]") -> None:
    """Kill mpirun and its session: its ssh would survive it and hold our output open."""
    for number in _session_of(process):
        with contextlib.suppress(OSError):
            os.kill(number, signal.SIGKILL)
    process.kill()


def _start(
    words: Sequence[str], env: dict[str, str], inherited: Sequence[int], end_signal: signal.Signals
) -> "subprocess.Popen[bytes]":
    # no standard input: reading the terminal in the background would suspend mpirun
    return subprocess.Popen(
        words,
        env=env,
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=inherited,
        preexec_fn=dying_with_parent(end_signal),
    )
