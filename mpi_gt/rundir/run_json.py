"""run.json: read, and kept true from the launch of a run to its end.

The front end imports this module, so it must not import numpy.
"""

import contextlib
import os
import shlex
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ..errors import StorageError, UserError
from ..files import (
    COUNT,
    FLAG,
    NOT_NEGATIVE,
    NUMBER,
    POSITIVE,
    SOME,
    TABLE,
    TEXT,
    WHOLE,
    Each,
    Kind,
    OrNone,
    Record,
    mistake,
    read_table,
)
from .atomic import write_atomic, write_json
from .layout import CHECKPOINTS, PART_FILES


def is_pid(value: Any) -> bool:
    """Return whether a value can be the id of a process."""
    return type(value) is int and 0 <= value < 2**31


def is_result(value: Any) -> bool:
    """Return whether a value can be the result of an algorithm: what it measured, or an error."""
    if isinstance(value, dict) and "error" in value:
        return not mistake(value, {"error": OrNone(TEXT)})
    return not mistake(value, Record(RESULT))


RESULT = {"final": TABLE, "seconds_per_iteration": NOT_NEGATIVE, "bytes_sent": COUNT}
MARK = Record({"length": COUNT, "sha256": TEXT})
"""The kinds of a mark in metrics.csv, which a checkpoint and a finished algorithm hold."""
NAMED = Record({"name": TEXT, "options": TABLE})
"""The kinds of a problem, graph or algorithm: its name, and all its options with their values."""
FACTS = {
    "status": TEXT,
    "error": OrNone(TEXT),
    "exit_code": WHOLE,
    "started": TEXT,
    "finished": TEXT,
    "config": {
        "problem": TEXT,
        "algorithm": TEXT,
        "algorithms": OrNone(TEXT),
        "graph": OrNone(TEXT),
        "iterations": SOME,
        "seeds": SOME,
        "n": OrNone(SOME),
        "log_every": OrNone(SOME),
        "profile": FLAG,
    },
    "process": {"host": TEXT, "pid": Kind("a process id", is_pid)},
    "versions": TABLE,
    "blas": OrNone(TABLE),
    "mpi": OrNone(TABLE),
    "warnings": Each(TEXT),
    "hosts": Each(TEXT),
    "ranks_per_core": POSITIVE,
    "graph": {"nodes": COUNT, "edges": COUNT, "degree_max": COUNT, "degree_mean": NUMBER},
    "identity": {"algorithm": TABLE},
    "planned": Each(SOME, named=True),
    "problem": {"dim": SOME},
    "options": {"problem": NAMED, "graph": NAMED, "algorithm": Each(NAMED, named=True)},
    "grid": Record({"options": TABLE, "over": TABLE, "points": Each(TEXT)}),
    "summary": TABLE,
    "results": Each(Kind("the result of an algorithm", is_result), named=True),
    "progress": Each(Record({"metrics": MARK, "output": OrNone(TEXT)}), named=True),
    "resumes": Each(TABLE),
    "seconds_per_iteration": NOT_NEGATIVE,
    "bytes_sent": COUNT,
}
"""The kinds of the values in run.json that are read again."""
PROFILE = {
    "iterations": SOME,
    "seconds_per_iteration": POSITIVE,
    "own_seconds": NOT_NEGATIVE,
    "exposed_communication": NUMBER,
    "bytes_by_rank": Each(NOT_NEGATIVE),
    "waiting": {"mean": NUMBER, "by_rank": Each(NUMBER)},
    "phases": Each({"by_rank": Each(NUMBER)}, named=True),
}
"""The kinds of the values in profile.json that are read again."""


def planned_iterations(facts: Mapping[str, Any], label: str | None) -> int:
    """Return the iterations of that algorithm: those that its budget allows, or of all."""
    planned: int = facts.get("planned", {}).get(label, facts["config"]["iterations"])
    return planned


def read_facts(path: Path) -> dict[str, Any]:
    """Return the content of run.json in that directory; empty if it is missing or damaged."""
    try:
        return read_table(path / "run.json", FACTS)
    except UserError:
        return {}


def require_facts(path: Path, required: Iterable[str] = ()) -> dict[str, Any]:
    """Return the content of run.json in that directory; empty if there is none.

    Raises UserError, which names file and key, if it is damaged or lacks one of the `required`.
    """
    file = path / "run.json"
    return read_table(file, FACTS, required) if os.path.lexists(file) else {}


def is_sweep(path: Path) -> bool:
    """Return whether a directory holds a sweep over a grid, whose points are runs of their own."""
    return "grid" in read_facts(path)


def process_facts() -> dict[str, Any]:
    """Return host and pid of this process: `mpi-gt status` checks whether it is alive."""
    return {"host": os.uname().nodename, "pid": os.getpid()}


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
    """Return the end of a message, the command that resumes the run; empty if nothing was saved."""
    if not is_resumable(out):
        return ""
    return f"; to continue: mpi-gt resume {shlex.quote(str(out))}"


def is_resumable(path: Path) -> bool:
    """Return whether a run left something to resume: a checkpoint, or a finished algorithm."""
    facts = read_facts(path)
    if facts.get("progress") or "grid" in facts:  # a sweep has its points
        return True
    folder = path / CHECKPOINTS
    return any(True for files in PART_FILES for _ in folder.glob(f"[ab]/{files}"))


def read_profile(path: Path, required: Iterable[str] = ()) -> dict[str, Any]:
    """Return the content of profile.json in a run directory; raise UserError if it is damaged."""
    return read_table(path / "profile.json", PROFILE, required)
