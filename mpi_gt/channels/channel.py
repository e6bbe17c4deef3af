"""The option --channel: shares of links, messages and nodes that fail, noise, bursts."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..errors import UserError
from ..spec import convert_options, split

SHARES = ("links", "loss", "inactive")
"""The options that are probabilities."""
EFFECTS = ("links", "loss", "noise", "inactive")
"""The options that do something; the others say how."""


@dataclass(frozen=True)
class Channel:
    """An unreliable channel: links, messages or nodes fail at random, or numbers are disturbed.

    Whatever does not arrive at iteration t, the receiver keeps the weight for its own vector:
    A_ii + A_ij. The seeds of a run share what is lost, for one message carries all of them; noise
    is drawn for each number.

    Options:
        links in [0, 1): share of the edges that are down at t, in both directions
        loss in [0, 1): share of the messages that are lost, each by itself
        noise >= 0: standard deviation of a normal number added to each number that arrives
        inactive in [0, 1): share of the nodes that neither compute nor talk at t
        burst >= 1, default independent draws: mean iterations that an edge stays down, or that
            the messages from one node to another stay lost
        seed in [0, 2^63): the number of the realisation
    """

    links: float = 0.0
    loss: float = 0.0
    noise: float = 0.0
    inactive: float = 0.0
    burst: float | None = None
    seed: int = 0

    @classmethod
    def of(cls, text: str) -> "Channel":
        """Parse links=P,noise=SD,... into a checked channel."""
        _, given = split(f"channel:{text}")
        channel = cls(**convert_options("--channel", cls, given))
        if not any(name in given for name in EFFECTS):
            raise UserError(f"--channel needs one of {', '.join(EFFECTS)}, not '{text}'")
        if channel.burst is not None and "links" not in given and "loss" not in given:
            raise UserError(f"--channel: burst goes with links or loss, not with '{text}'")
        channel._check()
        return channel

    def _check(self) -> None:
        for name in SHARES:
            share = getattr(self, name)
            if not 0 <= share < 1:
                raise UserError(f"--channel: {name} must be in [0, 1), not {share:g}")
        if not 0 <= self.noise < math.inf:
            raise UserError(f"--channel: noise must be finite and >= 0, not {self.noise:g}")
        if not 0 <= self.seed < 2**63:
            raise UserError(f"--channel: seed must be in [0, 2^63), not {self.seed}")
        if self.burst is None:
            return
        if not 1 <= self.burst < math.inf:
            raise UserError(f"--channel: burst must be finite and >= 1, not {self.burst:g}")
        for name in ("links", "loss"):
            share = getattr(self, name)
            if share > self.burst * (1 - share):
                raise UserError(
                    f"--channel: {name}={share:g} takes bursts of {share / (1 - share):.4g} "
                    f"iterations or more, not {self.burst:g}: between two bursts there is at "
                    "least one iteration"
                )

    @cached_property
    def fails(self) -> bool:
        """True if messages may not arrive."""
        return any(getattr(self, name) > 0 for name in SHARES)

    @property
    def acts(self) -> bool:
        """True if it changes anything."""
        return self.fails or self.noise > 0

    def require_method(self, label: str, algorithm: Any) -> None:
        """Raise UserError if the channel breaks what the method is made of."""
        if self.acts and getattr(algorithm, "compressor", None) is not None:
            raise UserError(
                f"{label} adds up compressed differences, so every message has to arrive as it "
                "was sent: it takes no --channel; gt, gt-adaptive and dsgd do"
            )
        if self.fails and getattr(algorithm, "graph", "any") in ("static", "symmetric"):
            raise UserError(
                f"{label} needs the same mixing matrix at every iteration, which links, loss and "
                "inactive of --channel change: it takes noise only; gt, gt-adaptive and dsgd "
                "take all of them"
            )

    def takes(self, algorithm: Any) -> bool:
        """Return whether the method can run on this channel."""
        try:
            self.require_method("", algorithm)
        except UserError:
            return False
        return True

    def facts(self) -> dict[str, Any]:
        """Return what run.json says about it."""
        options = {name: getattr(self, name) for name in (*EFFECTS, "burst", "seed")}
        return {"emulated": True, "note": EMULATED, **options}


EMULATED = "emulated at the receivers: MPI carries every message, and bytes counts all of them"
