"""`mpi-gt hostfile`: write a list of hosts for mpirun."""

from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import UserError
from . import HOSTS, Command

if TYPE_CHECKING:
    from ..parser import Parser

HELP = """\
Write a list of hosts in the format of the MPI that will read it.

examples:
  mpi-gt hostfile --hosts h1:4,h2:4 --mpi openmpi --out hosts
  mpi-gt run -n 8 --hostfile hosts                      the run that uses it
"""


def _add_arguments(parser: "Parser") -> None:
    parser.add_argument(
        "--hosts", required=True, metavar="NAME:SLOTS,...", help="the hosts, and ranks on each"
    )
    parser.add_argument(
        "--mpi",
        required=True,
        metavar="NAME",
        help="the MPI that reads it: openmpi, mpich, intelmpi or craympich",
    )
    parser.add_argument("--out", metavar="FILE", help="write it there (default: print it)")


def hostfile(hosts: str, mpi: str, out: str | None = None) -> int:
    """Print or write the list; return the exit code."""
    from ...launchers.hostfile import hostfile_text, parse_hosts

    text = hostfile_text(parse_hosts(hosts), mpi)
    if out is None:
        print(text, end="")
        return 0
    try:
        Path(out).write_text(text.replace("THIS_FILE", out), encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write {out}: {error.strerror}") from None
    print(f"wrote {out}")
    return 0


HOSTFILE = Command(
    name="hostfile",
    group=HOSTS,
    summary="write a list of hosts for mpirun",
    help=HELP,
    add_arguments=_add_arguments,
    alone=hostfile,
    old_spellings={"--nodes": "--hosts"},
)
