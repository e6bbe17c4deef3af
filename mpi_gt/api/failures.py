"""A user's class that fails in `mpi_gt.run`: one short traceback, and its end in run.json."""

import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from ..errors import OtherRankFailed, RunFailed
from ..rundir.run_json import mark_failed, process_facts, read_facts
from ..user_classes.failures import describe_failure, is_own_file

if TYPE_CHECKING:
    from mpi4py import MPI

PATIENCE = 3.0  # seconds in which the other ranks fail as well, if they do
ALONE = (
    "the other ranks have not failed, and may wait for this one forever: "
    "mpi_gt.run(..., watchdog=60) or `python -m mpi4py` would end them"
)


def failure(error: BaseException, comm: "MPI.Intracomm | None", out: str | None) -> BaseException:
    """Return the exception with which this rank leaves a run that has failed with `error`.

    If the user's code has failed on all ranks, which have mostly the same bug, root keeps the
    exception and the others get one that prints nothing. The frames of this package are left out.
    """
    text, _ = describe_failure(error)
    _mark(out, text)
    if comm is not None:
        from ..comm.collective import RootFailed

        if isinstance(error, RootFailed):
            return _alone(OtherRankFailed("root has failed"))
    call = getattr(error, "user_call", None)
    if call is None or isinstance(error, KeyboardInterrupt):
        return error
    several = comm is not None and comm.size > 1
    if comm is not None and several:
        everywhere = _fail_together(comm)
        if everywhere and comm.rank > 0:
            return _alone(OtherRankFailed(text))
        if not everywhere:
            _note(error, ALONE)
    if isinstance(error, SystemExit):  # it would end the caller's script without a word
        return _alone(RunFailed(text))
    if call:
        _note(error, f"in {call}" + (f", on rank {comm.rank}" if comm and several else ""))
    return error.with_traceback(_of_user(error.__traceback__))


def _alone(error: BaseException) -> BaseException:
    """Return the exception so that no other one is shown with it."""
    error.__suppress_context__ = True
    return error


def _note(error: BaseException, text: str) -> None:
    """Have the text shown below the exception, by Python 3.11 or later."""
    if hasattr(error, "add_note"):
        error.add_note(text)


def _mark(out: str | None, text: str) -> None:
    """Write to run.json that the run has failed, if it is this process's own."""
    if out is not None and read_facts(Path(out)).get("process") == process_facts():
        mark_failed(Path(out), text, 1)


def _fail_together(comm: "MPI.Intracomm") -> bool:
    """Return whether all ranks call this; False after a while: some may be stuck in an exchange."""
    request = comm.Ibarrier()
    until = time.monotonic() + PATIENCE
    while not request.Test():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def _of_user(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback without the frames of this package."""
    if trace is None:
        return None
    rest = _of_user(trace.tb_next)
    if is_own_file(trace.tb_frame.f_code.co_filename):
        return rest
    return TracebackType(rest, trace.tb_frame, trace.tb_lasti, trace.tb_lineno)
