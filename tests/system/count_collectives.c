/* Counts, beneath mpi4py, the neighbourhood collectives and the persistent starts of a rank. */
#include <mpi.h>
#include <stdio.h>

static long collectives, starts;

int MPI_Neighbor_allgather(const void *send, int n, MPI_Datatype type, void *receive, int m,
                           MPI_Datatype other, MPI_Comm comm)
{
    collectives++;
    return PMPI_Neighbor_allgather(send, n, type, receive, m, other, comm);
}

#if MPI_VERSION >= 4 /* mpi4py prefers the large counts of MPI 4 where there are any */
int MPI_Neighbor_allgather_c(const void *send, MPI_Count n, MPI_Datatype type, void *receive,
                             MPI_Count m, MPI_Datatype other, MPI_Comm comm)
{
    collectives++;
    return PMPI_Neighbor_allgather_c(send, n, type, receive, m, other, comm);
}
#endif

int MPI_Start(MPI_Request *request)
{
    starts++;
    return PMPI_Start(request);
}

int MPI_Finalize(void)
{
    int rank;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    fprintf(stderr, "collectives %d %ld %ld\n", rank, collectives, starts);
    return PMPI_Finalize();
}
