"""The command line's front door: which of the two sides of mpirun this is, and the exit code."""

import io
import os
import signal
import sys
from collections.abc import Sequence

from ..engine.stop import StopRequest
from ..errors import Diverged, UserError
from ..launch import detect
from ..machine import THREADS


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    # one rank, one core: a BLAS that starts threads in each of them only gets in the way
    for name in THREADS:  # read when numpy is imported, which nothing up to here has done
        os.environ.setdefault(name, "1")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a file's name may be no text at all
    if detect.is_launched():
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback from each rank on Ctrl-C
        stop = StopRequest()
        stop.listen(signal.SIGUSR1, signal.SIGTERM)
        from .rank import main_on_rank

        return main_on_rank(arguments, stop)
    from .frontend import main_frontend

    try:
        return main_frontend(arguments)
    except (UserError, Diverged) as error:
        print(f"mpi-gt: error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("mpi-gt: interrupted by SIGINT", file=sys.stderr)
        return 128 + signal.SIGINT
