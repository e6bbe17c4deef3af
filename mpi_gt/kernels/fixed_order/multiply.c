/* Products of matrices in a fixed order: every entry is the sum of its terms one after the other,
   from the first to the last, whatever the processor. Twin: multiply in tests/kernels. */
#include "../kernels.h"

#define DEPTH 256  /* terms per pass: then what a pass reads stays in the cache */
#define HEIGHT 256 /* rows of the left matrix that are packed together */
#define ROWS 4     /* of a tile, which has two vectors per row */
#define BYTES 32   /* of a vector; without AVX2 the compiler makes two of it */

/* Where a matrix lies: entry (i, j) is data[i * down + j * right]. */
typedef struct {
    char *data;
    npy_intp down, right; /* in entries */
} Matrix;

#if defined(__GNUC__)
#define VECTOR(T)                                             \
    typedef T vector_##T __attribute__((vector_size(BYTES))); \
    typedef T loose_##T __attribute__((vector_size(BYTES), aligned(sizeof(T)), may_alias))
#else
#error "the kernels need the vector types of GCC or Clang"
#endif
VECTOR(double);
VECTOR(float);

#define LOAD(T, z, row)                                               \
    z##0 = *(loose_##T *)(sums + row * WIDTH_##T);                    \
    z##1 = *(loose_##T *)(sums + row * WIDTH_##T + LANES_##T);
