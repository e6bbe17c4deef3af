"""Decentralized stochastic optimization as real MPI processes: one rank is one node."""

from typing import TYPE_CHECKING, Any

from .errors import Diverged, Stopped, UserError

if TYPE_CHECKING:
    from mpi4py import MPI

    from .engine.run import Result
    from .results.find import Where
    from .results.runs import Runs
    from .sweeps.axes import Over

__version__ = "0.1.0"

__all__ = ["Diverged", "Stopped", "UserError", "__version__", "load", "run", "sweep"]


def run(comm: "MPI.Intracomm | None" = None, **options: Any) -> "Result":
    """Run one experiment, one node per rank of `comm`.

    Collective: every rank calls it with the same options. No signal is caught.

    Parameters
    ----------
    comm
        The communicator of the run. None is for `stacked=True, n=16`, which runs all nodes in
        this process, without MPI.
    **options
        The options of `mpi-gt run`, with _ for - (`log_every=10`). Three defaults differ from
        the command line: without `out` no file is written, without `quiet=False` nothing is
        shown, and without `watchdog=SECONDS` a rank that waits forever is not ended.

    Returns
    -------
    Result
        This rank's outputs; on root the metrics and the facts of the run as well.

    Raises
    ------
    UserError
        The options cannot be used.
    Diverged
        A value is no longer finite.
    Stopped
        A file `stop` in the run directory `out` asked for it; a checkpoint is saved.
    """
    from .config import RunConfig
    from .engine.run import run as run_experiment

    def make() -> RunConfig:
        return RunConfig.of({"quiet": True, "watchdog": 0, **options})

    if comm is None:
        return run_experiment(make())
    from .comm.collective import on_root

    return run_experiment(comm.bcast(on_root(comm, make)), comm)


def load(where: "Where") -> "Runs":
    """Return the results of runs as tables.

    Parameters
    ----------
    where
        A run directory, a pattern such as `runs/*`, or a list of them. The directory of a sweep,
        of a reproduced experiment or of many runs stands for all runs in it. Runs that are not
        finished are loaded as far as they are.

    Returns
    -------
    Runs
        `.metrics` and `.summary` (pandas tables, which need `pip install 'mpi-gt[pandas]'`),
        `.final` (arrays), `.config`, and `.plot()`, which returns matplotlib axes.

    Raises
    ------
    UserError
        There is no run, or its files are damaged.
    """
    from .results.runs import load as load_runs

    return load_runs(where)


def sweep(over: "Over", **options: Any) -> "Runs":
    """Run every algorithm at every point of a grid, and return the points as tables.

    From a script or a notebook, outside of MPI: mpirun is started once per number of ranks, as by
    `mpi-gt sweep`. The same call again runs only the points that are not done.

    Parameters
    ----------
    over
        The axes by name: `{"lr": [0.01, 0.1], "graph": ["ring", "er:p=0.7"], "n": (8, 16),
        "problem.spread": "0,0.3", "beta1": "0.5..0.9:3"}`. Text is read as `--over` reads it.
    **options
        The options of `mpi-gt sweep`, with _ for -: `n`, `algorithms` (text or a list), `seeds`,
        `iterations`, `out` (by default a new directory in `runs`), `stacked`, ... Nothing is
        shown without `quiet=False`.

    Returns
    -------
    Runs
        The points, one row each in `.summary`; the directory also has sweep.csv and figures.

    Raises
    ------
    UserError
        A point of the grid cannot run; nothing was started.
    Stopped
        A signal, such as that of Ctrl-C, stopped the sweep in an orderly way.
    RuntimeError
        No point has finished.
    """
    from .sweeps.python import sweep as run_sweep

    return run_sweep(over, options)
