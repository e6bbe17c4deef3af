"""A stacked run node by node: every node's own `step`, with the arrays that a rank would have.

Most steps are entrywise and take all nodes at once. One that looks at its place, or at each of its
neighbours, cannot: here it runs once per node, in a thread of the node's own. One thread runs at a
time, in rank order; it hands over where its node waits for vectors that others have not sent yet.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..graphs.network import LayerRow, Row
from ..kernels.reference import NextGradient, WeightedSum
from ..user_classes.failures import blame
from .base import weights_in_order
from .compression import without_compressor
from .stacked import StackedNode
from .turns import Stuck, Turns

Array = NDArray[Any]


class NodeByNode:
    """The algorithms of all nodes, with the interface of one algorithm on stacked arrays."""

    def __init__(
        self,
        algorithms: Sequence[Any],
        node: StackedNode,
        gradients: Sequence[tuple[Any, Any]],
        costs: tuple[int, int],
        rows: Sequence[Row],
    ) -> None:
        self._algorithms = algorithms
        counters = [node, *(_Uncounted(node) for _ in rows[1:])]
        self._grads = [
            NextGradient(counter, *each, *costs)
            for counter, each in zip(counters, gradients, strict=True)
        ]
        self._node = node
        self._exchanges = Exchanges(node, rows)
        self._turns = Turns(len(rows))

    def init(self, x: Array, grad: Any) -> Any:
        """Return the stacked State at t = 1."""
        places = zip(self._algorithms, x, self._grads, strict=True)
        return stack([each.init(own, own_grad) for each, own, own_grad in places])

    def step(self, t: int, state: Any, mix: Any, grad: Any) -> Any:
        """Return the stacked State at t + 1."""
        self._exchanges.clear()

        def run(node: int) -> Any:
            own = type(state)(*(array[node] for array in state))
            own_mix = NodeMix(self._exchanges, node, partial(self._turns.wait_until, node))
            made = self._algorithms[node].step(t, own, own_mix, self._grads[node])
            try:
                own_mix.require_waited()
            except RuntimeError as error:
                raise blame(error, f"step at iteration {t}")  # noqa: B904 (the same error)
            return made

        try:
            return stack(self._turns.run(run))
        except Stuck as stuck:
            raise RuntimeError(
                f"node {stuck.waiting[0]} waits for vectors that a neighbour does not send: every "
                "step must mix the same numbers of vectors, on every node"
            ) from None

    def close(self) -> None:
        """End the threads."""
        self._turns.close()


class _Uncounted:
    """A node other than the first: the gradients of one node are counted."""

    gradients = 0

    def __init__(self, first: StackedNode) -> None:
        self._first = first

    @property
    def iteration(self) -> int:
        return self._first.iteration


def stack(states: Sequence[Any]) -> Any:
    """Return the States of all nodes as one, with a leading axis of nodes, read-only."""
    stacked = type(states[0])(*(np.stack(arrays) for arrays in zip(*states, strict=True)))
    for array in stacked:
        array.flags.writeable = False
    return stacked


class Exchanges:
    """The vectors that the nodes have sent in this step, by exchange and node."""

    def __init__(self, node: StackedNode, rows: Sequence[Row]) -> None:
        self._node = node
        self.rows = rows
        self._sums: dict[tuple[int, int, str, Any, int], WeightedSum] = {}
        self._sent: list[dict[int, tuple[Array, ...]]] = []

    def clear(self) -> None:
        """Forget the exchanges of the last step."""
        self._sent.clear()

    def _row(self, node: int) -> LayerRow:
        """Return a node's part of this iteration's layer."""
        return self.rows[node].layers[self._node.layer]

    def compressed(self, node: int, vectors: Sequence[Array]) -> tuple[list[Array], int]:
        """Return what neighbours decode of the vectors, and the bytes of the payloads."""
        if self._node.encoders is None:
            without_compressor()
        encoder = self._node.encoders[node]  # type: ignore[index]
        decoded = [
            encoder.received(self._node.iteration, index, np.asarray(vector))
            for index, vector in enumerate(vectors)
        ]
        return decoded, sum(map(encoder.size, decoded))

    def send(
        self, node: int, number: int, vectors: Sequence[Array], size: int | None = None
    ) -> None:
        """Send copies of the vectors, in exchange `number` of this node's step.

        `size` is the number of bytes, if they are not sent as they are.
        """
        if number == len(self._sent):
            self._sent.append({})
        self._sent[number][node] = tuple(np.array(vector) for vector in vectors)
        if size is None:
            size = sum(vector.nbytes for vector in vectors)
        self._node.bytes_sent[node] += len(self._row(node).targets) * size

    def is_complete(self, node: int, number: int) -> bool:
        """Return whether all sources of this node have sent theirs."""
        return all(j in self._sent[number] for j in self._row(node).sources)

    def received(self, node: int, number: int, index: int) -> dict[int, Array]:
        """Return copies of the sources' vectors, by source."""
        theirs = self._sent_to(node, number, index)
        if self._node.channel is None:
            return theirs
        reception, own = self._node.channel.receptions[node], self._sent[number][node][index]
        return reception.each(self._node.iteration, self._vector(node, number, index), own, theirs)

    def _vector(self, node: int, number: int, index: int) -> int:
        """Return the number of a vector among all that this step of the node mixes."""
        return sum(len(exchange[node]) for exchange in self._sent[:number]) + index

    def _sent_to(self, node: int, number: int, index: int) -> dict[int, Array]:
        sent = self._sent[number]
        own, sources = sent[node], self._row(node).sources
        for j in sources:
            if [z.shape for z in sent[j]] != [z.shape for z in own]:
                raise RuntimeError(
                    f"node {node} mixes {len(own)} vectors of shape {own[0].shape}, "
                    f"node {j} {len(sent[j])} of shape {sent[j][0].shape}"
                )
        return {j: sent[j][index].copy() for j in sources}

    def mixed(self, node: int, number: int, index: int) -> Array:
        """Return the weighted sum, added up in rank order as on ranks."""
        own = self._sent[number][node][index]
        theirs = self._sent_to(node, number, index)
        kind = self._node.kind(index)
        if self._node.channel is not None:
            reception, t = self._node.channel.receptions[node], self._node.iteration
            return reception.mixed(t, self._vector(node, number, index), kind, own, theirs)
        key = node, self._node.layer, kind, own.dtype, own.size
        if key not in self._sums:
            (weights,), place = weights_in_order(node, self._row(node), (kind,), own.dtype)
            self._sums[key] = WeightedSum(weights, place, own.size)
        received = np.empty((len(theirs), own.size), own.dtype)
        for row, vector in enumerate(theirs.values()):
            received[row] = vector.reshape(-1)
        return self._sums[key](received, own)


