"""Coarse timers while many ranks wait for one another in MPI_Init and MPI_Finalize.

Open MPI's ranks wait there by sleeping a tenth of a millisecond again and again. Where ranks exceed
cores, these calls take the cores from the ranks that still start and from the daemon that all wait
for: the time grows with the square of the number of ranks. The kernel may let a sleep take
longer by its timer slack, which each thread may choose: with 2 ms, MPI_Init of 128 ranks on two
cores takes 7 s instead of 12. A rank that is alone on its core loses some milliseconds once.
"""

import contextlib
import ctypes
from collections.abc import Iterator

PR_SET_TIMERSLACK = 29
SLACK = 2_000_000  # ns; 10 ms gain no more


@contextlib.contextmanager
def coarse_timers(slack: int = SLACK) -> Iterator[None]:
    """Let sleeps of this thread in the `with` block take up to `slack` nanoseconds longer."""
    _set_slack(slack)
    try:
        yield
    finally:
        _set_slack(0)  # the default again


def _set_slack(nanoseconds: int) -> None:
    with contextlib.suppress(AttributeError, OSError):  # not on Linux
        none = ctypes.c_ulong(0)
        ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, ctypes.c_ulong(nanoseconds), none, none, none)
