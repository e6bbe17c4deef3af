"""The cost of compressing: measured by `bench`, or here, and what `bench` and `predict` make of it.

`bench` times compressed exchanges beside the uncompressed ones, stage by stage. A Codec is what is
left of the stages for the cost model: the time to encode and to decode numbers, as lines.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..comm.compression import STAGES, Encoder
from ..compressors import COMPRESSORS, Compressor, make_compressor, require_fit
from ..errors import UserError
from ..problems.base import Place
from ..rundir.columns import Column
from ..spec import options_of, split_list
from ..user_classes import is_custom, resolve
from .cost_model import fit

if TYPE_CHECKING:
    from ..comm.compressed_timing import CompressedTimer
    from ..comm.node import Node

Array = NDArray[Any]

STAGE_NAMES = ("encoding", "the exchange of the compressed messages", "decoding")
COLUMNS = {
    "compress": Column("", "compressor of the messages; empty: not compressed"),
    "sent": Column("bytes", "size of a compressed message"),
    **{
        name: Column("s", f"median time of {what}")
        for name, what in zip(STAGES, STAGE_NAMES, strict=True)
    },
    "uncompressed": Column("s", "median time of the same exchange without compression"),
    "ratio": Column("1", "median / uncompressed"),
}
"""The columns of bench.csv that compressed exchanges add."""
NUMBERS = (2**8, 2**12, 2**16, 2**18)
"""Lengths of the vectors that are timed here."""
ROWS = 4  # payloads that are decoded at a time
LONGEST = 10**7  # the longest vector that is timed here


@dataclass(frozen=True)
class Line:
    """A time that grows with the numbers in both vectors of a message: base + numbers / rate."""

    base: float  # seconds
    rate: float  # numbers per second; infinite if their number made no difference

    def seconds(self, numbers: float) -> float:
        return self.base + numbers / self.rate


@dataclass(frozen=True)
class Codec:
    """The time to encode a message, and to decode one; and who says so."""

    encode: Line  # with the decoding of one's own payload
    decode: Line  # of the message of one neighbour
    source: str


def parse_compressors(given: str | Sequence[str]) -> tuple[str, ...]:
    """Return the specifications of a list, or of several lists, such as `qsgd:bits=8,sign`."""
    lists = [given] if isinstance(given, str) else given
    specs = tuple(spec for text in lists for spec in split_list(text))
    if not specs:
        raise UserError("--compress names no compressor")
    for number, spec in enumerate(specs):
        if spec in specs[:number]:
            raise UserError(f"--compress: '{spec}' is given twice")
    return specs


def fitted_compressor(spec: str, seeds: int, dim: int, dtype: str = "float64") -> Compressor:
    """Return the compressor; raise UserError unless it takes vectors (seeds, dim)."""
    compressor = make_compressor(spec)
    require_fit(compressor, (seeds, dim), np.dtype(dtype), f"compressor {spec}")
    return compressor


def require_compressors(specs: Iterable[str], sizes: Iterable[int]) -> None:
    """Raise UserError unless all of them take two vectors of doubles of each size in bytes."""
    shortest, longest = min(sizes), max(sizes)
    for spec in specs:
        for size in {shortest, longest}:
            fitted_compressor(spec, 1, size // 16)


def stages_of(node: "Node", timer: "CompressedTimer", samples: int) -> dict[str, Any]:
    """Return on root bytes sent, median seconds by stage, and the shortest ones on any rank.

    Collective: every rank calls it; the others return nothing. The stages of a sample are those of
    the rank that was slowest in it, so that they add up to the time of the sample. The shortest
    times are those of a rank that nothing disturbed, decoding for a single neighbour; none of a
    node without neighbours.
    """
    rows = node.gather(np.array(timer.stages[-samples:]))
    counts = node.gather(np.array([timer.sources]))
    if rows is None or counts is None:
        return {}
    sources = counts[:, 0]
    fastest = rows.min(axis=1)[sources > 0]
    decode = fastest[:, 2] / sources[sources > 0]
    last = rows.sum(axis=2).argmax(axis=0)
    chosen = np.median(rows[last, np.arange(samples)], axis=0)
    return {
        "sent": timer.sent,
        **dict(zip(STAGES, chosen.tolist(), strict=True)),
        "shortest": {"encode": float(fastest[:, 0].min()), "decode": float(decode.min())}
        if len(fastest)
        else None,
    }


def pays_of(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return for each graph, exchange and compressor from how many bytes on it saves time.

    `from` is the smallest measured size at which, as at all larger ones, the compressed exchange
    took less time; None if there is none.
    """
    found = []
    for key in dict.fromkeys((r["graph"], r["exchange"], r["compress"]) for r in rows):
        own = [r for r in rows if (r["graph"], r["exchange"], r["compress"]) == key]
        start = None
        for row in sorted(own, key=lambda row: -row["bytes"]):
            if row["ratio"] >= 1:
                break
            start = row["bytes"]
        found.append({"graph": key[0], "exchange": key[1], "compress": key[2], "from": start})
    return found


