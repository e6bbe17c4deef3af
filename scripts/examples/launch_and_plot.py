"""Start 16 MPI processes from a script, and draw what they measured.

python launch_and_plot.py
"""

import mpi_gt

if __name__ == "__main__":
    result = mpi_gt.launch(
        n=16,
        problem="huber:dim=20,spread=0.3",
        algorithms="gt-adaptive,gt:lr=0.1,dsgd:lr=0.1",
        graph="ring",
        iterations=1000,
        seeds=3,
    )
    for name, x in result.outputs.items():  # (nodes, seeds, dim)
        print(f"{name:12} the nodes are {x.std(axis=0).max():.1e} apart")
    axes = result.plot("gap")  # matplotlib axes, to change and to save
    axes.set_title("16 processes on a ring")
    axes.figure.savefig("launch_and_plot.png")
    print(f"drawn in launch_and_plot.png; all files of the run are in {result.directory}")
