"""Front end, the process that was typed: it starts ranks and waits, or works without them."""

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ..engine.stop import StopRequest
from ..errors import Diverged, Stopped, StorageError, UserError
from ..launch import mpirun
from ..rundir.run_json import mark_failed
from .commands import load
from .configure import release_reserved_directory
from .parser import parse
from .rank import report_stop, run_and_show

if TYPE_CHECKING:
    from ..config import RunConfig


def main_frontend(arguments: list[str]) -> int:
    """Run a command outside mpirun and return its exit code."""
    import mpi4py

    mpi4py.rc.initialize = False  # a user's module may import MPI: no MPI_Init above mpirun
    name, options = parse(arguments)
    command = load(name)
    if command.alone is not None:
        return command.alone(**options)
    assert command.launch is not None
    return command.launch(options, arguments[1:])


def start_run(words: list[str], config: "RunConfig", hostfile: str | None = None) -> int:
    """Run `mpi-gt WORDS`, whose configuration is known, on ranks or stacked in this process."""
    try:
        if not config.stacked and config.n is None:
            raise UserError(
                f"how many nodes? Type `mpi-gt {words[0]} -n 16 ...`, "
                f"or `mpirun -n 16 mpi-gt {words[0]} ...`"
            )
        if config.stacked and hostfile is not None:
            raise UserError("--stacked is one process: it takes no --hostfile")
        return run_stacked(config) if config.stacked else launch_run(words, config, None, hostfile)
    finally:
        release_reserved_directory(config)


def launch_run(
    words: list[str],
    config: "RunConfig",
    on_tick: Callable[[], None] | None = None,
    hostfile: str | None = None,
) -> int:
    """Run `mpi-gt WORDS` on ranks of its own; run.json says `running` before they are up."""
    from ..engine.resume import claim_directory

    assert config.out is not None
    assert config.n is not None
    out = Path(config.out)
    config, take_back = claim_directory(config, None)
    code = UserError.exit_code
    try:
        code = mpirun.launch(words, config.n or 0, out, on_tick, hostfile)
    except KeyboardInterrupt:  # before mpirun was there, or after
        code = 128 + signal.SIGINT
        mark_failed(out, "interrupted by SIGINT", code)
        raise
    finally:
        if code == UserError.exit_code:
            take_back()
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
