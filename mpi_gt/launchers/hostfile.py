"""Hostfiles for launchers, written and read: `h1 slots=4` of Open MPI, `h1:4` of the others."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import UserError
from ..files import read_text
from ..spec import nearest
from .brands import BRANDS, Brand

NAME = re.compile(r"(?:[\w.-]+@)?[A-Za-z0-9](?:[\w.-]*\w)?")
COUNT = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True)
class Hosts:
    """The hosts of a run, and the number of ranks (slots) that each takes."""

    path: Path
    slots: dict[str, int]
    bare: bool  # True: some line has a name and no number of slots

    @property
    def total(self) -> int:
        """The number of slots on all hosts."""
        return sum(self.slots.values())

    def most(self, n: int) -> int:
        """Return the largest number of ranks on one host, of n ranks in all."""
        return min(n, max(max(self.slots.values()), -(-n // len(self.slots))))

    def settled(self, brand: Brand, n: int, folder: Path) -> "Hosts":
        """Return the same hosts, in a new hostfile in `folder` if the launcher needs its own."""
        text = brand.own_hostfile(self.slots, n, self.bare)
        if text is None:
            return self
        path = folder / "hosts"
        path.write_text(text, encoding="utf-8")
        return replace(self, path=path, bare=False)


def parse_hosts(text: str) -> dict[str, int]:
    """Parse `h1:4,h2:4` into hosts and their slots."""
    slots: dict[str, int] = {}
    for item in text.split(","):
        name, colon, count = item.strip().rpartition(":")
        if not colon or not COUNT.fullmatch(count):
            raise UserError(f"--hosts takes NAME:SLOTS,NAME:SLOTS,..., not '{item.strip()}'")
        _add(slots, name, int(count), "--hosts")
    return slots


def hostfile_text(slots: Mapping[str, int], kind: str) -> str:
    """Return a hostfile in the format of this MPI, with the commands that use it."""
    if kind not in BRANDS:
        raise UserError(f"unknown MPI '{kind}'{nearest(kind, BRANDS)}")
    n = sum(slots.values())
    brand = BRANDS[kind]
    lines = [
        f"# {brand.title}: {n} ranks on {len(slots)} host{'s' if len(slots) > 1 else ''}.",
        f"#   mpi-gt run -n {n} --hostfile THIS_FILE",
        f"#   {brand.run_on_hosts} THIS_FILE -n {n} mpi-gt run",
    ]
    return "\n".join([*lines, *(brand.host_lines(*item) for item in slots.items())]) + "\n"


def read_hostfile(path: Path, brand: Brand) -> Hosts:
    """Return the hosts in a file; raise UserError if it is in another MPI's format."""
    if brand.name not in BRANDS:
        raise UserError(
            "--hostfile: this is the launcher of no MPI that mpi-gt knows "
            f"({', '.join(each.title for each in BRANDS.values())}); call it yourself"
        )
    text = read_text(path)
    slots: dict[str, int] = {}
    bare = False
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if words:
            where = f"{path}, line {number}"
            name, count = _parse_line(words, brand, where)
            bare = bare or words == [name]
            # each further line of the same host adds slots, as in $PBS_NODEFILE
            _add(slots, name, slots.pop(name, 0) + count, where)
    if not slots:
        raise UserError(f"{path} names no hosts")
    return Hosts(path.absolute(), slots, bare)


def _parse_line(words: list[str], brand: Brand, where: str) -> tuple[str, int]:
    """Parse `h1 slots=4`, `h1:4`, or `h1` alone, which means one slot."""
    first, *rest = words
    name, colon, count = first.partition(":")
    keys = dict(word.partition("=")[::2] for word in rest)
    openmpi = brand.name == "openmpi"
    foreign = bool(colon) if openmpi else "slots" in keys
    if openmpi:
        count = keys.get("slots", "1")
    if foreign or not COUNT.fullmatch(count or "1"):
        raise UserError(
            f"{where}: '{' '.join(words)}' is not for {brand.title}, whose format is "
            f"'{brand.host_example}' "
            f"(`mpi-gt hostfile --hosts h1:4,h2:4 --mpi {brand.name}` writes it)"
        )
    return name, int(count or "1")


def _add(slots: dict[str, int], name: str, count: int, where: str) -> None:
    """Add a host; raise UserError, beginning with `where`, for a wrong name or number."""
    if not NAME.fullmatch(name):
        raise UserError(f"{where}: '{name}' is not a host name")
    if name in slots:
        raise UserError(f"{where}: {name} is given twice")
    if not 1 <= count <= 10**6:
        raise UserError(f"{where}: {name} must have 1 slot or more, not {count}")
    slots[name] = count
