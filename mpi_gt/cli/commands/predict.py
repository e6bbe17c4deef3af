"""`mpi-gt predict`: the time per iteration on a machine that is not at hand."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import StorageError, UserError
from ...files import json_text
from ...spec import integer, nearest, split_list
from . import SPEED, Command

if TYPE_CHECKING:
    from ...performance.cost_model import Cost
    from ...performance.prediction import Compute
    from ..parser import Parser

HELP = """\
Predict the time per iteration on a machine that is not at hand, for several graph families:
compute + latency + degree x (time per message + bytes / bandwidth)

examples:
  mpi-gt predict -n 1024 --graphs exponential --dim 1e6 --latency 2us --bandwidth 12GB/s
  mpi-gt predict -n 64 --bench runs/my-bench --profile runs/my-profile
  mpi-gt predict -n 64 --dim 1e6 --latency 20us --bandwidth 1GB/s --compress qsgd:bits=4
  mpi-gt predict --bench runs/my-bench --check runs/my-profile     how far is the model off?
"""
TIMES = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


def _add_arguments(parser: "Parser") -> None:
    from ..parser import add_options

    parser.add_argument("-n", metavar="N", help="number of nodes, one rank each")
    add_options(parser, "--graphs", defaults={"--graphs": "several families"})
    parser.add_argument("--dim", metavar="D", help="length of a vector (default 10)")
    add_options(parser, "--seeds", "--dtype")
    machine = parser.add_argument_group("communication")
    machine.add_argument("--latency", metavar="TIME", help="time per exchange, such as 2us")
    machine.add_argument("--bandwidth", metavar="RATE", help="bandwidth per rank, such as 12GB/s")
    machine.add_argument(
        "--per-message", metavar="TIME", help="time per neighbour (default 0, or as fitted)"
    )
    machine.add_argument(
        "--bench", metavar="DIR", help="take these three from the fit of `mpi-gt bench`"
    )
    machine.add_argument(
        "--exchange", metavar="NAME", help="take the fit of this exchange (default neighbor)"
    )
    machine.add_argument(
        "--compress",
        metavar="SPEC",
        nargs="+",
        help="compressed messages as well: do they pay, up to which bandwidth, from which size on? "
        "(encoding and decoding: of --bench if it has them, else timed here)",
    )
    compute = parser.add_argument_group("computation (default: timed here, without a gradient)")
    compute.add_argument("--compute", metavar="TIME", help="compute time of a node per iteration")
    compute.add_argument("--profile", metavar="DIR", help="take it from a profiled run")
    output = parser.add_argument_group("output")
    output.add_argument(
        "--check", metavar="DIR", nargs="+", help="compare the model with profiled runs instead"
    )
    output.add_argument("--json", dest="as_json", action="store_true", help="print JSON")
    output.add_argument("--out", metavar="DIR", help="also write prediction.json there")
    add_options(output, "--quiet")


def predict(
    n: str | None = None,
    graphs: str | None = None,
    dim: str = "10",
    seeds: str = "1",
    dtype: str = "float64",
    latency: str | None = None,
    bandwidth: str | None = None,
    per_message: str | None = None,
    bench: str | None = None,
    exchange: str = "neighbor",
    compress: list[str] | None = None,
    compute: str | None = None,
    profile: str | None = None,
    check: list[str] | None = None,
    as_json: bool = False,
    out: str | None = None,
    quiet: bool = False,
) -> int:
    """Predict, or check the model against runs; print the result and return the exit code."""
    from ...display.performance import show_checks, show_prediction
    from ...performance import prediction
    from ...performance.codecs import fitted_compressor, parse_compressors
    from ...performance.compressed_prediction import Vectors, codec_of, compressed_rows

    if out is not None and not out:
        raise UserError("--out needs the name of a directory")
    cost = _cost(latency, bandwidth, per_message, bench, exchange)
    specs = () if compress is None else parse_compressors(compress)
    if check:
        if specs:
            raise UserError("--check looks at runs as they were: leave --compress out")
        checks = [prediction.check(Path(directory), cost) for directory in check]
        if not as_json and not quiet:
            show_checks(checks)
        return _write({"checks": checks}, as_json, out)
    if n is None:
        raise UserError("for how many nodes? Give -n N, or --check DIR for a profiled run")
    count, length, lanes = (
        integer(flag, text) for flag, text in (("-n", n), ("--dim", dim), ("--seeds", seeds))
    )
    if not 1 <= count <= 10**6 or not 1 <= length <= 10**9 or not 1 <= lanes <= 10**6:
        raise UserError("-n, --dim and --seeds must be in [1, 1e6], [1, 1e9] and [1, 1e6]")
    vectors = Vectors(lanes, length, _dtype(dtype))
    for spec in specs:
        fitted_compressor(spec, lanes, length, dtype)
    own = _compute(compute, profile, length, lanes, dtype)
    named = split_list(graphs or "") or None
    rows, left_out = prediction.rows_of(count, named, vectors.bytes(), cost, own)
    found = {"nodes": count, "bytes": vectors.bytes(), "compute": own.source, "rows": rows}
    if specs:
        measured = None if bench is None else Path(bench)
        found["compressed"] = [
            compressed_rows(spec, vectors, rows, cost, codec_of(spec, vectors, measured))
            for spec in specs
        ]
    if not as_json and not quiet:
        show_prediction(found, cost, left_out)
    return _write({**found, "left_out": left_out}, as_json, out)


def _dtype(name: str) -> str:
    """Return the name of a dtype; raise UserError if runs have no such dtype."""
    from ...config import DTYPES

    if name not in DTYPES:
        raise UserError(f"unknown dtype '{name}'{nearest(name, DTYPES)}")
    return name


def _compute(
    compute: str | None, profile: str | None, length: int, seeds: int, dtype: str
) -> "Compute":
    """Return a node's own time per iteration: as given, as in a profile, or timed here."""
    from ...performance import prediction

    if compute is not None and profile is not None:
        raise UserError("--compute and --profile both give the compute time: give one of them")
    if compute is not None:
        return prediction.Compute(parse_seconds("--compute", compute), 0.0, "as given")
    if profile is not None:
        return prediction.from_profile(Path(profile), length, seeds)
    return prediction.measured_here(length, seeds, dtype)


