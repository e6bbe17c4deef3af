"""The orderly ways for a run to end early, each with its exit code."""

from typing import Any


class UserError(Exception):
    """The input cannot be used; the message says why and what would work."""

    exit_code = 2


class Diverged(Exception):
    """A value is no longer finite; what was measured before is kept, `facts` is root's run.json."""

    exit_code = 3

    def __init__(self, message: str, facts: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.facts = facts


class Stopped(Exception):
    """Asked to stop, all ranks have saved their state at the same iteration: it can go on."""

    exit_code = 85


class StorageError(Exception):
    """The disk is full, or the directory gone: the message names the file."""


STUCK_EXIT_CODE = 86
"""The watchdog ended the run: a rank waited too long for its neighbours."""
