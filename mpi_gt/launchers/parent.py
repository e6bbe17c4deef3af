"""The Python process that has started this front end by `mpi_gt.launch`, if one has."""

import os
import signal
import threading

PARENT = "MPI_GT_PARENT"
"""The variable with the process id of the caller of `mpi_gt.launch`, in its front end and ranks."""


def follow_parent() -> None:
    """Stop the run of this front end in an orderly way once the process that launched it is gone.

    That process holds the other end of standard input, however it ends. It also decides what
    Ctrl-C means, and may itself run where that is ignored.
    """
    if PARENT in os.environ:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        threading.Thread(target=_wait_for_end, daemon=True).start()


def _wait_for_end() -> None:
    while os.read(0, 1024):  # not sys.stdin, whose lock would trouble the end of Python
        pass
    os.kill(os.getpid(), signal.SIGTERM)
