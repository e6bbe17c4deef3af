"""Cases from the parsers: every option of every command with values of the wrong kind."""

import argparse
import typing
from collections.abc import Iterator
from dataclasses import fields

from campaign.case import Case, rotate
from campaign.files import Damage
from campaign.values import (
    CONTROL,
    HUGE,
    LONG,
    PLACE_FILES,
    PLACES,
    REAL,
    UNICODE,
    WHOLE,
    above,
    below,
    near_misses,
    wrong_names,
)

from mpi_gt.algorithms import ALGORITHMS
from mpi_gt.cli.commands import COMMANDS
from mpi_gt.cli.commands.submit import SYSTEMS
from mpi_gt.cli.parser import HIDDEN, build_parser
from mpi_gt.comm import EXCHANGE_NAMES
from mpi_gt.compressors import COMPRESSORS
from mpi_gt.config import DTYPES, LIMITS, RunConfig
from mpi_gt.datasets import DATASETS
from mpi_gt.graphs import FAMILIES, MATCHINGS, WEIGHTS
from mpi_gt.graphs.placement import PLACEMENTS
from mpi_gt.launchers.batch.slurm import LAUNCHERS
from mpi_gt.launchers.brands import BRANDS
from mpi_gt.performance.scaling import MODES
from mpi_gt.problems import PROBLEMS
from mpi_gt.reproduce.study import EXPERIMENTS
from mpi_gt.rundir.layout import LAYOUTS

Values = list[str]

_STACKED = ("--stacked", "-n", "4", "--iterations", "5")
_MACHINE = ("--latency", "2us", "--bandwidth", "12GB/s", "--compute", "1ms")
_JOB = ("--hosts", "1", "--ranks-per-host", "2", "--time", "01:00:00", "--print")
BASES: dict[str, tuple[str, ...]] = {
    "run": ("run", *_STACKED),
    "compare": ("compare", *_STACKED),
    "sweep": ("sweep", *_STACKED),
    "resume": ("resume", "run", "--iterations", "60"),
    "reproduce": ("reproduce", "huber", *_STACKED),
    "status": ("status",),
    "watch": ("watch", "run"),
    "report": ("report", "run"),
    "graph": ("graph", "ring", "-n", "4"),
    "data": ("data", "list"),
    "theory": ("theory", "-n", "4"),
    "profile": ("profile", "-n", "2", "--iterations", "5"),
    "bench": ("bench", "-n", "2", "--seconds", "0.001"),
    "scale": ("scale", "-n", "2", "--iterations", "5"),
    "predict": ("predict", "-n", "4", *_MACHINE),
    "hostfile": ("hostfile", "--hosts", "h1:4", "--mpi", "openmpi"),
    "submit": ("submit", *_JOB),
    "doctor": ("doctor",),
    "describe": ("describe",),
    "manual": ("manual",),
}
"""A command of each name that would work."""
NEEDS: dict[str, tuple[Damage, ...]] = {
    name: (Damage("run"),) for name in ("resume", "status", "watch", "report")
}
TAILS = {"submit": ("--", "run")}
PER_OPTION = 6
"""Values per option of all commands but `run`, which gets all of them."""

