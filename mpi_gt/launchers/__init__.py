"""Launchers: mpirun, srun and Slurm, and the ranks that they start."""
