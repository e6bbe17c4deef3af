"""Diagnosis of `mpi-gt doctor`: problems and warnings, what to type; as text or JSON."""

import math
import os
from dataclasses import asdict, dataclass, field
from typing import Any

from ..errors import UserError
from ..files import json_text
from ..memory import show_bytes
from .host_facts import HostFacts, show_cpus
from .links import MOST_HOSTS, Pair, slow_hosts

LOCAL = ("tmpfs", "ramfs")
LITTLE_DISK = 1 << 30
LITTLE_MEMORY = 100 << 20  # bytes per rank; a rank without data takes about 30 MB
CLOCKS_APART = 1.0  # seconds

UNBIND = '`mpi-gt run -n N --launcher-args="--bind-to none"` (MPICH: -bind-to none)'


@dataclass
class Report:
    """Findings of doctor, all of them."""

    facts: list[tuple[str, str]]
    problems: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    hosts: list[HostFacts] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)

    def show(self, as_json: bool) -> int:
        """Print the report; return the exit code."""
        print(json_text("doctor", self.as_table()) if as_json else self.as_text(), flush=True)
        return UserError.exit_code if self.problems else 0

    def as_text(self) -> str:
        """Return the report for people."""
        width = max(len(name) for name, _ in self.facts) + 2
        lines = [f"{name:{width}}{value}" for name, value in self.facts]
        lines += [*show_pairs(self.pairs), ""]
        lines += [f"problem: {problem}" for problem in self.problems]
        lines += [f"warning: {warning}" for warning in self.warnings]
        if not self.problems and not self.warnings:
            lines.append("no problems found")
        return "\n".join(lines)

    def as_table(self) -> dict[str, Any]:
        """Return the report for machines: seconds, bytes, and bytes per second."""
        names = ("latency", "bandwidth", "offset", "uncertainty")
        units = dict(zip(names, ("s", "bytes_per_s", "s", "s"), strict=True))
        pairs = [
            {
                "hosts": pair.hosts,
                **{f"{name}_{units[name]}": getattr(pair, name) for name in names},
            }
            for pair in self.pairs
        ]
        return {
            "ok": not self.problems,
            "problems": self.problems,
            "warnings": self.warnings,
            **self.details,
            "facts": [{"name": name.strip(), "value": value} for name, value in self.facts],
            "ranks": [asdict(each) for each in self.hosts],
            "pairs": pairs,
        }


def describe_hosts(ranks: list[HostFacts], connected: bool = True) -> list[tuple[str, str]]:
    """Return a line per host about binding, limits, fabric and, if `connected`, transports."""
    lines = []
    for host in dict.fromkeys(each.host for each in ranks):
        own = [each for each in ranks if each.host == host]
        bound = [each for each in own if len(each.cpus) < each.cpus_online]
        cpus = sorted({show_cpus(each.cpus) for each in own})
        parts = [f"{'bound to' if bound else 'free on'} cpus {' | '.join(cpus[:8])}"]
        if own[0].cpu_quota is not None:
            parts.append(f"quota of {own[0].cpu_quota:g} cpus")
        if own[0].memory_limit is not None:
            parts.append(f"memory limit {show_bytes(own[0].memory_limit)}")
        parts.append(f"fabric {', '.join(own[0].fabric) or 'none'}")
        used = sorted({name for each in own for name in each.transports})
        if connected:
            parts.append(f"connected by {', '.join(used) or 'nothing found'}")
        lines.append((host, "; ".join(parts)))
    return lines


def show_pairs(pairs: list[Pair]) -> list[str]:
    """Return the table of latencies and bandwidths, and the offsets of the clocks."""
    hosts = list(dict.fromkeys(host for pair in pairs for host in pair.hosts))
    if not hosts:
        return []
    found = {frozenset(pair.hosts): pair for pair in pairs}
    cells = [[_cell(found.get(frozenset((row, column)))) for column in hosts] for row in hosts]
    width = 2 + max(len(text) for row in [hosts, *cells] for text in row)
    lines = ["", "latency of 8 bytes in us / bandwidth in MB/s"]
    for name, row in zip(["", *hosts], [hosts, *cells], strict=True):
        lines.append(f"{name:{width}}" + "".join(f"{text:>{width}}" for text in row))
    if len(hosts) == MOST_HOSTS:
        lines.append(f"(the first {MOST_HOSTS} hosts)")
    ahead = [
        f"{pair.hosts[1]} {1e3 * pair.offset:+.2f} ms (to {1e3 * pair.uncertainty:.2f})"
        for pair in pairs
        if pair.hosts[0] == hosts[0] != pair.hosts[1]
    ]
    if ahead:
        lines.append(f"clocks, against {hosts[0]}: {', '.join(ahead)}")
    return lines


