"""A command as a batch job: its size, time limit and options, whatever the batch system."""

import math
import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from ...errors import UserError
from ...spec import integer
from ..options import parse_export

SLURM_TIME = re.compile(r"(?:(\d{1,6})-)?(\d{1,9})(?::(\d\d))?(?::(\d\d))?", re.ASCII)
ARRAY = re.compile(r"(\d{1,6})(?:-(\d{1,6}))?(?:%\d{1,6})?", re.ASCII)
TASK = "%a"
"""The word in the command of an array that stands for the number of a job, as in sbatch."""

MOST_TASKS = 1000
"""The jobs that an array may have: their commands are checked one by one."""

ALL, NONE = "ALL", "NONE"
"""The words in the place of names of variables: all that are set here, or none of them."""

GRACE = 60
"""Seconds to write a checkpoint; Slurm's own timer is not more exact than that."""

PERIOD = "--checkpoint-minutes=10"
"""Given to a job that may be queued again: a host can also fail without a signal."""

CONTINUED = {
    **dict.fromkeys(("run", "compare", "profile", "sweep"), ("--resume",)),
    **dict.fromkeys(("resume", "reproduce"), ()),
}
"""The commands that continue where they stopped, and the words with which they do."""


@dataclass(frozen=True)
class Job:
    """A command to run in a batch job."""

    words: tuple[str, ...]  # of mpi-gt; the first is the command
    ranks: str  # for its -n
    default_out: bool  # the job chooses the run directory
    hosts: tuple[int, ...]  # one number per part of a heterogeneous job; else a single one
    ranks_per_host: tuple[int, ...]
    seconds: int  # time limit
    launcher: str = "mpirun"
    requeue: bool = False
    stacked: bool = False  # the command is one process
    saves: bool = False  # the command itself says how often to write a checkpoint
    lead: int = GRACE  # seconds before the limit at which a checkpoint is asked for
    prelude: str = ""
    export: tuple[str, ...] = ()  # names of variables, or ALL or NONE; (): the system's default
    array: str | None = None
    options: tuple[str, ...] = ()  # of the batch system, as it spells them

    @property
    def n(self) -> int:
        """The number of ranks."""
        return sum(map(int.__mul__, self.hosts, self.ranks_per_host))

    def command(self, out: str, extra: tuple[str, ...] = (), task: str = "") -> str:
        """Return the line of a script that runs the command, without a launcher in front.

        `out` is the run directory, as the shell is to read it, for a command without one; `extra`
        are words for mpi-gt; `task` is the shell's name for the number of a job in an array.
        """
        name, *rest = self.words
        line = shlex.join([sys.executable, "-m", "mpi_gt", name, "-n", self.ranks])
        line += f' --out="{out}"' if self.default_out else ""
        # the user's own words come last: of two flags the later one wins
        again = CONTINUED[name] if self.requeue else ()
        period = [PERIOD] if self.requeue and not self.saves else []
        words = [*extra, *period, *again, *rest]
        quoted = (_quote(word, task) if self.array else shlex.quote(word) for word in words)
        return " ".join([line, *quoted])


def _quote(word: str, task: str) -> str:
    """Return a word for the shell, with the number of the job in place of %a."""
    return f'"{task}"'.join(shlex.quote(part) if part else "" for part in word.split(TASK)) or "''"


def parse_size(hosts: str, ranks_per_host: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Parse 4 and 2, or 1+3 and 8+2 for a heterogeneous job of two parts."""
    counts = []
    for flag, text in {"--hosts": hosts, "--ranks-per-host": ranks_per_host}.items():
        counts.append(tuple(integer(flag, part) for part in text.split("+")))
    if min(map(min, counts)) < 1:
        raise UserError("--hosts and --ranks-per-host must be 1 or more")
    if len(counts[0]) != len(counts[1]):
        raise UserError(
            f"--hosts {hosts} and --ranks-per-host {ranks_per_host} have different numbers of parts"
        )
    return counts[0], counts[1]


def parse_time(text: str) -> int:
    """Return the seconds of a time limit, in the formats of sbatch: HH:MM:SS, D-HH:MM:SS, ..."""
    match = SLURM_TIME.fullmatch(text)
    if match is None:
        raise UserError(f"--time must be HH:MM:SS, or D-HH:MM:SS, not '{text}'")
    numbers = [int(part) for part in match.groups()[1:] if part is not None]
    if match[1] is not None:  # days, then hours
        hours, minutes, seconds = [*numbers, 0, 0][:3]
        return 86400 * int(match[1]) + 3600 * hours + 60 * minutes + seconds
    if len(numbers) == 3:
        return 3600 * numbers[0] + 60 * numbers[1] + numbers[2]
    minutes, seconds = [*numbers, 0][:2]
    return 60 * minutes + seconds


def parse_array(text: str) -> list[int]:
    """Return the numbers of an array of jobs: 0-4, 1,3,5, with %K for at most K at a time."""
    numbers: list[int] = []
    for part in text.split(","):
        match = ARRAY.fullmatch(part)
        first, last = (0, -1) if match is None else (int(match[1]), int(match[2] or match[1]))
        if last < first:
            raise UserError(f"--array takes numbers and ranges, as in 0-4 or 1,3,7-9, not '{text}'")
        numbers += range(first, last + 1)
        if len(numbers) > MOST_TASKS:
            raise UserError(f"--array '{text}' has more than {MOST_TASKS} jobs")
    return numbers


def parse_variables(text: str | None) -> tuple[str, ...]:
    """Parse ALL, NONE, or NAME and NAME=VALUE: the variables that a job gets."""
    if text is None:
        return ()
    found = parse_export(text)
    if not found:
        raise UserError("--export takes names of variables, ALL or NONE, not nothing")
    if NONE in found and len(found) > 1:
        raise UserError("--export: beside NONE there are no other variables")
    for item in found:
        if re.search(r"[*\s'\"\\]", item):
            raise UserError(
                f"--export: batch systems take no patterns, blanks or quotes, as in '{item}': set "
                "it in a file for --prelude"
            )
    return found


def read_prelude(path: str | None) -> str:
    """Return the lines that set up the environment of a job; "" without a file."""
    if path is None:
        return ""
    from ...files import read_text

    return read_text(Path(path)).rstrip("\n") + "\n"


def lead_time(n: int, seconds_per_iteration: float | None) -> int:
    """Return how long before its end a job is to be told to stop, in seconds.

    The ranks agree within n iterations where to stop, and then write a checkpoint.
    """
    needed = 2 * n * (seconds_per_iteration or 0)
    return GRACE + math.ceil(needed) if math.isfinite(needed) else GRACE


def duration(seconds: int) -> str:
    """Return a time limit as HH:MM:SS."""
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
