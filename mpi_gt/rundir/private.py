"""Private folders of one launch: whatever MPI writes outside of the run directory lies in them.

A folder is in use while a process holds a lock on a file in it. The kernel gives the lock back when
the process ends, however it ends, and other containers that share the folder see it as well.
"""

import contextlib
import fcntl
import os
import re
import signal
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from ..machine import PRIVATE_FOLDER

LOCK = "lock"
FOLDER = re.compile(rf"{re.escape(PRIVATE_FOLDER)}\w+")


def private_folder(base: Path, launch: str) -> Path:
    """Return the folder of a launch, of that name, among the files in `base`."""
    return base / f"{PRIVATE_FOLDER}{launch}"


def use(folder: Path, make: bool) -> int:
    """Mark a folder as in use until the returned file is closed, here and in all that inherit it.

    A folder that is missing is made with `make`; otherwise it was removed: FileNotFoundError.
    """
    while True:
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_CREAT if make else 0)
        try:
            if make:
                _make(folder)
            if not _is_own(folder):
                raise PermissionError(f"{folder} belongs to another user")
            file = os.open(folder / LOCK, flags, 0o600)
        except FileNotFoundError:
            if make and folder.parent.is_dir():
                continue  # it was removed just now
            raise
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_SH)
        if os.fstat(file).st_nlink:
            return file
        os.close(file)  # it was removed while this process waited for the lock


def is_last(file: int) -> bool:
    """Return whether no other process uses the folder; this one then does not either, or alone."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


@contextlib.contextmanager
def unused(folder: Path, until: float) -> Iterator[bool]:
    """Keep others from using a folder; yield whether it is unused, by the time `until` at last."""
    try:
        file = os.open(folder / LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:  # its maker was killed before it could use it
        yield True
        return
    except OSError:
        yield False
        return
    try:
        while not (free := is_last(file)) and time.monotonic() < until:
            time.sleep(0.05)
        yield free
    finally:
        os.close(file)


def exists(folder: Path) -> bool:
    """Return whether there is a private folder of this user with that name."""
    try:
        return FOLDER.fullmatch(folder.name) is not None and _is_own(folder)
    except OSError:
        return False


def remove(folder: Path) -> None:
    """Remove a folder that nobody uses; the lock goes last, for it keeps others out."""
    import shutil  # here: it imports all sorts of archives

    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if path.name == LOCK:
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        (folder / LOCK).unlink(missing_ok=True)
        folder.rmdir()


def end_users(folder: Path) -> None:
    """Kill the processes that use a folder, as far as they can be seen."""
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            files = [os.readlink(file) for file in (process / "fd").iterdir()]  # noqa: PTH115
            if str(folder / LOCK) in files and int(process.name) != os.getpid():
                os.kill(int(process.name), signal.SIGKILL)


def _make(folder: Path) -> None:
    """Make a folder if it is missing; `exist_ok` would fail for one that is removed meanwhile."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)


def _is_own(folder: Path) -> bool:
    info = folder.lstat()
    return stat.S_ISDIR(info.st_mode) and info.st_uid == os.geteuid()
