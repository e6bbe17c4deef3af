"""rundir.atomic."""

import contextlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..errors import StorageError


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """All of it or, where something breaks, what was there before."""
    text = json.dumps(content, indent=2, allow_nan=False) + "\n"
    write_atomic(path, [text.encode()], suffix=str(os.getpid()))  # others may write it as well


def write_atomic(path: Path, pieces: Iterable[Any], suffix: str = "part") -> None:
    """Replace a file by these bytes: on the disk for good, or the old ones still there."""
    temporary = path.with_name(f".{path.name}.{suffix}")
    try:
        with temporary.open("wb") as file:
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise storage_error(path, error) from error


def sync_folder(folder: Path) -> None:
    """What was renamed there stays renamed when the machine goes down."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError:
        pass  # a file system that cannot
    finally:
        os.close(handle)


def storage_error(path: Path, error: OSError) -> StorageError:
    """With the path, which a failed write or fsync does not know."""
    return StorageError(f"cannot write {path}: {error.strerror or error}")