#define STORE(T, z, row)                                              \
    *(loose_##T *)(sums + row * WIDTH_##T) = z##0;                    \
    *(loose_##T *)(sums + row * WIDTH_##T + LANES_##T) = z##1;
#define ADD(z, row)                     \
    if (row < rows) {                   \
        z##0 = z##0 + left[row] * low;  \
        z##1 = z##1 + left[row] * high; \
    }

/* A vector holds neighbouring entries of the result, never partial sums of one: so its width does
   not change a bit. */
#define MULTIPLY(T)                                                                              \
    enum { LANES_##T = BYTES / sizeof(T), WIDTH_##T = 2 * LANES_##T };                           \
                                                                                                 \
    /* Add left (depth, ROWS), of which `rows` are used, times right (depth, WIDTH) to sums. */  \
    static ALWAYS_INLINE void tile_##T(const T *left, const T *right, npy_intp apart,            \
                                       npy_intp depth, T *sums, int rows) {                      \
        /* variables, since compilers leave an array of vectors in memory */                     \
        vector_##T a0, a1, b0, b1, c0, c1, d0, d1;                                               \
        LOAD(T, a, 0) LOAD(T, b, 1) LOAD(T, c, 2) LOAD(T, d, 3)                                  \
        for (npy_intp k = 0; k < depth; k++, left += ROWS, right += apart) {                     \
            vector_##T low = *(const loose_##T *)right;                                          \
            vector_##T high = *(const loose_##T *)(right + LANES_##T);                           \
            ADD(a, 0) ADD(b, 1) ADD(c, 2) ADD(d, 3)                                              \
        }                                                                                        \
        STORE(T, a, 0) STORE(T, b, 1) STORE(T, c, 2) STORE(T, d, 3)                              \
    }                                                                                            \
    WIDE static void tiles_##T(const T *left, const T *right, npy_intp apart, npy_intp depth,    \
                               T *sums, int rows) {                                              \
        switch (rows) { /* constants, for which the compiler keeps the sums in registers */      \
        case 1: tile_##T(left, right, apart, depth, sums, 1); break;                             \
        case 2: tile_##T(left, right, apart, depth, sums, 2); break;                             \
        case 3: tile_##T(left, right, apart, depth, sums, 3); break;                             \
        default: tile_##T(left, right, apart, depth, sums, 4);                                   \
        }                                                                                        \
    }                                                                                            \
                                                                                                 \
    /* Copy (depth, count) entries to lines of `width`, filled up with zeros. */                 \
    static ALWAYS_INLINE void pack_##T(T *restrict to, const T *restrict from, npy_intp down,    \
                                       npy_intp right, npy_intp depth, npy_intp count,           \
                                       npy_intp width) {                                         \
        if (count == width) {                                                                    \
            for (npy_intp k = 0; k < depth; k++, to += width, from += down)                      \
                for (npy_intp j = 0; j < width; j++) to[j] = from[j * right];                    \
            return;                                                                              \
        }                                                                                        \
        for (npy_intp k = 0; k < depth; k++, to += width, from += down)                          \
            for (npy_intp j = 0; j < width; j++) to[j] = j < count ? from[j * right] : 0;        \
    }                                                                                            \
                                                                                                 \
    /* Copy (rows, count) entries of the result to or from a tile. */                            \
    static void exchange_##T(T *tile, T *out, Matrix where, npy_intp rows, npy_intp count,       \
                             int is_back) {                                                      \
        for (npy_intp i = 0; i < rows; i++, tile += WIDTH_##T, out += where.down) {              \
            if (where.right == 1) {                                                              \
                memcpy(is_back ? out : tile, is_back ? tile : out, count * sizeof(T));           \
                continue;                                                                        \
            }                                                                                    \
            for (npy_intp j = 0; j < count; j++)                                                 \
                if (is_back) out[j * where.right] = tile[j];                                     \
                else tile[j] = out[j * where.right];                                             \
        }                                                                                        \
    }                                                                                            \
                                                                                                 \
    /* Add a block of left (height, depth) times right (depth, width) to the result. */          \
    static void block_##T(Matrix out, const T *left, Matrix right, npy_intp height,              \
                          npy_intp depth, npy_intp width, int is_new, T *work) {                 \
        T sums[ROWS * WIDTH_##T];                                                                \
        for (npy_intp j = 0; j < width; j += WIDTH_##T) {                                        \
            npy_intp count = width - j < WIDTH_##T ? width - j : WIDTH_##T;                      \
            const T *from = (T *)right.data + j * right.right;                                   \
            npy_intp apart = right.down;                                                         \
            if (right.right != 1 || count < WIDTH_##T) {                                         \
                pack_##T(work, from, right.down, right.right, depth, count, WIDTH_##T);          \
                from = work, apart = WIDTH_##T;                                                  \
            }                                                                                    \
            for (npy_intp i = 0; i < height; i += ROWS) {                                        \
                npy_intp rows = height - i < ROWS ? height - i : ROWS;                           \
                T *to = (T *)out.data + i * out.down + j * out.right;                            \
                memset(sums, 0, sizeof sums);                                                    \
                if (!is_new) exchange_##T(sums, to, out, rows, count, 0);                        \
                tiles_##T(left + i * depth, from, apart, depth, sums, (int)rows);                \
                exchange_##T(sums, to, out, rows, count, 1);                                     \
            }                                                                                    \
        }                                                                                        \
    }                                                                                            \
                                                                                                 \
    /* Set out (m, n) to a (m, depth) times b (depth, n), or add that if not `is_new`. */        \
    static void multiply_##T(Matrix out, Matrix a, Matrix b, npy_intp m, npy_intp depth,         \
                             npy_intp n, int is_new, T *work) {                                  \
        T *left = work + DEPTH * WIDTH_##T;                                                      \
        for (npy_intp k = 0; k < depth; k += DEPTH) {                                            \
            npy_intp terms = depth - k < DEPTH ? depth - k : DEPTH;                              \
            Matrix right = b;                                                                    \
            right.data = (char *)((T *)b.data + k * b.down);                                     \
            for (npy_intp top = 0; top < m; top += HEIGHT) {                                     \
                npy_intp height = m - top < HEIGHT ? m - top : HEIGHT;                           \
                for (npy_intp i = 0; i < height; i += ROWS)                                      \
                    pack_##T(left + i * terms,                                                   \
                             (T *)a.data + (top + i) * a.down + k * a.right, a.right, a.down,    \
                             terms, height - i < ROWS ? height - i : ROWS, ROWS);                \
                Matrix part = out;                                                               \
                part.data = (char *)((T *)out.data + top * out.down);                            \
                block_##T(part, left, right, height, terms, n, is_new && k == 0, work);          \
            }                                                                                    \
        }                                                                                        \
    }
