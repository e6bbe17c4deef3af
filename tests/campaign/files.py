"""Files of the cases: useless ones by name, and damaged copies of our own directories."""

import io
import json
import os
import shutil
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


def _text(content: str) -> Callable[[Path], None]:
    return lambda path: _write(path, content.encode())


def _bytes(content: bytes) -> Callable[[Path], None]:
    return lambda path: _write(path, content)


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _npy(array: Any) -> Callable[[Path], None]:
    return lambda path: np.save(path, array, allow_pickle=True)


def _npz(**arrays: Any) -> Callable[[Path], None]:
    return lambda path: np.savez(path, **arrays)


def _link(target: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(target)


def _header(shape: str, descr: str = "<f8") -> bytes:
    """Return a .npy file that promises an array of this shape, and ends there."""
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


def _zip_of(name: str, content: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(name, content)
    return stream.getvalue()


NOT_FILES: dict[str, Callable[[Path], None]] = {
    "folder": Path.mkdir,
    "fifo": os.mkfifo,
    "loop": lambda path: path.symlink_to(path.name),
    "dangling": _link("nowhere"),
}
"""Things that are no regular files; each also exists with every suffix below."""
DEVICES = ("/dev/zero", "/dev/null", "/dev/full")

BY_SUFFIX: dict[str, dict[str, Callable[[Path], None]]] = {
    ".npy": {
        "empty": _bytes(b""),
        "garbage": _bytes(bytes(range(256)) * 4),
        "text": _text("1,2,3\n"),
        "cut": _bytes(_header("(10,)")[:40]),
        "huge": _bytes(_header("(1000000000000,)")),
        "negative": _bytes(_header("(-10,)")),
        "nonsense": _bytes(_header("(10")),
        "objects": _npy(np.array([None, {}], dtype=object)),
        "words": _npy(np.array(["a", "b"])),
        "complex": _npy(np.ones(10, dtype=complex)),
        "nan": _npy(np.full(10, np.nan)),
        "inf": _npy(np.full((4, 4), np.inf)),
        "flat": _npy(np.float64(3)),
        "deep": _npy(np.zeros((2, 2, 2, 2))),
        "none": _npy(np.zeros((0, 10))),
        "lopsided": _npy(np.arange(16.0).reshape(4, 4)),
        "split": _npy(np.eye(4)),
        "archive": lambda path: _write(path, _zip_of("x.npy", _header("(10,)"))),
    },
    ".npz": {
        "empty": _bytes(b""),
        "garbage": _bytes(b"PK\x03\x04" + bytes(range(256))),
        "cut": lambda path: _write(path, _zip_of("X.npy", _header("(10, 2)"))[:-30]),
        "hollow": _bytes(_zip_of("X.npy", _header("(10, 2)"))),
        "huge": _bytes(_zip_of("X.npy", _header("(1000000000000,)"))),
        "other": _npz(a=np.zeros(3), b=np.zeros(3)),
        "short": _npz(X=np.zeros((10, 2)), y=np.zeros(9)),
        "halves": _npz(X=np.zeros((10, 2)), y=np.arange(10) / 2),
        "nan": _npz(X=np.full((10, 2), np.nan), y=np.zeros(10)),
        "words": _npz(X=np.full((10, 2), "a"), y=np.zeros(10)),
        "flat": _npz(X=np.zeros(10), y=np.zeros(10)),
        "wrong": _npz(Phi=np.zeros((4, 3)), x_star=np.zeros(5)),
        "one": _npz(Phi=np.zeros((1, 3, 3)), x_star=np.zeros((1, 3))),
    },
    ".csv": {
        "empty": _bytes(b""),
        "garbage": _bytes(bytes(range(256))),
        "words": _text("a,b\nc,d\n"),
        "ragged": _text("1,0\n0\n"),
        "nan": _text("nan,1\n1,nan\n"),
        "huge": _text("1e999,0\n0,1\n"),
        "small": _text("1\n"),
        "sums": _text("\n".join(["0.5,0.5,0.5,0.5"] * 4)),
        "zeros": _text("\n".join(["0,0,0,0"] * 4)),
    },
    ".txt": {
        "empty": _bytes(b""),
        "garbage": _bytes(b"\xff\xfe\x00\x01" * 8),
        "words": _text("a b\n"),
        "three": _text("0 1 2\n"),
        "negative": _text("0 -1\n"),
        "self": _text("1 1\n"),
        "far": _text("0 1\n1 1000000000000\n"),
        "digits": _text(f"0 {'9' * 5000}\n"),
        "split": _text("0 1\n2 3\n"),
        "five": _text("0 1\n1 2\n2 3\n3 4\n"),
    },
    ".graphml": {
        "empty": _bytes(b""),
        "garbage": _bytes(bytes(range(256))),
        "html": _text("<html></html>"),
        "cut": _text("<graphml><graph edgedefault='undirected'><node id='0'/>"),
        "directed": _text(
            "<graphml xmlns='http://graphml.graphdrawing.org/xmlns'><graph edgedefault='directed'>"
            "<node id='0'/><node id='1'/><edge source='0' target='1'/></graph></graphml>"
        ),
        "bare": _text("<graphml xmlns='http://graphml.graphdrawing.org/xmlns'></graphml>"),
    },
    ".libsvm": {
        "empty": _bytes(b""),
        "garbage": _bytes(bytes(range(256))),
        "words": _text("a b:c\n"),
        "no-colon": _text("1 3\n"),
        "index": _text("1 0:1\n"),
        "negative": _text("1 -3:1\n"),
        "far": _text("1 99999999999999:1\n"),
        "nan": _text("1 1:nan\n-1 1:1\n" * 4),
        "inf": _text("1 1:1e999\n-1 1:1\n" * 4),
        "order": _text("1 2:1 1:1\n" * 4),
        "label": _text("nan 1:1\n" * 4),
        "few": _text("1 1:1\n"),
    },
    ".toml": {
        "garbage": _bytes(b"\xff\xfe\x00"),
        "syntax": _text("iterations = = 3\n"),
        "unknown": _text("iteratons = 3\n"),
        "twice": _text("log-every = 3\nlog_every = 4\n"),
        "list": _text("seeds = [1, 2]\n"),
        "table": _text("[problem]\nname = 'huber'\n"),
        "type": _text("iterations = 'many'\n"),
        "bool": _text("iterations = true\n"),
        "half": _text("seeds = 1.5\n"),
        "nan": _text("iterations = nan\n"),
        "inf": _text("checkpoint-minutes = inf\n"),
        "huge": _text(f"iterations = {'9' * 4000}\n"),
        "float": _text("iterations = 1e300\n"),
        "date": _text("iterations = 1979-05-27\n"),
        "empty-out": _text("out = ''\n"),
        "null": _text('out = "a\\u0000b"\n'),
        "deep": _text("x = " + "[" * 5000 + "]" * 5000 + "\n"),
        "resume": _text("resume = true\n"),
        "reserved": _text("reserved = true\n"),
        "points": _text("points = 5\n"),
        "methods": _text("algorithms = 'gt'\nalgorithm = 'gt'\n"),
    },
    ".hosts": {
        "empty": _bytes(b""),
        "garbage": _bytes(b"\xff\xfe\x00"),
        "comment": _text("# nothing\n"),
        "mpich": _text("h1:4\n"),
        "zero": _text("h1 slots=0\n"),
        "negative": _text("h1 slots=-1\n"),
        "words": _text("h1 slots=many\n"),
        "digits": _text(f"h1 slots={'9' * 5000}\n"),
        "name": _text("-x slots=1\n"),
        "options": _text("--mca slots=1\n"),
    },
}


def _all_files() -> dict[str, Callable[[Path], None]]:
    found = dict(NOT_FILES)
    for suffix, makers in BY_SUFFIX.items():
        found |= {f"{name}{suffix}": make for name, make in {**makers, **NOT_FILES}.items()}
    found["file"] = _text("somebody's file\n")
    found["full/file"] = _text("somebody's file\n")
    return found


FILES = _all_files()


def useless(suffix: str) -> list[str]:
    """Return the names of all useless files of this kind, and of things that are no files."""
    return [f"{name}{suffix}" for name in (*BY_SUFFIX[suffix], *NOT_FILES)]


VALUES: dict[str, Any] = {
    "null": None,
    "text": "x",
    "list": [],
    "table": {},
    "nan": float("nan"),
    "negative": -1,
    "zero": 0,
    "huge": 10**400,
    "true": True,
    "deep": {"a": [[[[{"b": 1}]]]]},
}
"""Values that take the place of one in a JSON file."""
CONTENTS: dict[str, bytes] = {
    "empty": b"",
    "garbage": bytes(range(256)),
    "cut": b'{"config": {"n": 4',
    "a list": b"[]",
    "a number": b"3",
    "null": b"null",
    "an empty table": b"{}",
    "nested": b"[" * 100_000,
}
"""Contents that take the place of a whole file."""


@dataclass(frozen=True)
class Damage:
    """A copy of a prepared directory with one file, or one value of a JSON file, spoiled.

    `what` is a key of VALUES if `key` is given, else of CONTENTS or NOT_FILES, or `missing`; with
    no file, the directory is whole.
    """

    base: str
    file: str = ""
    what: str = ""
    key: tuple[str | int, ...] = ()
    status: str = ""  # in the run.json of a run that was killed

    def __str__(self) -> str:
        where = ".".join(map(str, self.key))
        status = f", {self.status}" if self.status else ""
        return f"{self.base}/{self.file} ({where + ' ' if where else ''}{self.what}{status})"

    def make(self, bases: Path, folder: Path) -> None:
        """Write the damaged directory into the folder."""
        target = folder / self.base
        shutil.copytree(bases / self.base, target)
        if not self.file:
            return
        path = target / self.file
        if self.status and path.name != "run.json":
            facts = json.loads((target / "run.json").read_text())
            (target / "run.json").write_text(json.dumps({**facts, "status": self.status}))
        if self.key:
            content = json.loads(path.read_text())
            place = content
            for step in self.key[:-1]:
                place = place[step]
            if self.what == "missing":
                del place[self.key[-1]]
            else:
                place[self.key[-1]] = VALUES[self.what]
            path.write_text(json.dumps(content))
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        if self.what in CONTENTS:
            path.write_bytes(CONTENTS[self.what])
        elif self.what in NOT_FILES:
            NOT_FILES[self.what](path)


def keys_of(content: Any, depth: int = 3) -> Iterator[tuple[str | int, ...]]:
    """Yield the place of every value in a JSON file, of a list only the first."""
    items: Any = content.items() if isinstance(content, dict) else enumerate(content[:1])
    for key, value in items:
        yield (key,)
        if isinstance(value, dict | list) and depth > 1:
            yield from ((key, *rest) for rest in keys_of(value, depth - 1))


def make(needs: tuple[str | Damage, ...], bases: Path, folder: Path) -> None:
    """Write the files of a case into its folder."""
    for need in needs:
        if isinstance(need, Damage):
            need.make(bases, folder)
        else:
            path = folder / need
            path.parent.mkdir(parents=True, exist_ok=True)
            FILES[need](path) if need in FILES else _make_module(need, path)


def _make_module(name: str, path: Path) -> None:
    from campaign.modules import MODULES

    path.write_bytes(MODULES[name.removesuffix(".py")].encode(errors="surrogateescape"))
