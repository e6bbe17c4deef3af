"""`mpi-gt doctor`: find out what is wrong with MPI, the launcher or the hosts."""

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import UserError
from ...files import require_name
from ...spec import integer
from . import HOSTS, Command, Options

if TYPE_CHECKING:
    from mpi4py import MPI

    from ..parser import Parser
    from ..rank import RankContext

HELP = """\
Examine the MPI, the launcher, and the hosts: cores that the ranks are bound to, limits of control
groups, the file system of the run directory, fast networks and whether they are used, clocks. Time
an exchange between neighbours, and latency and bandwidth between each two hosts. Say in plain words
what is wrong, and what to type.

examples:
  mpi-gt doctor                        this machine
  mpi-gt doctor -n 16 --hostfile hosts
  mpi-gt doctor -n 16 --launcher srun --json > doctor.json
  mpirun -n 16 mpi-gt doctor           under your own launcher, also srun
"""
EPILOG = "exit codes: 0 a run can start (there may be warnings), 2 it cannot"


def _add_arguments(parser: "Parser") -> None:
    from ..parser import LAUNCH_GROUP, add_groups

    parser.add_argument("-n", metavar="N", help="number of ranks to start, unless mpirun did")
    parser.add_argument(
        "--out", metavar="DIR", help="where runs will be written (default the current folder)"
    )
    parser.add_argument("--json", action="store_true", help="print all findings as JSON")
    add_groups(parser, LAUNCH_GROUP)


def _launch(options: Options, argv: list[str]) -> int:
    """Examine this machine alone, or n ranks."""
    from ...launchers import mpirun
    from ...launchers.doctor import examine_machine
    from ...launchers.options import LaunchOptions

    n, for_launcher = options.get("n"), LaunchOptions.of(options)
    as_json = options.get("json", False)
    if n is not None:
        ranks = integer("-n", n)
        if not 1 <= ranks <= 10**6:
            raise UserError(f"-n must be in [1, 1000000], not {n}")
        words = ["doctor", f"--out={_folder(options)}", *(["--json"] if as_json else [])]
        return mpirun.launch(
            words, ranks, None, options=for_launcher, beside=_folder(options) / "x"
        )
    if for_launcher.flag:
        raise UserError(f"{for_launcher.flag} is for ranks: add -n N")
    return examine_machine(None, as_json, _folder(options))


def _folder(options: Options) -> Path:
    """Return the folder in which runs will be written: the nearest one that exists."""
    if "out" not in options:
        return Path.cwd()
    require_name(options["out"])
    if not options["out"]:
        raise UserError("--out needs the name of a directory")
    folder = Path(options["out"]).absolute()
    while not folder.is_dir():
        if os.path.lexists(folder):
            raise UserError(f"no run can be written in {options['out']}: {folder} is not a folder")
        folder = folder.parent
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise UserError(f"no run can be written in {folder}: {error.strerror}") from None
    return folder


def _on_mismatch(mismatch: str, arguments: list[str]) -> None:
    from ...launchers.doctor import examine_machine

    examine_machine(mismatch, "--json" in arguments)


def _prepare(options: Options, ranks: int) -> tuple[Path, bool]:
    return _folder(options), options.get("json", False)


def _on_ranks(comm: "MPI.Intracomm", plan: tuple[Path, bool], context: "RankContext") -> int:
    from ...launchers.doctor import examine_ranks

    return examine_ranks(comm, *plan)


DOCTOR = Command(
    name="doctor",
    group=HOSTS,
    summary="find out what is wrong with MPI or the launcher",
    help=HELP,
    epilog=EPILOG,
    add_arguments=_add_arguments,
    launch=_launch,
    prepare=_prepare,
    on_ranks=_on_ranks,
    on_mismatch=_on_mismatch,
    check_submitted=lambda options: False,
)
