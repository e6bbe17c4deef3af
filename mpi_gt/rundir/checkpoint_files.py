"""Files of a checkpoint in a run directory: one per rank, or one per host with an index.

The file of a host is a line of text, a line with the sha256 of the index, the index as a line of
JSON (node, offset and length of each part; offsets count from the end of that line), and then the
parts themselves. It is named by the first of its nodes. A reader takes whatever files there are: a
slot may hold older ones of another layout, or of other hosts, until a newer checkpoint in the same
slot is complete.
"""

import contextlib
import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import UserError
from ..files import missing, require_regular
from .checkpoint import HEADER, Part, Unusable, glance, part_path, read_part
from .layout import CHECKPOINTS, PART_FILES, SLOTS

MAGIC = b"mpi-gt checkpoint of a host 1\n"
LONGEST_INDEX = 1 << 28  # bytes; a host has some 30 per rank
FARTHEST = 1 << 62  # no file is longer, and a sum of two still is a position
NAME = re.compile(r"\.?(?:node|host)-(\d{5,})(?:\.part)?")  # also a file that is being written

Position = tuple[str, int]
"""An algorithm and an iteration."""


class Place(NamedTuple):
    """The place of one part: a slot, a file in it, and the bytes there; length -1: to its end."""

    slot: int
    path: Path
    begin: int = 0
    length: int = -1

    def read(self) -> Part:
        """Return the part at this place; raise Unusable if it is not intact."""
        return read_part(self.path, self.begin, self.length)

    def glance(self) -> dict[str, Any]:
        """Return the header of the part at this place, not verified; empty if unreadable."""
        return glance(self.path, self.begin)


class Places(NamedTuple):
    """The places of all parts in a run directory, by node; and what is wrong with other files."""

    by_node: dict[int, list[Place]]
    damaged: list[tuple[int, str]]  # slot and reason


class Found(NamedTuple):
    """One part that a rank has found: its slot and header, or why it cannot be used."""

    slot: int
    header: Mapping[str, Any]  # empty if it cannot be used
    problem: str = ""

    @property
    def position(self) -> Position:
        return self.header["algorithm"], self.header["iteration"]

    @property
    def newness(self) -> tuple[int, float, int]:
        return self.header["iteration"], self.header["saved"], self.slot


def slot_folder(directory: Path, slot: int) -> Path:
    """Return the folder of slot 0 or 1."""
    return directory / CHECKPOINTS / SLOTS[slot]


def host_path(directory: Path, slot: int, first: int) -> Path:
    """Return the path of the file of a host whose first node is `first`, in slot 0 or 1."""
    return slot_folder(directory, slot) / f"host-{first:05d}"


def require_files(directory: Path) -> None:
    """Raise UserError if a folder has the name of a part, which then could not be written."""
    for path in _found(directory, "[ab]"):
        if path.is_dir():
            raise UserError(f"{path} is a folder where a checkpoint is to be saved: remove it")


def _found(directory: Path, slot: str) -> list[Path]:
    """Return the files of checkpoints in a slot, by their names, in order."""
    folder = directory / CHECKPOINTS
    return sorted(path for files in PART_FILES for path in folder.glob(f"{slot}/{files}"))


def pack_index(nodes: Sequence[int], lengths: Sequence[int]) -> bytes:
    """Return the beginning of a host's file, up to its first part."""
    parts, offset = [], 0
    for node, length in zip(nodes, lengths, strict=True):
        parts.append([node, offset, length])
        offset += length
    line = json.dumps({"parts": parts}).encode() + b"\n"
    return MAGIC + hashlib.sha256(line).hexdigest().encode() + b"\n" + line


def read_index(path: Path) -> list[tuple[int, int, int]]:
    """Return node, begin and length of each part in a host's file; raise Unusable if damaged."""
    try:
        require_regular(path)
        with path.open("rb") as file:
            if file.readline(len(MAGIC)) != MAGIC:
                raise Unusable(f"{path} is not a checkpoint, or is cut off")
            digest, line = file.readline(65), file.readline(LONGEST_INDEX)
            begin = file.tell()
    except UserError as error:
        raise Unusable(str(error)) from None
    except (OSError, MemoryError) as error:
        raise Unusable(f"{path}: {getattr(error, 'strerror', 'it does not fit')}") from None
    if hashlib.sha256(line).hexdigest().encode() + b"\n" != digest:
        raise Unusable(f"{path} is damaged: its index does not match its sha256")
    try:
        parts = [(node, begin + offset, length) for node, offset, length in _parts(line)]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise Unusable(f"{path} is damaged: its index is not that of a checkpoint") from None
    return parts


