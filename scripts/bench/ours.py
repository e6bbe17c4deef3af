"""One rank of the mpi-gt side: `mpi-gt run` with a clock around its loop, or `mix` alone.

ours.py run OPTIONS...                      root prints when the loop began, its seconds, and
                                            the largest memory of a rank in bytes
ours.py option NAME=VALUE PAIRS ITERATIONS DIR
                                            seconds of loops with that option and without it,
                                            alternately on the same ranks; root prints one pair
                                            per line
ours.py profile ITERATIONS                  processor seconds per iteration with a profile and
                                            without it
ours.py methods TURNS ITERATIONS SEEDS PROBLEM EXCHANGE METHOD...
                                            root prints the seconds per iteration of the methods,
                                            one line per turn
ours.py copy BYTES                          all ranks copy vectors of that size at the same time;
                                            root prints the bytes per second of all together
ours.py mix FOLDER DIM ITERATIONS GRAPH EXCHANGE
                                            root prints the seconds per iteration of each
                                            twentieth; x goes to FOLDER/ours-RANK.bin
"""

import json
import resource
import sys
import time
from typing import TYPE_CHECKING, Any

import mpi4py

if TYPE_CHECKING:
    from mpi_gt.config import RunConfig

mpi4py.rc.thread_level = "funneled"  # as the command itself sets it

PARTS = 20


def timed_run(arguments: list[str]) -> int:
    """Run `mpi-gt run` with these arguments; print when its loop began and how long it took."""
    from mpi_gt.cli.main import main
    from mpi_gt.engine import loop

    solve = loop.solve

    def timed(built: Any, *rest: Any) -> Any:
        began, clock = time.time(), time.perf_counter()
        result = solve(built, *rest)
        loop = time.perf_counter() - clock
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        memory = max(built.node.world.allgather(own))
        if built.node.is_root:
            print(json.dumps({"began": began, "loop": loop, "memory": memory}), flush=True)
        return result

    loop.solve = timed  # type: ignore[assignment]
    return main(["run", *arguments])


