"""The functions of `import mpi_gt`: objects in place of text, runs on ranks of their own."""
