"""Raw files of the datasets: found, decompressed, verified and downloaded.

Only the first rank of a host needs this module, and what it imports.
"""

import bz2
import contextlib
import gzip
import hashlib
import lzma
import os
import socket
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..errors import UserError
from ..files import require_regular
from .catalog import Dataset, RawFile
from .folders import cache_folder, raw_folders

OPENERS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.decompress,
    ".bz2": bz2.decompress,
    ".xz": lzma.decompress,
    "": lambda content: content,
}
DAMAGED = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile)
TIMEOUT = 30  # seconds to wait for an answer of the server
ATTEMPTS = 3


def find_raw(dataset: Dataset, file: RawFile, data_dir: str | None) -> Path | None:
    """Return the first file of that name, compressed or not; None if there is none."""
    for folder in raw_folders(data_dir):
        for suffix in OPENERS:
            path = folder / dataset.name / (file.name + suffix)
            if path.is_file():
                return path
    return None


def read_compressed(path: Path) -> bytes:
    """Return the content of a file, decompressed according to its suffix."""
    require_regular(path)
    try:
        return OPENERS.get(path.suffix, OPENERS[""])(path.read_bytes())
    except (OSError, ValueError, MemoryError, *DAMAGED) as error:
        raise UserError(f"cannot read {path}: {error}") from None


def read_verified(file: RawFile, path: Path) -> bytes:
    """Return the decompressed content; raise UserError with both hashes if it is a wrong one."""
    try:
        content = read_compressed(path)
    except UserError as error:
        stored = "unknown"
        with contextlib.suppress(OSError, MemoryError):
            stored = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "none"
        raise UserError(
            f"{error}; the sha256 of the file is {stored}, that of its content should be "
            f"{file.sha256}. The file was not changed; remove it to download it again"
        ) from None
    sha256 = hashlib.sha256(content).hexdigest()
    if sha256 != file.sha256:
        raise UserError(
            f"{path} is not the published {file.name}: the sha256 of its content is {sha256}, "
            f"not {file.sha256}. The file was not changed; remove it to download it again"
        )
    return content


def download(
    dataset: Dataset, file: RawFile, say: Callable[[str], None], progress: bool = False
) -> Path:
    """Download a file into the cache and return its path; it gets its name once verified."""
    folder = cache_folder() / "raw" / dataset.name
    problems: list[str] = []
    for url in file.urls:
        target = folder / url.rpartition("/")[2]
        # a name of this process alone: another job may be downloading the same file
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
    """Download to `partial` and return whether it is the right file; add errors to `problems`."""
    import http.client  # not at the top, where all ranks would import it: only one ever downloads
    import urllib.error

    for attempt in range(ATTEMPTS):
        try:
            partial.parent.mkdir(parents=True, exist_ok=True)
            _fetch(url, partial, progress)
            content = OPENERS.get(Path(url).suffix, OPENERS[""])(partial.read_bytes())
            sha256 = hashlib.sha256(content).hexdigest()
            if sha256 == file.sha256:
                return True
            problems.append(f"{url}: sha256 {sha256}, expected {file.sha256}")
            partial.unlink()  # the next attempt starts from the beginning
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
                return False  # no such host, or no network: another attempt is useless
        time.sleep(attempt)
    return False


def _fetch(url: str, partial: Path, progress: bool) -> None:
    """Download a file; if the server can resume, append to what an earlier attempt left."""
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
    """A progress bar of a download; without `shown`, nothing."""

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