TIMES = ["", "x", "nan", "inf", "-1us", "1e400s", "us", "2 weeks", "5\0", "5 us s", *CONTROL[:3]]
SIZES = [
    "",
    "x",
    "nan",
    "0",
    "-16",
    "17",
    "1.5",
    "16XB",
    "1e400",
    "16,,32",
    "2GiB",
    "16\0",
    "9" * 400,
]
LISTS = ["", ",", "2,x", "2,,4", "0", "-1", "2,1e99", "1.5", "nan", "2;4", "2\0", "9" * 5000]
_FILE_NAMES = ["", "missing", "a\0b", "x" * 300, "/proc/nothing/a", "\udcff", "é/ü"]
OWN: dict[str, Values] = {
    "--algorithm": wrong_names(ALGORITHMS),
    "--algorithms": [
        *wrong_names(ALGORITHMS)[-18:], ",", "gt,gt", "gt,,gtt", "gt:lr=0.1,gt:lr=0.1"
    ],
    "--problem": wrong_names(PROBLEMS),
    "--graph": [*wrong_names(FAMILIES), "+", "ring+", "+ring", "ring+rink", "ring+er:p=2"],
    "--graphs": [*wrong_names(FAMILIES)[:9], *UNICODE, "ring,rink", "ring,er:q=1", "ring:x=1"],
    "--weights": wrong_names(WEIGHTS),
    "--matchings": [
        *wrong_names(MATCHINGS), "true", "all:seed=1", "random:seed=-1", "random:seed=x",
        "random:x=1", "random:seed=1,seed=2", f"random:seed={2**63 + 1}", "random,all",
    ],
    "--place": [
        *wrong_names(PLACEMENTS), "graph:seed=1", "shuffled:seed=-1", "shuffled:seed=x",
        "shuffled:x=1", f"shuffled:seed={2**63 + 1}", "rank,graph",
    ],
    "--exchange": wrong_names(EXCHANGE_NAMES),
    "--exchanges": [*wrong_names(EXCHANGE_NAMES), "p2p,", ",", "p2p,p3p"],
    "--compress": [
        *wrong_names(COMPRESSORS), ",", "sign,sign", "qsgd:bits=3", "qsgd:bits=x", "qsgd:block=0",
        "top:k=0", "top:k=nan", "top:k=1e12", "sign:k=1", "missing_module:Class", "sign\0",
    ],
    "--checkpoint-layout": [*wrong_names(LAYOUTS), "rank,host", "node", "a", "host:1"],
    "--checkpoint-staging": [
        "", "missing", "file", "fifo", "a\0b", "x" * 300, "/dev/null", "/proc/nothing/a", "\udcff",
    ],
    "--dtype": [*wrong_names(DTYPES), "int32", "float16", "complex128", "object", "f8"],
    "--launcher": wrong_names(LAUNCHERS),
    "--mpi": wrong_names(BRANDS),
    "--mode": [*wrong_names([*MODES, "both"]), "strong,weak"],
    "--variant": wrong_names(["literal", "heterogeneous", "label-sorted", "compressed"]),
    "--every": [*REAL, "0", "0.01", "1e6"],
    "--seconds": [*REAL, "0", "-1", "3601"],
    "--sizes": SIZES,
    "--dim": [*WHOLE, *HUGE, "0", "-1", "1e12"],
    "--latency": TIMES,
    "--per-message": TIMES,
    "--compute": TIMES,
    "--bandwidth": ["", "x", "nan", "inf", "0", "-1GB/s", "12GB/h", "1e400", "GB/s", "5\0"],
    "--bench": _FILE_NAMES,
    "--check": _FILE_NAMES,
    "--profile": _FILE_NAMES,
    "--x1": [name for name in _FILE_NAMES if name],
    "--data-dir": ["a\0b"],
    "--hostfile": _FILE_NAMES,
    "--straggler": [
        "", "x", "node=0", "ms=5", "node=0,ms=x", "node=x,ms=5", "node=-1,ms=5", "node=99,ms=5",
        "node=0,ms=nan", "node=0,ms=inf", "node=0,ms=-1", "node=0,ms=1e9", "node=0,ms=5,jitter=6",
        "node=0,ms=5,jitter=nan", "node=0,ms=5,probability=0", "node=0,ms=5,probability=2",
        "node=0,ms=5,probability=nan", "node=0,ms=5,node=1", "node=1.5,ms=5", "node=0,ms=5,x=1",
        f"node={'9' * 30},ms=5", "node=0\0,ms=5",
    ],
    "--channel": [
        "", "x", "=", "links", "links=", "links=x", "links=1", "links=1.5", "links=-0.1",
        "links=nan", "loss=inf", "loss=1e400", "inactive=1", "inactive=-1", "noise=-1",
        "noise=nan", "noise=inf", "seed=1", "burst=5", "noise=1,burst=5", "links=0.1,burst=0",
        "links=0.1,burst=0.5", "links=0.1,burst=nan", "links=0.1,burst=inf", "loss=0.9,burst=2",
        "links=0.1,seed=-1", "links=0.1,seed=1.5", f"links=0.1,seed={'9' * 30}", "link=0.1",
        "links=0.1,links=0.2", "links:0.1", "loss=0..2", "loss=0..", "loss=..1",
        "loss=x..0.3", "loss=0.3..0.1", "links=0.1\0", f"links=0.{'9' * 5000}", "links=²",
    ],
    "--trace-iterations": [
        "", "x", "1", ":", "1:", ":5", "0:5", "5:1", "1:99999999999", "-1:5", "1:5:9", "1.5:3",
        "²:5", "nan:inf", "1:5\0", f"1:{'9' * 5000}", f"{'9' * 5000}:5",
    ],
    "--lr": [
        "", "x", "nan", "inf", "0", "-1", "..", "1..", "..1", "1..0.1", "0..1", "1e-4..inf",
        "1e-4..nan", "1..1", "1e-4..1..2", "1e-4,1", "a..b", "1e-400..1", "1..2\0",
    ],
    "--over": [
        "", "x", "=", "=1", "lr", "lr=", "lr=,", "lr=;", "lr=x", "lr=nan", "lr=inf", "lr=0",
        "lr=-1",
        "lr=0..1", "lr=1..0.1", "lr=1..", "lr=1..x", "lr=1..2:", "lr=1..2:1", "lr=1..2:x",
        "lr=1..2:99999999999", "lr=1..inf", "lr=0.1,0.10", "lr=1e-400..1", "lr=0.1\0",
        "lr=1e-300..1e300", "lrr=1", "LR=1", "beta1=0.5", "spread=0", "stacked=true", "out=a",
        "n=2",
        "iterations=1", "graph=", "graph=rong", "graph=er:p=2", "graph=ring,ring", "graph.k=1",
        "graph.p=x", "problem=", "problem=hubert", "problem.spread=-1", "problem.spread=x",
        "problem.=1", ".spread=1", "algorithm=gtt", "algorithm=gt,gt", "weights=x", "weights=a.npy",
        "x1=missing.npy", "seeds=0", "seeds=x", "seed=-1", "dtype=float16", "exchange=p3p",
        "place=grap",
        "channel=links=1", "channel.loss=1", "channel.loss=0..1", "channel.loss=x", "channel.x=1",
        "channel.=1", "channel.burst=5", "channel=", "channel.seed=-1", "channel.noise=0..1",
        "log-every=0", "straggler=node=0,ms=1", "é=1", f"lr={'9' * 5000}", "seed=1..1e6:1000",
    ],
    "--budget": [
        "", "x", "=", "gradients", "gradients=", "gradients=x", "gradients=0", "gradients=-1",
        "gradients=nan", "gradients=inf", "bytes=0", "BYTES=1", "bytes=1e400", "seconds=3",
        "gradients=1,bytes=2", "gradients=1\0",
    ],
    "--launcher-args": ["'a", '"x', "a\\", "--x 'y"],
    "--export": ["1A", "A B", "=1", "A-B", "NO_SUCH_VARIABLE"],
    "--hosts": [
        "", "x", "h1", "h1:", ":4", "h1:0", "h1:-1", "h1:x", "h1:1.5", "h1:4,h1:4", "h1:4,,h2:4",
        "h 1:4", "-h:4", "é:4", "h1:4\n", "h\0:4", f"h1:{'9' * 5000}", "h1:1000001", "h1:²",
    ],
    "--ranks-per-host": [*WHOLE, "0", "-1", "9" * 31, "9" * 30],
    "--time": [
        "", "x", "1:2:3:4", "-1", "01:00:0", "1h", "nan", "01:00:00\n#SBATCH --x", "²", "1\0"
    ],
    "--port": [*WHOLE, *HUGE, "0", "-1", "65536"],
    "--system": wrong_names(SYSTEMS),
    "--prelude": _FILE_NAMES,
    "--array": ["", "x", "-1", "4-0", "0-", "1,,2", "0-4:2", "0-4%", "²", "0-9999999", "1\0"],
    "--signal": [*WHOLE, *HUGE, "0", "-1", "65536"],
    "--like": _FILE_NAMES,
    "--sbatch": ["x", "", "mem=4G", "--a\nb", "-\0", "--a\rb"],
    "--plot": ["a.xyz", "a\0b.png", "x" * 300 + ".png", "/proc/a.png"],
}  # fmt: skip
"""Bad values of options whose type does not say them."""
DIRECTORIES = ("", "missing", "file", "a\0b", "x" * 300, "empty", "\udcff", "fifo", "/dev/null")
POSITIONS: dict[str, dict[str, Values]] = {
    "reproduce": {"experiment": wrong_names([*EXPERIMENTS, "all"])},
    "describe": {"kind": wrong_names(["algorithm", "problem", "graph", "weights", "exchange"])},
    "manual": {"topic": [*wrong_names(["running", "theory", "clusters"]), "../README", "README"]},
    "data": {
        "action": ["", "lst", "LIST", "prepare", "verify", "é", "a\0b"],
        "name": wrong_names(DATASETS),
    },
}


