"""The two sides of the benchmark, hand-written C and mpi-gt, started in the same way."""

import csv
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mpi_gt.graphs import build_network
from mpi_gt.launchers import detect, mpirun, programs
from mpi_gt.problems import Place
from mpi_gt.problems.huber import Huber

GRAPH = "er:p=0.7"
NOISE_ROWS = 256
PARTS = 20  # parts of a run that are timed separately
SHOWN = ("OMPI_MCA_", "PRTE_MCA_", "MPIR_CVAR_", "UCX_", "OMP_NUM_THREADS")
LIMIT = 1800  # seconds for any command


class Machine:
    """The mpirun of this machine with its settings, the same for both sides; builds the C side."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.out = work / "run"
        self.mpirun = programs.find_mpirun()
        self.brand = programs.detect_brand(self.mpirun)
        self.reference = work / "reference"
        compiler = self.mpirun.parent / "mpicc"
        self.build = [str(compiler), "-O3", "-march=native"]
        source = Path(__file__).parent / "reference.c"
        words = [*self.build, str(source), "-o", str(self.reference), "-lm"]
        run(words)

    def environment(self, n: int) -> dict[str, str]:
        """Return the environment of a launch on n ranks, with the defaults of `mpi-gt run`."""
        defaults = {"OMPI_MCA_btl_sm_eager_limit": detect.EAGER_LIMIT, "OMP_NUM_THREADS": "1"}
        env = {**defaults, **mpirun.launcher_environment(self.brand, n, None)}
        return {key: value for key, value in env.items() if key not in detect.LAUNCHED}

    def settings(self, n: int) -> dict[str, str]:
        """Return the variables in that environment that change the speed of MPI."""
        env = self.environment(n)
        return {key: env[key] for key in sorted(env) if key.startswith(SHOWN)}

    def on_ranks(self, n: int, *words: str) -> str:
        """Run a command on n ranks and return its output."""
        launcher = mpirun.launcher_command(self.mpirun, self.brand, n, None, self.environment(n))
        command = [*launcher, *words]
        return run(command, self.environment(n))

    def c(self, kind: str, n: int, folder: Path, iterations: int, *how: str) -> list[float]:
        """Return the seconds per iteration of the C program, for each twentieth of its loop."""
        words = [str(self.reference), kind, str(folder), str(iterations), *how]
        return [float(line) for line in self.on_ranks(n, *words).split()]

    def ours(self, n: int, iterations: int, *options: str) -> list[float]:
        """Return the same for one `mpi-gt run`, whose seconds leave out the measurements."""
        every = iterations // PARTS
        self.mpi_gt(n, f"--iterations={iterations}", f"--log-every={every}", *options)
        seconds = {}
        with (self.out / "metrics.csv").open() as file:
            for row in csv.DictReader(file):
                seconds[int(row["iteration"])] = float(row["seconds"])
        return [float(step) / every for step in np.diff([seconds[t] for t in sorted(seconds)])]

    def mpi_gt(self, n: int, *options: str) -> None:
        """Call `mpi-gt run` with these options on n ranks."""
        words = [f"--out={self.out}", "--overwrite", "--quiet", *options]
        self.on_ranks(n, sys.executable, "-m", "mpi_gt", "run", *words)

    def facts(self) -> dict[str, Any]:
        """Return the content of run.json of the last run."""
        return dict(json.loads((self.out / "run.json").read_text()))


def run(words: list[str], env: dict[str, str] | None = None) -> str:
    """Run a command and return its output; end the benchmark if the command fails."""
    done = subprocess.run(
        words, env=env or dict(os.environ), capture_output=True, text=True, timeout=LIMIT
    )
    if done.returncode:
        sys.exit(f"bench: {' '.join(words)} ended with {done.returncode}\n{done.stderr[-4000:]}")
    return done.stdout


def write_huber(folder: Path, n: int, seeds: int, noise: bool, graph: str = GRAPH) -> None:
    """Write each node's part of the Huber problem, as mpi-gt makes it, for the C program."""
    for node, head, weights in _rows(n, graph):
        place = Place(node, n, tuple(range(seeds)))
        problem = Huber(place) if noise else Huber(place, noise=0.0)
        draws = problem._noise
        rows = [draws.at(t) for t in range(1, NOISE_ROWS + 1)] if draws is not None else []
        parts = [weights, problem._phi, problem._theta, *rows]
        _write(folder, node, [*head, seeds, problem.dim, len(rows)], parts)


def write_mix(folder: Path, n: int, dim: int, graph: str = GRAPH) -> None:
    """Write each node's neighbours and weights, for the C program."""
    for node, head, weights in _rows(n, graph):
        _write(folder, node, [*head, 1, dim, 0], [weights])


def _rows(n: int, graph: str) -> Iterator[tuple[int, list[Any], np.ndarray]]:
    """Return, per node: its number, [neighbours, own place among them], weights in rank order."""
    network = build_network(graph, None, n)
    for node in range(n):
        row = network.row(node)
        place = sum(j < node for j in row.neighbours)
        yield node, [row.neighbours, place], np.insert(row.weights, place, row.own)


def _write(folder: Path, node: int, numbers: list[Any], parts: list[Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    neighbours, place, seeds, dim, rows = numbers
    head = [len(neighbours), seeds, dim, rows, place, *neighbours]
    with (folder / f"node-{node}.bin").open("wb") as file:
        file.write(np.array(head, np.int64).tobytes())
        for part in parts:
            file.write(np.asarray(part, np.float64).tobytes())


def read_reference(folder: Path, n: int, seeds: int, dim: int) -> np.ndarray:
    """Return the x of all nodes that the C program wrote, with shape (nodes, seeds, dim)."""
    shape = (seeds, dim)
    return np.stack([np.fromfile(folder / f"x-{i}.bin").reshape(shape) for i in range(n)])
