"""The command line: parsing, messages and exit codes. The only user of COMM_WORLD."""

import contextlib
import io
import os
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from . import launch, world
from .commands import (
    describe_graph,
    manage_data,
    show_status,
    watch_run,
    write_hostfile,
    write_report,
)
from .errors import Diverged, Stopped, UserError
from .machine import THREADS, library
from .options import HIDDEN, build_parser
from .spec import convert, integer, nearest
from .status import StorageError, mark_failed
from .stopping import StopRequest

if TYPE_CHECKING:
    from mpi4py import MPI

    from .config import RunConfig
    from .reproduce import Study


def parse(arguments: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """The command and its options, still as text."""
    parser, commands = build_parser()
    arguments, words = list(arguments), None
    if arguments[:1] == ["submit"] and "--" in arguments:  # behind it, another command
        where = arguments.index("--")
        arguments, words = arguments[:where], arguments[where + 1 :]
    namespace, unknown = parser.parse_known_args(arguments)
    given = vars(namespace)
    command = given.pop("command")
    if unknown:
        known = [
            option for option in commands[command]._option_string_actions if option not in HIDDEN
        ]
        word = unknown[0].partition("=")[0]
        raise UserError(f"{command} does not take '{unknown[0]}'{nearest(word, known)}")
    return command, given if command != "submit" else {"words": words or [], **given}


def make_config(command: str, given: dict[str, Any], ranks: int | None = None) -> "RunConfig | int":
    """The configuration of a run or comparison: defaults, then the file, then the flags.

    Or the exit code, where the run that is to go on is finished. `ranks` are those of MPI, if any.
    """
    from .algorithms import ALGORITHMS
    from .config import RunConfig, read_toml
    from .folder import reserve_directory
    from .resume import proceed

    if command == "resume":
        return _go_on(given, ranks)
    file = given.pop("file", None)
    options: dict[str, Any] = {} if file is None else read_toml(Path(file))
    options.update(convert_flags(given))
    if command == "profile":
        options["profile"] = True
    if command in ("compare", "sweep"):
        options.setdefault("algorithms", ",".join(ALGORITHMS))
    if command == "sweep":
        options.setdefault("lr", "1e-4..1")
    elif options.get("lr") is not None or options.get("points") is not None:
        raise UserError(f"{command} takes no lr or points; for these there is mpi-gt sweep")
    single = command in ("run", "profile")
    if single and options.get("algorithms") is not None:
        raise UserError(f"{command} takes one algorithm; for several there is mpi-gt compare")
    if not single and "algorithm" in options:
        raise UserError(f"{command} takes algorithms, not algorithm")
    config = RunConfig.of(options)
    if config.resume and (config.out is None or config.overwrite):
        raise UserError("--resume needs --out, and takes no --overwrite")
    if config.out is None:
        return replace(config, out=str(reserve_directory(config)), reserved=True)
    if not config.out:
        raise UserError("--out needs the name of a directory")
    return _unless_finished(config.out, proceed(config)) if config.resume else config


def _go_on(given: dict[str, Any], ranks: int | None) -> "RunConfig | int":
    from .resume import config_of

    flags = dict(given)
    directory = flags.pop("directory")
    return _unless_finished(directory, config_of(Path(directory), convert_flags(flags), ranks))


def _unless_finished(directory: str, config: "RunConfig | None") -> "RunConfig | int":
    if config is not None:
        return config
    print(f"{directory} is finished; `--iterations` with more of them extends it")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    # one rank, one core: a BLAS that starts threads in each of them only gets in the way
    for name in THREADS:  # read when numpy is imported, which nothing up to here has done
        os.environ.setdefault(name, "1")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a file's name may be no text at all
    if launch.is_launched():
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback from each rank on Ctrl-C
        stop = StopRequest()
        stop.listen(signal.SIGUSR1, signal.SIGTERM)
        return _main_of_rank(arguments, stop)
    try:
        return _main_alone(arguments)
    except (UserError, Diverged) as error:
        print(f"mpi-gt: error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("mpi-gt: interrupted by SIGINT", file=sys.stderr)
        return 128 + signal.SIGINT


def _main_alone(arguments: list[str]) -> int:
    """Outside mpirun: start it, or do without."""
    import mpi4py

    mpi4py.rc.initialize = False  # a user's module may import MPI: not in the parent of mpirun
    command, given = parse(arguments)
    if command in ALONE:
        return ALONE[command](**given)
    if command == "reproduce":
        return _reproduce(given)
    if command == "bench":
        from . import laboratory

        return laboratory.bench(given, arguments)
    if command == "scale":
        from . import laboratory

        return laboratory.scale(given, convert_flags, _launch)
    if command == "doctor":
        return _examine_alone(**given)
    hostfile = given.pop("hostfile", None)
    config = make_config(command, given)
    if isinstance(config, int):
        return config
    if not config.stacked and config.n is None:
        _give_back(config)
        raise UserError(
            f"how many nodes? Type `mpi-gt {command} -n 16 ...`, "
            f"or `mpirun -n 16 mpi-gt {command} ...`"
        )
    assert config.out is not None
    try:
        if config.stacked and hostfile is not None:
            raise UserError("--stacked is one process: it takes no --hostfile")
        if config.stacked:
            return _run_stacked(config)
        # the ranks are told the directory that was chosen here; of two flags the later one wins
        told = [] if command == "resume" else [f"--out={config.out}"]
        told += [] if config.resume else ["--reserved"]
        return _launch([command, *told, *arguments[1:]], config, hostfile=hostfile)
    finally:
        _give_back(config)


def _examine_alone(n: str | None = None, hostfile: str | None = None) -> int:
    """The command `doctor` outside mpirun: on this machine, or on n ranks of their own."""
    from .doctor import examine_machine

    if n is not None:
        return launch.launch(["doctor"], integer("-n", n), None, hostfile=hostfile)
    if hostfile is not None:
        raise UserError("--hostfile is for ranks: add -n N")
    return examine_machine()


SUBMITTED = ("run", "profile", "compare", "sweep", "reproduce", "resume")


def _submit(words: list[str], **options: Any) -> int:
    """The command `submit`: what is wrong with the command inside is told before it is queued."""
    from .submit import size, submit

    if not words:
        raise UserError("submit what? Add the command behind two dashes: -- run --seeds 5")
    command, given = parse(words)
    if command not in SUBMITTED or given.pop("hostfile", None) is not None:
        what = "--hostfile" if command in SUBMITTED else command
        raise UserError(f"submit is for {', '.join(SUBMITTED)}, not for {what}")
    n = size(options["nodes"], options["ntasks_per_node"])
    if convert("-n", int, given.get("n", str(n))) != n:
        raise UserError(f"-n {given['n']} does not fit: nodes times tasks are {n} ranks")
    return submit(words, _check_submitted(command, {"n": str(n), **given}), **options)


def _check_submitted(command: str, given: dict[str, Any]) -> bool:
    """Find what is wrong with a command; whether it leaves open where to write."""
    from .config import read_toml

    chosen = "chosen in the job"
    if command == "reproduce":
        make_studies({**given, "out": chosen})
        return False
    if command == "resume":
        make_config(command, given)
        return False
    file = given.get("file")
    named = "out" in given or (file is not None and "out" in read_toml(Path(file)))
    make_config(command, {"out": chosen, **given})
    return not named


def _launch(
    words: list[str],
    config: "RunConfig",
    look: Callable[[], None] | None = None,
    hostfile: str | None = None,
) -> int:
    """On ranks of its own; run.json is there before they are."""
    from .resume import announce

    assert config.out is not None
    assert config.n is not None
    config, take_back = announce(config, None)
    code = UserError.exit_code
    try:
        code = launch.launch(words, config.n or 0, Path(config.out or ""), look, hostfile)
    except KeyboardInterrupt:  # before mpirun was there, or after
        code = 128 + signal.SIGINT
        mark_failed(Path(config.out or ""), "interrupted by SIGINT", code)
        raise
    finally:
        if code == UserError.exit_code:
            take_back()
    return code


def _reproduce(given: dict[str, Any]) -> int:
    """All runs of one experiment, or of all four, each a launch of its own."""
    from .config import RunConfig
    from .reproduce import arguments_of, carry_out

    def execute(config: RunConfig, look: Callable[[], None]) -> int:
        if config.stacked:
            try:
                return _run_stacked(config)
            except Diverged as error:
                return error.exit_code
        return _launch(arguments_of(config), config, look)

    codes = [0]
    for study in make_studies(given):
        codes.append(carry_out(study, execute, given.get("quiet", False)))
        if codes[-1] not in (0, Diverged.exit_code):
            break
    return codes[-1] or max(codes)


def make_studies(given: dict[str, Any]) -> "list[Study]":
    """The experiments that `reproduce` was asked for, all of them checked before any begins."""
    from .reproduce import EXPERIMENTS, forget, has_variant, make_study

    flags = dict(given)
    name, variant = flags.pop("experiment"), flags.pop("variant", "literal")
    quick, overwrite = flags.pop("quick", False), flags.pop("overwrite", False)
    out = flags.pop("out", None)
    flags.pop("quiet", None)
    overrides = convert_flags(flags)
    names = (
        [each for each in EXPERIMENTS if has_variant(each, variant)] if name == "all" else [name]
    )
    if not names:
        raise UserError(f"no experiment has a variant '{variant}'")
    studies = [
        make_study(
            each, variant, quick, overrides, str(Path(out, each)) if out and name == "all" else out
        )
        for each in names
    ]
    for study in studies:
        if not overwrite:
            study.pending()  # finds what is in the way
    for study in studies:
        if overwrite:
            forget(study)
    return studies


def convert_flags(given: dict[str, Any]) -> dict[str, Any]:
    """The options of a run from its flags, converted to their types."""
    from .config import RunConfig

    kinds = {field.name: field.type for field in fields(RunConfig)}
    options = {}
    for name, value in given.items():
        flag = "-n" if name == "n" else "--" + name.replace("_", "-")
        options[name] = value if value is True else convert(flag, kinds[name], value)
    return options


def _describe_theory(
    file: str | None = None, suggest: bool = False, json: bool = False, **flags: Any
) -> int:
    """The command `theory`."""
    from .advise import advise
    from .config import read_toml

    options: dict[str, Any] = {} if file is None else read_toml(Path(file))
    return advise({**options, **convert_flags(flags)}, suggest, json)


def _run_stacked(config: "RunConfig") -> int:
    """In this process: whatever ends it, run.json tells."""
    assert config.out is not None
    heeded = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
    previous = {number: signal.getsignal(number) for number in heeded}
    stop = StopRequest()
    stop.listen(*(number for number in heeded if previous[number] != signal.SIG_IGN))
    try:
        _run_and_show(config, None, stop)
    except KeyboardInterrupt:
        code = 128 + signal.SIGINT
        mark_failed(Path(config.out), "interrupted by SIGINT", code)
        print("mpi-gt: interrupted by SIGINT", file=sys.stderr)
        return code
    except Stopped as stopped:
        return _tell_of_stop(stopped, config.out)
    except StorageError as error:
        mark_failed(Path(config.out), str(error), 1)
        print(f"mpi-gt: error: {error}", file=sys.stderr)
        return 1
    except (UserError, Diverged):
        raise
    except Exception as error:
        mark_failed(Path(config.out), repr(error), 1)
        raise
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    return 0


def _tell_of_stop(stopped: Stopped, out: str | None) -> int:
    print(f"mpi-gt: {stopped}; {launch.how_to_go_on(Path(str(out)))}", file=sys.stderr, flush=True)
    return stopped.exit_code


def _give_back(config: "RunConfig") -> None:
    from .folder import give_back

    if config.reserved and config.out:
        give_back(Path(config.out))


def _main_of_rank(arguments: list[str], stop: StopRequest) -> int:
    """One rank of several. Root reports; all leave with the same code."""
    import mpi4py

    mpi4py.rc.initialize = False  # not under another MPI's launcher, where some abort
    mpi4py.rc.finalize = True
    warnings.filterwarnings("ignore", "suspicious MPI")  # mpi4py's, from each rank; ours is below
    # the messages of many seeds are then still sent at once (Open MPI, one host)
    os.environ.setdefault("OMPI_MCA_btl_sm_eager_limit", launch.EAGER_LIMIT)
    from mpi4py import MPI

    promise = world.promised()
    wrong = promise and promise.foreign(library())
    if not wrong:
        MPI.Init_thread(MPI.THREAD_FUNNELED)  # only one thread calls MPI: spares it locks
        if promise and promise.launcher == world.SRUN_PMIX:
            # Open MPI (its issue 12495): a rank that is still in there crashes at a first message
            time.sleep(0.5)
        wrong = promise and promise.broken(MPI.COMM_WORLD.size, library())
    if promise and wrong:
        return _refuse_world(promise, wrong, arguments)
    comm = MPI.COMM_WORLD
    directory: list[Path] = []
    try:
        code = _run_of_rank(comm, arguments, directory, stop)
    except BaseException as error:
        _abort(comm, error, directory)
    return int(comm.bcast(launch.leave_outcome(code) if comm.rank == 0 else None))


def _refuse_world(promise: world.Promise, wrong: str, arguments: list[str]) -> int:
    """Each process takes itself for root and cannot ask the others: the launcher's rank 0 tells."""
    if promise.rank > 0:
        time.sleep(3)  # the first exit code has some launchers end the others
        return 0 if launch.OUTCOME in os.environ else UserError.exit_code
    if arguments[:1] == ["doctor"]:
        from .doctor import examine_machine

        examine_machine(wrong)
    else:
        print(f"mpi-gt: error: {wrong}", file=sys.stderr, flush=True)
    return launch.leave_outcome(UserError.exit_code)


def _run_of_rank(
    comm: "MPI.Intracomm", arguments: list[str], directory: list[Path], stop: StopRequest
) -> int:
    from . import bench
    from .agree import on_root
    from .bench import BenchPlan
    from .display_lab import show_bench

    def prepare() -> "RunConfig | BenchPlan | list[Study] | int | None":
        """What to run (None: doctor), or the exit code of what root has done alone."""
        try:
            command, given = parse(arguments)
        except SystemExit as done:  # --help or --version, printed by now
            return int(done.code or 0)
        if command == "reproduce":
            quiet.append(given.get("quiet", False))
            return make_studies({"n": str(comm.size), **given})
        if command == "scale":
            raise UserError("scale starts its own ranks: type it without mpirun")
        if command == "bench":
            from .laboratory import make_bench

            return make_bench(given)
        if given.pop("hostfile", None) is not None and launch.OUTCOME not in os.environ:
            raise UserError(
                "--hostfile goes with -n, not with an mpirun of yours, which has its own"
            )
        if command == "doctor":
            return None
        if command in ALONE:
            return ALONE[command](**given)
        return make_config(command, given, comm.size)

    quiet: list[bool] = []
    config: RunConfig | None = None
    try:
        what = comm.bcast(on_root(comm, prepare))
        if isinstance(what, int):
            return what
        if what is None:
            from .doctor import examine_ranks

            return examine_ranks(comm)
        if isinstance(what, list):
            return _reproduce_on_ranks(comm, what, directory, any(comm.bcast(quiet)), stop)
        if isinstance(what, BenchPlan):
            found = bench.run(what, comm)
            if found and not what.quiet:
                show_bench(found)
            return 0
        config = what
        assert config.out is not None
        if config.stacked and comm.size > 1:
            raise UserError("--stacked is one process: run it without mpirun")
        directory.append(Path(config.out))
        _run_and_show(config, comm, stop)
    except Stopped as stopped:
        if comm.rank == 0:
            _tell_of_stop(stopped, str(directory[-1]))
        return stopped.exit_code
    except (UserError, Diverged) as error:
        if comm.rank == 0:
            print(f"mpi-gt: error: {error}", file=sys.stderr, flush=True)
            if config is not None:
                _give_back(config)
        return error.exit_code
    return 0


def _reproduce_on_ranks(
    comm: "MPI.Intracomm",
    studies: "list[Study]",
    directory: list[Path],
    quiet: bool,
    stop: StopRequest,
) -> int:
    """Under an mpirun of the user's: the same runs, one after the other, on these ranks."""
    from .agree import on_root
    from .experiment import run
    from .reproduce import Overall, alone_in, report

    codes = [0]
    for study in studies:
        with contextlib.ExitStack() as held:
            on_root(comm, lambda study=study: held.enter_context(alone_in(study.directory)))  # type: ignore[misc]
            pending = comm.bcast(on_root(comm, study.pending))
            progress = Overall(study, pending, quiet) if comm.rank == 0 else None
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
    from .agree import RootFailed

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


def _run_and_show(config: "RunConfig", comm: "MPI.Intracomm | None", stop: StopRequest) -> None:
    from .display import show
    from .experiment import run

    try:
        result = run(config, comm, stop)
    except Diverged as error:
        if config.algorithms is not None and error.facts and not config.quiet:
            show(error.facts)  # the others have run to their end
        raise
    if result.facts and not config.quiet:
        show(result.facts)
        if result.profile:
            from .display_lab import show_profile

            show_profile(result.profile)


def _predict(**given: Any) -> int:
    from .laboratory import predict

    return predict(**given)


ALONE: dict[str, Callable[..., int]] = {
    "graph": describe_graph,
    "data": manage_data,
    "predict": _predict,
    "hostfile": write_hostfile,
    "submit": _submit,
    "status": show_status,
    "theory": _describe_theory,
    "report": write_report,
    "watch": watch_run,
}
"""The commands that need no ranks."""
