from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]

class Program:
    def __new__(
        cls,
        inputs: int,
        outputs: int,
        blocks: int,
        scalars: int,
        constants: tuple[float, ...],
        on_scalars: bytes,
        on_arrays: bytes,
        /,
    ) -> Program: ...
    def __call__(self, *operands: Any) -> Any: ...

class Replay:
    def __new__(
        cls,
        step: Any,
        state: type,
        fields: int,
        slots: int,
        events: tuple[Any, ...],
        result: tuple[int, ...],
        /,
    ) -> Replay: ...
    def __call__(self, t: int, state: Any, mix: Any, grad: Any, /) -> Any: ...

class Watched:
    def __new__(cls, stamps: Array, before: int, after: int, inner: Any, /) -> Watched: ...
    def __call__(self, *arguments: Any, **named: Any) -> Any: ...

def pack(
    header: Array, slots: tuple[Array, ...], iteration: int, stop_at: int, vectors: Any, /
) -> bool: ...
def agree(headers: Array, header: Array, /) -> bool: ...
def combine(received: Array, own: Array, weights: Array, place: int, /) -> Array: ...
def uniform(out: Array, seeds: Array, word: int, block: int, row: int, /) -> None: ...
def huber(
    x: Array,
    columns: Array,
    rows: Array,
    theta: Array,
    noise: Array | None,
    threshold: float,
    scale: float,
    /,
) -> Array | None: ...
def slopes(
    z: Array, labels: Array, scale: float, loss: Array | None, correct: Array | None, /
) -> None: ...
def stamp(stamps: Array, code: int, /) -> None: ...
