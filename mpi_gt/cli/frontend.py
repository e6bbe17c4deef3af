"""Outside mpirun: start it and stay as its parent, or do without."""

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..engine.stop import StopRequest
from ..errors import Diverged, Stopped, StorageError, UserError
from ..launch import mpirun
from ..rundir.run_json import mark_failed
from ..spec import integer
from .alone import ALONE
from .configure import convert_flags, make_config, make_studies, parse
from .running import release_reserved_directory, run_and_show, tell_of_stop

if TYPE_CHECKING:
    from ..config import RunConfig


def main_frontend(arguments: list[str]) -> int:
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
        release_reserved_directory(config)
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
        release_reserved_directory(config)


def _examine_alone(n: str | None = None, hostfile: str | None = None) -> int:
    """The command `doctor` outside mpirun: on this machine, or on n ranks of their own."""
    from ..launch.doctor import examine_machine

    if n is not None:
        return mpirun.launch(["doctor"], integer("-n", n), None, hostfile=hostfile)
    if hostfile is not None:
        raise UserError("--hostfile is for ranks: add -n N")
    return examine_machine()


def _launch(
    words: list[str],
    config: "RunConfig",
    on_tick: Callable[[], None] | None = None,
    hostfile: str | None = None,
) -> int:
    """On ranks of its own; run.json is there before they are."""
    from ..engine.resume import claim_directory

    assert config.out is not None
    assert config.n is not None
    config, take_back = claim_directory(config, None)
    code = UserError.exit_code
    try:
        code = mpirun.launch(words, config.n or 0, Path(config.out or ""), on_tick, hostfile)
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
    from ..config import RunConfig, to_arguments
    from ..reproduce.study import run_study

    def execute(config: RunConfig, on_tick: Callable[[], None]) -> int:
        if config.stacked:
            try:
                return _run_stacked(config)
            except Diverged as error:
                return error.exit_code
        return _launch(to_arguments(config), config, on_tick)

    codes = [0]
    for study in make_studies(given):
        codes.append(run_study(study, execute, given.get("quiet", False)))
        if codes[-1] not in (0, Diverged.exit_code):
            break
    return codes[-1] or max(codes)


def _run_stacked(config: "RunConfig") -> int:
    """In this process: whatever ends it, run.json tells."""
    assert config.out is not None
    heeded = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
    previous = {number: signal.getsignal(number) for number in heeded}
    stop = StopRequest()
    stop.listen(*(number for number in heeded if previous[number] != signal.SIG_IGN))
    try:
        run_and_show(config, None, stop)
    except KeyboardInterrupt:
        code = 128 + signal.SIGINT
        mark_failed(Path(config.out), "interrupted by SIGINT", code)
        print("mpi-gt: interrupted by SIGINT", file=sys.stderr)
        return code
    except Stopped as stopped:
        return tell_of_stop(stopped, config.out)
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
