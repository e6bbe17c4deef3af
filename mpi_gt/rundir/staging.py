"""Staging of checkpoints: written to scratch of the host at once, copied to the run meanwhile.

The thread that copies never calls MPI, and holds no lock of Python while it reads and writes. The
folder on scratch is private (see `private`), and written down in the run directory like those of a
launch (see `remains`): if this process is killed, the next run on this host removes it.
"""

import contextlib
import errno
import os
import secrets
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from ..errors import UserError
from . import private
from .atomic import storage_error, write_atomic, writing
from .layout import LAUNCHES
from .remains import write_record

BLOCK = 1 << 23  # bytes that are copied at a time
PATIENCE = 10  # seconds for a copy that is under way when the run ends in an error


def scratch_folder(text: str) -> Path:
    """Return the folder of this host that a text names; variables have their values of here."""
    return Path(os.path.expandvars(text))


def require_scratch(text: str) -> None:
    """Raise UserError unless this host has a folder of that name, to which one can write."""
    where = f"checkpoint-staging: '{text}' on {os.uname().nodename}"
    try:
        if not text or not scratch_folder(text).is_dir():
            raise UserError(f"{where} is not a folder; give one that every host has")
        trial = private.private_folder(scratch_folder(text), secrets.token_hex(8))
        trial.mkdir(mode=0o700)
        trial.rmdir()
    except OSError as error:
        raise UserError(f"{where} cannot be written to: {error.strerror}") from None


class Staging:
    """The use of scratch by one rank: one file at a time is written there, and copied.

    `name` is that of the folder, the same for all ranks of a host, of whom the first one has to
    come first: it writes the folder down in the run directory.
    """

    def __init__(self, scratch: Path, name: str, directory: Path, is_first: bool) -> None:
        self._folder = private.private_folder(scratch.absolute(), name)
        self._record = directory / f"{LAUNCHES}{name}"
        self._copying: threading.Thread | None = None
        self._ended = threading.Event()
        self._error: BaseException | None = None
        if is_first:
            write_record(directory, name, [self._folder], alone=True)
        try:
            self._lock = private.use(self._folder, make=True)
        except OSError as error:
            raise storage_error(self._folder, error) from error

    def write(self, path: Path, pieces: Iterable[Any]) -> None:
        """Write a file here, and begin to copy it to `path`. The copy before must be complete."""
        assert self._copying is None
        staged = self._folder / path.name
        with writing(staged), staged.open("wb") as file:
            for piece in pieces:
                file.write(piece)
        copying = threading.Thread(
            target=self._copy, args=(staged, path), name="checkpoint", daemon=True
        )
        copying.start()
        self._copying = copying

    def _copy(self, staged: Path, path: Path) -> None:
        try:
            with writing(staged), staged.open("rb") as file:
                write_atomic(path, self._blocks(file))
            with contextlib.suppress(OSError):
                staged.unlink()
        except BaseException as error:  # for the main thread, which reports it
            self._error = error

    def _blocks(self, file: IO[bytes]) -> Iterator[bytes]:
        while block := file.read(BLOCK):
            if self._ended.is_set():
                raise OSError(errno.ECANCELED, "the run has ended")
            yield block

    def require_success(self) -> None:
        """Raise the error of a copy that has failed, if there is one."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def wait(self) -> None:
        """Wait until the file is in the run directory; raise StorageError if that has failed."""
        if self._copying is not None:
            self._copying.join()
            self._copying = None
        self.require_success()

    def leave(self) -> None:
        """Remove the files here; the last rank of the host removes the folder.

        After an error, a copy that is under way gets some seconds to be completed: with those of
        the other hosts, it may be a newer checkpoint.
        """
        if self._lock < 0:
            return
        if self._copying is not None:
            self._copying.join(PATIENCE)
            self._ended.set()
            self._copying.join(PATIENCE)
        if private.is_last(self._lock):
            private.remove(self._folder)
            with contextlib.suppress(OSError):
                self._record.unlink()
        os.close(self._lock)
        self._lock = -1
