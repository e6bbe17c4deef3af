"""Starting MPI ranks."""
