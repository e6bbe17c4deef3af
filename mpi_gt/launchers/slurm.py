"""`mpi-gt submit`: a Slurm script for a command, checked and submitted with sbatch."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from ..errors import UserError
from ..spec import integer, nearest

TIME = re.compile(r"(\d+-)?\d+(:\d\d){0,2}")  # the formats that sbatch accepts

LAUNCHERS = {
    "mpirun": "",
    "pmix": "export PMIX_MCA_psec=${PMIX_MCA_psec:-native}\nsrun --mpi=pmix ",
    "pmi2": "srun --mpi=pmi2 --kill-on-bad-exit ",
}

# a signal ends the first `wait`; the second waits for the run, which then writes a checkpoint
REQUEUE = """\
{line} &
run=$!
trap 'kill -USR1 $run' USR1
wait $run
wait $run
code=$?
# 85: stopped at a checkpoint; 86: a neighbour fell silent
if [ $code = 85 ] || [ $code = 86 ] && [ "${{SLURM_RESTART_COUNT:-0}}" -lt 100 ]; then
    exec scontrol requeue "$SLURM_JOB_ID"
fi
exit $code
"""


def submit(
    words: Sequence[str],
    default_out: bool,
    hosts: str,
    ranks_per_host: str,
    time: str,
    launcher: str = "mpirun",
    requeue: bool = False,
    sbatch: Sequence[str] = (),
    out: str | None = None,
    print: bool = False,
) -> int:
    """Write, print or submit the script; return the exit code.

    `words` is the command that the job runs; `default_out`: it has no `--out`.
    """
    text = script(words, default_out, hosts, ranks_per_host, time, launcher, requeue, list(sbatch))
    if out is not None:
        try:
            Path(out).write_bytes(os.fsencode(text))  # file names, whatever their bytes
        except OSError as error:
            raise UserError(f"cannot write {out}: {error.strerror}") from None
    if print:
        sys.stdout.flush()
        sys.stdout.buffer.write(os.fsencode(text))
        return 0
    if shutil.which("sbatch") is None:
        raise UserError("there is no sbatch here: is this a login node of a Slurm cluster?")
    answer = subprocess.run(["sbatch"], input=os.fsencode(text), capture_output=True, check=False)
    if answer.returncode:
        raise UserError(f"sbatch refused the job: {os.fsdecode(answer.stderr).strip()}")
    sys.stdout.write(os.fsdecode(answer.stdout))
    return 0


def count_ranks(hosts: str, ranks_per_host: str) -> int:
    """Return the number of ranks on all hosts."""
    counts = [integer("--hosts", hosts), integer("--ranks-per-host", ranks_per_host)]
    if min(counts) < 1:
        raise UserError("--hosts and --ranks-per-host must be 1 or more")
    return counts[0] * counts[1]


def script(
    words: Sequence[str],
    default_out: bool,
    hosts: str,
    ranks_per_host: str,
    time: str,
    launcher: str,
    requeue: bool,
    sbatch: Sequence[str],
) -> str:
    """Return the batch script; raise UserError for options that sbatch would refuse."""
    n = count_ranks(hosts, ranks_per_host)
    if not TIME.fullmatch(time):
        raise UserError(f"--time must be HH:MM:SS, or D-HH:MM:SS, not '{time}'")
    if launcher not in LAUNCHERS:
        raise UserError(f"unknown launcher '{launcher}'{nearest(launcher, LAUNCHERS)}")
    command, *rest = words
    if requeue and command != "run":
        raise UserError(f"--requeue is for run, not for {command}")
    for option in sbatch:
        if not option.startswith("-") or not option.isprintable():
            raise UserError(
                f"--sbatch takes an option of sbatch, as in --sbatch=--mem=4G: '{option}'"
            )
    options = [
        "--job-name=mpi-gt",
        f"--nodes={hosts}",
        f"--ntasks-per-node={ranks_per_host}",
        f"--time={time}",
        "--output=mpi-gt-%j.log",
        *(["--requeue", "--open-mode=append", "--signal=B:USR1@60"] if requeue else []),
        *map(_quoted, sbatch),
    ]
    before, _, start = LAUNCHERS[launcher].rpartition("\n")
    line = start + shlex.join([sys.executable, "-m", "mpi_gt", command, "-n", str(n)])
    if default_out:
        line += ' --out="runs/$SLURM_JOB_ID"'
    if requeue:
        line += " --resume"
    line = " ".join([line, *map(shlex.quote, rest)])
    body = REQUEUE.format(line=line) if requeue else line + "\n"
    lines = ["#!/bin/bash", *(f"#SBATCH {option}" for option in options), ""]
    return "\n".join([*lines, *([before] if before else []), body])


def _quoted(option: str) -> str:
    """Return an option of sbatch for a line #SBATCH: in quotes if its value has spaces."""
    flag, equals, value = option.partition("=")
    bare = " " in value and not set("'\"") & set(value)
    return f"{flag}={shlex.quote(value)}" if equals and bare else option
