"""A module of PyTorch with its parameters and what stays fixed, for one seed or for all."""

import contextlib
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...errors import UserError
from ...user_classes import call_user_code

Tensors = dict[str, Any]

STATE = (
    "when it is called: nodes do not exchange buffers, and batches would depend on one another. "
    "Use GroupNorm or LayerNorm instead of BatchNorm"
)


class Net(NamedTuple):
    """One seed's module, with its parameters."""

    module: Any
    names: tuple[str, ...]  # of the parameters that need a gradient
    params: tuple[Any, ...]
    sizes: tuple[int, ...]

    def named(self, x: Any) -> Tensors:
        """Return the parameters that are the entries of x (dim,), by name."""
        pieces = x.split(self.sizes)
        return {
            name: piece.view(like.shape)
            for name, piece, like in zip(self.names, pieces, self.params, strict=True)
        }


@functools.cache
def start_torch() -> Any:
    """Import PyTorch and limit it to one thread; return the package.

    More threads would only compete with the other ranks for the cores.
    """
    import torch

    torch.set_num_threads(1)
    with contextlib.suppress(RuntimeError):  # too late, in a process that has used it before
        torch.set_num_interop_threads(1)
    return torch


def make_network(name: str, make: Callable[[], Any], seed: int) -> Net:
    """Return the module of one seed; raise UserError if a node cannot have it."""
    torch = start_torch()

    def made() -> Any:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return make()

    module = call_user_code(name, made)
    if not isinstance(module, torch.nn.Module):
        raise UserError(f"{name} returns a {type(module).__name__}, not a torch.nn.Module")
    for key, part in module.named_modules():
        if isinstance(part, torch.nn.modules.batchnorm._BatchNorm):
            raise UserError(
                f"{name}: its layer {key or type(part).__name__} is a BatchNorm, whose statistics "
                f"change {STATE}"
            )
    named = dict(module.named_parameters())
    for key, each in named.items():
        if isinstance(each, torch.nn.parameter.UninitializedParameter):
            raise UserError(f"{name}: {key} has no size yet: give lazy layers their sizes")
        if not each.is_floating_point():
            raise UserError(f"{name}: the parameter {key} is of dtype {each.dtype}, not a float")
    trained = {key: each for key, each in named.items() if each.requires_grad}
    if not trained:
        raise UserError(f"{name} has no parameters")
    sizes = tuple(int(each.numel()) for each in trained.values())
    return Net(module, tuple(trained), tuple(trained.values()), sizes)


def torch_dtype(dtype: Any) -> Any:
    """Return the dtype of torch of a dtype of numpy."""
    torch = start_torch()
    return torch.float32 if np.dtype(dtype) == np.float32 else torch.float64


def fixed_tensors(nets: list[Net], dtype: Any) -> Tensors:
    """Return buffers, and parameters that need no gradient, of all seeds, floats in one dtype."""
    torch = start_torch()

    def of(net: Net) -> Tensors:
        named = {**dict(net.module.named_parameters()), **dict(net.module.named_buffers())}
        return {
            name: each.detach().to(torch_dtype(dtype)) if each.is_floating_point() else each
            for name, each in named.items()
            if name not in net.names
        }

    first, *others = map(of, nets)
    return {name: torch.stack([first[name], *(o[name] for o in others)]) for name in first}


def of_seed(fixed: Tensors, seed: int) -> Tensors:
    return {name: each[seed] for name, each in fixed.items()}
