/* The C program that mpi-gt is compared with: the same iteration, written by hand.

   reference huber FOLDER ITERATIONS [shared]   Algorithm 1 on the Huber problem, all seeds in one message
   reference mix FOLDER ITERATIONS [shared]     MPI_Neighbor_allgather and the weighted sum alone

   With `shared`, the ranks, all on one host, read their neighbours' vectors in a shared window instead.

   FOLDER/node-RANK.bin, written by sides.py, holds the part of one node: as int64 its degree,
   seeds, dim, rows of noise, own place among the neighbours, and the neighbours; as float64 the
   weights (its own at its place), Phi (seeds, d, d), theta (seeds, d) and noise (rows, seeds, d),
   whose rows are used in turn. `mix` has no Phi, theta and noise. Rank 0 prints the seconds per
   iteration of each twentieth of the loop; every rank writes its x to FOLDER/x-RANK.bin. */
#define _GNU_SOURCE
#include <limits.h>
#include <linux/futex.h>
#include <math.h>
#include <mpi.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const double lr = 0.01, beta1 = 0.9, beta2 = 0.999, vmin = 1e-8, vmax = 100, threshold = 1;

typedef struct {
    int degree, seeds, dim, rows, place;
    int *neighbours;
    double *weights, *phi, *theta, *noise;
    size_t length; /* entries of one vector, all seeds together */
    MPI_Comm graph;
} Node;

/* An exchange of `length` entries with all neighbours, by the collective or through the window. */
typedef struct {
    size_t length;
    double *receive;     /* by the collective */
    const double **rows; /* where the neighbours' entries are after an exchange */
    char *own, **others; /* the segments in the window, NULL without */
    uint32_t count;      /* of exchanges */
} Exchange;

