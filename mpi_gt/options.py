"""What the command line takes, and what its help says."""

import argparse
from typing import Any, NoReturn

from . import __version__
from .errors import UserError
from .spec import describe

RUN_HELP = """\
Run one algorithm on one problem, every node of the graph a process of its own.

examples:
  mpi-gt run -n 16                                      the paper's Huber problem
  mpi-gt run -n 16 --graph ring --seeds 5 --out out/a   five seeds, in one run
  mpi-gt run -n 16 --algorithm gt-adaptive:lr=0.005,beta1=0.5
  mpirun -n 16 mpi-gt run --iterations 20000            under a launcher of yours
  mpi-gt run experiment.toml --seeds 10                 options from a file; flags win
  mpi-gt run --stacked -n 16                            the same in one process, no MPI
  mpi-gt run -n 4 --algorithm my_module:MyMethod        a class of yours, from this folder
"""

COMPARE_HELP = """\
Run several algorithms on the same problem, graph and random draws, in one launch.

examples:
  mpi-gt compare -n 16 --algorithms gt-adaptive,gt,dsgd --seeds 5
  mpi-gt compare -n 16 --algorithms "gt-adaptive:lr=0.001,vmin=0.01,dsgd:lr=0.1"
  mpi-gt compare -n 16 --problem huber:spread=0.5       all of them
"""

GRAPH_HELP = """\
Describe a graph and its mixing matrix: degrees, diameter, rho_A and spectral gap.

examples:
  mpi-gt graph er:p=0.7 -n 16
  mpi-gt graph torus -n 64 --weights laplacian --plot
  mpi-gt graph edges.txt -n 10 --plot picture.png
  mpi-gt graph nx.circulant_graph:offsets=[1,3] -n 12
"""

SWEEP_HELP = """\
Run every method at every stepsize of a grid, in one launch: where is each at its best?

examples:
  mpi-gt sweep -n 16 --lr 1e-4..1 --algorithms gt-adaptive,gt,dsgd --seeds 3
  mpi-gt sweep -n 16 --lr 1e-3..1 --points 4 --problem softmax:dataset=a9a --iterations 1000
"""

REPRODUCE_HELP = """\
The paper's experiments with the paper's parameters: figure, table, and a verdict on each claim.
A call that was interrupted goes on where it stopped.

examples:
  mpi-gt reproduce huber --quick                    a look at it, in two minutes
  mpi-gt reproduce huber                            50 seeds, 20000 iterations, 7 methods
  mpi-gt reproduce huber --variant heterogeneous    where the claims hold
  mpi-gt reproduce mnist --variant label-sorted
  mpi-gt reproduce all --out results
"""

PROFILE_HELP = """\
Run one algorithm and say where the time went: gradient, update, packing, exchange (and how much
of it was waiting for the last neighbour), for every rank; the same as `run --profile`.

Writes profile.json, profile.npz (every rank, iteration and phase), profile.png, and trace.json, a
timeline with all messages: open it at https://ui.perfetto.dev

examples:
  mpi-gt profile -n 16
  mpi-gt profile -n 16 --exchange nonblocking --problem softmax:dataset=synthetic
  mpi-gt profile -n 16 --straggler node=3,ms=5            which node is it?
  mpi-gt profile -n 16 --iterations 5000 --trace-iterations 1000:1050
"""

BENCH_HELP = """\
Time the exchange alone: message size x graph x way of exchanging, on real ranks, with a fit of
latency and bandwidth, and the same collective called from C as the floor.

A sample is the mean of some exchanges in a row (about a millisecond of them), as the slowest
rank saw it. Contents are checked before and after.

examples:
  mpi-gt bench -n 16
  mpi-gt bench -n 16 --sizes 160,16kB,1.6MB --graphs ring,er:p=0.7,complete
  mpi-gt bench -n 4 --exchanges neighbor,persistent,pickle --seconds 2
  mpirun -n 64 mpi-gt bench --out bench-64            under a launcher of yours (no floor)
"""

SCALE_HELP = """\
The same experiment on more and more ranks, each count a profiled run: strong scaling (all nodes
together draw the same batch) and weak (each node does), for several graphs.

examples:
  mpi-gt scale --ranks 2,4,8,16
  mpi-gt scale --ranks 4,8,16 --graphs ring,exponential,complete --mode weak --problem huber
  mpi-gt scale --ranks 16,32,64 --problem softmax:dataset=mnist,batch=64 --iterations 500
"""

