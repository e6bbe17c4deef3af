"""Parser for LIBSVM text: lines of a label and `index:value` pairs, with indices from 1."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import UserError

Array = NDArray[Any]

LARGEST = float(np.finfo(np.float32).max)
MOST_FEATURES = 10**7  # because rows are stored dense


def parse_libsvm(text: bytes, name: str, features: int | None = None) -> tuple[Array, Array]:
    """Return dense features (rows, d) in float32, and labels; `name` is for messages.

    Without `features`, d is the largest index in the text.
    """
    labels: list[int] = []
    rows: list[int] = []
    columns: list[int] = []
    values: list[float] = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.partition(b"#")[0].split()
        if not words:
            continue
        try:
            label = float(words[0])
            pairs = [
                (int(index), float(value)) for index, value in (w.split(b":") for w in words[1:])
            ]
        except ValueError:
            raise UserError(
                f"{name}, line {number}: expected `label index:value ...`, found "
                f"'{line[:60].decode(errors='replace')}'"
            ) from None
        if not label.is_integer():
            raise UserError(f"{name}, line {number}: the label {label} is not a whole number")
        seen = {index for index, _ in pairs}
        if len(seen) < len(pairs):
            raise UserError(f"{name}, line {number}: an index occurs twice")
        for index, value in pairs:
            if index < 1 or (features is not None and index > features):
                limit = "" if features is None else f" (features={features})"
                raise UserError(f"{name}, line {number}: there is no feature {index}{limit}")
            if not abs(value) <= LARGEST:
                raise UserError(
                    f"{name}, line {number}: the value {value} is not finite in float32"
                )
            if index > MOST_FEATURES:
                raise UserError(f"{name}, line {number}: the index {index} is too large")
            columns.append(index - 1)
            values.append(value)
        rows += [len(labels)] * len(pairs)
        labels.append(int(label))
    if not labels:
        raise UserError(f"{name} has no rows")
    width = features if features is not None else max(columns, default=0) + 1
    try:
        dense = np.zeros((len(labels), width), np.float32)
    except MemoryError:
        raise UserError(
            f"{name}: {len(labels)} x {width} features do not fit into memory"
        ) from None
    dense[rows, columns] = values
    return dense, np.array(labels)