static void fail(const char *what) {
    fprintf(stderr, "reference: %s\n", what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static double *zeros(size_t count) {
    double *new = calloc(count ? count : 1, sizeof(double));
    if (!new) fail("out of memory");
    return new;
}

static double *read_doubles(FILE *file, size_t count) {
    double *values = zeros(count);
    if (fread(values, sizeof(double), count, file) != count) fail("the file is too short");
    return values;
}

static Node read_node(const char *folder, int rank, int is_huber) {
    char path[4096];
    snprintf(path, sizeof path, "%s/node-%d.bin", folder, rank);
    FILE *file = fopen(path, "rb");
    int64_t head[5];
    if (!file || fread(head, sizeof head, 1, file) != 1) fail("cannot read the node's file");
    Node node = {.degree = head[0], .seeds = head[1], .dim = head[2], .rows = head[3],
                 .place = head[4], .length = (size_t)head[1] * head[2]};
    int64_t *neighbours = malloc(sizeof(int64_t) * (node.degree + 1));
    node.neighbours = malloc(sizeof(int) * (node.degree + 1));
    if (fread(neighbours, sizeof(int64_t), node.degree, file) != (size_t)node.degree)
        fail("the file is too short");
    for (int j = 0; j < node.degree; j++) node.neighbours[j] = (int)neighbours[j];
    free(neighbours);
    node.weights = read_doubles(file, node.degree + 1);
    if (is_huber) {
        node.phi = read_doubles(file, node.length * node.dim);
        node.theta = read_doubles(file, node.length);
        node.noise = read_doubles(file, node.length * node.rows);
    }
    fclose(file);
    MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, node.degree, node.neighbours, MPI_UNWEIGHTED,
                                   node.degree, node.neighbours, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                   &node.graph);
    return node;
}

enum { LINE = 64 };

static size_t slot_bytes(const Exchange *exchange) {
    return (exchange->length * sizeof(double) + LINE - 1) / LINE * LINE;
}

static Exchange make_exchange(const Node *node, size_t length, int shared) {
    Exchange made = {.length = length};
    made.rows = malloc(sizeof(double *) * (node->degree + 1));
    if (!shared) {
        made.receive = zeros(length * node->degree);
        for (int j = 0; j < node->degree; j++) made.rows[j] = made.receive + length * j;
        return made;
    }
    MPI_Win window;
    MPI_Win_allocate_shared(LINE + 2 * slot_bytes(&made), 1, MPI_INFO_NULL, MPI_COMM_WORLD,
                            &made.own, &window);
    memset(made.own, 0, LINE + 2 * slot_bytes(&made));
    made.others = malloc(sizeof(char *) * (node->degree + 1));
    for (int j = 0; j < node->degree; j++) {
        MPI_Aint size;
        int unit;
        MPI_Win_shared_query(window, node->neighbours[j], &size, &unit, &made.others[j]);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return made;
}

/* A segment begins with the count of exchanges and the number of ranks that sleep on it. */
static void await(char *segment, uint32_t count) {
    uint32_t *word = (uint32_t *)segment;
    for (int look = 0;; look++) {
        if ((int32_t)(__atomic_load_n(word, __ATOMIC_ACQUIRE) - count) >= 0) return;
        if (look == 0) {
            sched_yield();
            continue;
        }
        __atomic_fetch_add(word + 1, 1, __ATOMIC_SEQ_CST);
        uint32_t seen = __atomic_load_n(word, __ATOMIC_SEQ_CST);
        if ((int32_t)(seen - count) < 0) syscall(SYS_futex, word, FUTEX_WAIT, seen, NULL, NULL, 0);
        __atomic_fetch_sub(word + 1, 1, __ATOMIC_SEQ_CST);
    }
}

/* Send the entries, and let `rows` point to those of the neighbours. */
static void swap_with_neighbours(const Node *node, Exchange *exchange, const double *send) {
    if (!exchange->own) {
        MPI_Neighbor_allgather(send, exchange->length, MPI_DOUBLE, exchange->receive,
                               exchange->length, MPI_DOUBLE, node->graph);
        return;
    }
    size_t slot = LINE + (exchange->count & 1) * slot_bytes(exchange);
    memcpy(exchange->own + slot, send, exchange->length * sizeof(double));
    uint32_t *word = (uint32_t *)exchange->own;
    __atomic_store_n(word, ++exchange->count, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(word + 1, __ATOMIC_SEQ_CST))
        syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    for (int j = 0; j < node->degree; j++) {
        await(exchange->others[j], exchange->count);
        exchange->rows[j] = (const double *)(exchange->others[j] + slot);
    }
}

/* Computes sum_j A_ij z_j in rank order; z_j begins `offset` entries after rows[j]. */
static void combine(const Node *node, const double **rows, size_t offset, const double *own,
                    double *total) {
    enum { PIECE = 1024 };
    for (size_t begin = 0; begin < node->length; begin += PIECE) {
        size_t n = node->length - begin < PIECE ? node->length - begin : PIECE;
        double *restrict out = total + begin;
        for (size_t i = 0; i < n; i++) out[i] = 0;
        for (int at = 0, row = 0; at <= node->degree; at++) {
            const double *restrict z = at == node->place ? own : rows[row++] + offset;
            double weight = node->weights[at];
            for (size_t i = 0; i < n; i++) out[i] += weight * z[begin + i];
        }
    }
}

static void gradient(const Node *node, int t, const double *x, double *slope, double *g) {
    int d = node->dim;
    const double *noise = node->rows ? node->noise + node->length * (t % node->rows) : NULL;
    for (int seed = 0; seed < node->seeds; seed++) {
        const double *phi = node->phi + (size_t)seed * d * d;
        const double *at = x + (size_t)seed * d;
        double *restrict out = g + (size_t)seed * d;
        for (int i = 0; i < d; i++) {
            size_t entry = (size_t)seed * d + i;
            double r = node->theta[entry] + (noise ? noise[entry] : 0);
            for (int j = 0; j < d; j++) r -= phi[i * d + j] * at[j];
            slope[i] = fmax(fmin(r, threshold), -threshold);
            out[i] = 0;
        }
        for (int i = 0; i < d; i++)
            for (int j = 0; j < d; j++) out[j] -= slope[i] * phi[i * d + j];
    }
}

/* Records the time at each twentieth of the iterations; call it with t = 0, 1, ... */
enum { PARTS = 20 };
static double stamps[PARTS + 1];

static void note(int t, int iterations) {
    if (t == 0) MPI_Barrier(MPI_COMM_WORLD);
    if (t % (iterations / PARTS) == 0) stamps[t / (iterations / PARTS)] = MPI_Wtime();
}

static void huber(const Node *node, int iterations, int shared, double *result) {
    size_t length = node->length;
    Exchange exchange = make_exchange(node, 2 * length, shared);
    double *send = zeros(2 * length);
    double *x = send, *s = send + length; /* the two vectors in the message */
    double *mixed = zeros(length), *m = zeros(length), *v = zeros(length);
    double *g = zeros(length), *g_new = zeros(length), *slope = zeros(node->dim);
    gradient(node, 0, x, slope, g);
    for (size_t i = 0; i < length; i++) s[i] = g[i], v[i] = g[i] * g[i];
    note(0, iterations);
    for (int t = 1; t <= iterations; t++) {
        swap_with_neighbours(node, &exchange, send);
        combine(node, exchange.rows, 0, x, mixed);
        for (size_t i = 0; i < length; i++) {
            m[i] = beta1 * m[i] + (1 - beta1) * s[i];
            v[i] = fmax(fmin(beta2 * v[i] + (1 - beta2) * s[i] * s[i], vmax), vmin);
            x[i] = mixed[i] - lr * m[i] / sqrt(v[i]);
        }
        gradient(node, t, x, slope, g_new);
        combine(node, exchange.rows, length, s, mixed);
        for (size_t i = 0; i < length; i++) s[i] = mixed[i] + g_new[i] - g[i];
        double *swap = g;
        g = g_new, g_new = swap;
        note(t, iterations);
    }
    memcpy(result, x, length * sizeof(double));
}

static void mix(const Node *node, int iterations, int shared, double *result) {
    size_t length = node->length;
    Exchange exchange = make_exchange(node, length, shared);
    double *z = zeros(length), *mixed = zeros(length);
    for (size_t i = 0; i < length; i++) z[i] = (double)(i % 7) + node->place;
    note(0, iterations);
    for (int t = 1; t <= iterations; t++) {
        swap_with_neighbours(node, &exchange, z);
        combine(node, exchange.rows, 0, z, mixed);
        double *swap = z;
        z = mixed, mixed = swap;
        note(t, iterations);
    }
    memcpy(result, z, length * sizeof(double));
}

int main(int count, char **words) {
    int level, rank;
    MPI_Init_thread(&count, &words, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int shared = count == 5 && !strcmp(words[4], "shared");
    if (count != 4 && !shared) fail("reference huber|mix FOLDER ITERATIONS [shared]");
    int is_huber = !strcmp(words[1], "huber"), iterations = atoi(words[3]);
    if (iterations < PARTS || iterations % PARTS) fail("ITERATIONS must be a multiple of 20");
    Node node = read_node(words[2], rank, is_huber);
    double *result = zeros(node.length);
    (is_huber ? huber : mix)(&node, iterations, shared, result);
    char path[4096];
    snprintf(path, sizeof path, "%s/x-%d.bin", words[2], rank);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(result, sizeof(double), node.length, file) != node.length)
        fail("cannot write the result");
    fclose(file);
    for (int part = 1; rank == 0 && part <= PARTS; part++)
        printf("%.9e\n", (stamps[part] - stamps[part - 1]) * PARTS / iterations);
    MPI_Finalize();
    return 0;
}
