"""Front end, the process that was typed: it starts ranks and waits, or works without them."""

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ..engine.stop import StopRequest
from ..errors import Diverged, Stopped, StorageError, UserError
from ..launchers import mpirun
from ..launchers.options import NO_OPTIONS, LaunchOptions
from ..rundir.atomic import storage_failure
from ..rundir.run_json import mark_failed, resume_hint
from ..user_classes.failures import describe_failure
from .commands import load
from .configure import release_reserved_directory
from .parser import parse
from .rank import report_stop, run_and_show
from .streams import lost_output

if TYPE_CHECKING:
    from ..config import RunConfig


def main_frontend(arguments: list[str]) -> int:
    """Run a command outside mpirun and return its exit code."""
    import mpi4py

    mpi4py.rc.initialize = False  # a user's module may import MPI: no MPI_Init above mpirun
    try:
        name, options = parse(arguments)
    except SystemExit as done:  # --help or --version, printed by now
        raise SystemExit(done.code or _note_lost_output("error")) from None
    command = load(name)
    if command.alone is not None:
        return command.alone(**options) or _note_lost_output("error")
    assert command.launch is not None
    code = command.launch(options, arguments[1:])
    _note_lost_output("warning")  # the run's own code counts: its files are complete
    return code


def _note_lost_output(kind: str) -> int:
    """Say why standard output was lost; return the exit code of a command that is all output."""
    error = lost_output()
    if error is None:
        return 0
    if not isinstance(error, BrokenPipeError):  # that one is meant, as in `mpi-gt manual | head`
        print(f"mpi-gt: {kind}: standard output: {error.strerror}", file=sys.stderr)
    return 128 + signal.SIGPIPE


def start_run(words: list[str], config: "RunConfig", options: LaunchOptions = NO_OPTIONS) -> int:
    """Run `mpi-gt WORDS`, whose configuration is known, on ranks or stacked in this process."""
    try:
        if not config.stacked and config.n is None:
            raise UserError(
                f"how many nodes? Type `mpi-gt {words[0]} -n 16 ...`, "
                f"or `mpirun -n 16 mpi-gt {words[0]} ...`"
            )
        if config.stacked and options.flag:
            raise UserError(f"--stacked is one process: it takes no {options.flag}")
        return run_stacked(config) if config.stacked else launch_run(words, config, None, options)
    finally:
        release_reserved_directory(config)


def launch_run(
    words: list[str],
    config: "RunConfig",
    on_tick: Callable[[], None] | None = None,
    options: LaunchOptions = NO_OPTIONS,
) -> int:
    """Run `mpi-gt WORDS` on ranks of its own; run.json says `running` before they are up."""
    from ..engine.resume import claim_directory
    from ..rundir.lock import TOKEN

    assert config.out is not None
    assert config.n is not None
    out = Path(config.out)
    claimed = claim_directory(config, None)
    code = UserError.exit_code
    try:
        code = mpirun.launch(words, config.n, out, on_tick, options, {TOKEN: claimed.token})
    except KeyboardInterrupt:  # before mpirun was there, or after
        code = 128 + signal.SIGINT
        mark_failed(out, "interrupted by SIGINT", code)
        raise
    finally:
        if code == UserError.exit_code:
            claimed.undo()
        claimed.release()
    return code


def run_stacked(config: "RunConfig") -> int:
    """Run all nodes in this process; however that ends, run.json says so."""
    assert config.out is not None
    caught = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
    previous = {number: signal.getsignal(number) for number in caught}
    stop = StopRequest()
    stop.listen(*(number for number in caught if previous[number] != signal.SIG_IGN))
    try:
        run_and_show(config, None, stop)
    except KeyboardInterrupt:
        code = 128 + signal.SIGINT
        mark_failed(Path(config.out), "interrupted by SIGINT", code)
        print("mpi-gt: interrupted by SIGINT", file=sys.stderr)
        return code
    except Stopped as stopped:
        return report_stop(stopped, Path(config.out))
    except (UserError, Diverged):
        raise
    except BaseException as error:  # also sys.exit, in a user's code
        if (full := storage_failure(error)) is not None:
            return _report_full_disk(full, Path(config.out))
        text, trace = describe_failure(error)
        mark_failed(Path(config.out), text, 1)
        if trace and not hasattr(error, "user_call"):
            raise
        print(f"mpi-gt: error: {text}" + (f"\n{trace}" if trace else ""), file=sys.stderr)
        return 1
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    return 0


def _report_full_disk(full: StorageError, out: Path) -> int:
    """Print which file could not be written and what is kept; return the exit code."""
    from ..rundir.status import kept_results

    mark_failed(out, str(full), 1)
    hint = f"{kept_results(out)}{resume_hint(out)}"
    print(f"mpi-gt: error: the run did not finish: {full}{hint}", file=sys.stderr)
    return 1
