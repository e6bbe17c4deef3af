"""Batch jobs for `mpi-gt submit`: the job, and its script for Slurm, PBS and Flux."""
