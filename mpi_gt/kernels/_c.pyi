from typing import Any

from numpy.typing import NDArray

Array = NDArray[Any]

VERSION: int

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

class Timed:
    def __new__(cls, stamps: Array, before: int, after: int, inner: Any, /) -> Timed: ...
    def __call__(self, *arguments: Any, **named: Any) -> Any: ...

class NodeCounters:
    iteration: int
    due: int
    stop_at: int
    waits: int
    bytes_sent: int
    gradients: int
    deadline: float
    waiting: Any

class Transfer:
    results: Any
    pending: int
    calls: int
    def __new__(
        cls,
        node: NodeCounters,
        plan: Any,
        messages: tuple[tuple[Array, Array, tuple[Array, ...], tuple[Array, ...]], ...],
        weights: Array,
        place: int,
        bytes: int,
        start: Any,
        finish: Any,
        fill: Any,
        /,
    ) -> Transfer: ...
    def __call__(self, *vectors: Array) -> Any: ...
    def receive(self, index: int, /) -> Array: ...
    def watch(self, stamps: Array, before: int, after: int, /) -> None: ...
    def alternate(self, messages: tuple[Any, ...], prepare: Any, /) -> None: ...

class Words:
    count: int
    for_readers: int
    def __new__(
        cls, own: Array, sources: tuple[Array, ...], readers: tuple[Array, ...], /
    ) -> Words: ...
    def publish(self) -> None: ...
    def wait(self, index: int, /) -> None: ...
    def wait_for_readers(self) -> None: ...

class PendingMix:
    def __new__(cls, transfer: Transfer, index: int, /) -> PendingMix: ...
    def wait(self) -> Array: ...

class Mix:
    compressed: Any
    def __new__(
        cls, node: NodeCounters, make: Any, layers: int = 1, turns: Any = None, /
    ) -> Mix: ...
    def __call__(self, *vectors: Array) -> Any: ...
    def each(self, *vectors: Array) -> Any: ...

class NextGradient:
    def __new__(
        cls, node: NodeCounters, gradient: Any, full: Any, batch: int, rows: int, /
    ) -> NextGradient: ...
    def __call__(self, x: Array, /) -> Array: ...
    def full(self, x: Array, /) -> Array: ...

class Window:
    _numbers: Any
    _first: int
    _count: int
    _program: Program | None
    _seeds: Array
    _word: int
    _length: int
    _window: int
    _width: int
    _identity: bool
    def at(self, t: int, /) -> Array: ...

class Huber:
    def __new__(
        cls,
        columns: Array,
        rows: Array,
        theta: Array,
        threshold: float,
        scale: float,
        noise: tuple[float, float, float, float],
        draws: Window | None,
        otherwise: Any,
        fixed: bool,
        /,
    ) -> Huber: ...
    def __call__(self, t: int, x: Array, /) -> Array: ...
    def evaluate(self, x: Array, /) -> tuple[Array, Array] | None: ...

class Softmax:
    def __new__(
        cls,
        features: Array,
        labels: Array,
        classes: int,
        batch: int,
        scale: float,
        reg: float,
        draws: Window,
        multiply: Any,
        otherwise: Any,
        /,
    ) -> Softmax: ...
    def __call__(self, t: int, x: Array, /) -> Array: ...

class Collective:
    def __new__(
        cls,
        path: str,
        name: str,
        send: Array,
        receive: Array,
        datatype: int,
        comm: int,
        fail: Any,
        /,
    ) -> Collective: ...
    def __call__(self) -> None: ...

def advance(
    step: Any, node: NodeCounters, mix: Any, grad: Any, last: int, t: int, states: list[Any], /
) -> int: ...
def uniform(out: Array, seeds: Array, word: int, block: int, row: int, /) -> None: ...
def slopes(
    z: Array,
    labels: Array,
    scale: float,
    loss: Array | None,
    correct: Array | None,
    fixed: bool,
    /,
) -> None: ...
def mix_all(out: Array, matrix: Array, z: Array, /) -> None: ...
def multiply(out: Array, a: Array, b: Array, add: bool, /) -> None: ...
def elementary(kind: int, x: Array, /) -> Array: ...
def encode(
    codec: tuple[int, int, int, int, float],
    z: Array,
    payload: Array,
    uniform: Array | None,
    /,
) -> None: ...
def decode(codec: tuple[int, int, int, int, float], payloads: Array, out: Array, /) -> None: ...
def stamp(stamps: Array, code: int, /) -> None: ...
def local_metrics(
    x: Array,
    xbar: Array,
    sent: Any,
    columns: tuple[Array, ...],
    vectors: tuple[Array, ...],
    state: tuple[Array, ...],
    /,
) -> Array | None: ...
