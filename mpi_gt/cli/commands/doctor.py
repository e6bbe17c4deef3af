"""`mpi-gt doctor`: find out what is wrong with MPI, the launcher or the hosts."""

from typing import TYPE_CHECKING

from ...errors import UserError
from ...spec import integer
from . import HOSTS, Command, Options

if TYPE_CHECKING:
    from mpi4py import MPI

    from ..parser import Parser
    from ..rank import RankContext

HELP = """\
Examine the MPI, the launcher, the hosts and their cores, time an exchange between neighbours,
and say in plain words what is wrong.

examples:
  mpi-gt doctor                        this machine
  mpi-gt doctor -n 16 --hostfile hosts
  mpirun -n 16 mpi-gt doctor           under your own launcher, also srun
"""
EPILOG = "exit codes: 0 a run can start (there may be warnings), 2 it cannot"


def _add_arguments(parser: "Parser") -> None:
    from ..parser import add_options

    parser.add_argument("-n", metavar="N", help="number of ranks to start, unless mpirun did")
    add_options(parser, "--hostfile")


def _launch(options: Options, argv: list[str]) -> int:
    """Examine this machine alone, or n ranks."""
    from ...launchers import mpirun
    from ...launchers.doctor import examine_machine

    n, hostfile = options.get("n"), options.get("hostfile")
    if n is not None:
        ranks = integer("-n", n)
        if not 1 <= ranks <= 10**6:
            raise UserError(f"-n must be in [1, 1000000], not {n}")
        return mpirun.launch(["doctor"], ranks, None, options=mpirun.MpirunOptions(hostfile))
    if hostfile is not None:
        raise UserError("--hostfile is for ranks: add -n N")
    return examine_machine()


def _on_mismatch(mismatch: str) -> None:
    from ...launchers.doctor import examine_machine

    examine_machine(mismatch)


def _on_ranks(comm: "MPI.Intracomm", plan: None, context: "RankContext") -> int:
    from ...launchers.doctor import examine_ranks

    return examine_ranks(comm)


DOCTOR = Command(
    name="doctor",
    group=HOSTS,
    summary="find out what is wrong with MPI or the launcher",
    help=HELP,
    epilog=EPILOG,
    add_arguments=_add_arguments,
    launch=_launch,
    prepare=lambda options, ranks: None,
    on_ranks=_on_ranks,
    on_mismatch=_on_mismatch,
)
