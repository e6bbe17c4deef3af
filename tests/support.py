"""Helpers that start the real commands on the real MPIs, with a time limit."""

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pytest

from mpi_gt.files import SCHEMAS, kind_of
from mpi_gt.launchers.detect import LAUNCHED
from mpi_gt.launchers.programs import detect_brand

MPIS = ("openmpi", "mpich")
ROOT_OF_REPOSITORY = Path(__file__).parent.parent
WITHOUT_FIGURES = str(Path(__file__).parent / "without_figures")
FIGURES = {"PYTHONPATH": ""}
"""The environment of a run whose figures a test looks at."""

_TEMPORARY = tempfile.TemporaryDirectory(prefix="mpi-gt-tests-", ignore_cleanup_errors=True)


@dataclass(frozen=True)
class Finished:
    """The exit code and the output of a command that has ended."""

    code: int
    out: str
    err: str

    def __str__(self) -> str:
        return f"exit code {self.code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


@dataclass(frozen=True)
class Mpi:
    """One MPI with the Python environment that it belongs to."""

    name: str
    bin: Path

    @property
    def python(self) -> str:
        return str(self.bin / "python")

    def mpirun(self, n: int, *words: str) -> list[str]:
        """Return a bare mpirun command, as a user would type it on this machine."""
        flags = ["--oversubscribe", "--bind-to", "none"] if self.name == "openmpi" else []
        return [str(self.bin / "mpirun"), *flags, "-n", str(n), *words]

    def mpi_gt(self, *words: str) -> list[str]:
        return [str(self.bin / "mpi-gt"), *words]

    def mpicc(self, folder: Path) -> str:
        """Return mpicc by a path in `folder`: MPICH's fails if its own path has a space."""
        link = folder / f"{self.name}-prefix"
        if not link.exists():
            link.symlink_to(self.bin.parent)
        return str(link / "bin" / "mpicc")


def skip_or_fail(reason: str) -> NoReturn:
    """Skip the test; in CI, where scripts/test has set up what every test needs, fail it."""
    __tracebackhide__ = True  # else the report of skipped tests names this line, not the test
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def json_files(directory: Path) -> dict[str, Any]:
    """Return the content of all JSON files below a directory by name, each checked for a schema."""
    found = {}
    for path in sorted(directory.rglob("*.json")):
        content = json.loads(path.read_text())
        assert isinstance(content, dict), path
        assert content["schema"] == SCHEMAS[kind_of(path)], path
        assert next(iter(content)) == "schema", path  # for those who look at the file
        found[path.name] = content
    return found


@contextlib.contextmanager
def installing() -> Iterator[None]:
    """Wait until no other test installs packages: apt-get refuses to run twice at a time."""
    with (Path(tempfile.gettempdir()) / "mpi-gt-tests-install.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def may_install() -> bool:
    """Return whether missing tools can be installed: as root, on Debian or Ubuntu."""
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def skip_without_root(reason: str) -> NoReturn:
    """Skip a test that lacks what only root can set up; fail it in CI if this is root."""
    __tracebackhide__ = True
    if may_install():
        skip_or_fail(reason)
    pytest.skip(f"needs root on Debian or Ubuntu: {reason}")


def find_mpi(name: str) -> Mpi | None:
    folders = [Path(sys.executable).parent]
    if "MPI_GT_TEST_MPICH" in os.environ:
        folders.append(Path(os.environ["MPI_GT_TEST_MPICH"]))
    for folder in folders:
        if (folder / "mpirun").exists() and detect_brand(folder / "mpirun").name == name:
            return Mpi(name, folder)
    return None


def temporary_files() -> dict[str, str]:
    """Return the environment that gives one command a temporary folder of its own.

    Open MPI does not start if another of the same process number was killed and left its files,
    and tests kill many.
    """
    folder = tempfile.mkdtemp(dir=_TEMPORARY.name)
    return {"TMPDIR": folder, "PRTE_MCA_prte_remote_tmpdir_base": folder}


def plain_environment() -> dict[str, str]:
    """Return the environment of a terminal in which root may use mpirun."""
    env = {key: value for key, value in os.environ.items() if key not in LAUNCHED}
    for system in ("OMPI", "PRTE"):
        env[f"{system}_ALLOW_RUN_AS_ROOT"] = env[f"{system}_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    env["OMPI_MCA_btl"] = "^ofi,uct"
    env["OMPI_MCA_mpi_yield_when_idle"] = "1"
    # the same for MPICH: starting 16 ranks on two cores takes 5 s instead of 11 s
    env["MPIR_CVAR_CH4_PROGRESS_THROTTLE"] = "1"
    env["MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT"] = "64"
    env["PYTHONPATH"] = WITHOUT_FIGURES  # figures would take half the time of a short run
    return {**env, **temporary_files()}


def start(
    words: Sequence[Any], cwd: Path | None = None, env: dict[str, str] | None = None
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(word) for word in words],
        cwd=cwd,
        env={**plain_environment(), **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        preexec_fn=accept_interrupts,
    )


def accept_interrupts() -> None:
    """Restore the default of Ctrl-C, which a shell has its background jobs ignore."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def finish(process: subprocess.Popen[str], limit: float = 120) -> Finished:
    """Wait for the end and return the output; past the limit, fail and show the output so far."""
    try:
        out, err = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        pytest.fail(f"still running after {limit} s: {process.args!r}\n{Finished(-9, out, err)}")
    return Finished(process.returncode, out, err)


def wait_for(condition: Callable[[], Any], limit: float = 60) -> None:
    begin = time.monotonic()
    while not condition():
        assert time.monotonic() - begin < limit, "it never came"
        time.sleep(0.05)


def facts(directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((directory / "run.json").read_text())
    return found


def ranks_of(out: Path) -> list[int]:
    """Return the process ids of the ranks that write to `out`: Python, not its launchers."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # the process has ended since
            words = path.read_bytes().split(b"\0")
            started = b"start_rank.py" in b"".join(words[1:2]) or words[1:3] == [b"-m", b"mpi_gt"]
            if started and str(out).encode() in words:
                found.append(int(path.parent.name))
    return found
