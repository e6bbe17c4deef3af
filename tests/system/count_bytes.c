/* Adds up, beneath mpi4py, the bytes that a rank gives to the neighbourhood collective, per target. */
#include <mpi.h>
#include <stdio.h>

static long long calls, bytes;

static void count(MPI_Comm comm, long long n, MPI_Datatype type)
{
    int sources, targets, weighted, size;
    PMPI_Dist_graph_neighbors_count(comm, &sources, &targets, &weighted);
    PMPI_Type_size(type, &size);
    calls++;
    bytes += targets * n * size;
}

int MPI_Neighbor_allgather(const void *send, int n, MPI_Datatype type, void *receive, int m,
                           MPI_Datatype other, MPI_Comm comm)
{
    count(comm, n, type);
    return PMPI_Neighbor_allgather(send, n, type, receive, m, other, comm);
}

#if MPI_VERSION >= 4 /* mpi4py prefers the large counts of MPI 4 where there are any */
int MPI_Neighbor_allgather_c(const void *send, MPI_Count n, MPI_Datatype type, void *receive,
                             MPI_Count m, MPI_Datatype other, MPI_Comm comm)
{
    count(comm, n, type);
    return PMPI_Neighbor_allgather_c(send, n, type, receive, m, other, comm);
}
#endif

int MPI_Finalize(void)
{
    int rank;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    fprintf(stderr, "bytes %d %lld %lld\n", rank, calls, bytes);
    return PMPI_Finalize();
}
