"""The compiled kernels where they were built, else None: numpy then does the same work.

Built at installation where there is a C compiler, and never required. They hold no MPI, and no
mathematics that is not also written in Python beside them: packing and combining messages, the
recorded steps of algorithms (fuse.py), Philox, the gradients of the problems.
`MPI_GT_KERNELS=numpy` does without them.
"""

import os
from types import ModuleType

C: ModuleType | None = None

if os.environ.get("MPI_GT_KERNELS") != "numpy":
    try:
        from . import _c

        C = _c
    except ImportError:  # no compiler when it was installed
        pass

NAME = "numpy" if C is None else "c"
"""What run.json says of it."""
