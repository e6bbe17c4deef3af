"""What the command line takes, and what its help says."""

import argparse
from typing import Any, NoReturn

from .. import __version__
from ..errors import UserError
from ..spec import describe
from .help_texts import (
    BENCH_HELP,
    COMPARE_HELP,
    DATA_HELP,
    DOCTOR_HELP,
    EPILOG,
    GRAPH_HELP,
    HOSTFILE_HELP,
    PREDICT_HELP,
    PROFILE_HELP,
    REPORT_HELP,
    REPRODUCE_HELP,
    RESUME_HELP,
    RUN_HELP,
    SCALE_HELP,
    STATUS_HELP,
    SUBMIT_HELP,
    SWEEP_HELP,
    THEORY_HELP,
    WATCH_HELP,
)

GRAPH_OPTION: dict[str, Any] = {
    "metavar": "SPEC",
    "help": "who talks to whom: a name, nx.NAME for a generator of networkx, a .graphml file, or "
    "a file of edges `i j` with nodes numbered from 0 (default er)",
}
WEIGHTS_OPTION: dict[str, Any] = {
    "metavar": "RULE",
    "help": "mixing matrix: metropolis, lazy-metropolis, max-degree, laplacian, fdla, or a .npy or "
    ".csv file (default metropolis)",
}
RUN_OPTIONS: dict[str, dict[str, Any]] = {
    "--problem": {"metavar": "SPEC", "help": "what to solve (default huber)"},
    "--graph": GRAPH_OPTION,
    "--weights": WEIGHTS_OPTION,
    "--iterations": {"metavar": "T", "help": "number of updates (default 2000)"},
    "--seeds": {"metavar": "S", "help": "random seeds, all in one run (default 1)"},
    "--seed": {"metavar": "S0", "help": "the first of them (default 0)"},
    "--log-every": {
        "metavar": "K",
        "help": "iterations from one measurement to the next (default T/200, in a profile T/20)",
    },
    "--exchange": {
        "metavar": "NAME",
        "help": "how vectors travel: neighbor (default), persistent, nonblocking, p2p, "
        "persistent-p2p, rma, allgather or pickle; the numbers are the same to the bit; "
        "auto measures the sensible ones and takes the quickest",
    },
    "--dtype": {"metavar": "TYPE", "help": "float64 or float32 (default float64)"},
    "--x1": {"metavar": "FILE.npy", "help": "the start, (d,) or (nodes, d) (default zeros)"},
    "--stacked": {"action": "store_true", "help": "all nodes in one process, without MPI"},
    "--data-dir": {
        "metavar": "DIR",
        "help": "where datasets lie as NAME/file (default $MPI_GT_DATA, then the user's cache)",
    },
    "--straggler": {
        "metavar": "node=I,ms=T",
        "help": "make node I sleep T milliseconds in every iteration "
        "(and jitter=MS, probability=P)",
    },
    "--checkpoint-every": {"metavar": "K", "help": "save the state every K iterations"},
    "--checkpoint-minutes": {"metavar": "M", "help": "save the state every M minutes"},
    "--watchdog": {
        "metavar": "SECONDS",
        "help": "end a run in which an exchange takes longer (default 120; 0: never)",
    },
    "--reserved": {"action": "store_true", "help": argparse.SUPPRESS},
    "--out": {
        "metavar": "DIR",
        "help": "run directory (default runs/<time>-<problem>-<algorithm>)",
    },
    "--overwrite": {"action": "store_true", "help": "replace the run in an existing directory"},
    "--resume": {"action": "store_true", "help": "go on with the run in --out, if there is one"},
    "--quiet": {"action": "store_true", "help": "say nothing but errors"},
}
HOSTFILE_OPTION: dict[str, Any] = {
    "metavar": "FILE",
    "help": "with -n: the hosts to run on, in the format of this MPI (see mpi-gt hostfile)",
}
ALGORITHM_OPTION: dict[str, Any] = {
    "metavar": "SPEC",
    "help": "how to solve it (default gt-adaptive)",
}
ALGORITHMS_OPTION: dict[str, Any] = {
    "metavar": "SPEC,SPEC,...",
    "help": "which methods; options as in a:lr=0.1,beta1=0.5,b:lr=1 (default all)",
}


