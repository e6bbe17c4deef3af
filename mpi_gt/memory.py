"""Memory: the bytes that this process and this host still have, compared with an estimate."""

import contextlib
import resource
from collections.abc import Iterator
from pathlib import Path

from .errors import UserError

VECTORS = 6
"""Arrays of the size of x that any run holds at once, at least: State, gradient, messages."""
SMALL = 10**7  # bytes that are not compared with anything: that takes longer than to have them
CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUPS = Path("/proc/self/cgroup")
UNLIMITED = 1 << 62  # cgroups of version 1 write a number near 2^63 for "no limit"


def require_memory(what: str, size: int, processes: int = 1, remedy: str = "") -> None:
    """Raise UserError if `size` bytes in each of `processes` processes of this host are too many.

    `size` should be an estimate from below: a run that fits must never be refused.
    """
    if size * processes < SMALL:
        return
    host, own = host_memory(), process_memory()
    if host is not None and size * processes > host:
        total = size * processes
        each = f" in {processes} processes together" if processes > 1 else ""
        text = f"{what} needs {show_bytes(total)}{each}, but this host has {show_bytes(host)} left"
    elif own is not None and size > own:
        limit = f"the limit of a process (ulimit -v) leaves {show_bytes(own)}"
        text = f"{what} needs {show_bytes(size)}, but {limit}"
    else:
        return
    raise UserError(text + (f"; {remedy}" if remedy else ""))


def host_memory() -> int | None:
    """Return the bytes that all processes together may still take; None if that is unknown."""
    limits = []
    with contextlib.suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        limits += [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvail")]
    limits += cgroup_limits()
    return min(limits, default=None)


def cgroup_limits() -> list[int]:
    """Return the limits of this process's control groups and of those that hold them."""
    limits = []
    with contextlib.suppress(OSError):
        for line in OWN_CGROUPS.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and "memory" not in controllers.split(","):
                continue
            top = CGROUPS / "memory" if controllers else CGROUPS
            name = "memory.limit_in_bytes" if controllers else "memory.max"
            group = top / path.strip("/")
            for folder in (group, *group.parents):
                with contextlib.suppress(OSError, ValueError):  # "max": no limit
                    limits.append(int((folder / name).read_text()))
                if folder == top:
                    break
    return [limit for limit in limits if limit < UNLIMITED]


def process_memory() -> int | None:
    """Return the bytes that this process may still map; None without a limit (ulimit -v)."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return None
    used = 0
    with contextlib.suppress(OSError, ValueError, IndexError):
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    return max(0, limit - used)


@contextlib.contextmanager
def limited_memory(extra: int) -> Iterator[None]:
    """Let this process take `extra` more bytes at most in the `with` block, else MemoryError."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with contextlib.suppress(OSError, ValueError, IndexError):
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        if soft == resource.RLIM_INFINITY or used + extra < soft:
            resource.setrlimit(resource.RLIMIT_AS, (used + extra, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@contextlib.contextmanager
def reported_memory_errors(what: str) -> Iterator[None]:
    """Turn a MemoryError in the `with` block into a UserError."""
    try:
        yield
    except MemoryError as error:
        raise UserError(f"{what} {out_of_memory(error)}") from None


def out_of_memory(error: MemoryError) -> str:
    """Return the end of a message about a MemoryError; numpy says how much it asked for."""
    text = " ".join(str(error).split())
    return "does not fit into memory" + (f": {text}" if text else "")


def show_bytes(size: int) -> str:
    """Return a number of bytes as people read it, such as 1.6 GB."""
    power = max(0, min(6, (len(str(size)) - 1) // 3))
    unit = ("bytes", "kB", "MB", "GB", "TB", "PB", "EB")[power]
    return f"{size / 1000**power:.3g} {unit}"
