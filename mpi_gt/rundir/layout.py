"""The directory of a run: choosing it, refusing one that is taken, clearing it of an old run."""

import contextlib
import itertools
import os
import time
from pathlib import Path

from ..errors import UserError

CHECKPOINTS = "checkpoints"
OUTPUTS = "final.part"  # outputs of a comparison that is not finished
WATCHDOG = "watchdog"  # reports of stuck ranks
STOP_FILE = "stop"  # its presence asks a run to stop
OWN_FILES = (
    "run.json",
    "metrics.csv",
    "final.npz",
    "loss.png",
    "gap.png",
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
# beside these files; patterns, so that an --overwrite removes nothing of somebody else's
STATE = (
    f"{CHECKPOINTS}/[ab]/*node-*",
    f"{CHECKPOINTS}/[ab]",
    CHECKPOINTS,
    f"{OUTPUTS}/*.npy",
    f"{OUTPUTS}/.*.npy.part",
    OUTPUTS,
)
REMAINS = (STOP_FILE, ".run.json.*", ".final.npz.part", f"{WATCHDOG}/*node-*.json", WATCHDOG)
OWN_NAMES = {*OWN_FILES, STOP_FILE, CHECKPOINTS, OUTPUTS, WATCHDOG}


def reserve(name: str) -> Path:
    """runs/<time>-<name>, made now: of two runs in one second, each has its own."""
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
    """Refuse a path that holds something already, or that could not be written to anyway."""
    try:
        if os.path.lexists(path) and not path.is_dir():
            raise UserError(f"{path} is no directory for a run's output")
        if path.exists() and not overwrite:
            raise UserError(f"{path} exists; give another --out, or --overwrite to replace its run")
        for name in OWN_FILES:
            if (path / name).is_dir():
                raise UserError(f"{path / name} is a directory: no run was written there")
    except OSError as error:
        raise UserError(f"cannot write to {path}: {error.strerror}") from None


def clear(path: Path, state: bool) -> None:
    """Remove what an earlier run has left there, with or without what it could go on from.

    run.json and metrics.csv are in use by now, and stay.
    """
    results = [name for name in OWN_FILES if name not in ("run.json", "metrics.csv")]
    for pattern in (*results, *REMAINS, *(STATE if state else ())):
        for found in path.glob(pattern):
            if not found.is_dir():
                found.unlink(missing_ok=True)
            else:
                with contextlib.suppress(OSError):  # somebody else's files are in it
                    found.rmdir()


def remove_run(path: Path) -> None:
    """Remove a whole run."""
    clear(path, state=True)
    for name in ("run.json", "metrics.csv"):
        (path / name).unlink(missing_ok=True)
