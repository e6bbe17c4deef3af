/* The gradient of the Huber problem with a small dense Phi, all seeds in one call. */
#include "kernels.h"

#define LARGEST 64 /* from there on a BLAS is quicker */

/* Both products are sums of scaled rows of a matrix, in the order of the rows. */
#define HUBER(T)                                                                                \
    static ALWAYS_INLINE void add_rows_##T(T *restrict sum, const T *restrict matrix,           \
                                    const T *restrict factors, npy_intp d) {                    \
        for (npy_intp i = 0; i < d; i++) sum[i] = factors[0] * matrix[i];                       \
        for (npy_intp j = 1; j < d; j++)                                                        \
            for (npy_intp i = 0; i < d; i++) sum[i] = sum[i] + factors[j] * matrix[j * d + i];  \
    }                                                                                           \
    static ALWAYS_INLINE void walk_##T(T *out, const T *x, const T *columns, const T *rows,      \
                                       const T *theta, const T *noise, T k, T scale,            \
                                       npy_intp seeds, npy_intp d, npy_intp step) {             \
        T product[LARGEST], slope[LARGEST];                                                     \
        for (npy_intp seed = 0; seed < seeds; seed++) {                                         \
            add_rows_##T(product, columns, x, d);                                               \
            for (npy_intp i = 0; i < d; i++) {                                                  \
                T target = noise ? theta[i] + noise[i] : theta[i];                              \
                T residual = target - product[i];                                               \
                residual = MINIMUM(residual, k);                                                \
                slope[i] = MAXIMUM(residual, -k);                                               \
            }                                                                                   \
            add_rows_##T(product, rows, slope, d);                                              \
            for (npy_intp i = 0; i < d; i++) out[i] = product[i] * scale;                       \
            out += d, x += d, theta += d, columns += step, rows += step;                        \
            if (noise) noise += d;                                                              \
        }                                                                                       \
    }                                                                                           \
    WIDE static void huber_##T(T *out, const T *x, const T *columns, const T *rows,             \
                               const T *theta, const T *noise, T k, T scale, npy_intp seeds,    \
                               npy_intp d, npy_intp step) {                                     \
        if (d == 10 && noise) /* the paper's: the compiler unrolls its loops */                 \
            walk_##T(out, x, columns, rows, theta, noise, k, scale, seeds, 10, step);           \
        else                                                                                    \
            walk_##T(out, x, columns, rows, theta, noise, k, scale, seeds, d, step);            \
    }
HUBER(double)
HUBER(float)

/* huber(x, columns, rows, theta, noise, threshold, scale): scale Phi' clip(theta + noise - Phi x)
   for x, theta, noise (None: without) of shape (seeds, d); rows is Phi, (seeds or 1, d, d), and
   columns its transpose. None where the arrays are not plain or too large: numpy will do it. */
PyObject *kernels_huber(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    if (count != 7) {
        PyErr_SetString(PyExc_TypeError, "huber takes 7 arguments");
        return NULL;
    }
    for (int i = 0; i < 5; i++)
        if (!is_plain(arguments[i]) && !(i == 4 && arguments[i] == Py_None)) Py_RETURN_NONE;
    PyArrayObject *x = (PyArrayObject *)arguments[0], *columns = (PyArrayObject *)arguments[1];
    PyArrayObject *rows = (PyArrayObject *)arguments[2];
    PyArrayObject *theta = (PyArrayObject *)arguments[3];
    PyArrayObject *noise = arguments[4] == Py_None ? NULL : (PyArrayObject *)arguments[4];
    double k = PyFloat_AsDouble(arguments[5]), scale = PyFloat_AsDouble(arguments[6]);
    if (PyErr_Occurred()) return NULL;
    int type = PyArray_TYPE(x);
    if (PyArray_NDIM(x) != 2 || PyArray_NDIM(rows) != 3 || !same_shape(x, theta) ||
        (noise && !same_shape(x, noise)) || !same_shape(rows, columns) ||
        PyArray_TYPE(rows) != type || PyArray_TYPE(columns) != type ||
        PyArray_TYPE(theta) != type || (noise && PyArray_TYPE(noise) != type))
        Py_RETURN_NONE;
    npy_intp seeds = PyArray_DIM(x, 0), d = PyArray_DIM(x, 1), matrices = PyArray_DIM(rows, 0);
    if (d < 1 || d > LARGEST || PyArray_DIM(rows, 1) != d || PyArray_DIM(rows, 2) != d ||
        (matrices != 1 && matrices != seeds))
        Py_RETURN_NONE;
    PyArrayObject *out = new_like(x);
    if (!out) return NULL;
    npy_intp step = matrices == 1 ? 0 : d * d;
    void *draws = noise ? PyArray_DATA(noise) : NULL;
    if (type == NPY_DOUBLE)
        huber_double(PyArray_DATA(out), PyArray_DATA(x), PyArray_DATA(columns), PyArray_DATA(rows),
                     PyArray_DATA(theta), draws, k, scale, seeds, d, step);
    else
        huber_float(PyArray_DATA(out), PyArray_DATA(x), PyArray_DATA(columns), PyArray_DATA(rows),
                    PyArray_DATA(theta), draws, (float)k, (float)scale, seeds, d, step);
    return (PyObject *)out;
}
