"""`mpi-gt submit`: check a command, write its batch script and submit it."""

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import UserError
from ...spec import convert, integer, nearest
from . import COMMANDS, HOSTS, Command, Options, load

if TYPE_CHECKING:
    from ...launchers.batch.job import Job
    from ..parser import Parser

HELP = """\
Check a command, write its batch script and submit it to Slurm. An error in the command is reported
now, not after hours in the queue. Scripts for PBS and Flux are printed, for you to submit.

examples:
  mpi-gt submit --hosts 4 --ranks-per-host 4 --time 01:00:00 -- run --graph ring --seeds 5
  mpi-gt submit --hosts 4 --ranks-per-host 4 --time 01:00:00 --print -- run      only print it
  mpi-gt submit --hosts 2 --ranks-per-host 8 --time 04:00:00 --requeue -- run --iterations 100000
  mpi-gt submit --hosts 2 --ranks-per-host 8 --time 00:10:00 --launcher srun -- bench
  mpi-gt submit --hosts 2 --ranks-per-host 8 --time 01:00:00 --prelude modules.sh -- compare
  mpi-gt submit --hosts 2 --ranks-per-host 8 --time 01:00:00 --array 0-4 -- run --seed %a
  mpi-gt submit --hosts 1+2 --ranks-per-host 8+4 --time 01:00:00 --launcher pmi2 -- run
  mpi-gt submit --hosts 4 --ranks-per-host 4 --time 01:00:00 --system pbs -- run > job.pbs
"""
SYSTEMS = ("slurm", "pbs", "flux")


def _add_arguments(parser: "Parser") -> None:
    parser.add_argument(
        "--hosts", required=True, metavar="N", help="number of hosts; N+M: of two kinds of them"
    )
    parser.add_argument(
        "--ranks-per-host", required=True, metavar="M", help="number of ranks on each host"
    )
    parser.add_argument("--time", required=True, metavar="HH:MM:SS", help="time limit of the job")
    parser.add_argument(
        "--system", metavar="NAME", help="slurm (default), or pbs or flux, which are printed only"
    )
    parser.add_argument(
        "--launcher",
        metavar="NAME",
        help="mpirun (default; either MPI), srun (by mpi-gt; either MPI), or srun in front of "
        "mpi-gt: pmix (Open MPI), pmi2 (MPICH)",
    )
    parser.add_argument(
        "--prelude",
        metavar="FILE",
        help="lines for the script before the command: module load, conda activate, ...",
    )
    parser.add_argument(
        "--export",
        metavar="NAME,...",
        help="variables that the job gets: ALL (default), NONE, or NAME and NAME=VALUE",
    )
    parser.add_argument(
        "--array", metavar="A-B", help="one job per number, which replaces %%a in the command"
    )
    parser.add_argument(
        "--requeue",
        action="store_true",
        help="before the time limit write a checkpoint, queue the job again, and continue; also "
        "checkpoints every 10 minutes, unless the command says how often",
    )
    parser.add_argument(
        "--signal",
        metavar="SECONDS",
        help="with --requeue: how long before the limit (default 60, and the time of twice as many "
        "iterations as there are ranks, as measured by the run of --like or of `resume DIR`)",
    )
    parser.add_argument(
        "--like", metavar="DIR", help="with --requeue: a run with the time of an iteration"
    )
    parser.add_argument(
        "--sbatch",
        action="append",
        metavar="OPTION",
        help="an option of the batch system, as in --sbatch=--mem=4G; may be repeated",
    )
    parser.add_argument("--out", metavar="FILE", help="also write the script to this file")
    parser.add_argument("--print", action="store_true", help="print the script, submit nothing")


