"""Four hosts and a Slurm on them, made once for all tests and removed afterwards in any case.

They need root on Linux; on Debian and Ubuntu, missing packages are installed.
"""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import namespaces
import pytest
import slurm as slurm_module
from common import HOSTS, RANKS
from support import (
    Finished,
    installing,
    may_install,
    plain_environment,
    skip_or_fail,
    skip_without_root,
    start,
)
from support import finish as finish_here

HOST_TOOLS = {"ip": "iproute2", "tc": "iproute2", "sshd": "openssh-server", "ssh": "openssh-client"}
SLURM_TOOLS = {"slurmctld": "slurmctld", "slurmd": "slurmd", "sbatch": "slurm-client",
               "munged": "munge"}  # fmt: skip


@pytest.fixture(scope="session", autouse=True)
def _terminated_is_interrupted():
    """Turn SIGTERM into an exception, so that the fixtures clean up."""
    previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
    yield
    signal.signal(signal.SIGTERM, previous)


def require(tools: dict[str, str], extra: tuple[str, ...] = ()) -> None:
    """Install the packages of the tools that are missing."""
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    if os.geteuid() != 0:
        skip_without_root("it makes hosts of network namespaces, with sshd and Slurm on them")
    packages = {package for tool, package in tools.items() if shutil.which(tool) is None} | {
        package
        for package in extra
        if not list(Path("/var/lib/dpkg/info").glob(f"{package}*.list"))
    }
    if packages:
        if not may_install():
            skip_without_root(f"it installs {', '.join(sorted(packages))}")
        with installing():
            install(sorted(packages))


def install(packages: list[str]) -> None:
    """Install packages without starting their services: the tests start their own."""
    policy = Path("/usr/sbin/policy-rc.d")
    ours = not policy.exists()
    if ours:
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)
    try:
        for words in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
            done = subprocess.run(
                ["apt-get", "-qq", *words],
                env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
            if done.returncode:
                skip_or_fail(f"apt-get {words[0]} did not work: {done.stderr}")
    finally:
        if ours:
            policy.unlink()


@pytest.fixture(scope="session")
def hosts(tmp_path_factory):
    require(HOST_TOOLS)
    if namespaces.run("unshare", "--net", "--uts", "true", check=False).returncode:
        skip_without_root("it makes network namespaces, which this machine does not allow")
    made = namespaces.Hosts(tmp_path_factory.mktemp("hosts"))
    yield made
    made.close()


@pytest.fixture(scope="session")
def slurm(hosts, tmp_path_factory):
    require(SLURM_TOOLS, extra=("libpmix2",))
    for library in Path("/usr/lib").glob("*/pmix2/lib/libpmix.so.2"):
        if not library.with_suffix("").exists():  # the name that Slurm's plugin opens
            library.with_suffix("").symlink_to(library.name)
    made = slurm_module.Slurm(hosts, tmp_path_factory.mktemp("slurm"), plain_environment())
    yield made
    made.close()


@pytest.fixture(scope="session")
def reference(openmpi, tmp_path_factory):
    """A function that returns an undisturbed run on this machine, made once per set of options."""
    made: dict[tuple, Path] = {}

    def run(*options) -> Path:
        if options not in made:
            made[options] = tmp_path_factory.mktemp("reference") / "run"
            words = openmpi.mpi_gt("run", "-n", RANKS, *options, "--out", made[options])
            done = finish_here(start(words))
            assert done.code == 0, str(done)
        return made[options]

    return run


@pytest.fixture
def on_h1(hosts):
    """A function that starts a command of an MPI on the first host."""

    def go(mpi, *words, cwd=None, env=None):
        settings = {**hosts.environment(mpi.name), **hosts.ssh_environment(mpi.name)}
        return start([*hosts.inside("h1"), *words], cwd, {**settings, **(env or {})})

    return go


@pytest.fixture
def finish(hosts):
    """A function that waits for a command; past the limit, it fails and lists the processes."""

    def finish(process, limit: float = 120) -> Finished:
        try:
            out, err = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            left = hosts.list_processes()
            hosts.end_processes()
            out, err = process.communicate(timeout=20)
            shown = Finished(-9, out, err)
            pytest.fail(f"still running after {limit} s: {process.args}\n{shown}\n{left}")
        return Finished(process.returncode, out, err)

    return finish


@pytest.fixture
def hostfile(mpi, call, tmp_path):
    path = tmp_path / "hosts"
    call(mpi.mpi_gt("hostfile", "--hosts", HOSTS, "--mpi", mpi.name, "--out", path))
    return path
