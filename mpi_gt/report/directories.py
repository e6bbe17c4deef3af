"""What a directory holds for the page: whatever can be read of it, and notes on what cannot."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import UserError
from ..rundir.curves import Curve, read_curves
from ..rundir.status import read_status

PARTS = ("run", "summary", "sweep", "profile", "bench", "scale", "claims", "audit")
"""The JSON files of a directory that the page shows."""
SIGNS = ("run.json", "metrics.csv", "bench.json", "scale.json", "claims.json")
"""One of these makes a directory one of ours."""


@dataclass
class ReportedDirectory:
    """One directory. `parts` are its JSON files by name, without those that are missing."""

    path: Path
    name: str
    parts: dict[str, Any] = field(default_factory=dict)
    curves: list[Curve] = field(default_factory=list)
    status: str = ""
    note: str = ""
    troubles: list[str] = field(default_factory=list)

    @property
    def facts(self) -> dict[str, Any]:
        """run.json; for others than a run, what says most of how it was made."""
        for name in ("run", "bench", "summary"):
            if isinstance(self.parts.get(name), dict):
                return dict(self.parts[name])
        return {}

    def table(self, *keys: str) -> dict[str, Any]:
        """A table within the facts; empty where there is none."""
        found: Any = self.facts
        for key in keys:
            found = found.get(key) if isinstance(found, dict) else None
        return found if isinstance(found, dict) else {}


def read_directories(paths: Iterable[Path]) -> list[ReportedDirectory]:
    """All of them, each under the shortest name that tells it from the others."""
    chosen = list(dict.fromkeys(each for path in paths for each in _expand(path)))
    names = [path.resolve().name for path in chosen]
    return [
        _read(path, name if names.count(name) == 1 else str(path))
        for path, name in zip(chosen, names, strict=True)
    ]


def _expand(path: Path) -> list[Path]:
    """The directory, or the runs right in it where it holds nothing itself."""
    if not path.is_dir():
        raise UserError(f"{path} is no directory")
    try:
        if _is_ours(path):
            return [path]
        inner = sorted(each for each in path.iterdir() if each.is_dir() and _is_ours(each))
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    if not inner:
        raise UserError(f"{path} holds nothing to report: none of {', '.join(SIGNS)}")
    return inner


def _is_ours(path: Path) -> bool:
    return any((path / name).is_file() for name in SIGNS)


def _read(path: Path, name: str) -> ReportedDirectory:
    folder = ReportedDirectory(path, name)
    for part in PARTS:
        file = path / f"{part}.json"
        if not file.exists():
            continue
        try:
            folder.parts[part] = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            folder.troubles.append(f"{file.name} cannot be read: {error}")
    folder.curves, troubles = read_curves(path / "metrics.csv", name)
    folder.troubles += troubles
    run = folder.parts.get("run")
    if isinstance(run, dict):
        try:
            folder.status, folder.note = map(str, read_status(path, run))
        except (TypeError, AttributeError, ValueError) as error:
            folder.status = "unknown"
            folder.troubles.append(f"run.json is not as expected: {error}")
        if run.get("exit_code") == 3:
            folder.status = "diverged"
    elif "run" in folder.parts:
        folder.troubles.append("run.json is not a table of facts")
    else:
        folder.status = "finished" if folder.parts else "unknown"
    return folder
