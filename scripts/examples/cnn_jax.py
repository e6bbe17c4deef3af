"""A small convolutional network on MNIST, written in JAX and trained on four nodes.

python cnn_jax.py                                 # needs pip install 'mpi-gt[jax]'
mpi-gt run -n 16 --problem jax:model=cnn_jax.py:loss,dataset=mnist,batch=32 --dtype float32
"""

import jax
import jax.numpy as jnp

import mpi_gt

SIDE = 28  # of an image, whose pixels are the 784 features of a row
FILTERS = (6, 16)  # of the two convolutions, 5 by 5 each, as in LeNet
HIDDEN, CLASSES = 64, 10


def init(key):
    """Return the parameters: weights that keep the variance of their inputs, biases of zero."""
    first, second = FILTERS
    shapes = [(5, 5, 1, first), (5, 5, first, second), (16 * second, HIDDEN), (HIDDEN, CLASSES)]
    layers = []
    for shape, own in zip(shapes, jax.random.split(key, len(shapes)), strict=True):
        inputs = jnp.prod(jnp.array(shape[:-1]))
        layers.append((jax.random.normal(own, shape) / jnp.sqrt(inputs), jnp.zeros(shape[-1])))
    return layers


def predict(params, features):
    """Return the scores of all classes, (rows, 10)."""
    *convolutions, (w, b), (last, shift) = params
    z = features.reshape(-1, SIDE, SIDE, 1)
    for filters, bias in convolutions:
        z = jax.lax.conv_general_dilated(
            z, filters, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        z = halved(jnp.tanh(z + bias))
    z = jnp.tanh(z.reshape(len(z), -1) @ w + b)
    return z @ last + shift


def halved(z):
    """Return the means of two by two pixels."""
    rows, side, _, channels = z.shape
    return z.reshape(rows, side // 2, 2, side // 2, 2, channels).mean(axis=(2, 4))


def loss(params, features, labels):
    """Return the mean cross entropy over the rows."""
    logs = jax.nn.log_softmax(predict(params, features))
    return -jnp.take_along_axis(logs, labels[:, None], axis=1).mean()


if __name__ == "__main__":
    result = mpi_gt.launch(
        n=4,
        problem="jax:model=cnn_jax.py:loss,dataset=mnist,batch=32",
        algorithm="gt-adaptive:lr=0.003",
        graph="complete",
        dtype="float32",
        iterations=400,
        log_every=200,  # the loss over all rows takes longer than the steps
    )
    last = result.metrics[-1]
    print(f"after {last['iteration']} steps: loss {last['loss']:.3f}, ", end="")
    print(f"accuracy on test rows {result.facts['test_accuracy']:.3f}")
