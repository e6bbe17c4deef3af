"""Entry point of `mpi-gt`: hand over to the front end or, under mpirun, to this rank."""

import gc
import os
import signal
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

from ..engine.stop import StopRequest
from ..errors import Diverged, StorageError, UserError
from ..launchers import detect
from ..launchers.parent import follow_parent
from ..machine import THREADS
from ..rundir.atomic import storage_failure
from .streams import Streams


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    # BLAS threads would only compete with the other ranks for the cores
    for name in THREADS:  # numpy reads them when it is imported, which is not yet the case
        os.environ.setdefault(name, "1")
    on_rank = detect.is_launched(arguments)
    _never_raise_warnings()
    with Streams(on_rank):
        return _main_on_rank(arguments) if on_rank else _main_in_front(arguments)


def _main_on_rank(arguments: list[str]) -> int:
    gc.disable()  # while modules are imported: on many ranks each pass over them counts
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback from each rank on Ctrl-C
    stop = StopRequest()
    stop.listen(signal.SIGUSR1, signal.SIGTERM)
    from .rank import main_on_rank

    return main_on_rank(arguments, stop)


def _main_in_front(arguments: list[str]) -> int:
    follow_parent()
    try:
        _require_current_folder()
        from ..user_classes.failures import reported_failures
        from .frontend import main_frontend

        with reported_failures("this command"):
            return main_frontend(arguments)
    except (UserError, Diverged) as error:
        print(f"mpi-gt: error: {error}", file=sys.stderr)
        return error.exit_code
    except (StorageError, OSError) as error:
        if (full := storage_failure(error)) is None:
            raise
        print(f"mpi-gt: error: {full}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("mpi-gt: interrupted by SIGINT", file=sys.stderr)
        return 128 + signal.SIGINT


def _require_current_folder() -> None:
    """Raise UserError in a folder that was removed: neither we nor MPI can work there."""
    try:
        Path.cwd()
    except FileNotFoundError:
        raise UserError("the current folder was removed: cd to one that exists") from None


def _never_raise_warnings() -> None:
    """Drop the filters of PYTHONWARNINGS=error: a warning of a library must not end a run."""
    if any(option.startswith("error") for option in sys.warnoptions):
        kept = [each for each in warnings.filters if each[0] != "error"]
        warnings.resetwarnings()
        warnings.filters.extend(kept)  # type: ignore[attr-defined]
