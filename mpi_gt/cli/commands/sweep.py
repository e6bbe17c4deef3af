"""`mpi-gt sweep`: stepsizes in one run, or a grid over anything with a run per point."""

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import UserError
from ...rundir.lock import claim
from ..rank import run_on_ranks
from . import ABOUT_FILES, ABOUT_SPECS, EXIT_CODES, EXPERIMENTS, Command, Options
from .run import add_run_arguments, check_submitted_run, launch_run_command

if TYPE_CHECKING:
    from mpi4py import MPI

    from ...config import RunConfig
    from ...launchers.options import LaunchOptions
    from ...sweeps.plan import Plan
    from ...sweeps.ranks import Work
    from ..parser import Parser
    from ..rank import RankContext

HELP = """\
Run every algorithm at every point of a grid, and show where each does best.

With --lr alone, the grid is one of stepsizes: one run directory, like that of a comparison.
With --over NAME=VALUES, once per axis, the grid is over anything. NAME is
  an option of the methods: lr, beta1, ...         every method of --algorithms must have it
  problem, graph, weights, matchings, n, seeds, seed, iterations, dtype, exchange, place, x1,
  log-every, straggler, problem.KEY, graph.KEY,
  channel.KEY                                      KEY: an option of problem, graph or --channel
VALUES is
  a list: 0,0.1,0.3                                of specifications: ring,er:p=0.7,seed=1,torus
  a list of texts with commas in them, between semicolons: "node=0,ms=1;node=0,ms=5"
  LOW..HIGH or LOW..HIGH:K, also in a list         a logarithmic grid; without K two per decade
  (channel.loss, links and inactive: equidistant, without K seven)
--channel loss=0..0.3 is short for --over channel.loss=0..0.3.
Each point is an ordinary run in DIR/points, and a row of DIR/sweep.csv; points that diverge are
part of the answer. All points with the same number of ranks share one launch. The same command
again, or `mpi-gt resume DIR`, runs only what is not done; with more values it adds points.

examples:
  mpi-gt sweep -n 16 --lr 1e-4..1 --algorithms gt-adaptive,gt,dsgd --seeds 3
  mpi-gt sweep -n 16 --over lr=1e-3..1e-1 --over graph=ring,er:p=0.7 --algorithms gt,dsgd
  mpi-gt sweep --over n=8,16 --over problem.spread=0,0.3 --over lr=0.01,0.1 --out runs/grid
"""


def _add_arguments(parser: "Parser") -> None:
    from argparse import SUPPRESS

    groups = add_run_arguments(parser, "sweep", several=True)
    method = groups["method"]
    method.add_argument(
        "--lr", metavar="LOW..HIGH", help="the stepsizes (default 1e-4..1; none with --over)"
    )
    method.add_argument(
        "--points", metavar="K", help="number of stepsizes (default two per decade)"
    )
    method.add_argument(
        "--over",
        metavar="NAME=VALUES",
        action="append",
        help="one axis of a grid over anything: see above",
    )
    parser.add_argument("--plan", help=SUPPRESS)  # from the front end: the directory of a sweep


def _is_grid(options: Options) -> bool:
    """Return whether there is an axis besides stepsizes: by --over, or a range in --channel."""
    given = dict(options)
    if "over" in given:
        return True
    if "file" in given:
        from ..configure import read_with_file

        given = read_with_file(given)
    return ".." in str(given.get("channel"))


def _configure(options: Options) -> "RunConfig | int":
    from ..configure import make_config

    return make_config("sweep", options, several=True, sweeps=True)


def _options(options: Options) -> tuple[dict[str, Any], list[str], dict[str, Any]]:
    """Return the options of the points, the axes, and the options of the sweep itself."""
    from ..configure import read_with_file

    given = dict(options)
    over = given.pop("over", [])
    given = {key: value for key, value in read_with_file(given).items() if value is not None}
    given.pop("reserved", None)
    own = {key: given.pop(key, None) for key in ("out", "overwrite", "resume", "quiet")}
    return given, over, own


def _launch(options: Options, argv: list[str]) -> int:
    if "plan" in options:
        raise UserError("sweep does not take '--plan': `mpi-gt resume DIR` continues a sweep")
    if not _is_grid(options):
        return launch_run_command("sweep", _configure, options, argv)
    from ...launchers.options import LaunchOptions
    from ...sweeps.start import run_sweep

    for_launcher = LaunchOptions.of(options)
    given, over, own = _options(options)
    code, _ = run_sweep(given, over, own, for_launcher)
    return code


