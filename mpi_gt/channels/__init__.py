"""Unreliable channels, emulated where messages arrive: what is lost, and what is made of the rest.

MPI carries every message. All ranks draw from the same counter-based streams which of them count,
so no message tells it, and the numbers of a run depend neither on the MPI nor on a restart.
"""

from .channel import Channel

__all__ = ["Channel"]
