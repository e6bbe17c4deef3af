"""Ranks for `mpi-gt run -n N`: a launcher gets the flags that it needs and runs as a child."""

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ..display.console import TERMINAL, on_terminal
from ..errors import STUCK_EXIT_CODE, UserError
from ..machine import home_folder, hosts_allotted
from ..rundir.run_json import mark_failed, read_facts, resume_hint
from ..rundir.watchdog_reports import WATCH, read_reports
from .brands import Brand, Wanted
from .build_id import BUILD, build_id
from .detect import OUTCOME, without_step
from .folders import LaunchFolders
from .hostfile import Hosts, read_hostfile
from .options import NO_OPTIONS, LaunchOptions
from .process import LauncherResult, run_launcher
from .programs import find_launcher, path_with
from .spaces import quoting_agent

RANK_COMMAND = (sys.executable, str(Path(__file__).parents[1] / "cli" / "start_rank.py"))
"""The words of mpirun that start a rank, before the arguments of mpi-gt."""


def launcher_environment(
    brand: Brand, n: int, hosts: Hosts | None, options: LaunchOptions = NO_OPTIONS
) -> dict[str, str]:
    """Return the environment of the launcher; whatever the user has set stays as it is."""
    own = {**without_step(os.environ), **options.assigned()}
    extra = {"HOME": home_folder()}  # Open MPI does not start without
    allotted = hosts_allotted(own) if hosts is None else len(hosts.slots)
    if allotted > 1:
        extra["MPI_GT_HOSTS"] = str(allotted)
    return {**extra, **brand.settings(_ranks_per_host(n, hosts, own)), **own}


def launcher_command(
    program: Path,
    brand: Brand,
    n: int,
    hosts: Hosts | None,
    env: Mapping[str, str],
    options: LaunchOptions = NO_OPTIONS,
) -> list[str]:
    """Return the launcher with the flags that n ranks need, and the user's own."""
    sent = options.sent(env)
    wanted = Wanted(
        n,
        _ranks_per_host(n, hosts, env),
        hosts.slots if hosts else None,
        hosts.path if hosts else None,
        sent if hosts or hosts_allotted(env) > 1 or options.names_hosts else (),
        options.words,
    )
    return [str(brand.program(program)), "-n", str(n), *brand.flags(wanted), *options.words]


def _ranks_per_host(n: int, hosts: Hosts | None, env: Mapping[str, str]) -> int:
    return -(-n // hosts_allotted(env)) if hosts is None else hosts.most(n)


def launch(
    arguments: Sequence[str],
    n: int,
    out: Path | None,
    on_tick: Callable[[], None] | None = None,
    options: LaunchOptions = NO_OPTIONS,
    extra: Mapping[str, str] | None = None,
    beside: Path | None = None,
) -> int:
    """Run `mpi-gt ARGUMENTS` on n ranks and return the exit code of the run, not the launcher's.

    If the run did not end in an orderly way, run.json is marked as failed. `on_tick` is called
    twice per second in the meantime; `extra` is added to the environment of the ranks. `beside` is
    a path on the disk that all hosts share, where there is no run directory `out`.
    """
    _require_temporary_folder()
    program, brand = find_launcher(options.launcher)
    hostfile = options.hostfile
    hosts = (
        None if hostfile is None else read_hostfile(Path(hostfile).absolute(), brand.reads_hosts_of)
    )
    env = {**launcher_environment(brand, n, hosts, options), **(extra or {})}
    options.sent(env)  # raises for a variable that is not set
    # srun may wait for an allocation, of whatever hosts
    several = hosts_allotted(env) > 1 or brand.name == "srun" or options.names_hosts
    if brand.searches_path:
        env["PATH"] = path_with(program)
    if on_terminal():
        env[TERMINAL] = str(shutil.get_terminal_size().columns)
    shared = _shared_folder(out or beside or Path("doctor")) if several else None
    with (
        LaunchFolders(out, shared) as folders,
        quoting_agent(program, brand if hosts or options.names_hosts else None, env) as agent,
    ):
        env.update({**agent, **folders.variables(), **brand.session(folders.temporary, env)})
        outcome = folders.outcome / "outcome"
        env[OUTCOME] = str(outcome)
        limit = 0 if out is None else int(read_facts(out).get("config", {}).get("watchdog", 0))
        env[WATCH] = f"{limit} {out.absolute()}" if out is not None else ""
        env[BUILD] = build_id()
        settled = hosts and hosts.settled(brand, n, folders.outcome)
        if settled is not None:
            env.update(brand.variables(settled.path))
        launcher = launcher_command(program, brand, n, settled, env, options)
        words = [*launcher, *RANK_COMMAND, *arguments]
        ended = run_launcher(words, env, out, on_tick, limit, [folders.lock], brand.end_signal)
        if outcome.exists():
            if ended.stuck:
                print(f"mpi-gt: warning: {ended.stuck}", file=sys.stderr)
            return int(outcome.read_text())
    if (recorded := _recorded_exit_code(out)) is not None:
        return recorded
    return _report_failure(ended, out, program.name)


def _report_failure(ended: LauncherResult, out: Path | None, launcher: str) -> int:
    """Print why a run did not end in an orderly way; return the exit code."""
    reports = read_reports(out)
    if reports:
        why, code = reports[0]["text"], STUCK_EXIT_CODE
    elif ended.stuck:
        why, code = ended.stuck, STUCK_EXIT_CODE
    elif ended.report:
        why, code = ended.report, 1
    elif ended.signals:
        number = ended.signals[0]
        why, code = f"interrupted by {signal.Signals(number).name}", 128 + number
    else:  # 1, for mpirun's own exit code may be 2 or 3, which have a meaning here
        why, code = f"{launcher} ended with exit code {ended.exit_code}", 1
    if out is None:
        print(f"mpi-gt: error: {why}", file=sys.stderr)
        return code
    mark_failed(out, why, code)
    if ended.report:
        from ..rundir.status import kept_results

        why += kept_results(out)
    else:  # if a rank recorded the reason, that one is more precise
        facts = read_facts(out)
        why = facts.get("error", why) if facts.get("status") == "failed" else why
    print(f"mpi-gt: error: the run did not finish: {why}{resume_hint(out)}", file=sys.stderr)
    return code


def _require_temporary_folder() -> None:
    """Raise UserError if mpirun could not write temporary files: its own message is a riddle."""
    given = os.environ.get("TMPDIR")
    if given and not (Path(given).is_dir() and os.access(given, os.W_OK | os.X_OK)):
        raise UserError(
            f"TMPDIR is {given}, where no file can be written: set it to another folder"
        )
    try:
        tempfile.gettempdir()
    except OSError:
        raise UserError("no folder for temporary files can be written to: set TMPDIR") from None


def _recorded_exit_code(out: Path | None) -> int | None:
    """Return the exit code in run.json if the run ended in an orderly way, else None.

    This is for a root on another host, which cannot write the outcome file.
    """
    facts = {} if out is None else read_facts(out)
    orderly = facts.get("status") in ("finished", "stopped") or facts.get("exit_code") == 3
    return int(facts["exit_code"]) if orderly and facts.get("status") != "running" else None


def _shared_folder(beside: Path) -> Path | None:
    """Return the folder in which root can write its exit code; None: the system's temporary one.

    With several hosts root may be on another one, so the folder is beside the run directory, on a
    disk that all hosts share.
    """
    folder = beside.absolute().parent
    while not folder.is_dir():
        folder = folder.parent
    return folder if os.access(folder, os.W_OK) else None
