"""`mpi-gt resume`: continue an interrupted run, or extend a finished one."""

from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import UserError
from ...rundir.run_json import is_sweep
from ..rank import run_on_ranks
from . import EXIT_CODES, EXPERIMENTS, Command, Options

if TYPE_CHECKING:
    from ...config import RunConfig
    from ..parser import Parser

HELP = """\
Continue a run that was stopped, killed or failed, from its last checkpoint. The results are
those of a run that was never interrupted. More --iterations extend a finished run. Of a sweep over
a grid, the points that are not done are run.

examples:
  mpi-gt resume runs/a
  mpi-gt resume runs/a --exchange p2p
  mpi-gt resume runs/a --iterations 40000
  mpirun -n 16 mpi-gt resume runs/a
"""


def _add_arguments(parser: "Parser") -> None:
    from ..parser import LAUNCH_GROUP, add_groups, add_options

    parser.add_argument("directory", metavar="DIR", help="run directory")
    parser.add_argument(
        "--iterations", metavar="T", help="continue up to this iteration (default the run's own)"
    )
    own = (
        "-n",
        "--place",
        "--exchange",
        "--checkpoint-every",
        "--checkpoint-minutes",
        "--checkpoint-layout",
        "--checkpoint-staging",
        "--watchdog",
    )
    add_options(parser, *own, defaults=dict.fromkeys(own, "the run's own"))
    add_options(parser, "--data-dir", "--quiet")
    add_groups(parser, LAUNCH_GROUP)


def _configure(options: Options, ranks: int | None = None) -> "RunConfig | int":
    from ...engine.resume import config_of_run
    from ..configure import convert_flags, unless_finished

    directory = options.pop("directory")
    if is_sweep(Path(directory)):
        raise UserError(
            f"{directory} holds a sweep: `mpi-gt resume {directory}` continues it, without mpirun"
        )
    config = config_of_run(Path(directory), convert_flags(options), ranks)
    return unless_finished(directory, config)


def _launch(options: Options, argv: list[str]) -> int:
    from ...launchers.options import LaunchOptions
    from ..frontend import start_run

    for_launcher = LaunchOptions.of(options)
    if is_sweep(Path(options["directory"])):
        from .sweep import continue_sweep

        return continue_sweep(options, for_launcher)
    config = _configure(options)
    if isinstance(config, int):
        return config
    return start_run(["resume", *argv], config, for_launcher)


def _check_submitted(options: Options) -> bool:
    directory = Path(options["directory"])
    if is_sweep(directory):
        raise UserError(f"{directory} holds a sweep: submit its own command again, with --resume")
    _configure(options)
    return False


RESUME = Command(
    name="resume",
    group=EXPERIMENTS,
    summary="continue an interrupted run, or extend a finished one",
    help=HELP,
    usage="mpi-gt resume DIR [options]",
    epilog=EXIT_CODES,
    add_arguments=_add_arguments,
    launch=_launch,
    prepare=_configure,
    on_ranks=run_on_ranks,
    check_submitted=_check_submitted,
)