def _cell(pair: Pair | None) -> str:
    """Return latency and bandwidth of two hosts, for the table."""
    if pair is None:
        return "-"
    return f"{1e6 * pair.latency:,.0f} / {_round(pair.bandwidth / 1e6)}"


def _round(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"


def diagnose(
    ranks: list[HostFacts], pairs: list[Pair], library: str
) -> tuple[list[str], list[str]]:
    """Return the problems, with which a run cannot work, and the warnings."""
    problems, warnings = [], []
    blind = sorted({each.host for each in ranks if not each.visible})
    if not ranks[0].visible:
        problems.append("no file can be written in the run directory: choose another, --out DIR")
    elif blind:
        problems.append(
            f"{', '.join(blind)}: the run directory of {ranks[0].host} is another folder there. "
            "Start in a folder on a disk that all hosts share, or name one: --out /shared/DIR"
        )
    several = len({each.host for each in ranks}) > 1
    if ranks[0].filesystem in LOCAL:
        warnings.append(
            f"the run directory is in memory ({ranks[0].filesystem} on {ranks[0].mount}): it "
            "ends with the host. Choose another: --out DIR"
        )
    if ranks[0].free < LITTLE_DISK:
        warnings.append(f"the run directory has {show_bytes(ranks[0].free)} left: choose another")
    warnings += [*_binding(ranks), *_memory(ranks)]
    if several:
        warnings += [*_network(ranks), *_clocks(pairs)]
    for host, why in slow_hosts(pairs).items():
        warnings.append(
            f"{host} is slow: {why}. Look at its link (`ethtool DEVICE`, `ip -s link`), or leave "
            "it out of the hostfile"
        )
    if "CRAY" in library and os.environ.get("MPICH_GPU_SUPPORT_ENABLED") == "1":
        warnings.append(
            "MPICH_GPU_SUPPORT_ENABLED=1 needs a library that mpi4py is not linked with, and "
            "mpi-gt sends from no GPU: export MPICH_GPU_SUPPORT_ENABLED=0"
        )
    return problems, warnings


def _binding(ranks: list[HostFacts]) -> list[str]:
    """Return warnings about ranks that are bound to the same cores while others are free."""
    warnings = []
    for host in dict.fromkeys(each.host for each in ranks):
        own = [each for each in ranks if each.host == host]
        used = set().union(*(each.cpus for each in own))
        if len(used) < min(len(own), own[0].cpus_online):
            quota = own[0].cpu_quota or math.inf
            if quota <= len(used):
                continue
            warnings.append(
                f"the {len(own)} ranks of {host} are bound to cpus {show_cpus(used)}, of "
                f"{own[0].cpus_online}: {UNBIND}, or ask the batch system for more cpus per host"
            )
    return warnings


def _memory(ranks: list[HostFacts]) -> list[str]:
    warnings = []
    for host in dict.fromkeys(each.host for each in ranks):
        own = [each for each in ranks if each.host == host]
        limit = own[0].memory_limit
        if limit is not None and limit / len(own) < LITTLE_MEMORY:
            warnings.append(
                f"{host} allows {show_bytes(limit)} for {len(own)} ranks: ask the batch system for "
                "more (`mpi-gt submit --sbatch=--mem=8G`), or put fewer ranks on each host"
            )
    return warnings


def _network(ranks: list[HostFacts]) -> list[str]:
    """Return a warning where a fast network is there and no rank uses it."""
    fabric = sorted({device for each in ranks for device in each.fabric})
    used = {name for each in ranks for name in each.transports}
    if fabric and used <= {"shared memory", "tcp"} and "tcp" in used:
        return [
            f"the ranks of different hosts talk by tcp, though there is {', '.join(fabric[:4])}: "
            "use the MPI of the cluster (`module avail`), whose libfabric or UCX knows it; the one "
            "of pip does not. What it tries: OMPI_MCA_pml_base_verbose=10, UCX_LOG_LEVEL=info or "
            "FI_LOG_LEVEL=info"
        ]
    return []


def _clocks(pairs: list[Pair]) -> list[str]:
    return [
        f"the clock of {pair.hosts[1]} is {pair.offset:+.1f} s from that of {pair.hosts[0]}: times "
        "of files and logs do not fit together (`chronyc tracking` there shows why)"
        for pair in pairs
        if pair.hosts[0] == pairs[0].hosts[0] and abs(pair.offset) - pair.uncertainty > CLOCKS_APART
    ]
