"""Checkpoints and stops, on which all ranks agree without messages of their own."""

import math
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..config import RunConfig
from ..errors import Stopped, StorageError
from ..graphs.network import Turns
from ..rundir.atomic import storage_error, write_atomic
from ..rundir.checkpoint import Part, Unusable, as_state, pack_part, part_path
from ..rundir.checkpoint_files import host_path, pack_index, remove_others, slot_folder
from ..rundir.layout import BY_HOST, CHECKPOINTS, SLOTS
from ..rundir.staging import Staging, scratch_folder
from .stop import StopFile, StopRequest

STOP, SAVE = 0, 1


def everywhere_at(t: int, reach: int, turns: Turns, every: int, last: int) -> int:
    """Return an iteration by which all nodes know what one of them sends from step t on.

    Layers take turns, and are used where t % every == 0; by all of them together, `reach` arcs
    suffice from any node to any other. The result may be any beyond `last`.
    """
    if turns.seed is None:
        return t + reach * turns.layers * every
    for _ in range(reach):
        missing = set(range(turns.layers))
        while missing and t <= last:
            if t % every == 0:
                missing.discard(turns.at(t))
            t += 1
    return t


class CheckpointWriter:
    """The files of checkpoints: which one this rank writes, and when those of all are complete.

    Making one is collective: every rank makes its own.
    """

    def __init__(self, config: RunConfig, node: Any, directory: Path) -> None:
        self._node = node
        self._directory = directory
        # a stacked run has one part, which is a file in any case
        self._by_host = config.checkpoint_layout == BY_HOST and not config.stacked
        self._is_staged = config.checkpoint_staging is not None
        self._group: Any = None
        self._staging: Staging | None = None
        if self._by_host or self._is_staged:
            self._group = node.host_group()
        if self._is_staged:
            self._staging = self._make_staging(scratch_folder(str(config.checkpoint_staging)))
        self._folders_exist = False
        self._incomplete: int | None = None  # the slot that other ranks may still be writing to
        self._tidy: set[int] = set()  # slots without files of earlier launches

    def _make_staging(self, scratch: Path) -> Staging | None:
        """Return the folder on scratch, None on a rank that writes no file. Collective."""
        group, staging = self._group, None
        if group.is_writer:
            staging = Staging(scratch, group.name, self._directory, is_first=True)
        self._node.idle_barrier()  # the first rank has written down where the folder is
        if staging is None and not self._by_host:
            staging = Staging(scratch, group.name, self._directory, is_first=False)
        return staging

    def write(self, slot: int, part: memoryview) -> None:
        """Write this rank's part to a slot, by the first rank of the host if it has one file.

        Collective: every rank calls it, after `finish`: the other slot is complete then.
        """
        self._make_folders()
        self._incomplete = slot
        if self._by_host and not self._group.is_writer:
            self._group.send(part)
        else:
            make = host_path if self._by_host else part_path
            path = make(self._directory, slot, self._node.rank)
            pieces = self._of_host(part) if self._by_host else [part]
            (write_atomic if self._staging is None else self._staging.write)(path, pieces)
        if self._is_staged:
            return  # the copy is under way
        if self._by_host:
            # here, not in an exchange with a writer: one that writes for long shows that it lives
            self.finish()
        else:
            self._node.start_barrier()

    def _of_host(self, part: memoryview) -> Iterator[Any]:
        """Yield the bytes of this host's file. Called on its first rank."""
        lengths, parts = self._group.receive(part)
        yield pack_index(self._group.nodes, lengths)
        yield from parts

    def finish(self) -> None:
        """Wait until all files of the last checkpoint are in the run directory.

        Collective: every rank calls it. A rank whose file is staged waits for its copy first. Then
        root removes what that slot holds of other layouts and other hosts.
        """
        slot, self._incomplete = self._incomplete, None
        if slot is None:
            return
        if self._staging is not None:
            self._staging.wait()
        if self._group is None:
            self._node.finish_barrier()
        else:
            self._node.idle_barrier()
        if self._node.is_root and slot not in self._tidy:
            remove_others(slot_folder(self._directory, slot), self._names())
            self._tidy.add(slot)

    def require_success(self) -> None:
        """Raise StorageError if a staged file could not be copied."""
        if self._staging is not None:
            self._staging.require_success()

    def leave(self) -> None:
        """Remove what is staged on this host."""
        if self._staging is not None:
            self._staging.leave()

    def _names(self) -> set[str]:
        """Return the names of all files of a checkpoint. Called on root only."""
        if not self._by_host:
            return {part_path(self._directory, 0, node).name for node in range(self._node.nodes)}
        return {host_path(self._directory, 0, first).name for first in self._group.writers}

    def _make_folders(self) -> None:
        """Let root make the folders of both slots before any rank writes into them. Collective."""
        if self._folders_exist:
            return
        if self._node.is_root:
            for folder in (CHECKPOINTS, *(f"{CHECKPOINTS}/{slot}" for slot in SLOTS)):
                try:
                    (self._directory / folder).mkdir(exist_ok=True)
                except OSError as error:
                    raise storage_error(self._directory / folder, error) from error
        self._folders_exist = self._node.broadcast_flag(True)