def _parts(line: bytes) -> Iterator[tuple[int, int, int]]:
    for part in json.loads(line)["parts"]:
        if [type(number) for number in part] != [int] * 3 or min(part) < 0 or max(part) >= FARTHEST:
            raise ValueError("no place of a part")
        yield part[0], part[1], part[2]


def find_parts(directory: Path) -> Places:
    """Return where the parts of all nodes are, in both slots and whatever the layout."""
    found = Places({}, [])
    for slot, folder in enumerate(SLOTS):
        for path in _found(directory, folder):
            match = NAME.fullmatch(path.name)
            if match and path.name.startswith("node-"):
                found.by_node.setdefault(int(match[1]), []).append(Place(slot, path))
            elif match:
                _add_host(found, slot, path)
    return found


def _add_host(found: Places, slot: int, path: Path) -> None:
    try:
        index = read_index(path)
    except Unusable as error:
        found.damaged.append((slot, str(error)))
        return
    for node, begin, length in index:
        found.by_node.setdefault(node, []).append(Place(slot, path, begin, length))


def newest_by_position(own: Sequence[Found], slot: int) -> dict[Position, Found]:
    """Return the usable parts of one rank in a slot by position; of two alike, the later one."""
    usable = [each for each in own if each.slot == slot and each.header]
    return {each.position: each for each in sorted(usable, key=lambda each: each.header["saved"])}


def whole_checkpoints(
    labels: Sequence[str], by_rank: Sequence[Sequence[Found]], slot: int
) -> tuple[dict[Position, Mapping[str, Any]], str]:
    """Return root's headers of the checkpoints in a slot that all ranks have, and a problem.

    There may be several, of different layouts or hosts. The problem is that of a damaged part, or
    that the newest checkpoint is not whole; empty if there is none. `labels` are the algorithms in
    the order in which they run.
    """
    columns = [newest_by_position(own, slot) for own in by_rank]
    whole = set(columns[0]).intersection(*columns[1:])
    problems = (each.problem for own in by_rank for each in own if each.slot == slot)
    problem = next(filter(None, problems), "")

    def age(position: Position) -> tuple[int, int]:
        label, iteration = position
        return labels.index(label) if label in labels else -1, iteration

    torn = set().union(*columns) - whole
    if torn and not problem and (not whole or max(map(age, torn)) > max(map(age, whole))):
        problem = "not all of its parts were written"
    return {position: columns[0][position].header for position in whole}, problem


def latest(directory: Path) -> dict[str, Any]:
    """Return the header of root's newest part, not verified; empty if there is none."""
    headers = [place.glance() for place in _places_of_root(directory)]
    complete = [header for header in headers if not missing(header, HEADER)]
    return max(complete, key=lambda header: header["saved"], default={})


def _places_of_root(directory: Path) -> Iterator[Place]:
    """Yield where parts of node 0 may be: it is the first of its host, so two files per slot."""
    for slot in range(len(SLOTS)):
        yield Place(slot, part_path(directory, slot, 0))
        path = host_path(directory, slot, 0)
        with contextlib.suppress(Unusable):
            yield from (Place(slot, path, *at) for node, *at in read_index(path) if node == 0)


def saved_iteration(directory: Path) -> int | None:
    """Return the iteration of the newest checkpoint with the parts of all nodes, not verified."""
    by_node = find_parts(directory).by_node
    saved = []
    for place in by_node.get(0, ()):
        header = place.glance()
        if header.get("iteration") is None:
            continue
        others = (by_node.get(node, ()) for node in range(1, header.get("nodes", 0)))
        if all(_holds(places, place.slot, header) for places in others):
            saved.append((header.get("saved", 0.0), header["iteration"]))
    return max(saved)[1] if saved else None


def _holds(places: Sequence[Place], slot: int, like: dict[str, Any]) -> bool:
    """Return whether one of a node's parts in the slot is of the same iteration as `like`."""
    position = like.get("algorithm"), like["iteration"]
    headers = (place.glance() for place in places if place.slot == slot)
    return any((each.get("algorithm"), each.get("iteration")) == position for each in headers)


def remove_others(folder: Path, names: Collection[str]) -> None:
    """Remove the files of older checkpoints from a slot: all but those of these names.

    They are of another layout or of other hosts, or torn. To be called once the slot holds a newer
    checkpoint that is complete.
    """
    with contextlib.suppress(OSError):
        for path in list(folder.iterdir()):
            name = path.name.removeprefix(".").removesuffix(".part")
            if NAME.fullmatch(path.name) and name not in names:
                path.unlink()
