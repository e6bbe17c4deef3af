"""The floor of `mpi-gt bench`: the same collective, called from C and compiled with mpicc."""

import contextlib
import ctypes
import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import UserError
from ..files import with_schema
from ..launchers.programs import find_mpirun

if TYPE_CHECKING:
    from mpi4py import MPI

    from ..comm.node import Node

SOURCE = Path(__file__).with_name("neighbor_floor.c")
LIBRARY, REASON = "floor.so", "floor.json"  # in the directory of the bench, which all hosts see
HEADER = 16  # bytes, as in mpi-gt's messages
ROOM = 1 << 16  # for the library's description of itself


def build_floor(directory: Path) -> None:
    """Compile the floor into the directory, or write down there why there is none.

    The front end calls it: compilers are not for ranks, whose MPI may not survive a fork.
    """
    compiler = shutil.which("mpicc")
    with contextlib.suppress(UserError):  # where srun starts the ranks, there may be no mpirun
        compiler = shutil.which("mpicc", path=str(find_mpirun().parent)) or compiler
    reason = None
    if not SOURCE.exists():
        reason = f"{SOURCE.name} is missing from this installation"
    elif compiler is None:
        reason = "there is no mpicc"
    else:
        flags = ["-O2", "-shared", "-fPIC", str(SOURCE), "-o", str(directory / LIBRARY)]
        try:
            with tempfile.TemporaryDirectory(prefix="mpi-gt-") as folder:
                words = [_without_space(Path(compiler), Path(folder)), *flags]
                subprocess.run(
                    words,
                    check=True,
                    capture_output=True,
                    encoding="utf-8",
                    errors="replace",
                    timeout=120,
                )
        except (subprocess.SubprocessError, OSError) as error:
            output = getattr(error, "stderr", None) or str(error)
            reason = f"it could not be compiled: {output.strip()[-300:]}"
    if reason is not None:
        (directory / REASON).write_text(
            json.dumps(with_schema("floor", {"skipped": reason})), encoding="utf-8"
        )


def _without_space(compiler: Path, folder: Path) -> str:
    """Return mpicc by a path in `folder` if its own has a space, with which MPICH's fails."""
    if " " not in str(compiler):
        return str(compiler)
    prefix = folder / "prefix"
    prefix.symlink_to(compiler.parent.parent)
    return str(prefix / compiler.parent.name / compiler.name)


def remove_floor(directory: Path) -> None:
    """Remove the files of `build_floor`."""
    for name in (LIBRARY, REASON):
        with contextlib.suppress(OSError):
            (directory / name).unlink()


def load_floor(directory: Path, comm: "MPI.Intracomm") -> tuple[ctypes.CDLL | None, str | None]:
    """Return the compiled floor, or None and the reason, if any, why it cannot be used.

    Collective: every rank calls it, and all get the same answer. Without a front end there is
    neither a floor nor a reason.
    """
    from ..comm.collective import first_of_all

    asked = None
    if comm.rank == 0:
        if (directory / REASON).exists():
            asked = json.loads((directory / REASON).read_text(encoding="utf-8"))["skipped"]
        elif (directory / LIBRARY).exists():
            asked = (directory / LIBRARY).absolute()
    asked = comm.bcast(asked)
    if not isinstance(asked, Path):
        return None, asked
    library, reason = None, None
    try:
        library = _load(asked)
    except (OSError, ValueError, AttributeError) as error:
        reason = f"it could not be loaded: {error}"
    reason = first_of_all(comm, reason)
    return (library if reason is None else None), reason


def _load(path: Path) -> ctypes.CDLL:
    """Return the library; raise ValueError if it belongs to another MPI than mpi4py does."""
    from mpi4py import MPI

    library = ctypes.CDLL(str(path))
    text = ctypes.create_string_buffer(ROOM)
    failed = library.floor_library(text, ROOM)
    theirs, ours = text.value.decode(errors="replace"), MPI.Get_library_version()
    if failed or theirs.strip("\0\n ") != ours.strip("\0\n "):
        raise ValueError("the mpicc at hand belongs to another MPI than mpi4py uses")
    library.floor_seconds.restype = ctypes.c_double
    library.floor_seconds.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_int] * 2
    return library


class FloorTimer:
    """The floor for messages of `payload` bytes; it is used like an ExchangeTimer."""

    def __init__(self, node: "Node", library: ctypes.CDLL, payload: int) -> None:
        from mpi4py import MPI

        self._node = node
        self._send = np.zeros(payload + HEADER, np.uint8)
        size = payload + HEADER
        self._received = [
            np.zeros((len(layer.sources), size), np.uint8) for layer in node.row.layers
        ]
        self._arguments: list[list[Any]] = [
            [MPI._addressof(comm), self._send.ctypes.data, received.ctypes.data, size]
            for comm, received in zip(node.graph_comms, self._received, strict=True)
        ]
        self._call = library.floor_seconds

    def check(self, mark: int) -> None:
        """Exchange recognisable bytes; raise RuntimeError where others arrive than were sent.

        Collective: every rank calls it.
        """
        node = self._node.row
        self._send[:] = (node.node + mark) % 251
        for received in self._received:
            received[:] = 255
        self.seconds(1)
        for layer, received in zip(node.layers, self._received, strict=True):
            for row, source in zip(received, layer.sources, strict=True):
                if not (row == (source + mark) % 251).all():
                    raise RuntimeError(f"node {node.node} received other bytes than {source} sent")

    def seconds(self, count: int) -> float:
        """Return this rank's mean time of `count` exchanges in a row, on each layer.

        Collective: every rank calls it.
        """
        rounds, each = (1, count) if len(self._arguments) == 1 else (count, 1)
        seconds = [
            float(self._call(*arguments, each))
            for _ in range(rounds)
            for arguments in self._arguments
        ]
        if min(seconds) < 0:
            raise RuntimeError("MPI_Neighbor_allgather failed when called from C")
        return sum(seconds) / len(seconds)

    def free(self) -> None:
        """Do nothing: there is no MPI object to free."""