class Checkpointer:
    """The checkpoints of one rank. All ranks save, and stop, after the same iterations.

    The number `node.stop_at` travels in the header of every message, and the smallest one wins. It
    is 2 T to save and stop after iteration T, and 2 T + 1 to save there and continue. A rank that
    wants a checkpoint before step t names iteration t + D, with D the diameter of the graph: after
    step t + D - 1 every rank knows of it. Where an algorithm exchanges every K iterations only,
    that takes K times as many, and with P layers in turn, P times: in a period the word goes along
    every arc of every layer. Layers that are drawn have no period, but all ranks know the draws to
    come: a period ends when each layer has come once.
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
        self._writer = None if directory is None else CheckpointWriter(config, node, directory)
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
        which did not save their count. Raises StorageError if the arrays have other widths than
        those of `start`.
        """
        if self._resumed is None or self._resumed[0] != label:
            return 0, start, 0.0
        part, self._resumed = self._resumed[1], None
        sent = part.header["bytes"]
        self._node.bytes_sent = np.array(sent) if isinstance(sent, list) else sent
        iteration = self._node.iteration = part.header["iteration"]
        self._node.gradients = part.header.get("gradients", batch * (iteration + 1))
        try:
            state = as_state(start, part)
        except Unusable as error:
            raise StorageError(
                f"the checkpoint of iteration {iteration} is not of this method: {error}; without "
                f"the folder {CHECKPOINTS} the run starts over"
            ) from None
        return iteration, state, part.header["seconds"]

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
        if self._writer is not None:
            self._writer.require_success()
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
        turns, every = node.turns, self._exchange_every
        # layers that are never used count for `reach`, though not for the word to all nodes: in
        # each period at least one more node hears of it
        skips = turns.seed is None and math.gcd(every, turns.layers) > 1
        reach = node.nodes if skips else node.reach
        known_at = everywhere_at(t, reach, turns, every, self._last)
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
        assert self._writer is not None
        self._writer.finish()  # this slot may be overwritten once all ranks have written the other
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
        self._writer.write(self._slot, pack_part(header, state))
        self._slot = 1 - self._slot
        self._saved = time.monotonic()
        if action == STOP and t < self._last:
            self._writer.finish()  # a checkpoint is of use only with the parts of all ranks
            raise Stopped(f"stopped after iteration {t} of {self._last}")

    def __enter__(self) -> "Checkpointer":
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        """Wait until the last checkpoint is complete, unless this rank has failed; tidy up.

        Collective: every rank does it, unless it has failed.
        """
        if self._writer is None:
            return
        try:
            if kind is None:
                self._writer.finish()
        finally:
            self._writer.leave()
