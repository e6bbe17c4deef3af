"""`mpi_gt.launch` and `mpi_gt.resume`: the command `mpi-gt` as a child process of Python.

The child is the front end that the shell would start: it checks, starts mpirun, passes signals on
and cleans up. What comes back is in the run directory, and the last message on standard error.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from ..config import RunConfig, to_arguments
from ..display.launch import LaunchDisplay
from ..engine.result import Result, read_result
from ..errors import Diverged, Interrupted, RunFailed, Stopped, UserError
from ..launchers.detect import LAUNCHED, is_launched
from ..launchers.mpirun import RANK_COMMAND
from ..launchers.options import launch_options
from ..launchers.parent import PARENT
from ..rundir.layout import release_reserved
from ..rundir.run_json import is_sweep, ranks_are_up, read_facts
from ..user_classes import handing_over
from .objects import Inputs, Translation

ERROR = "mpi-gt: error: "
MESSAGE = "mpi-gt: "
WARNING = "mpi-gt: warning: "


class Launch:
    """A run on ranks of its own, which goes on while Python does other things.

    It ends with this Python process, if not before: then it stops at a checkpoint.

    Attributes
    ----------
    directory : Path
        The run directory, with the metrics so far.
    """

    def __init__(
        self,
        words: Sequence[str],
        directory: Path,
        refuse: Callable[[UserError], UserError] | None = None,
    ) -> None:
        self.directory = directory
        self._refuse = refuse  # called if the run never began
        self._messages: list[str] = []
        self._process = _start(words)
        self._readers = [
            threading.Thread(target=self._read, args=[stream, name], daemon=True)
            for stream, name in (
                (self._process.stdout, "stdout"),
                (self._process.stderr, "stderr"),
            )
        ]
        for reader in self._readers:
            reader.start()

    def __repr__(self) -> str:
        return f"<Launch {self.directory}: {self.status()}>"

    def status(self) -> str:
        """Return starting, running, finished, stopped or failed."""
        code = self._process.poll()
        if code is None:
            return "running" if ranks_are_up(self.directory) else "starting"
        return {0: "finished", Stopped.exit_code: "stopped"}.get(code, "failed")

    def wait(self, timeout: float | None = None, progress: bool | None = False) -> bool:
        """Wait until the run has ended, at most `timeout` seconds; return whether it has.

        Ctrl-C stops the run in an orderly way, and a second one kills it; either raises
        KeyboardInterrupt. For `progress` see `mpi_gt.launch`.
        """
        until = None if timeout is None else time.monotonic() + timeout
        interrupted = False
        with LaunchDisplay(self.directory, progress) as display:
            while True:
                try:
                    ended = self._wait(until, display)
                    break
                except KeyboardInterrupt:
                    interrupted, until = True, None
                    self._signal(signal.SIGINT)
                    display.note("stopping the run; once more kills it")
        if interrupted:
            raise self._interruption()
        return ended

    def _wait(self, until: float | None, display: LaunchDisplay) -> bool:
        while self._process.poll() is None:
            left = 0.2 if until is None else min(0.2, until - time.monotonic())
            if left <= 0:
                return False
            try:
                self._process.wait(left)
            except subprocess.TimeoutExpired:
                display.update()
        display.update()
        for reader in self._readers:
            reader.join()
        return True

    def stop(self) -> None:
        """Stop the run at a checkpoint, and return when it has ended; `mpi_gt.resume` continues it.

        A run that has ended is left alone.
        """
        self._signal(signal.SIGTERM)
        self.wait()

    def result(self, timeout: float | None = None, progress: bool | None = False) -> Result:
        """Wait for the end of the run, at most `timeout` seconds, and return its result.

        Raises
        ------
        UserError, Diverged, Stopped
            As `mpi_gt.run` does.
        RunFailed
            The run did not finish for another reason, which the message says.
        TimeoutError
            The run is still going on; it is not stopped.
        KeyboardInterrupt
            Ctrl-C has stopped the run. With a checkpoint, this is a Stopped as well.
        """
        if not self.wait(timeout, progress):
            raise TimeoutError(f"{self.directory} is still running after {timeout} seconds")
        code = self._process.returncode
        if code == 0:
            return read_result(self.directory)
        raise self._error(code)

    def _error(self, code: int) -> Exception:
        """Return the exception that an exit code stands for, with the run's own message."""
        message = self._message() or f"the command mpi-gt ended with exit code {code}"
        if code == UserError.exit_code:
            if self._refuse is not None and not (self.directory / "run.json").exists():
                return self._refuse(UserError(message))
            return UserError(message)
        if code == Diverged.exit_code:
            return Diverged(message, read_facts(self.directory))
        if code == Stopped.exit_code:
            return Stopped(message)
        return RunFailed(message, code)

    def _interruption(self) -> BaseException:
        """Return the exception of a Ctrl-C: a Stopped as well, if the run can be resumed."""
        if self._process.returncode == Stopped.exit_code:
            return Interrupted(self._message())
        return KeyboardInterrupt(self._message() or "interrupted before the run began")

    def _message(self) -> str:
        """Return the last error on standard error, or else the last message."""
        errors = [line.removeprefix(ERROR) for line in self._messages if line.startswith(ERROR)]
        return (errors or [line.removeprefix(MESSAGE) for line in self._messages] or [""])[-1]

    def _signal(self, number: signal.Signals) -> None:
        if self._process.poll() is None:
            self._process.send_signal(number)

    def _read(self, stream: IO[bytes], name: str) -> None:
        """Show what the run writes, line by line; keep its messages, which exceptions will show."""
        with stream:
            for data in stream:
                line = data.decode(errors="replace")
                if name == "stderr" and line.startswith(MESSAGE) and not line.startswith(WARNING):
                    self._messages.append(line.rstrip("\n"))
                else:
                    shown = getattr(sys, name)
                    shown.write(line)
                    shown.flush()


