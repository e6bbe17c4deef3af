"""One rank of several, and the only user of COMM_WORLD.

Root parses the command line and reports errors; all ranks end with the same exit code.
"""

import gc
import os
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from ..engine.stop import StopRequest
from ..errors import Diverged, Stopped, StorageError, UserError
from ..launchers import detect
from ..launchers.build_id import require_same_build
from ..launchers.parent import die_with_launcher
from ..launchers.timers import coarse_timers
from ..machine import mpi_library, require_mpi
from ..rundir.atomic import storage_failure
from ..rundir.host_folder import HostFolder, enter_host
from ..rundir.run_json import mark_failed, read_facts, resume_hint

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
    die_with_launcher()
    host = enter_host()
    try:
        return _main_on_host(arguments, stop, host)
    finally:
        host.leave()


def _main_on_host(arguments: list[str], stop: StopRequest, host: HostFolder) -> int:
    import mpi4py

    mpi4py.rc.initialize = False  # not under another MPI's launcher, where some abort
    mpi4py.rc.finalize = True
    warnings.filterwarnings("ignore", "suspicious MPI")  # mpi4py's, from each rank; ours is below
    # Open MPI, one host: messages with the vectors of many seeds are still sent at once
    os.environ.setdefault("OMPI_MCA_btl_sm_eager_limit", detect.EAGER_LIMIT)
    launch = detect.detect_launch()
    try:
        require_mpi()
    except UserError as error:
        return _report_mismatch(launch, str(error), arguments)
    from mpi4py import MPI

    mismatch = launch and launch.library_mismatch(mpi_library())
    by_user = MPI.Is_initialized()  # in a script of the user's
    if not mismatch:
        if not by_user:
            with host.around_init(mpi_library()), coarse_timers():
                MPI.Init_thread(MPI.THREAD_FUNNELED)  # one thread calls MPI, so it takes no locks
        if launch and launch.launcher == detect.SRUN_PMIX:
            # Open MPI (its issue 12495): a first message crashes a rank that is still in there
            time.sleep(0.5)
        mismatch = launch and launch.size_mismatch(MPI.COMM_WORLD.size, mpi_library())
    if launch and mismatch:
        return _report_mismatch(launch, mismatch, arguments)
    from ..comm.collective import WatchedComm
    from ..engine.watchdog import guard_start

    comm = WatchedComm(MPI.COMM_WORLD)
    watchdog = guard_start(comm)
    context = RankContext(stop)
    try:
        code = _run_command(comm, arguments, context)
    except BaseException as error:
        _abort(comm, error, context.directory)
    code = int(comm.bcast(detect.write_exit_code(code) if comm.rank == 0 else None))
    watchdog.guard_exit()
    if not by_user:
        with coarse_timers():
            MPI.Finalize()  # here, and not at the exit of Python: then the host can be left
    return code


def _report_mismatch(launch: detect.Launch | None, mismatch: str, arguments: list[str]) -> int:
    """Report on the launcher's rank 0 that MPI has not joined the ranks; return the exit code.

    Each process takes itself for root, and cannot ask the others.
    """
    if launch is not None and launch.rank > 0:
        time.sleep(3)  # some launchers end the other processes at the first exit code
        return 0 if detect.OUTCOME in os.environ else UserError.exit_code
    from .commands import COMMANDS, load

    known = arguments[0] if arguments and arguments[0] in COMMANDS else None
    report = load(known).on_mismatch if known else None
    if report is None:
        print(f"mpi-gt: error: {mismatch}", file=sys.stderr, flush=True)
    else:
        report(mismatch, arguments)
    return detect.write_exit_code(UserError.exit_code)


def _run_command(comm: "MPI.Intracomm", arguments: list[str], context: RankContext) -> int:
    """Have root decide what to do, and do it on every rank; return the exit code."""
    from ..comm.collective import on_root

    if comm.rank > 0:  # most commands need it, and root has to parse first
        require_same_build()  # raised here, this ends all ranks
        from ..engine import run  # noqa: F401
    try:
        work, plan = comm.bcast(on_root(comm, lambda: _prepare(arguments, comm.size)))
        gc.enable()
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
    from ..launchers.options import LaunchOptions
    from .commands import load
    from .parser import parse

    require_same_build()
    try:
        name, options = parse(arguments)
    except SystemExit as done:  # --help or --version, printed by now
        return None, int(done.code or 0)
    for_launcher = LaunchOptions.of(options).flag
    if for_launcher and detect.OUTCOME not in os.environ:
        raise UserError(f"{for_launcher} goes with -n; your own launcher has its own options")
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
    print(f"mpi-gt: {stopped}{resume_hint(directory)}", file=sys.stderr, flush=True)
    return stopped.exit_code


def _abort(comm: "MPI.Intracomm", error: BaseException, directory: Path | None) -> NoReturn:
    """Report an exception of this rank, unless another one does so, and end all ranks."""
    from ..comm.collective import RootFailed

    # other ranks may have the same error: the first one reports it and ends us
    time.sleep(min(0.25 * comm.rank, 2 + 0.05 * comm.rank, 10))
    marked = directory is not None and read_facts(directory).get("status") == "failed"
    if marked or isinstance(error, RootFailed):
        time.sleep(10)
    else:
        node = getattr(comm, "node", None)
        _report(comm.rank if node is None else node, error, directory)
    comm.Abort(1)
    os._exit(1)  # where Abort returns before the launcher has ended us


def _report(rank: int, error: BaseException, directory: Path | None) -> None:
    """Write the exception of this rank to run.json, and show it or have the front end show it."""
    from ..launchers.relay import send_report
    from ..user_classes.failures import describe_failure

    full = storage_failure(error)
    expected = isinstance(full or error, UserError | StorageError)
    text, trace = (str(full or error), "") if expected else describe_failure(error)
    if directory is not None:
        mark_failed(directory, f"rank {rank}: {text}", 1)
    if detect.OUTCOME in os.environ:
        if trace:
            print(trace, file=sys.stderr, flush=True)
        send_report(text if expected else f"rank {rank}: {text}")
        return
    of_user = hasattr(error, "user_call") or not trace
    lines = ([f" {text}"] if of_user else [""]) + ([trace] if trace else [])
    print(f"mpi-gt: error on rank {rank}:" + "\n".join(lines), file=sys.stderr, flush=True)
