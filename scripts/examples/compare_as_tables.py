"""Run a grid of methods, stepsizes and graphs by one call, and look at it as a table.

python compare_as_tables.py
"""

import mpi_gt

if __name__ == "__main__":
    runs = mpi_gt.sweep(
        {"lr": [0.02, 0.1], "graph": ["ring", "er:p=0.7"]},
        n=8,
        problem="huber:spread=0.5",
        algorithms=["gt", "dsgd"],
        iterations=300,
        seeds=2,
    )
    table = runs.summary.pivot_table(index=["method", "lr"], columns="graph", values="gap")
    print(table.to_string(float_format="{:.2e}".format))
    best = runs.summary.loc[runs.summary.gap.idxmin()]
    print(f"smallest gap: {best.method} with lr {best.lr:g} on {best.graph}")
