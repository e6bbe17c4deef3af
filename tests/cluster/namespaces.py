"""Four hosts on one machine: network namespaces, each with a host name, address and sshd."""

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

PREFIX = "mpigt"
CONFIGURATION = Path("/etc/netns")  # `ip netns exec` mounts these files over those of /etc


def run(*words, check=True, **options) -> subprocess.CompletedProcess:
    done = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, check=False, **options
    )
    assert not check or done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"
    return done


def die_with_parent() -> None:
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)


def wait_until(condition, limit: float, what: str) -> None:
    begin = time.monotonic()
    while not condition():
        assert time.monotonic() - begin < limit, f"it never came: {what}"
        time.sleep(0.05)


class Hosts:
    """h1 to h4, joined by a bridge in a namespace of its own. `close` leaves nothing behind."""

    count = 4

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names = [f"h{i}" for i in range(1, self.count + 1)]
        sweep()
        self._prefix = f"{PREFIX}{os.getpid()}"
        self._daemons: list[subprocess.Popen] = []
        try:
            self._make_network()
            self._make_keys()
            self._start_sshds()
        except BaseException:
            self.close()
            raise

    def namespace(self, host: str) -> str:
        return f"{self._prefix}-{host}"

    def _make_network(self) -> None:
        bridge = self.namespace("bridge")
        run("ip", "netns", "add", bridge)
        run("ip", "-n", bridge, "link", "add", "bridge", "type", "bridge")
        run("ip", "-n", bridge, "link", "set", "bridge", "up")
        lines = ["127.0.0.1 localhost"]
        lines += [f"{self.address(host)} {host}" for host in self.names]
        for host in self.names:
            space = self.namespace(host)
            run("ip", "netns", "add", space)
            folder = CONFIGURATION / space
            folder.mkdir(parents=True)
            (folder / "hosts").write_text("\n".join(lines) + "\n")
            end = ["name", "eth0", "netns", space]
            run("ip", "-n", bridge, "link", "add", host, "type", "veth", "peer", *end)
            run("ip", "-n", bridge, "link", "set", host, "master", "bridge", "up")
            run("ip", "-n", space, "addr", "add", f"{self.address(host)}/24", "dev", "eth0")
            run("ip", "-n", space, "link", "set", "eth0", "up")
            run("ip", "-n", space, "link", "set", "lo", "up")

    def address(self, host: str) -> str:
        return f"10.66.66.{self.names.index(host) + 1}"

    def _make_keys(self) -> None:
        for name in ("host", "user"):
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / name)
        self.ssh_config = self.folder / "ssh_config"
        self.ssh_config.write_text(
            f"Host *\n  IdentityFile {self.folder / 'user'}\n  StrictHostKeyChecking no\n"
            "  UserKnownHostsFile /dev/null\n  LogLevel ERROR\n  BatchMode yes\n"
        )
        self.ssh = self.folder / "ssh"  # for launchers that allow no options behind their agent
        self.ssh.write_text(f'#!/bin/sh\nexec ssh -F {self.ssh_config} "$@"\n')
        self.ssh.chmod(0o755)

    def _start_sshds(self) -> None:
        Path("/run/sshd").mkdir(exist_ok=True)
        for host in self.names:
            settings = {
                "ListenAddress": self.address(host),
                "HostKey": self.folder / "host",
                "AuthorizedKeysFile": self.folder / "user.pub",
                "StrictModes": "no",
                "UsePAM": "no",
                "PermitRootLogin": "yes",
                "PidFile": "none",
            }
            words = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
            self.daemon(host, "sshd", [shutil.which("sshd"), "-D", "-f", "/dev/null", *words])
        for host in self.names:
            probe = [*self.inside(self.names[0]), self.ssh, host, "hostname"]
            wait_until(
                lambda probe=probe, host=host: run(*probe, check=False).stdout.strip() == host,
                20,
                f"sshd on {host}",
            )

    def daemon(self, host: str, name: str, words, env=None, mount: str = "") -> subprocess.Popen:
        """Start a process that serves on the host until `close`."""
        with (self.folder / f"{name}-{host}.log").open("w") as log:
            process = subprocess.Popen(
                [*self.inside(host, mount), *map(str, words)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=env,
                preexec_fn=die_with_parent,
            )
        self._daemons.append(process)
        return process

    def inside(self, host: str, mount: str = "") -> list[str]:
        """Return the words that make a command run on that host, after the private mount if any."""
        script = f'hostname {host}; {mount + "; " if mount else ""}exec "$@"'
        spaces = ["--uts", *(["--mount"] if mount else [])]
        return ["ip", "netns", "exec", self.namespace(host), "unshare", *spaces, "sh", "-c",
                script, "sh"]  # fmt: skip

    def environment(self, mpi: str) -> dict[str, str]:
        """Return the settings that make this MPI use the network, not memory shared by hosts."""
        if mpi == "openmpi":
            return {"OMPI_MCA_btl_tcp_if_include": "eth0"}
        return {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "eth0", "HYDRA_IFACE": "eth0"}

    def ssh_environment(self, mpi: str) -> dict[str, str]:
        """Return the settings that make this MPI reach other hosts through our ssh."""
        if mpi == "openmpi":
            return {"PRTE_MCA_plm_ssh_agent": f"ssh -F {self.ssh_config}"}
        return {"HYDRA_LAUNCHER": "ssh", "HYDRA_LAUNCHER_EXEC": str(self.ssh)}

    def cut(self, host: str) -> None:
        """Pull the host's cable."""
        run("ip", "-n", self.namespace("bridge"), "link", "set", host, "down")

    def mend(self, host: str) -> None:
        run("ip", "-n", self.namespace("bridge"), "link", "set", host, "up")

    def slow_down(self, host: str, rate: str) -> None:
        """Limit what the host receives and what it sends."""
        limit = ["root", "tbf", "rate", rate, "burst", "4kb", "latency", "400ms"]
        run("tc", "-n", self.namespace("bridge"), "qdisc", "replace", "dev", host, *limit)
        run("tc", "-n", self.namespace(host), "qdisc", "replace", "dev", "eth0", *limit)

    def speed_up(self, host: str) -> None:
        run("tc", "-n", self.namespace("bridge"), "qdisc", "del", "dev", host, "root")
        run("tc", "-n", self.namespace(host), "qdisc", "del", "dev", "eth0", "root")

    def list_processes(self) -> str:
        lines = []
        for host in self.names:
            for pid in sorted(processes(self.namespace(host))):
                with contextlib.suppress(OSError):
                    words = Path("/proc", str(pid), "cmdline").read_bytes().split(b"\0")
                    lines.append(f"{host} {pid} {b' '.join(words).decode()[:160]}")
        return "\n".join(lines)

    def end_processes(self) -> None:
        """Kill all processes on the hosts but their daemons."""
        kept = {process.pid for process in self._daemons}
        for pid in set().union(*(processes(self.namespace(host)) for host in self.names)) - kept:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        for process in reversed(self._daemons):
            process.terminate()
        for process in self._daemons:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        remove(self._prefix)


def processes(namespace: str) -> set[int]:
    return {int(pid) for pid in run("ip", "netns", "pids", namespace, check=False).stdout.split()}


def remove(prefix: str) -> None:
    """Remove all namespaces of that prefix, with their processes and files."""
    listed = run("ip", "netns", "list", check=False).stdout.splitlines()
    for space in (line.split()[0] for line in listed if line.startswith(f"{prefix}-")):
        for pid in processes(space):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        run("ip", "netns", "del", space, check=False)
    for folder in CONFIGURATION.glob(f"{prefix}-*"):
        shutil.rmtree(folder, ignore_errors=True)


def sweep() -> None:
    """Remove what a killed test process left behind."""
    listed = run("ip", "netns", "list", check=False).stdout.split()
    left = {name.partition("-")[0] for name in listed if name.startswith(PREFIX)}
    left |= {path.name.partition("-")[0] for path in CONFIGURATION.glob(f"{PREFIX}*-*")}
    for prefix in left:
        pid = prefix.removeprefix(PREFIX)
        if pid.isdecimal() and not Path("/proc", pid).exists():
            remove(prefix)