def continue_sweep(options: Options, for_launcher: "LaunchOptions") -> int:
    """Run the points of a sweep that are not done, for `mpi-gt resume`; return the exit code."""
    from ...sweeps.plan import read_plan
    from ...sweeps.start import start_sweep

    given = dict(options)
    directory, quiet = Path(given.pop("directory")), given.pop("quiet", False)
    if given:
        flag = "-n" if "n" in given else "--" + next(iter(given)).replace("_", "-")
        raise UserError(f"{directory} holds a sweep, which is continued as it began: no {flag}")
    plan = read_plan(directory)
    if not plan.pending():
        print(f"{directory} is finished; `mpi-gt sweep` with more values extends it")
        return 0
    code, _ = start_sweep(
        directory, plan.options, plan.grid.over(), quiet=quiet, for_launcher=for_launcher
    )
    return code


def _prepare(options: Options, ranks: int) -> Any:
    """Return the configuration of a sweep over stepsizes, the points, or options to begin with."""
    if "plan" in options:
        from ...sweeps.plan import read_plan
        from ...sweeps.start import numbers_for, work_for

        plan = read_plan(Path(options["plan"]))
        return work_for(plan, numbers_for(plan, ranks), options.get("quiet", False))
    return options if _is_grid(options) else _configure(options)


def _on_ranks(comm: "MPI.Intracomm", plan: Any, context: "RankContext") -> int:
    """Carry out what `_prepare` has returned; the front end writes the results of points."""
    from ...config import RunConfig

    if isinstance(plan, RunConfig):
        return run_on_ranks(comm, plan, context)
    if isinstance(plan, dict):
        return _run_under_mpirun(comm, plan, context)
    return _run_points(comm, plan, context)


def _run_points(comm: "MPI.Intracomm", work: "Work", context: "RankContext") -> int:
    import gc

    from ...sweeps.ranks import run_points

    def begin(path: Path) -> None:
        context.directory = path

    gc.freeze()  # as in `run_on_ranks`
    return run_points(work, comm, context.stop, begin)


def _run_under_mpirun(comm: "MPI.Intracomm", options: Options, context: "RankContext") -> int:
    """Run a whole sweep on the ranks of the user's own mpirun."""
    from ...comm.collective import on_root

    plans: list[Plan] = []  # of root only

    def begin() -> "Work":
        from ...sweeps.plan import begin as begin_plan
        from ...sweeps.start import work_for

        plan, overwrite, quiet = _plan_for(options, comm.size)
        held.enter_context(claim(plan.directory))
        begin_plan(plan, overwrite)
        plans.append(plan)
        return work_for(plan, plan.pending(), quiet)

    def finish() -> int:
        from ...sweeps.outcome import finish

        return finish(plans[0], code, work.quiet)

    with contextlib.ExitStack() as held:
        work = comm.bcast(on_root(comm, begin))
        code = _run_points(comm, work, context)
        return int(comm.bcast(on_root(comm, finish)))


def _plan_for(options: Options, ranks: int) -> "tuple[Plan, bool, bool]":
    """Return the plan of a sweep on that many ranks, and whether to overwrite and be quiet."""
    from ...sweeps.plan import make_plan
    from ...sweeps.start import choose_directory, release

    given, over, own = _options(options)
    if given.get("stacked"):
        raise UserError("--stacked is one process: run it without mpirun")
    if not any(axis.partition("=")[0].strip() == "n" for axis in over):
        given.setdefault("n", ranks)
    directory, reserved = choose_directory(given, over, own)
    try:
        plan = make_plan(directory, given, over, bool(own["overwrite"]), reserved)
        other = [point.config.n for point in plan.grid.points if point.config.n != ranks]
        if other:
            raise UserError(
                f"a point has {other[0]} nodes, but there are {ranks} MPI ranks: without mpirun, "
                "`mpi-gt sweep` starts as many as each point needs"
            )
    except UserError:
        release(directory, reserved)
        raise
    return plan, bool(own["overwrite"]), bool(own["quiet"])


def _check_submitted(options: Options) -> bool:
    if not _is_grid(options):
        return check_submitted_run(_configure, options)
    from ...sweeps.grid import make_grid

    given, over, own = _options(options)
    if any(axis.partition("=")[0].strip() == "n" for axis in over):
        raise UserError("a job has one number of ranks: submit one sweep for each, without n")
    make_grid(given, over)
    return own["out"] is None


SWEEP = Command(
    name="sweep",
    group=EXPERIMENTS,
    summary="run algorithms over a grid of stepsizes or of anything",
    help=HELP,
    usage="mpi-gt sweep [FILE.toml] -n N [options]",
    epilog="\n".join((ABOUT_SPECS, ABOUT_FILES, EXIT_CODES)),
    add_arguments=_add_arguments,
    launch=_launch,
    prepare=_prepare,
    on_ranks=_on_ranks,
    check_submitted=_check_submitted,
)
