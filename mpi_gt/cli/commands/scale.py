"""`mpi-gt scale`: the same experiment on more and more ranks."""

from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from ...errors import UserError
from . import ABOUT_SPECS, SPEED, Command, Options

if TYPE_CHECKING:
    from ...config import RunConfig
    from ..parser import Parser

HELP = """\
Run the same experiment on more and more ranks, one profiled run per number of ranks and graph:
strong scaling (the batch of all nodes together stays the same) and weak scaling (the batch per
node stays the same).

examples:
  mpi-gt scale -n 2,4,8,16
  mpi-gt scale -n 4,8,16 --graphs ring,exponential,complete --mode weak --problem huber
  mpi-gt scale -n 16,32,64 --problem softmax:dataset=mnist,batch=64 --iterations 500
"""
PROBLEM, ITERATIONS = "softmax:dataset=synthetic", 200


def _add_arguments(parser: "Parser") -> None:
    from ..parser import add_options

    parser.add_argument("-n", metavar="N,N,...", help="numbers of ranks (default 2,4,8,16)")
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


def _launch(options: Options, argv: list[str]) -> int:
    """Start one launch per point of the series, then show all of them."""
    from ...config import RunConfig, to_arguments
    from ...display.performance import show_scale
    from ...performance.scaling import make_points, run_study
    from ...rundir.layout import release_reserved, require_free, reserve
    from ...rundir.lock import claim
    from ..configure import convert_flags
    from ..frontend import launch_run

    ranks, graphs, mode = (options.pop(name, None) for name in ("n", "graphs", "mode"))
    quiet, overwrite = options.pop("quiet", False), options.pop("overwrite", False)
    out = options.pop("out", None)
    chosen = {"problem": PROBLEM, "iterations": ITERATIONS, **convert_flags(options)}
    config = RunConfig.of({"log_every": chosen["iterations"], **chosen})
    directory = Path(out) if out else reserve("scale")
    try:
        points = make_points(config, ranks, graphs, mode, directory)
        if out:
            require_free(directory, overwrite)
        held = claim(directory)
    except UserError:
        if not out:
            release_reserved(directory)
        raise

    def execute(config: "RunConfig") -> int:
        return launch_run(to_arguments(config), config)

    with held:
        code, rows = run_study(points, directory, execute, quiet)
    if rows and not quiet:
        show_scale(rows, directory)
    return code


def _refuse_ranks(options: Options, ranks: int) -> NoReturn:
    raise UserError("scale starts its own ranks: type it without mpirun")


SCALE = Command(
    name="scale",
    group=SPEED,
    summary="measure strong and weak scaling",
    help=HELP,
    usage="mpi-gt scale [-n N,N,...] [options]",
    epilog=ABOUT_SPECS,
    add_arguments=_add_arguments,
    launch=_launch,
    prepare=_refuse_ranks,
    old_spellings={"--ranks": "-n"},
)
