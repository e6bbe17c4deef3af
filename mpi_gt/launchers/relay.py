"""The way of the ranks' output through mpirun and this process, and of a rank's last report.

mpirun ends a run whose reader has gone away, or whose output file is on a full disk; this process
reads all that mpirun writes and passes it on as long as somebody takes it. A rank that ends the run
sends its reason the same way, for it may be on another host, and the disk may be full. mpirun's own
words after that, and those of the other ranks, are about the same event and are dropped.
"""

import contextlib
import json
import os
import selectors
import subprocess
import sys
import threading
import time
from typing import IO, Any

from .detect import OUTCOME

BEGIN, END = b"\x1empi-gt report ", b"\x1e"
ANSWER = 3  # seconds for the front end to act on a report
LEFT_OVER = 0.5  # seconds of silence, once mpirun has ended, after which no more output is awaited


def send_report(text: str) -> bool:
    """Send the front end the reason why this rank ends the run; return False without a front end.

    The front end shows the first report of all ranks and ends mpirun, which ends this process.
    """
    if OUTCOME not in os.environ:
        return False
    sys.stderr.flush()
    # in one piece: other ranks may be writing as well
    os.write(2, BEGIN + json.dumps(text).encode() + END + b"\n")
    time.sleep(ANSWER)
    return True


class Relay:
    """A thread that passes on what a process writes to its standard output and error."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.report: str | None = None
        self._process = process
        self._held = b""  # of standard error: what may be the beginning of a report
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Wait until all that the process has written is passed on."""
        self._thread.join()

    def _run(self) -> None:
        output, errors = self._process.stdout, self._process.stderr
        assert output is not None
        assert errors is not None
        with selectors.DefaultSelector() as selector, output, errors:
            selector.register(output, selectors.EVENT_READ, self._pass_on_output)
            selector.register(errors, selectors.EVENT_READ, self._pass_on_errors)
            while selector.get_map():
                ready = selector.select(timeout=LEFT_OVER)
                for key, _ in ready:
                    data = os.read(key.fd, 1 << 16)
                    if not data:
                        selector.unregister(key.fileobj)
                    key.data(data)
                # a helper that survives mpirun, such as ssh, may hold the pipe open
                if not ready and self._process.poll() is not None:
                    break
        _write(self._held, sys.stderr)

    def _pass_on_output(self, data: bytes) -> None:
        if self.report is None:
            _write(data, sys.stdout)

    def _pass_on_errors(self, data: bytes) -> None:
        if self.report is not None:
            return
        data = self._held + data
        begin = data.find(BEGIN)
        end = data.find(END, begin + len(BEGIN))
        if begin < 0:  # perhaps the rest of a first part of BEGIN is still to come
            last = range(max(0, len(data) - len(BEGIN)), len(data) + 1)
            begin = next(place for place in last if BEGIN.startswith(data[place:]))
        elif end > 0:
            with contextlib.suppress(ValueError):
                self.report = str(json.loads(data[begin + len(BEGIN) : end]))
                self._process.terminate()  # sooner than the rank, by whose end mpirun says much
        _write(data[:begin], sys.stderr)
        self._held = b"" if self.report is not None else data[begin:]


def _write(data: bytes, stream: Any) -> None:
    if not data:
        return
    binary: IO[bytes] | None = getattr(stream, "buffer", None)
    with contextlib.suppress(OSError, ValueError):
        if binary is None:
            stream.write(data.decode(errors="replace"))
        else:
            stream.flush()
            binary.write(data)
        stream.flush()
