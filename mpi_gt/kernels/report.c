/* What one rank tells root of its float64 state, in one call; metrics.py has its twin. */
#include "kernels.h"

/* Copies lines apart; 0 where all is finite, else not a number. */
WIDE static double copy(double *restrict to, npy_intp apart, const double *restrict from,
                        npy_intp lines, npy_intp length) {
    double doubt = 0;
    for (npy_intp line = 0; line < lines; line++, from += length, to += apart)
        for (npy_intp i = 0; i < length; i++) {
            to[i] = from[i];
            doubt += from[i] * 0;
        }
    return doubt;
}

static int all_like(PyObject *tuple, PyArrayObject *model) {
    if (!PyTuple_Check(tuple)) return 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++)
        if (!is_alike(PyTuple_GET_ITEM(tuple, i), model)) return 0;
    return 1;
}

/* report(x, xbar, sent, columns, vectors, rest): a line for each seed, of consensus, sent, whether
   any value here or in the rest is not finite, the columns (seeds,) and the vectors (seeds, d);
   None where something is not like x or not float64. */
PyObject *kernels_report(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    if (count != 6) {
        PyErr_SetString(PyExc_TypeError, "report takes x, xbar, sent, columns, vectors and rest");
        return NULL;
    }
    PyArrayObject *x = (PyArrayObject *)arguments[0];
    PyObject *columns = arguments[3], *vectors = arguments[4], *rest = arguments[5];
    if (!is_plain(arguments[0]) || PyArray_TYPE(x) != NPY_DOUBLE || PyArray_NDIM(x) != 2 ||
        !is_alike(arguments[1], x) || !all_like(vectors, x) || !all_like(rest, x) ||
        !PyTuple_Check(columns) || !PyLong_Check(arguments[2]))
        Py_RETURN_NONE;
    npy_intp seeds = PyArray_DIM(x, 0), d = PyArray_DIM(x, 1), heads = PyTuple_GET_SIZE(columns);
    for (npy_intp i = 0; i < heads; i++) {
        PyArrayObject *column = (PyArrayObject *)PyTuple_GET_ITEM(columns, i);
        if (!is_plain((PyObject *)column) || PyArray_TYPE(column) != NPY_DOUBLE ||
            PyArray_NDIM(column) != 1 || PyArray_DIM(column, 0) != seeds)
            Py_RETURN_NONE;
    }
    double sent = PyLong_AsDouble(arguments[2]), doubt = 0;
    if (PyErr_Occurred()) return NULL;
    npy_intp shape[] = {seeds, 3 + heads + PyTuple_GET_SIZE(vectors) * d}, width = shape[1];
    PyArrayObject *made = (PyArrayObject *)PyArray_SimpleNew(2, shape, NPY_DOUBLE);
    if (!made) return NULL;

    double *lines = PyArray_DATA(made), *to = lines + 3;
    for (npy_intp i = 0; i < heads; i++, to++)
        doubt += copy(to, width, PyArray_DATA((PyArrayObject *)PyTuple_GET_ITEM(columns, i)),
                      seeds, 1);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(vectors); i++, to += d)
        doubt += copy(to, width, PyArray_DATA((PyArrayObject *)PyTuple_GET_ITEM(vectors, i)),
                      seeds, d);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(rest); i++) {
        const double *z = PyArray_DATA((PyArrayObject *)PyTuple_GET_ITEM(rest, i));
        for (npy_intp j = 0; j < seeds * d; j++) doubt += z[j] * 0;
    }
    const double *at = PyArray_DATA(x), *mean = PyArray_DATA((PyArrayObject *)arguments[1]);
    for (npy_intp seed = 0; seed < seeds; seed++, at += d, mean += d) {
        double consensus = 0;
        for (npy_intp i = 0; i < d; i++) consensus += (at[i] - mean[i]) * (at[i] - mean[i]);
        lines[seed * width] = consensus;
        doubt += consensus * 0;
    }
    for (npy_intp seed = 0; seed < seeds; seed++) {
        lines[seed * width + 1] = sent;
        lines[seed * width + 2] = doubt != 0; /* which not a number is */
    }
    return (PyObject *)made;
}
