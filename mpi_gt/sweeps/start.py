"""Start of a sweep: one launch of mpirun per number of ranks, or all points in this process."""

import signal
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..engine.stop import StopRequest
from ..errors import STUCK_EXIT_CODE, UserError
from ..files import require_name
from ..launchers import mpirun
from ..launchers.options import NO_OPTIONS, LaunchOptions
from ..rundir.layout import release_reserved, reserve
from ..rundir.lock import TOKEN, claim
from ..rundir.run_json import mark_failed, read_facts
from .axes import Over
from .grid import make_grid, shown
from .outcome import finish
from .plan import Plan, begin, give_up, make_plan
from .ranks import Work, run_points

VAIN = 3  # launches in a row without a finished point, after which a sweep ends
RETRIED = (1, STUCK_EXIT_CODE)  # exit codes of a launch in which one point went wrong


def run_sweep(
    options: Mapping[str, Any],
    over: Over,
    own: Mapping[str, Any],
    for_launcher: LaunchOptions = NO_OPTIONS,
) -> tuple[int, Plan]:
    """Run a sweep in the directory that `own` names, or in a new one; see `start_sweep`.

    `own` are the options of the sweep itself: out, reserved (made just now), overwrite, resume and
    quiet.
    """
    directory, reserved = choose_directory(options, over, own)
    overwrite, quiet = bool(own.get("overwrite")), bool(own.get("quiet"))
    try:
        return start_sweep(directory, options, over, overwrite, reserved, quiet, for_launcher)
    finally:
        release(directory, reserved)


def choose_directory(
    options: Mapping[str, Any], over: Over, own: Mapping[str, Any]
) -> tuple[Path, bool]:
    """Return the directory of a sweep, and whether it was made for it just now."""
    out = own.get("out")
    if own.get("overwrite") and own.get("resume"):
        raise UserError("--resume takes no --overwrite")
    if out is not None:
        if not str(out):
            raise UserError("--out needs the name of a directory")
        require_name(str(out))
        return Path(out), bool(own.get("reserved"))
    if own.get("overwrite") or own.get("resume"):
        raise UserError("--overwrite and --resume need --out, the directory of a sweep")
    problem = make_grid(options, over).points[0].config.parse_problem()[0]
    return reserve(f"{problem}-sweep"), True


def release(directory: Path, reserved: bool) -> None:
    """Remove the directory that was made for a sweep, if nothing was written to it."""
    if reserved:
        release_reserved(directory)


def start_sweep(
    directory: Path,
    options: Mapping[str, Any],
    over: Over,
    overwrite: bool = False,
    reserved: bool = False,
    quiet: bool = False,
    for_launcher: LaunchOptions = NO_OPTIONS,
) -> tuple[int, Plan]:
    """Run all points of a sweep that are not done; return the exit code and the plan.

    Raise UserError, before anything is written or started, where one of the points cannot run.
    """
    plan = make_plan(directory, options, over, overwrite, reserved)
    stacked = plan.grid.config.stacked
    if stacked and for_launcher.flag:
        raise UserError(f"--stacked is one process: it takes no {for_launcher.flag}")
    existed = directory.exists() and not reserved
    with claim(directory) as held:
        begin(plan, overwrite)
        try:
            if stacked:
                code = _run_stacked(plan, quiet)
            else:
                code = _launch_all(plan, held.token, for_launcher, quiet)
        except KeyboardInterrupt:
            mark_failed(directory, "interrupted by SIGINT", 128 + signal.SIGINT)
            raise
        except UserError:
            give_up(directory, existed)
            raise
        except BaseException as error:
            mark_failed(directory, str(error) or type(error).__name__, 1)
            raise
        if code == UserError.exit_code and not any(map(plan.is_done, range(len(plan.names)))):
            give_up(directory, existed)
            return code, plan
        return finish(plan, code, quiet), plan


def work_for(plan: Plan, numbers: Sequence[int], quiet: bool) -> Work:
    """Return these points for the ranks of one launch."""
    points = plan.grid.points
    left = len(plan.pending())
    return Work(
        plan.directory,
        [plan.config(number) for number in numbers],
        [shown(points[number]) for number in numbers],
        len(plan.names) - left,
        len(plan.names),
        quiet,
    )


def numbers_for(plan: Plan, ranks: int) -> list[int]:
    """Return the points that a launch with that many ranks is to run."""
    skipped = read_facts(plan.directory).get("skip", [])
    return [
        number
        for number in plan.pending()
        if plan.grid.points[number].config.n == ranks and plan.names[number] not in skipped
    ]


def _launch_all(plan: Plan, token: str, for_launcher: LaunchOptions, quiet: bool) -> int:
    """Run the pending points, all with the same number of ranks in one launch."""
    counts = sorted({plan.grid.points[number].config.n or 0 for number in plan.pending()})
    skipped: list[str] = []
    for ranks in counts:
        vain = 0
        while True:
            plan.write("running", skip=skipped)
            numbers = numbers_for(plan, ranks)
            if not numbers:
                break
            code = _launch(plan, ranks, token, for_launcher, quiet)
            _end_dead(plan, numbers)
            failed = [number for number in numbers if _has_failed(plan, number)]
            skipped += [plan.names[number] for number in failed]
            if code == 0:
                break
            done = sum(map(plan.is_done, numbers))
            vain = 0 if done else vain + 1
            if code not in RETRIED or not failed or vain == VAIN:
                return code
    return 0


def _launch(plan: Plan, ranks: int, token: str, for_launcher: LaunchOptions, quiet: bool) -> int:
    words = ["sweep", "--plan", str(plan.directory), *(["--quiet"] if quiet else [])]
    return mpirun.launch(words, ranks, plan.directory, None, for_launcher, {TOKEN: token})


def _end_dead(plan: Plan, numbers: Sequence[int]) -> None:
    """Mark the point as failed whose ranks were killed before they could say so."""
    why = read_facts(plan.directory).get("error") or "its ranks ended without an error message"
    for number in numbers:
        mark_failed(plan.path(number), why, 1)


def _has_failed(plan: Plan, number: int) -> bool:
    facts = read_facts(plan.path(number))
    return facts.get("status") == "failed" and not plan.is_done(number)


def _run_stacked(plan: Plan, quiet: bool) -> int:
    """Run the pending points in this process; signals ask for an orderly stop."""
    stop = StopRequest()
    if threading.current_thread() is not threading.main_thread():  # it gets no signals
        return run_points(work_for(plan, plan.pending(), quiet), None, stop)
    caught = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
    previous = {number: signal.getsignal(number) for number in caught}
    stop.listen(*(number for number in caught if previous[number] != signal.SIG_IGN))
    try:
        return run_points(work_for(plan, plan.pending(), quiet), None, stop)
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
