"""`mpi-gt scale`: the same experiment on more and more ranks."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ...errors import Diverged, Stopped, UserError
from . import ABOUT_SPECS, SPEED, Command, Options

if TYPE_CHECKING:
    from mpi4py import MPI

    from ...config import RunConfig
    from ...performance.scaling import Point
    from ...rundir.lock import Claim
    from ..parser import Parser
    from ..rank import RankContext

HELP = """\
Run the same experiment on more and more ranks, one profiled run per number of ranks and graph:
strong scaling (the batch of all nodes together stays the same) and weak scaling (the batch per
node stays the same).

examples:
  mpi-gt scale -n 2,4,8,16
  mpi-gt scale -n 4,8,16 --graphs ring,exponential,complete --mode weak --problem huber
  mpi-gt scale -n 16,32,64 --problem softmax:dataset=mnist,batch=64 --iterations 500
  mpi-gt scale -n 16,32,64 --launcher srun              in a Slurm job of 64 tasks
  mpirun -n 64 mpi-gt scale                             under your own launcher: 2, 4, ... 64
"""
PROBLEM, ITERATIONS = "softmax:dataset=synthetic", 200


def _add_arguments(parser: "Parser") -> None:
    from ..parser import LAUNCH_GROUP, add_groups, add_options

    parser.add_argument(
        "-n",
        metavar="N,N,...",
        help="numbers of ranks (default 2,4,8,16; under mpirun up to its ranks)",
    )
    add_options(parser, "--graphs")
    parser.add_argument("--mode", metavar="MODE", help="strong, weak or both (default both)")
    shared = ("--algorithm", "--problem", "--iterations", "--seeds", "--seed", "--exchange")
    written = ("--dtype", "--reproducible", "--data-dir", "--out", "--overwrite", "--quiet")
    defaults = {
        "--problem": PROBLEM,
        "--iterations": str(ITERATIONS),
        "--out": "runs/<time>-scale",
    }
    add_options(parser, *shared, *written, defaults=defaults)
    add_groups(parser, LAUNCH_GROUP)


class ScalePlan(NamedTuple):
    """The runs of a study, and where it writes."""

    points: "list[Point]"
    directory: Path
    reserved: bool  # the directory was made for this study
    overwrite: bool
    quiet: bool

    def claim(self) -> "Claim":
        """Take the directory, which must be free."""
        from ...rundir.layout import require_free
        from ...rundir.lock import claim

        if not self.reserved:
            require_free(self.directory, self.overwrite)
        return claim(self.directory)

    def release(self) -> None:
        """Remove the directory that was made, if nothing was written to it."""
        from ...rundir.layout import release_reserved

        if self.reserved:
            release_reserved(self.directory)


def _plan(options: Options, size: int | None = None) -> ScalePlan:
    """Return the runs; `size` is the number of ranks that there are, under the user's mpirun."""
    from ...config import RunConfig
    from ...performance.scaling import make_points
    from ...rundir.layout import reserve
    from ..configure import convert_flags

    ranks, graphs, mode = (options.pop(name, None) for name in ("n", "graphs", "mode"))
    quiet, overwrite = options.pop("quiet", False), options.pop("overwrite", False)
    out = options.pop("out", None)
    chosen = {"problem": PROBLEM, "iterations": ITERATIONS, **convert_flags(options)}
    config = RunConfig.of({"log_every": chosen["iterations"], **chosen})
    if size is not None:
        ranks = ranks or ",".join(str(2**k) for k in range(1, size.bit_length()) if 2**k <= size)
        ranks = ranks or "1"
    if out == "":
        raise UserError("--out needs the name of a directory")
    directory = Path(out) if out else reserve("scale")
    plan = ScalePlan([], directory, not out, overwrite, quiet)
    try:
        points = make_points(config, ranks, graphs, mode, directory)
        most = max(point.config.n or 0 for point in points)
        if size is not None and most > size:
            raise UserError(f"-n {most} is more than the {size} ranks of this launch")
    except UserError:
        plan.release()
        raise
    return plan._replace(points=points)


def _launch(options: Options, argv: list[str]) -> int:
    """Start one launch per point of the series, then show all of them."""
    from ...config import to_arguments
    from ...display.performance import show_scale
    from ...launchers.options import LaunchOptions
    from ...performance.scaling import run_study
    from ..frontend import launch_run

    for_launcher = LaunchOptions.of(options)
    plan = _plan(options)

    def execute(config: "RunConfig") -> int:
        return launch_run(to_arguments(config), config, None, for_launcher)

    try:
        with plan.claim():
            code, rows = run_study(plan.points, plan.directory, execute, plan.quiet)
    finally:
        plan.release()
    if rows and not plan.quiet:
        show_scale(rows, plan.directory)
    return code


def _on_ranks(comm: "MPI.Intracomm", plan: ScalePlan, context: "RankContext") -> int:
    """Run each point on the first ranks of the user's mpirun, while the others sleep."""
    from ...comm.collective import on_root
    from ...performance.scaling import run_study

    def execute(config: "RunConfig") -> int:
        return _run_on_first(comm, config, context)

    held = on_root(comm, plan.claim)
    try:
        if comm.rank > 0:
            return next((code for each in plan.points if (code := execute(each.config))), 0)
        code, rows = run_study(plan.points, plan.directory, execute, plan.quiet)
    finally:
        if held is not None:
            held.release()
        if comm.rank == 0:
            plan.release()
    if rows and not plan.quiet:
        from ...display.performance import show_scale

        show_scale(rows, plan.directory)
    return code


def _run_on_first(comm: "MPI.Intracomm", config: "RunConfig", context: "RankContext") -> int:
    """Run a configuration on the first `config.n` ranks; return its exit code on all."""
    from mpi4py import MPI

    from ...comm.collective import idle_barrier
    from ...engine.run import run
    from ..rank import report_stop

    color = 0 if comm.rank < (config.n or 0) else MPI.UNDEFINED
    first = MPI.Intracomm(comm.Split(color, comm.rank))
    code = 0
    if first != MPI.COMM_NULL:
        context.directory = Path(str(config.out))
        try:
            run(config, first, context.stop)
        except Stopped as stopped:
            code = stopped.exit_code
            if comm.rank == 0:
                report_stop(stopped, context.directory)
        except (UserError, Diverged) as error:
            code = error.exit_code
            if comm.rank == 0:
                print(f"mpi-gt: error: {error}", file=sys.stderr, flush=True)
        first.Free()
    idle_barrier(comm)
    return int(comm.bcast(code))


def _check_submitted(options: Options) -> bool:
    _plan({"out": "chosen in the job", **options})
    return "out" not in options


SCALE = Command(
    name="scale",
    group=SPEED,
    summary="measure strong and weak scaling",
    help=HELP,
    usage="mpi-gt scale [-n N,N,...] [options]",
    epilog=ABOUT_SPECS,
    add_arguments=_add_arguments,
    launch=_launch,
    prepare=_plan,
    on_ranks=_on_ranks,
    check_submitted=_check_submitted,
    old_spellings={"--ranks": "-n"},
)
