"""Private folder of a rank's host: Open MPI keeps the segments of all ranks on the host in it."""

import contextlib
import hashlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from ..errors import UserError
from . import private
from .layout import LAUNCHES
from .lock import claim
from .remains import (
    INIT,
    MEMORY,
    PATIENCE,
    RECORD,
    remove_own,
    remove_remains,
    write_notes,
    write_record,
)

LAUNCH = "MPI_GT_LAUNCH"
"""Names the variable with the name of the launch, and the host whose folder the front end made."""

# the options by which Open MPI 5 and 4 are told where to put segments
BACKING = (
    "OMPI_MCA_btl_sm_backing_directory",
    "OMPI_MCA_btl_vader_backing_directory",
    "OMPI_MCA_osc_sm_backing_directory",
    "OMPI_MCA_osc_rdma_backing_directory",
)
NO_TRIAL = ("OMPI_MCA_shmem", "^posix")  # it tries a segment outside, only to come second then


class HostFolder:
    """The use of the private folder on this host by one rank; None if there can be none."""

    def __init__(self, folder: Path | None, file: int, shared: bool) -> None:
        self._folder = folder
        self._file = file
        self._shared = shared  # between ranks only, of whom the last one has to remove it

    @contextlib.contextmanager
    def around_init(self, library: str) -> Iterator[None]:
        """Have MPI_Init put its files into the folder, and note what it puts elsewhere."""
        if self._folder is None:
            yield
            return
        for name in BACKING:
            os.environ.setdefault(name, str(self._folder))
        os.environ.setdefault(*NO_TRIAL)
        # without an mpirun, which may have been killed, Open MPI makes a folder there
        before = os.environ.get("TMPDIR")
        if "MPICH" in library:
            with contextlib.suppress(OSError):  # the first rank of the host makes it
                (self._folder / INIT).touch(exist_ok=False)
        os.environ["TMPDIR"] = str(self._folder)
        try:
            yield
        finally:
            del os.environ["TMPDIR"]
            if before is not None:
                os.environ["TMPDIR"] = before
        write_notes(self._folder)

    def leave(self) -> None:
        """Use the folder no longer, after MPI_Finalize; the last rank removes it."""
        if self._folder is not None:
            if self._shared and private.is_last(self._file):
                remove_own(self._folder)
            os.close(self._file)
            self._folder = None


def enter_host() -> HostFolder:
    """Use the private folder of this host. Called before MPI_Init."""
    name, _, host = os.environ.get(LAUNCH, "").partition(" ")
    given = name.isalnum()
    if not given:
        name = os.environ[LAUNCH] = _own_name()
    folder = private.private_folder(MEMORY, name)
    shared = not (given and host == os.uname().nodename)
    try:
        return HostFolder(folder, private.use(folder, make=shared), shared)
    except FileNotFoundError:
        if not shared:
            sys.exit(1)  # the front end was killed, and the next run has removed the folder
    except OSError:
        pass
    return HostFolder(None, -1, shared)


def record_launch(directory: Path) -> None:
    """Remove what earlier runs in a directory have left on this host, and write down this one.

    Called by one rank per host. A front end has written it down before.
    """
    name, _, host = os.environ.get(LAUNCH, "").partition(" ")
    remove_remains(directory, name)
    folder = private.private_folder(MEMORY, name)
    if name.isalnum() and not host and private.exists(folder):
        with contextlib.suppress(OSError):
            (folder / RECORD).write_text(str(write_record(directory, name, [], alone=True)))


def clean_up(directory: Path) -> None:
    """Remove what launches have left here that ended after their run; no other will follow."""
    if any(directory.glob(f"{LAUNCHES}*")):
        with contextlib.suppress(UserError), claim(directory):  # else somebody else is at work
            remove_remains(directory, os.environ.get(LAUNCH, "").partition(" ")[0], PATIENCE)


def _own_name() -> str:
    """Return a name for this launch, the same on all ranks that one process has started."""
    servers = sorted(name for name in os.environ if name.startswith("PMIX_SERVER_URI"))
    if servers and "PMIX_NAMESPACE" in os.environ:
        words = [os.environ["PMIX_NAMESPACE"], os.environ[servers[0]]]
    else:
        words = [str(os.getppid()), _start_of(os.getppid())]
    return hashlib.sha256(" ".join([os.uname().nodename, *words]).encode()).hexdigest()[:16]


def _start_of(process: int) -> str:
    """Return when a process was started: its number alone is given again later."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""
