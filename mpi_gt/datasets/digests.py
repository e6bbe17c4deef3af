"""Digests of the prepared files: a sha256 per block of rows, which shows damage while reading.

`digests.json` in the folder of a prepared dataset describes each .npy file: its size and header,
where its rows are, and the blocks. Its own `sha256` is that of all rows: the digest of the dataset.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..files import (
    COUNT,
    SOME,
    TEXT,
    Each,
    LaterSchema,
    Record,
    read_table,
    require_regular,
    with_schema,
)

Array = NDArray[Any]

DIGESTS = "digests.json"
BLOCK = 1 << 20  # bytes per block, rounded down to whole rows
FIELDS = {
    "size": COUNT,
    "start": COUNT,
    "header": TEXT,
    "shape": Each(SOME),
    "dtype": TEXT,
    "rows": SOME,
    "blocks": Each(TEXT),
}
KINDS = {
    "sha256": TEXT,
    "files": Each(Record(FIELDS), named=True),
}


class FileDigest(NamedTuple):
    """The digests of one .npy file: `rows` per block and their sha256, and that of the header."""

    size: int
    start: int  # of the rows, after the header
    header: str
    shape: list[int]
    dtype: str
    rows: int
    blocks: list[str]

    @property
    def width(self) -> int:
        """The bytes per row."""
        return int(np.prod(self.shape[1:], dtype=np.int64)) * np.dtype(self.dtype).itemsize


def digest_array(path: Path, array: Array) -> FileDigest:
    """Return the digests of a .npy file that holds this array."""
    content = np.ascontiguousarray(array)
    start = path.stat().st_size - content.nbytes
    with path.open("rb") as file:
        header = hashlib.sha256(file.read(start)).hexdigest()
    rows = max(1, BLOCK // max(1, content.nbytes // len(content)))
    return FileDigest(
        path.stat().st_size,
        start,
        header,
        list(content.shape),
        content.dtype.str,
        rows,
        [
            hashlib.sha256(content[begin : begin + rows].data).hexdigest()
            for begin in range(0, len(content), rows)
        ],
    )


def write_digests(folder: Path, files: Mapping[str, FileDigest]) -> None:
    """Write digests.json of the prepared files, by name."""
    content = {
        "sha256": dataset_digest(files),
        "files": {name: file._asdict() for name, file in files.items()},
    }
    (folder / DIGESTS).write_text(json.dumps(with_schema("digests", content)))


def dataset_digest(files: Mapping[str, FileDigest]) -> str:
    """Return the digest of all rows. The headers are left out: they depend on numpy's version."""
    rows = {name: [d.shape, d.dtype, d.rows, d.blocks] for name, d in sorted(files.items())}
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def read_digests(folder: Path) -> tuple[str, dict[str, FileDigest]]:
    """Return the digest of the dataset, and those of its files; raise UserError if damaged."""
    path = folder / DIGESTS
    content = read_table(path, KINDS, ("sha256", "files"))
    files = {
        name: FileDigest(**{field: digest[field] for field in FIELDS})
        for name, digest in content["files"].items()
    }
    if dataset_digest(files) != content["sha256"]:
        raise UserError(f"{path} is damaged: its content does not match its sha256")
    return content["sha256"], files


def damage(folder: Path) -> str:
    """Return what is wrong with the files of a prepared dataset; "": nothing.

    All files are read, with one block at a time in memory.
    """
    if wrong := wrong_sizes(folder):
        return wrong
    try:
        _, files = read_digests(folder)
        for name, digest in files.items():
            for _ in read_blocks(folder / name, digest, range(len(digest.blocks)), header=True):
                pass
    except LaterSchema:
        raise  # it is not damaged: to prepare it again would take it from the later version
    except UserError as error:
        return str(error)
    return ""


def wrong_sizes(folder: Path) -> str:
    """Return what can be said to be wrong without reading the rows; "": nothing."""
    if not (folder / DIGESTS).exists():
        return f"{folder} has no {DIGESTS}"
    try:
        _, files = read_digests(folder)
        for name, digest in files.items():
            if require_regular(folder / name) != digest.size:
                return f"{folder / name} has not the size in which it was written"
    except UserError as error:
        return str(error)
    return "" if files else f"{folder} holds no rows"


def read_blocks(
    path: Path, digest: FileDigest, blocks: Any, *, header: bool = False, verify: bool = True
) -> Iterator[tuple[int, Array]]:
    """Return each of these blocks of rows, with the number of its first row.

    Raises UserError where a block differs from what was written.
    """
    if require_regular(path) != digest.size:
        raise UserError(f"{path} is damaged: it has not the size in which it was written")
    if digest.start > digest.size:
        raise UserError(f"{path.parent / DIGESTS} is damaged: its rows begin behind the file")
    try:
        with path.open("rb") as file:
            if header and hashlib.sha256(file.read(digest.start)).hexdigest() != digest.header:
                raise UserError(f"{path} is damaged: its header is not as it was written")
            for number in blocks:
                first = int(number) * digest.rows
                count = min(digest.rows, digest.shape[0] - first)
                file.seek(digest.start + first * digest.width)
                content = file.read(count * digest.width)
                sound = len(content) == count * digest.width
                if verify and sound:
                    sound = hashlib.sha256(content).hexdigest() == digest.blocks[number]
                if not sound:
                    raise UserError(
                        f"{path} is damaged: rows {first} to {first + count - 1} are not as they "
                        "were written"
                    )
                rows = np.frombuffer(content, digest.dtype).reshape(count, *digest.shape[1:])
                yield first, rows
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
