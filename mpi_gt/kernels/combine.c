/* The weighted sum of the neighbours' vectors and the node's own; twin: WeightedSum in
   reference.py. */
#include "kernels.h"

#define CHUNK 32 /* entries whose sums stay in registers while all rows pass by */

/* Set out to the sum of weight * row, row by row, over the entries [begin, begin + n) of the rows. One
   pass over all rows reads each entry once and writes each sum once; wide registers hold the sums of
   different entries, so that no sum changes. */
#define COMBINE(T)                                                                              \
    WIDE static void combine_##T(T *restrict out, const T *const *rows, const T *weights,       \
                                 npy_intp count, npy_intp begin, npy_intp n) {                  \
        npy_intp i = 0;                                                                         \
        for (; i + CHUNK <= n; i += CHUNK) {                                                    \
            T sums[CHUNK];                                                                      \
            const T *first = rows[0] + begin + i;                                               \
            for (int k = 0; k < CHUNK; k++) sums[k] = weights[0] * first[k];                    \
            for (npy_intp j = 1; j < count; j++) {                                              \
                const T *row = rows[j] + begin + i;                                             \
                T weight = weights[j];                                                          \
                for (int k = 0; k < CHUNK; k++) sums[k] = sums[k] + weight * row[k];            \
            }                                                                                   \
            for (int k = 0; k < CHUNK; k++) out[i + k] = sums[k];                               \
        }                                                                                       \
        for (; i < n; i++) {                                                                    \
            T sum = weights[0] * rows[0][begin + i];                                            \
            for (npy_intp j = 1; j < count; j++) sum = sum + weights[j] * rows[j][begin + i];   \
            out[i] = sum;                                                                       \
        }                                                                                       \
    }
COMBINE(double)
COMBINE(float)

/* Set out to n entries of the sum, from `begin` on, in float64 or in float32. */
void combine_part(const Sum *sum, int type, void *out, npy_intp begin, npy_intp n) {
    if (type == NPY_DOUBLE)
        combine_double(out, (const double *const *)sum->rows, sum->weights, sum->count, begin, n);
    else
        combine_float(out, (const float *const *)sum->rows, sum->weights, sum->count, begin, n);
}

/* mix_all(out, matrix, z): set out[i] to the sum of matrix[i, j] z[j] over all j whose weight is not
   zero, as rank i adds up what its neighbours send. All arrays are plain and of one dtype. */
PyObject *kernels_mix_all(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    int fits = count == 3;
    for (int i = 0; fits && i < 3; i++) fits = is_plain(arguments[i]);
    PyArrayObject *out = (PyArrayObject *)arguments[0], *matrix = (PyArrayObject *)arguments[1];
    PyArrayObject *z = (PyArrayObject *)arguments[2];
    npy_intp n = fits && PyArray_NDIM(z) == 2 ? PyArray_DIM(z, 0) : 0;
    if (n < 1 || !is_alike((PyObject *)out, z) || !PyArray_ISWRITEABLE(out) ||
        PyArray_TYPE(matrix) != PyArray_TYPE(z) || PyArray_NDIM(matrix) != 2 ||
        PyArray_DIM(matrix, 0) != n || PyArray_DIM(matrix, 1) != n) {
        PyErr_SetString(PyExc_ValueError, "mix_all takes out (n, d), matrix (n, n) and z (n, d)");
        return NULL;
    }
    npy_intp size = PyArray_ITEMSIZE(z), length = PyArray_DIM(z, 1);
    const void **rows = PyMem_Malloc(n * sizeof(void *));
    char *weights = PyMem_Malloc(n * size);
    for (npy_intp i = 0; rows && weights && i < n; i++) {
        npy_intp terms = 0;
        for (npy_intp j = 0; j < n; j++) {
            const char *weight = PyArray_GETPTR2(matrix, i, j);
            double value = size == sizeof(double) ? *(double *)weight : *(float *)weight;
            if (value == 0 && j != i) continue;
            memcpy(weights + terms * size, weight, size);
            rows[terms++] = PyArray_GETPTR1(z, j);
        }
        void *total = PyArray_GETPTR1(out, i);
        Sum sum = {rows, weights, terms};
        combine_part(&sum, PyArray_TYPE(z), total, 0, length);
    }
    int failed = !rows || !weights;
    PyMem_Free(rows);
    PyMem_Free(weights);
    if (failed) return PyErr_NoMemory();
    Py_RETURN_NONE;
}
