"""Prepared datasets: raw files parsed once, into .npy files from which ranks read their rows."""

import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ..errors import UserError
from .catalog import Dataset
from .folders import prepared_folder
from .raw import download, find_raw, read_verified


def is_prepared(dataset: Dataset) -> bool:
    """Return whether the prepared files exist in the sizes in which they were written."""
    folder = prepared_folder(dataset)
    try:
        sizes = json.loads((folder / "sizes.json").read_text())
        return all((folder / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError):
        return False


def prepare(
    dataset: Dataset,
    data_dir: str | None = None,
    say: Callable[[str], None] = lambda text: None,
    progress: bool = False,
) -> Path:
    """Return the folder of the prepared files, downloading and parsing raw files if needed.

    The folder is written under another name and then renamed: two jobs that prepare the same
    dataset at the same time both find a complete folder.
    """
    folder = prepared_folder(dataset)
    if is_prepared(dataset):
        return folder
    raw = {}
    for file in dataset.files:
        path = find_raw(dataset, file, data_dir)
        raw[file.name] = read_verified(file, path or download(dataset, file, say, progress))
    say(f"preparing {dataset.name} (only once)")
    parts = dataset.parse(raw)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{dataset.name}-", dir=folder.parent))
        try:
            sizes = {}
            for part, (features, labels) in parts.items():
                for name, array in ((f"{part}-x.npy", features), (f"{part}-y.npy", labels)):
                    np.save(temporary / name, array)
                    sizes[name] = (temporary / name).stat().st_size
            (temporary / "sizes.json").write_text(json.dumps(sizes))
            _put_in_place(temporary, folder, dataset)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    except OSError as error:
        raise UserError(f"cannot write the prepared {dataset.name} to {folder}: {error}") from None
    return folder


def _put_in_place(temporary: Path, folder: Path, dataset: Dataset) -> None:
    """Rename the new folder to its final name, replacing a damaged one."""
    temporary.chmod(0o755)
    try:
        temporary.rename(folder)
    except OSError:
        if is_prepared(dataset):
            return  # another job was faster
        damaged = folder.with_name(f".{folder.name}-damaged-{os.getpid()}")
        folder.rename(damaged)
        temporary.rename(folder)
        shutil.rmtree(damaged, ignore_errors=True)
