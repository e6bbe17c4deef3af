"""Checkpoints and stops, on which all ranks agree without messages of their own."""

import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..config import RunConfig
from ..errors import Stopped
from ..graphs.network import Turns
from ..rundir.atomic import storage_error
from ..rundir.checkpoint import SLOTS, Part, as_state, part_path, write_part
from ..rundir.layout import CHECKPOINTS
from .stop import StopFile, StopRequest

STOP, SAVE = 0, 1


def everywhere_at(t: int, nodes: int, turns: Turns, every: int, last: int) -> int:
    """Return an iteration by which all nodes know what one of them sends from step t on.

    Layers take turns, and are used where t % every == 0. The result may be any beyond `last`.
    """
    if turns.seed is None:
        return t + nodes * turns.layers * every
    for _ in range(nodes):
        missing = set(range(turns.layers))
        while missing and t <= last:
            if t % every == 0:
                missing.discard(turns.at(t))
            t += 1
    return t


class Checkpointer:
    """The checkpoints of one rank. All ranks save, and stop, after the same iterations.

    The number `node.stop_at` travels in the header of every message, and the smallest one wins. It
    is 2 T to save and stop after iteration T, and 2 T + 1 to save there and continue. A rank that
    wants a checkpoint before step t names iteration t + nodes: by then every rank knows of it, for
    the distance between two nodes of a connected graph is less than the number of nodes. Where an
    algorithm exchanges every K iterations only, that takes K times as many, and with P layers in
    turn, P times: in a period at least one more node hears of it. Layers that are drawn have no
    period, but all ranks know the draws to come: a period ends when each layer has come once.
    """

    def __init__(
        self,
        config: RunConfig,
        node: Any,
        directory: Path | None,
        identity: str,
        recorder: Any,
        stop: StopRequest | None,
    ) -> None:
        self._node = node
        self._identity = identity
        self._recorder = recorder
        self._stop = stop or StopRequest()
        self._stop.wake = self._end_loop_early = partial(setattr, node, "due", 0)
        self._directory = directory
        self._last = config.iterations
        self._every = config.checkpoint_every
        self._seconds = None if not config.checkpoint_minutes else 60 * config.checkpoint_minutes
        self._periodic = self._every is not None or self._seconds is not None
        self._file = StopFile(directory) if node.is_root and directory is not None else None
        self._saved = time.monotonic()
        self._slot = 0
        self._folders_exist = False
        self._resumed: tuple[str, Part] | None = None
        self._exchange_every = 1
        self._proposed: set[int] = set()  # actions, since the last save

    def resume_from(self, slot: int, part: Part) -> None:
        """Let the next algorithm begin at this part; the next checkpoint goes to the other slot."""
        self._slot = 1 - slot
        self._resumed = part.header["algorithm"], part

    def begin(self, last: int, exchange_every: int) -> None:
        """Begin with an algorithm: its last iteration, and those from exchange to exchange."""
        self._last = last
        self._exchange_every = exchange_every
        self._proposed.clear()

    def restore(self, label: str, start: Any, batch: int = 1) -> tuple[int, Any, float]:
        """Return iteration, State and seconds of the checkpoint; 0, `start` and 0.0 without one.

        `batch` is the number of sample gradients per iteration of the methods of former versions,
        which did not save their count.
        """
        if self._resumed is None or self._resumed[0] != label:
            return 0, start, 0.0
        part, self._resumed = self._resumed[1], None
        sent = part.header["bytes"]
        self._node.bytes_sent = np.array(sent) if isinstance(sent, list) else sent
        iteration = self._node.iteration = part.header["iteration"]
        self._node.gradients = part.header.get("gradients", batch * (iteration + 1))
        return iteration, as_state(start, part), part.header["seconds"]

    def poll_stop(self, t: int) -> None:
        """Before step t, propose a checkpoint to all ranks if one is requested or due here."""
        if self._file is not None:
            now = time.monotonic()
            if self._file.exists(now):
                self._stop.requested = True
            if self._seconds is not None and now >= self._saved + self._seconds:
                self._propose(t, SAVE)
        if self._stop.requested and self._directory is not None:
            self._propose(t, STOP)

    def schedule_next_event(self, t: int, interval: int) -> None:
        """Set `node.due` to the first step after t that ends in a measurement, save or stop.

        Until then the compiled loop does not return to Python. The loop measures every `interval`
        steps.
        """
        if self._stop.requested or self._file is not None:
            self.poll_stop(t + 1)
        due = min(t - t % interval + interval, self._last, self._node.stop_at >> 1)
        if self._every is not None:
            due = min(due, t - t % self._every + self._every)
        self._node.due = due
        if self._file is not None:  # root looks at the clock and at the stop file now and then
            save = self._file.next if self._seconds is None else self._saved + self._seconds
            self._node.deadline = min(save, self._file.next)
        if self._stop.requested:  # again: a signal may have come since the first check
            self._end_loop_early()

    def _propose(self, t: int, action: int) -> None:
        if action in self._proposed:
            return  # a later proposal would name a later iteration
        self._proposed.add(action)
        node = self._node
        known_at = everywhere_at(t, node.nodes, node.turns, self._exchange_every, self._last)
        node.stop_at = min(node.stop_at, 2 * known_at + action)

    def is_due(self, t: int) -> bool:
        """Return True if all ranks save after step t, by the messages of that step."""
        if t == self._last:
            return self._periodic
        return t == self._node.stop_at >> 1 or (self._every is not None and t % self._every == 0)

    def save(self, label: str, t: int, state: Any, seconds: float) -> None:
        """Write this rank's part of a checkpoint; raise Stopped if all ranks agreed to stop.

        Collective: every rank calls it after the same iteration.
        """
        node = self._node
        action = node.stop_at & 1 if t == node.stop_at >> 1 else SAVE
        if t == node.stop_at >> 1:
            node.clear_stop()
            self._proposed.clear()
        assert self._directory is not None
        self._make_folders(self._directory)
        node.finish_barrier()  # this slot may be overwritten once all ranks have written the other
        header = {
            "identity": self._identity,
            "algorithm": label,
            "iteration": t,
            "node": node.rank,
            "nodes": node.nodes,
            "seconds": seconds,
            "bytes": np.asarray(node.bytes_sent).tolist(),
            "gradients": node.gradients,
            "metrics": self._recorder.metrics_mark(),
            "saved": time.time(),
        }
        write_part(part_path(self._directory, self._slot, node.rank), header, state)
        node.start_barrier()
        self._slot = 1 - self._slot
        self._saved = time.monotonic()
        if action == STOP and t < self._last:
            node.finish_barrier()  # a checkpoint is of use only with the parts of all ranks
            raise Stopped(f"stopped after iteration {t} of {self._last}")

    def _make_folders(self, directory: Path) -> None:
        """Let root make the folders of both slots before any rank writes into them. Collective."""
        if self._folders_exist:
            return
        if self._node.is_root:
            for folder in (CHECKPOINTS, *(f"{CHECKPOINTS}/{slot}" for slot in SLOTS)):
                try:
                    (directory / folder).mkdir(exist_ok=True)
                except OSError as error:
                    raise storage_error(directory / folder, error) from error
        self._folders_exist = self._node.broadcast_flag(True)
