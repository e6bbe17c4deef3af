"""Plan of a sweep in its directory: which run directory each point has, and which are done."""

import contextlib
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ..config import RunConfig
from ..engine.identity import identity_of, require_same
from ..errors import Diverged, UserError
from ..rundir.atomic import write_json
from ..rundir.layout import POINTS, clear_inputs, remove_run, require_free
from ..rundir.run_json import is_resumable, process_facts, read_facts, require_facts
from .axes import Over
from .grid import Checker, Grid, Point, make_grid

DECISIVE = (
    "problem", "algorithm", "graph", "weights", "matchings", "iterations", "seeds", "seed", "dtype",
    "x1", "n", "stacked", "channel",
)  # fmt: skip
"""The options that decide the numbers of a run. Others, such as the exchange, count on an axis."""
LONGEST_NAME = 80


@dataclass(frozen=True)
class Plan:
    """A sweep in its directory."""

    directory: Path
    grid: Grid
    options: dict[str, Any]  # of which the grid was made
    names: list[str]  # of the points' directories

    def path(self, number: int) -> Path:
        """Return the run directory of a point."""
        return self.directory / POINTS / self.names[number]

    def is_done(self, number: int) -> bool:
        """Return whether a point has finished or diverged."""
        return read_facts(self.path(number)).get("exit_code") in (0, Diverged.exit_code)

    def pending(self) -> list[int]:
        """Return the points that have still to run."""
        return [number for number in range(len(self.names)) if not self.is_done(number)]

    def config(self, number: int) -> RunConfig:
        """Return the configuration of a point's run, which continues what an earlier one left."""
        path = self.path(number)
        resume = is_resumable(path)
        config = self.grid.points[number].config
        return replace(config, out=str(path), resume=resume, overwrite=not resume)

    def facts(self, status: str) -> dict[str, Any]:
        """Return the content of the sweep's run.json."""
        return {
            "status": status,
            "config": {**asdict(self.grid.config), "out": str(self.directory)},
            "process": process_facts(),
            "grid": {"options": self.options, "over": self.grid.over(), "points": self.names},
        }

    def write(self, status: str, **more: Any) -> None:
        """Write the sweep's run.json."""
        facts = {**self.facts(status), **more}
        if status != "running":
            del facts["process"]
        write_json(self.directory / "run.json", facts)


def make_plan(
    directory: Path, options: Mapping[str, Any], over: Over, overwrite: bool, reserved: bool
) -> Plan:
    """Return the plan of a sweep, every point of it checked. Nothing is written.

    In a directory with a sweep, points that it has are found again by their options.
    """
    grid = make_grid(options, over)
    facts = require_facts(directory)
    if "grid" not in facts or overwrite:
        may_exist = overwrite or reserved or is_empty(directory)
        require_free(directory, may_exist)
        if facts and "grid" not in facts and not overwrite:
            raise UserError(f"{directory} holds another run: give another --out, or --overwrite")
    if (directory / POINTS).is_symlink() or (directory / POINTS).is_file():
        raise UserError(f"{directory / POINTS} is in the way: {directory} cannot hold a sweep")
    swept = [name for name in ("place", "exchange", "straggler") if name in grid.over()]
    found = {} if overwrite else _found(directory, swept)
    names = _names(grid.points, found, swept)
    typed = asdict(grid.config)
    saved = {name: typed[name] for name in options if name not in ("lr", "points")}
    saved["algorithms"] = grid.config.algorithms
    plan = Plan(directory, grid, saved, names)
    _check(plan, overwrite)
    return plan


def read_plan(directory: Path) -> Plan:
    """Return the plan that the sweep in the directory has written; raise UserError without one."""
    facts = require_facts(directory, ("grid",))
    if not facts:
        raise UserError(f"{directory} holds no sweep: there is no run.json to read")
    saved = facts["grid"]
    grid = make_grid(saved["options"], saved["over"])
    if len(saved["points"]) != len(grid.points):
        raise UserError(f"{directory / 'run.json'} is damaged: its points do not fit its grid")
    return Plan(directory, grid, saved["options"], saved["points"])


