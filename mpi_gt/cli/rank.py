"""One rank of several: the only user of COMM_WORLD. Root reports; all leave with the same code."""

import contextlib
import gc
import os
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from ..engine.stop import StopRequest
from ..errors import Diverged, Stopped, StorageError, UserError
from ..launch import detect
from ..machine import mpi_library
from ..rundir.run_json import mark_failed
from .alone import ALONE
from .configure import make_config, make_studies, parse
from .running import release_reserved_directory, run_and_show, tell_of_stop

if TYPE_CHECKING:
    from mpi4py import MPI

    from ..config import RunConfig
    from ..performance.bench import BenchPlan
    from ..reproduce.study import Study


def main_on_rank(arguments: list[str], stop: StopRequest) -> int:
    """One rank of several. Root reports; all leave with the same code."""
    import mpi4py

    mpi4py.rc.initialize = False  # not under another MPI's launcher, where some abort
    mpi4py.rc.finalize = True
    warnings.filterwarnings("ignore", "suspicious MPI")  # mpi4py's, from each rank; ours is below
    # the messages of many seeds are then still sent at once (Open MPI, one host)
    os.environ.setdefault("OMPI_MCA_btl_sm_eager_limit", detect.EAGER_LIMIT)
    from mpi4py import MPI

    promise = detect.detect_launch()
    wrong = promise and promise.library_mismatch(mpi_library())
    if not wrong:
        if not MPI.Is_initialized():  # a script of the user's may have done so
            MPI.Init_thread(MPI.THREAD_FUNNELED)  # only one thread calls MPI: spares it locks
        if promise and promise.launcher == detect.SRUN_PMIX:
            # Open MPI (its issue 12495): a rank that is still in there crashes at a first message
            time.sleep(0.5)
        wrong = promise and promise.size_mismatch(MPI.COMM_WORLD.size, mpi_library())
    if promise and wrong:
        return _refuse_world(promise, wrong, arguments)
    comm = MPI.COMM_WORLD
    directory: list[Path] = []
    try:
        code = _run_of_rank(comm, arguments, directory, stop)
    except BaseException as error:
        _abort(comm, error, directory)
    return int(comm.bcast(detect.write_exit_code(code) if comm.rank == 0 else None))


def _refuse_world(promise: detect.Launch, wrong: str, arguments: list[str]) -> int:
    """Each process takes itself for root and cannot ask the others: the launcher's rank 0 tells."""
    if promise.rank > 0:
        time.sleep(3)  # the first exit code has some launchers end the others
        return 0 if detect.OUTCOME in os.environ else UserError.exit_code
    if arguments[:1] == ["doctor"]:
        from ..launch.doctor import examine_machine

        examine_machine(wrong)
    else:
        print(f"mpi-gt: error: {wrong}", file=sys.stderr, flush=True)
    return detect.write_exit_code(UserError.exit_code)


def _run_of_rank(
    comm: "MPI.Intracomm", arguments: list[str], directory: list[Path], stop: StopRequest
) -> int:
    from ..comm.collective import on_root

    def prepare() -> "tuple[str, Any]":
        """What to do: which kind of thing, and how; or the exit code of what root did alone."""
        try:
            command, given = parse(arguments)
        except SystemExit as done:  # --help or --version, printed by now
            return "done", int(done.code or 0)
        if command == "reproduce":
            studies = make_studies({"n": str(comm.size), **given})
            return "reproduce", (studies, given.get("quiet", False))
        if command == "scale":
            raise UserError("scale starts its own ranks: type it without mpirun")
        if command == "bench":
            from .laboratory import make_bench

            return "bench", make_bench(given)
        if given.pop("hostfile", None) is not None and detect.OUTCOME not in os.environ:
            raise UserError(
                "--hostfile goes with -n, not with an mpirun of yours, which has its own"
            )
        if command == "doctor":
            return "doctor", None
        if command in ALONE:
            return "done", ALONE[command](**given)
        config = make_config(command, given, comm.size)
        return "done" if isinstance(config, int) else "run", config

    config: RunConfig | None = None
    try:
        kind, what = comm.bcast(on_root(comm, prepare))
        if kind == "done":
            return int(what)
        if kind == "doctor":
            from ..launch.doctor import examine_ranks

            return examine_ranks(comm)
        if kind == "reproduce":
            studies, quiet = what
            return _reproduce_on_ranks(comm, studies, quiet, directory, stop)
        if kind == "bench":
            return _bench_on_ranks(comm, what)
        config = what
        assert config is not None
        assert config.out is not None
        if config.stacked and comm.size > 1:
            raise UserError("--stacked is one process: run it without mpirun")
        directory.append(Path(config.out))
        _spare_imports_the_collector()
        run_and_show(config, comm, stop)
    except Stopped as stopped:
        if comm.rank == 0:
            tell_of_stop(stopped, str(directory[-1]))
        return stopped.exit_code
    except (UserError, Diverged) as error:
        if comm.rank == 0:
            print(f"mpi-gt: error: {error}", file=sys.stderr, flush=True)
            if config is not None:
                release_reserved_directory(config)
        return error.exit_code
    return 0


