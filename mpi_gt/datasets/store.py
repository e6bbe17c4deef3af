"""Finding, checking, downloading and preparing a dataset's files.

Raw files lie as NAME/file in --data-dir, in $MPI_GT_DATA or in the user's cache. They are parsed
once, into a pair of .npy files in the cache that every rank can read its own rows from.
"""

import bz2
import gzip
import hashlib
import json
import lzma
import os
import shutil
import socket
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import UserError
from .catalog import Dataset, RawFile

FORMAT = 1  # of the prepared files; another number, another folder
OPENERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.decompress,
    ".bz2": bz2.decompress,
    ".xz": lzma.decompress,
    "": lambda content: content,
}
DAMAGED = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile)
TIMEOUT = 30  # seconds without an answer
ATTEMPTS = 3


def cache_folder() -> Path:
    """Where the platform keeps what can be made again."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "mpi-gt"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mpi-gt"


def raw_folders(data_dir: str | None) -> list[Path]:
    """Where raw files are looked for, in this order."""
    given = [data_dir, os.environ.get("MPI_GT_DATA")]
    return [Path(folder) for folder in given if folder] + [cache_folder() / "raw"]


def find_raw(dataset: Dataset, file: RawFile, data_dir: str | None) -> Path | None:
    """The first file of that name, compressed or not."""
    for folder in raw_folders(data_dir):
        for suffix in OPENERS:
            path = folder / dataset.name / (file.name + suffix)
            if path.is_file():
                return path
    return None


def read_compressed(path: Path) -> bytes:
    """A file's content, decompressed by its suffix."""
    try:
        return OPENERS.get(path.suffix, OPENERS[""])(path.read_bytes())
    except (OSError, ValueError, *DAMAGED) as error:
        raise UserError(f"cannot read {path}: {error}") from None


def read_verified(file: RawFile, path: Path) -> bytes:
    """The decompressed content; an error that names both hashes where it is not the right one."""
    try:
        content = read_compressed(path)
    except UserError as error:
        stored = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "none"
        raise UserError(
            f"{error}; the sha256 of the file as it is: {stored}, its content should have "
            f"{file.sha256}. It was left as it is; remove it to download it again"
        ) from None
    found = hashlib.sha256(content).hexdigest()
    if found != file.sha256:
        raise UserError(
            f"{path} is not the published {file.name}: the sha256 of its content is {found}, "
            f"it should be {file.sha256}. It was left as it is; remove it to download it again"
        )
    return content


def download(
    dataset: Dataset, file: RawFile, say: Callable[[str], None], progress: bool = False
) -> Path:
    """Fetch a file into the cache, checked before it gets its name."""
    folder = cache_folder() / "raw" / dataset.name
    problems: list[str] = []
    for url in file.urls:
        target = folder / url.rpartition("/")[2]
        # a name of our own: another job may be fetching the same file
        partial = target.with_name(f".{target.name}.{socket.gethostname()}-{os.getpid()}.part")
        say(f"downloading {url}")
        try:
            if _fetch_verified(file, url, partial, problems, progress):
                partial.replace(target)
                return target
        finally:
            partial.unlink(missing_ok=True)
    raise UserError(
        f"could not download {file.name} of {dataset.name} ({problems[-1]}). Put the file at "
        f"{folder / file.name} (or with .gz or .bz2) by hand, or into NAME/ below --data-dir or "
        "$MPI_GT_DATA"
    )


def _fetch_verified(
    file: RawFile, url: str, partial: Path, problems: list[str], progress: bool
) -> bool:
    """Whether `partial` now is the right file; what went wrong is added to `problems`."""
    import http.client  # here: every rank would import it, and none but one ever downloads
    import urllib.error

    for attempt in range(ATTEMPTS):
        try:
            partial.parent.mkdir(parents=True, exist_ok=True)
            _fetch(url, partial, progress)
            content = OPENERS.get(Path(url).suffix, OPENERS[""])(partial.read_bytes())
            found = hashlib.sha256(content).hexdigest()
            if found == file.sha256:
                return True
            problems.append(f"{url}: sha256 {found}, expected {file.sha256}")
            partial.unlink()  # a clean start
        except urllib.error.HTTPError as error:
            problems.append(f"{url}: {error}")
            if 400 <= error.code < 500:
                return False
        except (ValueError, *DAMAGED) as error:
            problems.append(f"{url}: {error}")
            partial.unlink(missing_ok=True)
        except (OSError, http.client.HTTPException) as error:  # the next attempt resumes
            problems.append(f"{url}: {getattr(error, 'reason', error)}")
            if isinstance(getattr(error, "reason", None), socket.gaierror):
                return False  # no such host, or no network at all
        time.sleep(attempt)
    return False


def _fetch(url: str, partial: Path, progress: bool) -> None:
    """Append to what is there already, where the server can resume."""
    import urllib.request

    have = partial.stat().st_size if partial.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
        resumed = answer.status == 206
        length = answer.headers.get("Content-Length")
        total = int(length) + (have if resumed else 0) if length else None
        with partial.open("ab" if resumed else "wb") as file, _bar(total, progress) as advance:
            advance(have if resumed else 0)
            while block := answer.read(1 << 16):
                file.write(block)
                advance(len(block))
            size = file.tell()
    if total is not None and size != total:
        raise OSError(f"the connection ended after {size} of {total} bytes")


class _bar:
    """A progress bar on a terminal; nothing elsewhere."""

    def __init__(self, total: int | None, shown: bool) -> None:
        self._bar: Any = None
        if shown:
            from rich.progress import DownloadColumn, Progress, TransferSpeedColumn

            columns = (*Progress.get_default_columns(), DownloadColumn(), TransferSpeedColumn())
            self._bar = Progress(*columns)
            self._task = self._bar.add_task("", total=total)

    def __enter__(self) -> Callable[[int], None]:
        if self._bar is None:
            return lambda count: None
        self._bar.start()
        return lambda count: self._bar.advance(self._task, count)

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()


def prepared_folder(dataset: Dataset) -> Path:
    return cache_folder() / "prepared" / f"{dataset.name}-{FORMAT}"


def is_prepared(dataset: Dataset) -> bool:
    """Whether the prepared files are there, and as long as they were when written."""
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
    """The folder of the prepared files, made if needed.

    Written beside its final place and renamed: of two jobs that prepare at the same time, both
    find a whole folder.
    """
    folder = prepared_folder(dataset)
    if is_prepared(dataset):
        return folder
    raw = {}
    for file in dataset.files:
        path = find_raw(dataset, file, data_dir)
        raw[file.name] = read_verified(file, path or download(dataset, file, say, progress))
    say(f"preparing {dataset.name}, once")
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
