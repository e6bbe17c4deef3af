"""Methods that can run on a channel."""

from collections.abc import Iterable

from ..algorithms import ALGORITHMS
from .channel import EFFECTS, Channel


def methods_for(options: Iterable[str]) -> str:
    """Return the list of all methods that take a channel with these options, by name."""
    given = ",".join(f"{name}=0.1" for name in dict.fromkeys(options) if name in EFFECTS)
    if not given:
        return ",".join(ALGORITHMS)
    channel = Channel.of(given)
    return ",".join(name for name, made in ALGORITHMS.items() if channel.takes(made()))
