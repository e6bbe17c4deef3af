"""Sweeps over anything: a grid of runs, with one launch per number of ranks."""
