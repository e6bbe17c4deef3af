"""One rank's part of a checkpoint: a State of arrays in a file that checks itself.

A file is a line of text, a line with the sha256 of all that follows, a line of JSON, and then the
arrays as in a .npy file. Two slots are written in turn. A checkpoint counts where the parts of all
ranks are sound and of the same iteration, so nothing else has to be written to complete it; each
rank begins to overwrite the older slot only when all have written the newer one.
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

from .atomic import write_atomic
from .layout import CHECKPOINTS

Array = NDArray[Any]

MAGIC = b"mpi-gt checkpoint 1\n"
SLOTS = ("a", "b")


class Unusable(Exception):
    """This file is no part of a checkpoint of this run; the message says why."""


@dataclass(frozen=True)
class Part:
    """What one rank needs to go on."""

    header: Mapping[str, Any]  # identity, algorithm, iteration, node, bytes, seconds, ...
    arrays: Mapping[str, Array]

    @property
    def position(self) -> tuple[str, int]:
        return self.header["algorithm"], self.header["iteration"]


def part_path(directory: Path, slot: int, node: int) -> Path:
    return directory / CHECKPOINTS / SLOTS[slot] / f"node-{node:05d}"


def write_part(path: Path, header: Mapping[str, Any], state: Any) -> None:
    """The State, any NamedTuple of arrays, with what is said of it."""
    stream = io.BytesIO()
    told = {**header, "fields": list(state._fields)}
    stream.write(json.dumps(told, allow_nan=False).encode() + b"\n")
    for array in state:
        np.lib.format.write_array(stream, np.asarray(array), allow_pickle=False)
    content = stream.getbuffer()
    digest = hashlib.sha256(content).hexdigest().encode()
    write_atomic(path, [MAGIC, digest + b"\n", content])


def read_part(path: Path) -> Part:
    """The part in that file; Unusable where a single bit of it is not as written."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise Unusable(f"{path}: {error.strerror}") from None
    begin = len(MAGIC) + 65
    if not content.startswith(MAGIC) or len(content) < begin:
        raise Unusable(f"{path} is not a checkpoint, or cut off")
    payload = memoryview(content)[begin:]
    if hashlib.sha256(payload).hexdigest().encode() + b"\n" != content[len(MAGIC) : begin]:
        raise Unusable(f"{path} is damaged: its sha256 is not the one it should have")
    stream = io.BytesIO(payload)
    header = json.loads(stream.readline())
    arrays = {
        name: np.lib.format.read_array(stream, allow_pickle=False) for name in header["fields"]
    }
    return Part(header, arrays)


def glance(path: Path) -> dict[str, Any]:
    """What a part says of itself, unchecked and without its arrays; empty where it cannot."""
    try:
        with path.open("rb") as file:
            if file.readline() != MAGIC:
                return {}
            file.readline()
            header = json.loads(file.readline())
    except (OSError, ValueError):
        return {}
    return header if isinstance(header, dict) else {}


def as_state(start: Any, part: Part) -> Any:
    """The arrays of a part as the kind of State that the algorithm starts with."""
    if tuple(part.arrays) != tuple(start._fields):
        raise Unusable(f"its arrays are {', '.join(part.arrays)}, not {', '.join(start._fields)}")
    for name, array in part.arrays.items():
        like = getattr(start, name)
        if (array.shape, array.dtype) != (like.shape, like.dtype):
            raise Unusable(f"its {name} is {array.dtype} {array.shape}, not {like.dtype}")
    return type(start)(**part.arrays)


def latest(directory: Path) -> dict[str, Any]:
    """What root's newest part says of itself, as far as a glance tells; empty without one."""
    headers = [glance(part_path(directory, slot, 0)) for slot in range(len(SLOTS))]
    return max(headers, key=lambda header: header.get("saved", 0.0))
