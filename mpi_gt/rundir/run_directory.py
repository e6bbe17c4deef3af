"""The run directory while its run is alive: metrics.csv, and the outputs until final.npz.

A run can be resumed because a checkpoint holds the length and the sha256 of metrics.csv, and
because each algorithm's output stays in a file of its own until the run is complete.
"""

import csv
import fcntl
import hashlib
import io
import os
import shutil
import time
import zipfile
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..files import require_regular
from .atomic import storage_error, write_atomic
from .layout import OUTPUTS
from .metrics_csv import COLUMNS, MetricsBlock, extra_columns, parse_rows
from .run_json import read_facts

Array = NDArray[Any]

PATIENCE = 10  # seconds that the ranks of a killed run may need to end


class RunDirectory:
    """The directory of one run, with a lock on metrics.csv for as long as the run is alive."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._table = path / "metrics.csv"
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._metrics = open(self._table, "ab+", opener=_open_no_link)  # noqa: SIM115
        except OSError as error:
            raise UserError(f"cannot write to {path}: {error.strerror or error}") from None
        self._lock()
        self._digest = hashlib.sha256()
        self._columns: tuple[str, ...] = COLUMNS

    def _lock(self) -> None:
        for _ in range(50):  # `is_held` in another process takes the lock for a moment
            try:
                fcntl.flock(self._metrics, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(0.02)
                continue
            except OSError:
                pass  # a file system without locks
            return
        raise UserError(f"{self.path} is in use by {_user_of(self.path)}")

    def begin(self, extra: Iterable[str] = ()) -> None:
        """Empty metrics.csv and write its header line, with these columns after the known ones."""
        self._metrics.truncate(0)
        self._digest, self._columns = hashlib.sha256(), (*COLUMNS, *extra)
        self._write(",".join(self._columns) + "\n")

    def extra_columns(self) -> tuple[str, ...]:
        """Return the columns of metrics.csv after the known ones."""
        self._metrics.seek(0)
        return extra_columns(self._metrics.readline().decode(errors="replace").strip().split(","))

    def truncate_metrics(self, mark: Mapping[str, Any]) -> None:
        """Cut metrics.csv to its length at that mark, and keep to its columns from now on."""
        self._metrics.seek(0)
        content = self._metrics.read(mark["length"])
        self._digest = hashlib.sha256(content)
        self._columns = tuple(content.partition(b"\n")[0].decode().strip().split(","))
        self._metrics.truncate(mark["length"])

    def append(self, block: MetricsBlock) -> None:
        """Append the rows of one measurement to metrics.csv."""
        # `%` takes half the time of the module csv
        label = _quoted(block.algorithm).replace("%", "%%")
        cells = ",".join(["" if values is None else "%r" for values in block.metrics])
        extra = [values for _, values in block.extra]
        counted = f",{block.gradients}" if "gradients" in self._columns else ""
        more = counted + "".join(["," if values is None else ",%r" for values in extra])
        line = f"{label},%d,{block.iteration},{cells},{block.seconds!r},{block.bytes}{more}\n"
        columns = [values for values in (*block.metrics, *extra) if values is not None]
        rows = zip(block.seeds, *columns, strict=True)
        self._write("".join([line % row for row in rows]))

    def _write(self, text: str) -> None:
        content = text.encode()
        try:
            if os.fstat(self._metrics.fileno()).st_nlink == 0:
                raise FileNotFoundError(2, "it was removed")
            self._metrics.write(content)
            self._metrics.flush()
        except OSError as error:
            raise storage_error(self._table, error) from error
        self._digest.update(content)

    def sync(self) -> None:
        """Sync metrics.csv to disk."""
        try:
            os.fsync(self._metrics.fileno())
        except OSError as error:
            raise storage_error(self._table, error) from error

    def mark(self) -> dict[str, Any]:
        """Return the length and the sha256 of metrics.csv so far."""
        length = os.fstat(self._metrics.fileno()).st_size
        return {"length": length, "sha256": self._digest.hexdigest()}

    def rows_until(self, mark: Mapping[str, Any]) -> list[dict[str, Any]] | None:
        """Return the rows of metrics.csv up to that mark; None if its content has changed."""
        self._metrics.seek(0)
        content = self._metrics.read(mark["length"])
        if hashlib.sha256(content).hexdigest() != mark["sha256"]:
            return None
        return parse_rows(content)

    def save_output(self, name: str, parts: Iterable[Array], shape: tuple[int, ...]) -> str:
        """Save the array `name` of all nodes and return the sha256 of its file.

        `parts` yields it node by node, so that only one node's part is in memory.
        """
        digest = hashlib.sha256()

        def pieces() -> Iterable[Any]:
            for index, part in enumerate(parts):
                if index == 0:
                    stream = io.BytesIO()
                    header = {
                        "descr": np.lib.format.dtype_to_descr(part.dtype),
                        "fortran_order": False,
                        "shape": shape,
                    }
                    np.lib.format.write_array_header_1_0(stream, header)
                    digest.update(stream.getvalue())
                    yield stream.getvalue()
                data = np.ascontiguousarray(part).data
                digest.update(data)
                yield data

        (self.path / OUTPUTS).mkdir(exist_ok=True)
        write_atomic(self._output(name), pieces())
        return digest.hexdigest()

    def has_output(self, name: str, sha256: str) -> bool:
        """Return whether that output exists with this sha256."""
        try:
            with self._output(name).open("rb") as file:
                digest = hashlib.sha256()
                while block := file.read(1 << 20):
                    digest.update(block)
        except OSError:
            return False
        return digest.hexdigest() == sha256

    def _output(self, name: str) -> Path:
        # a label may hold any character, but a file name may not: use its hash
        return self.path / OUTPUTS / f"{hashlib.sha256(name.encode()).hexdigest()[:16]}.npy"

    def write_final(self, outputs: Iterable[str]) -> None:
        """Write the outputs of a complete run to final.npz, and remove their files."""
        target, temporary = self.path / "final.npz", self.path / ".final.npz.part"
        names = list(outputs)
        if names:
            try:
                with zipfile.ZipFile(temporary, "w") as archive:
                    for name in names:
                        # a fixed date: the same run gives the same bytes
                        member = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
                        with (
                            archive.open(member, "w", force_zip64=True) as stream,
                            self._output(name).open("rb") as file,
                        ):
                            shutil.copyfileobj(file, stream, 1 << 20)
                temporary.replace(target)
            except OSError as error:
                raise storage_error(target, error) from error
        shutil.rmtree(self.path / OUTPUTS, ignore_errors=True)

    def unlock(self) -> None:
        """Release the lock on the directory."""
        self._metrics.close()


def require_unused(path: Path) -> None:
    """Raise UserError if a run is alive in this directory, after waiting for it to end."""
    end = time.monotonic() + PATIENCE
    while is_held(path):
        if time.monotonic() > end:
            raise UserError(f"{path} is in use by {_user_of(path)}")
        time.sleep(0.1)


def _user_of(path: Path) -> str:
    """Return the process that run.json names, as the end of a message."""
    process = read_facts(path).get("process", {})
    known = isinstance(process, dict) and "pid" in process
    return f"process {process['pid']} on {process.get('host')}" if known else "another run"


def _open_no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def is_held(path: Path) -> bool | None:
    """Return whether a live run has locked the directory; None if there is no file to lock."""
    try:
        require_regular(path / "metrics.csv")
        with (path / "metrics.csv").open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except (OSError, UserError):
        return None
    return False


@cache
def _quoted(word: str) -> str:
    """Return the word as a cell of a .csv file."""
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow([word])
    return text.getvalue()
