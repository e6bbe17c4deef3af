"""Predictions with compressed messages: when do they pay, by the cost model?

With the compression of both vectors, an iteration takes

    compute + encode + latency + degree (per_message + payload / bandwidth + decode)

It pays where encode + degree decode is less than degree (bytes - payload) / bandwidth.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..compressors import Compressor, make_compressor
from ..files import NOT_NEGATIVE, POSITIVE, TEXT, Each, OrNone, Record, read_table
from .codecs import Codec, codec_in, measured_codec
from .cost_model import Cost
from .prediction import shortest

LONGEST = 10**9  # entries of all seeds up to which the size is looked for
CODECS = {
    "codecs": Each(
        Record(
            {
                "compress": TEXT,
                "encode_base": NOT_NEGATIVE,
                "encode_rate": OrNone(POSITIVE),
                "decode_base": NOT_NEGATIVE,
                "decode_rate": OrNone(POSITIVE),
            }
        )
    )
}
"""The kinds of the values in the bench.json of a bench with --compress."""
SHORTEST = 1e-15  # seconds; nothing takes no time, but a bench.json may say so


@dataclass(frozen=True)
class Vectors:
    """The shape and dtype of each of the two vectors of a message."""

    seeds: int
    dim: int
    dtype: str

    def numbers(self) -> int:
        return 2 * self.seeds * self.dim

    def bytes(self) -> int:
        return self.numbers() * np.dtype(self.dtype).itemsize

    def payload(self, compressor: Compressor) -> int:
        """Return the bytes of both payloads."""
        return 2 * compressor.size(self.seeds, self.dim, np.dtype(self.dtype))


def codec_of(spec: str, vectors: Vectors, bench: Path | None) -> Codec:
    """Return the time to encode and to decode: of a bench that has it, else timed here."""
    if bench is not None:
        codecs = read_table(bench / "bench.json", CODECS).get("codecs", [])
        found = codec_in(codecs, spec, f"encoding and decoding of {bench}")
        if found is not None:
            return found
    return measured_codec(spec, vectors.dim, vectors.dtype, shortest)


def compressed_rows(
    spec: str, vectors: Vectors, rows: Sequence[dict[str, Any]], cost: Cost, codec: Codec
) -> dict[str, Any]:
    """Return the prediction with a compressor for the graphs of uncompressed predictions."""
    compressor = make_compressor(spec)
    payload = vectors.payload(compressor)
    encode = codec.encode.seconds(vectors.numbers())
    made = []
    for row in rows:
        degree = row["degree"]
        decode = degree * codec.decode.seconds(vectors.numbers())
        exchange = cost.seconds(degree, payload)
        total = row["compute"] + encode + exchange + decode
        saved = degree * (vectors.bytes() - payload)
        coding = max(encode + decode, SHORTEST)
        made.append(
            {
                "graph": row["graph"],
                "degree": degree,
                "bytes_per_rank": degree * payload,
                "encode": encode,
                "communication": exchange,
                "decode": decode,
                "iteration": total,
                "ratio": total / row["iteration"] if row["iteration"] else None,
                "pays_below": saved / coding if saved > 0 else None,
                "pays_from": _pays_from(compressor, vectors, degree, cost, codec),
            }
        )
    lines = {
        stage: {key: _finite(value) for key, value in asdict(getattr(codec, stage)).items()}
        for stage in ("encode", "decode")
    }
    return {
        "compress": spec,
        "bytes": payload,
        "codec": {"source": codec.source, **lines},
        "rows": made,
    }


def _finite(value: float) -> float | None:
    """Return the value for JSON, which has no infinity."""
    return value if math.isfinite(value) else None


def _pays_from(
    compressor: Compressor, vectors: Vectors, degree: int, cost: Cost, codec: Codec
) -> int | None:
    """Return the bytes of an uncompressed message from which on compression pays; None: nowhere.

    The gain is a line in the length but for the rounding of payloads, so that its sign is bisected.
    """

    def gain(dim: int) -> float:
        at = Vectors(vectors.seeds, dim, vectors.dtype)
        saved = degree * (at.bytes() - at.payload(compressor)) / cost.bandwidth
        coding = codec.encode.seconds(at.numbers()) + degree * codec.decode.seconds(at.numbers())
        return saved - coding

    low, high = 0, max(1, LONGEST // vectors.seeds)
    if gain(high) <= 0:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if gain(middle) > 0 else (middle, high)
    return Vectors(vectors.seeds, high, vectors.dtype).bytes()