def _spare_imports_the_collector() -> None:
    """They stay until the process ends; to go through them takes 20 ms amid the iterations."""
    from ..engine import run  # noqa: F401 (and all that it imports)

    gc.freeze()


def _bench_on_ranks(comm: "MPI.Intracomm", plan: "BenchPlan") -> int:
    from ..display.performance import show_bench
    from ..performance.bench import run
    from ..rundir.layout import release_reserved

    try:
        found = run(plan, comm)
    except UserError:
        if comm.rank == 0 and plan.reserved and plan.out:
            release_reserved(Path(plan.out))
        raise
    if found and not plan.quiet:
        show_bench(found)
    return 0


def _reproduce_on_ranks(
    comm: "MPI.Intracomm",
    studies: "list[Study]",
    quiet: bool,
    directory: list[Path],
    stop: StopRequest,
) -> int:
    """Under an mpirun of the user's: the same runs, one after the other, on these ranks."""
    from ..comm.collective import on_root
    from ..engine.run import run
    from ..reproduce.study import StudyProgress, lock_directory, report

    codes = [0]
    for study in studies:
        with contextlib.ExitStack() as held:
            on_root(comm, lambda study=study: held.enter_context(lock_directory(study.directory)))  # type: ignore[misc]
            pending = comm.bcast(on_root(comm, study.pending))
            progress = StudyProgress(study, pending, quiet) if comm.rank == 0 else None
            for label in pending:
                config = study.runs[label]
                if config.stacked and comm.size > 1:
                    raise UserError("--stacked is one process: run it without mpirun")
                directory[:] = [Path(str(config.out))]
                if progress:
                    progress.begin(label)
                with contextlib.suppress(Diverged):  # the report tells of it
                    run(config, comm, stop)
                if progress:
                    progress.end()
            code = on_root(comm, lambda study=study: report(study, quiet))  # type: ignore[misc]
            codes.append(comm.bcast(code))
    return max(codes)


def _abort(comm: "MPI.Intracomm", error: BaseException, directory: list[Path]) -> NoReturn:
    """An exception on one rank is the end of all."""
    from ..comm.collective import RootFailed

    if isinstance(error, RootFailed):
        time.sleep(10)  # root is telling of it, and ends us
    elif isinstance(error, StorageError):
        time.sleep(
            0.25 * min(comm.rank, 8)
        )  # it is the same on other ranks: one tells, and ends us
        print(f"mpi-gt: error on rank {comm.rank}: {error}", file=sys.stderr, flush=True)
    else:
        text = "".join(traceback.format_exception(error))
        print(f"mpi-gt: error on rank {comm.rank}:\n{text}", file=sys.stderr, flush=True)
    for path in directory:
        told = str(error) if isinstance(error, StorageError) else repr(error)
        mark_failed(path, f"rank {comm.rank}: {told}", 1)
    comm.Abort(1)
    os._exit(1)  # where Abort returns before the launcher has ended us
