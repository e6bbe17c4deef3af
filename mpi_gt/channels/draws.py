"""Draws of a channel: which edges, messages and nodes fail at iteration t, and the noise.

Every number is fixed by the channel's seed, the edge, arc or node, and t. They are drawn in blocks
of iterations, since to set up a generator takes as long as hundreds of its numbers.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels import fixed_order
from .channel import Channel

Array = NDArray[Any]

BLOCK = 256  # iterations whose failures are drawn at once
NUMBERS = 512  # of noise that are drawn at once, if a vector is shorter
LINKS, LOSS, INACTIVE, NOISE = (0x6368616E << 32 | purpose << 16 for purpose in range(4))
"""The second words of Philox keys; to that of the noise the number of the vector is added."""
SAME, SWAPPED = -1, -2  # what a draw makes of the state before; else it is the state, 0 or 1


class Draws:
    """The realisation of a channel."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._arrivals: dict[tuple[int, tuple[int, ...]], tuple[int, Array]] = {}
        self._active: dict[int, tuple[int, Array]] = {}
        self._noise: dict[tuple[int, int, int], tuple[int, Array]] = {}
        self._ends: dict[tuple[int, int, int], tuple[int, bool]] = {}
        """The last state of each chain, with its block: bursts may be longer than a block."""

    def arrivals(self, t: int, node: int, sources: tuple[int, ...]) -> Array:
        """Return, for each source, whether its message of iteration t arrives at the node."""
        block, place = divmod(t - 1, BLOCK)
        known = self._arrivals.get((node, sources))
        if known is None or known[0] != block:
            table = np.empty((BLOCK, len(sources)), bool)
            for column, source in enumerate(sources):
                table[:, column] = self._arrivals_of(block, node, source)
            known = self._arrivals[node, sources] = block, table
        row: Array = known[1][place]
        return row

    def _arrivals_of(self, block: int, node: int, source: int) -> Array:
        channel = self._channel
        arrives = self.active_in(block, node) & self.active_in(block, source)
        if channel.links:
            ends = min(node, source), max(node, source)
            arrives &= ~self.failures(LINKS, channel.links, block, *ends)
        if channel.loss:
            arrives &= ~self.failures(LOSS, channel.loss, block, node, source)
        return arrives

    def active(self, t: int, node: int) -> bool:
        """Return whether a node computes and talks at iteration t."""
        block, place = divmod(t - 1, BLOCK)
        return bool(self.active_in(block, node)[place])

    def active_in(self, block: int, node: int) -> Array:
        """Return whether a node is active, for each iteration of a block."""
        if not self._channel.inactive:
            return np.ones(BLOCK, bool)
        known = self._active.get(node)
        if known is None or known[0] != block:
            active = self._uniform(INACTIVE, block, node, 0) >= self._channel.inactive
            known = self._active[node] = block, active
        return known[1]

    def failures(self, purpose: int, share: float, block: int, one: int, other: int) -> Array:
        """Return whether an edge or arc fails, for each iteration of a block."""
        burst = self._channel.burst
        if burst is None:
            return self._uniform(purpose, block, one, other) < share
        at, before = self._ends.get((purpose, one, other), (-1, False))
        if at != block - 1:
            before = self._state_before(purpose, share, burst, block, one, other)
        states = follow(self._effects(purpose, share, burst, block, one, other), before)
        self._ends[purpose, one, other] = block, bool(states[-1])
        return states

    def _effects(
        self, purpose: int, share: float, burst: float, block: int, one: int, other: int
    ) -> Array:
        """Return what each draw of a block makes of the state before it: 1 is a failure."""
        uniform = self._uniform(purpose, block, one, other)
        begins, ends = share / (1 - share) / burst, 1 / burst  # the chances of a change
        effects = np.where(uniform < min(begins, 1 - ends), 1, 0)
        between = (uniform >= min(begins, 1 - ends)) & (uniform < max(begins, 1 - ends))
        effects[between] = SAME if begins <= 1 - ends else SWAPPED
        if block == 0:
            effects[0] = uniform[0] < share  # the first state is drawn from the shares
        return effects

    def _state_before(
        self, purpose: int, share: float, burst: float, block: int, one: int, other: int
    ) -> bool:
        """Return the state before a block, from the last draw that sets it, whatever was before."""
        swapped = False
        while block:
            block -= 1
            effects = self._effects(purpose, share, burst, block, one, other)
            setting = np.flatnonzero(effects >= 0)
            last = int(setting[-1]) if len(setting) else -1
            swapped ^= bool(np.count_nonzero(effects[last + 1 :] == SWAPPED) % 2)
            if len(setting):
                return bool(effects[last]) ^ swapped
        return swapped

    def noise(self, t: int, node: int, sources: Sequence[int], vector: int, size: int) -> Array:
        """Return the noise in a vector from each of the sources, (sources, size).

        `vector` is the number of the vector among those that the step mixes.
        """
        rows = max(1, NUMBERS // max(size, 1))
        block, place = divmod(t - 1, rows)
        made = np.empty((len(sources), size))
        for index, source in enumerate(sources):
            key = node, source, vector
            known = self._noise.get(key)
            if known is None or known[0] != block or known[1].shape != (rows, size):
                random = self._generator(NOISE + vector, block, node, source)
                known = block, fixed_order.standard_normal(random, (rows, size))
                self._noise[key] = known
            made[index] = known[1][place]
        made *= self._channel.noise
        return made

    def _uniform(self, purpose: int, block: int, one: int, other: int) -> Array:
        return self._generator(purpose, block, one, other).random(BLOCK)

    def _generator(self, purpose: int, block: int, one: int, other: int) -> np.random.Generator:
        key = np.array([self._channel.seed, purpose], np.uint64)
        counter = np.array([0, block, one, other], np.uint64)
        return np.random.Generator(np.random.Philox(key=key, counter=counter))


def follow(effects: Array, before: bool) -> Array:
    """Return the states of a chain whose first one follows on `before`."""
    setting = effects >= 0
    places = np.arange(len(effects))
    last = np.maximum.accumulate(np.where(setting, places, -1))  # the draw that set the state
    state = np.where(last < 0, before, effects[np.maximum(last, 0)] == 1)
    swaps = np.cumsum(effects == SWAPPED)
    swaps -= np.where(last < 0, 0, swaps[np.maximum(last, 0)])
    return state ^ (swaps % 2 == 1)
