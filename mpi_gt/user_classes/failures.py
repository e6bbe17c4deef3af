"""Failures of users' code: told apart from ours, in one line, with the user's frames only."""

import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..errors import Diverged, Stopped, StorageError, UserCodeError, UserError
from ..memory import out_of_memory, reported_memory_errors

PACKAGE = str(Path(__file__).parent.parent)
INSTALLED = (
    f"{os.sep}site-packages{os.sep}",
    f"{os.sep}dist-packages{os.sep}",
    f"{Path(os.__file__).parent}{os.sep}",
)


def located(error: BaseException) -> str:
    """Return the text of an error in one line, with the file and line that raised it."""
    frames = _frames(error) or traceback.extract_tb(error.__traceback__)
    # where the user's own code called an installed package, not where that one raised it
    frames = [each for each in frames if not _is_installed(each.filename)] or frames
    if isinstance(error, SyntaxError):  # it names its place itself
        frames = []
    where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    if isinstance(error, SystemExit):
        return f"sys.exit was called{where}"
    try:
        text = " ".join(str(error).split())
    except Exception:  # a user's exception may fail to describe itself
        text = ""
    if len(text) > 500:
        text = f"{text[:500]}..."
    if isinstance(error, UserCodeError):
        return f"{text}{where}"
    return f"{type(error).__name__}{': ' if text else ''}{text}{where}"


def _frames(error: BaseException) -> list[traceback.FrameSummary]:
    """Return the frames of a traceback that are not of this package nor of Python's import."""
    return [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not is_own_file(frame.filename)
    ]


def _users_frame(error: BaseException) -> traceback.FrameSummary | None:
    """Return where the user's code that we have called failed; None for a failure of ours."""
    below = iter(traceback.extract_tb(error.__traceback__))
    any(is_own_file(frame.filename) for frame in below)  # a script of the user's may have called us
    found = [
        frame
        for frame in below
        if not frame.filename.startswith("<")
        and not is_own_file(frame.filename)
        and not _is_installed(frame.filename)
    ]
    return found[-1] if found else None


@contextmanager
def reported_failures(what: str) -> Iterator[None]:
    """Turn a MemoryError in the `with` block, or a failure of the user's code, into a UserError."""
    try:
        with reported_memory_errors(what):
            yield
    except (UserError, Diverged, Stopped, StorageError, KeyboardInterrupt):
        raise
    except BaseException as error:  # also sys.exit
        if (frame := _users_frame(error)) is None:
            raise
        raise UserError(f"{frame.name} failed: {located(error)}") from None


def _is_installed(name: str) -> bool:
    """Return whether a frame's file is one of Python or of an installed package.

    Cython names no folder: "src/mpi4py/MPI.src/Comm.pyx".
    """
    return name.endswith((".pyx", ".pxi")) or any(folder in name for folder in INSTALLED)


def is_own_file(name: str) -> bool:
    """Return whether a frame's file is one of this package or of Python's import."""
    return name.startswith((f"{PACKAGE}{os.sep}", "<frozen"))


def blame(error: BaseException, call: str) -> BaseException:
    """Return the exception of a user's code during the iterations, marked with the call.

    Of calls within one another, the innermost is named. `call` is "" if the error says all.
    """
    if isinstance(error, UserError | Diverged | Stopped | StorageError):
        # all ranks would have to raise these together
        text = f"{type(error).__name__}: {error}"
        error = UserCodeError(text).with_traceback(error.__traceback__)
    if not hasattr(error, "user_call"):
        with suppress(Exception):
            error.user_call = call  # type: ignore[attr-defined]
    return error


def describe_failure(error: BaseException) -> tuple[str, str]:
    """Return the exception that ends a run in one line, and its traceback, "" if it needs none.

    The frames are the user's own if the user's code has failed, and else all of them.
    """
    call = getattr(error, "user_call", None)
    if call is None and isinstance(error, MemoryError):
        return f"the run {out_of_memory(error)}", ""
    if call is None and (frame := _users_frame(error)) is not None:
        blame(error, call := frame.name)
    if call is None:
        return repr(error), "".join(traceback.format_exception(error)).rstrip()
    frames = _frames(error)
    if not call or not frames:  # the code has returned something wrong, and no frame shows where
        return str(error), ""
    lines = ["Traceback (most recent call last):\n", *traceback.format_list(frames)]
    lines += traceback.format_exception_only(error)
    return f"{call}: {located(error)}", "".join(lines).rstrip()