def values_of(command: str, option: str) -> Values:
    """Return bad values for an option, by its name or by the type of its field in RunConfig."""
    if option == "-n" and command == "scale":
        return LISTS
    if option == "--hosts" and command == "submit":
        return [*WHOLE, "0", "-1", "9" * 31]
    if option == "--export" and command == "submit":  # sbatch knows which variables are set
        return OWN[option][:-1]
    if option in ("--out", "-o"):
        return out_values(command)
    if option in OWN:
        return OWN[option]
    name = option.lstrip("-").replace("-", "_")
    kinds = {field.name: field.type for field in fields(RunConfig)}
    if name not in kinds:
        raise LookupError(f"the campaign knows no bad value for {option} of {command}")
    types = typing.get_args(kinds[name]) or (kinds[name],)
    values = [*WHOLE, *HUGE] if int in types else [*REAL]
    if name in LIMITS:
        low, high = LIMITS[name]
        values += [below(low), above(high)]
    elif name != "f_star":
        values += ["-1", "-1e-9"]
    if name == "n" and command == "graph":
        values += ["0", "20001"]
    return values


def out_values(command: str) -> Values:
    """Return places that this command cannot write to."""
    devices = ("/dev/null",)
    if command in ("report", "data", "hostfile", "submit"):  # a file, which a device can take
        taken = (*devices, "file", "fifo", "dangling", *(["loop"] if command == "report" else []))
        return [place for place in PLACES if place not in taken]
    if command == "graph":
        return [place for place in PLACES if place]
    return list(PLACES)