def submit(
    words: list[str],
    system: str = "slurm",
    out: str | None = None,
    print: bool = False,
    **options: Any,
) -> int:
    """Write, print or submit the script of `mpi-gt WORDS`; return the exit code."""
    from ...launchers.batch import slurm

    if system not in SYSTEMS:
        raise UserError(f"unknown batch system '{system}'{nearest(system, SYSTEMS)}")
    text = _script(system, _make_job(words, system, options))
    if out is not None:
        try:
            Path(out).write_bytes(os.fsencode(text))  # file names, whatever their bytes
        except OSError as error:
            raise UserError(f"cannot write {out}: {error.strerror}") from None
    if print or system != "slurm":
        sys.stdout.flush()
        sys.stdout.buffer.write(os.fsencode(text))
        return 0
    return slurm.sbatch(text)


def _script(system: str, job: "Job") -> str:
    from ...launchers.batch.pbs_flux import flux_script, pbs_script
    from ...launchers.batch.slurm import slurm_script

    if system == "slurm":
        return slurm_script(job)
    if system == "pbs":
        return pbs_script(job)
    from ...launchers.programs import brand_of_library

    return flux_script(job, "pmix" if brand_of_library().name == "openmpi" else None)


def _make_job(words: list[str], system: str, options: Options) -> "Job":
    """Return the job, after all checks of its command and its options."""
    from ...launchers.batch.job import (
        Job,
        parse_array,
        parse_size,
        parse_time,
        parse_variables,
        read_prelude,
    )

    if not words:
        raise UserError("submit what? Add the command behind two dashes: -- run --seeds 5")
    array = options.get("array")
    tasks = [None] if array is None else parse_array(array)
    if array is not None and not any("%a" in word for word in words):
        raise UserError("--array: %a in the command stands for the number, as in run --seed %a")
    hosts, per_host = parse_size(options["hosts"], options["ranks_per_host"])
    n = sum(map(int.__mul__, hosts, per_host))
    directories = set()
    launcher = "flux run" if system == "flux" else options.get("launcher", "mpirun")
    for task in tasks:
        chosen = [word if task is None else word.replace("%a", str(task)) for word in words]
        inner, ranks, default_out = _check_command(chosen, n, launcher)
        given = _with_file(inner)
        directories.add(str(given.get("directory", given.get("out"))))
    if not default_out and len(directories) < len(tasks):
        raise UserError("--array: all jobs would write to one directory: put %a into --out")
    job = Job(
        tuple(words),
        ranks,
        default_out,
        hosts,
        per_host,
        parse_time(options["time"]),
        options.get("launcher", "mpirun"),
        options.get("requeue", False),
        bool(given.get("stacked")),
        any(given.get(name) for name in ("checkpoint_every", "checkpoint_minutes")),
        prelude=read_prelude(options.get("prelude")),
        export=parse_variables(options.get("export")),
        array=array,
        options=tuple(options.get("sbatch", ())),
    )
    _check_job(job, system)
    return _with_lead(job, inner, options)


def _check_command(words: list[str], n: int, launcher: str) -> tuple[Options, str, bool]:
    """Return the options of the command, its -n, and whether the job chooses its directory."""
    from ...launchers.options import LaunchOptions
    from ..parser import parse

    name, inner = parse(words)
    check = load(name).check_submitted
    for_launcher = LaunchOptions.of(inner)
    what = name if check is None else "--hostfile" if for_launcher.hostfile is not None else None
    if check is None or what:
        submitted = [each for each in COMMANDS if load(each).check_submitted is not None]
        raise UserError(f"submit is for {', '.join(submitted)}, not for {what}")
    if for_launcher.flag and launcher in ("pmix", "pmi2", "flux run"):
        starts = launcher if launcher == "flux run" else f"--launcher {launcher}"
        raise UserError(f"{starts} starts the ranks: no {for_launcher.flag} beside it")
    if name == "scale":  # a series of numbers, which its own check compares
        series = ",".join(str(2**k) for k in range(n.bit_length()) if (2**k <= n and k) or n == 1)
        ranks = inner.get("n", series)
        most = max(integer("-n", each) for each in ranks.split(","))
    else:
        ranks = str(n)
        most = convert("-n", int, inner.get("n", ranks))
    if most > n or (name != "scale" and most != n):
        raise UserError(f"-n {inner['n']} does not fit: hosts times ranks per host are {n} ranks")
    return inner, ranks, check({"n": ranks, **inner})


