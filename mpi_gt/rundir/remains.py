"""Remains of killed runs: segments in shared memory, and folders among the temporary files.

MPI removes them at its end; a killed one cannot. On each host the first rank writes down which are
those of its run. Whoever comes next (the front end after mpirun, or a resumed run) removes these,
and only these, once no process uses them any more.
"""

import contextlib
import json
import os
import re
import shutil
import socket
import time
from collections.abc import Iterable
from pathlib import Path

from .layout import SEGMENTS

MEMORY = Path("/dev/shm")
# the names of segments: what all segments of one run have in common, and a number
SEGMENT = re.compile(r"((?:sm_segment|vader_segment)\.[\w.-]+\.|mpich_shm_[0-9a-f]+_)\d+")
SESSION = re.compile(r"(?:ompi|prted)\.(\d+)")  # the folder of the mpirun with that number
OUTCOME = re.compile(r"\.mpi-gt-\w+")  # the folder of a front end: see `launch.mpirun`
PATIENCE = 3  # seconds that the ranks of a killed mpirun may need to end


def record_segments(directory: Path, outcome: str | None) -> None:
    """Write down the segments and folders of this rank's MPI. Called by one rank per host.

    `outcome` is the file for the exit code, in a folder that a killed front end leaves behind.
    """
    remove_remains(directory, with_outcome=True)  # of an earlier run on this host
    names = {match[1] for path in _mapped("self") if (match := SEGMENT.fullmatch(path.name))}
    folders = {str(Path(outcome).parent)} if outcome else set()
    if session := os.environ.get("PMIX_SERVER_TMPDIR"):  # set by Open MPI
        folders.add(session)
    record = {"space": _space(), "segments": sorted(names), "folders": sorted(folders)}
    with contextlib.suppress(OSError):  # this host does not see the directory, or it is full
        _file(directory).write_text(json.dumps(record), encoding="utf-8")


def remove_remains(directory: Path, with_outcome: bool = False) -> None:
    """Remove what an earlier run has left on this host, unless a process still uses it.

    `with_outcome`: also the folder of its front end, which is known to be gone.
    """
    try:
        record = json.loads(_file(directory).read_text(encoding="utf-8"))
        if record["space"] != _space():
            return  # here it cannot be seen which processes are alive
        found = [path for prefix in record["segments"] for path in _segments(str(prefix))]
        folders = [Path(str(folder)) for folder in record["folders"]]
    except (OSError, ValueError, KeyError, TypeError):
        return
    for path in _unused(found):
        with contextlib.suppress(OSError):
            path.unlink()
    for folder in folders:
        match = SESSION.fullmatch(folder.name)
        ended = match and not Path("/proc", match[1]).exists()
        if ended or (with_outcome and OUTCOME.fullmatch(folder.name)):
            shutil.rmtree(folder, ignore_errors=True)  # a link is left alone
    with contextlib.suppress(OSError):
        _file(directory).unlink()


def forget_segments(directory: Path) -> None:
    """Remove the records of all hosts: the run has ended by itself, and MPI with it."""
    for file in directory.glob(f"{SEGMENTS}*"):
        with contextlib.suppress(OSError):
            file.unlink()


def _file(directory: Path) -> Path:
    return directory / f"{SEGMENTS}{socket.gethostname()}.json"


def _space() -> str:
    """Return the name of the space in which this process and its numbers live."""
    try:
        return os.readlink("/proc/self/ns/pid")  # noqa: PTH115 (no path)
    except OSError:
        return ""


def _segments(prefix: str) -> list[Path]:
    """Return the segments of this user with that beginning."""
    if not SEGMENT.fullmatch(f"{prefix}0"):
        return []
    found = []
    for path in MEMORY.iterdir():
        with contextlib.suppress(OSError):
            rest = path.name.removeprefix(prefix)
            if rest != path.name and rest.isdecimal() and path.lstat().st_uid == os.geteuid():
                found.append(path)
    return found


def _unused(paths: Iterable[Path]) -> set[Path]:
    """Return those that no process maps, after waiting a while for processes that are ending."""
    wanted, until = set(paths), time.monotonic() + PATIENCE
    while wanted:
        processes = [folder.name for folder in Path("/proc").glob("[0-9]*")]
        used = {path for process in processes for path in _mapped(process)} & wanted
        if not used or time.monotonic() > until:
            return wanted - used
        time.sleep(0.1)
    return wanted


def _mapped(process: str) -> set[Path]:
    """Return the files of shared memory that a process maps; none if this cannot be seen."""
    try:
        text = Path("/proc", process, "maps").read_text(errors="replace")
    except OSError:
        return set()
    names = (
        line.rpartition(f" {MEMORY}/")[2] for line in text.splitlines() if f"{MEMORY}/" in line
    )
    return {MEMORY / name for name in names}
