"""Words in shared memory that count exchanges: the Python twin of words.c, and the one in use."""

import time
from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from .. import C

Array = NDArray[Any]

MASK = (1 << 32) - 1


class PolledWords:
    """The counts of exchanges of a rank, of those it hears and of those that hear it.

    Each is the first entry of an array of uint32; it begins again at 0 after its largest number. A
    rank that waits looks again and again, and leaves its core to others in between.
    """

    def __init__(self, own: Array, sources: Sequence[Array], readers: Sequence[Array]) -> None:
        self._own = own
        self._sources = sources
        self._readers = readers
        self.count = int(own[0])
        self.for_readers = False  # true while this rank waits for those

    def publish(self) -> None:
        """Count one more exchange, whose slot is filled."""
        self.count = (self.count + 1) & MASK
        self._own[0] = self.count

    def wait(self, index: int) -> None:
        """Wait until all sources have published this exchange."""
        self._await(self._sources)

    def wait_for_readers(self) -> None:
        """Wait until the slot of the next exchange may be written.

        All readers must have published the last one: they have then read the one before, which is
        in the same slot.
        """
        self.for_readers = True
        self._await(self._readers)
        self.for_readers = False

    def _await(self, words: Sequence[Array]) -> None:
        for word in words:
            while not reached(word, self.count):
                time.sleep(0)


def reached(word: Array, count: int) -> bool:
    """Return whether a word has reached a count."""
    return (int(word[0]) - count) & MASK <= MASK >> 1


Words: type[PolledWords] = PolledWords if C is None else C.Words
