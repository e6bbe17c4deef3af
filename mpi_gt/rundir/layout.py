"""Names of the files in a run directory; choosing, refusing and clearing such a directory."""

import contextlib
import itertools
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..errors import UserError

CHECKPOINTS = "checkpoints"
SLOTS = ("a", "b")  # of checkpoints: folders in there, written in turn
SLOT_FOLDERS = tuple(f"{CHECKPOINTS}/{slot}" for slot in SLOTS)
PART_FILES = ("node-*", "host-*")  # the patterns of files in a slot
BY_RANK, BY_HOST = "rank", "host"
LAYOUTS = (BY_RANK, BY_HOST)  # who writes a file of a checkpoint
OUTPUTS = "final.part"  # outputs of the algorithms that are finished, in a run that is not
WATCHDOG = "watchdog"  # reports of stuck ranks
STUCK = f"{WATCHDOG}/stuck"  # a byte per rank, written by those that are stuck
SIGN = f"{WATCHDOG}/alive"  # changes while a rank works for long outside of the iterations
LAUNCHES = ".launch-"  # begins the names of files: see `remains`
INPUTS = "inputs"  # arrays, graphs and classes that a Python caller has passed
INPUT = f"{INPUTS}/*-{'[0-9a-f]' * 8}.*"  # the pattern of such a file
POINTS = "points"  # of a sweep: its runs, a directory each
STOP_FILE = "stop"  # its presence asks a run to stop
OWN_FILES = (
    "run.json",
    "metrics.csv",
    "final.npz",
    "loss.png",
    "gap.png",
    "metrics.png",
    "summary.json",
    "comparison.png",
    "sweep.json",
    "sweep.png",
    "profile.json",
    "profile.npz",
    "profile.png",
    "trace.json",
    "audit.json",
    "audit.png",
)
# patterns of everything that a run can be resumed from; no broader than that, so that
# --overwrite removes no file that is not a run's
STATE = (
    *(f"{CHECKPOINTS}/[ab]/*{files}" for files in PART_FILES),
    f"{CHECKPOINTS}/[ab]",
    CHECKPOINTS,
    f"{OUTPUTS}/*.npy",
    f"{OUTPUTS}/.*.npy.part",
    OUTPUTS,
)
REMAINS = (
    STOP_FILE,
    ".run.json.*",
    ".final.npz.part",
    f"{WATCHDOG}/*node-*.json",
    STUCK,
    SIGN,
    WATCHDOG,
)
OWN_FOLDERS = (CHECKPOINTS, OUTPUTS, WATCHDOG, INPUTS)
OWN_NAMES = {*OWN_FILES, *OWN_FOLDERS, STOP_FILE}


def reserve(name: str) -> Path:
    """Create runs/<time>-<name> and return it; a number is added if it exists already."""
    base = f"{time.strftime('%Y%m%d-%H%M%S')}-{name}"
    for number in itertools.count(1):
        path = Path("runs", base if number == 1 else f"{base}-{number}")
        try:
            path.mkdir(parents=True)
            return path
        except FileExistsError:
            continue
        except OSError as error:
            raise UserError(f"cannot write to {path}: {error.strerror}") from None
    raise AssertionError("unreachable")


def release_reserved(path: Path) -> None:
    """Remove a reserved directory that no run has written to, and `runs` if that is then empty."""
    with contextlib.suppress(OSError):
        path.rmdir()
        path.parent.rmdir()


def require_free(path: Path, overwrite: bool) -> None:
    """Raise UserError if the path exists (unless `overwrite`) or cannot be a run directory."""
    try:
        if os.path.lexists(path) and not path.is_dir():
            raise UserError(f"{path} is not a directory, and cannot hold a run")
        if path.exists() and not overwrite:
            raise UserError(f"{path} exists; give another --out, or --overwrite to replace its run")
        for name in OWN_FILES:
            if (path / name).is_dir():
                raise UserError(f"{path / name} is a directory, so {path} is not a run directory")
            if (path / name).exists() and not (path / name).is_file():  # a pipe would block
                raise UserError(f"{path / name} is no regular file: {path} is not a run directory")
        for name in (*OWN_NAMES, *SLOT_FOLDERS, POINTS):
            if (path / name).is_symlink():
                raise UserError(
                    f"{path / name} is a symbolic link: the run would write to files outside of "
                    f"{path}; remove the link"
                )
        for name in (*OWN_FOLDERS, *SLOT_FOLDERS):
            if os.path.lexists(path / name) and not (path / name).is_dir():
                raise UserError(f"{path / name} is no directory: {path} is not a run directory")
    except OSError as error:
        raise UserError(f"cannot write to {path}: {error.strerror}") from None


def require_no_run(path: Path, overwrite: bool) -> None:
    """Raise UserError if the directory, claimed by now, holds a run that must not be replaced.

    Another process may have written one between `require_free` and the claim.
    """
    if not overwrite and any((path / name).exists() for name in OWN_FILES):
        raise UserError(f"{path} exists; give another --out, or --overwrite to replace its run")


def clear(path: Path, state: bool) -> None:
    """Remove the results of an earlier run and, with `state`, its checkpoints and outputs.

    run.json and metrics.csv stay: the new run already uses them.
    """
    results = [name for name in OWN_FILES if name not in ("run.json", "metrics.csv")]
    for pattern in (*results, *REMAINS, *(STATE if state else ())):
        for match in path.glob(pattern):
            if not match.is_dir():
                match.unlink(missing_ok=True)
            else:
                with contextlib.suppress(OSError):  # it holds files that are not a run's
                    match.rmdir()


def clear_inputs(path: Path, used: Iterable[Any]) -> None:
    """Remove the inputs of an earlier run, but for those that an option among `used` names."""
    texts = [value for value in used if isinstance(value, str)]
    for match in path.glob(INPUT):
        if match.is_file() and not any(match.name in text for text in texts):
            match.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # it is missing, or holds files
        (path / INPUTS).rmdir()


def remove_run(path: Path) -> None:
    """Remove all files of a run."""
    clear(path, state=True)
    for name in ("run.json", "metrics.csv"):
        (path / name).unlink(missing_ok=True)
