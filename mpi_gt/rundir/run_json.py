"""run.json on the disk: whole or not at all, and true to the end. Needs nothing slow to import."""

import contextlib
import json
import os
import shlex
import socket
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """All of it or, where something breaks, what was there before."""
    text = json.dumps(content, indent=2, allow_nan=False) + "\n"
    write_whole(path, [text.encode()], suffix=str(os.getpid()))  # others may write it as well


def write_whole(path: Path, pieces: Iterable[Any], suffix: str = "part") -> None:
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


class StorageError(Exception):
    """The disk is full, or the directory gone: the message names the file."""


def storage_error(path: Path, error: OSError) -> StorageError:
    """With the path, which a failed write or fsync does not know."""
    return StorageError(f"cannot write {path}: {error.strerror or error}")


def read_facts(path: Path) -> dict[str, Any]:
    """The content of run.json in that directory; empty where there is none that can be read."""
    try:
        facts = json.loads((path / "run.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return facts if isinstance(facts, dict) else {}


def process_facts() -> dict[str, Any]:
    """Who is at work: with these `mpi-gt status` can tell whether it still is."""
    return {"host": socket.gethostname(), "pid": os.getpid()}


def announce(path: Path, facts: Mapping[str, Any]) -> Callable[[], None]:
    """Say in run.json that a run is on its way; what takes that back, if it never comes to be.

    `facts` is added to what a run that goes on has there already.
    """
    file = path / "run.json"
    made = [folder for folder in (path, *path.parents) if not folder.exists()]
    before = file.read_bytes() if file.exists() else None
    path.mkdir(parents=True, exist_ok=True)
    write_json(file, {**facts, "status": "running", "process": process_facts()})
    announced = file.read_bytes()

    def undo() -> None:
        with contextlib.suppress(OSError, StorageError):
            if file.read_bytes() != announced:
                return
            if before is not None:
                write_whole(file, [before])
                return
            file.unlink()
            for folder in made:
                folder.rmdir()

    return undo


def has_begun(path: Path) -> bool:
    """Whether all ranks are up and heed signals: root has written what they are."""
    return "graph" in read_facts(path)


def mark_failed(path: Path, error: str, exit_code: int) -> None:
    """Make the run.json of a run that cannot say so itself tell how it ended."""
    facts = read_facts(path)
    if facts.get("status") != "running":
        return  # there is no run to speak of, or it has told
    facts.update(status="failed", error=error, exit_code=exit_code)
    try:
        write_json(path / "run.json", facts)
    except StorageError:  # the disk is full: a word of the same length needs no room
        with contextlib.suppress(OSError), (path / "run.json").open("rb+") as file:
            text = file.read().replace(b'"status": "running"', b'"status": "failed" ', 1)
            file.seek(0)
            file.write(text)


def how_to_go_on(out: Path) -> str:
    return f"to go on: mpi-gt resume {shlex.quote(str(out))}"
