"""Scaling studies for `mpi-gt scale`: one profiled run of the same experiment per rank count."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .. import plots
from ..config import RunConfig
from ..errors import UserError
from ..graphs import build_network
from ..machine import cores
from ..plots.performance import draw_scale
from ..rundir.atomic import write_json
from ..rundir.columns import Column, write_table
from ..rundir.run_json import read_profile, require_facts
from ..spec import default_of, has_option, integer, set_option, split_list
from ..trial import cut_ranks
from ..user_classes import is_custom

MODES = ("strong", "weak")
CROWDED = (
    "where ranks exceed cores (hollow in the figure) the times say something about scheduling "
    "on this machine, not about a network"
)
COLUMNS = {
    "mode": Column("", "strong (the batch of all nodes stays) or weak (that of each node does)"),
    "graph": Column("", "graph of the run"),
    "ranks": Column("1", "MPI ranks"),
    "degree": Column("1", "largest degree of the graph"),
    "ranks_per_core": Column("1", "ranks that share a core"),
    "crowded": Column("", "True if ranks exceed cores"),
    "batch": Column("1", "rows per gradient of a node; empty: the problem has no batch"),
    "seconds_per_iteration": Column("s", "mean over ranks"),
    "exposed_communication": Column("s", "per iteration in the exchange, mean over ranks"),
    "waiting": Column("s", "of that, until the last neighbour came, mean over ranks"),
    "bytes_per_iteration": Column("bytes", "size of the vectors that all ranks send"),
    "efficiency": Column("1", "relative to the fewest ranks; 1 is ideal"),
}
"""The columns of scale.csv."""


@dataclass(frozen=True)
class Point:
    """One run of a scaling study."""

    mode: str
    graph: str
    batch: int | None
    config: RunConfig


def make_points(
    config: RunConfig, ranks: str | None, graphs: str | None, mode: str | None, directory: Path
) -> list[Point]:
    """Return all runs, by mode and graph, each with the fewest ranks first.

    Weak scaling keeps the batch of each node, strong scaling that of all nodes together.
    """
    given = ("2,4,8,16" if ranks is None else ranks).split(",")
    counts = sorted({cut_ranks(integer("-n", text)) for text in given})
    if counts[0] < 1 or counts[-1] > 10**6:
        raise UserError(f"-n must be in [1, 1000000], not {ranks}")
    modes = MODES if mode in (None, "both") else (str(mode),)
    if not set(modes) <= set(MODES):
        raise UserError(f"--mode must be strong, weak or both, not '{mode}'")
    _, kind, options = config.parse_problem()
    divisible = has_option(kind, "batch")
    if "strong" in modes and not divisible:
        if mode is not None:
            raise UserError(
                f"strong scaling divides a batch among the nodes, and problem {config.problem} "
                "has none: give --mode weak, or a softmax problem"
            )
        modes = ("weak",)
    each = int(options.get("batch", default_of(kind, "batch"))) if divisible else None
    points = []
    for chosen in modes:
        for graph in split_list(graphs or "ring,er:p=0.7"):
            for n in counts:
                batch = each
                if batch is not None and chosen == "strong":
                    batch = max(1, batch * counts[-1] // n)
                name = "".join(c if c.isalnum() or c in "-_" else "-" for c in graph)
                problem = config.problem
                if batch is not None:
                    module, colon = "", ""
                    if is_custom(problem):
                        module, colon, problem = problem.partition(":")
                    problem = module + colon + set_option(problem, "batch", str(batch))
                made = replace(
                    config,
                    problem=problem,
                    graph=graph,
                    n=n,
                    profile=True,
                    out=str(directory / f"{chosen}-{name}-{n}"),
                    overwrite=True,
                    quiet=True,
                )
                made.check()
                # an unsuitable n is an error before a run
                build_network(graph, config.weights, n, config.matchings)
                points.append(Point(chosen, graph, batch, made))
    return points


def run_study(
    points: list[Point], directory: Path, execute: Callable[[RunConfig], int], quiet: bool
) -> tuple[int, list[dict[str, Any]]]:
    """Run all points and write scale.csv, scale.json and scale.png; return exit code and rows.

    `execute` starts one run and returns its exit code. After a run that fails, the rows so far are
    kept and the study ends.
    """
    rows: list[dict[str, Any]] = []
    code = 0
    for number, point in enumerate(points, 1):
        if not quiet:
            text = f"scale: {number} of {len(points)}: {point.mode}, {point.graph}"
            print(f"{text}, {point.config.n} ranks", flush=True)
        code = execute(point.config)
        if code:
            break
        rows.append(row_of(point))
    if not rows:
        return code, rows
    add_efficiency(rows)
    here = cores()
    write_json(directory / "scale.json", {"cores": here, "note": CROWDED, "rows": rows})
    write_table(directory / "scale.csv", COLUMNS, rows)
    if plots.available():
        _, warning = plots.try_to_draw(lambda: draw_scale(directory / "scale.png", rows, here))
        if warning:
            print(f"mpi-gt: warning: {warning}", file=sys.stderr, flush=True)
    return code, rows


def row_of(point: Point) -> dict[str, Any]:
    """Return the row of scale.csv for a finished run, without its efficiency."""
    directory = Path(str(point.config.out))
    facts = require_facts(directory, ("ranks_per_core", "graph.degree_max"))
    profile = read_profile(directory)
    ranks_per_core = facts["ranks_per_core"]
    return {
        "mode": point.mode,
        "graph": point.graph,
        "ranks": point.config.n,
        "degree": facts["graph"]["degree_max"],
        "ranks_per_core": ranks_per_core,
        "crowded": ranks_per_core > 1,
        "batch": point.batch,
        "seconds_per_iteration": profile["seconds_per_iteration"],
        "exposed_communication": profile["exposed_communication"],
        "waiting": profile["waiting"]["mean"],
        "bytes_per_iteration": sum(profile["bytes_by_rank"]) / profile["iterations"],
    }


def add_efficiency(rows: list[dict[str, Any]]) -> None:
    """Add the efficiency, relative to the run with the fewest ranks, to each row.

    It compares times in weak scaling, and times multiplied by ranks in strong scaling; 1 is ideal.
    """
    base: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        first = base.setdefault((row["mode"], row["graph"]), row)
        ideal = first["seconds_per_iteration"]
        if row["mode"] == "strong":
            ideal *= first["ranks"] / row["ranks"]
        row["efficiency"] = ideal / row["seconds_per_iteration"]
