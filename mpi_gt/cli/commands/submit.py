"""`mpi-gt submit`: check a command, write its Slurm script and submit it."""

from typing import TYPE_CHECKING, Any

from ...errors import UserError
from ...spec import convert
from . import COMMANDS, HOSTS, Command, load

if TYPE_CHECKING:
    from ..parser import Parser

HELP = """\
Check a command, write its Slurm script and submit it. An error in the command is reported now, not
after hours in the queue.

examples:
  mpi-gt submit --hosts 4 --ranks-per-host 4 --time 01:00:00 -- run --graph ring --seeds 5
  mpi-gt submit --hosts 4 --ranks-per-host 4 --time 01:00:00 --print -- run      only print it
  mpi-gt submit --hosts 2 --ranks-per-host 8 --time 04:00:00 --requeue -- run --iterations 100000
  mpi-gt submit --hosts 2 --ranks-per-host 8 --time 02:00:00 --launcher pmix -- compare
"""


def _add_arguments(parser: "Parser") -> None:
    parser.add_argument("--hosts", required=True, metavar="N", help="number of hosts")
    parser.add_argument(
        "--ranks-per-host", required=True, metavar="M", help="number of ranks on each host"
    )
    parser.add_argument("--time", required=True, metavar="HH:MM:SS", help="time limit of the job")
    parser.add_argument(
        "--launcher",
        metavar="NAME",
        help="mpirun (default; either MPI), pmix (srun, Open MPI) or pmi2 (srun, MPICH)",
    )
    parser.add_argument(
        "--requeue",
        action="store_true",
        help="for run: a minute before the time limit write a checkpoint, queue the job again, "
        "and continue",
    )
    parser.add_argument(
        "--sbatch",
        action="append",
        metavar="OPTION",
        help="an option for sbatch, as in --sbatch=--mem=4G; may be repeated",
    )
    parser.add_argument("--out", metavar="FILE", help="also write the script to this file")
    parser.add_argument("--print", action="store_true", help="print the script, submit nothing")


def submit(words: list[str], **options: Any) -> int:
    """Submit `mpi-gt WORDS`; return the exit code."""
    from ...launchers import slurm
    from ...launchers.mpirun import MpirunOptions
    from ..parser import parse

    if not words:
        raise UserError("submit what? Add the command behind two dashes: -- run --seeds 5")
    name, inner = parse(words)
    check = load(name).check_submitted
    for_mpirun = MpirunOptions.of(inner).flag
    if check is None or for_mpirun:
        what = name if check is None else for_mpirun
        submitted = [each for each in COMMANDS if load(each).check_submitted is not None]
        raise UserError(f"submit is for {', '.join(submitted)}, not for {what}")
    n = slurm.count_ranks(options["hosts"], options["ranks_per_host"])
    if convert("-n", int, inner.get("n", str(n))) != n:
        raise UserError(f"-n {inner['n']} does not fit: hosts times ranks per host are {n} ranks")
    return slurm.submit(words, check({"n": str(n), **inner}), **options)


SUBMIT = Command(
    name="submit",
    group=HOSTS,
    summary="submit a command to Slurm",
    help=HELP,
    usage="mpi-gt submit --hosts N --ranks-per-host M --time T [options] -- COMMAND ...",
    add_arguments=_add_arguments,
    alone=submit,
    takes_command=True,
    old_spellings={"--nodes": "--hosts", "--ntasks-per-node": "--ranks-per-host"},
)
