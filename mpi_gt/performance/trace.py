"""The trace of a profile, trace.json: phases of all ranks on one time axis, as Chrome events.

Perfetto (https://ui.perfetto.dev) and chrome://tracing open it.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..comm.plan import MOST_VECTORS
from ..files import with_schema
from ..rundir.atomic import writing
from .phases import AWAIT, BEGIN, PHASE_OF, PHASES, POST, UNATTRIBUTED

SENT = {POST: "exchange: post", AWAIT: "exchange: wait"}


Ends = Mapping[int, tuple[tuple[int, ...], tuple[int, ...]]]
"""By iteration, the nodes whose messages a node gets, and those to which it sends."""


@dataclass(frozen=True)
class Track:
    """The stretches of time of one rank: (iteration, code, begin, end), in ns of root's clock."""

    rank: int
    host: str
    ends: Ends
    stretches: Any
    first_exchange: int  # the number of the first exchange among the stretches
    blocking: bool  # True if the messages have arrived when the start of an exchange returns


def write_trace(path: Path, tracks: Iterable[Track], facts: dict[str, Any]) -> int:
    """Write the events of all tracks one by one, and return their number."""
    tracks = list(tracks)
    begins = [int(track.stretches[0][2]) for track in tracks if len(track.stretches)]
    origin = min(begins, default=0)
    count = 0
    with writing(path), path.open("w", encoding="utf-8") as file:
        # the format allows keys of one's own
        head = with_schema("trace", {"displayTimeUnit": "ns", "otherData": facts})
        file.write(json.dumps(head, allow_nan=False)[:-1])
        file.write(', "traceEvents": [')
        for track in tracks:
            for event in events_of(track, origin, len(tracks)):
                file.write(",\n" if count else "\n")
                file.write(json.dumps(event))
                count += 1
        file.write("\n]}\n")
    return count


def events_of(track: Track, origin: int, ranks: int) -> Iterator[dict[str, Any]]:
    """Generate the events of one rank of `ranks`, with times relative to `origin`.

    Iterations and phases are slices (B to E), messages are flows (s to f).
    """
    where = {"pid": 0, "tid": track.rank}
    name = f"rank {track.rank} ({track.host})"
    yield {"ph": "M", "name": "thread_name", **where, "args": {"name": name}}
    yield {"ph": "M", "name": "thread_sort_index", **where, "args": {"sort_index": track.rank}}

    def at(kind: str, name: str, time: int, **more: Any) -> dict[str, Any]:
        return {"ph": kind, "name": name, "ts": (time - origin) / 1000, **where, **more}

    exchange, arrived = track.first_exchange - 1, 0
    messages = _messages(track)
    open_iteration: int | None = None
    end_of_all = 0
    for iteration, code, begin, end in track.stretches.tolist():
        if code == BEGIN:
            if open_iteration is not None:
                yield at("E", f"iteration {open_iteration}", begin)
            open_iteration = iteration
            yield at("B", f"iteration {iteration}", begin, cat="iteration")
        end_of_all = end
        if code == POST:
            exchange, arrived = exchange + 1, 0
        if code == UNATTRIBUTED or open_iteration is None:
            continue
        phase = SENT.get(code, PHASES[PHASE_OF[code]])
        yield at("B", phase, begin, cat=PHASES[PHASE_OF[code]])
        sources, targets = track.ends[iteration]
        if code == POST:
            for part in range(messages[exchange]):
                for target in targets:
                    number = flow_number(exchange, part, track.rank, target, ranks)
                    yield at("s", "message", begin, cat="message", id=number)
        if code == (POST if track.blocking else AWAIT):
            for source in sources:
                number = flow_number(exchange, arrived, source, track.rank, ranks)
                yield at("f", "message", end, cat="message", id=number, bp="e")
            arrived += 1
        yield at("E", phase, end)
    if open_iteration is not None:
        yield at("E", f"iteration {open_iteration}", end_of_all)


def flow_number(exchange: int, part: int, source: int, target: int, ranks: int) -> int:
    """Return the number of a message, which no other message has; Perfetto takes numbers only."""
    return ((exchange * MOST_VECTORS + part) * ranks + source) * ranks + target


def _messages(track: Track) -> dict[int, int]:
    """Return the number of messages to each neighbour, by exchange: it equals that of waits."""
    counts: dict[int, int] = {}
    exchange = track.first_exchange - 1
    for _, code, _, _ in track.stretches.tolist():
        exchange += code == POST
        if code in (POST, AWAIT):
            counts.setdefault(exchange, 0)
            counts[exchange] += code == (POST if track.blocking else AWAIT)
    return counts