PREDICT_HELP = """\
The time of an iteration on a machine that is not at hand:
compute + latency + degree x (per message + bytes / bandwidth), for several graph families.

examples:
  mpi-gt predict --nodes 1024 --graph exponential --dim 1e6 --latency 2us --bandwidth 12GB/s
  mpi-gt predict --nodes 64 --bench runs/my-bench --profile runs/my-profile
  mpi-gt predict --bench runs/my-bench --check runs/my-profile     how far is the model off?
"""

RESUME_HELP = """\
Go on with a run that was stopped, killed or failed, from its last checkpoint; the numbers are those
of a run that was never interrupted. A finished run is extended by more iterations.

examples:
  mpi-gt resume runs/a
  mpi-gt resume runs/a --exchange p2p
  mpi-gt resume runs/a --iterations 40000
  mpirun -n 16 mpi-gt resume runs/a
"""

STATUS_HELP = """\
How runs are doing: status, iteration, gap, time left, last checkpoint.

examples:
  mpi-gt status runs/a
  mpi-gt status runs/*
"""

REPORT_HELP = """\
One page of whatever run directories hold, complete in itself: it opens from a file, needs no
network, and can be sent. Curves with switches, a table to sort, graphs, profiles, benches, claims.

examples:
  mpi-gt report runs/a
  mpi-gt report runs/a runs/b runs/my-bench -o report.html     several on one page
  mpi-gt report runs                                           all that are in there
"""

WATCH_HELP = """\
How a run is doing, live, from another terminal: iteration and time left, loss and gap with a
small curve, pace, last checkpoint. Reads only. Ctrl-C ends the view, not the run.

examples:
  mpi-gt watch runs/a
  mpi-gt watch runs/a --once                    print it and end
  ssh cluster mpi-gt watch work/runs/a --every 10
"""

DATA_HELP = """\
The datasets: which there are, fetching and preparing them, checking their files.

examples:
  mpi-gt data list
  mpi-gt data prepare mnist                     finds or downloads it, parses it once
  mpi-gt data verify a9a --data-dir /data       checks the raw files' sha256
"""

THEORY_HELP = """\
What the convergence theory says of a setting: constants, admissible stepsizes, bounds; as the
paper prints it, and corrected. Advice only: nothing refuses to run.

examples:
  mpi-gt theory -n 16 --problem huber --graph er:p=0.7 --algorithm gt-adaptive:lr=0.001
  mpi-gt theory --algorithm gt-adaptive:vmin=1,vmax=1 --suggest
  mpi-gt theory --problem my_module:MyProblem --L 2 --G 5 --sigma2 0.1 --f-star 0 --json
"""

HOSTFILE_HELP = """\
Write a list of hosts in the format of the MPI that is to read it.

examples:
  mpi-gt hostfile --nodes h1:4,h2:4 --mpi openmpi --out hosts
  mpi-gt run -n 8 --hostfile hosts                      the run that uses it
"""

SUBMIT_HELP = """\
Write the Slurm script of a command and submit it. What is wrong with the command is told now,
not after hours in the queue.

examples:
  mpi-gt submit --nodes 4 --ntasks-per-node 4 --time 01:00:00 -- run --graph ring --seeds 5
  mpi-gt submit --nodes 4 --ntasks-per-node 4 --time 01:00:00 --print -- run      only shows it
  mpi-gt submit --nodes 2 --ntasks-per-node 8 --time 04:00:00 --requeue -- run --iterations 100000
  mpi-gt submit ... --launcher pmix --sbatch=--partition=main -- compare --algorithms gt,dsgd
"""

DOCTOR_HELP = """\
Look at the MPI, the launcher, the hosts and their cores; time an exchange between neighbours; say
in plain words what is wrong.

examples:
  mpi-gt doctor                        this machine
  mpi-gt doctor -n 16 --hostfile hosts
  mpirun -n 16 mpi-gt doctor           under a launcher of yours, srun as well

exit codes: 0 a run can start (there may be warnings), 2 it could not
"""

EPILOG = """\
SPEC is a name, or NAME:key=value,... to set its options. Names, options and defaults:
{registered}

A TOML file has the same names as the flags (problem = "huber:dim=20", log-every = 10).

exit codes: 0 finished, 2 bad input, 3 diverged (a value is no longer finite), 85 stopped on
request and 86 stuck (both to be taken up by `mpi-gt resume`), 1 anything else
"""

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
    from .algorithms import ALGORITHMS
    from .graphs import FAMILIES
    from .problems import PROBLEMS

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
