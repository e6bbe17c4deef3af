"""The problem `jax`: a loss that the user wrote as a function of JAX."""

import functools
import math
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from ...errors import UserError
from ...user_classes import call_user_code
from ..base import Array, Place
from .base import ModelProblem
from .programs import Program, as_array, in_full_precision, start_jax
from .references import load

Tree = Any
"""A pytree: lists, tuples and dictionaries of arrays."""


class JaxModel(ModelProblem):
    """A loss of your own, a function of JAX: `model=my_module:loss`.

        f_i(x) = loss(params, features, labels) over this node's rows

    The module has `init(key)`, which returns the parameters of one seed, a pytree of float arrays,
    and `loss(params, features, labels)`, the mean over the rows (plus what depends on the
    parameters alone); with `predict(params, features)`, scores (rows, classes) or labels (rows,),
    the run has accuracies. x is the parameters one after the other, in the order of
    `jax.flatten_util.ravel_pytree`; x_1 is `init(jax.random.key(seed))`, the same on all nodes.
    features (rows, columns) have the dtype of the run, labels (rows,) are whole numbers from 0.
    Everything is compiled before the first iteration, and kept in the user's cache. All other
    options are those of softmax. Needs the extra `jax`: pip install 'mpi-gt[jax]'.

    Options:
        model MODULE:LOSS or FILE.py:LOSS, default none: the loss, beside which init is
        dataset NAME: synthetic, or a name that `mpi-gt data list` shows
        batch >= 1: rows per stochastic gradient
        split iid, label or dirichlet:CONC: how the rows are distributed over the nodes
        split_seed >= 0: seed of that split
        rows >= 1, default 4096: rows of the synthetic data
        features >= 1, default 20: columns of the synthetic data or of the libsvm file
        classes >= 2, default 4: classes of the synthetic data
        data FILE.npz, default none: data of your own, X (rows, features) and y (rows,)
        libsvm FILE, default none: data of your own in LIBSVM format
    """

    NAME = "jax"
    PACKAGES = ("jax", "jaxlib")
    EXAMPLE = "jax:model=my_module:loss"

    def __init__(
        self,
        place: Place,
        *,
        model: str | None = None,
        dataset: str = "synthetic",
        batch: int = 32,
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
        self._open(place, chosen, model=model)
        start_jax()  # before the user's module: it decides about threads
        loss, module = load(self.model)
        self._net = _network(self.model, loss, module)
        self._net.require_signatures(self._x.shape[1], self.classes)
        self._programs = programs = _programs(self._net, self._scale)
        self._start, self._gradient, self._mean, self._right = programs
        self.dim = self._net.dim
        if self._net.predict is None:
            self._without_scores()
        with in_full_precision():
            self._on_device = _to_device(self._x, self._labels)

    def start(self, seed: int) -> Array:
        """Return the parameters that the user's `init` makes of the seed."""
        return as_array(self._start(np.asarray(seed, np.uint64)))

    def _gradients(self, x: Array, rows: Array) -> Array:
        return as_array(self._gradient(x, rows.astype(np.int32), *self._on_device))

    def _means(self, x: Array, rows: Array) -> tuple[Array, Array, Array]:
        loss, gradient, correct = self._mean(x, rows.astype(np.int32), *self._on_device)
        return as_array(loss), as_array(gradient), as_array(correct)

    def _score(self, rows: Array, labels: Array, x: Array) -> Array:
        """Return the correct rows. Chunks of one size need one program: the last one is filled."""
        count = np.resize(np.arange(len(rows)), max(len(rows), min(self._chunk_rows, 256)))
        right = as_array(self._right(x, rows[count], labels[count].astype(np.int32)))
        return right[:, : len(rows)].sum(axis=1)


class Network(NamedTuple):
    """The functions of a user's module, and the shape of its parameters."""

    name: str
    loss: Callable[[Tree, Any, Any], Any]
    init: Callable[[Any], Tree]
    predict: Callable[[Tree, Any], Any] | None
    tree: Any  # the structure of the parameters
    shapes: tuple[tuple[int, ...], ...]
    traceable: bool  # False: `init` has to be called as it is, and cannot be compiled

    @property
    def dim(self) -> int:
        return sum(map(math.prod, self.shapes))

    def params(self, x: Any) -> Tree:
        """Return the parameters that are the entries of x (dim,)."""
        jax, leaves, begin = start_jax(), [], 0
        for shape in self.shapes:
            end = begin + math.prod(shape)
            leaves.append(x[begin:end].reshape(shape))
            begin = end
        return jax.tree_util.tree_unflatten(self.tree, leaves)

    def flat(self, params: Tree) -> Any:
        """Return the parameters as one vector in float64."""
        import jax.numpy as jnp

        leaves = start_jax().tree_util.tree_leaves(params)
        return jnp.concatenate([jnp.ravel(leaf).astype(jnp.float64) for leaf in leaves])

    def require_signatures(self, columns: int, classes: int) -> None:
        """Raise UserError unless loss and predict return what they should, for any rows."""
        jax, rows = start_jax(), 8
        with in_full_precision():
            x = jax.ShapeDtypeStruct((self.dim,), np.float64)
            features = jax.ShapeDtypeStruct((rows, columns), np.float64)
            labels = jax.ShapeDtypeStruct((rows,), np.int32)
            loss = _shape_of(
                self.name, lambda *at: self.loss(self.params(at[0]), *at[1:]), x, features, labels
            )
            if getattr(loss, "shape", None) != () or loss.dtype.kind != "f":
                raise UserError(f"{self.name} must return one real number, not {_shown(loss)}")
            if self.predict is None:
                return
            name = f"{self.name.rpartition(':')[0]}:predict"
            predict = self.predict
            scores = _shape_of(name, lambda *at: predict(self.params(at[0]), at[1]), x, features)
        shape, kind = getattr(scores, "shape", None), getattr(scores, "dtype", np.dtype("O")).kind
        if shape == (rows,) and kind in "iu":
            return
        if shape is None or len(shape) != 2 or shape[0] != rows or kind != "f":
            raise UserError(
                f"{name} must return scores (rows, classes), or labels (rows,) that are whole "
                f"numbers, not {_shown(scores)} for {rows} rows"
            )
        if shape[1] < classes:
            raise UserError(
                f"{name} returns {shape[1]} scores per row, but the data has {classes} classes"
            )


def _shape_of(name: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the shape and dtype of what a user's function returns, without computing it."""
    return call_user_code(name, lambda: start_jax().eval_shape(function, *arguments))


def _shown(result: Any) -> str:
    if not hasattr(result, "shape"):
        return f"a {type(result).__name__}"
    what = "a number" if result.shape == () else f"an array of shape {result.shape}"
    return f"{what} and dtype {result.dtype}"


@functools.lru_cache(maxsize=8)
def _network(name: str, loss: Callable[..., Any], module: ModuleType) -> Network:
    """Return the functions of the user's module, with the shape of what `init` returns."""
    jax, beside = start_jax(), name.rpartition(":")[0]
    init, predict = (getattr(module, each, None) for each in ("init", "predict"))
    if not callable(init):
        raise UserError(f"{name}: the module has no init(key), which returns the first parameters")
    if predict is not None and not callable(predict):
        raise UserError(f"{beside}:predict is no function")
    with in_full_precision():
        traceable = True
        try:
            params = jax.eval_shape(init, jax.random.key(0))
        except Exception:  # it needs real numbers, or fails with them as well
            traceable = False
            params = call_user_code(f"{beside}:init", lambda: init(jax.random.key(0)))
        leaves, tree = jax.tree_util.tree_flatten_with_path(params)
    if not leaves:
        raise UserError(f"{beside}:init returns no parameters")
    for path, leaf in leaves:
        dtype = np.asarray(leaf).dtype if not hasattr(leaf, "dtype") else leaf.dtype
        if not _is_real(dtype):
            where = jax.tree_util.keystr(path) or "(all of them)"
            raise UserError(
                f"{beside}:init: the parameters {where} are of dtype {dtype}: all must be floats"
            )
    shapes = tuple(tuple(np.shape(leaf)) for _, leaf in leaves)
    return Network(name, loss, init, predict, tree, shapes, traceable)


def _is_real(dtype: Any) -> bool:
    import jax.numpy as jnp

    return bool(jnp.issubdtype(dtype, jnp.floating))  # numpy does not know bfloat16


@functools.lru_cache(maxsize=8)
def _programs(net: Network, scale: float) -> tuple[Any, Program, Program, Program]:
    """Return start, gradient, means and correct rows: all nodes of a stacked run share them."""
    jax = start_jax()
    import jax.numpy as jnp

    def loss(x: Any, rows: Any, features: Any, labels: Any) -> Any:
        chosen = features[rows].astype(x.dtype) * x.dtype.type(scale)
        return net.loss(net.params(x), chosen, labels[rows])

    def is_right(x: Any, features: Any, labels: Any) -> Any:
        if net.predict is None:
            return jnp.zeros(labels.shape, bool)
        scores = net.predict(net.params(x), features.astype(x.dtype) * x.dtype.type(scale))
        return (scores.argmax(axis=1) if scores.ndim == 2 else scores) == labels

    def mean(x: Any, rows: Any, features: Any, labels: Any) -> Any:
        value, gradient = jax.value_and_grad(loss)(x, rows, features, labels)
        return value, gradient, is_right(x, features[rows], labels[rows]).sum()

    def start(seed: Any) -> Any:
        return net.flat(net.init(jax.random.key(seed)))

    def as_it_is(seed: Array) -> Any:
        with in_full_precision():
            return call_user_code(f"{net.name.rpartition(':')[0]}:init", lambda: start(int(seed)))

    over_seeds = jax.vmap(mean, in_axes=(0, None, None, None))
    return (
        Program(start) if net.traceable else as_it_is,
        Program(jax.vmap(jax.grad(loss), in_axes=(0, 0, None, None))),
        Program(over_seeds),
        Program(jax.vmap(is_right, in_axes=(0, None, None))),
    )


def _to_device(features: Array, labels: Array) -> tuple[Any, Any]:
    """Return the rows as arrays of JAX, which need not be converted at every call."""
    jax = start_jax()
    cpu = jax.devices("cpu")[0]
    return jax.device_put(features, cpu), jax.device_put(labels.astype(np.int32), cpu)
