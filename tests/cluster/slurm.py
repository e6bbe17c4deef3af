"""A real Slurm on the four hosts: one slurmctld, one munged, one slurmd per host."""

import os
import shutil
import subprocess
import time
from pathlib import Path

from namespaces import Hosts, die_with_parent, run, wait_until
from support import temporary_files

CONFIGURATION = """\
ClusterName=mpigt
SlurmctldHost=h1
SlurmUser=root
AuthType=auth/munge
# a requeued job waits as long as a credential lasts
AuthInfo=socket={folder}/munge/socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=2,bf_interval=2
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
KillWait=5
SlurmdTimeout=15
InactiveLimit=0
JobAcctGatherType=jobacct_gather/none
NodeName=h[1-4] CPUs=4 RealMemory=2000
PartitionName=main Nodes=ALL Default=YES
"""


class Slurm:
    """Slurm's commands on h1; `close` ends jobs and daemons."""

    def __init__(self, hosts: Hosts, folder: Path, env: dict[str, str]) -> None:
        self.hosts = hosts
        self.folder = folder
        self.env = {**env, "SLURM_CONF": str(folder / "slurm.conf")}
        self._munged: subprocess.Popen | None = None
        try:
            self._configure()
            self._start_munge()
            self._start_daemons()
        except BaseException:
            self.close()
            raise

    def _configure(self) -> None:
        self.folder.chmod(0o755)
        for name in ("state", "pmix"):
            (self.folder / name).mkdir()
        (self.folder / "slurm.conf").write_text(CONFIGURATION.format(folder=self.folder))
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        (self.folder / "mpi.conf").write_text(f"PMIxCliTmpDirBase={self.folder}/pmix\n")

    def _start_munge(self) -> None:
        folder = self.folder / "munge"
        folder.mkdir(mode=0o755)
        (folder / "key").write_bytes(os.urandom(1024))
        (folder / "key").chmod(0o600)
        options = {"socket": "socket", "key-file": "key", "pid-file": "pid", "log-file": "log",
                   "seed-file": "seed"}  # fmt: skip
        words = [f"--{option}={folder / name}" for option, name in options.items()]
        # --force: the folder's parents may be writable for others, as a temporary folder's are
        self._munged = subprocess.Popen(
            ["munged", "--foreground", "--force", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=die_with_parent,
        )
        wait_until((folder / "socket").exists, 20, "munged")

    def _start_daemons(self) -> None:
        h1 = self.hosts.names[0]
        self.hosts.daemon(h1, "slurmctld", [shutil.which("slurmctld"), "-D"], self.env)
        # each slurmd has PMIx files of its own, as on separate machines
        private = f"mount -t tmpfs none {self.folder}/pmix"
        for host in self.hosts.names:
            words = [shutil.which("slurmd"), "-D", "-N", host]
            self.hosts.daemon(host, "slurmd", words, self.env, private)
        self.wait_for_nodes()

    def wait_for_nodes(self, limit: float = 60) -> None:
        def ready() -> bool:
            states = self("sinfo", "-h", "-N", "-o", "%T", check=False).stdout.split()
            return states == ["idle"] * self.hosts.count

        wait_until(ready, limit, "four idle nodes")

    def __call__(self, *words, env=None, cwd=None, check=True) -> subprocess.CompletedProcess:
        """Run a command on h1."""
        inside = [*self.hosts.inside(self.hosts.names[0]), *words]
        return run(*inside, env={**self.env, **(env or {})}, cwd=cwd, check=check, timeout=60)

    def sbatch(self, *words, cwd, env=None) -> str:
        """Submit a script and return the number of the job."""
        env = {**temporary_files(), **(env or {})}
        return self("sbatch", "--parsable", *words, cwd=cwd, env=env).stdout.strip()

    def show(self, job: str) -> dict[str, str]:
        text = self("scontrol", "-o", "show", "job", job, check=False).stdout
        return dict(word.partition("=")[::2] for word in text.split() if "=" in word)

    def wait(self, job: str, limit: float = 120) -> str:
        """Wait until the job has ended for good; return its final state."""
        ended = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")
        begin = time.monotonic()
        while (state := self.show(job).get("JobState", "")) not in ended:
            assert time.monotonic() - begin < limit, f"job {job} is {state} after {limit} s"
            time.sleep(0.3)
        return state

    def wait_for_all(self, limit: float = 120) -> None:
        """Wait until no job is queued or running."""
        wait_until(lambda: not self("squeue", "-h").stdout.strip(), limit, "an empty queue")

    def close(self) -> None:
        """Cancel all jobs and end munged. The other daemons end with their hosts."""
        if shutil.which("scancel") and (self.folder / "slurmctld.pid").exists():
            self("scancel", "--partition=main", check=False)
            time.sleep(1)
        if self._munged is not None:
            self._munged.terminate()
            self._munged.wait(10)
