"""The errors with which a run ends early, and their exit codes."""

from typing import Any

STUCK_EXIT_CODE = 86
"""Exit code of a run that the watchdog ended: a rank waited too long for its neighbours."""


LONGEST_MESSAGE = 2000


class UserError(Exception):
    """An input that cannot be used; the message says why and what would work.

    It is one line, whatever characters of the input it quotes.
    """

    exit_code = 2

    def __init__(self, message: object) -> None:
        super().__init__(one_line(str(message)))


class Diverged(Exception):
    """A run in which some value is no longer finite; earlier measurements are kept.

    On root, `facts` is the content of run.json.
    """

    exit_code = 3

    def __init__(self, message: str, facts: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.facts = facts


class Stopped(Exception):
    """A stop on request: all ranks saved a checkpoint at the same iteration, to resume from."""

    exit_code = 85


class Interrupted(Stopped, KeyboardInterrupt):
    """A Ctrl-C during `mpi_gt.launch`, which has stopped the run in an orderly way.

    It is a Stopped, as there is a checkpoint to resume from, and a KeyboardInterrupt, as somebody
    wants the whole program to end.
    """


class RunFailed(Exception):
    """A run on ranks of its own that did not finish: a rank died, was stuck, or raised.

    `exit_code` is that of the command `mpi-gt`; the message is the run's own.
    """

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class OtherRankFailed(RunFailed, SystemExit):
    """The failure of a user's class in `mpi_gt.run`, on all ranks but the one that reports it.

    It is a SystemExit, so that a script that does not catch it ends without a second traceback.
    """

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message, exit_code)
        self.code = exit_code


class StorageError(Exception):
    """A failed write (a full disk, a removed directory); the message names the file."""


class UserCodeError(Exception):
    """A user's class that breaks its contract while a run iterates; the message says how."""


def one_line(text: str) -> str:
    """Return the text in one line that a terminal can print: other characters are escaped.

    The middle of a very long text is left out.
    """
    if len(text) > LONGEST_MESSAGE:
        half = LONGEST_MESSAGE // 2
        text = f"{text[:half]} ... {text[-half:]}"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
