"""Measurement and prediction of time: profiles of runs, benchmarks of exchanges, a cost model."""
