"""mpirun for `mpi-gt run -n N`: found, given the flags it needs, and run as a child process."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..display.console import TERMINAL, on_terminal
from ..errors import STUCK_EXIT_CODE, UserError
from ..machine import INSTALL, home_folder, hosts_allotted
from ..rundir.run_json import mark_failed, read_facts, resume_hint
from ..rundir.watchdog_reports import WATCH, read_reports
from .brands import Brand, brand_of_version
from .build_id import BUILD, build_id
from .detect import OUTCOME, without_step
from .folders import LaunchFolders
from .hostfile import Hosts, read_hostfile
from .process import MpirunResult, run_mpirun
from .spaces import quoting_agent

RANK_COMMAND = (sys.executable, str(Path(__file__).parents[1] / "cli" / "start_rank.py"))
"""The words of mpirun that start a rank, before the arguments of mpi-gt."""


class MpirunOptions(NamedTuple):
    """The options of a command that are for mpirun, not for the run."""

    hostfile: str | None = None
    words: tuple[str, ...] = ()  # more options, as mpirun spells them

    @classmethod
    def of(cls, options: "dict[str, Any]") -> "MpirunOptions":
        """Take --hostfile and --mpirun-args out of the options of a command."""
        hostfile, text = options.pop("hostfile", None), options.pop("mpirun_args", "")
        try:
            return cls(hostfile, tuple(shlex.split(text)))
        except ValueError as error:
            raise UserError(f"--mpirun-args: {error} in '{text}'") from None

    @property
    def flag(self) -> str | None:
        """The option that was given; None without one."""
        if self.hostfile is not None:
            return "--hostfile"
        return "--mpirun-args" if self.words else None


NO_OPTIONS = MpirunOptions()


def find_mpirun() -> Path:
    """Return the mpirun of this Python environment, else the first on the PATH."""
    here = Path(sys.executable).parent
    for folder in (str(here), None):
        for name in ("mpirun", "mpiexec"):
            program = shutil.which(name, path=folder)
            if program:
                return Path(program)
    raise UserError(f"no mpirun was found; {INSTALL}")


def detect_brand(mpirun: Path) -> Brand:
    """Return the MPI that this mpirun belongs to, from the output of `mpirun --version`."""
    words, env = [str(mpirun), "--version"], {**os.environ, "PATH": path_with(mpirun)}
    try:
        answer = subprocess.run(
            words, capture_output=True, text=True, timeout=60, check=False, env=env
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(f"{mpirun} does not work: {error}; {INSTALL}") from None
    return brand_of_version(answer.stdout + answer.stderr)


def path_with(mpirun: Path) -> str:
    """Return the PATH with the folder of this mpirun first, where its other programs are."""
    return os.pathsep.join(filter(None, (str(mpirun.parent), os.environ.get("PATH"))))


def mpirun_command(
    mpirun: Path, brand: Brand, n: int, hosts: Hosts | None, env: Mapping[str, str]
) -> list[str]:
    """Return mpirun with the flags that n ranks need, on these hosts or on this machine."""
    flags = brand.local_flags(n) if hosts is None else hosts.flags(brand, n, env)
    return [str(brand.program(mpirun)), "-n", str(n), *flags]


def mpirun_environment(brand: Brand, n: int, hosts: Hosts | None) -> dict[str, str]:
    """Return the environment of mpirun; whatever the user has set stays as it is."""
    own = without_step(os.environ)
    allotted = hosts_allotted(own) if hosts is None else len(hosts.slots)
    ranks_per_host = -(-n // allotted) if hosts is None else hosts.most(n)
    extra = {"HOME": home_folder()}  # Open MPI does not start without
    if allotted > 1:
        extra["MPI_GT_HOSTS"] = str(allotted)
    return {**extra, **brand.settings(ranks_per_host), **own}


def launch(
    arguments: Sequence[str],
    n: int,
    out: Path | None,
    on_tick: Callable[[], None] | None = None,
    options: MpirunOptions = NO_OPTIONS,
    extra: Mapping[str, str] | None = None,
) -> int:
    """Run `mpi-gt ARGUMENTS` on n ranks and return the exit code of the run, not mpirun's.

    If the run did not end in an orderly way, run.json is marked as failed. `on_tick` is called
    twice per second in the meantime; `extra` is added to the environment of the ranks.
    """
    _require_temporary_folder()
    mpirun = find_mpirun()
    brand = detect_brand(mpirun)
    hostfile = options.hostfile
    hosts = None if hostfile is None else read_hostfile(Path(hostfile), brand)
    env = {**mpirun_environment(brand, n, hosts), **(extra or {})}
    if brand.searches_path:
        env["PATH"] = path_with(mpirun)
    if on_terminal():
        env[TERMINAL] = str(shutil.get_terminal_size().columns)
    with (
        LaunchFolders(out, _outcome_folder(out, env)) as folders,
        quoting_agent(mpirun, brand if hosts else None, env) as agent,
    ):
        env.update({**agent, **folders.variables(), **brand.session(folders.temporary, env)})
        outcome = folders.outcome / "outcome"
        env[OUTCOME] = str(outcome)
        limit = 0 if out is None else int(read_facts(out).get("config", {}).get("watchdog", 0))
        env[WATCH] = f"{limit} {out.absolute()}" if out is not None else ""
        env[BUILD] = build_id()
        with_slots = hosts and hosts.with_slots(brand, folders.outcome)
        launcher = mpirun_command(mpirun, brand, n, with_slots, env)
        words = [*launcher, *options.words, *RANK_COMMAND, *arguments]
        ended = run_mpirun(words, env, out, on_tick, limit, [folders.lock])
        if outcome.exists():
            if ended.stuck:
                print(f"mpi-gt: warning: {ended.stuck}", file=sys.stderr)
            return int(outcome.read_text())
    if (recorded := _recorded_exit_code(out)) is not None:
        return recorded
    return _report_failure(ended, out)


def _report_failure(ended: MpirunResult, out: Path | None) -> int:
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
        why, code = f"mpirun ended with exit code {ended.exit_code}", 1
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


def _outcome_folder(out: Path | None, env: Mapping[str, str]) -> Path | None:
    """Return the folder in which root can write its exit code; None: the system's temporary one.

    With several hosts root may be on another one, so the folder is beside the run directory, on a
    disk that all hosts share.
    """
    if hosts_allotted(env) == 1:
        return None
    folder = (out or Path("doctor")).absolute().parent
    while not folder.is_dir():
        folder = folder.parent
    return folder if os.access(folder, os.W_OK) else None
