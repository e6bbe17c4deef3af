"""One rank of our side: `mpi-gt run` with a clock around its loop, or `mix` alone.

ours.py run OPTIONS...                      root prints when the loop began, its seconds, and
                                            the largest memory of a rank in bytes
ours.py option NAME=VALUE PAIRS ITERATIONS DIR
                                            seconds of loops with that option and without, by
                                            turns on the same ranks: root prints a pair a line
ours.py profile ITERATIONS                  processor seconds an iteration with a profile, without
ours.py mix FOLDER DIM ITERATIONS GRAPH     root prints the seconds of each twentieth; x is left
                                            in FOLDER/ours-RANK.bin
"""

import json
import resource
import sys
import time

import mpi4py

mpi4py.rc.thread_level = "funneled"  # as the command itself sets it

PARTS = 20


def timed_run(arguments):
    from mpi_gt.cli.main import main
    from mpi_gt.engine import run

    solve = run.solve

    def timed(built, *rest):
        began, clock = time.time(), time.perf_counter()
        result = solve(built, *rest)
        loop = time.perf_counter() - clock
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        memory = max(built.node.world.allgather(own))
        if built.node.is_root:
            print(json.dumps({"began": began, "loop": loop, "memory": memory}), flush=True)
        return result

    run.solve = timed
    return main(["run", *arguments])


def timed_mix(folder, dim, iterations, graph):
    import numpy as np
    from mpi4py import MPI

    from mpi_gt.comm.exchange import EXCHANGES
    from mpi_gt.comm.node import Node
    from mpi_gt.graphs import build_network

    comm = MPI.COMM_WORLD
    row = build_network(graph, None, comm.size).row(comm.rank)
    node = Node(comm, row, EXCHANGES["neighbor"])
    place = sum(j < comm.rank for j in row.neighbours)
    z = (np.arange(dim) % 7 + place).astype(float)[np.newaxis]
    node.mix(z).wait()  # makes the plan
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


def timed_option(option, pairs, iterations, directory):
    """Pace changes with the hour, and with how the ranks lie on the cores, by more than what an
    option costs: so both sides take turns within one launch."""
    import gc
    from dataclasses import replace

    from mpi4py import MPI

    from mpi_gt.config import RunConfig
    from mpi_gt.engine.build import build
    from mpi_gt.engine.checkpointer import Checkpointer
    from mpi_gt.engine.loop import NoRecorder, solve
    from mpi_gt.engine.recorder import Recorder
    from mpi_gt.engine.watchdog import Watchdog
    from mpi_gt.performance.phases import NoPhases

    comm = MPI.COMM_WORLD
    name, value = option.split("=")
    common = {"iterations": iterations, "log_every": iterations, "seeds": 50, "quiet": True}
    config = RunConfig.of({**common, "out": directory, name: int(value)})
    built = build(config, comm)
    recorder = Recorder(built.config, built.facts) if comm.rank == 0 else NoRecorder()
    recorder.start()
    gc.freeze()  # as the command does

    def seconds(config):
        experiment = replace(built, config=config)
        checkpointer = Checkpointer(
            config, built.node, built.directory, built.identity, recorder, None
        )
        comm.Barrier()
        began = time.perf_counter()
        solve(experiment, built.entries[0], recorder, checkpointer, NoPhases())
        return time.perf_counter() - began

    with_it = built.config
    without = replace(with_it, **{name: common.get(name)})
    with Watchdog(built.node, with_it.watchdog, built.directory, built.hosts):
        seconds(with_it)  # for neither side: all is new to it
        for _ in range(pairs):
            pair = seconds(with_it), seconds(without)
            if comm.rank == 0:
                print(*pair, flush=True)
    built.node.free()


def timed_profile(iterations):
    """On one rank: with others, waiting for them would be most of the processor time."""
    import statistics

    from mpi4py import MPI

    from mpi_gt.config import RunConfig
    from mpi_gt.engine.build import build
    from mpi_gt.engine.checkpointer import Checkpointer
    from mpi_gt.engine.loop import NoRecorder, solve
    from mpi_gt.performance.phases import NoPhases
    from mpi_gt.performance.stamps import Phases

    config = RunConfig.of({"iterations": iterations, "log_every": iterations, "quiet": True})
    times = {True: [], False: []}
    for _ in range(25):  # short and often: the machine's moods fall on both sides
        for profiled, taken in times.items():
            built = build(config, MPI.COMM_WORLD)
            phases = Phases(iterations, range(1, 101)) if profiled else NoPhases()
            if profiled:
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
        sys.exit(timed_option(rest[0], int(rest[1]), int(rest[2]), rest[3]))
    if kind == "profile":
        sys.exit(timed_profile(int(rest[0])))
    timed_mix(rest[0], int(rest[1]), int(rest[2]), rest[3])
