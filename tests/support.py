"""Starting the real commands on the real MPIs, with a time limit and the ranks' output."""

import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from mpi_gt.launch.detect import LAUNCHED
from mpi_gt.launch.mpirun import detect_brand

MPIS = ("openmpi", "mpich")
ROOT_OF_REPOSITORY = Path(__file__).parent.parent
WITHOUT_FIGURES = str(Path(__file__).parent / "without_figures")
FIGURES = {"PYTHONPATH": ""}
"""The environment of a run whose figures a test looks at."""

_TEMPORARY = tempfile.TemporaryDirectory(prefix="mpi-gt-tests-", ignore_cleanup_errors=True)


@dataclass(frozen=True)
class Finished:
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
        """A bare mpirun, as a user would type it on this machine."""
        flags = ["--oversubscribe", "--bind-to", "none"] if self.name == "openmpi" else []
        return [str(self.bin / "mpirun"), *flags, "-n", str(n), *words]

    def mpi_gt(self, *words: str) -> list[str]:
        return [str(self.bin / "mpi-gt"), *words]


def skip_or_fail(reason: str) -> None:
    """Outside CI a test may lack what it needs; in CI everything is there."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def find_mpi(name: str) -> Mpi | None:
    folders = [Path(sys.executable).parent]
    if "MPI_GT_TEST_MPICH" in os.environ:
        folders.append(Path(os.environ["MPI_GT_TEST_MPICH"]))
    for folder in folders:
        if (folder / "mpirun").exists() and detect_brand(folder / "mpirun").name == name:
            return Mpi(name, folder)
    return None


def temporary_files() -> dict[str, str]:
    """A folder of its own for those of one command, gone when the tests are over.

    Open MPI does not start where one of the same process number was killed, and tests kill many.
    """
    folder = tempfile.mkdtemp(dir=_TEMPORARY.name)
    return {"TMPDIR": folder, "PRTE_MCA_prte_remote_tmpdir_base": folder}


def plain_environment() -> dict[str, str]:
    """As on a terminal, root being allowed to use mpirun."""
    env = {key: value for key, value in os.environ.items() if key not in LAUNCHED}
    for system in ("OMPI", "PRTE"):
        env[f"{system}_ALLOW_RUN_AS_ROOT"] = env[f"{system}_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    env["OMPI_MCA_btl"] = "^ofi,uct"
    env["OMPI_MCA_mpi_yield_when_idle"] = "1"
    env["PYTHONPATH"] = WITHOUT_FIGURES  # they would be half the time of a short run
    return {**env, **temporary_files()}


def start(words, cwd=None, env=None) -> subprocess.Popen:
    return subprocess.Popen(
        [str(word) for word in words],
        cwd=cwd,
        env={**plain_environment(), **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        preexec_fn=heed_interrupts,
    )


def heed_interrupts() -> None:
    """A shell has its background jobs ignore Ctrl-C, and so has whatever runs the tests there."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def finish(process: subprocess.Popen, limit: float = 120) -> Finished:
    """Its output; past the limit a failure that shows what the ranks have printed."""
    try:
        out, err = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        pytest.fail(f"still running after {limit} s: {process.args}\n{Finished(-9, out, err)}")
    return Finished(process.returncode, out, err)
