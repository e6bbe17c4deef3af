/* The floor of `mpi-gt bench`: MPI_Neighbor_allgather, called from C in the ranks of the bench.

   mpicc -O2 -shared -fPIC neighbor_floor.c -o floor.so

   `mpi-gt bench -n` compiles it if it finds mpicc; the ranks load it beside mpi4py, with the same MPI
   library, and let it take turns with the exchange `neighbor`. */
#include <mpi.h>

/* Write the library's description of itself; text has room for MPI_MAX_LIBRARY_VERSION_STRING. */
int floor_library(char *text, int room) {
    int length;
    return room < MPI_MAX_LIBRARY_VERSION_STRING ? 1 : MPI_Get_library_version(text, &length);
}

/* Return the mean seconds of `count` exchanges of `bytes` with each neighbour; < 0 after an error. */
double floor_seconds(MPI_Comm *graph, const void *send, void *receive, int bytes, int count) {
    double began = MPI_Wtime();
    for (int k = 0; k < count; k++)
        if (MPI_Neighbor_allgather(send, bytes, MPI_BYTE, receive, bytes, MPI_BYTE, *graph))
            return -1;
    return (MPI_Wtime() - began) / count;
}
