"""The process that has started this one: the caller of `mpi_gt.launch`, a front end, mpirun."""

import os
import signal
import threading
from collections.abc import Callable
from functools import partial

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


def dying_with_parent(number: signal.Signals) -> Callable[[], object]:
    """Return a call that has the Linux kernel send its process a signal when the parent is gone.

    The call itself imports nothing, so that it can stand between fork and exec.
    """
    try:
        import ctypes

        prctl = ctypes.CDLL(None).prctl
    except (ImportError, OSError, AttributeError):
        return lambda: None
    pr_set_pdeathsig = 1
    return partial(prctl, pr_set_pdeathsig, int(number))


def die_with_launcher() -> None:
    """Have the kernel end this rank with the mpirun, or its daemon, that a front end has started.

    It does so at any moment, also within MPI_Init, where a rank without its launcher may wait for
    ever. From 32 ranks on Open MPI forks from threads of its own, whose end would count.
    """
    if OUTCOME in os.environ and int(os.environ.get("OMPI_COMM_WORLD_LOCAL_SIZE", "1")) < 32:
        dying_with_parent(signal.SIGKILL)()
        if os.getppid() == 1:  # it was gone before
            os._exit(1)


def _wait_for_end() -> None:
    while os.read(0, 1024):  # not sys.stdin, whose lock would trouble the end of Python
        pass
    os.kill(os.getpid(), signal.SIGTERM)
