"""Claim of a directory: one process at a time writes there, on this host or another.

The front end claims the directory before it starts mpirun, and holds the claim to the end. Its
ranks work under that claim: they know its token from the environment. A killed front end frees the
claim; ranks that outlive it still hold the lock on metrics.csv (see `run_directory`).
"""

import contextlib
import fcntl
import json
import os
import shlex
import sys
import time
from pathlib import Path
from typing import Any

from ..errors import UserError
from ..files import read_own_table, with_schema

LOCK_FILE = ".lock"
TOKEN = "MPI_GT_CLAIM"
"""Names the environment variable with the token of the claim that ranks work under."""


class Claim:
    """The exclusive use of a directory until `release`; as a context manager, until its end."""

    def __init__(self, path: Path, file: int | None, token: str) -> None:
        self._path = path
        self._file = file  # None: another process holds the lock for this one
        self.token = token

    def release(self) -> None:
        """Give the directory back. Later calls do nothing."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                (self._path / LOCK_FILE).unlink()
            os.close(self._file)
            self._file = None

    def __enter__(self) -> "Claim":
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


def claim(path: Path) -> Claim:
    """Claim a directory, and make it if needed; raise UserError naming the holder if it is taken.

    A rank whose front end holds the claim gets one that refers to it.
    """
    token = os.environ.get(TOKEN)
    if token is not None and _holder(path).get("token") == token:
        return Claim(path, None, token)
    try:
        path.mkdir(parents=True, exist_ok=True)
        file = _lock(path)
        token = f"{os.uname().nodename} {os.getpid()} {time.time_ns()}"
        holder = {
            "token": token,
            "host": os.uname().nodename,
            "pid": os.getpid(),
            "command": shlex.join(["mpi-gt", *sys.argv[1:]])[:500],
            "since": time.strftime("%Y-%m-%d %H:%M:%S"),
        }
        os.ftruncate(file, 0)
        os.pwrite(file, json.dumps(with_schema("lock", holder)).encode(), 0)
    except OSError as error:
        raise UserError(f"cannot write to {path}: {error.strerror or error}") from None
    return Claim(path, file, token)


def require_unclaimed(path: Path) -> None:
    """Raise UserError naming the holder if another process has claimed the directory."""
    if (path / LOCK_FILE).exists():
        claim(path).release()


def is_claimed(path: Path) -> bool:
    """Return whether another process has claimed the directory, as far as locks tell."""
    try:
        with (path / LOCK_FILE).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _lock(path: Path) -> int:
    """Return the locked file of a directory, open."""
    while True:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        file = os.open(path / LOCK_FILE, flags, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            raise UserError(f"{path} is in use by {describe_holder(path)}") from None
        except OSError as error:
            if _is_alive(_holder(path)):  # a file system without locks
                os.close(file)
                raise UserError(f"{path} is in use by {describe_holder(path)}") from error
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file), (path / LOCK_FILE).stat()):
                return file
        os.close(file)  # its holder removed it before this process had the lock


def describe_holder(path: Path) -> str:
    """Return who has claimed the directory, as the end of a message."""
    holder = _holder(path)
    if not holder:
        return "another run"
    return "process {pid} on {host} since {since} ({command})".format_map(
        {name: holder.get(name, "?") for name in ("pid", "host", "since", "command")}
    )


def _holder(path: Path) -> dict[str, Any]:
    return read_own_table(path / LOCK_FILE)


def _is_alive(holder: dict[str, Any]) -> bool:
    """Return whether the holder is a live process of this host."""
    if holder.get("host") != os.uname().nodename or not isinstance(holder.get("pid"), int):
        return False
    try:
        os.kill(holder["pid"], 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return bool(holder["pid"] != os.getpid())
