"""run.json: read, and kept true from the launch of a run to its end.

The front end imports this module, so it must not import numpy.
"""

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
    """Return the content of run.json in that directory; empty if it cannot be read."""
    try:
        facts = json.loads((path / "run.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return facts if isinstance(facts, dict) else {}


def process_facts() -> dict[str, Any]:
    """Return host and pid of this process: `mpi-gt status` checks whether it is alive."""
    return {"host": socket.gethostname(), "pid": os.getpid()}


def mark_running(path: Path, facts: Mapping[str, Any]) -> Callable[[], None]:
    """Write to run.json that a run is starting, with `facts`; return a function that undoes it.

    The caller calls that function if the run never starts. It does nothing once another process
    has changed run.json.
    """
    file = path / "run.json"
    made = [folder for folder in (path, *path.parents) if not folder.exists()]
    before = file.read_bytes() if file.exists() else None
    path.mkdir(parents=True, exist_ok=True)
    write_json(file, {**facts, "status": "running", "process": process_facts()})
    written = file.read_bytes()

    def undo() -> None:
        with contextlib.suppress(OSError, StorageError):
            if file.read_bytes() != written:
                return
            if before is not None:
                write_atomic(file, [before])
                return
            file.unlink()
            for folder in made:
                folder.rmdir()

    return undo


def ranks_are_up(path: Path) -> bool:
    """Return whether all ranks have started and handle signals.

    Only then does root write the graph to run.json.
    """
    return "graph" in read_facts(path)


def mark_failed(path: Path, error: str, exit_code: int) -> None:
    """Mark a run as failed in its run.json, if the run could not do so itself."""
    facts = read_facts(path)
    if facts.get("status") != "running":
        return  # there is no run, or it wrote itself how it ended
    facts.update(status="failed", error=error, exit_code=exit_code)
    try:
        write_json(path / "run.json", facts)
    except StorageError:  # the disk is full, but a word of the same length needs no space
        with contextlib.suppress(OSError), (path / "run.json").open("rb+") as file:
            text = file.read().replace(b'"status": "running"', b'"status": "failed" ', 1)
            file.seek(0)
            file.write(text)


def resume_hint(out: Path) -> str:
    """Return the end of a message: the command that resumes the run."""
    return f"to continue: mpi-gt resume {shlex.quote(str(out))}"


def read_profile(path: Path) -> dict[str, Any]:
    """Return the content of profile.json in a run directory."""
    profile: dict[str, Any] = json.loads((path / "profile.json").read_text(encoding="utf-8"))
    return profile
