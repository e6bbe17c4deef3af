/* One rank's share of the metrics for a float64 state, in one call. The twin is _local_metrics in
   engine/metrics.py, which adds up the consensus in another order. */
#include "kernels.h"
#include <math.h>

#define IS_SUSPECT(value) !(fabs(value) < 1e150) /* as in metrics.py; true for NaN as well */

/* Copy lines to lines that begin `apart` entries from each other; return whether any value is
   suspect. */
WIDE static int copy(double *restrict to, npy_intp apart, const double *restrict from,
                     npy_intp lines, npy_intp length) {
    int suspect = 0;
    for (npy_intp line = 0; line < lines; line++, from += length, to += apart)
        for (npy_intp i = 0; i < length; i++) {
            to[i] = from[i];
            suspect |= IS_SUSPECT(from[i]);
        }
    return suspect;
}

WIDE static int any_suspect(const double *values, npy_intp length) {
    int suspect = 0;
    for (npy_intp i = 0; i < length; i++) suspect |= IS_SUSPECT(values[i]);
    return suspect;
}

/* Return ||a - b||^2, by four partial sums that the compiler can vectorise. */
WIDE static double distance2(const double *a, const double *b, npy_intp length) {
    double sums[4] = {0};
    npy_intp i = 0;
    for (; i + 4 <= length; i += 4)
        for (int j = 0; j < 4; j++) sums[j] += (a[i + j] - b[i + j]) * (a[i + j] - b[i + j]);
    for (; i < length; i++) sums[0] += (a[i] - b[i]) * (a[i] - b[i]);
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

static int all_like(PyObject *tuple, PyArrayObject *model) {
    if (!PyTuple_Check(tuple)) return 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++)
        if (!is_alike(PyTuple_GET_ITEM(tuple, i), model)) return 0;
    return 1;
}

static int is_among(PyObject *thing, PyObject *tuple) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++)
        if (PyTuple_GET_ITEM(tuple, i) == thing) return 1;
    return 0;
}

/* local_metrics(x, xbar, sent, columns, vectors, state): return one line per seed with consensus,
   sent, 1 if any value of these or of the state is suspect else 0, the columns (seeds,) and the
   vectors (seeds, d); None if an array is not float64 or does not have the shape of x. */
PyObject *kernels_local_metrics(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    if (count != 6) {
        PyErr_SetString(PyExc_TypeError,
                        "local_metrics takes x, xbar, sent, columns, vectors and state");
        return NULL;
    }
    PyArrayObject *x = (PyArrayObject *)arguments[0];
    PyObject *columns = arguments[3], *vectors = arguments[4], *state = arguments[5];
    if (!is_plain(arguments[0]) || PyArray_TYPE(x) != NPY_DOUBLE || PyArray_NDIM(x) != 2 ||
        !is_alike(arguments[1], x) || !all_like(vectors, x) || !all_like(state, x) ||
        !PyTuple_Check(columns) || !PyLong_Check(arguments[2]))
        Py_RETURN_NONE;
    npy_intp seeds = PyArray_DIM(x, 0), d = PyArray_DIM(x, 1), heads = PyTuple_GET_SIZE(columns);
    for (npy_intp i = 0; i < heads; i++) {
        PyArrayObject *column = (PyArrayObject *)PyTuple_GET_ITEM(columns, i);
        if (!is_plain((PyObject *)column) || PyArray_TYPE(column) != NPY_DOUBLE ||
            PyArray_NDIM(column) != 1 || PyArray_DIM(column, 0) != seeds)
            Py_RETURN_NONE;
    }
    double sent = PyLong_AsDouble(arguments[2]);
    int suspect = 0;
    if (PyErr_Occurred()) return NULL;
    npy_intp shape[] = {seeds, 3 + heads + PyTuple_GET_SIZE(vectors) * d}, width = shape[1];
    PyArrayObject *made = (PyArrayObject *)PyArray_SimpleNew(2, shape, NPY_DOUBLE);
    if (!made) return NULL;

    double *lines = PyArray_DATA(made), *to = lines + 3;
    for (npy_intp i = 0; i < heads; i++, to++)
        suspect |= copy(to, width, PyArray_DATA((PyArrayObject *)PyTuple_GET_ITEM(columns, i)),
                      seeds, 1);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(vectors); i++, to += d)
        suspect |= copy(to, width, PyArray_DATA((PyArrayObject *)PyTuple_GET_ITEM(vectors, i)),
                      seeds, d);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(state); i++) {
        PyObject *z = PyTuple_GET_ITEM(state, i);
        if (z != arguments[0] && !is_among(z, vectors)) /* x and the vectors are checked anyway */
            suspect |= any_suspect(PyArray_DATA((PyArrayObject *)z), seeds * d);
    }
    const double *at = PyArray_DATA(x), *mean = PyArray_DATA((PyArrayObject *)arguments[1]);
    for (npy_intp seed = 0; seed < seeds; seed++, at += d, mean += d) {
        lines[seed * width] = distance2(at, mean, d);
        suspect |= IS_SUSPECT(lines[seed * width]); /* also true if x is not finite */
    }
    for (npy_intp seed = 0; seed < seeds; seed++) {
        lines[seed * width + 1] = sent;
        lines[seed * width + 2] = suspect;
    }
    return (PyObject *)made;
}
