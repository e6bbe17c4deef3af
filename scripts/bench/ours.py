"""One rank of our side: `mpi-gt run` with a clock around its loop, or `mix` alone.

ours.py run OPTIONS...                      root prints when the loop began, its seconds, and
                                            the largest memory of a rank in bytes
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
    from mpi_gt import cli, experiment

    solve = experiment.solve

    def timed(built, *rest):
        began, clock = time.time(), time.perf_counter()
        result = solve(built, *rest)
        loop = time.perf_counter() - clock
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        memory = max(built.node.world.allgather(own))
        if built.node.is_root:
            print(json.dumps({"began": began, "loop": loop, "memory": memory}), flush=True)
        return result

    experiment.solve = timed
    return cli.main(["run", *arguments])


def timed_mix(folder, dim, iterations, graph):
    import numpy as np
    from mpi4py import MPI

    from mpi_gt.exchange import EXCHANGES
    from mpi_gt.graphs import build_network
    from mpi_gt.node import Node

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


if __name__ == "__main__":
    kind, *rest = sys.argv[1:]
    if kind == "run":
        sys.exit(timed_run(rest))
    timed_mix(rest[0], int(rest[1]), int(rest[2]), rest[3])
