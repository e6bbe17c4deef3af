"""Folders of the datasets: NAME/file in --data-dir, $MPI_GT_DATA or the user's cache."""

import os
import sys
from pathlib import Path

from ..errors import UserError
from ..machine import NO_HOME, home_folder
from .catalog import Dataset

FORMAT = 1  # of the prepared files; it is part of their folder's name


def cache_folder() -> Path:
    """Return the user's cache folder for mpi-gt."""
    given = os.environ.get("XDG_CACHE_HOME")
    if given and sys.platform != "darwin":
        return Path(given, "mpi-gt")
    home = home_folder()
    if home == NO_HOME:
        raise UserError("there is no home folder to keep datasets in: set HOME or XDG_CACHE_HOME")
    return Path(home, "Library/Caches" if sys.platform == "darwin" else ".cache", "mpi-gt")


def raw_folders(data_dir: str | None) -> list[Path]:
    """Return the folders in which to search for raw files, in this order."""
    given = [data_dir, os.environ.get("MPI_GT_DATA")]
    return [Path(folder) for folder in given if folder] + [cache_folder() / "raw"]


def prepared_folder(dataset: Dataset) -> Path:
    """Return the folder of a dataset's prepared files."""
    return cache_folder() / "prepared" / f"{dataset.name}-{FORMAT}"
