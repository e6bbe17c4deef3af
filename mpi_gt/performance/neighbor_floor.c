/* The floor of `mpi-gt bench`: MPI_Neighbor_allgather on the same graph and message sizes, from C.

   mpicc -O2 neighbor_floor.c -o neighbor_floor
   mpirun -n N neighbor_floor GRAPH SECONDS SIZE...

   GRAPH holds one line per node: its degree, then its neighbours. For each SIZE (bytes of vectors;
   16 bytes of header are added, as in mpi-gt) rank 0 prints the size, then min, median, p95 and p99
   of the seconds per exchange over batches, as the slowest rank saw them, and the number of batches.
   `mpi-gt bench` compiles and starts this program if it finds mpicc. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER = 16, GROUP = 20, MOST = 200 };

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void fail(const char *text) {
    fprintf(stderr, "neighbor_floor: %s\n", text);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static int read_row(const char *path, int rank, int **neighbours) {
    FILE *file = fopen(path, "r");
    int degree = 0;
    if (!file) fail("cannot read the graph");
    for (int node = 0; node <= rank; node++) {
        if (fscanf(file, "%d", &degree) != 1) fail("the graph is too short");
        *neighbours = realloc(*neighbours, (degree + 1) * sizeof(int));
        for (int j = 0; j < degree; j++)
            if (fscanf(file, "%d", *neighbours + j) != 1) fail("the graph is too short");
    }
    fclose(file);
    return degree;
}

static double batch(MPI_Comm graph, const char *send, char *receive, int bytes, int count) {
    double began = MPI_Wtime();
    for (int k = 0; k < count; k++)
        MPI_Neighbor_allgather(send, bytes, MPI_BYTE, receive, bytes, MPI_BYTE, graph);
    return (MPI_Wtime() - began) / count;
}

int main(int argc, char **argv) {
    int provided, rank, *neighbours = NULL;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided); /* as mpi-gt does */
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc < 4) fail("usage: neighbor_floor GRAPH SECONDS SIZE...");
    int degree = read_row(argv[1], rank, &neighbours);
    double budget = atof(argv[2]);
    MPI_Comm graph;
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, degree, neighbours, MPI_UNWEIGHTED, degree,
                                   neighbours, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph);
    for (int k = 3; k < argc; k++) {
        int bytes = atoi(argv[k]) + HEADER;
        char *send = malloc(bytes), *receive = malloc((size_t)bytes * (degree + 1));
        memset(send, rank & 127, bytes);
        double samples[MOST], group[GROUP], spent = 0, once = batch(graph, send, receive, bytes, 3);
        for (int j = 0; j < degree; j++)
            if (receive[(size_t)j * bytes + bytes - 1] != (neighbours[j] & 127))
                fail("other bytes arrived than were sent");
        MPI_Allreduce(MPI_IN_PLACE, &once, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        int count = once > 1e-3 ? 1 : (int)(1e-3 / once) + 1, taken = 0;
        if (count > 20) count = 20;
        while (taken < MOST && (taken == 0 || spent < budget)) {
            for (int i = 0; i < GROUP; i++) group[i] = batch(graph, send, receive, bytes, count);
            MPI_Allreduce(MPI_IN_PLACE, group, GROUP, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
            for (int i = 0; i < GROUP; i++) {
                samples[taken++] = group[i];
                spent += group[i] * count;
            }
        }
        qsort(samples, taken, sizeof(double), ascending);
        if (rank == 0)
            printf("%s %.9e %.9e %.9e %.9e %d\n", argv[k], samples[0], samples[taken / 2],
                   samples[taken * 95 / 100], samples[taken * 99 / 100], taken);
        free(send);
        free(receive);
    }
    MPI_Comm_free(&graph);
    free(neighbours);
    MPI_Finalize();
    return 0;
}
