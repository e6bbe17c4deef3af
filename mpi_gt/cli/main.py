"""Entry point of `mpi-gt`: hand over to the front end or, under mpirun, to this rank."""

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
    """Run one command and return its exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    # BLAS threads would only compete with the other ranks for the cores
    for name in THREADS:  # numpy reads them when it is imported, which is not yet the case
        os.environ.setdefault(name, "1")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a file name need not be valid text
    if detect.is_launched():
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # no traceback from each rank on Ctrl-C
        stop = StopRequest()
        stop.listen(signal.SIGUSR1, signal.SIGTERM)
        from .rank import main_on_rank

        return main_on_rank(arguments, stop)
    from .frontend import main_frontend

    try:
        code = main_frontend(arguments)
        sys.stdout.flush()
        return code
    except (UserError, Diverged) as error:
        print(f"mpi-gt: error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("mpi-gt: interrupted by SIGINT", file=sys.stderr)
        return 128 + signal.SIGINT
    except BrokenPipeError:  # as in `mpi-gt manual running | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at exit
        return 128 + signal.SIGPIPE
