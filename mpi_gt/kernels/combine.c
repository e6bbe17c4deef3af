/* The weighted sum of the neighbours' vectors and the node's own; twin: WeightedSum in
   reference.py. */
#include "kernels.h"

#define PIECE 1024

/* Add weight * row to the total, row by row. Four rows per pass load and store the total less
   often, and change no sum. */
#define COMBINE(T)                                                                              \
    WIDE static void combine_##T(T *restrict total, const T *const *rows, const T *weights,     \
                                 npy_intp count, npy_intp length) {                             \
        for (npy_intp begin = 0; begin < length; begin += PIECE) {                              \
            npy_intp n = length - begin < PIECE ? length - begin : PIECE;                       \
            T *restrict out = total + begin;                                                    \
            const T *restrict first = rows[0] + begin;                                          \
            for (npy_intp i = 0; i < n; i++) out[i] = weights[0] * first[i];                    \
            npy_intp j = 1;                                                                     \
            for (; j + 4 <= count; j += 4) {                                                    \
                const T *restrict a = rows[j] + begin, *restrict b = rows[j + 1] + begin;       \
                const T *restrict c = rows[j + 2] + begin, *restrict d = rows[j + 3] + begin;   \
                T wa = weights[j], wb = weights[j + 1], wc = weights[j + 2], wd = weights[j + 3];\
                for (npy_intp i = 0; i < n; i++)                                                \
                    out[i] = (((out[i] + wa * a[i]) + wb * b[i]) + wc * c[i]) + wd * d[i];      \
            }                                                                                   \
            for (; j < count; j++) {                                                            \
                const T *restrict a = rows[j] + begin;                                          \
                T wa = weights[j];                                                              \
                for (npy_intp i = 0; i < n; i++) out[i] = out[i] + wa * a[i];                   \
            }                                                                                   \
        }                                                                                       \
    }
COMBINE(double)
COMBINE(float)

/* Set total to the sum of weight * row over `count` rows; the weights have the total's dtype. */
void combine_rows(PyArrayObject *total, const void **rows, const void *weights, npy_intp count) {
    npy_intp length = PyArray_SIZE(total);
    if (PyArray_TYPE(total) == NPY_DOUBLE)
        combine_double(PyArray_DATA(total), (const double *const *)rows, weights, count, length);
    else
        combine_float(PyArray_DATA(total), (const float *const *)rows, weights, count, length);
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
        if (size == sizeof(double))
            combine_double(total, (const double *const *)rows, (double *)weights, terms, length);
        else
            combine_float(total, (const float *const *)rows, (float *)weights, terms, length);
    }
    int failed = !rows || !weights;
    PyMem_Free(rows);
    PyMem_Free(weights);
    if (failed) return PyErr_NoMemory();
    Py_RETURN_NONE;
}
