"""`mpi-gt bench`: time the exchanges alone."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import UserError
from . import SPEED, Command, Options

if TYPE_CHECKING:
    from mpi4py import MPI

    from ...performance.bench_plan import BenchPlan
    from ...rundir.lock import Claim
    from ..parser import Parser
    from ..rank import RankContext

HELP = """\
Time the exchanges alone on real ranks, by message size and graph, with a fit of latency and
bandwidth, and the same collective called from C as the floor.

A sample is the mean of about a millisecond of exchanges in a row, on the slowest rank. The
contents of the messages are checked before and after.

examples:
  mpi-gt bench -n 16
  mpi-gt bench -n 16 --sizes 160,16kB,1.6MB --graphs ring,er:p=0.7,complete
  mpi-gt bench -n 4 --exchanges neighbor,persistent,pickle --seconds 2
  mpi-gt bench -n 16 --compress bfloat16,qsgd:bits=8,sign    from which size on does it pay?
  mpirun -n 64 mpi-gt bench --place graph             few edges between hosts
  mpi-gt bench -n 16 --hostfile hosts                 on several hosts (or --launcher srun)
  mpirun -n 64 mpi-gt bench --out bench-64            under your own launcher (no floor)
"""


def _add_arguments(parser: "Parser") -> None:
    from ..parser import LAUNCH_GROUP, add_groups, add_options

    parser.add_argument("-n", metavar="N", help="number of ranks to start, unless mpirun did")
    parser.add_argument(
        "--sizes",
        metavar="B,B,...",
        help="bytes sent to each neighbour, x and s together "
        "(default 160,1600,16000,160000,1600000)",
    )
    add_options(parser, "--graphs", "--place")
    parser.add_argument("--exchanges", metavar="NAME,...", help="the exchanges (default all)")
    parser.add_argument(
        "--compress",
        metavar="SPEC",
        nargs="+",
        help="also compressed messages, by these compressors, taking turns with the others: "
        "encode, exchange and decode apart",
    )
    parser.add_argument(
        "--seconds", metavar="S", help="time limit per measured figure (default 0.5)"
    )
    defaults = {"--out": "runs/<time>-bench"}
    add_options(parser, "--out", "--overwrite", "--reserved", "--quiet", defaults=defaults)
    add_groups(parser, LAUNCH_GROUP)


def _plan(options: Options, ranks: int | None = None) -> "BenchPlan":
    """Return what to measure, with a directory to write to."""
    from ...performance.bench_plan import BenchPlan
    from ...rundir.layout import reserve

    plan = BenchPlan.of(options)
    if plan.out is None:
        return replace(plan, out=str(reserve("bench")), reserved=True)
    if not plan.out:
        raise UserError("--out needs the name of a directory")
    return plan


def _launch(options: Options, argv: list[str]) -> int:
    """Compile the floor in C, then start the ranks that measure it and the exchanges."""
    from ...launchers import mpirun
    from ...launchers.options import LaunchOptions
    from ...performance.c_floor import build_floor, remove_floor
    from ...rundir.layout import release_reserved, require_free
    from ...rundir.lock import TOKEN, claim

    if "n" not in options:
        raise UserError("how many ranks? Type `mpi-gt bench -n 16 ...`")
    for_launcher = LaunchOptions.of(options)
    plan = _plan(options)
    assert plan.out is not None
    assert plan.n is not None
    directory = Path(plan.out)
    fresh = plan.reserved or not directory.exists()
    try:
        require_free(directory, plan.overwrite or plan.reserved)
        with claim(directory) as held:
            try:
                build_floor(directory)
                words = ["bench", f"--out={plan.out}", "--reserved", *argv]
                token = {TOKEN: held.token}
                return mpirun.launch(words, plan.n, None, None, for_launcher, token, directory)
            finally:
                remove_floor(directory)
    finally:
        if fresh:
            release_reserved(directory)


def _on_ranks(comm: "MPI.Intracomm", plan: "BenchPlan", context: "RankContext") -> int:
    from ...comm.collective import on_root
    from ...performance.bench import run

    def claim_directory() -> "Claim":
        from ...rundir.layout import require_free
        from ...rundir.lock import claim

        require_free(Path(str(plan.out)), plan.overwrite or plan.reserved)
        return claim(Path(str(plan.out)))

    held = on_root(comm, claim_directory)
    try:
        found = run(plan, comm)
    except UserError:
        if comm.rank == 0 and plan.reserved and plan.out:
            from ...rundir.layout import release_reserved

            release_reserved(Path(plan.out))
        raise
    finally:
        if held is not None:
            held.release()
    if found and not plan.quiet:
        from ...display.performance import show_bench

        show_bench(found)
    return 0


def _check_submitted(options: Options) -> bool:
    from ...performance.bench_plan import BenchPlan

    BenchPlan.of(options)
    return "out" not in options


BENCH = Command(
    name="bench",
    group=SPEED,
    summary="time the exchanges, by message size and graph",
    help=HELP,
    usage="mpi-gt bench -n N [options]",
    add_arguments=_add_arguments,
    launch=_launch,
    prepare=_plan,
    on_ranks=_on_ranks,
    check_submitted=_check_submitted,
)
