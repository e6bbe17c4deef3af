"""One case of the campaign: a bad input, and how the command is started with it."""

import hashlib
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from campaign.files import Damage

INSIDE, COMMAND, MPIRUN = "inside", "command", "mpirun"
"""Ways to start: `main([...])` in a forked process, `mpi-gt ...`, `mpirun -n 2 mpi-gt ...`."""
BAD_INPUT = (2,)
ANY_END = (0, 2)


@dataclass(frozen=True)
class Case:
    """A command that has to end with one message and one of these exit codes.

    `needs` are the files that it finds in its folder: names of `files.FILES` and damaged copies of
    the directories that the campaign has prepared.
    """

    kind: str
    words: tuple[str, ...]
    needs: tuple[str | Damage, ...] = ()
    how: str = INSIDE
    codes: tuple[int, ...] = BAD_INPUT

    @property
    def name(self) -> str:
        """A name that stays the same whatever other cases there are."""
        content = repr((self.words, self.needs, self.how))
        return f"{self.kind}-{hashlib.sha256(content.encode()).hexdigest()[:8]}"

    def __str__(self) -> str:
        start = "mpirun -n 2 mpi-gt" if self.how == MPIRUN else "mpi-gt"
        quoted = (shlex.quote(word) if word.isprintable() else f"${word!a}" for word in self.words)
        words = " ".join(quoted)
        shown = words if len(words) < 300 else f"{words[:300]}..."
        needs = f"   with {', '.join(map(str, self.needs))}" if self.needs else ""
        return f"{self.name}: {start} {shown}{needs}"

    @property
    def can_be_typed(self) -> bool:
        """Whether a shell can pass these words: none holds a null character."""
        return not any("\0" in word for word in self.words)


def rotate(values: Sequence[str], count: int, key: str) -> list[str]:
    """Return `count` of the values, other ones for other keys, the same at each call."""
    if count >= len(values):
        return list(values)
    first = int(hashlib.sha256(key.encode()).hexdigest()[:8], 16)
    step = max(1, len(values) // count)
    return [values[(first + step * number) % len(values)] for number in range(count)]