def is_empty(directory: Path) -> bool:
    """Return whether a directory is there and holds nothing, or hidden files only."""
    try:
        return all(each.name.startswith(".") for each in directory.iterdir())
    except OSError:
        return False


Signature = tuple[Any, ...]


def _signature(config: Mapping[str, Any], swept: Iterable[str]) -> Signature:
    interval = config.get("log_every") or -(-int(config.get("iterations") or 0) // 200)
    # as text: in a damaged run.json there may be a list
    return (interval, *(repr(config.get(name)) for name in (*DECISIVE, *swept)))


def _found(directory: Path, swept: Iterable[str]) -> dict[Signature, str]:
    """Return the names of the points that are there, by what decides their numbers."""
    found = {}
    folder = directory / POINTS
    for path in sorted(folder.iterdir()) if folder.is_dir() else []:
        facts = require_facts(path) if path.is_dir() else {}
        if "config" in facts:
            found[_signature(facts["config"], swept)] = path.name
    return found


def _names(
    points: Iterable[Point], found: Mapping[Signature, str], swept: Iterable[str]
) -> list[str]:
    """Return a directory for each point: its own, or a new one with a free number."""
    taken = {match[0] for name in found.values() if (match := re.match(r"\d+", name))}
    names = []
    for number, point in enumerate(points, 1):
        name = found.get(_signature(asdict(point.config), swept))
        if name is None:
            free = f"{number:04d}"
            while free in taken:
                free = f"{int(free) + 1:04d}"
            taken.add(free)
            name = f"{free}-{_slug(point)}"
        names.append(name)
    return names


def _slug(point: Point) -> str:
    words = [point.method, *(f"{key}-{value}" for key, value in point.values.items())]
    text = "-".join(words)
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "-" for c in text)
    return plain[:LONGEST_NAME].rstrip("-.")


def _check(plan: Plan, overwrite: bool) -> None:
    """Raise UserError for a point that cannot run, or that ran with other files or graphs."""
    checker = Checker()
    for number, point in enumerate(plan.grid.points):
        if point.config.n is None:
            raise UserError(
                "how many nodes? Type `mpi-gt sweep -n 16 ...`, or --over n=8,16, or "
                "`mpirun -n 16 mpi-gt sweep ...`"
            )
        if overwrite or "identity" not in read_facts(plan.path(number)):
            checker.check(point)
            continue
        config = plan.config(number)
        network = checker.network(config).digest()
        require_same(config, identity_of(config, network, config.entries()))


def begin(plan: Plan, overwrite: bool) -> None:
    """Make the directory of a sweep, which is claimed; remove earlier points to overwrite."""
    folder = plan.directory / POINTS
    if overwrite:
        remove_run(plan.directory)
        used = {text for point in plan.grid.points for text in asdict(point.config).values()}
        clear_inputs(plan.directory, used)
        remove_results(plan.directory)
        for path in folder.iterdir() if folder.is_dir() else []:
            if path.is_dir() and not path.is_symlink() and (path / "run.json").exists():
                remove_run(path)
                with contextlib.suppress(OSError):  # it holds files that are not a run's
                    path.rmdir()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot write to {folder}: {error.strerror}") from None
    plan.write("running")


def remove_results(directory: Path) -> None:
    """Remove the table and the figures of an earlier sweep."""
    for path in (directory / "sweep.csv", *directory.glob("sweep*.png")):
        path.unlink(missing_ok=True)


def give_up(directory: Path, existed: bool) -> None:
    """Leave no directory behind for a sweep that never began."""
    if not existed and not any((directory / POINTS).glob("*")):
        for name in (POINTS, "run.json"):
            with contextlib.suppress(OSError):
                shutil.rmtree(directory / name) if name == POINTS else os.unlink(directory / name)  # noqa: PTH108
        with contextlib.suppress(OSError):
            directory.rmdir()
