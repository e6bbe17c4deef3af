"""Points of a sweep, run one after the other by the ranks of one launch, or stacked.

Every rank imports this module, so it imports little.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..config import RunConfig
from ..engine.run import run
from ..engine.stop import StopRequest
from ..errors import Diverged, Stopped, UserError
from ..rundir.layout import STOP_FILE
from ..rundir.remains import forget_launches
from ..rundir.run_json import mark_failed, read_facts

if TYPE_CHECKING:
    from mpi4py import MPI


@dataclass(frozen=True)
class Work:
    """The points of one launch, as root sends them to all ranks."""

    directory: Path  # of the sweep
    runs: list[RunConfig]
    titles: list[str]
    first: int  # points of the sweep that are done already
    total: int
    quiet: bool


def run_points(
    work: Work,
    comm: "MPI.Intracomm | None",
    stop: StopRequest,
    on_begin: Callable[[Path], None] | None = None,
) -> int:
    """Run all points; return 0, or the exit code of a stop on request.

    Collective: every rank calls it. A point that diverges, or whose input cannot be used, is
    recorded and does not stop the others. `on_begin` is told the directory of each.
    """
    root = comm is None or comm.rank == 0
    if root and comm is not None:
        _mark_up(work.directory)
    for number, config in enumerate(work.runs):
        path, began = Path(str(config.out)), time.monotonic()
        if on_begin:
            on_begin(path)
        if _stop_is_asked(work, comm):
            return _report_stop(work, number, "a file asked for it", root)
        try:
            result = run(config, comm, stop)
            ending = f"gap {result.facts['final']['gap']:.3e}" if root else ""
        except Diverged as error:
            ending = f"diverged: {error}"
        except UserError as error:
            ending = f"error: {error}"
            if root:
                record_failure(config, str(error), UserError.exit_code)
        except Stopped as stopped:
            return _report_stop(work, number, str(stopped), root)
        except Exception as error:
            if comm is not None:
                raise  # the other ranks are in the middle of it
            ending = f"error: {_record_crash(config, error)}"
        except KeyboardInterrupt:
            if comm is None:
                mark_failed(path, "interrupted by SIGINT", 130)
            raise
        if root and comm is not None and number > 0:
            # of this launch, under an mpirun of the user's: the last point has it as well
            forget_launches(Path(str(work.runs[number - 1].out)))
        if root and (not work.quiet or ending.startswith("error")):
            show_point(work, number, ending, time.monotonic() - began)
    return 0


def _mark_up(directory: Path) -> None:
    """Note in the sweep's run.json that the ranks have started: from now on they handle signals."""
    from ..rundir.atomic import write_json

    write_json(directory / "run.json", {**read_facts(directory), "graph": {}})


def _stop_is_asked(work: Work, comm: "MPI.Intracomm | None") -> bool:
    asked = (work.directory / STOP_FILE).exists() if comm is None or comm.rank == 0 else None
    return bool(asked if comm is None else comm.bcast(asked))


def _report_stop(work: Work, number: int, why: str, root: bool) -> int:
    if root:
        title = work.titles[number]
        print(f"mpi-gt: stopped at {title}: {why}", file=sys.stderr, flush=True)
        (work.directory / STOP_FILE).unlink(missing_ok=True)
    return Stopped.exit_code


def record_failure(config: RunConfig, error: str, exit_code: int) -> None:
    """Write the run.json of a point that could not begin."""
    from ..rundir.atomic import write_json

    path = Path(str(config.out))
    path.mkdir(parents=True, exist_ok=True)
    facts: dict[str, Any] = {"status": "failed", "error": error, "exit_code": exit_code}
    write_json(path / "run.json", {**facts, "config": asdict(config)})


def _record_crash(config: RunConfig, error: Exception) -> str:
    """Mark a stacked point as failed by an exception; return the reason in one line.

    A full disk is the end of the whole sweep.
    """
    from ..rundir.atomic import storage_failure
    from ..user_classes.failures import describe_failure

    if storage_failure(error) is not None:
        raise error
    text, trace = describe_failure(error)
    mark_failed(Path(str(config.out)), text, 1)
    if trace:
        print(trace, file=sys.stderr, flush=True)
    return text


def show_point(work: Work, number: int, ending: str, seconds: float) -> None:
    """Print one line about a point that has ended."""
    place = f"{work.first + number + 1}/{work.total}"
    line = f"{place}  {work.titles[number]}: {ending}  {seconds:.1f} s"
    print(line, file=sys.stderr, flush=True)
