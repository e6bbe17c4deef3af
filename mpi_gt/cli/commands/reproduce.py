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
  mpi-gt reproduce huber --variant heterogeneous    where the claims hold
  mpi-gt reproduce huber --variant networks         six networks, at equal steps and equal bytes
  mpi-gt reproduce mnist --variant label-sorted
  mpi-gt reproduce mnist-mlp                        not in the paper: a network, 64 hidden units
  mpi-gt reproduce all --out results                the paper's four
"""


def _add_arguments(parser: "Parser") -> None:
    from ..parser import RUN_GROUPS, add_groups

    parser.add_argument("experiment", metavar="huber|a9a|covertype|mnist|mnist-mlp|all")
    parser.add_argument(
        "--variant",
        metavar="NAME",
        help="literal (default), heterogeneous or networks (huber), label-sorted (the datasets), "
        "variance-reduced or compressed (a9a)",
    )
    parser.add_argument("--quick", action="store_true", help="fewer seeds and iterations")
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


def _launch(options: Options, argv: list[str]) -> int:
    """Run all algorithms of the experiments, each in a launch of its own."""
    from ...config import to_arguments
    from ...reproduce.study import run_study
    from ..configure import make_studies
    from ..frontend import launch_run, run_stacked

    def execute(config: "RunConfig", on_tick: Callable[[], None]) -> int:
        if config.stacked:
            try:
                return run_stacked(config)
            except Diverged as error:
                return error.exit_code
        return launch_run(to_arguments(config), config, on_tick)

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
    from ...comm.collective import on_root
    from ...engine.run import run
    from ...reproduce.study import StudyProgress, begin_study, clean_if_refused, report
    from ...rundir.lock import claim

    studies, quiet = plan
    codes = [0]
    for study in studies:
        with contextlib.ExitStack() as held:
            if comm.rank == 0:
                held.enter_context(clean_if_refused(study.directory))
            on_root(comm, lambda study=study: held.enter_context(claim(study.directory)))  # type: ignore[misc]
            pending = comm.bcast(on_root(comm, lambda study=study: begin_study(study)))  # type: ignore[misc]
            progress = StudyProgress(study, pending, quiet) if comm.rank == 0 else None
            for label in pending:
                config = study.runs[label]
                if config.stacked and comm.size > 1:
                    raise UserError("--stacked is one process: run it without mpirun")
                context.directory = Path(str(config.out))
                if progress:
                    progress.begin(label)
                with contextlib.suppress(Diverged):  # the report says so
                    run(config, comm, context.stop)
                if progress:
                    progress.end()
            code = on_root(comm, lambda study=study: report(study, quiet))  # type: ignore[misc]
            codes.append(comm.bcast(code))
    return max(codes)


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
