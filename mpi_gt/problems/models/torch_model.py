"""The problem `torch`: a module of PyTorch that the user wrote."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ...user_classes import call_user_code
from ...user_classes.failures import blame
from ..base import Array, Place, require
from .base import ModelProblem
from .references import digest_of, load, require_reference
from .torch_network import (
    STATE,
    Tensors,
    fixed_tensors,
    make_network,
    of_seed,
    start_torch,
    torch_dtype,
)


class TorchModel(ModelProblem):
    """A network of your own, a module of PyTorch: `model=my_module:Net`.

        f_i(x) = mean of the cross entropy of Net()(features) and the labels over this node's rows

    Net is a class without arguments of its constructor, or a function that returns a module. x is
    its parameters one after the other, in the order of `named_parameters`; x_1 is what Net() draws
    after `torch.manual_seed(seed)`, the same on all nodes. features (rows, columns) have the dtype
    of the run, labels (rows,) are whole numbers from 0. `loss=my_module:function` takes another
    loss, function(output, labels), the mean over the rows. Parameters that need no gradient and
    buffers stay as they are. Refused are BatchNorm and other buffers that change, since nodes do
    not exchange them, and dropout, since its numbers are not fixed by seed, node and iteration.
    Several seeds are computed together by `torch.func.vmap`; a module that cannot do that is called
    seed by seed, and a warning says so. All other options are those of softmax. Needs the extra
    `torch`: pip install 'mpi-gt[torch]'.

    Options:
        model MODULE:NET or FILE.py:NET, default none: the module
        loss MODULE:FUNCTION or FILE.py:FUNCTION, default cross entropy: the loss
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

    NAME = "torch"
    PACKAGES = ("torch",)
    EXAMPLE = "torch:model=my_module:Net"

    def __init__(
        self,
        place: Place,
        *,
        model: str | None = None,
        loss: str | None = None,
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
        self._open(place, chosen, model=model, loss=loss)
        torch = start_torch()
        make = load(self.model).thing
        self._name = f"{self.model}()"
        self._nets = [make_network(self._name, make, seed) for seed in place.seeds]
        self._net = self._nets[0]
        self.dim = sum(self._net.sizes)
        self._loss = torch.nn.functional.cross_entropy if loss is None else load(loss).thing
        self._own_loss = loss
        self._features = torch.from_numpy(np.ascontiguousarray(self._x))
        self._targets = torch.from_numpy(self._labels.astype(np.int64))
        self._together = len(place.seeds) > 1  # False: seed by seed
        dtypes = (place.dtype, np.dtype(np.float64))
        self._fixed = {dtype: fixed_tensors(self._nets, dtype) for dtype in dtypes}
        self._of_own_rows, self._of_same_rows = self._vectorised()
        self._inspect()

    @classmethod
    def check_options(
        cls, *, model: str | None = None, loss: str | None = None, **options: Any
    ) -> None:
        """Raise an error for what shows without the data and without importing anything."""
        super().check_options(model=model, **options)
        if loss is not None:
            require_reference("loss", loss, "loss=my_module:function")

    @classmethod
    def identity(
        cls, *, model: str | None = None, loss: str | None = None, **options: Any
    ) -> dict[str, Any]:
        """Return what decides the numbers besides the options: the code and what computes it."""
        own = {} if loss is None else {"loss": digest_of(loss)}
        return {**super().identity(model=model, **options), **own}

    def start(self, seed: int) -> Array:
        """Return the parameters that Net() draws after `torch.manual_seed(seed)`."""
        net = self._nets[self._place.seeds.index(seed)]
        return np.concatenate([each.detach().double().numpy().ravel() for each in net.params])

    def _inspect(self) -> None:
        """Raise an error for what a node cannot have: random layers, buffers that change."""
        torch = start_torch()
        rows = torch.arange(min(4, self.rows))
        x = torch.from_numpy(self.start(self._place.seeds[0])).to(torch_dtype(self._place.dtype))
        fixed = {name: each[0].clone() for name, each in self._fixed[self._place.dtype].items()}
        before = {name: each.clone() for name, each in fixed.items()}
        with torch.random.fork_rng(devices=[]):
            random = torch.get_rng_state()
            features, labels = self._batch(rows, x.dtype)
            output = call_user_code(self._name, lambda: self._output(x, fixed, features))
            self._require_scores(output, len(rows))
            loss = call_user_code(self._own_loss or self._name, lambda: self._loss(output, labels))
            require(
                torch.equal(random, torch.get_rng_state()),
                f"{self.model} draws random numbers, as dropout does, that are not fixed by seed, "
                "node and iteration: a run could not be repeated. Take it out, or set p=0",
            )
        changed = [name for name in fixed if not torch.equal(fixed[name], before[name])]
        require(not changed, f"{self.model}: its buffer {', '.join(changed)} changes {STATE}")
        if not isinstance(loss, torch.Tensor) or loss.shape != () or not loss.is_floating_point():
            shown = f"shape {tuple(loss.shape)}" if hasattr(loss, "shape") else type(loss).__name__
            raise ValueError(f"{self._own_loss} must return one real number, not {shown}")

    def _require_scores(self, output: Any, rows: int) -> None:
        """Raise ValueError if cross entropy needs scores that the output has not."""
        shape = tuple(getattr(output, "shape", ()))
        scores = len(shape) == 2 and shape[0] == rows and shape[1] >= self.classes
        require(
            scores or self._own_loss is not None,
            f"{self.model} must return scores ({rows} rows, {self.classes} classes or more), "
            f"not {shape or type(output).__name__}",
        )
        if not scores:
            self._without_scores()

    def try_out(self, x1: Array) -> None:
        """Compute once all that iterations compute; find out whether seeds can be vectorised."""
        if self._together:
            rows = self._rows.at(1)
            try:
                together = self._gradients(x1, rows)
                self._means(np.asarray(x1, np.float64), rows[0])
                why = ""
            except Exception as error:
                why = " ".join(str(error).split()).partition(". ")[0][:300]
            self._together = False
            alone = self._gradients(x1, rows)
            if not why and not np.allclose(together, alone, rtol=1e-2, atol=1e-4, equal_nan=True):
                why = "its results would differ"
            self._together = not why
            if why:
                self.warnings.append(
                    f"{self.model} cannot be vectorised over seeds, which are computed one after "
                    f"the other: {why}"
                )
        super().try_out(x1)

    def _batch(self, rows: Any, dtype: Any) -> tuple[Any, Any]:
        """Return the features of these rows in a dtype of torch, and their labels."""
        return self._features[rows].to(dtype) * self._scale, self._targets[rows]

    def _output(self, x: Any, fixed: Tensors, features: Any) -> Any:
        """Return what the module makes of the features with one seed's parameters x (dim,)."""
        from torch.func import functional_call

        return functional_call(self._net.module, {**self._net.named(x), **fixed}, (features,))

    def _scored(self, x: Any, fixed: Tensors, features: Any, labels: Any) -> tuple[Any, Any]:
        """Return loss and output, or the loss twice if the output has no scores."""
        output = self._output(x, fixed, features)
        loss = self._loss(output, labels)
        return loss, output if self._scores else loss

    def _gradients(self, x: Array, rows: Array) -> Array:
        torch = start_torch()
        at, fixed = torch.tensor(np.ascontiguousarray(x)), self._fixed[x.dtype]
        batch = self._batch(torch.tensor(rows), at.dtype)
        if self._together:
            gradients = self._called(self._of_own_rows, at, fixed, *batch)[0]
        else:
            gradients = torch.stack(
                [
                    self._called(
                        self._one, at[seed], of_seed(fixed, seed), *(each[seed] for each in batch)
                    )[0]
                    for seed in range(len(at))
                ]
            )
        made: Array = gradients.numpy()
        return made

    def _means(self, x: Array, rows: Array) -> tuple[Array, Array, Array]:
        torch = start_torch()
        at = torch.tensor(np.ascontiguousarray(x, np.float64))
        fixed = self._fixed[np.dtype(np.float64)]
        features, labels = self._batch(torch.tensor(rows), at.dtype)
        if self._together:
            parts = self._called(self._of_same_rows, at, fixed, features, labels)
        else:
            each = [
                self._called(self._one, at[seed], of_seed(fixed, seed), features, labels)
                for seed in range(len(at))
            ]
            parts = tuple(torch.stack(values) for values in zip(*each, strict=True))
        gradient, loss, output = parts
        correct = np.zeros(len(x), np.int64)
        if self._scores:
            correct += (output.argmax(dim=2) == labels).sum(dim=1).numpy()
        return loss.detach().numpy(), gradient.numpy(), correct

    def _score(self, rows: Array, labels: Array, x: Array) -> Array:
        torch = start_torch()
        features = torch.from_numpy(np.ascontiguousarray(rows)).double() * self._scale
        targets, correct = torch.from_numpy(labels.astype(np.int64)), []
        fixed = self._fixed[np.dtype(np.float64)]
        with torch.no_grad():
            for seed, at in enumerate(torch.tensor(np.ascontiguousarray(x, np.float64))):
                output = self._called(self._output, at, of_seed(fixed, seed), features)
                correct.append(int((output.argmax(dim=1) == targets).sum()))
        return np.array(correct, np.int64)

    def _one(self, x: Any, fixed: Tensors, features: Any, labels: Any) -> tuple[Any, Any, Any]:
        """Return gradient, loss and output of one seed."""
        torch = start_torch()
        at = x.detach().requires_grad_()
        loss, output = self._scored(at, fixed, features, labels)
        (gradient,) = torch.autograd.grad(loss, at)
        return gradient, loss.detach(), output.detach()

    def _vectorised(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """Return `_one` for all seeds at once: each with rows of its own, or all with the same."""
        from torch.func import grad_and_value, vmap

        def one(*at: Any) -> tuple[Any, Any, Any]:
            gradient, (loss, output) = grad_and_value(self._scored, has_aux=True)(*at)
            return gradient, loss, output

        return vmap(one, in_dims=(0, 0, 0, 0)), vmap(one, in_dims=(0, 0, None, None))

    def _called(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return the result of code that is the user's: a failure of it is not ours."""
        try:
            return function(*arguments)
        except Exception as error:
            raise blame(error, self.model)  # noqa: B904
