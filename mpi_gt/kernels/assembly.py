"""Recorded operations as a program of the compiled kernels: registers, and bytes."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from . import C

# as in program.c
OPERATIONS = ("add", "sub", "mul", "div", "min", "max", "sqrt", "neg", "abs", "pow", "muladd")
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
    operations = _contracted(operations, outputs, scalars)
    used = {operand for operation in operations.values() for operand in operation.operands}
    fixed = sorted(used & constants.keys())
    on_scalars = [value for value in operations if value in scalars]
    on_arrays = [value for value in operations if value not in scalars]
    numbers = {value: register for register, value in enumerate([t, *fixed, *on_scalars])}
    arrays = {value: register for register, value in enumerate([*inputs, *outputs])}
    blocks = _place_the_rest(arrays, on_arrays, operations)

    def encode(value: int) -> bytes:
        name, operands = operations[value]
        if name == "muladd":  # the first operand is in the register of the result
            operands = operands[1:]
        a, b = operands[0], operands[-1]
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


def _contracted(
    operations: Mapping[int, Operation], outputs: list[int], scalars: set[int]
) -> dict[int, Operation]:
    """z * h + number, where z and the product serve nothing else, as one operation on z."""
    result = dict(operations)
    uses = Counter(operand for operation in operations.values() for operand in operation.operands)

    def is_passing(value: int) -> bool:
        made = value in result and value not in outputs and value not in scalars
        return made and uses[value] == 1

    for value, (name, operands) in operations.items():
        if name != "add" or value in outputs or operands[1] not in scalars:
            continue
        product = operands[0]
        if is_passing(product) and result[product].name == "mul":
            z, h = result[product].operands
            if is_passing(z) and h not in scalars:
                del result[product]
                result[value] = Operation("muladd", (z, h, operands[1]))
    return result


def _place_the_rest(
    arrays: dict[int, int], order: list[int], operations: Mapping[int, Operation]
) -> int:
    """Give what is needed in between a block each, and again after its last use; how many."""
    last = {operand: i for i, value in enumerate(order) for operand in operations[value].operands}
    first, free, count = len(arrays), list[int](), 0
    temporary = set[int]()
    for i, value in enumerate(order):
        name, operands = operations[value]
        free += [arrays[z] for z in set(operands) & temporary if last[z] == i]
        if value in arrays:
            continue
        if not free:
            free.append(first + count)
            count += 1
        arrays[value] = free.pop(free.index(arrays[operands[0]]) if name == "muladd" else -1)
        temporary.add(value)
    return count