def _write(found: dict[str, Any], as_json: bool, out: str | None) -> int:
    from ...rundir.atomic import write_json
    from ..configure import make_directory

    if as_json:
        print(json_text("prediction", found))
    if out is not None:
        make_directory(Path(out))
        try:
            write_json(Path(out) / "prediction.json", found)
        except StorageError as error:
            raise UserError(str(error)) from None
    return 0


def _cost(
    latency: str | None,
    bandwidth: str | None,
    per_message: str | None,
    bench: str | None,
    exchange: str,
) -> "Cost":
    """Return the cost of an exchange: as given, and otherwise as fitted by a bench."""
    from ...comm import EXCHANGE_NAMES
    from ...performance.cost_model import Cost
    from ...performance.prediction import from_bench

    if exchange not in EXCHANGE_NAMES:
        raise UserError(f"unknown exchange '{exchange}'{nearest(exchange, EXCHANGE_NAMES)}")
    fitted = from_bench(Path(bench), exchange) if bench is not None else None
    if fitted is None and (latency is None or bandwidth is None):
        raise UserError("give --latency and --bandwidth, or --bench DIR for a measured fit")
    return Cost(
        fitted.latency
        if latency is None and fitted
        else parse_seconds("--latency", "0" if latency is None else latency),
        fitted.bandwidth
        if bandwidth is None and fitted
        else parse_speed("--bandwidth", "inf" if bandwidth is None else bandwidth),
        fitted.per_message
        if per_message is None and fitted
        else parse_seconds("--per-message", "0" if per_message is None else per_message),
    )


def parse_seconds(what: str, text: str) -> float:
    """Return the seconds in a time such as 2us, 0.5ms or 1e-6s."""
    unit = next((name for name in TIMES if text.lower().endswith(name)), None)
    try:
        value = float(text[: -len(unit)]) * TIMES[unit] if unit else float(text)
    except ValueError:
        raise UserError(f"{what}: '{text}' is no time (such as 2us or 0.5ms)") from None
    if not 0 <= value < math.inf:
        raise UserError(f"{what} must be finite and >= 0, not {text}")
    return value


def parse_speed(what: str, text: str) -> float:
    """Return the bytes per second in a bandwidth such as 12GB/s."""
    from ...performance.bench_plan import parse_bytes

    value = parse_bytes(what, text.removesuffix("/s"))
    if value <= 0:
        raise UserError(f"{what} must be > 0, not {text}")
    return value


PREDICT = Command(
    name="predict",
    group=SPEED,
    summary="predict the time per iteration on another machine",
    help=HELP,
    usage="mpi-gt predict -n N [options]",
    add_arguments=_add_arguments,
    alone=predict,
    old_spellings={"--nodes": "-n", "--graph": "--graphs"},
)
