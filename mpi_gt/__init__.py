"""Decentralized stochastic optimization as real MPI processes: one rank is one node."""

from typing import TYPE_CHECKING, Any, Literal, overload

from .errors import Diverged, Interrupted, RunFailed, Stopped, UserError

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from mpi4py import MPI

    from .api.launch import Launch
    from .engine.result import Result
    from .results.find import Where
    from .results.runs import Runs
    from .sweeps.axes import Over

__version__ = "0.1.0"

__all__ = [
    "Diverged",
    "Interrupted",
    "RunFailed",
    "Stopped",
    "UserError",
    "__version__",
    "launch",
    "load",
    "resume",
    "run",
    "sweep",
]


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
        shown, and without `watchdog=SECONDS` a rank that waits forever is not ended. Objects can
        take the place of text: `algorithm` an Algorithm, `algorithms` a list of them, `problem` a
        class, or a pair `(class, {option: value})`, `graph` a graph of networkx, `weights` and
        `x1` arrays.

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
    from .api.run import run

    return run(comm, options)


@overload
def launch(
    n: int | None = None,
    *,
    wait: Literal[True] = True,
    progress: bool | None = None,
    hostfile: "str | os.PathLike[str] | None" = None,
    launcher: "str | os.PathLike[str] | None" = None,
    launcher_args: "str | Sequence[str]" = (),
    export: "str | Sequence[str]" = (),
    **options: Any,
) -> "Result": ...


@overload
def launch(
    n: int | None = None,
    *,
    wait: bool,
    progress: bool | None = None,
    hostfile: "str | os.PathLike[str] | None" = None,
    launcher: "str | os.PathLike[str] | None" = None,
    launcher_args: "str | Sequence[str]" = (),
    export: "str | Sequence[str]" = (),
    **options: Any,
) -> "Result | Launch": ...


def launch(
    n: int | None = None,
    *,
    wait: bool = True,
    progress: bool | None = None,
    hostfile: "str | os.PathLike[str] | None" = None,
    launcher: "str | os.PathLike[str] | None" = None,
    launcher_args: "str | Sequence[str]" = (),
    export: "str | Sequence[str]" = (),
    **options: Any,
) -> "Result | Launch":
    """Run one experiment on n MPI processes that are started for it, as `mpi-gt run -n N` does.

    It is for scripts and notebooks that are not run under mpirun. Ctrl-C stops the run at a
    checkpoint, from which `resume` continues it. When this Python process ends, the run stops in
    the same way.

    Parameters
    ----------
    n
        The number of nodes, one process each.
    wait
        True: return the result when the run has ended. False: return a `Launch` at once.
    progress
        True or False: show the progress, or not. None: on a terminal or in a notebook only.
    hostfile
        The hosts to run on, in the format of this MPI.
    launcher, launcher_args, export
        As --launcher and its companions of `mpi-gt run`; the last two may be lists.
    **options
        The options of `mpi-gt run`, with _ for -. Without `out` the run directory is
        runs/<time>-<problem>-<algorithm>. Objects can take the place of text, as in `run`: arrays
        and graphs are saved in the folder `inputs` of the run directory, and so is the source of
        a class of a notebook. The processes import other classes from their modules; those of a
        script from the script itself, which needs `if __name__ == "__main__":` around its calls.

    Returns
    -------
    Result or Launch
        The result, with the outputs of all nodes; or the run that is going on, with `status()`,
        `stop()`, `wait()`, `result()` and `directory`.

    Raises
    ------
    UserError
        The options cannot be used.
    Diverged
        A value is no longer finite.
    Stopped
        The run was asked to stop; a checkpoint is saved.
    RunFailed
        The run did not finish for another reason, which the message says.
    KeyboardInterrupt
        Ctrl-C has stopped the run. With a checkpoint, this is a Stopped as well.
    """
    from .api.launch import launch

    words = {"launcher": launcher, "launcher_args": launcher_args, "export": export}
    return launch({"n": n, "hostfile": hostfile, **words, **options}, wait, progress)


def resume(
    directory: "str | os.PathLike[str]",
    *,
    wait: bool = True,
    progress: bool | None = None,
    hostfile: "str | os.PathLike[str] | None" = None,
    launcher: "str | os.PathLike[str] | None" = None,
    launcher_args: "str | Sequence[str]" = (),
    export: "str | Sequence[str]" = (),
    **options: Any,
) -> "Result | Launch":
    """Continue a run that was stopped, killed or failed, or extend a finished one.

    The results are those of a run that was never interrupted. See `launch` for what is the same.

    Parameters
    ----------
    directory
        The run directory.
    wait, progress, hostfile, launcher, launcher_args, export
        As in `launch`.
    **options
        The options of `mpi-gt resume`, with _ for -: `iterations=40000` extends a run.

    Returns
    -------
    Result or Launch
        As `launch` does. The result of a run that is finished already is read, not computed.
    """
    from .api.launch import resume

    words = {"launcher": launcher, "launcher_args": launcher_args, "export": export}
    return resume(directory, {"hostfile": hostfile, **words, **options}, wait, progress)


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
        "problem.spread": "0,0.3", "beta1": "0.5..0.9:3"}`. Text is read as `--over` reads it; a
        list may hold objects, as in `launch`.
    **options
        The options of `mpi-gt sweep`, with _ for -: `n`, `algorithms` (text or a list), `seeds`,
        `iterations`, `out` (by default a new directory in `runs`), `stacked`, ... Nothing is
        shown without `quiet=False`. Objects can take the place of text, as in `launch`.

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
    from .api.sweep import sweep

    return sweep(over, options)
