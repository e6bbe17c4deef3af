"""Remains of killed runs: segments in shared memory, and folders among the temporary files.

MPI removes them at its end; a killed one cannot. So every launch has a name, and private folders of
that name in which MPI keeps its files. The name is written to the run directory before anything is
started. Whoever comes next (the front end after mpirun, or the next run in the directory) removes
the folders of the names that it finds there, once no process uses them, and nothing else.

MPICH knows no folder of one's own: there a rank notes the names of the segments after MPI_Init. If
it was killed in there, those that have appeared since and that no process uses are its own.
"""

import contextlib
import json
import os
import re
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ..files import read_own_table, with_schema
from . import private
from .layout import LAUNCHES

MEMORY = Path("/dev/shm")
NOTES = "notes.json"  # in the private folder of a host: what lies outside of it
INIT = "init"  # in there: made by a rank of MPICH before MPI_Init
RECORD = "record"  # in there as well: the file in the run directory that names this launch
# the names of MPICH's segments: what all segments of one run have in common, and a number
SEGMENT = re.compile(r"(mpich_(?:shm|vci)_[0-9a-f]+_)\d+")
WINDOW = re.compile(r"mpich_shar_tmp\w+")  # of MPICH as well, until all ranks have mapped it
SESSION = re.compile(r"(?:ompi|prted)\.(\d+)")  # the folder of the mpirun with that number
FIRST_SPACE = "pid:[4026531836]"  # of Linux, in which all processes have numbers
PATIENCE = 3  # seconds that the ranks of a killed mpirun may need to end


def write_record(directory: Path, launch: str, folders: Sequence[Path], alone: bool) -> Path:
    """Write down a launch, and its folders on this host, in the run directory; return the file.

    `alone`: it has no ranks on other hosts.
    """
    file = directory / f"{LAUNCHES}{launch}"
    record = {
        "host": os.uname().nodename,
        "alone": alone,
        "folders": [str(each) for each in folders],
    }
    with contextlib.suppress(OSError):  # this host does not see the directory, or it is full
        file.write_text(json.dumps(with_schema("launch", record)), encoding="utf-8")
    return file


def remove_remains(directory: Path, current: str | None, patience: float = 0) -> None:
    """Remove what earlier launches in this directory have left on this host, unless it is in use.

    Another process that runs in this directory is not expected: it has been claimed.
    """
    until = time.monotonic() + patience
    for file in directory.glob(f"{LAUNCHES}*"):
        launch = file.name.removeprefix(LAUNCHES)
        if launch == current or not launch.isalnum():
            continue
        record = read_own_table(file)
        here = record.get("host") == os.uname().nodename
        folders = [Path(str(each)) for each in _items(record, "folders")] if here else []
        gone = remove_folders(launch, folders, until)
        if gone and (not record or (here and record.get("alone"))):  # none: killed in writing it
            with contextlib.suppress(OSError):
                file.unlink()


def remove_folders(launch: str, folders: Iterable[Path], until: float) -> bool:
    """Remove the folders of a launch on this host that nobody uses; return whether all are gone."""
    memory = private.private_folder(MEMORY, launch)
    gone = [_remove(folder, until) for folder in (memory, *folders)]  # each is tried
    return all(gone)


def forget_launches(directory: Path, everywhere: bool = False) -> None:
    """Remove the records of all launches, or (`everywhere`) of those with ranks on other hosts.

    These have ended by themselves, and have left nothing on hosts that cannot be seen from here.
    """
    for file in directory.glob(f"{LAUNCHES}*"):
        if not (everywhere and read_own_table(file).get("alone")):
            with contextlib.suppress(OSError):
                file.unlink()


def remove_own(folder: Path) -> None:
    """Remove the folder of this host and the record of its launch: this was its last rank."""
    record = ""
    with contextlib.suppress(OSError):
        record = (folder / RECORD).read_text(encoding="utf-8")
    private.remove(folder)
    if Path(record).name.startswith(LAUNCHES):
        with contextlib.suppress(OSError):
            Path(record).unlink()


