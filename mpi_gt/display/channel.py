"""Sentences about an unreliable channel, below the results of a run."""

from typing import Any

from ..algorithms import full_name

LARGE = {"float64": 1e-8, "float32": 1e-3}
"""Tracking errors beyond what rounding explains."""


def channel_sentences(facts: dict[str, Any]) -> list[str]:
    """Return what the reader of the results has to know about the channel; nothing without one."""
    config = facts["config"]
    if not facts.get("channel"):
        return []
    sentences = [f"channel {config['channel']}: {facts['channel']['note']}"]
    for label, result in facts["results"].items():
        error = (result.get("final") or {}).get("tracking")
        if error is not None and error > LARGE[config["dtype"]]:
            sentences.append(
                f"the channel breaks mean s = mean g of {full_name(label)}: they are {error:.1e} "
                "apart at the end, so it need not come to rest where the gradient of f is zero"
            )
    return sentences
