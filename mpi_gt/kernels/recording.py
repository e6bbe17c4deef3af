"""The recording of steps and functions: called with symbols, they leave values and operations."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from . import C
from .assembly import Operation, assemble

MIX, WAIT, GRAD, RUN, FULL, COMPRESSED, OWN = range(7)  # as in replay.c

UFUNCS = {
    np.add: "add",
    np.subtract: "sub",
    np.multiply: "mul",
    np.true_divide: "div",
    np.minimum: "min",
    np.maximum: "max",
    np.sqrt: "sqrt",
    np.negative: "neg",
    np.absolute: "abs",
}


class NotRecorded(Exception):
    """The error of a function that does more than entrywise arithmetic."""


class Symbol:
    """A stand-in for an array, or for the number t, while a function is recorded."""

    __slots__ = ("recording", "value")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, recording: "Recording", value: int) -> None:
        self.recording = recording
        self.value = value

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if ufunc is np.square and not options:
            return inputs[0] * inputs[0]
        if method != "__call__" or options or ufunc not in UFUNCS:
            raise NotRecorded(ufunc.__name__)
        # numpy's result would be a numpy scalar, which promotes float32 arrays to float64
        if ufunc in (np.sqrt, np.minimum, np.maximum) and self.recording.all_scalar(inputs):
            raise NotRecorded("a ufunc of numbers")
        return self.recording.add(UFUNCS[ufunc], *inputs)

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise NotRecorded("an array's entries")

    def __bool__(self) -> bool:
        raise NotRecorded("a decision")

    def __eq__(self, other: object) -> Any:
        raise NotRecorded("a comparison")

    __lt__ = __le__ = __gt__ = __ge__ = __ne__ = __eq__

    def __add__(self, other: Any) -> "Symbol":
        return self.recording.add("add", self, other)

    def __radd__(self, other: Any) -> "Symbol":
        return self.recording.add("add", other, self)

    def __sub__(self, other: Any) -> "Symbol":
        return self.recording.add("sub", self, other)

    def __rsub__(self, other: Any) -> "Symbol":
        return self.recording.add("sub", other, self)

    def __mul__(self, other: Any) -> "Symbol":
        return self.recording.add("mul", self, other)

    def __rmul__(self, other: Any) -> "Symbol":
        return self.recording.add("mul", other, self)

    def __truediv__(self, other: Any) -> "Symbol":
        return self.recording.add("div", self, other)

    def __rtruediv__(self, other: Any) -> "Symbol":
        return self.recording.add("div", other, self)

    def __pow__(self, other: Any) -> "Symbol":
        return self.recording.add("pow", self, other)

    def __neg__(self) -> "Symbol":
        return self.recording.add("neg", self)

    def __abs__(self) -> "Symbol":
        return self.recording.add("abs", self)


class Iteration(Symbol):
    """The stand-in for t. With a number, decisions on t are made as at that iteration."""

    __slots__ = ("number",)
    __hash__ = None

    def __init__(self, recording: "Recording", value: int, number: int | None) -> None:
        super().__init__(recording, value)
        self.number = number

    def _decide(self) -> int:
        if self.number is None:
            raise NotRecorded("a decision on t")
        return self.number

    def __mod__(self, other: int) -> int:
        return 0 if type(other) is int and other == 1 else self._decide() % other

    def __eq__(self, other: object) -> Any:
        return self._decide() == other

    def __ne__(self, other: object) -> Any:
        return self._decide() != other

    def __lt__(self, other: Any) -> Any:
        return self._decide() < other

    def __le__(self, other: Any) -> Any:
        return self._decide() <= other

    def __gt__(self, other: Any) -> Any:
        return self._decide() > other

    def __ge__(self, other: Any) -> Any:
        return self._decide() >= other


class _Pending(NamedTuple):
    """One pending result of a recorded mix."""

    recording: "Recording"
    mix: int  # the number of that mix in the step
    position: int  # among the results of that mix

    def wait(self) -> Symbol:
        if self.mix != self.recording.mixes:
            raise NotRecorded("a result that is waited for after the next mix")
        return self.recording.event(WAIT, (), self.position)


class _PendingMixes(tuple[_Pending, ...]):
    """The pending results of a recorded mix."""

    def wait(self) -> Symbol:
        (only,) = self
        return only.wait()


class _RecordedMix:
    """The `mix` of a recorded step."""

    def __init__(self, recording: "Recording") -> None:
        self._recording = recording

    def __call__(self, *vectors: Symbol) -> _PendingMixes:
        return self._send(MIX, vectors)

    def compressed(self, *vectors: Symbol) -> tuple[tuple[Symbol, _Pending], ...]:
        pending = self._send(COMPRESSED, vectors)
        owned = [self._recording.event(OWN, (), index) for index in range(len(vectors))]
        return tuple(zip(owned, pending, strict=True))

    def _send(self, kind: int, vectors: tuple[Symbol, ...]) -> _PendingMixes:
        recording = self._recording
        recording.event(kind, tuple(vector.value for vector in vectors))
        recording.mixes += 1
        return _PendingMixes(_Pending(recording, recording.mixes, i) for i in range(len(vectors)))


class _RecordedGradient:
    """The `grad` of a recorded step."""

    def __init__(self, recording: "Recording") -> None:
        self._recording = recording

    def __call__(self, x: Symbol) -> Symbol:
        return self._recording.event(GRAD, (x.value,))

    def full(self, x: Symbol) -> Symbol:
        return self._recording.event(FULL, (x.value,))


class Recording:
    """The values of a function, numbered in the order in which they are made.

    First come the input arrays, then t. Every other value is a constant, the result of an
    operation, or the result of an event: of waiting for a mixed vector, of compressing one's own,
    or of a gradient. With `t`, a step decides as at that iteration; without, a step that decides
    on t is not recorded.
    """

    def __init__(self, arrays: int, roots: bool = False, t: int | None = None) -> None:
        self.roots = roots  # take powers of 0.5 as square roots, whose last bit may differ
        self.inputs = [Symbol(self, value) for value in range(arrays)]
        self.t = Iteration(self, arrays, t)
        self.grad = _RecordedGradient(self)
        self.mix = _RecordedMix(self)
        self.mixes = 0
        self.count = arrays + 1
        self.constants: dict[int, float] = {}
        self.operations: dict[int, Operation] = {}
        self.scalars = {arrays}
        self.events: list[tuple[int, tuple[int, ...], int | None, int]] = []

    def add(self, name: str, *operands: Any) -> Symbol:
        numbers = tuple(self._value(operand) for operand in operands)
        if self.roots and name == "pow" and self.constants.get(numbers[1]) == 0.5:
            name, numbers = "sqrt", numbers[:1]
        value = self._new()
        self.operations[value] = Operation(name, numbers)
        if set(numbers) <= self.scalars:
            self.scalars.add(value)
        elif name == "pow":
            raise NotRecorded("a power of arrays")
        return Symbol(self, value)

    def all_scalar(self, operands: Iterable[Any]) -> bool:
        return all(not isinstance(z, Symbol) or z.value in self.scalars for z in operands)

    def event(self, kind: int, values: tuple[int, ...], index: int = 0) -> Symbol:
        value = None if kind in (MIX, COMPRESSED) else self._new()
        self.events.append((kind, values, value, index))
        return Symbol(self, -1 if value is None else value)

    def _value(self, operand: Any) -> int:
        if isinstance(operand, Symbol):
            return operand.value
        if type(operand) not in (int, float):  # a numpy scalar may change an array's precision
            raise NotRecorded(f"an operand of type {type(operand).__name__}")
        value = self._new()
        self.constants[value] = float(operand)
        self.scalars.add(value)
        return value

    def _new(self) -> int:
        self.count += 1
        return self.count - 1

    def of_function(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Record an entrywise function; return a program that takes its arrays, and t."""
        result = function(*self.inputs).value
        known = range(len(self.inputs))
        program, (inputs, _) = self._program([result], {result}, known)
        if inputs != list(known):
            raise NotRecorded("an array that is not used")
        return program

    def of_step(
        self, step: Callable[..., Any], kind: type, otherwise: Callable[..., Any]
    ) -> Callable[..., Any]:
        """Record `step` for states of class `kind`; return the Replay that runs the record.

        The Replay calls `otherwise` for a state that it cannot take.
        """
        after: Any = step(self.t, kind(*self.inputs), self.mix, self.grad)
        result = [symbol.value for symbol in after]
        if type(after) is not kind:
            raise NotRecorded("a state of another class")
        wanted = {value for _, values, _, _ in self.events for value in values} | set(result)
        if wanted & self.scalars:
            raise NotRecorded("a number in place of an array")
        slots = {value: value for value in range(len(self.inputs))}
        events: list[tuple[int, tuple[int, ...], tuple[int, ...], int, Any]] = []

        def make(values: Iterable[int]) -> None:
            """Add an event that computes those of the values that no slot holds yet."""
            missing = [value for value in values if value not in slots]
            if missing:
                program, (inputs, outputs) = self._program(missing, wanted, slots)
                taken = tuple(slots[value] for value in inputs)
                for value in outputs:
                    slots[value] = len(slots)
                events.append((RUN, taken, tuple(slots[value] for value in outputs), 0, program))

        for event, values, made, index in self.events:
            make(values)
            if made is not None:
                slots[made] = len(slots)
            out = () if made is None else (slots[made],)
            events.append((event, tuple(slots[value] for value in values), out, index, None))
        make(result)
        assert C is not None
        replay: Callable[..., Any] = C.Replay(
            otherwise,
            kind,
            len(self.inputs),
            len(slots),
            tuple(events),
            tuple(slots[value] for value in result),
        )
        return replay

    def _program(
        self, targets: Iterable[int], wanted: set[int], known: Iterable[int]
    ) -> tuple[Any, tuple[list[int], list[int]]]:
        """Build the program that computes the targets from known values.

        Returns it with its input and output values. Wanted values that it computes on the way are
        outputs as well.
        """
        known, inputs, made, waiting = set(known), set(), set(), list(targets)
        while waiting:
            value = waiting.pop()
            if value in known:
                inputs.add(value)
            elif value in self.operations and value not in made:
                made.add(value)
                waiting += self.operations[value].operands
        operations = {value: self.operations[value] for value in sorted(made)}
        outputs = [value for value in operations if value in wanted]
        program = assemble(
            sorted(inputs), outputs, operations, self.t.value, self.constants, self.scalars
        )
        return program, (sorted(inputs), outputs)