def _start(words: Sequence[str]) -> "subprocess.Popen[bytes]":
    """Start `mpi-gt WORDS`, which ends in an orderly way when its standard input is closed."""
    env = {name: value for name, value in os.environ.items() if name != "MPLBACKEND"}
    return subprocess.Popen(
        [*RANK_COMMAND, *words],
        env={**env, PARENT: str(os.getpid())},
        stdin=subprocess.PIPE,  # open as long as this process lives
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C in a terminal is to reach it through this process only
    )


def launch(options: dict[str, Any], wait: bool, progress: bool | None) -> "Result | Launch":
    """Carry out `mpi_gt.launch`."""
    _require_front(options.get("n"))
    for_launcher = launch_options(options)
    given = {"quiet": not wait or progress is False, **options}
    if given.get("n") is None and not given.get("resume"):
        raise UserError("how many nodes? Give launch(n=16, ...)")
    with handing_over((checked := Translation(given, Path("inputs"), travels=True)).objects):
        without_files = {
            name: value
            for name, value in checked.options.items()
            if name not in ("graph", "weights", "x1") or value is given[name]
        }
        config = RunConfig.of(without_files)
        if config.resume and (config.out is None or config.overwrite):
            raise UserError("resume needs out, and takes no overwrite")
        if config.out is None:
            from ..cli.configure import reserve_directory

            given.update(out=str(reserve_directory(config)), reserved=True)
    out = Path(given["out"])
    try:
        inputs = Inputs(given, travels=True)
    except BaseException:
        if given.get("reserved"):
            release_reserved(out)
        raise
    for name in inputs.names:
        if name.endswith(".py") and not config.quiet:
            print(f"mpi-gt: the source of a class of this notebook is in {name}", file=sys.stderr)

    def undo() -> None:
        inputs.undo()
        if given.get("reserved"):
            release_reserved(out)

    def refuse(error: UserError) -> UserError:
        undo()
        return inputs.named(error)

    try:
        with handing_over(inputs.objects):
            final = RunConfig.of({**inputs.options, "quiet": True})
        words = [*to_arguments(final), *for_launcher.arguments()]
        started = Launch(words, out.absolute(), refuse)
    except BaseException:
        undo()
        raise
    show = False if config.quiet and options.get("quiet") else progress
    return started.result(progress=show) if wait else started


def resume(
    directory: str | os.PathLike[str],
    options: dict[str, Any],
    wait: bool,
    progress: bool | None,
) -> "Result | Launch":
    """Carry out `mpi_gt.resume`."""
    _require_front(options.get("n"))
    for_launcher = launch_options(options)
    if is_sweep(Path(directory)):
        raise UserError(
            f"{directory} holds a sweep: call mpi_gt.sweep once more as before, which runs only "
            "the points that are not done"
        )
    words = ["resume", os.fspath(directory), "--quiet"]
    for name, value in options.items():
        if value is not None and name != "quiet":
            words += ["-n", str(value)] if name == "n" else [f"--{name.replace('_', '-')}={value}"]
    words += for_launcher.arguments()
    started = Launch(words, Path(directory).absolute())
    return started.result(progress=False if options.get("quiet") else progress) if wait else started


def _require_front(n: Any) -> None:
    """Raise UserError on a rank, and in a module that a launched run imports."""
    if PARENT in os.environ:
        raise UserError(
            "launch was called by a process of a launched run, which imports the script for its "
            'classes: put the call below `if __name__ == "__main__":`'
        )
    if is_launched(["-n", str(n)]):
        variable = next((name for name in LAUNCHED if name in os.environ), "mpirun")
        raise UserError(
            f"launch starts ranks of its own, and this is one already ({variable} is set): call "
            "run(comm, ...) here, or start the script without mpirun"
        )
