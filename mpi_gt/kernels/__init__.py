"""The compiled kernels where they were built, else None: numpy then does the same work.

Built at installation where there is a C compiler, and never required. They hold no MPI, and no
mathematics that is not also written in Python beside them: packing and combining messages
(reference.py), the recorded steps of algorithms (fuse.py), Philox, the gradients of the problems,
the expected Huber loss (problems/huber.py), a rank's share of the metrics (engine/metrics.py).
`MPI_GT_KERNELS=numpy` does without them.
"""

import os
import warnings
from types import ModuleType
from typing import TYPE_CHECKING

VERSION = 5  # as in module.c: of what these two know of each other

C: ModuleType | None = None

if os.environ.get("MPI_GT_KERNELS") != "numpy":
    try:
        from . import _c
    except ImportError:  # no compiler when it was installed
        pass
    else:
        if getattr(_c, "VERSION", 1) == VERSION:
            C = _c
        else:  # a checkout that was updated and not installed again
            warnings.warn(
                "the compiled kernels are of another version of mpi-gt and are not used: "
                "install it again (pip install -e .)",
                stacklevel=2,
            )

NAME = "numpy" if C is None else "c"
"""What run.json says of it."""

# what sends vectors and adds up what comes: the compiled classes, or else those in Python
if TYPE_CHECKING or C is None:
    from .reference import Mix, NextGradient, NodeCounters, PendingMix, Transfer, advance, stamp
else:
    from ._c import Mix, NextGradient, NodeCounters, PendingMix, Transfer, advance, stamp

__all__ = [
    "NAME",
    "VERSION",
    "C",
    "Mix",
    "NextGradient",
    "NodeCounters",
    "PendingMix",
    "Transfer",
    "advance",
    "stamp",
]  # fmt: skip