def write_notes(folder: Path) -> None:
    """Note, once per host, what this rank's MPI has outside of the private folder."""
    if (folder / NOTES).exists():
        return  # the ranks of one host have the same
    session = os.environ.get("PMIX_SERVER_TMPDIR")  # set by Open MPI
    notes = {
        "space": _space(),
        "segments": _own_segments(),
        "folders": [session] if session else [],
    }
    mine = folder / f"{NOTES}.{os.getpid()}"
    with contextlib.suppress(OSError):
        mine.write_text(json.dumps(with_schema("notes", notes)), encoding="utf-8")
        mine.replace(folder / NOTES)


def _remove(folder: Path, until: float) -> bool:
    """Remove a private folder, and what its notes name; return whether it is gone."""
    if not private.exists(folder):
        return True
    with private.unused(folder, until) as free:
        if free:
            _remove_noted(read_own_table(folder / NOTES))
            _remove_unnoted(folder)
            private.remove(folder)
    return not private.exists(folder)


def _remove_noted(notes: dict[str, Any]) -> None:
    """Remove segments, and the folders of an mpirun that has ended."""
    for prefix in _items(notes, "segments"):
        for path in _segments(str(prefix)):
            with contextlib.suppress(OSError):
                path.unlink()
    if notes.get("space") != _space():
        return  # here it cannot be seen which processes are alive
    for folder in _items(notes, "folders"):
        match = SESSION.fullmatch(Path(str(folder)).name)
        if match and not Path("/proc", match[1]).exists():
            import shutil  # here: it imports all sorts of archives

            shutil.rmtree(str(folder), ignore_errors=True)  # a link is left alone


def _remove_unnoted(folder: Path) -> None:
    """Remove the segments of ranks that were killed in MPI_Init, before they could note them.

    Shared windows are never noted: they have a name for about a millisecond.
    """
    try:
        begin = (folder / INIT).stat().st_mtime
    except OSError:
        return  # not MPICH, or killed before
    if not _sees_all():
        return
    kinds = (WINDOW,) if (folder / NOTES).exists() else (WINDOW, SEGMENT)
    found = [path for path in MEMORY.iterdir() if any(kind.fullmatch(path.name) for kind in kinds)]
    recent = {str(path) for path in found if _made_since(path, begin)}
    for name in recent and recent - _used_files():
        with contextlib.suppress(OSError):
            Path(name).unlink()


def _made_since(path: Path, begin: float) -> bool:
    with contextlib.suppress(OSError):
        info = path.lstat()
        return info.st_uid == os.geteuid() and info.st_ctime >= begin
    return False


def _sees_all() -> bool:
    """Return whether this process sees all processes of the machine, those in containers, too."""
    return _space() == FIRST_SPACE


def _used_files() -> set[str]:
    """Return the files in shared memory that any process has opened or mapped."""
    used = set()
    for process in Path("/proc").glob("[0-9]*"):
        # opened ones first: who maps a file has opened it, and may close it then
        with contextlib.suppress(OSError):
            for file in (process / "fd").iterdir():
                with contextlib.suppress(OSError):
                    used.add(os.readlink(file))  # noqa: PTH115 (it may be no path)
        used |= _mapped(process.name)
    return used


def _mapped(process: str) -> set[str]:
    """Return the files in shared memory that a process maps; none if this cannot be seen."""
    try:
        text = Path("/proc", process, "maps").read_text(errors="replace")
    except OSError:
        return set()
    mark = f" {MEMORY}/"
    return {mark[1:] + line.rpartition(mark)[2] for line in text.splitlines() if mark in line}


def _items(content: dict[str, Any], key: str) -> list[Any]:
    items = content.get(key)
    return items if isinstance(items, list) else []


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


def _own_segments() -> list[str]:
    """Return the beginnings of the names of the segments that this process maps."""
    names = (Path(path).name for path in _mapped("self"))
    return sorted({match[1] for name in names if (match := SEGMENT.fullmatch(name))})
