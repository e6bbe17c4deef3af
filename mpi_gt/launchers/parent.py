"""The process that has started this one: the caller of `mpi_gt.launch`, a front end, mpirun."""

import contextlib
import os
import signal
import threading

from .detect import OUTCOME

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


def die_with_parent(number: signal.Signals) -> None:
    """Ask the Linux kernel to send this process a signal when its parent is gone."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, number)


def die_with_launcher() -> None:
    """Have the kernel end this rank with the mpirun, or its daemon, that a front end has started.

    It does so at any moment, also within MPI_Init, where a rank without its launcher may wait for
    ever. For more than 32 ranks Open MPI forks from threads of its own, whose end would count.
    """
    if OUTCOME in os.environ and int(os.environ.get("OMPI_COMM_WORLD_LOCAL_SIZE", "1")) <= 32:
        die_with_parent(signal.SIGKILL)
        if os.getppid() == 1:  # it was gone before
            os._exit(1)


def _wait_for_end() -> None:
    while os.read(0, 1024):  # not sys.stdin, whose lock would trouble the end of Python
        pass
    os.kill(os.getpid(), signal.SIGTERM)