THEORY_OPTIONS = (
    *("--problem", "--graph", "--weights", "--iterations", "--seeds", "--seed", "--dtype", "--x1"),
    "--data-dir",
)
CONSTANT_OPTIONS: dict[str, dict[str, Any]] = {
    "--L": {"metavar": "L", "help": "theory: Lipschitz constant of the gradients"},
    "--G": {"metavar": "G", "help": "theory: bound on the stochastic gradients"},
    "--sigma2": {"metavar": "VAR", "help": "theory: bound on their variance"},
    "--f-star": {"metavar": "F", "help": "theory: a lower bound of f (these four are the problem's "
                 "own, unless given)"},
}  # fmt: skip


HIDDEN = ("-h", "--reserved")


class Parser(argparse.ArgumentParser):
    """Errors are raised, so that root alone reports them."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message} (see {self.prog} --help)")


def build_parser() -> tuple[Parser, dict[str, Parser]]:
    """The parser, and that of each command."""
    parser = Parser(
        prog="mpi-gt",
        description="Decentralized optimization as real MPI processes: one rank is one node.",
        epilog="example: mpi-gt run -n 16 --problem huber --graph er:p=0.7 --seeds 5",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"mpi-gt {__version__}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, summary: str, text: str, epilog: str | None = None) -> Parser:
        added: Parser = subparsers.add_parser(
            name,
            help=summary,
            description=text,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            argument_default=argparse.SUPPRESS,
            allow_abbrev=False,
        )
        return added

    epilog = EPILOG.format(registered=_registered())
    run = command("run", "run one algorithm on one problem", RUN_HELP, epilog)
    compare = command("compare", "run several algorithms on one problem", COMPARE_HELP, epilog)
    profile = command("profile", "run, and say where the time went", PROFILE_HELP, epilog)
    sweep = command("sweep", "run several algorithms at many stepsizes", SWEEP_HELP, epilog)
    for runner in (run, profile, compare, sweep):
        runner.add_argument("file", nargs="?", metavar="FILE.toml", help="options; flags win")
        runner.add_argument("-n", metavar="N", help="nodes: starts N ranks, unless mpirun did")
        runner.add_argument("--hostfile", **HOSTFILE_OPTION)
    for runner in (run, profile):
        runner.add_argument("--algorithm", **ALGORITHM_OPTION)
        runner.add_argument(
            "--trace-iterations",
            metavar="A:B",
            help="the iterations that trace.json shows (default a hundred in the middle)",
        )
    run.add_argument(
        "--profile", action="store_true", help="say where the time went (mpi-gt profile --help)"
    )
    compare.add_argument("--algorithms", **ALGORITHMS_OPTION)
    sweep.add_argument("--algorithms", **ALGORITHMS_OPTION)
    sweep.add_argument("--lr", metavar="LOW..HIGH", help="the stepsizes (default 1e-4..1)")
    sweep.add_argument("--points", metavar="K", help="how many of them (default two a decade)")
    for runner in (run, profile, compare, sweep):
        for name, settings in RUN_OPTIONS.items():
            runner.add_argument(name, **settings)

    run.add_argument(
        "--audit", action="store_true", help="measure the lemmas of the theory: audit.json"
    )
    theory = command("theory", "constants, stepsizes and bounds", THEORY_HELP, epilog)
    theory.add_argument("file", nargs="?", metavar="FILE.toml", help="options; flags win")
    theory.add_argument("-n", metavar="N", help="number of nodes (default 16)")
    theory.add_argument("--algorithm", **ALGORITHM_OPTION)
    for name in THEORY_OPTIONS:
        theory.add_argument(name, **RUN_OPTIONS[name])
    for asked in (run, theory):
        for name, settings in CONSTANT_OPTIONS.items():
            asked.add_argument(name, **settings)
    theory.add_argument("--suggest", action="store_true", help="find beta1 and alpha together")
    theory.add_argument("--json", action="store_true", help="print JSON")

    graph = command("graph", "describe and draw a graph", GRAPH_HELP)
    graph.add_argument("graph", **GRAPH_OPTION)
    graph.add_argument("-n", required=True, metavar="N", help="number of nodes")
    graph.add_argument("--weights", **WEIGHTS_OPTION)
    graph.add_argument("--plot", nargs="?", const="", metavar="FILE.png", help="draw it")
    graph.add_argument("--out", metavar="DIR", help="folder for the picture (default: this one)")
    graph.add_argument("--quiet", action="store_true", help="say nothing but errors")

    reproduce = command("reproduce", "the paper's figures and claims", REPRODUCE_HELP)
    reproduce.add_argument("experiment", metavar="huber|a9a|covertype|mnist|all")
    reproduce.add_argument("-n", metavar="N", help="number of nodes (default the paper's 16)")
    reproduce.add_argument(
        "--variant",
        metavar="NAME",
        help="literal (default), heterogeneous (huber) or label-sorted (the datasets)",
    )
    reproduce.add_argument("--quick", action="store_true", help="fewer seeds and iterations")
    for name, settings in {"--algorithms": ALGORITHMS_OPTION, **RUN_OPTIONS}.items():
        text = settings["help"].partition(" (default")[0]  # the defaults are the experiment's
        reproduce.add_argument(name, **{**settings, "help": text})

    bench = command("bench", "what an exchange costs, by size, graph and way", BENCH_HELP)
    bench.add_argument("-n", metavar="N", help="ranks to start, unless mpirun did")
    bench.add_argument(
        "--sizes",
        metavar="B,B,...",
        help="bytes of vectors to each neighbour, x and s together "
        "(default 160,1600,16000,160000,1600000)",
    )
    bench.add_argument(
        "--graphs", metavar="SPEC,SPEC,...", help="which graphs (default ring,er:p=0.7)"
    )
    bench.add_argument("--exchanges", metavar="NAME,...", help="which ways (default all)")
    bench.add_argument(
        "--seconds", metavar="S", help="at most so long for each figure (default 0.5)"
    )
    bench.add_argument("--out", metavar="DIR", help="where to write (default runs/<time>-bench)")
    for name in ("--overwrite", "--reserved", "--quiet"):
        bench.add_argument(name, **RUN_OPTIONS[name])

    scale = command("scale", "strong and weak scaling over ranks and graphs", SCALE_HELP)
    scale.add_argument("--ranks", metavar="N,N,...", help="how many (default 2,4,8,16)")
    scale.add_argument(
        "--graphs", metavar="SPEC,SPEC,...", help="which graphs (default ring,er:p=0.7)"
    )
    scale.add_argument("--mode", metavar="MODE", help="strong, weak or both (default both)")
    scale.add_argument("--algorithm", **ALGORITHM_OPTION)
    for name in ("--problem", "--iterations", "--seeds", "--seed", "--exchange", "--dtype"):
        settings = RUN_OPTIONS[name]
        if name in ("--problem", "--iterations"):
            default = "softmax:dataset=synthetic" if name == "--problem" else "200"
            text = settings["help"].partition(" (default")[0]
            settings = {**settings, "help": f"{text} (default {default})"}
        scale.add_argument(name, **settings)
    scale.add_argument("--data-dir", **RUN_OPTIONS["--data-dir"])
    scale.add_argument("--out", metavar="DIR", help="where to write (default runs/<time>-scale)")
    for name in ("--overwrite", "--quiet"):
        scale.add_argument(name, **RUN_OPTIONS[name])

    predict = command("predict", "iteration time on a machine not at hand", PREDICT_HELP)
    predict.add_argument("--nodes", metavar="N", help="how many nodes, one rank each")
    predict.add_argument(
        "--graph", metavar="SPEC,SPEC,...", help="which graphs (default several families)"
    )
    predict.add_argument("--dim", metavar="D", help="length of a vector (default 10)")
    predict.add_argument("--seeds", metavar="S", help="seeds in one run (default 1)")
    predict.add_argument("--dtype", **RUN_OPTIONS["--dtype"])
    predict.add_argument("--latency", metavar="TIME", help="of one exchange, such as 2us")
    predict.add_argument("--bandwidth", metavar="RATE", help="of one rank, such as 12GB/s")
    predict.add_argument(
        "--per-message", metavar="TIME", help="for each neighbour (default 0, or as fitted)"
    )
    predict.add_argument("--bench", metavar="DIR", help="take these from a bench's fit")
    predict.add_argument(
        "--exchange", metavar="NAME", help="whose fit in the bench (default neighbor)"
    )
    predict.add_argument("--compute", metavar="TIME", help="a node's own work in an iteration")
    predict.add_argument("--profile", metavar="DIR", help="take it from a profiled run")
    predict.add_argument(
        "--check", metavar="DIR", nargs="+", help="compare the model with profiled runs instead"
    )
    predict.add_argument("--json", dest="json_", action="store_true", help="print JSON")
    predict.add_argument("--out", metavar="DIR", help="write prediction.json there as well")
    predict.add_argument("--quiet", action="store_true", help="say nothing but errors")

    resume = command("resume", "go on with an interrupted run, or extend one", RESUME_HELP)
    resume.add_argument("directory", metavar="DIR", help="the run's directory")
    resume.add_argument("-n", metavar="N", help="nodes, as many as the run has")
    resume.add_argument("--hostfile", **HOSTFILE_OPTION)
    resume.add_argument("--iterations", metavar="T", help="go on to this one (default the run's)")
    for name in ("--exchange", "--checkpoint-every", "--checkpoint-minutes", "--watchdog"):
        text = RUN_OPTIONS[name]["help"].partition(" (default")[0]  # the defaults are the run's
        resume.add_argument(name, **{**RUN_OPTIONS[name], "help": text})
    resume.add_argument("--data-dir", **RUN_OPTIONS["--data-dir"])
    resume.add_argument("--quiet", action="store_true", help="say nothing but errors")

    status = command("status", "how runs are doing", STATUS_HELP)
    status.add_argument("directories", nargs="+", metavar="DIR", help="directories of runs")

    report = command("report", "one page of curves, tables and graphs", REPORT_HELP)
    report.add_argument("directories", nargs="+", metavar="DIR", help="directories of runs")
    report.add_argument(
        "-o", "--out", metavar="FILE.html", help="the page's file (default report.html)"
    )
    report.add_argument("--quiet", action="store_true", help="say nothing but errors")

    watch = command("watch", "how a run is doing, live", WATCH_HELP)
    watch.add_argument("directory", metavar="DIR", help="the run's directory")
    watch.add_argument("--once", action="store_true", help="print it and end")
    watch.add_argument("--every", metavar="SECONDS", help="time between two looks (default 1)")

    data = command("data", "list, prepare or verify datasets", DATA_HELP)
    data.add_argument("action", choices=("list", "prepare", "verify"))
    data.add_argument("name", nargs="?", metavar="NAME", help="which one")
    data.add_argument("--data-dir", **RUN_OPTIONS["--data-dir"])
    data.add_argument("--out", metavar="FILE", help="write what is shown into this file as well")
    data.add_argument("--quiet", action="store_true", help="say nothing but errors")

    hostfile = command("hostfile", "write a list of hosts for mpirun", HOSTFILE_HELP)
    hostfile.add_argument("--nodes", required=True, metavar="NAME:SLOTS,...", help="the hosts")
    hostfile.add_argument("--mpi", required=True, metavar="openmpi|mpich", help="who will read it")
    hostfile.add_argument("--out", metavar="FILE", help="write it there (default: show it)")

    submit = command("submit", "submit a command to Slurm", SUBMIT_HELP)
    submit.usage = "mpi-gt submit --nodes N --ntasks-per-node M --time T [options] -- COMMAND ..."
    submit.add_argument("--nodes", required=True, metavar="N", help="how many hosts")
    submit.add_argument("--ntasks-per-node", required=True, metavar="M", help="ranks on each")
    submit.add_argument("--time", required=True, metavar="HH:MM:SS", help="the time limit")
    submit.add_argument(
        "--launcher",
        metavar="NAME",
        help="mpirun (default; either MPI), pmix (srun, Open MPI) or pmi2 (srun, MPICH)",
    )
    submit.add_argument(
        "--requeue",
        action="store_true",
        help="a minute before the time limit write a checkpoint, queue again and go on (run only)",
    )
    submit.add_argument(
        "--sbatch", action="append", metavar="OPTION", help="for sbatch; may be given again"
    )
    submit.add_argument("--out", metavar="FILE", help="keep the script there as well")
    submit.add_argument("--print", action="store_true", help="show the script, submit nothing")

    doctor = command("doctor", "find out what is wrong with MPI or the launcher", DOCTOR_HELP)
    doctor.add_argument("-n", metavar="N", help="starts N ranks, unless mpirun did")
    doctor.add_argument("--hostfile", **HOSTFILE_OPTION)
    return parser, dict(subparsers.choices)


def _registered() -> str:
    """Every problem, algorithm and graph with its options, for the help."""
    from ..algorithms import ALGORITHMS
    from ..graphs import FAMILIES
    from ..problems import PROBLEMS

    lines = []
    registries: dict[str, dict[str, Any]] = {
        "problems": PROBLEMS,
        "algorithms": ALGORITHMS,
        "graphs": FAMILIES,
    }
    for kind, registry in registries.items():
        lines.append(f"  {kind}")
        lines += [f"    {describe(name, factory)}" for name, factory in registry.items()]
    return "\n".join(lines)
