"""The HTML page of `mpi-gt report`."""
