"""Private folders of a launch, from before mpirun starts until after its end."""

import os
import secrets
import tempfile
import time
from pathlib import Path

from ..errors import UserError
from ..rundir import private
from ..rundir.host_folder import LAUNCH
from ..rundir.remains import (
    MEMORY,
    PATIENCE,
    forget_launches,
    remove_folders,
    remove_remains,
    write_record,
)
from ..rundir.run_json import read_facts


class LaunchFolders:
    """The folders of one launch: for mpirun, for the ranks of this host, and for the exit code.

    `shared` is where root can write its exit code from another host; None: it is on this one.
    """

    def __init__(self, directory: Path | None, shared: Path | None) -> None:
        self.name = secrets.token_hex(8)
        self.temporary = private.private_folder(Path(tempfile.gettempdir()), self.name)
        self.outcome = (
            self.temporary if shared is None else private.private_folder(shared, self.name)
        )
        self.lock = -1
        """A file that mpirun inherits: the folders are in use until both of us have ended."""
        self._directory = directory
        self._alone = shared is None

    def __enter__(self) -> "LaunchFolders":
        folders = sorted({self.temporary, self.outcome})
        if self._directory is not None:
            remove_remains(self._directory, self.name)
            write_record(self._directory, self.name, folders, self._alone)
        try:
            self.lock = private.use(self.temporary, make=True)
            self.outcome.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            self.__exit__()
            raise UserError(f"cannot write to {error.filename}: {error.strerror}") from None
        return self

    def variables(self) -> dict[str, str]:
        """Return the environment by which ranks know their folders; make that of this host."""
        try:
            os.close(private.use(private.private_folder(MEMORY, self.name), make=True))
        except OSError:
            return {LAUNCH: ""}  # no shared memory here
        # several hosts may have the same name, so that none of them can rely on this folder
        return {LAUNCH: f"{self.name} {os.uname().nodename if self._alone else '*'}"}

    def __exit__(self, *error: object) -> None:
        """Remove them, and those of earlier launches: mpirun has ended, however it did."""
        if self.lock >= 0:
            os.close(self.lock)
        folders = {self.temporary, self.outcome}
        if not remove_folders(self.name, folders, time.monotonic() + PATIENCE):
            # ranks that have outlived a killed mpirun, and hang in MPI_Finalize
            private.end_users(private.private_folder(MEMORY, self.name))
            remove_folders(self.name, folders, time.monotonic() + PATIENCE)
        if self._directory is None:
            return
        remove_remains(self._directory, None)
        if read_facts(self._directory).get("status") in ("finished", "stopped"):
            forget_launches(self._directory, everywhere=True)