class NodeMix:
    """The `mix` of one node in one step; as on a rank, each result must be waited for once."""

    def __init__(
        self, exchanges: Exchanges, node: int, wait_until: Callable[[Callable[[], bool]], None]
    ) -> None:
        self._exchanges = exchanges
        self._node = node
        self._wait_until = wait_until
        self._number = -1  # of the last exchange
        self._pending: set[int] = set()  # its results that were not waited for yet

    def __call__(self, *vectors: Array) -> "Results":
        return self._send(vectors, self._exchanges.mixed)

    def each(self, *vectors: Array) -> "Results":
        return self._send(vectors, self._exchanges.received)

    def compressed(self, *vectors: Array) -> tuple[tuple[Array, "Result"], ...]:
        decoded, size = self._exchanges.compressed(self._node, vectors)
        results = self._send(tuple(decoded), self._exchanges.mixed, size)
        return tuple(zip(decoded, results, strict=True))

    def require_waited(self) -> None:
        """Raise RuntimeError if a result was never waited for."""
        if self._pending:
            raise RuntimeError("a result of the last mix was never waited for")

    def _send(
        self, vectors: tuple[Array, ...], result: Callable[..., Any], size: int | None = None
    ) -> "Results":
        self.require_waited()
        if not vectors:
            raise ValueError("mix takes 1 vector or more")
        self._number += 1
        self._pending = set(range(len(vectors)))
        self._exchanges.send(self._node, self._number, vectors, size)
        return Results(Result(self, self._number, index, result) for index in range(len(vectors)))

    def collect(self, number: int, index: int, result: Callable[..., Any]) -> Any:
        """Return a result once all neighbours have sent their vectors."""
        if number != self._number or index not in self._pending:
            raise RuntimeError("this result of mix was waited for already")
        self._pending.remove(index)
        self._wait_until(partial(self._exchanges.is_complete, self._node, number))
        return result(self._node, number, index)


class Result:
    """One pending result of a node's mix."""

    def __init__(self, mix: NodeMix, number: int, index: int, result: Callable[..., Any]) -> None:
        self._mix = mix
        self._arguments = number, index, result

    def wait(self) -> Any:
        return self._mix.collect(*self._arguments)


class Results(tuple[Result, ...]):
    """One result per vector; with a single vector, `mix(z).wait()` works as well."""

    def wait(self) -> Any:
        (only,) = self
        return only.wait()
