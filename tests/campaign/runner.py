"""Carry out cases, several at a time, each in a process and a folder of its own."""

import contextlib
import io
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
import time
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from campaign import reading
from campaign.case import COMMAND, INSIDE, MPIRUN, Case
from campaign.files import make

from mpi_gt.launchers.programs import detect_brand, find_mpirun

PREFIX = "mpi-gt: error: "
MEMORY = 4 << 30
"""Address space of a forked case: an array that is far too large must not fill the machine."""
HANG, TRACEBACK, CODE, MESSAGE, FILES = (
    "hangs", "tracebacks", "wrong codes", "wrong messages", "files left"
)  # fmt: skip
FAULTS = (HANG, TRACEBACK, CODE, MESSAGE, FILES)


@dataclass
class Outcome:
    """The end of a case: what was wrong with it, and its output."""

    case: Case
    code: int | None
    out: str
    err: str
    left: list[str]
    seconds: float
    faults: list[str] = field(default_factory=list)

    def judge(self) -> None:
        """Set the faults."""
        if self.code is None:
            self.faults.append(HANG)
        if "Traceback (most recent call last)" in self.err + self.out:
            self.faults.append(TRACEBACK)
        if self.code is not None and self.code not in self.case.codes:
            self.faults.append(CODE)
        if self.code == 2 and not self._has_one_message():
            self.faults.append(MESSAGE)
        if self.left and self.code != 0:
            self.faults.append(FILES)

    def _has_one_message(self) -> bool:
        """Return whether standard error is one line, our message, in characters that print.

        A launcher of the user's own adds lines about the exit code, and an experiment of
        `reproduce` shows its progress.
        """
        lines = self.err.removesuffix("\n").split("\n")
        if self.case.words[:1] == ("reproduce",):
            lines = [line for line in lines if not line.startswith("huber: ")]
        if self.case.how == MPIRUN:
            return sum(line.startswith(PREFIX) for line in lines) == 1
        return len(lines) == 1 and lines[0].startswith(PREFIX) and lines[0].isprintable()


@dataclass
class _Running:
    case: Case
    pid: int
    folder: Path
    before: dict[str, str]
    began: float


class Runner:
    """The cases in progress; `bases` holds the prepared directories, `folder` everything else."""

    def __init__(self, folder: Path, bases: Path, limit: float, jobs: int) -> None:
        self._folder, self._bases, self._limit, self._jobs = folder, bases, limit, jobs
        self._running: list[_Running] = []

    def run(self, cases: Iterable[Case]) -> Iterator[Outcome]:
        """Yield the outcomes as they come."""
        for case in cases:
            while len(self._running) >= self._jobs:
                yield from self._collect()
            self._running.append(self._start(case))
        while self._running:
            yield from self._collect()

    def _start(self, case: Case) -> _Running:
        folder = self._folder / case.name
        for name in ("work", "tmp", "cache", "home"):
            (folder / name).mkdir(parents=True)
        make(case.needs, self._bases, folder / "work")
        before = listing(folder)
        began = time.monotonic()
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            with contextlib.suppress(BaseException):
                _become(case, folder)
            os._exit(70)
        return _Running(case, pid, folder, before, began)

    def _collect(self) -> Iterator[Outcome]:
        """Yield the outcomes of the cases that have ended or take too long."""
        for one in list(self._running):
            pid, status = os.waitpid(one.pid, os.WNOHANG)
            seconds = time.monotonic() - one.began
            limit = self._limit * (1 if one.case.how == INSIDE else 2)
            if pid == 0 and seconds < limit:
                continue
            with contextlib.suppress(ProcessLookupError):
                os.killpg(one.pid, signal.SIGKILL)  # also what it has left behind
            if pid == 0:
                os.waitpid(one.pid, 0)
            self._running.remove(one)
            code = os.waitstatus_to_exitcode(status) if pid else None
            yield self._finish(one, code, seconds)
        time.sleep(0.002)

    def _finish(self, one: _Running, code: int | None, seconds: float) -> Outcome:
        out, err = (
            (one.folder / name).read_bytes().decode(errors="replace") for name in ("out", "err")
        )
        after = listing(one.folder)
        left = [f"new: {name}" for name in after if name not in one.before]
        left += [f"lost: {name}" for name in one.before if after.get(name) != one.before[name]]
        shutil.rmtree(one.folder, ignore_errors=True)
        outcome = Outcome(one.case, code, out, err, left, seconds)
        outcome.judge()
        return outcome


