"""Results of `mix` in a trial, which say what is missing where they are taken for arrays."""

from typing import Any, NoReturn

ADVICE = "a result of mix that was not waited for: call its wait()"


def _refuse(self: Any, *_: object, **__: object) -> NoReturn:
    raise TypeError(f"this is {ADVICE}, as in `(mixed,) = mix(z); x = mixed.wait()`")


class Unwaited:
    """The base class of what is no array yet: arithmetic with it is refused with advice."""

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _refuse
    __truediv__ = __rtruediv__ = __matmul__ = __rmatmul__ = __pow__ = __rpow__ = _refuse
    __neg__ = __abs__ = __array__ = __array_ufunc__ = _refuse


class Pending(Unwaited):
    """A result of mix that counts how often it is waited for."""

    def __init__(self, value: Any) -> None:
        self._value = value
        self.waited = 0

    def wait(self) -> Any:
        self.waited += 1
        return self._value


class PendingVectors(Unwaited, tuple[Pending, ...]):
    """All results of one call of mix; `wait` is for a call with a single vector."""

    def wait(self) -> Any:
        (only,) = self
        return only.wait()
