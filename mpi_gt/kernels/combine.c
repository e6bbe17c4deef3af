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

/* Set total to the sum of weight * row over all rows; there is one row per weight. */
void combine_rows(PyArrayObject *total, const void **rows, PyArrayObject *weights) {
    npy_intp count = PyArray_SIZE(weights), length = PyArray_SIZE(total);
    if (PyArray_TYPE(total) == NPY_DOUBLE)
        combine_double(PyArray_DATA(total), (const double *const *)rows, PyArray_DATA(weights),
                       count, length);
    else
        combine_float(PyArray_DATA(total), (const float *const *)rows, PyArray_DATA(weights),
                      count, length);
}
