"""A neural network with one hidden layer, in numpy."""

import math
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np

from ..fuse import entrywise
from ..kernels import fixed_order
from .base import Array, Place, require
from .classification import Classification
from .cross_entropy import slopes


class Layers(NamedTuple):
    """The weights and biases of all seeds, as views of an array (seeds, dim)."""

    w1: Array  # (seeds, hidden, features)
    b1: Array  # (seeds, hidden)
    w2: Array  # (seeds, classes, hidden)
    b2: Array  # (seeds, classes)


class Work(NamedTuple):
    """Arrays that a gradient needs on its way, each (seeds, rows, ...)."""

    hidden: Array  # the outputs of the hidden layer
    back: Array  # the slopes of the loss by the inputs of the hidden layer
    z: Array  # the inputs of the softmax, then the slopes by them


class Mlp(Classification):
    """A neural network with one hidden layer and cross entropy over the classes.

        f_i(x) = mean_j -log softmax(W2 a(W1 y_j + b1) + b2)[l_j] + reg/2 ‖x‖² over this node's rows

    x is W1 (hidden, features), b1, W2 (classes, hidden), b2, flattened one after the other: what
    `jax.flatten_util.ravel_pytree` makes of [(W1, b1), (W2, b2)], and the parameters of
    torch.nn.Sequential(Linear, Tanh, Linear) in their order. The start is the same on all nodes:
    weights of the seed, even in ±sqrt(6 / (inputs + outputs)), and biases of zero. Data, batches
    and splits are those of softmax. Where the data has a test part, metrics.csv has the accuracy
    on it as the column `accuracy_test`.

    Options:
        hidden >= 1: units of the hidden layer
        activation tanh or relu: the function a of these units
        dataset NAME: synthetic, or a name that `mpi-gt data list` shows
        batch >= 1: rows per stochastic gradient
        reg >= 0: weight of the regulariser
        split iid, label or dirichlet:CONC: how the rows are distributed over the nodes
        split_seed >= 0: seed of that split
        rows >= 1, default 4096: rows of the synthetic data
        features >= 1, default 20: columns of the synthetic data or of the libsvm file
        classes >= 2, default 4: classes of the synthetic data
        data FILE.npz, default none: data of your own, X (rows, features) and y (rows,)
        libsvm FILE, default none: data of your own in LIBSVM format
    """

    START = 2  # purpose of the random numbers of x_1
    KEEPS_BATCH = True

    def __init__(
        self,
        place: Place,
        *,
        hidden: int = 64,
        activation: Literal["tanh", "relu"] = "tanh",
        dataset: str = "synthetic",
        batch: int = 32,
        reg: float = 0.0,
        split: str = "iid",
        split_seed: int = 0,
        rows: int | None = None,
        features: int | None = None,
        classes: int | None = None,
        data: str | None = None,
        libsvm: str | None = None,
    ) -> None:
        chosen: dict[str, Any] = {
            "dataset": dataset, "batch": batch, "split": split, "split_seed": split_seed,
            "data": data, "libsvm": libsvm, "rows": rows, "features": features, "classes": classes,
        }  # fmt: skip
        self.check_options(hidden=hidden, activation=activation, reg=reg, **chosen)
        self.hidden = hidden
        self._load(place, **chosen)
        self.reg = reg
        self._relu = activation == "relu"
        self._multiply = _multiply_fixed if place.reproducible else np.matmul
        self._regularised = entrywise(self._add_regulariser, arrays=2)
        self.dim, _ = self._widths(self._x.shape[1], self.classes, hidden=hidden)
        self._tested = list(super()._test_chunks())  # every measurement needs them
        self._test_rows = 0 if self._test is None else len(self._test.labels())
        shape = len(place.seeds), batch
        self._stored = np.empty((*shape, self._x.shape[1]), self._x.dtype)
        self._features = np.empty(self._stored.shape, place.dtype)
        self._work = self._make_work(*shape, place.dtype)

    @classmethod
    def check_options(
        cls, *, hidden: int = 64, activation: str = "tanh", reg: float = 0.0, **options: Any
    ) -> None:
        """Raise an error for what shows without the data: nothing is downloaded in vain."""
        super().check_options(**options)
        require(hidden >= 1, f"hidden must be at least 1, not {hidden}")
        require(
            activation in ("tanh", "relu"), f"activation must be tanh or relu, not {activation}"
        )
        require(0 <= reg < math.inf, f"reg must be >= 0, not {reg}")

    @classmethod
    def _widths(
        cls, features: int, classes: int, hidden: int = 64, **options: Any
    ) -> tuple[int, int]:
        return (features + 1) * hidden + (hidden + 1) * classes, 2 * hidden + classes

    def facts(self) -> dict[str, Any]:
        """Return the size of the data and of the network for run.json."""
        return {**super().facts(), "parameters": self.dim}

    def start(self, seed: int) -> Array:
        """Return the weights of this seed; all biases are zero."""
        random = self._place.random(seed, self.START, shared=True)
        x = np.zeros((1, self.dim))
        layers = self._layers(x)
        for w in (layers.w1[0], layers.w2[0]):
            bound = math.sqrt(6 / sum(w.shape))
            w[:] = fixed_order.uniform(random, -bound, bound, w.size).reshape(w.shape)
        return x[0]

    def gradient(self, t: int, x: Array) -> Array:
        rows = self._rows.at(t)  # (seeds, batch)
        # into arrays that are there: new ones would cost page faults at every iteration
        np.take(self._x, rows, axis=0, out=self._stored, mode="clip")
        self._features[:] = self._stored
        layers, z = self._layers(x), self._work.z
        self._forward(self._features, layers, self._work)
        slopes(z.reshape(-1, 1, self.classes), self._labels[rows].reshape(-1), 1 / rows.shape[1])
        gradient = np.empty_like(x)
        self._backward(self._features, layers, self._work, self._layers(gradient))
        return self._regularised(gradient, x) if self.reg else gradient

    def evaluate(self, x: Array) -> tuple[Array, Array]:
        """Return loss and gradient over all rows of this node, in chunks that bound the memory."""
        layers, seeds = self._layers(x), len(x)
        loss, correct = np.zeros(seeds), np.zeros(seeds, np.int64)
        total, part = np.zeros((seeds, self.dim)), np.empty((seeds, self.dim))
        for begin in range(0, len(self._x), self._chunk_rows):
            y = self._x[begin : begin + self._chunk_rows].astype(np.float64)
            labels = self._labels[begin : begin + len(y)]
            work = self._make_work(seeds, len(y), x.dtype)
            self._forward(y, layers, work)
            for seed, z in enumerate(work.z):
                sums = loss[seed : seed + 1], correct[seed : seed + 1]
                slopes(z[:, np.newaxis], labels, 1.0, *sums, self._place.reproducible)
            self._backward(y, layers, work, self._layers(part))
            total += part
        self._evaluated = x, correct / len(self._x)
        total /= len(self._x)
        regulariser = 0.5 * self.reg * np.square(x).sum(axis=-1)
        return loss / len(self._x) + regulariser, self._regularised(total, x)

    def metrics(self, x: Array) -> dict[str, Array]:
        """Return the accuracy on the test rows, where there are any."""
        if not self._test_rows:
            return {}
        # the mean over the nodes of these is that over all rows, also of uneven shares
        correct = self.test_score(x)[:-1]
        return {"accuracy_test": correct * (self._place.nodes / self._test_rows)}

    def _test_chunks(self) -> Iterator[tuple[Array, Array]]:
        return iter(self._tested)

    def _score(self, rows: Array, labels: Array, x: Array) -> Array:
        work = self._make_work(len(x), len(rows), x.dtype)
        self._forward(rows.astype(x.dtype), self._layers(x), work)
        correct: Array = (work.z.argmax(axis=2) == labels).sum(axis=1)
        return correct

    @property
    def _chunk_rows(self) -> int:
        _, products = self._widths(0, self.classes, hidden=self.hidden)
        seeds = len(self._place.seeds)
        return max(1, self.CHUNK // (self._x.shape[1] + seeds * products))

    def _make_work(self, seeds: int, rows: int, dtype: np.dtype[Any]) -> Work:
        widths = self.hidden, self.hidden, self.classes
        return Work(*(np.empty((seeds, rows, width), dtype) for width in widths))

    def _layers(self, x: Array) -> Layers:
        seeds, hidden, classes, columns = len(x), self.hidden, self.classes, self._x.shape[1]
        first = hidden * columns
        second = first + hidden
        last = second + classes * hidden
        return Layers(
            w1=x[:, :first].reshape(seeds, hidden, columns),
            b1=x[:, first:second],
            w2=x[:, second:last].reshape(seeds, classes, hidden),
            b2=x[:, last:],
        )

    def _forward(self, y: Array, layers: Layers, work: Work) -> None:
        """Compute hidden and z of the rows y, ([seeds,] rows, features), as they are stored."""
        hidden, _, z = work
        self._multiply(y, layers.w1.swapaxes(1, 2), hidden)
        hidden *= self._scale  # the small products, not the features
        hidden += layers.b1[:, np.newaxis]
        if self._relu:
            np.maximum(hidden, 0, out=hidden)
        elif self._place.reproducible:
            _tanh_fixed(hidden)
        else:
            np.tanh(hidden, out=hidden)
        self._multiply(hidden, layers.w2.swapaxes(1, 2), z)
        z += layers.b2[:, np.newaxis]

    def _backward(self, y: Array, layers: Layers, work: Work, gradient: Layers) -> None:
        """Write the gradient, from the slopes in work.z; this overwrites work."""
        hidden, back, z = work
        self._multiply(z.swapaxes(1, 2), hidden, gradient.w2)
        z.sum(axis=1, out=gradient.b2)
        self._multiply(z, layers.w2, back)
        if self._relu:
            np.greater(hidden, 0, out=hidden, casting="unsafe")
        else:  # 1 - tanh²
            np.square(hidden, out=hidden)
            np.subtract(1, hidden, out=hidden)
        back *= hidden
        back.sum(axis=1, out=gradient.b1)
        back *= self._scale
        self._multiply(back.swapaxes(1, 2), y, gradient.w1)

    def _add_regulariser(self, gradient: Array, x: Array) -> Array:
        return gradient + self.reg * x


def _multiply_fixed(a: Array, b: Array, out: Array) -> None:
    """Write a @ b to `out`, with the same bits on every processor."""
    a, b = (np.broadcast_to(z, (len(out), *z.shape[-2:])) for z in (a, b))  # y may lack the seeds
    out[:] = 0
    fixed_order.multiply(a, b, out)


def _tanh_fixed(x: Array) -> None:
    """Replace x by tanh(x), with the same bits on every processor."""
    power = fixed_order.exp(-2 * np.abs(x).astype(np.float64))
    np.copysign((1 - power) / (1 + power), x, out=x, casting="same_kind")
