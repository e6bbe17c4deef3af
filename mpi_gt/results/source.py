"""The commit of the checkout that mpi-gt runs from, for run.json."""

import functools
import re
import subprocess
from pathlib import Path
from typing import Any

GIT_SECONDS = 2  # a checkout on a slow disk must not hold up a run


@functools.cache
def source_facts(package: Path = Path(__file__).parents[1]) -> dict[str, Any] | None:
    """Return the commit of the checkout that this package runs from; None without one, or git.

    `changed` says whether files of the checkout differ from the commit. Called on root only, and
    once: git takes 15 ms.
    """
    checkout = package.parent
    if not (checkout / ".git").exists() or not (checkout / "pyproject.toml").is_file():
        return None
    words = ["--no-optional-locks", "status", "--porcelain=v2", "--branch", "-uno"]
    try:
        answer = subprocess.run(
            ["git", "-C", str(checkout), *words],
            capture_output=True,
            text=True,
            timeout=GIT_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError, ValueError):  # no git, or no answer in time
        return None
    lines = answer.stdout.splitlines()
    found = re.search("^# branch.oid ([0-9a-f]{40,64})$", answer.stdout, re.MULTILINE)
    changed = any(not line.startswith("#") for line in lines)
    return {"commit": found[1], "changed": changed} if found else None
