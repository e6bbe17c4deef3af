"""One rank of several, and the only user of COMM_WORLD.

Root parses the command line and reports errors; all ranks end with the same exit code.
"""

import gc
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from ..engine.stop import StopRequest
from ..errors import Diverged, Stopped, StorageError, UserError
from ..launch import detect
from ..machine import mpi_library
from ..rundir.run_json import mark_failed, resume_hint

if TYPE_CHECKING:
    from mpi4py import MPI

    from ..config import RunConfig


@dataclass
class RankContext:
    """This rank's side of a command: its request to stop, and the run that it is working on."""

    stop: StopRequest
    directory: Path | None = None
    """Run directory, marked as failed where this rank ends in an exception."""


def main_on_rank(arguments: list[str], stop: StopRequest) -> int:
    """Run a command as one rank of several and return its exit code, the same on all ranks."""
    import mpi4py

    mpi4py.rc.initialize = False  # not under another MPI's launcher, where some abort
    mpi4py.rc.finalize = True
    warnings.filterwarnings("ignore", "suspicious MPI")  # mpi4py's, from each rank; ours is below
    # Open MPI, one host: messages with the vectors of many seeds are still sent at once
    os.environ.setdefault("OMPI_MCA_btl_sm_eager_limit", detect.EAGER_LIMIT)
    from mpi4py import MPI

    launch = detect.detect_launch()
    mismatch = launch and launch.library_mismatch(mpi_library())
    if not mismatch:
        if not MPI.Is_initialized():  # a script of the user's may have done so
            MPI.Init_thread(MPI.THREAD_FUNNELED)  # one thread calls MPI, which then takes no locks
        if launch and launch.launcher == detect.SRUN_PMIX:
            # Open MPI (its issue 12495): a first message crashes a rank that is still in there
            time.sleep(0.5)
        mismatch = launch and launch.size_mismatch(MPI.COMM_WORLD.size, mpi_library())
    if launch and mismatch:
        return _report_mismatch(launch, mismatch, arguments)
    comm = MPI.COMM_WORLD
    context = RankContext(stop)
    try:
        code = _run_command(comm, arguments, context)
    except BaseException as error:
        _abort(comm, error, context.directory)
    return int(comm.bcast(detect.write_exit_code(code) if comm.rank == 0 else None))


def _report_mismatch(launch: detect.Launch, mismatch: str, arguments: list[str]) -> int:
    """Report on the launcher's rank 0 that MPI has not joined the ranks; return the exit code.

    Each process takes itself for root, and cannot ask the others.
    """
    if launch.rank > 0:
        time.sleep(3)  # some launchers end the other processes at the first exit code
        return 0 if detect.OUTCOME in os.environ else UserError.exit_code
    from .commands import COMMANDS, load

    known = arguments[0] if arguments and arguments[0] in COMMANDS else None
    report = load(known).on_mismatch if known else None
    if report is None:
        print(f"mpi-gt: error: {mismatch}", file=sys.stderr, flush=True)
    else:
        report(mismatch)
    return detect.write_exit_code(UserError.exit_code)


def _run_command(comm: "MPI.Intracomm", arguments: list[str], context: RankContext) -> int:
    """Have root decide what to do, and do it on every rank; return the exit code."""
    from ..comm.collective import on_root

    if comm.rank > 0:  # most commands need it, and root has to parse first
        from ..engine import run  # noqa: F401
    try:
        work, plan = comm.bcast(on_root(comm, lambda: _prepare(arguments, comm.size)))
        return int(plan if work is None else work(comm, plan, context))
    except Stopped as stopped:
        if comm.rank == 0 and context.directory is not None:
            report_stop(stopped, context.directory)
        return stopped.exit_code
    except (UserError, Diverged) as error:
        if comm.rank == 0:
            print(f"mpi-gt: error: {error}", file=sys.stderr, flush=True)
        return error.exit_code


def _prepare(arguments: list[str], ranks: int) -> tuple[Callable[..., int] | None, Any]:
    """Return what every rank calls, and its plan; None and an exit code where all is done."""
    from .commands import load
    from .parser import parse

    try:
        name, options = parse(arguments)
    except SystemExit as done:  # --help or --version, printed by now
        return None, int(done.code or 0)
    if options.pop("hostfile", None) is not None and detect.OUTCOME not in os.environ:
        raise UserError("--hostfile goes with -n, not with your own mpirun, which has its own")
    command = load(name)
    if command.prepare is None:
        assert command.alone is not None
        return None, command.alone(**options)
    plan = command.prepare(options, ranks)
    return (None if isinstance(plan, int) else command.on_ranks), plan


def run_on_ranks(comm: "MPI.Intracomm", config: "RunConfig", context: RankContext) -> int:
    """Run one configuration on these ranks; return the exit code."""
    try:
        if config.stacked and comm.size > 1:
            raise UserError("--stacked is one process: run it without mpirun")
        context.directory = Path(str(config.out))
        from ..engine import run  # noqa: F401 (and all that it imports)

        gc.freeze()  # modules stay to the end: to scan them takes 20 ms amid the iterations
        run_and_show(config, comm, context.stop)
    except (UserError, Diverged):
        if comm.rank == 0:
            from .configure import release_reserved_directory

            release_reserved_directory(config)
        raise
    return 0


def run_and_show(config: "RunConfig", comm: "MPI.Intracomm | None", stop: StopRequest) -> None:
    """Run one configuration, on these ranks or stacked in this process; root shows the result."""
    from ..engine.run import run

    try:
        result = run(config, comm, stop)
    except Diverged as error:
        if config.algorithms is not None and error.facts and not config.quiet:
            from ..display.results import show

            show(error.facts)  # the other algorithms have run to their end
        raise
    if result.facts and not config.quiet:  # facts are root's
        from ..display.results import show

        show(result.facts)
        if result.profile:
            from ..display.performance import show_profile

            show_profile(result.profile)


def report_stop(stopped: Stopped, directory: Path) -> int:
    """Print that a run has stopped and how to continue it; return the exit code."""
    print(f"mpi-gt: {stopped}; {resume_hint(directory)}", file=sys.stderr, flush=True)
    return stopped.exit_code


def _abort(comm: "MPI.Intracomm", error: BaseException, directory: Path | None) -> NoReturn:
    """Report an exception of this rank and end all ranks."""
    from ..comm.collective import RootFailed

    if isinstance(error, RootFailed):
        time.sleep(10)  # root is reporting it, and ends us
    elif isinstance(error, StorageError):
        # other ranks have the same error: one reports it and ends us
        time.sleep(0.25 * min(comm.rank, 8))
        print(f"mpi-gt: error on rank {comm.rank}: {error}", file=sys.stderr, flush=True)
    else:
        text = "".join(traceback.format_exception(error))
        print(f"mpi-gt: error on rank {comm.rank}:\n{text}", file=sys.stderr, flush=True)
    if directory is not None:
        reason = str(error) if isinstance(error, StorageError) else repr(error)
        mark_failed(directory, f"rank {comm.rank}: {reason}", 1)
    comm.Abort(1)
    os._exit(1)  # where Abort returns before the launcher has ended us
