"""Run inside an MPI program of your own, on a communicator of yours.

mpirun -n 4 python -m mpi4py own_communicator.py
"""

from mpi4py import MPI

import mpi_gt

world = MPI.COMM_WORLD
half = world.Split(color=world.rank % 2)  # two runs side by side, with different stepsizes
lr = 0.05 if world.rank % 2 == 0 else 0.2
result = mpi_gt.run(half, problem="huber", algorithm=("gt", {"lr": lr}), graph="complete",
                    iterations=300)  # fmt: skip
if half.rank == 0:  # root of each half has the metrics
    print(f"lr {lr}: gap {result.metrics[-1]['gap']:.2e} on {half.size} nodes", flush=True)
