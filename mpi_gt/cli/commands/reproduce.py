"""`mpi-gt reproduce`: the paper's experiments and another, one launch per algorithm."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import Diverged, UserError
from . import EXPERIMENTS, Command, Options

if TYPE_CHECKING:
    from mpi4py import MPI

    from ...config import RunConfig
    from ...reproduce.study import Study
    from ..parser import Parser
    from ..rank import RankContext

HELP = """\
Run the paper's experiments with the paper's parameters, and write the figure, a table, and a
verdict on each claim. A call that was interrupted continues where it stopped.

examples:
  mpi-gt reproduce huber --quick                    a first look, in two minutes
  mpi-gt reproduce huber                            50 seeds, 20000 iterations, 7 methods
  mpi-gt reproduce huber --tuned                    also with each method at its best stepsize
  mpi-gt reproduce huber --variant heterogeneous    every node has a minimiser of its own
  mpi-gt reproduce huber --variant networks         six networks, at equal steps and equal bytes
  mpi-gt reproduce mnist --variant label-sorted
  mpi-gt reproduce mnist-mlp                        not in the paper: a network, 64 hidden units
  mpi-gt reproduce all --out results                the paper's four
"""


def _add_arguments(parser: "Parser") -> None:
    from ..parser import LAUNCH_GROUP, RUN_GROUPS, add_groups

    parser.add_argument("experiment", metavar="huber|a9a|covertype|mnist|mnist-mlp|all")
    parser.add_argument(
        "--variant",
        metavar="NAME",
        help="literal (default), heterogeneous or networks (huber), label-sorted (the datasets), "
        "variance-reduced or compressed (a9a)",
    )
    parser.add_argument("--quick", action="store_true", help="fewer seeds and iterations")
    parser.add_argument(
        "--tuned",
        action="store_true",
        help="a second verdict per claim: with each method at its own best stepsize of a common "
        "grid, which runs on other seeds",
    )
    groups = {**RUN_GROUPS, "method": ("--algorithms", *RUN_GROUPS["method"])}
    names = [name for names in groups.values() for name in names]
    add_groups(
        parser,
        groups,
        {
            **dict.fromkeys(names, ""),
            "-n": "the paper's 16",
            "--out": "runs/reproduce-<experiment>",
        },
    )
    add_groups(parser, LAUNCH_GROUP)


def _launch(options: Options, argv: list[str]) -> int:
    """Run all algorithms of the experiments, each in a launch of its own."""
    from ...config import to_arguments
    from ...launchers.options import LaunchOptions
    from ...reproduce.study import run_study
    from ..configure import make_studies
    from ..frontend import launch_run, run_stacked

    for_launcher = LaunchOptions.of(options)
    if options.get("stacked") and for_launcher.flag:
        raise UserError(f"--stacked is one process: it takes no {for_launcher.flag}")

    def execute(config: "RunConfig", on_tick: Callable[[], None]) -> int:
        if config.stacked:
            try:
                return run_stacked(config)
            except Diverged as error:
                return error.exit_code
        return launch_run(to_arguments(config), config, on_tick, for_launcher)

    codes = [0]
    for study in make_studies(options):
        codes.append(run_study(study, execute, options.get("quiet", False)))
        if codes[-1] not in (0, Diverged.exit_code):
            break
    return codes[-1] or max(codes)


def _prepare(options: Options, ranks: int) -> Any:
    from ..configure import make_studies

    return make_studies({"n": str(ranks), **options}), options.get("quiet", False)


def _on_ranks(
    comm: "MPI.Intracomm", plan: "tuple[list[Study], bool]", context: "RankContext"
) -> int:
    """Run all algorithms of the experiments one after the other on these ranks."""
    studies, quiet = plan
    return max([0, *(_run_study(comm, study, quiet, context) for study in studies)])


def _run_study(comm: "MPI.Intracomm", study: "Study", quiet: bool, context: "RankContext") -> int:
    from ...comm.collective import on_root
    from ...reproduce.study import begin_study, clean_if_refused, report, stages
    from ...rundir.lock import claim

    with contextlib.ExitStack() as held:
        if comm.rank == 0:
            held.enter_context(clean_if_refused(study.directory))
        on_root(comm, lambda: held.enter_context(claim(study.directory)))
        on_root(comm, lambda: begin_study(study))
        coming = stages(study)  # of root only: what follows depends on its files
        while (stage := comm.bcast(on_root(comm, lambda: next(coming, None)))) is not None:
            _run_stage(comm, stage, quiet, context)
        return int(comm.bcast(on_root(comm, lambda: report(study, quiet))))


def _run_stage(comm: "MPI.Intracomm", stage: "Study", quiet: bool, context: "RankContext") -> None:
    """Run what is missing of a stage on these ranks."""
    from ...comm.collective import on_root
    from ...engine.run import run
    from ...reproduce.progress import StudyProgress

    pending = comm.bcast(on_root(comm, stage.pending))
    if not pending:
        return
    progress = StudyProgress(stage, pending, quiet) if comm.rank == 0 else None
    for label in pending:
        config = stage.runs[label]
        if config.stacked and comm.size > 1:
            raise UserError("--stacked is one process: run it without mpirun")
        context.directory = Path(str(config.out))
        if progress:
            progress.begin(label)
        with contextlib.suppress(Diverged):  # the report says so
            run(config, comm, context.stop)
        if progress:
            progress.end()
    if progress:
        progress.close()


def _check_submitted(options: Options) -> bool:
    from ..configure import make_studies

    make_studies({**options, "out": "chosen in the job"})
    return False


REPRODUCE = Command(
    name="reproduce",
    group=EXPERIMENTS,
    summary="repeat the paper's experiments and check its claims",
    help=HELP,
    epilog="Options that are not given are those of the experiment.",
    usage="mpi-gt reproduce huber|a9a|covertype|mnist|mnist-mlp|all [options]",
    add_arguments=_add_arguments,
    launch=_launch,
    prepare=_prepare,
    on_ranks=_on_ranks,
    check_submitted=_check_submitted,
)
