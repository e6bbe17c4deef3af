"""The compiled kernels and their Python twins.

The extension `_c` is built at installation if there is a C compiler, and is never required: without
it numpy does the same work. It contains no MPI, and no mathematics without a twin in Python:

- packing, exchanging and adding up messages, and the inner loop: reference.py
- recorded steps of algorithms: fuse.py
- Philox draws and the gradients of the problems: problems/base.py, huber.py, softmax.py,
  cross_entropy.py
- a rank's share of the metrics: engine/metrics.py
- payloads of compressed vectors: compressors/

`MPI_GT_KERNELS=numpy` turns the extension off.
"""

import os
import warnings
from types import ModuleType
from typing import TYPE_CHECKING

VERSION = 12  # of the interface between the extension and the package; as in module.c

C: ModuleType | None = None
"""The extension, or None."""

if os.environ.get("MPI_GT_KERNELS") != "numpy":
    try:
        from . import _c
    except ImportError:  # there was no C compiler at installation
        pass
    else:
        if getattr(_c, "VERSION", 1) == VERSION:
            C = _c
        else:  # the checkout was updated but not installed again
            warnings.warn(
                "the compiled kernels belong to another version of mpi-gt and are not used: "
                "install it again (pip install -e .)",
                stacklevel=2,
            )

NAME = "numpy" if C is None else "c"
"""The kernels in use, as in run.json."""

# the classes and functions of the loop: compiled, or else their Python twins
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