def codecs_of(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Fit lines to the shortest times of encoding and decoding by the number of numbers.

    Others have waited: a rank that has lost its core is slow at anything.
    """
    found = []
    for compress in dict.fromkeys(row["compress"] for row in rows):
        own = [row for row in rows if row["compress"] == compress and row["shortest"]]
        numbers = sorted({row["bytes"] // 8 for row in own})
        if len(numbers) < 2:
            continue  # a line needs two sizes, and a message needs a neighbour
        lines = {
            stage: _line(
                numbers,
                [
                    min(row["shortest"][stage] for row in own if row["bytes"] // 8 == count)
                    for count in numbers
                ],
            )
            for stage in ("encode", "decode")
        }
        record: dict[str, Any] = {"compress": compress}
        for stage, line in lines.items():
            record[f"{stage}_base"] = line.base
            record[f"{stage}_rate"] = line.rate if math.isfinite(line.rate) else None
        found.append(record)
    return found


def _line(numbers: Sequence[int], seconds: Sequence[float]) -> Line:
    """Return the line through the times; through the origin if there is only one."""
    if len(numbers) == 1:
        return Line(0.0, numbers[0] / seconds[0])
    cost = fit([1] * len(numbers), numbers, seconds)
    return Line(cost.latency, cost.bandwidth)


def codec_in(codecs: Iterable[dict[str, Any]], spec: str, source: str) -> Codec | None:
    """Return the codec of a compressor among those of bench.json; None if it is not there."""
    for each in codecs:
        if _canonical(each["compress"]) == _canonical(spec):
            lines = [
                Line(each[f"{stage}_base"], each[f"{stage}_rate"] or math.inf)
                for stage in ("encode", "decode")
            ]
            return Codec(lines[0], lines[1], source)
    return None


def _canonical(spec: str) -> tuple[str, dict[str, Any]]:
    """Return the name and all options of a compressor, those left at their defaults included."""
    if is_custom(spec):
        return spec.replace(" ", ""), {}
    try:
        name, kind, options = resolve("compressor", COMPRESSORS, spec)
    except UserError:  # of a bench.json of another version, say
        return spec, {}
    return name, {key: it.default for key, it in options_of(kind).items()} | options


def measured_codec(
    spec: str, dim: int, dtype: str, best: Callable[[Callable[[], None], float], float]
) -> Codec:
    """Time the compressor on this machine, on vectors of several lengths.

    `best(work, seconds)` returns the shortest time of a call, found in so many seconds.
    """
    compressor = make_compressor(spec)
    lengths = [length for length in NUMBERS if _takes(compressor, length)]
    if not lengths:  # more entries are kept than these have
        if dim > LONGEST:
            raise UserError(f"{spec}: vectors of {dim:,} entries are too long to be timed here")
        lengths = [dim]
    encode, decode = [], []
    for length in lengths:
        encoder = Encoder(compressor, Place(node=0, nodes=1, seeds=(0,), dtype=np.dtype(dtype)))
        z = np.random.Generator(np.random.Philox(key=0)).standard_normal((1, length)).astype(dtype)
        message = _Message(encoder, z)
        encode.append(best(message.encode, 0.03))
        decode.append(best(message.decode, 0.03) / ROWS)
    numbers = [2 * length for length in lengths]
    source = "encoding and decoding timed on this machine"
    return Codec(_line(numbers, encode), _line(numbers, decode), source)


def _takes(compressor: Compressor, length: int) -> bool:
    try:
        compressor.check(length)
    except ValueError:
        return False
    return True


class _Message:
    """A message of two vectors like z: encoded with one's own decoding, decoded ROWS at a time."""

    def __init__(self, encoder: Encoder, z: Array) -> None:
        self._encoder, self._z, self._t = encoder, z, 0
        self._payload = np.zeros(encoder.size(z), np.uint8)
        self._own = np.empty((1, *z.shape), z.dtype)
        self.encode()
        self._received = np.tile(self._payload, (ROWS, 1))
        self._made = np.empty((ROWS, *z.shape), z.dtype)

    def encode(self) -> None:
        self._t += 1
        for index in (0, 1):
            self._encoder.encode(self._t, index, self._z, self._payload)
            self._encoder.decode(self._payload[np.newaxis], self._own)

    def decode(self) -> None:
        for _ in (0, 1):
            self._encoder.decode(self._received, self._made)
