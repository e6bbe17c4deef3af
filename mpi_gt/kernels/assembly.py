"""Recorded operations as a program of the compiled kernels: registers, and bytes."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from . import C

# as in program.c
OPERATIONS = ("add", "sub", "mul", "div", "min", "max", "sqrt", "neg", "abs", "pow")
ARRAYS, ARRAY_SCALAR, SCALAR_ARRAY, SCALARS = range(4)


class Operation(NamedTuple):
    name: str
    operands: tuple[int, ...]  # values by number


def assemble(
    inputs: list[int],
    outputs: list[int],
    operations: Mapping[int, Operation],
    t: int,
    constants: Mapping[int, float],
    scalars: set[int],
) -> Any:
    """A Program that takes the input arrays and the number t, and makes the outputs.

    `operations` are by the value that each makes, in order; `scalars` are the values that are
    numbers, of which `constants` are known.
    """
    used = {operand for operation in operations.values() for operand in operation.operands}
    fixed = sorted(used & constants.keys())
    on_scalars = [value for value in operations if value in scalars]
    on_arrays = [value for value in operations if value not in scalars]
    numbers = {value: register for register, value in enumerate([t, *fixed, *on_scalars])}
    arrays = {value: register for register, value in enumerate([*inputs, *outputs])}
    blocks = _place_the_rest(arrays, on_arrays, operations)

    def encode(value: int) -> bytes:
        name, (a, *rest) = operations[value]
        b = rest[0] if rest else a
        kind = 2 * (a in scalars) + (b in scalars)
        kind = (ARRAYS, ARRAY_SCALAR, SCALAR_ARRAY, SCALARS)[kind]
        where = [(numbers if v in scalars else arrays)[v] for v in (value, a, b)]
        return bytes([OPERATIONS.index(name), kind, *where])

    assert C is not None
    return C.Program(
        len(inputs),
        len(outputs),
        blocks,
        1,
        tuple(constants[value] for value in fixed),
        b"".join(map(encode, on_scalars)),
        b"".join(map(encode, on_arrays)),
    )


def _place_the_rest(
    arrays: dict[int, int], order: list[int], operations: Mapping[int, Operation]
) -> int:
    """Give what is needed in between a block each, and again after its last use; how many."""
    last = {operand: i for i, value in enumerate(order) for operand in operations[value].operands}
    first, free, count = len(arrays), list[int](), 0
    temporary = set[int]()
    for i, value in enumerate(order):
        for operand in set(operations[value].operands) & temporary:
            if last[operand] == i:
                free.append(arrays[operand])
        if value not in arrays:
            temporary.add(value)
            if not free:
                free.append(first + count)
                count += 1
            arrays[value] = free.pop()
    return count
