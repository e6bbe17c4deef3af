"""Run directories by name, by pattern, or inside of a directory of runs."""

import glob
import os
from collections.abc import Iterable
from pathlib import Path

from ..errors import UserError
from ..rundir.layout import POINTS

DEPTH = 4
"""Levels of folders below a named one in which runs are looked for."""

Where = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


def find_runs(where: Where) -> list[Path]:
    """Return the run directories that a path, a pattern or a list of them names, each once.

    A directory that is not itself a run stands for all runs inside of it: the points of a sweep,
    the methods of a reproduced experiment, or a folder such as `runs`.
    """
    if isinstance(where, str | os.PathLike):
        where = [where]
    if isinstance(where, bytes) or not isinstance(where, Iterable):
        raise UserError(f"load takes a directory, a pattern or a list of them, not {where!r}")
    found: list[Path] = []
    for each in where:
        if not isinstance(each, str | os.PathLike):
            raise UserError(f"a run directory is a path, not {each!r}")
        for path in _matches(os.fspath(each)):
            inner = _runs_in(path, DEPTH)
            if not inner:
                raise UserError(f"{path} holds no run: there is no run.json to read")
            found += inner
    if not found:
        raise UserError("no run directory is named")
    # one directory may have two names, as `runs/a` and its absolute path
    by_place: dict[str, Path] = {}
    for path in found:
        by_place.setdefault(os.path.realpath(path), path)
    return list(by_place.values())


def _matches(text: str) -> list[Path]:
    path = Path(text)
    try:
        if path.is_dir():
            return [path]
        if path.exists():
            raise UserError(f"{path} is not a directory")
        matches = sorted(each for each in glob.glob(text, recursive=True) if Path(each).is_dir())  # noqa: PTH207
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read {path}: {error}") from None
    if not matches:
        raise UserError(f"there is no directory {path}, and none that matches it")
    # of several matches, those without a run are other folders
    runs = [Path(each) for each in matches if _runs_in(Path(each), DEPTH)]
    return runs or [Path(matches[0])]


def _runs_in(path: Path, depth: int) -> list[Path]:
    """Return the run directory itself, or those inside of it, in the order of their names."""
    if (path / "run.json").exists() and not (path / POINTS).is_dir():
        return [path]
    if depth == 0:
        return []
    try:
        folders = sorted(sub for sub in path.iterdir() if sub.is_dir() and sub.name[0] != ".")
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    return [run for folder in folders for run in _runs_in(folder, depth - 1)]
