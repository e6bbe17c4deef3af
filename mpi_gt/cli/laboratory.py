"""The commands of the laboratory outside mpirun: they start the ranks that measure."""

import contextlib
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..comm import EXCHANGE_NAMES
from ..config import DTYPES, RunConfig
from ..display.performance import show_checks, show_prediction, show_scale
from ..errors import StorageError, UserError
from ..launch import mpirun
from ..performance.bench import BenchPlan, parse_bytes
from ..performance.c_floor import measure_floor
from ..performance.cost_model import Cost
from ..rundir.atomic import write_json
from ..rundir.layout import release_reserved, require_free, reserve
from ..spec import integer, nearest, split_list


def make_bench(given: dict[str, Any]) -> BenchPlan:
    """The plan of a bench, with a directory of its own."""
    plan = BenchPlan.of(given)
    if plan.out is None:
        return replace(plan, out=str(reserve("bench")), reserved=True)
    if not plan.out:
        raise UserError("--out needs the name of a directory")
    return plan


def bench(given: dict[str, Any], arguments: list[str]) -> int:
    """The floor first, then the ranks."""
    if "n" not in given:
        raise UserError("how many ranks? Type `mpi-gt bench -n 16 ...`")
    plan = make_bench(given)
    assert plan.out is not None
    assert plan.n is not None
    directory = Path(plan.out)
    fresh = plan.reserved or not directory.exists()
    try:
        require_free(directory, plan.overwrite or plan.reserved)
        _make(directory)
        measure_floor(plan, directory)
        told = [f"--out={plan.out}", "--reserved"]
        return mpirun.launch(["bench", *told, *arguments[1:]], plan.n, None)
    finally:
        with contextlib.suppress(OSError):
            (directory / "floor.json").unlink()
        if fresh:
            release_reserved(directory)


def _make(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write to {directory}: {error.strerror}") from None


def scale(
    given: dict[str, Any],
    convert_flags: Callable[[dict[str, Any]], dict[str, Any]],
    start: Callable[[list[str], RunConfig], int],
) -> int:
    """Every point of the series is a launch of its own, by `start`."""
    from ..config import to_arguments
    from ..performance.scaling import make_points, run_study

    series = {name: given.pop(name, None) for name in ("ranks", "graphs", "mode")}
    quiet, overwrite = given.pop("quiet", False), given.pop("overwrite", False)
    out = given.pop("out", None)
    options = {"problem": "softmax:dataset=synthetic", "iterations": 200, **convert_flags(given)}
    config = RunConfig.of({"log_every": options["iterations"], **options})
    directory = Path(out) if out else reserve("scale")
    try:
        points = make_points(config, **series, directory=directory)
        if out:
            require_free(directory, overwrite)
        _make(directory)
    except UserError:
        if not out:
            release_reserved(directory)
        raise

    def execute(config: RunConfig) -> int:
        return start(to_arguments(config), config)

    code, rows = run_study(points, directory, execute, quiet)
    if rows and not quiet:
        show_scale(rows, directory)
    return code


def predict(
    nodes: str | None = None,
    graph: str | None = None,
    dim: str = "10",
    seeds: str = "1",
    dtype: str = "float64",
    latency: str | None = None,
    bandwidth: str | None = None,
    per_message: str | None = None,
    bench: str | None = None,
    exchange: str = "neighbor",
    compute: str | None = None,
    profile: str | None = None,
    check: list[str] | None = None,
    json_: bool = False,
    out: str | None = None,
    quiet: bool = False,
) -> int:
    """The command `predict`."""
    from ..performance import prediction as model

    cost = _cost(latency, bandwidth, per_message, bench, exchange)
    if check:
        checks = [model.check(Path(directory), cost) for directory in check]
        if not json_ and not quiet:
            show_checks(checks)
        return _hand_out({"checks": checks}, json_, out)
    if nodes is None:
        raise UserError("for how many nodes? --nodes N (or --check DIR for a run that was made)")
    count, length, lanes = (
        integer(f"--{name}", text)
        for name, text in (("nodes", nodes), ("dim", dim), ("seeds", seeds))
    )
    if not 1 <= count <= 10**6 or not 1 <= length <= 10**9 or not 1 <= lanes <= 10**6:
        raise UserError("--nodes, --dim and --seeds must be in [1, 1e6], [1, 1e9] and [1, 1e6]")
    if dtype not in DTYPES:
        raise UserError(f"unknown dtype '{dtype}'{nearest(dtype, DTYPES)}")
    if compute is not None and profile is not None:
        raise UserError("--compute and --profile both give the compute time: one is enough")
    if compute is not None:
        own = model.Compute(parse_seconds("--compute", compute), 0.0, "as given")
    elif profile is not None:
        own = model.from_profile(Path(profile), length, lanes)
    else:
        own = model.measured_here(length, lanes, dtype)
    payload = 2 * lanes * length * (8 if dtype == "float64" else 4)
    named = split_list(graph or "") or None
    rows, left_out = model.rows_of(count, named, payload, cost, own)
    found = {"nodes": count, "bytes": payload, "compute": own.source, "rows": rows}
    if not json_ and not quiet:
        show_prediction(found, cost, left_out)
    return _hand_out({**found, "left_out": left_out}, json_, out)


def _hand_out(found: dict[str, Any], as_json: bool, out: str | None) -> int:
    if as_json:
        print(json.dumps(found, indent=2))
    if out is not None:
        _make(Path(out))
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
) -> Cost:
    """Latency and bandwidth as given, else as a bench has fitted them."""
    from ..performance.prediction import from_bench

    if exchange not in EXCHANGE_NAMES:
        raise UserError(f"unknown exchange '{exchange}'{nearest(exchange, EXCHANGE_NAMES)}")
    fitted = from_bench(Path(bench), exchange) if bench is not None else None
    if fitted is None and (latency is None or bandwidth is None):
        raise UserError("give --latency and --bandwidth, or --bench DIR with a bench's results")
    return Cost(
        fitted.latency
        if latency is None and fitted
        else parse_seconds("--latency", latency or "0"),
        fitted.bandwidth
        if bandwidth is None and fitted
        else parse_speed("--bandwidth", bandwidth or "inf"),
        fitted.per_message
        if per_message is None and fitted
        else parse_seconds("--per-message", per_message or "0"),
    )


TIMES = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


def parse_seconds(what: str, text: str) -> float:
    """A time: 2us, 0.5ms, 1e-6s."""
    unit = next((name for name in TIMES if text.lower().endswith(name)), None)
    try:
        value = float(text[: -len(unit)]) * TIMES[unit] if unit else float(text)
    except ValueError:
        raise UserError(f"{what}: '{text}' is no time (such as 2us or 0.5ms)") from None
    if not 0 <= value < math.inf:
        raise UserError(f"{what} must be finite and >= 0, not {text}")
    return value


def parse_speed(what: str, text: str) -> float:
    """Bytes a second: 12GB/s."""
    value = parse_bytes(what, text.removesuffix("/s"))
    if value <= 0:
        raise UserError(f"{what} must be > 0, not {text}")
    return value
