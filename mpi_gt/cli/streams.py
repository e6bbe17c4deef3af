"""Standard output and error that never end a command: a reader may go away, a disk may be full."""

import io
import os
import select
import sys
from pathlib import Path
from typing import Any, TextIO

PATIENCE = 5  # seconds that standard error may be stuck before its text is dropped


class Sink(io.RawIOBase):
    """A file descriptor to write to; after a failed write, all further ones go nowhere.

    With `may_drop`, text is dropped while nobody reads it: a rank that waits to show its progress
    would hold up all others.
    """

    def __init__(self, descriptor: int, may_drop: bool) -> None:
        self.lost: OSError | None = None
        self._descriptor = descriptor
        self._may_drop = may_drop
        self._patience: float = PATIENCE

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def write(self, data: "bytes | bytearray | memoryview") -> int:  # type: ignore[override]
        """Write as much as the descriptor takes; return the number of bytes that are done with."""
        size = memoryview(data).nbytes
        while self.lost is None:
            if self._may_drop and not self._is_read():
                break
            try:
                return os.write(self._descriptor, data)
            except BlockingIOError:  # another process has made the descriptor non-blocking
                select.select([], [self._descriptor], [], 1)
            except OSError as error:
                self.lost = error
        return size

    def _is_read(self) -> bool:
        try:
            ready = bool(select.select([], [self._descriptor], [], self._patience)[1])
        except (OSError, ValueError):  # the write itself will tell, or no number for `select`
            return True
        self._patience = PATIENCE if ready else 0
        return ready


class Stream(io.TextIOWrapper):
    """The text of a `Sink`; it stays open if a user's code closes it."""

    def close(self) -> None:
        self.flush()


class Streams:
    """Standard output and error of one command, for as long as the context is open."""

    def __init__(self, on_rank: bool) -> None:
        self._on_rank = on_rank
        self._before: dict[str, TextIO] = {}
        self._ours: dict[str, TextIO] = {}

    def __enter__(self) -> "Streams":
        _open_closed_descriptors()
        for name in ("stdout", "stderr"):
            self._before[name] = getattr(sys, name)
            self._ours[name] = self._protect(name, self._before[name])
            setattr(sys, name, self._ours[name])
        return self

    def __exit__(self, *_: object) -> None:
        for name, stream in self._ours.items():
            stream.flush()
            setattr(sys, name, self._before[name])

    def _protect(self, name: str, stream: TextIO | None) -> TextIO:
        if stream is None:  # it was closed
            return Path(os.devnull).open("w", encoding="utf-8")
        if not isinstance(stream, io.TextIOWrapper):
            return stream
        try:
            descriptor = stream.fileno()
        except OSError:  # a stream in memory
            stream.reconfigure(errors="replace")
            return stream
        stream.flush()
        # Python closes a stream that is gone, but not the descriptor, which belongs to `stream`
        sink: Any = Sink(descriptor, may_drop=self._on_rank and name == "stderr")
        return Stream(
            io.BufferedWriter(sink),
            encoding=stream.encoding,
            errors="replace",  # a file name need not be valid text
            line_buffering=stream.line_buffering or stream.write_through or name == "stderr",
        )


def lost_output() -> OSError | None:
    """Return the error at which standard output was lost; None if all of it could be written."""
    sys.stdout.flush()
    sink = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return sink.lost if isinstance(sink, Sink) else None


def _open_closed_descriptors() -> None:
    """Connect closed standard streams to nothing, so that no file of a run takes their numbers."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:  # the lowest free number is this one
            os.open(os.devnull, os.O_RDWR)
