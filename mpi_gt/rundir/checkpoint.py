"""Parts of a checkpoint: one file per rank, which holds a State and its own checksum.

A part is a line of text, a line with the sha256 of all that follows, a line of JSON, and then the
arrays in .npy format. Two slots, a and b, are written in turn. A checkpoint is valid if the parts
of all ranks are intact and of the same iteration, so no further file marks it as complete. A rank
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
from .layout import CHECKPOINTS
from .run_json import MARK

Array = NDArray[Any]

MAGIC = b"mpi-gt checkpoint 1\n"
SLOTS = ("a", "b")
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
ADDED = {"gradients": COUNT}
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


def require_files(directory: Path) -> None:
    """Raise UserError if a folder has the name of a part, which then could not be written."""
    for path in sorted((directory / CHECKPOINTS).glob("[ab]/node-*")):
        if path.is_dir():
            raise UserError(f"{path} is a folder where a checkpoint is to be saved: remove it")


def write_part(path: Path, header: Mapping[str, Any], state: Any) -> None:
    """Write a State, any NamedTuple of arrays, with this header."""
    stream = io.BytesIO()
    full_header = {**header, "fields": list(state._fields)}
    stream.write(json.dumps(full_header, allow_nan=False).encode() + b"\n")
    for array in state:
        np.lib.format.write_array(stream, np.asarray(array), allow_pickle=False)
    content = stream.getbuffer()
    digest = hashlib.sha256(content).hexdigest().encode()
    write_atomic(path, [MAGIC, digest + b"\n", content])


def read_part(path: Path) -> Part:
    """Return the part in a file; raise Unusable if a single bit differs from what was written."""
    try:
        require_regular(path)
        content = path.read_bytes()
    except UserError as error:
        raise Unusable(str(error)) from None
    except (OSError, MemoryError) as error:
        raise Unusable(f"{path}: {getattr(error, 'strerror', 'it does not fit')}") from None
    begin = len(MAGIC) + 65  # after the 64 digits of the sha256 and their line end
    if not content.startswith(MAGIC) or len(content) < begin:
        raise Unusable(f"{path} is not a checkpoint, or is cut off")
    payload = memoryview(content)[begin:]
    if hashlib.sha256(payload).hexdigest().encode() + b"\n" != content[len(MAGIC) : begin]:
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


def glance(path: Path) -> dict[str, Any]:
    """Return the header of a part, not verified and without the arrays; empty if unreadable."""
    try:
        require_regular(path)
        with path.open("rb") as file:
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


def latest(directory: Path) -> dict[str, Any]:
    """Return the header of root's newest part, not verified; empty if there is none."""
    headers = [glance(part_path(directory, slot, 0)) for slot in range(len(SLOTS))]
    complete = [header for header in headers if not missing(header, HEADER)]
    return max(complete, key=lambda header: header["saved"], default={})
