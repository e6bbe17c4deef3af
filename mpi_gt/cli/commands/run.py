"""`mpi-gt run`, `compare` and `profile`: one launch of one or several algorithms."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..rank import run_on_ranks
from . import ABOUT_FILES, ABOUT_SPECS, EXIT_CODES, EXPERIMENTS, SPEED, Command, Options

if TYPE_CHECKING:
    from argparse import _ArgumentGroup

    from ...config import RunConfig
    from ..parser import Parser

RUN_HELP = """\
Run one algorithm on one problem, with one process per node of the graph.

examples:
  mpi-gt run -n 16                                      the paper's Huber problem
  mpi-gt run -n 16 --graph ring --seeds 5 --out out/a   five seeds in one run
  mpi-gt run -n 16 --algorithm gt-adaptive:lr=0.005,beta1=0.5
  mpi-gt run -n 64 --launcher srun                      in a Slurm job, by srun
  mpi-gt run -n 64 --hostfile hosts --launcher-args="--map-by ppr:4:numa --bind-to core"
  mpirun -n 16 mpi-gt run --iterations 20000            under your own launcher
  mpi-gt run experiment.toml --seeds 10                 options from a file; flags win
  mpi-gt run --stacked -n 16                            the same in one process, without MPI
  mpi-gt run -n 4 --algorithm my_module:MyMethod        your own class, from this folder
"""

COMPARE_HELP = """\
Run several algorithms on the same problem, graph and random draws, in one launch.

examples:
  mpi-gt compare -n 16 --algorithms gt-adaptive,gt,dsgd --seeds 5
  mpi-gt compare -n 16 --algorithms "gt-adaptive:lr=0.001,vmin=0.01,dsgd:lr=0.1"
  mpi-gt compare -n 16 --problem huber:spread=0.5       all algorithms
"""

PROFILE_HELP = """\
Run one algorithm and show where the time goes on every rank: gradient, update, packing, and
exchange, with the share of it that was waiting for the last neighbour. `run --profile` is the same.

Writes profile.json, profile.npz (every rank, iteration and phase), profile.png, and trace.json, a
timeline with all messages that https://ui.perfetto.dev shows.

examples:
  mpi-gt profile -n 16
  mpi-gt profile -n 16 --exchange nonblocking --problem softmax:dataset=synthetic
  mpi-gt profile -n 16 --straggler node=3,ms=5            find the slow node
  mpi-gt profile -n 16 --iterations 5000 --trace-iterations 1000:1050
"""


def add_run_arguments(parser: "Parser", name: str, several: bool) -> "dict[str, _ArgumentGroup]":
    """Add the arguments of a command that runs one algorithm, or several."""
    from ..parser import LAUNCH_GROUP, RUN_GROUPS, add_groups, add_options

    parser.add_argument("file", nargs="?", metavar="FILE.toml", help="file with options; flags win")
    method = ("--algorithms" if several else "--algorithm", *RUN_GROUPS["method"])
    groups = add_groups(parser, {**RUN_GROUPS, "method": method, **LAUNCH_GROUP})
    if not several:
        groups["measurement"].add_argument(
            "--trace-iterations",
            metavar="A:B",
            help="the iterations that trace.json shows (default a hundred in the middle)",
        )
    if name == "run":
        measurement = groups["measurement"]
        measurement.add_argument(
            "--profile", action="store_true", help="show where the time goes (see mpi-gt profile)"
        )
        measurement.add_argument(
            "--audit", action="store_true", help="measure the lemmas of the theory: audit.json"
        )
        constants = parser.add_argument_group("constants of the theory, for --audit")
        add_options(constants, "--L", "--G", "--sigma2", "--f-star")
    return groups


def _runner(
    name: str,
    group: str,
    summary: str,
    text: str,
    several: bool = False,
    fixed: dict[str, Any] | None = None,
) -> Command:
    """Return one of the three commands; for the last two arguments see `make_config`."""

    def configure(options: Options) -> "RunConfig | int":
        from ..configure import make_config

        return make_config(name, options, several, fixed=fixed)

    return Command(
        name=name,
        group=group,
        summary=summary,
        help=text,
        usage=f"mpi-gt {name} [FILE.toml] -n N [options]",
        epilog="\n".join((ABOUT_SPECS, ABOUT_FILES, EXIT_CODES)),
        add_arguments=lambda parser: _add_arguments(parser, name, several),
        launch=lambda options, argv: launch_run_command(name, configure, options, argv),
        prepare=lambda options, ranks: configure(options),
        on_ranks=run_on_ranks,
        check_submitted=lambda options: check_submitted_run(configure, options),
    )


def _add_arguments(parser: "Parser", name: str, several: bool) -> None:
    add_run_arguments(parser, name, several)


def launch_run_command(
    name: str, configure: "Callable[[Options], RunConfig | int]", options: Options, argv: list[str]
) -> int:
    """Start one run, as the command of that name; return its exit code."""
    from ...launchers.options import LaunchOptions
    from ..frontend import start_run

    for_launcher = LaunchOptions.of(options)
    config = configure(options)
    if isinstance(config, int):
        return config
    # the ranks use the directory that was chosen here; of two flags the later one wins
    chosen = [f"--out={config.out}", *([] if config.resume else ["--reserved"])]
    return start_run([name, *chosen, *argv], config, for_launcher)


def check_submitted_run(
    configure: "Callable[[Options], RunConfig | int]", options: Options
) -> bool:
    """Raise UserError where a job could not run; return whether it chooses the directory."""
    from ...config import read_toml

    file = options.get("file")
    named = "out" in options or (file is not None and "out" in read_toml(Path(file)))
    configure({"out": "chosen in the job", **options})
    return not named


RUN = _runner("run", EXPERIMENTS, "run one algorithm on one problem", RUN_HELP)
COMPARE = _runner(
    "compare", EXPERIMENTS, "run several algorithms on one problem", COMPARE_HELP, several=True
)
PROFILE = _runner(
    "profile", SPEED, "run, and show where the time goes", PROFILE_HELP, fixed={"profile": True}
)
