"""Programs of JAX: traced by every rank, compiled once per host, kept between runs."""

import contextlib
import functools
import hashlib
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...datasets.folders import cache_folder
from ...errors import UserError
from ..base import Array
from ..rows import alone
from .references import instructions

KEPT = 200
"""The programs in the cache; beyond them the ones that were not used for longest are removed."""


@functools.cache
def start_jax() -> Any:
    """Import JAX and start it on one thread of this processor; return the package.

    Threads of JAX would only compete with the other ranks for the cores. It asks for their number
    once, by NPROC, when it starts; a process that has used JAX before keeps its threads.
    """
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    before = os.environ.get("NPROC")
    os.environ["NPROC"] = "1"
    try:
        import jax

        with contextlib.suppress(AttributeError, ValueError):  # of some versions only
            jax.config.update("jax_cpu_enable_async_dispatch", False)
        jax.devices("cpu")
    finally:
        if before is None:
            del os.environ["NPROC"]
        else:
            os.environ["NPROC"] = before
    return jax


def in_full_precision() -> Any:
    """Return a context manager in which JAX knows float64, whatever else the process chose."""
    jax = start_jax()
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(True)
    from jax import experimental  # before 0.8

    return experimental.enable_x64(True)


class Program:
    """A function of arrays that is compiled at its first call with arrays of some shapes.

    Its results are arrays of JAX.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._compiled: dict[Any, Callable[..., Any]] = {}

    def __call__(self, *arguments: Any) -> Any:
        kinds = tuple((each.shape, each.dtype) for each in arguments)
        with in_full_precision():
            run = self._compiled.get(kinds)
            if run is None:
                run = self._compiled[kinds] = _compile(self._function, arguments)
            return run(*arguments)


def _compile(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Callable[..., Any]:
    """Return the compiled function: from the cache, or compiled by one process of this host."""
    jax = start_jax()
    with jax.default_device(jax.devices("cpu")[0]):
        lowered = jax.jit(function).lower(*arguments)
    try:
        entry = cache_folder() / "jax" / _key(lowered)
    except UserError:  # there is no home folder
        return lowered.compile()
    run = _read(entry, lowered)
    if run is not None:
        return run
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(UserError):  # a folder that cannot be written to
            stack.enter_context(alone(entry.parent))
        run = _read(entry, lowered)
        if run is None:
            run = lowered.compile()
            _write(entry, run)
    return run


def _key(lowered: Any) -> str:
    """Return the name of a program: it tells code, versions, processor and JAX's own settings."""
    import jaxlib

    jax = start_jax()
    parts = (
        lowered.as_text(),
        jax.__version__,
        jaxlib.__version__,
        sys.version,
        _processor(),
        os.environ.get("XLA_FLAGS", ""),
    )
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@functools.cache
def _processor() -> str:
    """Return what machine code depends on: hosts that share a home folder may differ in it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return f"{os.uname().machine} {instructions()}"
    kinds = ("flags", "Features", "model", "CPU part", "vendor_id")
    return "\n".join(sorted({line for line in lines if line.startswith(kinds)}))


def _read(entry: Path, lowered: Any) -> Any:
    """Return a program of the cache; None if it is not there, or is damaged."""
    from jax.experimental import serialize_executable

    try:
        content = entry.read_bytes()
        if hashlib.sha256(content[32:]).digest() != content[:32]:
            return None
        run = serialize_executable.deserialize_and_load(
            content[32:], lowered.in_tree, lowered.out_tree
        )
        os.utime(entry)
    except Exception:  # a cache must never fail a run: the program is compiled again
        return None
    return run


def _write(entry: Path, run: Any) -> None:
    """Keep a program, if that is possible; a half-written file never gets its name."""
    from jax.experimental import serialize_executable

    part = entry.with_name(f".{entry.name}.{socket.gethostname()}-{os.getpid()}")
    try:
        content = serialize_executable.serialize(run)[0]
        entry.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(hashlib.sha256(content).digest() + content)
        part.replace(entry)
        _remove_old(entry.parent)
    except Exception:  # a full disk, or a program that this version cannot write
        with contextlib.suppress(OSError):
            part.unlink()


def _remove_old(folder: Path) -> None:
    """Remove the programs beyond KEPT, and remains of processes that were killed."""
    files = sorted(folder.iterdir(), key=lambda file: file.stat().st_mtime, reverse=True)
    for file in files[KEPT:]:
        with contextlib.suppress(OSError):
            file.unlink()


def as_array(result: Any) -> Array:
    """Return a result of a program as an array of numpy that may be changed."""
    import numpy as np

    return np.array(result)
