"""Decentralized stochastic optimization as real MPI processes: one rank is one node."""

from typing import TYPE_CHECKING, Any

from .errors import Diverged, Stopped, UserError

if TYPE_CHECKING:
    from mpi4py import MPI

    from .engine.run import Result

__version__ = "0.1.0"

__all__ = ["Diverged", "Stopped", "UserError", "__version__", "run"]


def run(comm: "MPI.Intracomm | None" = None, **options: Any) -> "Result":
    """Run one experiment on the ranks of `comm`; every rank calls it with the same options.

    The options are those of `mpi-gt run`, with _ for - (`log_every=10`); without `out` nothing
    is written, and without `quiet=False` nothing is shown; no signal is caught, and without
    `watchdog=SECONDS` no process ended. `stacked=True, n=16` runs all nodes
    in this process, without MPI.
    """
    from .config import RunConfig
    from .engine.run import run as run_experiment

    def make() -> RunConfig:
        return RunConfig.of({"quiet": True, "watchdog": 0, **options})

    if comm is None:
        return run_experiment(make())
    from .comm.collective import on_root

    return run_experiment(comm.bcast(on_root(comm, make)), comm)
