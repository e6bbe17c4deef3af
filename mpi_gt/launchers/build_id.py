"""Identity of this installation, by which ranks check that they run the code of the front end."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from .. import __version__
from ..errors import UserError

BUILD = "MPI_GT_BUILD"
"""Names the environment variable with the identity of the front end's installation."""

LOCAL_RANKS = ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")
"""Variables with the number of a process on its host: of Open MPI, of hydra and of srun."""


def build_id() -> str:
    """Return the version with a digest of the names and sizes of the package's files."""
    package = str(Path(__file__).parent.parent)
    digest = hashlib.sha256()
    for folder, folders, files in os.walk(package):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(files):
            if name.endswith((".py", ".so")):
                path = f"{folder}/{name}"
                digest.update(f"{path[len(package) :]} {os.stat(path).st_size}\n".encode())  # noqa: PTH116
    return f"{__version__} {digest.hexdigest()[:12]}"


def is_first_on_host(env: Mapping[str, str] = os.environ) -> bool:
    """Return whether the launcher counts this process as the first of its host.

    Returns True if the launcher does not say.
    """
    return next((env[name] for name in LOCAL_RANKS if name in env), "0") == "0"


def require_same_build() -> None:
    """Raise UserError if the front end, where there is one, runs another mpi-gt than this host.

    The first rank of each host looks: to look at all files takes as many calls of the file system
    as all imports together.
    """
    expected = os.environ.get(BUILD)
    if expected is not None and is_first_on_host() and expected != build_id():
        raise UserError(
            f"a rank on {os.uname().nodename} runs mpi-gt {build_id()} from "
            f"{Path(__file__).parent.parent}, but the command is mpi-gt {expected}: install the "
            "same version on all hosts"
        )
