"""Assembly of recorded operations into a program of the compiled kernels: registers and bytes."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from . import C

# as in program.c
OPERATIONS = ("add", "sub", "mul", "div", "min", "max", "sqrt", "neg", "abs", "pow", "muladd")
ARRAYS, ARRAY_SCALAR, SCALAR_ARRAY, SCALARS = range(4)


class Operation(NamedTuple):
    """A recorded operation; its operands are the numbers of recorded values."""

    name: str
    operands: tuple[int, ...]


def assemble(
    inputs: list[int],
    outputs: list[int],
    operations: Mapping[int, Operation],
    t: int,
    constants: Mapping[int, float],
    scalars: set[int],
) -> Any:
    """Build a Program that takes the input arrays and the number t and returns the outputs.

    Values are given by number. `operations` maps each result to its operation, in order; `scalars`
    holds the values that are numbers, and `constants` those numbers that are known.
    """
    operations = _contracted(operations, outputs, scalars)
    used = {operand for operation in operations.values() for operand in operation.operands}
    fixed = sorted(used & constants.keys())
    on_scalars = [value for value in operations if value in scalars]
    on_arrays = [value for value in operations if value not in scalars]
    numbers = {value: register for register, value in enumerate([t, *fixed, *on_scalars])}
    arrays = {value: register for register, value in enumerate([*inputs, *outputs])}
    blocks = _place_temporaries(arrays, on_arrays, operations)

    def encode(value: int) -> bytes:
        name, operands = operations[value]
        if name == "muladd":  # its first operand shares the register of the result
            operands = operands[1:]
        a, b = operands[0], operands[-1]
        kind = 2 * (a in scalars) + (b in scalars)
        kind = (ARRAYS, ARRAY_SCALAR, SCALAR_ARRAY, SCALARS)[kind]
        registers = [(numbers if v in scalars else arrays)[v] for v in (value, a, b)]
        return bytes([OPERATIONS.index(name), kind, *registers])

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
    """Replace z * h + number by one operation on z where z and the product have no other use."""
    result = dict(operations)
    uses = Counter(operand for operation in operations.values() for operand in operation.operands)

    def is_temporary(value: int) -> bool:
        computed = value in result and value not in outputs and value not in scalars
        return computed and uses[value] == 1

    for value, (name, operands) in operations.items():
        if name != "add" or value in outputs or operands[1] not in scalars:
            continue
        product = operands[0]
        if is_temporary(product) and result[product].name == "mul":
            z, h = result[product].operands
            if is_temporary(z) and h not in scalars:
                del result[product]
                result[value] = Operation("muladd", (z, h, operands[1]))
    return result


def _place_temporaries(
    arrays: dict[int, int], order: list[int], operations: Mapping[int, Operation]
) -> int:
    """Add a register for each temporary array to `arrays`; return the number of blocks they need.

    A block is used again after the last use of the array in it.
    """
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
