"""What ranks do together before and after the loop: agree on errors, wait without spinning."""

import time
from collections.abc import Callable
from typing import TypeVar, cast

from mpi4py import MPI

from ..errors import UserError

Made = TypeVar("Made")


class RootFailed(Exception):
    """Root had an exception of its own, and will tell of it."""


def on_root(comm: MPI.Intracomm, make: Callable[[], Made]) -> Made | None:
    """What `make` gives, on root (else None). Root's UserError is raised on every rank."""
    result: Made | None = None
    error: Exception | None = None
    if comm.rank == 0:
        try:
            result = make()
        except Exception as caught:
            error = caught
    idle_barrier(comm)
    told = comm.bcast(error if error is None or isinstance(error, UserError) else RootFailed())
    if error is not None:
        raise error
    if told is not None:
        raise told
    return result


def on_every_rank(comm: MPI.Intracomm, make: Callable[[], Made]) -> Made:
    """What `make` gives, on each rank. The first rank's UserError is raised on every rank."""
    result: Made | None = None
    error: UserError | None = None
    try:
        result = make()
    except UserError as caught:
        error = caught
    idle_barrier(comm)
    for first in comm.allgather(error):
        if first is not None:
            raise first
    return cast(Made, result)


def is_first_on_host(comm: MPI.Intracomm) -> bool:
    """Whether this rank is the first on its host."""
    host = comm.Split_type(MPI.COMM_TYPE_SHARED)
    first = host.rank == 0
    host.Free()
    return first


def idle_barrier(comm: MPI.Intracomm) -> None:
    """A barrier that sleeps: while some work alone, the others must not take their cores."""
    request = comm.Ibarrier()
    pause = 1e-5
    while not request.Test():
        time.sleep(pause)
        pause = min(2 * pause, 0.01)