def option_cases() -> Iterator[Case]:
    """Yield cases for every option of every command, and for its wrong spellings."""
    _, parsers = build_parser()
    assert set(parsers) == set(COMMANDS) == set(BASES)
    for command, parser in parsers.items():
        flags = [flag for flag in parser._option_string_actions if flag not in HIDDEN]
        for action in parser._actions:
            flag = next((each for each in action.option_strings), "")
            if not flag or flag in HIDDEN:
                continue
            yield from _flag_cases(command, flag, action, flags)
        yield from _position_cases(command)
        base, tail = BASES[command], TAILS.get(command, ())
        for word in ("--no-such-option", "---", "-z", "--é", f"--{LONG}", "--a\nb"):
            yield Case("option", (*base, word, *tail), NEEDS.get(command, ()))


def _flag_cases(
    command: str, flag: str, action: argparse.Action, flags: list[str]
) -> Iterator[Case]:
    base, tail, needs = BASES[command], TAILS.get(command, ()), NEEDS.get(command, ())
    long = flag.lstrip("-")
    for miss in near_misses(long, [each.lstrip("-") for each in flags])[:1]:
        yield Case("option", (*base, f"--{miss}=1", *tail), needs)
    if action.nargs == 0:
        yield Case("option", (*base, f"{flag}=yes", *tail), needs)
        return
    if action.nargs != "?":
        yield Case("option", (*base, flag, *tail), needs)
    values = values_of(command, flag)
    chosen = values if command == "run" else rotate(values, PER_OPTION, f"{command} {flag}")
    for value in chosen:
        words = (*base, *_extras(command, flag, base), *spelled(flag, value), *tail)
        files = tuple(dict.fromkeys(
            name for name in PLACE_FILES if value.partition("/")[0] == name
        ))  # fmt: skip
        yield Case("value", words, (*needs, *files))


def _extras(command: str, flag: str, base: tuple[str, ...]) -> tuple[str, ...]:
    """Return what has to stand beside this flag for its value to be looked at."""
    if flag == "--trace-iterations" and command == "run":
        return ("--profile",)
    if flag == "--port":
        return ("--web",)
    if flag in ("--signal", "--like"):
        return ("--requeue",)
    if flag == "--hostfile":
        return ("-n", "2")
    if flag == "--out" and command == "graph":
        return ("--plot",)
    return ()


def spelled(flag: str, value: str) -> tuple[str, ...]:
    """Return the words for a flag: joined by = where the value could be taken for a flag."""
    return (f"{flag}={value}",) if flag.startswith("--") else (flag, value)


def _position_cases(command: str) -> Iterator[Case]:
    base, needs = BASES[command], NEEDS.get(command, ())
    for name, values in POSITIONS.get(command, {}).items():
        for value in values if len(values) < 40 else rotate(values, 40, command):
            if name == "name":
                yield Case("value", ("data", "verify", "--", value))
            else:
                rest = base[2:] if command == "reproduce" else ()
                yield Case("value", (command, *rest, "--", value))
    if command in ("resume", "status", "watch", "report"):
        for value in DIRECTORIES:
            files = tuple(name for name in PLACE_FILES if name == value)
            yield Case("value", (command, "--", value), files)
    if command in ("resume", "watch", "bench", "scale", "doctor", "predict", "hostfile", "manual"):
        yield Case("option", (*base, "extra", "words"), needs)
    if command in ("resume", "status", "watch", "report", "graph", "reproduce", "data", "submit"):
        yield Case("option", (command,), needs)
