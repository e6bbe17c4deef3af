"""Parts of a checkpoint: one per rank, which holds a State and its own checksum.

A part is a line of text, a line with the sha256 of all that follows, a line of JSON, and then the
arrays in .npy format. It is a file of its own, or one of several in the file of a host (see
`checkpoint_files`). Two slots, a and b, are written in turn. A checkpoint is valid if the parts of
all ranks are intact and of the same iteration, so no further file marks it as complete. A rank
overwrites the older slot only after all ranks have written the newer one.
"""

import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError
from ..files import (
    COUNT,
    NOT_NEGATIVE,
    TEXT,
    Each,
    Kind,
    OrNone,
    missing,
    mistake,
    require_regular,
)
from .atomic import write_atomic
from .layout import CHECKPOINTS, SLOTS
from .run_json import MARK

Array = NDArray[Any]

MAGIC = b"mpi-gt checkpoint 1\n"
BEGIN = len(MAGIC) + 65  # bytes before the content: also 64 digits of the sha256 and a line end
HEADER = {
    "identity": TEXT,
    "algorithm": TEXT,
    "iteration": COUNT,
    "node": COUNT,
    "seconds": NOT_NEGATIVE,
    "bytes": Kind("bytes", lambda value: isinstance(value, int | list)),
    "metrics": OrNone(MARK),
    "saved": NOT_NEGATIVE,
    "fields": Each(TEXT),
}
"""The kinds of the values in a part's header."""
ADDED = {"gradients": COUNT, "nodes": COUNT}
"""The kinds of those that former versions did not write."""


class Unusable(Exception):
    """A file that is no intact part of a checkpoint of this run; the message says why."""


@dataclass(frozen=True)
class Part:
    """The part of one rank: all that the rank needs to resume."""

    header: Mapping[str, Any]  # identity, algorithm, iteration, node, bytes, seconds, ...
    arrays: Mapping[str, Array]

    @property
    def position(self) -> tuple[str, int]:
        """The algorithm and the iteration."""
        return self.header["algorithm"], self.header["iteration"]


def part_path(directory: Path, slot: int, node: int) -> Path:
    """Return the path of one node's part in slot 0 or 1."""
    return directory / CHECKPOINTS / SLOTS[slot] / f"node-{node:05d}"


def pack_part(header: Mapping[str, Any], state: Any) -> memoryview:
    """Return the bytes of a part: this header and a State, any NamedTuple of arrays."""
    stream = io.BytesIO()
    full_header = {**header, "fields": list(state._fields)}
    stream.write(MAGIC + b"0" * 64 + b"\n")
    stream.write(json.dumps(full_header, allow_nan=False).encode() + b"\n")
    for array in state:
        np.lib.format.write_array(stream, np.asarray(array), allow_pickle=False)
    packed = stream.getbuffer()
    packed[len(MAGIC) : BEGIN - 1] = hashlib.sha256(packed[BEGIN:]).hexdigest().encode()
    return packed


def write_part(path: Path, header: Mapping[str, Any], state: Any) -> None:
    """Write a part as a file of its own."""
    write_atomic(path, [pack_part(header, state)])


def read_part(path: Path, begin: int = 0, length: int = -1) -> Part:
    """Return the part at this place of a file; raise Unusable if a bit differs from the written.

    Nothing but the part is read. By default it is the whole file.
    """
    try:
        require_regular(path)
        with path.open("rb") as file:
            file.seek(begin)
            packed = file.read(length)
    except UserError as error:
        raise Unusable(str(error)) from None
    except (OSError, MemoryError, OverflowError) as error:
        raise Unusable(f"{path}: {getattr(error, 'strerror', 'it does not fit')}") from None
    if not packed.startswith(MAGIC) or len(packed) < BEGIN:
        raise Unusable(f"{path} is not a checkpoint, or is cut off")
    payload = memoryview(packed)[BEGIN:]
    if hashlib.sha256(payload).hexdigest().encode() + b"\n" != packed[len(MAGIC) : BEGIN]:
        raise Unusable(f"{path} is damaged: its content does not match its sha256")
    stream = io.BytesIO(payload)
    header = parse_header(stream.readline())
    if not header:
        raise Unusable(f"{path} is damaged: its header is not that of a checkpoint")
    try:
        arrays = {
            name: np.lib.format.read_array(stream, allow_pickle=False) for name in header["fields"]
        }
    except Exception as error:  # numpy parses a damaged header with whatever error that brings
        raise Unusable(f"{path} is damaged: {error}") from None
    return Part(header, arrays)


def parse_header(line: bytes) -> dict[str, Any]:
    """Return the header of a part; empty if it is damaged."""
    try:
        header = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    kinds = {**HEADER, **ADDED}
    return {} if mistake(header, kinds) or missing(header, ["fields"]) else header


def glance(path: Path, begin: int = 0) -> dict[str, Any]:
    """Return the header of a part, not verified and without the arrays; empty if unreadable."""
    try:
        require_regular(path)
        with path.open("rb") as file:
            file.seek(begin)
            if file.readline(len(MAGIC)) != MAGIC:
                return {}
            file.readline(65)
            return parse_header(file.readline())
    except (OSError, UserError):
        return {}


def as_state(start: Any, part: Part) -> Any:
    """Return the arrays of a part as a State like `start`; raise Unusable if they do not fit."""
    if tuple(part.arrays) != tuple(start._fields):
        raise Unusable(f"its arrays are {', '.join(part.arrays)}, not {', '.join(start._fields)}")
    for name, array in part.arrays.items():
        like = getattr(start, name)
        if (array.shape, array.dtype) != (like.shape, like.dtype):
            raise Unusable(f"its {name} is {array.dtype} {array.shape}, not {like.dtype}")
    return type(start)(**part.arrays)
