"""Collective calls before and after the loop: shared errors, and a barrier that does not spin."""

import time
from collections.abc import Callable
from typing import TypeVar, cast

from mpi4py import MPI

from ..errors import UserError

Result = TypeVar("Result")


class RootFailed(Exception):
    """The error on the other ranks when root raised anything but a UserError.

    Root raises, and prints, its own exception.
    """


def on_root(comm: MPI.Intracomm, make: Callable[[], Result]) -> Result | None:
    """Call `make` on root and return its result there; return None on the other ranks.

    Collective: every rank calls it. A UserError on root is raised on every rank; after any other
    exception on root, the other ranks raise RootFailed.
    """
    result: Result | None = None
    error: Exception | None = None
    if comm.rank == 0:
        try:
            result = make()
        except Exception as caught:
            error = caught
    idle_barrier(comm)
    shared = comm.bcast(error if error is None or isinstance(error, UserError) else RootFailed())
    if error is not None:
        raise error
    if shared is not None:
        raise shared
    return result


def on_every_rank(comm: MPI.Intracomm, make: Callable[[], Result]) -> Result:
    """Call `make` on every rank and return this rank's result.

    Collective: every rank calls it. If `make` raises a UserError on some ranks, every rank raises
    the one of the lowest rank.
    """
    result: Result | None = None
    error: UserError | None = None
    try:
        result = make()
    except UserError as caught:
        error = caught
    idle_barrier(comm)
    for first in comm.allgather(error):
        if first is not None:
            raise first
    return cast(Result, result)


def is_first_on_host(comm: MPI.Intracomm) -> bool:
    """Return True on the lowest rank of each host. Collective: every rank calls it."""
    host = comm.Split_type(MPI.COMM_TYPE_SHARED)
    first = host.rank == 0
    host.Free()
    return first


def idle_barrier(comm: MPI.Intracomm) -> None:
    """Wait for all ranks, sleeping between polls. Collective: every rank calls it.

    MPI's own barrier spins: with more ranks than cores it would take the core of the rank that
    still works.
    """
    request = comm.Ibarrier()
    pause = 1e-5
    while not request.Test():
        time.sleep(pause)
        pause = min(2 * pause, 0.01)
