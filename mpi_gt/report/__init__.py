"""The page of `mpi-gt report`: one HTML file about any number of run directories."""
