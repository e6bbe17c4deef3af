"""Cross-entropy: the slope of -log softmax(z)[label] at each row of z."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import kernels

Array = NDArray[Any]


def slopes(
    z: Array,
    labels: Array,
    scale: float = 1.0,
    loss: Array | None = None,
    correct: Array | None = None,
    fixed: bool = False,
) -> None:
    """Replace z by scale (softmax(z) - [label]), for z (rows, groups, classes), labels (rows,).

    Add to `loss` and `correct`, (groups,), the sums over the rows of the loss and of the correctly
    classified. `fixed`: the same bits on every processor, which takes the compiled kernels.
    """
    if kernels.C is not None:
        kernels.C.slopes(z, labels, scale, loss, correct, fixed)
        return
    every = np.arange(len(z))
    if correct is not None:
        correct += (z.argmax(axis=2) == labels[:, np.newaxis]).sum(axis=0)
    if loss is not None:
        loss -= z[every, :, labels].sum(axis=0)
    largest = z.max(axis=-1, keepdims=True)
    z -= largest
    np.exp(z, out=z)
    total = z.sum(axis=-1, keepdims=True)
    if loss is not None:
        loss += (largest + np.log(total))[..., 0].sum(axis=0)
    z /= total
    z[every, :, labels] -= 1
    z *= scale
