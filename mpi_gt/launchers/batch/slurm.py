"""Slurm scripts for `mpi-gt submit`, and their way to sbatch."""

import os
import shlex
import shutil
import subprocess
import sys

from ...errors import UserError
from .job import Job, duration

PMIX = "export PMIX_MCA_psec=${PMIX_MCA_psec:-native}\n"
LAUNCHERS = {
    "mpirun": ("", ""),
    "srun": ("", ""),  # by mpi-gt itself, with --launcher srun
    "pmix": (PMIX, "srun --mpi=pmix --export=ALL "),
    "pmi2": ("", "srun --mpi=pmi2 --kill-on-bad-exit --export=ALL "),
}
"""The text before the command of a job: lines above it, and words in its own line."""

# a signal ends the first `wait`; the second waits for the run, which then writes a checkpoint
REQUEUE = """\
 &
run=$!
trap 'kill -USR1 $run' USR1
wait $run
wait $run
code=$?
# 85: stopped at a checkpoint; 86: a neighbour fell silent
if [ $code = 85 ] || [ $code = 86 ] && [ "${SLURM_RESTART_COUNT:-0}" -lt 100 ]; then
    exec scontrol requeue "$SLURM_JOB_ID"
fi
exit $code
"""


def slurm_script(job: Job) -> str:
    """Return the batch script of a job."""
    several = len(job.hosts) > 1
    log = "mpi-gt-%A-%a.log" if job.array else "mpi-gt-%j.log"
    options = ["--job-name=mpi-gt", f"--time={duration(job.seconds)}", f"--output={log}"]
    options += [f"--array={job.array}"] if job.array else []
    options += [f"--export={','.join(job.export)}"] if job.export else []
    if job.requeue:
        options += ["--requeue", "--open-mode=append", f"--signal=B:USR1@{job.lead}"]
    options += map(_quoted, job.options)
    parts = [
        [f"--nodes={hosts}", f"--ntasks-per-node={ranks}"]
        for hosts, ranks in zip(job.hosts, job.ranks_per_host, strict=True)
    ]
    directives = [*parts[0], *options]
    for part in parts[1:]:
        directives += ["hetjob", *part]
    launcher = "mpirun" if job.stacked else job.launcher  # one process, by none of them
    before, start = LAUNCHERS[launcher]
    if several:
        start = start.replace("srun ", f"srun --het-group=0-{len(parts) - 1} ", 1)
    name = "$SLURM_ARRAY_JOB_ID-$SLURM_ARRAY_TASK_ID" if job.array else "$SLURM_JOB_ID"
    extra = ("--launcher=srun",) if launcher == "srun" else ()
    line = start + job.command(f"runs/{name}", extra, "$SLURM_ARRAY_TASK_ID")
    body = line + (REQUEUE if job.requeue else "\n")
    head = "".join(f"#SBATCH {option}\n" for option in directives)
    return f"#!/bin/bash\n{head}\n{job.prelude}{before}{body}"


def sbatch(text: str) -> int:
    """Submit a script; return the exit code."""
    if shutil.which("sbatch") is None:
        raise UserError("there is no sbatch here: is this a login node of a Slurm cluster?")
    try:
        answer = subprocess.run(
            ["sbatch"], input=os.fsencode(text), capture_output=True, check=False
        )
    except OSError as error:
        raise UserError(f"sbatch does not work: {error.strerror}") from None
    if answer.returncode:
        raise UserError(f"sbatch refused the job: {os.fsdecode(answer.stderr).strip()}")
    sys.stdout.write(os.fsdecode(answer.stdout))
    return 0


def _quoted(option: str) -> str:
    """Return an option of sbatch for a line #SBATCH: in quotes if its value has spaces."""
    flag, equals, value = option.partition("=")
    bare = " " in value and not set("'\"") & set(value)
    return f"{flag}={shlex.quote(value)}" if equals and bare else option
