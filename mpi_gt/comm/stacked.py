"""All nodes in one process without MPI: the same step on arrays of shape (nodes, seeds, dim).

The tests compare MPI runs with it, and a profile uses it as a baseline without communication.
"""

import secrets
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import kernels
from ..channels import Channel
from ..graphs.network import Arcs
from ..kernels.reference import NextGradient, WeightedSum, advance
from ..problems.base import Problem
from .compression import Encoder, Pairs, without_compressor
from .means import add_along_tree

if TYPE_CHECKING:
    from .channel import StackedChannel

Array = NDArray[Any]


class ReadyMix:
    """A mixed vector that is available at once: the counterpart of PendingMix."""

    def __init__(self, value: Array) -> None:
        self._value = value

    def wait(self) -> Array:
        return self._value


class ReadyMixes(tuple[ReadyMix, ...]):
    """One result per vector; with a single vector, `mix(z).wait()` works as well."""

    def wait(self) -> Array:
        (only,) = self
        return only.wait()


class StackedNode:
    """All nodes at once, with the interface of Node.

    `arcs` are the layers of the graph. `reproducible`: mix in the order of the ranks, which takes
    the compiled kernels, not by a BLAS.
    """

    is_root = True
    rank = 0
    reach = 1  # iterations until all nodes know of a stop

    def __init__(self, arcs: Arcs, reproducible: bool = False) -> None:
        self._arcs = arcs
        self._reproducible = reproducible
        self._matrices: dict[tuple[int, str], Array] = {}
        self.nodes = arcs.layers[0].nodes
        self.turns = arcs.turns
        self.kinds: tuple[str, ...] = ("A",)
        self.encoders: Sequence[Encoder] | None = None
        self.channel: StackedChannel | None = None
        self.restart()

    @property
    def layer(self) -> int:
        """Return the number of this iteration's layer."""
        return self.turns.at(self.iteration)

    def mix_by(self, kinds: Sequence[str]) -> None:
        """Set the matrices of the next method: one for each vector of `mix`, the last repeats."""
        self.kinds = tuple(kinds)

    def kind(self, index: int) -> str:
        """Return the kind of the matrix for a vector of that number."""
        return self.kinds[min(index, len(self.kinds) - 1)]

    def _matrix(self, index: int) -> Array:
        """Return the matrix of this iteration for a vector of that number."""
        key = self.layer, self.kind(index)
        if key not in self._matrices:
            self._matrices[key] = self._arcs.layers[key[0]].matrix(key[1])
        return self._matrices[key]

    def _count(self, size: int) -> None:
        """Add the bytes of a message of that size from each node to its targets."""
        self.bytes_sent += self._arcs.layers[self.layer].out_degrees * size

    def restart(self) -> None:
        self.iteration = 0
        self.bytes_sent = np.zeros(self.nodes, dtype=np.int64)  # one count per node
        self.gradients = 0  # the same on all nodes
        self.due = 0
        self.deadline = 0.0
        self.clear_stop()

    def clear_stop(self) -> None:
        self.stop_at = int(np.iinfo(np.int64).max)

    def start_barrier(self) -> None:
        pass

    def finish_barrier(self) -> None:
        pass

    def idle_barrier(self) -> None:
        pass

    def host_group(self) -> "OneProcess":
        return OneProcess()

    def hear_through(self, channel: Channel) -> None:
        """Mix over an unreliable channel from now on."""
        from .channel import StackedChannel  # here: few runs need it

        self.channel = StackedChannel(channel, self._arcs)

    def compress_with(self, encoders: Sequence[Encoder] | None) -> None:
        """Set the encoders of `mix.compressed`, one per node; None if there are none."""
        self.encoders = encoders

    @property
    def mix(self) -> "StackedMix":
        return StackedMix(self)

    def send(self, *vectors: Array) -> ReadyMixes:
        """Mix the vectors of all nodes."""
        self._count(sum(z[0].nbytes for z in vectors))
        if self.channel is not None:
            return ReadyMixes(map(ReadyMix, self._over_channel(self.channel, vectors)))
        return ReadyMixes(ReadyMix(self._times(z, index)) for index, z in enumerate(vectors))

    def _over_channel(self, channel: "StackedChannel", vectors: Sequence[Array]) -> list[Array]:
        t, first = self.iteration, channel.count.add(self.iteration, len(vectors))
        if channel.noisy:
            return [
                channel.mixed(t, first + index, self.kind(index), z)
                for index, z in enumerate(vectors)
            ]
        return [
            self._in_rank_order(channel.matrix(t, self._matrix(index)), z)
            for index, z in enumerate(vectors)
        ]

    def send_compressed(self, *vectors: Array) -> Pairs:
        """Mix what neighbours decode of the vectors, added up as the ranks do.

        A matrix product would differ in the last bit, and such a bit can flip a sign or a rounding
        in the next step.
        """
        if self.encoders is None:
            return without_compressor(*vectors)
        pairs = []
        for index, z in enumerate(vectors):
            own = np.stack(
                [each.received(self.iteration, index, z[i]) for i, each in enumerate(self.encoders)]
            )
            self._count(self.encoders[0].size(z[0]))
            pairs.append((own, ReadyMix(self._in_rank_order(self._matrix(index), own))))
        return tuple(pairs)

    def grad(
        self,
        gradient: Callable[[int, Array], Array],
        full: Callable[[Array], Array],
        costs: tuple[int, int],
    ) -> NextGradient:
        return NextGradient(self, gradient, full, *costs)

    def stepper(
        self, step: Callable[..., Any], grad: Any, last: int
    ) -> Callable[[int, list[Any]], int]:
        return partial(advance, step, self, self.mix, grad, last)

    def _in_rank_order(self, matrix: Array, z: Array) -> Array:
        matrix = np.ascontiguousarray(matrix.astype(z.dtype, copy=False))
        flat = np.ascontiguousarray(z).reshape(self.nodes, -1)
        mixed = np.empty_like(flat)
        if kernels.C is not None:
            kernels.C.mix_all(mixed, matrix, flat)
            return mixed.reshape(z.shape)
        for i, weights in enumerate(matrix):
            (terms,) = np.nonzero((weights != 0) | (np.arange(self.nodes) == i))
            place = int(np.flatnonzero(terms == i)[0])
            add = WeightedSum(weights[terms], place, flat.shape[1])
            mixed[i] = add(flat[np.delete(terms, place)], flat[i])
        return mixed.reshape(z.shape)

    def _times(self, z: Array, index: int = 0) -> Array:
        if self._reproducible and kernels.C is not None:
            return self._in_rank_order(self._matrix(index), z)
        matrix = self._matrix(index).astype(z.dtype, copy=False)
        return (matrix @ z.reshape(self.nodes, -1)).reshape(z.shape)

    def mean(self, z: Array, everywhere: bool = True) -> Array:
        """Return the mean over all nodes, with the bits that ranks would get."""
        return add_along_tree(z) / self.nodes

    def gather(self, z: Array) -> Array:
        return z

    def broadcast_flag(self, flag: bool) -> bool:
        return flag

    def stream_to_root(self, z: Array) -> Iterator[Array]:
        return iter(z)

    def free(self) -> None:
        pass


