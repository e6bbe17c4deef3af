"""Collective calls before and after the loop: shared errors, and a barrier that does not spin."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import numpy as np
from mpi4py import MPI

from ..errors import UserError
from ..user_classes import SILENCE
from ..user_classes.failures import reported_failures

BRIEF = 0.2  # seconds of waiting during which ranks look often whether it is over

Result = TypeVar("Result")


def _noted(name: str) -> Callable[..., Any]:
    """Return that method of a communicator, which notes that this rank waits for others."""
    method = getattr(MPI.Intracomm, name)

    def call(self: "WatchedComm", *arguments: Any, **named: Any) -> Any:
        with waiting_for(self, "the other nodes"):
            return method(self, *arguments, **named)

    return call


class WatchedComm(MPI.Intracomm):
    """A communicator that notes what this rank waits for; the watchdog reads that."""

    waits: int = 0
    waiting: str | None = None
    watchdog: Any = None
    node: int | None = None
    """The node of this rank in a run whose ranks are placed otherwise (see `placement`)."""

    # those that are used before and after the loop; a Node notes the others itself
    bcast = _noted("bcast")
    gather = _noted("gather")
    scatter = _noted("scatter")
    allgather = _noted("allgather")
    Dup = _noted("Dup")
    Split = _noted("Split")
    Split_type = _noted("Split_type")
    Allreduce = _noted("Allreduce")
    Alltoall = _noted("Alltoall")
    Create_dist_graph_adjacent = _noted("Create_dist_graph_adjacent")


@contextmanager
def waiting_for(comm: MPI.Intracomm, what: str) -> Iterator[None]:
    """Note, for the watchdog, that this rank waits in the `with` block."""
    if not isinstance(comm, WatchedComm):
        yield
        return
    comm.waits += 1
    comm.waiting = what
    try:
        yield
    finally:
        comm.waiting = None


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
    error: BaseException | None = None
    if comm.rank == 0:
        try:
            with reported_failures("this run"):
                result = make()
        except BaseException as caught:  # also sys.exit, in a user's code
            error = caught
    idle_barrier(comm)
    shared = comm.bcast(error if error is None or isinstance(error, UserError) else RootFailed())
    if error is not None:
        raise error
    if shared is not None:
        raise shared
    return result


def on_every_rank(
    comm: MPI.Intracomm, make: Callable[[], Result], what: str | None = None
) -> Result:
    """Call `make` on every rank and return this rank's result.

    Collective: every rank calls it. If `make` raises a UserError on some ranks, every rank raises
    the one of the lowest rank. If the other ranks take long, root says that it waits for `what`.
    """
    result: Result | None = None
    error: UserError | None = None
    try:
        with reported_failures("this run"):
            result = make()
    except UserError as caught:
        error = caught
    idle_barrier(comm, what)
    first = first_of_all(comm, error)
    if first is not None:
        raise first
    return cast(Result, result)


def first_of_all(comm: MPI.Intracomm, value: Result | None) -> Result | None:
    """Return, on every rank, the value of the lowest rank that has one; None if none has.

    Collective: every rank calls it. Ranks do not gather the values of all others: these would be
    as many objects as there are ranks, on each of them.
    """
    place = np.array([comm.size if value is None else comm.rank])
    comm.Allreduce(MPI.IN_PLACE, place, op=MPI.MIN)
    return None if place[0] == comm.size else comm.bcast(value, root=int(place[0]))


def place_on_host(comm: MPI.Intracomm) -> tuple[int, int]:
    """Return the number of this rank among the ranks of its host, from 0, and their number.

    Collective: every rank calls it.
    """
    host = comm.Split_type(MPI.COMM_TYPE_SHARED)
    place = host.rank, host.size
    host.Free()
    return place


def idle_barrier(comm: MPI.Intracomm, what: str | None = None) -> None:
    """Wait for all ranks, sleeping between polls. Collective: every rank calls it.

    MPI's own barrier spins: with more ranks than cores it would take the core of the rank that
    still works. After SILENCE seconds root says that it waits for `what`, if that is given.
    """
    request = comm.Ibarrier()
    pause = 1e-5
    began = time.monotonic()
    with waiting_for(comm, "all other nodes"):
        while not request.Test():
            time.sleep(pause)
            # MPI makes progress in `Test` only, and a barrier has several rounds: short pauses, as
            # long as the wait may be short (18 runs of a sweep on 16 ranks: 10.3 s become 8.3)
            waited = time.monotonic() - began
            pause = min(2 * pause, 0.001 if waited < BRIEF else 0.01)
            if what is not None and comm.rank == 0 and waited > SILENCE:
                text = f"mpi-gt: still waiting for other ranks, after {SILENCE:.0f} s: {what}"
                print(text, file=sys.stderr, flush=True)
                what = None