def listing(folder: Path) -> dict[str, str]:
    """Return each file below the folder with its kind and content, but not the streams."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if name in ("out", "err"):
            continue
        mode = path.lstat().st_mode
        found[name] = f"{mode} {path.read_bytes().hex() if stat.S_ISREG(mode) else ''}"
    return found


def _become(case: Case, folder: Path) -> None:
    """Turn this forked process into the command of the case."""
    os.setsid()
    os.chdir(folder / "work")
    new = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    for number, path, mode in (
        (0, "/dev/null", os.O_RDONLY),
        (1, folder / "out", new),
        (2, folder / "err", new),
    ):
        os.dup2(os.open(path, mode, 0o644), number)
    os.environ |= {
        "TMPDIR": str(folder / "tmp"),
        "PRTE_MCA_prte_remote_tmpdir_base": str(folder / "tmp"),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "HOME": str(folder / "home"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    if case.how == INSIDE:
        os._exit(_call_main(case))
    words = [str(Path(sys.executable).with_name("mpi-gt")), *case.words]
    if case.how == MPIRUN:
        program = find_mpirun()
        flags = ["--oversubscribe", "--bind-to", "none"]
        openmpi = detect_brand(program).name == "openmpi"
        words = [str(program), *(flags if openmpi else []), "-n", "2", *words]
    os.execv(words[0], words)


def _call_main(case: Case) -> int:
    """Call `main` with the words of the case, and return what its process would exit with."""
    from mpi_gt import plots
    from mpi_gt.cli.main import main

    if not any(word.startswith("--plot") for word in case.words):
        plots.available = lambda: False  # figures take longer than all else
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    sys.dont_write_bytecode = True
    sys.argv = ["mpi-gt", *case.words]
    sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), write_through=True)
    sys.stderr = io.TextIOWrapper(
        io.FileIO(2, "w", closefd=False), errors="backslashreplace", write_through=True
    )
    try:
        code: object = main(list(case.words))
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
        code = 1
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
        return 1
    return int(code or 0)


def prepare(folder: Path) -> None:
    """Make the directories that cases damage: a run, a profile on ranks, and a bench."""
    folder.mkdir()
    without_figures = str(Path(__file__).parent.parent / "without_figures")
    paths = [without_figures, *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    program = str(Path(sys.executable).with_name("mpi-gt"))
    commands = (
        "run --stacked -n 4 --iterations 40 --checkpoint-every 20 --out run",
        "profile -n 2 --iterations 40 --out profile",
        "bench -n 2 --seconds 0.001 --sizes 160,1600 --exchanges neighbor,p2p --out bench",
        " ".join(reading.SWEEP),
        " ".join(reading.STUDY),
    )
    for line in commands:
        done = subprocess.run(
            [program, *line.split(), "--quiet"],
            cwd=folder,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"campaign: cannot prepare: mpi-gt {line}\n{done.stderr}")


def warm_up() -> None:
    """Import once what the forked cases would import over and over."""
    import importlib
    import pkgutil

    import networkx  # noqa: F401

    import mpi_gt

    for module in pkgutil.walk_packages(mpi_gt.__path__, "mpi_gt."):
        if module.name not in NOT_WARM and not module.name.startswith("mpi_gt.comm."):
            importlib.import_module(module.name)


NOT_WARM = ("mpi_gt.__main__", "mpi_gt.performance.clock_sync", "mpi_gt.kernels.build")
"""Modules that import MPI, which must not be loaded before a fork, or setuptools."""
__all__ = ["COMMAND", "FAULTS", "Outcome", "Runner", "prepare", "warm_up"]
