"""Networks as a user would write them, the same one for JAX, PyTorch and numpy."""

import importlib.util

import numpy as np
from support import skip_or_fail

FEATURES, HIDDEN, CLASSES = 5, 6, 3
SIZES = f"rows=60,features={FEATURES},classes={CLASSES},batch=4"

JAX = f"""
import jax
import jax.numpy as jnp

def init(key):
    one, two = jax.random.split(key)
    first = jax.random.normal(one, ({HIDDEN}, {FEATURES})) / 2, jnp.zeros({HIDDEN})
    return [first, (jax.random.normal(two, ({CLASSES}, {HIDDEN})) / 2, jnp.zeros({CLASSES}))]

def predict(params, features):
    (w1, b1), (w2, b2) = params
    return jnp.tanh(features @ w1.T + b1) @ w2.T + b2

def loss(params, features, labels):
    scores = jax.nn.log_softmax(predict(params, features))
    return -jnp.take_along_axis(scores, labels[:, None], 1).mean()
"""
TORCH = f"""
import torch
from torch import nn

class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear({FEATURES}, {HIDDEN}), nn.Tanh(), nn.Linear({HIDDEN}, {CLASSES}))
"""
SOURCES = {"jax": JAX, "torch": TORCH}
NAMES = {"jax": "loss", "torch": "Net"}


def require(package):
    """Skip a test without JAX or PyTorch; fail it in CI, which has both."""
    if importlib.util.find_spec(package) is None:
        skip_or_fail(f"{package} is not installed: pip install 'mpi-gt[{package}]'")


def write(folder, package, more="", name="net"):
    """Write the module of a network into the folder; return its specification."""
    (folder / f"{name}.py").write_text(SOURCES[package] + more)
    return f"{package}:model={name}:{NAMES[package]},{SIZES}"


def by_hand(x, features, labels):
    """Return the mean loss and its gradient of the network with weights x (dim,), in numpy."""
    x = np.asarray(x, np.float64)
    sizes = np.cumsum([HIDDEN * FEATURES, HIDDEN, CLASSES * HIDDEN])
    w1, b1, w2, b2 = np.split(x, sizes)
    w1, w2 = w1.reshape(HIDDEN, FEATURES), w2.reshape(CLASSES, HIDDEN)
    h = np.tanh(features @ w1.T + b1)
    z = h @ w2.T + b2
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    rows = np.arange(len(labels))
    loss = -np.log(p[rows, labels]).mean()
    p[rows, labels] -= 1
    p /= len(labels)
    back = (p @ w2) * (1 - h * h)
    parts = back.T @ features, back.sum(axis=0), p.T @ h, p.sum(axis=0)
    return loss, np.concatenate([part.ravel() for part in parts])
