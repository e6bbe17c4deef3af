"""The directories on the page: everything in them that can be read, and notes on the rest."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..algorithms import name_with_stepsize
from ..errors import UserError
from ..files import mistake, read_json
from ..rundir.curves import Curve, read_curves
from ..rundir.layout import POINTS
from ..rundir.run_json import FACTS
from ..rundir.status import read_status
from ..user_classes import split_spec

PARTS = ("run", "summary", "sweep", "profile", "bench", "scale", "claims", "audit")
"""The JSON files of a directory that the page shows."""
SIGNS = ("run.json", "metrics.csv", "bench.json", "scale.json", "claims.json")
"""The files of which one is enough to report on a directory."""


@dataclass
class ReportedDirectory:
    """A directory to report on; `parts` are its JSON files by name, without missing ones."""

    path: Path
    name: str
    parts: dict[str, Any] = field(default_factory=dict)
    curves: list[Curve] = field(default_factory=list)
    status: str = ""
    note: str = ""
    troubles: list[str] = field(default_factory=list)

    @property
    def facts(self) -> dict[str, Any]:
        """The content of run.json; without one, of the file that says most about its origin."""
        for name in ("run", "bench", "summary"):
            if isinstance(self.parts.get(name), dict):
                return dict(self.parts[name])
        return {}

    def table(self, *keys: str) -> dict[str, Any]:
        """Return a table within the facts; an empty one if there is none."""
        value: Any = self.facts
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        return value if isinstance(value, dict) else {}

    def name_of(self, algorithm: str) -> str:
        """Return the full name of an algorithm in metrics.csv, with its stepsize."""
        # former versions list the options as text in the identity of the run
        known = self.table("options", "algorithm", algorithm, "options")
        lr = (known or self.table("identity", "algorithm", algorithm)).get("lr")
        studied = self.table("methods", algorithm).get("algorithm")  # by `reproduce`
        if lr is None and isinstance(studied, str):
            with suppress(UserError):
                lr = split_spec(studied)[1].get("lr")
        return name_with_stepsize(algorithm, lr)


def read_directories(paths: Iterable[Path]) -> list[ReportedDirectory]:
    """Read all directories; a name that two of them share is replaced by the path."""
    chosen = list(dict.fromkeys(inner for path in paths for inner in _expand(path)))
    names = [path.resolve().name for path in chosen]
    return [
        _read(path, name if names.count(name) == 1 else str(path))
        for path, name in zip(chosen, names, strict=True)
    ]


def files_of(path: Path) -> list[tuple[str, int, int]]:
    """Return name, size and time of all files that the page about a directory is made of."""
    names = ("metrics.csv", *(f"{part}.json" for part in PARTS))
    found = []
    with suppress(OSError, UserError):  # a file may go while it is looked at
        for file in (directory / name for directory in _expand(path) for name in names):
            if file.exists():
                facts = file.stat()
                found.append((str(file), facts.st_size, facts.st_mtime_ns))
    return found


def _expand(path: Path) -> list[Path]:
    """Return the directory, or, if it holds nothing to report, the directories in it that do."""
    if not path.is_dir():
        raise UserError(f"{path} is not a directory")
    try:
        if (path / POINTS).is_dir():  # a sweep over a grid
            path = path / POINTS
        elif _has_results(path):
            return [path]
        inner = sorted(sub for sub in path.iterdir() if sub.is_dir() and _has_results(sub))
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    if not inner:
        raise UserError(f"{path} holds nothing to report: none of {', '.join(SIGNS)}")
    return inner


def _has_results(path: Path) -> bool:
    return any((path / name).is_file() for name in SIGNS)


def _read(path: Path, name: str) -> ReportedDirectory:
    directory = ReportedDirectory(path, name)
    for part in PARTS:
        file = path / f"{part}.json"
        if not file.exists():
            continue
        try:
            content = read_json(file)
            if part == "claims" and isinstance(content, dict):  # of former versions, the bare list
                content = [*content["claims"], *map(_at_best_stepsize, content.get("tuned", []))]
            directory.parts[part] = content
        except UserError as error:
            reason = str(error).removeprefix(f"cannot read {file}")
            directory.troubles.append(f"{file.name} cannot be read{reason}")
        except (KeyError, TypeError):
            directory.troubles.append(f"{file.name} is damaged: it does not hold claims")
    run = directory.parts.get("run")
    if isinstance(run, dict):
        if wrong := mistake(run, FACTS):
            directory.status = "unknown"
            directory.troubles.append(f"run.json is damaged: {wrong}")
        else:
            directory.status, directory.note = read_status(path, run)
        if run.get("exit_code") == 3:
            directory.status = "diverged"
    elif "run" in directory.parts:
        directory.troubles.append("run.json is not a table of facts")
    else:
        directory.status = "finished" if directory.parts else "unknown"
    growing = directory.status in ("running", "stale")
    directory.curves, troubles = read_curves(path / "metrics.csv", name, growing)
    directory.troubles += troubles
    return directory


def _at_best_stepsize(claim: dict[str, Any]) -> dict[str, Any]:
    """Return a claim that was judged a second time, with that in its text."""
    return {**claim, "claim": f"{claim['claim']}, each method at its best stepsize"}