class OneProcess:
    """The only process of a stacked run, with the interface of HostGroup as far as it needs one."""

    is_writer = True

    def __init__(self) -> None:
        self.name = secrets.token_hex(8)


class StackedMix:
    """The `mix` of all nodes at once."""

    def __init__(self, node: StackedNode) -> None:
        self._node = node

    def __call__(self, *vectors: Array) -> ReadyMixes:
        return self._node.send(*vectors)

    def compressed(self, *vectors: Array) -> Pairs:
        return self._node.send_compressed(*vectors)


class StackedProblem:
    """The problems of all nodes, with the interface of Problem: one problem object per node."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self._problems = problems
        self.dim = problems[0].dim

    def gradient(self, t: int, x: Array) -> Array:
        return np.stack(
            [problem.gradient(t, own) for problem, own in zip(self._problems, x, strict=True)]
        )

    def __getattr__(self, name: str) -> Any:
        """Return an optional method of the problems, such as `accuracy`, for all nodes at once."""
        if name.startswith("_") or getattr(self._problems[0], name, None) is None:
            raise AttributeError(name)
        return lambda *at: np.stack([getattr(problem, name)(*at) for problem in self._problems])

    def metrics(self, x: Array) -> dict[str, Array]:
        """Return the problems' own metrics, each (nodes, seeds)."""
        first, *others = (problem.metrics(x) for problem in self._problems)
        return {name: np.stack([first[name], *(o[name] for o in others)]) for name in first}

    def evaluate(self, x: Array) -> tuple[Array, Array]:
        """Evaluate all nodes at one x (seeds, dim), or each at its own x (nodes, seeds, dim)."""
        points = [x] * len(self._problems) if x.ndim == 2 else x
        losses, gradients = zip(
            *(problem.evaluate(at) for problem, at in zip(self._problems, points, strict=True)),
            strict=True,
        )
        return np.stack(losses), np.stack(gradients)
