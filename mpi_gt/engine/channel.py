"""An unreliable channel in a run: the nodes' ends of it, and nodes that rest."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..channels import Channel
from ..config import RunConfig

if TYPE_CHECKING:
    from .build import Experiment

Array = NDArray[Any]
Step = Callable[..., Any]


class NoGradient:
    """The `grad` of a node that does not compute."""

    def __call__(self, x: Array) -> Array:
        return np.zeros_like(x)

    full = __call__


def with_rests(experiment: "Experiment", step: Step) -> Step:
    """Return the step of nodes that are inactive at times: they keep their state.

    Also then a node takes part in the exchange, whose messages nobody counts: without it, its
    neighbours would wait.
    """
    channel = experiment.channel
    if channel is None or not channel.inactive:
        return step
    if experiment.config.stacked:
        return _stacked(experiment, step)
    from ..channels.draws import Draws  # here: few runs need it

    active, node, none = Draws(channel).active, experiment.node.row.node, NoGradient()

    def resting(t: int, state: Any, mix: Any, grad: Any) -> Any:
        if active(t, node):
            return step(t, state, mix, grad)
        step(t, state, mix, none)
        return state

    return resting


def _stacked(experiment: "Experiment", step: Step) -> Step:
    node = experiment.node

    def resting(t: int, state: Any, mix: Any, grad: Any) -> Any:
        active, counted = node.channel.active(t), node.gradients
        made = step(t, state, mix, grad)
        if not active[0]:
            node.gradients = counted  # of the first node, as on ranks
        fields = zip(made, state, strict=True)
        return type(made)(*(np.where(_like(active, old), new, old) for new, old in fields))

    return resting


def _like(active: Array, field: Array) -> Array:
    return active.reshape(-1, *[1] * (field.ndim - 1))


def connect(config: RunConfig, node: Any) -> Channel | None:
    """Put the channel of the run between the node and the others; return it, None without one."""
    channel = channel_of(config.channel)
    if channel is not None:
        node.hear_through(channel)
    return channel


def channel_facts(experiment: "Experiment") -> dict[str, Any]:
    """Return what run.json says about the channel, if there is one."""
    return {} if experiment.channel is None else {"channel": experiment.channel.facts()}


def channel_of(text: str | None) -> Channel | None:
    """Return the channel of a configuration; None where it changes nothing."""
    channel = None if text is None else Channel.of(text)
    return channel if channel is not None and channel.acts else None
