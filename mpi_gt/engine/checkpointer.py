"""When to save and when to stop, agreed by all ranks at no message of its own; and saving."""

import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..config import RunConfig
from ..errors import Stopped
from ..rundir.atomic import storage_error
from ..rundir.checkpoint import SLOTS, Part, as_state, part_path, write_part
from ..rundir.layout import CHECKPOINTS
from .stop import StopFile, StopRequest

STOP, SAVE = 0, 1


class Checkpointer:
    """One rank's. All ranks save at the same iterations, and stop at the same one.

    The word `node.stop_at` travels in the header of every message, and the least one wins: twice
    an iteration, plus one where all shall save there but not stop. A rank that wants it before
    step t names iteration t + nodes, so that all know in time: no two nodes are further apart.
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
        self._stop.wake = self._look_at_once = partial(setattr, node, "due", 0)
        self._directory = directory
        self._last = config.iterations
        self._every = config.checkpoint_every
        self._seconds = None if not config.checkpoint_minutes else 60 * config.checkpoint_minutes
        self._periodic = self._every is not None or self._seconds is not None
        self._file = StopFile(directory) if node.is_root and directory is not None else None
        self._saved = time.monotonic()
        self._slot = 0
        self._ready = False  # whether the folders are there
        self._found: tuple[str, Part] | None = None

    def resume_from(self, slot: int, part: Part) -> None:
        """The next algorithm begins at that part of a checkpoint, which stays as it is."""
        self._slot = 1 - slot
        self._found = part.header["algorithm"], part

    def restore(self, label: str, start: Any) -> tuple[int, Any, float]:
        """Iteration, State and seconds to go on from: zero and the start without a checkpoint."""
        if self._found is None or self._found[0] != label:
            return 0, start, 0.0
        part, self._found = self._found[1], None
        sent = part.header["bytes"]
        self._node.bytes_sent = np.array(sent) if isinstance(sent, list) else sent
        self._node.iteration = part.header["iteration"]
        return part.header["iteration"], as_state(start, part), part.header["seconds"]

    def poll_stop(self, t: int) -> None:
        """Before step t: pass on what this rank was asked for, or finds to be due."""
        if self._file is not None:
            now = time.monotonic()
            if self._file.is_there(now):
                self._stop.asked = True
            if self._seconds is not None and now >= self._saved + self._seconds:
                self._agree(t, SAVE)
        if self._stop.asked and self._directory is not None:
            self._agree(t, STOP)

    def schedule_next_event(self, t: int, within: int) -> None:
        """Before step t + 1: name the step after which the loop does more than take the next.

        It measures each `within` steps; what else may be due is known here.
        """
        if self._stop.asked or self._file is not None:
            self.poll_stop(t + 1)
        due = min(t - t % within + within, self._last, self._node.stop_at >> 1)
        if self._every is not None:
            due = min(due, t - t % self._every + self._every)
        self._node.due = due if self._file is None else t + 1  # who looks at a clock always looks
        if self._stop.asked:  # also where a signal came just now
            self._look_at_once()

    def _agree(self, t: int, what: int) -> None:
        node = self._node
        node.stop_at = min(node.stop_at, 2 * (t + node.nodes) + what)

    def is_due(self, t: int) -> bool:
        """After step t, which has brought what others were asked for: whether all save now."""
        if t == self._last:
            return self._periodic
        return t == self._node.stop_at >> 1 or (self._every is not None and t % self._every == 0)

    def save(self, label: str, t: int, state: Any, seconds: float) -> None:
        """Write this rank's part; Stopped, on all ranks alike, where that was agreed upon."""
        node = self._node
        what = node.stop_at & 1 if t == node.stop_at >> 1 else SAVE
        if t == node.stop_at >> 1:
            node.clear_stop()
        assert self._directory is not None
        self._make_ready(self._directory)
        node.finish_barrier()  # all have written the other slot, so this one may go
        header = {
            "identity": self._identity,
            "algorithm": label,
            "iteration": t,
            "node": node.rank,
            "nodes": node.nodes,
            "seconds": seconds,
            "bytes": np.asarray(node.bytes_sent).tolist(),
            "metrics": self._recorder.metrics_mark(),
            "saved": time.time(),
        }
        write_part(part_path(self._directory, self._slot, node.rank), header, state)
        node.start_barrier()
        self._slot = 1 - self._slot
        self._saved = time.monotonic()
        if what == STOP and t < self._last:
            node.finish_barrier()  # it counts only when all parts are there
            raise Stopped(f"stopped after iteration {t} of {self._last}")

    def _make_ready(self, directory: Path) -> None:
        """Root makes the folders, before any rank writes into them."""
        if self._ready:
            return
        if self._node.is_root:
            for folder in (CHECKPOINTS, *(f"{CHECKPOINTS}/{slot}" for slot in SLOTS)):
                try:
                    (directory / folder).mkdir(exist_ok=True)
                except OSError as error:
                    raise storage_error(directory / folder, error) from error
        self._ready = self._node.broadcast_flag(True)
