"""Prepared datasets: raw files parsed once, into .npy files from which ranks read their rows."""

import contextlib
import json
import os
import shutil
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ..errors import UserError
from .catalog import Dataset
from .digests import damage, digest_array, write_digests, wrong_sizes
from .folders import prepared_folder
from .raw import download, find_raw, read_verified

ATTEMPTS = 20  # to put a folder in place, while other jobs do the same


def is_prepared(dataset: Dataset) -> bool:
    """Return whether the prepared files exist in the sizes in which they were written."""
    return not wrong_sizes(prepared_folder(dataset))


def prepare(
    dataset: Dataset,
    data_dir: str | None = None,
    say: Callable[[str], None] = lambda text: None,
    progress: bool = False,
) -> Path:
    """Return the folder of the prepared files, downloading and parsing raw files if needed.

    Prepared files are compared with their digests, and prepared again if they are damaged. The
    folder is written under another name and then renamed: two jobs that prepare the same dataset at
    the same time both find a complete folder.
    """
    folder = prepared_folder(dataset)
    wrong = damage(folder)
    if not wrong:
        return folder
    again = folder.exists()
    if again:
        say(f"{wrong}: preparing {dataset.name} again")
    raw = {}
    try:
        for file in dataset.files:
            path = find_raw(dataset, file, data_dir)
            raw[file.name] = read_verified(file, path or download(dataset, file, say, progress))
    except UserError as error:
        raise UserError(f"{wrong}. {error}" if again else str(error)) from None
    if not again:
        say(f"preparing {dataset.name} (only once)")
    parts = dataset.parse(raw)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{dataset.name}-", dir=folder.parent))
        try:
            digests = {}
            for part, (features, labels) in parts.items():
                for name, array in ((f"{part}-x.npy", features), (f"{part}-y.npy", labels)):
                    np.save(temporary / name, array)
                    digests[name] = digest_array(temporary / name, array)
            write_digests(temporary, digests)
            # for former versions, which look at nothing else
            sizes = {name: digest.size for name, digest in digests.items()}
            (temporary / "sizes.json").write_text(json.dumps(sizes))
            _put_in_place(temporary, folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    except OSError as error:
        raise UserError(f"cannot write the prepared {dataset.name} to {folder}: {error}") from None
    return folder


def _put_in_place(temporary: Path, folder: Path) -> None:
    """Rename the new folder to its final name, replacing a damaged one."""
    temporary.chmod(0o755)
    damaged = folder.with_name(f".{folder.name}-damaged-{socket.gethostname()}-{os.getpid()}")
    for attempt in range(ATTEMPTS):
        try:
            temporary.rename(folder)
            return
        except OSError:
            if not damage(folder):
                return  # another job was faster
            if attempt == ATTEMPTS - 1:
                raise
        with contextlib.suppress(FileNotFoundError):  # another job has moved it away
            folder.rename(damaged)
        if damaged.is_dir():
            shutil.rmtree(damaged, ignore_errors=True)
        else:
            damaged.unlink(missing_ok=True)
