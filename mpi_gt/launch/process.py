"""mpirun as a child of `mpi-gt run -n N`: signals, an mpirun that is stuck, what it leaves."""

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from ..errors import UserError
from ..rundir.run_json import ranks_are_up
from ..rundir.watchdog_reports import read_reports

PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)

PATIENCE = 20  # seconds that a signal waits for ranks that are still on their way up
TRIES = 1000  # to find a process number for mpirun
GRACE = 5  # seconds for mpirun to end by itself once a rank has given up


class MpirunResult(NamedTuple):
    """The end of an mpirun: its exit code, and the signals that this process got meanwhile."""

    exit_code: int
    signals: list[int]


def run_mpirun(
    words: Sequence[str],
    env: dict[str, str],
    out: Path | None,
    on_tick: Callable[[], None] | None,
) -> MpirunResult:
    """Run mpirun as a child and wait for its end, passing signals on to it.

    With a run directory `out`, each signal asks for an orderly stop. `on_tick` is called twice
    per second meanwhile.
    """
    child = _Child(out)
    exit_code = child.run(words, env, on_tick)
    return MpirunResult(exit_code, child.signals)


class _Child:
    """mpirun in a session of its own, so that signals reach it through this process only.

    Each asks for an orderly stop: mpirun gets SIGUSR1, which it hands to the ranks. These heed it
    from the moment they are all up; before, Ctrl-C ends them (there is nothing to save yet),
    and another signal waits a while for that moment. A second Ctrl-C ends at once.
    """

    def __init__(self, out: Path | None) -> None:
        self.signals: list[int] = []
        self._out = out
        self._process: subprocess.Popen[bytes] | None = None

    def run(
        self, words: Sequence[str], env: dict[str, str], on_tick: Callable[[], None] | None
    ) -> int:
        """Start mpirun, wait for its end and return its exit code."""
        # what is ignored (nohup, a job in the background) stays ignored
        heeded = [number for number in PASSED_ON if signal.getsignal(number) != signal.SIG_IGN]
        previous = {number: signal.signal(number, self._pass_on) for number in heeded}
        try:
            self._process = _start(words, env)
            if self._out is not None:
                watch = partial(_end_stuck, self._process, self._out)
                threading.Thread(target=watch, daemon=True).start()
            for number in self.signals:  # came before there was anybody to pass them on to
                self._act_on(number, self._process)
            return self._wait(self._process, on_tick)
        finally:
            if self._process is not None and self._process.poll() is not None:
                for folder in _sessions(tempfile.gettempdir(), self._process.pid):
                    shutil.rmtree(folder, ignore_errors=True)  # a killed one leaves it
            for number, handler in previous.items():
                if handler is not None:  # None: a library's own, which Python cannot put back
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
            process.kill()
        elif self._out is None:
            process.send_signal(number)  # nothing to save
        elif ranks_are_up(self._out):
            process.send_signal(signal.SIGUSR1)
        elif number == signal.SIGINT:
            process.send_signal(number)
        else:
            threading.Thread(
                target=self._stop_later, args=[process, self._out], daemon=True
            ).start()

    def _stop_later(self, process: "subprocess.Popen[bytes]", out: Path) -> None:
        """Ranks that are never all up cannot save anything: they get no longer than PATIENCE."""
        until = time.monotonic() + PATIENCE
        while not ranks_are_up(out) and time.monotonic() < until:
            time.sleep(0.1)
        process.send_signal(signal.SIGUSR1 if ranks_are_up(out) else signal.SIGTERM)


def _end_stuck(process: "subprocess.Popen[bytes]", out: Path) -> None:
    """End an mpirun that waits for a host which is cut off, though its ranks have given up."""
    while not (ranks_are_up(out) and read_reports(out)):
        if process.poll() is not None:
            return
        time.sleep(1)
    time.sleep(GRACE)
    for folder in Path("/proc").glob("[0-9]*"):  # its ssh would stay, and hold our output open
        with contextlib.suppress(OSError):
            if os.getsid(int(folder.name)) == process.pid:
                os.kill(int(folder.name), signal.SIGKILL)
    process.kill()


def _start(words: Sequence[str], env: dict[str, str]) -> "subprocess.Popen[bytes]":
    """mpirun under a process number of which no killed one has left anything behind."""
    for _ in range(TRIES):
        with contextlib.suppress(subprocess.SubprocessError):  # this number was refused
            # standard input stays ours: mpirun would stop at reading a terminal from behind
            return subprocess.Popen(
                words,
                env=env,
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                preexec_fn=partial(_prepare, tempfile.gettempdir()),
            )
    raise UserError(f"remove what killed mpiruns have left: {tempfile.gettempdir()}/ompi.*")


def _prepare(temporary: str) -> None:
    """In the child, before it becomes mpirun; an error gives up its process number.

    Numbers come round again, on many systems after 32768, and Open MPI does not start beside the
    folder of an earlier one. Whose that is cannot be told: containers may share it and count alike.
    """
    if any(folder.exists() for folder in _sessions(temporary, os.getpid())):
        raise FileExistsError
    _die_with_parent()


def _sessions(temporary: str, pid: int) -> list[Path]:
    """Where an Open MPI of that process number keeps its files."""
    return [Path(temporary, f"{name}.{pid}") for name in ("ompi", "prted")]


def _die_with_parent() -> None:
    """Have the kernel end mpirun, and with it the ranks, when this process is killed (Linux)."""
    with contextlib.suppress(OSError, AttributeError):
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
