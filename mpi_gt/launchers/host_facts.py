"""Facts of a rank's host as it sees them: its cores, limits, file system, network, transports."""

import contextlib
import os
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .. import memory
from ..machine import cpu_quota

FABRICS = ("/sys/class/infiniband", "/sys/class/cxi", "/sys/class/hfi1_0")
"""Folders in which Linux lists the devices of fast networks."""

DEVICES = {"infiniband": "InfiniBand", "cxi": "Slingshot", "hfi1": "Omni-Path"}
"""Words in the names of the files by which a process uses such a device."""


@dataclass(frozen=True)
class HostFacts:
    """The facts of one rank's host, as they are for that rank."""

    rank: int
    host: str
    cpus: tuple[int, ...]  # that this rank may run on
    cpus_online: int
    cpu_quota: float | None  # of the control group, in processors
    memory_limit: int | None  # of the control group, in bytes
    filesystem: str  # type of the file system of the run directory
    mount: str
    free: int  # bytes left there
    visible: bool  # this rank sees the file that root has put there
    fabric: tuple[str, ...]  # devices of fast networks
    transports: tuple[str, ...]  # what connects this rank with others, found after an exchange


def host_facts(rank: int, folder: Path, token: str) -> HostFacts:
    """Return the facts of this rank; `token` names a file that root has made in `folder`."""
    quota, limits = cpu_quota(), memory.cgroup_limits()
    kind, mount = filesystem(folder)
    free = 0
    with contextlib.suppress(OSError):
        state = os.statvfs(folder)
        free = state.f_bavail * state.f_frsize
    return HostFacts(
        rank,
        socket.gethostname(),
        _cpus(),
        os.cpu_count() or 1,
        None if quota == float("inf") else quota,
        min(limits, default=None),
        kind,
        mount,
        free,
        (folder / token).exists(),
        fabric_devices(),
        transports(),
    )


def _cpus() -> tuple[int, ...]:
    try:
        return tuple(sorted(os.sched_getaffinity(0)))
    except (AttributeError, OSError):  # not on every system
        return tuple(range(os.cpu_count() or 1))


def filesystem(path: Path, mounts: Path = Path("/proc/self/mountinfo")) -> tuple[str, str]:
    """Return the type of the file system that holds a path, and where it is mounted."""
    best = ("unknown", "")
    real = os.path.realpath(path)
    with contextlib.suppress(OSError):
        for line in mounts.read_text(errors="surrogateescape").splitlines():
            before, _, after = line.partition(" - ")
            point = before.split()[4].replace("\\040", " ")
            inside = real == point or real.startswith(point.rstrip("/") + "/")
            if inside and len(point) >= len(best[1]):
                best = (after.split()[0], point)
    return best


def fabric_devices() -> tuple[str, ...]:
    """Return the devices of fast networks on this host."""
    found = []
    for folder in map(Path, FABRICS):
        with contextlib.suppress(OSError):
            found += sorted(entry.name for entry in folder.iterdir())
    return tuple(found)


def transports() -> tuple[str, ...]:
    """Return what this process has open to reach others: shared memory, tcp, fast networks."""
    found = set()
    sockets = set()
    with contextlib.suppress(OSError):
        for entry in Path("/proc/self/fd").iterdir():
            with contextlib.suppress(OSError):
                target = str(entry.readlink())
                found |= {name for word, name in DEVICES.items() if f"/dev/{word}" in target}
                if target.startswith("socket:["):
                    sockets.add(target[8:-1])
    with contextlib.suppress(OSError):
        lines = Path("/proc/self/maps").read_text(errors="replace").splitlines()
        if any("/dev/shm/" in line or "SYSV" in line for line in lines):
            found.add("shared memory")
    if any(_reaches_other_hosts(line, sockets) for line in _tcp_lines()):
        found.add("tcp")
    return tuple(sorted(found))


def _tcp_lines() -> Iterable[list[str]]:
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in Path("/proc/self/net", name).read_text().splitlines()[1:]:
                yield line.split()


def _reaches_other_hosts(words: list[str], sockets: set[str]) -> bool:
    """Return whether a line of /proc/net/tcp is an open connection of ours to another address."""
    here, there, state, inode = words[1], words[2], words[3], words[9]
    other = here.partition(":")[0] != there.partition(":")[0]
    return state == "01" and inode in sockets and other


def show_cpus(cpus: Iterable[int]) -> str:
    """Return numbers of processors as ranges: 0-3,8."""
    parts: list[list[int]] = []
    for cpu in sorted(cpus):
        if parts and cpu == parts[-1][-1] + 1:
            parts[-1][1:] = [cpu]
        else:
            parts.append([cpu])
    return ",".join("-".join(map(str, part)) for part in parts)
