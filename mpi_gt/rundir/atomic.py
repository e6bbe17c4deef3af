"""Atomic writes: after a crash or on a full disk, a file is either old or new, never torn."""

import contextlib
import errno
import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import StorageError
from ..files import json_text, kind_of

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)
"""Errors of a disk that takes no more, whatever was being written to it."""


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Replace a file by `content` as JSON, with the schema that the file's name stands for.

    If that fails, the old file stays.
    """
    text = json_text(kind_of(path), content) + "\n"
    # two processes, the front end and root, write run.json
    write_atomic(path, [text.encode()], suffix=str(os.getpid()))


def write_text(path: Path, text: str) -> None:
    """Replace a file by this text; if that fails, the old file stays."""
    write_atomic(path, [text.encode(errors="replace")])


def write_csv(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Replace a file by a table with these columns; if that fails, the old file stays."""
    import csv  # here: every rank imports this module

    text = io.StringIO()
    table = csv.DictWriter(text, columns, lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    write_text(path, text.getvalue())


def write_atomic(path: Path, pieces: Iterable[Any], suffix: str = "part") -> None:
    """Replace a file by these bytes and sync it to disk; raise StorageError if that fails.

    The bytes go into a hidden temporary file first, which is then renamed. `suffix` ends its
    name: two processes that may write the same file need different ones.
    """
    temporary = path.with_name(f".{path.name}.{suffix}")
    try:
        temporary.unlink(missing_ok=True)  # of a killed process; a link would lead elsewhere
        with temporary.open("xb") as file:
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_folder(path.parent)
    except BaseException as error:  # also one of those who make the pieces
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError):
            raise storage_error(path, error) from error
        raise


def sync_folder(folder: Path) -> None:
    """Sync a folder to disk, so that a rename in it survives a crash of the machine."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError:
        pass  # this file system cannot sync a folder
    finally:
        os.close(handle)


def storage_error(path: Path, error: OSError) -> StorageError:
    """Return a StorageError that names the path: that of a failed write or fsync does not."""
    return StorageError(f"cannot write {path}: {error.strerror or error}")


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raise StorageError with the name of the file for an OSError while it is written."""
    try:
        yield
    except OSError as error:
        raise storage_error(path, error) from error


def storage_failure(error: BaseException) -> StorageError | None:
    """Return an error that means a full or broken disk as a StorageError; None for any other."""
    if isinstance(error, StorageError):
        return error
    if not isinstance(error, OSError) or error.errno not in FULL:
        return None
    where = f"cannot write {error.filename}" if error.filename else "cannot write"
    return StorageError(f"{where}: {error.strerror}")
