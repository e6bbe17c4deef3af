"""run.json on the disk: whole or not at all, and true to the end. Needs nothing slow to import."""

import contextlib
import json
import os
import shlex
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..errors import StorageError
from .atomic import write_atomic, write_json


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


def mark_running(path: Path, facts: Mapping[str, Any]) -> Callable[[], None]:
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
                write_atomic(file, [before])
                return
            file.unlink()
            for folder in made:
                folder.rmdir()

    return undo


def ranks_are_up(path: Path) -> bool:
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


def resume_hint(out: Path) -> str:
    return f"to go on: mpi-gt resume {shlex.quote(str(out))}"


def read_profile(path: Path) -> dict[str, Any]:
    """profile.json of a run directory."""
    found: dict[str, Any] = json.loads((path / "profile.json").read_text(encoding="utf-8"))
    return found