MULTIPLY(double)
MULTIPLY(float)

static Matrix transposed(Matrix z) { return (Matrix){z.data, z.right, z.down}; }

/* Read matrix number i of a stack; return 0 if the strides are no multiples of an entry. */
static int read_matrix(PyArrayObject *stack, npy_intp i, Matrix *matrix) {
    npy_intp size = PyArray_ITEMSIZE(stack);
    npy_intp down = PyArray_STRIDE(stack, 1), right = PyArray_STRIDE(stack, 2);
    *matrix = (Matrix){PyArray_BYTES(stack) + i * PyArray_STRIDE(stack, 0), down / size,
                       right / size};
    return down % size == 0 && right % size == 0;
}

/* multiply(out, a, b, add): set out (stack, m, n), or add to it, a (stack, m, k) times
   b (stack, k, n); all of one dtype, with any strides, and out apart from the others. */
PyObject *kernels_multiply(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    PyArrayObject *all[3];
    int fits = count == 4;
    for (int i = 0; fits && i < 3; i++) {
        all[i] = (PyArrayObject *)arguments[i];
        fits = PyArray_CheckExact(arguments[i]) && PyArray_NDIM(all[i]) == 3 &&
               PyArray_ISBEHAVED_RO(all[i]) && PyArray_TYPE(all[i]) == PyArray_TYPE(all[0]) &&
               PyArray_DIM(all[i], 0) == PyArray_DIM(all[0], 0);
    }
    int type = fits ? PyArray_TYPE(all[0]) : -1, add = fits ? PyObject_IsTrue(arguments[3]) : -1;
    if (PyErr_Occurred()) return NULL;
    if (!fits || (type != NPY_DOUBLE && type != NPY_FLOAT) || !PyArray_ISWRITEABLE(all[0]) ||
        PyArray_DIM(all[1], 1) != PyArray_DIM(all[0], 1) ||
        PyArray_DIM(all[2], 2) != PyArray_DIM(all[0], 2) ||
        PyArray_DIM(all[1], 2) != PyArray_DIM(all[2], 1)) {
        PyErr_SetString(PyExc_ValueError, "multiply takes stacks of matrices that fit together");
        return NULL;
    }
    npy_intp m = PyArray_DIM(all[0], 1), n = PyArray_DIM(all[0], 2), k = PyArray_DIM(all[1], 2);
    if (!add && k == 0) PyArray_FILLWBYTE(all[0], 0);
    char *work = PyMem_Malloc(DEPTH * (2 * BYTES + HEIGHT * PyArray_ITEMSIZE(all[0])));
    if (!work) return PyErr_NoMemory();
    for (npy_intp i = 0; i < PyArray_DIM(all[0], 0); i++) {
        Matrix out, a, b;
        if (!(read_matrix(all[0], i, &out) & read_matrix(all[1], i, &a) &
              read_matrix(all[2], i, &b))) {
            PyErr_SetString(PyExc_ValueError, "multiply takes entries a whole number apart");
            break;
        }
        npy_intp tall = m, wide = n;
        if (m > n) { /* vectors along the longer side; the order of each sum stays */
            Matrix left = transposed(b);
            b = transposed(a), a = left, out = transposed(out), tall = n, wide = m;
        }
        if (type == NPY_DOUBLE)
            multiply_double(out, a, b, tall, k, wide, !add, (double *)work);
        else
            multiply_float(out, a, b, tall, k, wide, !add, (float *)work);
    }
    PyMem_Free(work);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}