def timed_mix(folder: str, dim: int, iterations: int, graph: str, exchange: str) -> None:
    """Time `mix` of one vector with nothing else in the loop."""
    import numpy as np
    from mpi4py import MPI

    from mpi_gt.comm.exchange import EXCHANGES
    from mpi_gt.comm.node import Node
    from mpi_gt.graphs import build_network

    comm = MPI.COMM_WORLD
    row = build_network(graph, None, comm.size).row(comm.rank)
    node = Node(comm, row, EXCHANGES[exchange])
    place = sum(j < comm.rank for j in row.neighbours)
    z = (np.arange(dim) % 7 + place).astype(float)[np.newaxis]
    node.mix(z).wait()  # the first call makes the plan
    comm.Barrier()
    stamps = [time.perf_counter()]
    for t in range(1, iterations + 1):
        node.iteration = t
        z = node.mix(z).wait()
        if t % (iterations // PARTS) == 0:
            stamps.append(time.perf_counter())
    z.tofile(f"{folder}/ours-{comm.rank}.bin")
    node.free()
    if comm.rank == 0:
        print(*(np.diff(stamps) * PARTS / iterations))


def timed_option(option: str, pairs: int, iterations: int, directory: str) -> None:
    """Time loops with an option and without it, alternately within one launch.

    Between two launches the pace changes, with the load of the machine and the placement of ranks
    on cores, by more than an option costs.
    """
    import gc
    from dataclasses import replace

    from mpi4py import MPI

    from mpi_gt.comm.collective import WatchedComm
    from mpi_gt.config import RunConfig
    from mpi_gt.engine.build import build
    from mpi_gt.engine.checkpointer import Checkpointer
    from mpi_gt.engine.loop import NoRecorder, solve
    from mpi_gt.engine.recorder import Recorder
    from mpi_gt.engine.watchdog import Watchdog
    from mpi_gt.performance.phases import NoPhases

    comm = WatchedComm(MPI.COMM_WORLD)
    name, value = option.split("=")
    common: dict[str, Any] = {
        "iterations": iterations,
        "log_every": iterations,
        "seeds": 50,
        "quiet": True,
    }
    config = RunConfig.of({**common, "out": directory, name: int(value)})
    built = build(config, comm)
    recorder = Recorder(built.config, built.facts) if comm.rank == 0 else NoRecorder()
    recorder.start()
    gc.freeze()  # as `mpi-gt run` does

    def seconds(config: "RunConfig") -> float:
        extents = {
            label: extent._replace(log_interval=config.log_interval)
            for label, extent in built.extents.items()
        }
        experiment = replace(built, config=config, extents=extents)
        checkpointer = Checkpointer(
            config, built.node, built.directory, built.identity, recorder, None
        )
        comm.Barrier()
        began = time.perf_counter()
        solve(experiment, built.entries[0], recorder, checkpointer, NoPhases())
        return time.perf_counter() - began

    with_it = built.config
    default: dict[str, Any] = {name: common.get(name)}
    without = replace(with_it, **default)
    watchdog = Watchdog(comm)
    watchdog.guard(with_it.watchdog, built.directory)
    watchdog.attach(built.node, built.directory, built.hosts)
    seconds(with_it)  # warm up
    for _ in range(pairs):
        pair = seconds(with_it), seconds(without)
        if comm.rank == 0:
            print(*pair, flush=True)
    built.node.free()
    watchdog.close()


def timed_methods(
    turns: int, iterations: int, seeds: int, problem: str, exchange: str, methods: list[str]
) -> None:
    """Time the loops of several methods by turns on the same ranks; nothing is measured or written.

    The first half of each loop, in which buffers are made, is not counted.
    """
    import gc

    from mpi4py import MPI

    from mpi_gt.comm.collective import WatchedComm
    from mpi_gt.config import RunConfig
    from mpi_gt.engine import loop
    from mpi_gt.engine.build import build
    from mpi_gt.engine.checkpointer import Checkpointer
    from mpi_gt.performance.phases import NoPhases

    comm = WatchedComm(MPI.COMM_WORLD)
    options = {"iterations": iterations, "log_every": iterations // 2, "seeds": seeds,
               "exchange": exchange}  # fmt: skip
    config = RunConfig.of({**options, "problem": problem, "algorithms": ",".join(methods)})
    built = build(config, comm)
    stamps: list[float] = []

    def stamp(*_: Any) -> None:  # in place of measurements: before, half-way and after
        comm.Barrier()
        stamps.append(time.perf_counter())

    loop.measure = stamp  # type: ignore[assignment]
    gc.freeze()  # as `mpi-gt run` does
    for turn in range(turns + 1):
        stamps.clear()
        for entry in built.entries:
            nobody = loop.NoRecorder()
            checkpointer = Checkpointer(built.config, built.node, None, "", nobody, None)
            loop.solve(built, entry, nobody, checkpointer, NoPhases())
        if comm.rank == 0 and turn:  # the first turn warms up
            halves = [stamps[i + 2] - stamps[i + 1] for i in range(0, len(stamps), 3)]
            print(*(2 * half / iterations for half in halves), flush=True)
    built.node.free()


def timed_copy(size: int) -> None:
    """Print how many bytes per second all ranks copy together, each its own vectors."""
    from pathlib import Path

    import numpy as np
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    # four times the largest cache, as STREAM wants it: a rank has the whole of it during its turn
    sizes = Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")
    cache = max((int(path.read_text().strip("K\n")) << 10 for path in sizes), default=32 << 20)
    half = max(8, 2 * cache // size)
    vectors = np.ones((2 * half, size // 8))
    comm.Barrier()
    began, copies = time.perf_counter(), 0
    while time.perf_counter() - began < 1:
        np.copyto(vectors[copies % (2 * half)], vectors[(copies + half) % (2 * half)])
        copies += 1
    pace = comm.allreduce(copies * vectors[0].nbytes / (time.perf_counter() - began))
    if comm.rank == 0:
        print(pace)


def timed_profile(iterations: int) -> None:
    """Print the processor seconds per iteration with a profile, and without it.

    One rank is enough: with others, most of the processor time would be spent waiting for them.
    """
    import statistics

    from mpi4py import MPI

    from mpi_gt.config import RunConfig
    from mpi_gt.engine.build import build
    from mpi_gt.engine.checkpointer import Checkpointer
    from mpi_gt.engine.loop import NoRecorder, solve
    from mpi_gt.performance.phases import NoPhases
    from mpi_gt.performance.stamps import Phases

    config = RunConfig.of({"iterations": iterations, "log_every": iterations, "quiet": True})
    times: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(25):  # many short turns: the changing pace of the machine affects both sides
        for profiled, taken in times.items():
            built = build(config, MPI.COMM_WORLD)
            phases: Phases | NoPhases = NoPhases()
            if profiled:
                phases = Phases(iterations, range(1, 101))
                built.node.make_plan = phases.make_plan
            checkpointer = Checkpointer(built.config, built.node, None, "", NoRecorder(), None)
            began = time.process_time()
            solve(built, built.entries[0], NoRecorder(), checkpointer, phases)
            taken.append((time.process_time() - began) / iterations)
            built.node.free()
    print(statistics.median(times[True]), statistics.median(times[False]))


if __name__ == "__main__":
    kind, *rest = sys.argv[1:]
    if kind == "run":
        sys.exit(timed_run(rest))
    if kind == "option":
        timed_option(rest[0], int(rest[1]), int(rest[2]), rest[3])
    elif kind == "methods":
        timed_methods(int(rest[0]), int(rest[1]), int(rest[2]), rest[3], rest[4], rest[5:])
    elif kind == "profile":
        timed_profile(int(rest[0]))
    elif kind == "copy":
        timed_copy(int(rest[0]))
    else:
        timed_mix(rest[0], int(rest[1]), int(rest[2]), *rest[3:])
