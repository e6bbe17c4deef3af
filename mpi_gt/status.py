"""run.json on the disk: whole or not at all, and true to the end. Needs nothing slow to import."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """All of it or, where something breaks, what was there before."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(content, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    temporary.replace(path)


def written(path: Path | None) -> float | None:
    """When run.json was last written, None where there is none."""
    try:
        return None if path is None else (path / "run.json").stat().st_mtime
    except OSError:
        return None


def ended(path: Path | None, before: float | None) -> int | None:
    """The exit code in a run.json that was written since `before`; None where it has none."""
    if path is None or written(path) == before:
        return None
    try:
        code = json.loads((path / "run.json").read_text(encoding="utf-8")).get("exit_code")
    except (OSError, ValueError):
        return None
    return code if isinstance(code, int) else None


def mark_failed(path: Path, error: str, exit_code: int) -> None:
    """Make the run.json of a run that cannot say so itself tell how it ended."""
    try:
        facts = json.loads((path / "run.json").read_text(encoding="utf-8"))
        if facts.get("status") == "running":
            facts.update(status="failed", error=error, exit_code=exit_code)
            write_json(path / "run.json", facts)
    except (OSError, ValueError):
        pass  # there is no run to speak of