def _with_file(inner: Options) -> Options:
    """Return the options of a command together with those in its file, if it names one."""
    from ...config import read_toml

    return {**(read_toml(Path(inner["file"])) if inner.get("file") else {}), **inner}


def _check_job(job: "Job", system: str) -> None:
    """Raise UserError for options that do not go together."""
    from ...launchers.batch.job import CONTINUED
    from ...launchers.batch.slurm import LAUNCHERS

    if job.launcher not in LAUNCHERS:
        raise UserError(f"unknown launcher '{job.launcher}'{nearest(job.launcher, LAUNCHERS)}")
    if job.requeue and job.words[0] not in CONTINUED:
        raise UserError(f"--requeue is for {', '.join(CONTINUED)}, not for {job.words[0]}")
    if job.requeue and system != "slurm":
        raise UserError(f"--requeue is for Slurm, not for {system}")
    if job.launcher != "mpirun" and system != "slurm":
        raise UserError(f"--launcher is for Slurm, not for {system}")
    if system == "pbs" and not job.seconds:
        raise UserError("--time must be more than 0 for PBS")
    if job.array and system == "pbs" and not re.fullmatch(r"\d+-\d+(%\d+)?", job.array):
        raise UserError(f"--array takes one range for PBS, as in 0-4, not '{job.array}'")
    if job.array and system == "flux":
        raise UserError("--array is for Slurm and PBS: Flux has no arrays")
    if len(job.hosts) > 1 and system == "slurm" and job.launcher in ("mpirun", "srun"):
        raise UserError(
            "a heterogeneous job of Slurm is started by srun alone: add --launcher pmix (Open MPI) "
            "or pmi2 (MPICH)"
        )
    for option in job.options:
        if not option.startswith("-") or not option.isprintable():
            raise UserError(
                f"--sbatch takes an option of sbatch, as in --sbatch=--mem=4G: '{option}'"
            )


def _with_lead(job: "Job", inner: Options, options: Options) -> "Job":
    """Return the job with the time before its limit at which it is to write a checkpoint."""
    from dataclasses import replace

    from ...launchers.batch.job import lead_time
    from ...rundir.run_json import read_facts, require_facts

    given = [flag for flag in ("signal", "like") if flag in options]
    if not job.requeue:
        if given:
            raise UserError(f"--{given[0]} goes with --requeue")
        return job
    if "signal" in options:
        lead = integer("--signal", options["signal"])
    else:
        facts = read_facts(Path(str(inner.get("directory", inner.get("out", "runs")))))
        if "like" in options:
            facts = require_facts(Path(options["like"]), ("seconds_per_iteration",))
            if not facts:
                raise UserError(f"--like: {options['like']} is not the directory of a run")
        lead = lead_time(job.n, facts.get("seconds_per_iteration"))
    if not 1 <= lead < 65536:
        raise UserError(f"--signal must be in [1, 65535] seconds, not {lead}")
    if job.seconds and lead >= job.seconds:
        raise UserError(
            f"a checkpoint is to be asked for {lead} s before the time limit, which is "
            f"{job.seconds} s: give the job more --time"
        )
    return replace(job, lead=lead)


SUBMIT = Command(
    name="submit",
    group=HOSTS,
    summary="submit a command to Slurm, or print its script for PBS or Flux",
    help=HELP,
    usage="mpi-gt submit --hosts N --ranks-per-host M --time T [options] -- COMMAND ...",
    add_arguments=_add_arguments,
    alone=submit,
    takes_command=True,
    old_spellings={"--nodes": "--hosts", "--ntasks-per-node": "--ranks-per-host"},
)
