/* The slope of -log softmax(z)[label], row by row. */
#include "kernels.h"
#include <math.h>
#include <stdint.h>
#include <string.h>

#define BLOCK 1024

/* exp(x) for x <= 0 and above all for many x at once, which the C library's own is not made for:
   2^k P(r) with x = k log 2 + r and P of degree 13, to about two units in the last place. Below
   -700 it stays at exp(-700), which is nothing beside the largest term, 1. */
WIDE static void exponentials(double *x, npy_intp n) {
    const double shift = 0x1.8p52; /* adding it rounds to whole numbers, and leaves them in bits */
    ENTRYWISE for (npy_intp i = 0; i < n; i++) {
        double z = x[i] < -700 ? -700 : x[i];
        double shifted = z * 1.4426950408889634 + shift, k = shifted - shift, power;
        double r = (z - k * 0x1.62e42feep-1) - k * 0x1.a39ef35793c76p-33;
        double p = 1 / 6227020800.0;
        p = p * r + 1 / 479001600.0;
        p = p * r + 1 / 39916800.0;
        p = p * r + 1 / 3628800.0;
        p = p * r + 1 / 362880.0;
        p = p * r + 1 / 40320.0;
        p = p * r + 1 / 5040.0;
        p = p * r + 1 / 720.0;
        p = p * r + 1 / 120.0;
        p = p * r + 1 / 24.0;
        p = p * r + 1 / 6.0;
        p = p * r + 0.5;
        p = p * r + 1;
        p = p * r + 1;
        uint64_t bits;
        memcpy(&bits, &shifted, sizeof bits);
        bits = (bits + 1023) << 52;
        memcpy(&power, &bits, sizeof power);
        x[i] = p * power;
    }
}

/* Some rows of all groups at a time: less their largest entry, exponentials of all, the rest. */
#define SLOPES(T)                                                                              \
    static void slopes_##T(T *z, const npy_intp *labels, double scale, double *loss,           \
                           npy_int64 *correct, npy_intp count, npy_intp groups,                \
                           npy_intp classes, double *work, npy_intp together) {                \
        for (npy_intp begin = 0; begin < count; begin += together) {                           \
            npy_intp rows = count - begin < together ? count - begin : together;               \
            T *block = z + begin * groups * classes;                                           \
            double *to = work;                                                                 \
            const T *from = block;                                                             \
            for (npy_intp row = 0; row < rows; row++) {                                        \
                npy_intp label = labels[begin + row];                                          \
                for (npy_intp g = 0; g < groups; g++, from += classes, to += classes) {        \
                    T largest = from[0];                                                       \
                    for (npy_intp c = 1; c < classes; c++) largest = MAXIMUM(largest, from[c]);\
                    npy_intp best = 0;                                                         \
                    while (from[best] != largest && best < classes - 1) best++;                \
                    for (npy_intp c = 0; c < classes; c++) to[c] = (double)from[c] - largest;  \
                    if (loss) loss[g] += (double)largest - from[label];                        \
                    if (correct) correct[g] += best == label;                                  \
                }                                                                              \
            }                                                                                  \
            exponentials(work, rows * groups * classes);                                       \
            double *power = work;                                                              \
            T *slope = block;                                                                  \
            for (npy_intp row = 0; row < rows; row++) {                                        \
                npy_intp label = labels[begin + row];                                          \
                for (npy_intp g = 0; g < groups; g++, power += classes, slope += classes) {    \
                    double total = 0;                                                          \
                    for (npy_intp c = 0; c < classes; c++) total += power[c];                  \
                    if (loss) loss[g] += log(total);                                           \
                    double factor = scale / total;                                             \
                    for (npy_intp c = 0; c < classes; c++) slope[c] = (T)(power[c] * factor);  \
                    slope[label] -= (T)scale;                                                  \
                }                                                                              \
            }                                                                                  \
        }                                                                                      \
    }
SLOPES(double)
SLOPES(float)

/* slopes(z, labels, scale, loss, correct): in place, scale (softmax(z) - [label]) for z (rows,
   groups, classes) and labels (rows,); added up over the rows, if they are not None, the loss in
   float64 and how often the label has the largest z in int64, both (groups,). */
PyObject *kernels_slopes(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    if (count != 5 || !is_plain(arguments[0]) || !PyArray_Check(arguments[1])) {
        PyErr_SetString(PyExc_TypeError, "slopes takes z, labels, scale, loss, correct");
        return NULL;
    }
    PyArrayObject *z = (PyArrayObject *)arguments[0], *labels = (PyArrayObject *)arguments[1];
    double scale = PyFloat_AsDouble(arguments[2]);
    if (PyErr_Occurred()) return NULL;
    if (PyArray_NDIM(z) != 3 || !PyArray_ISCARRAY(z) || PyArray_TYPE(labels) != NPY_INTP ||
        !PyArray_ISCARRAY_RO(labels) || PyArray_SIZE(labels) != PyArray_DIM(z, 0)) {
        PyErr_SetString(PyExc_ValueError, "slopes takes z (rows, groups, classes), labels (rows,)");
        return NULL;
    }
    npy_intp rows = PyArray_DIM(z, 0), groups = PyArray_DIM(z, 1), classes = PyArray_DIM(z, 2);
    void *sums[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++) {
        PyObject *given = arguments[3 + i];
        if (given == Py_None) continue;
        PyArrayObject *sum = (PyArrayObject *)given;
        if (!PyArray_Check(given) || PyArray_TYPE(sum) != (i ? NPY_INT64 : NPY_DOUBLE) ||
            !PyArray_ISCARRAY(sum) || PyArray_SIZE(sum) != groups) {
            PyErr_SetString(PyExc_ValueError, "the sums do not fit");
            return NULL;
        }
        sums[i] = PyArray_DATA(sum);
    }
    const npy_intp *label = PyArray_DATA(labels);
    for (npy_intp row = 0; row < rows; row++)
        if (label[row] < 0 || label[row] >= classes) {
            PyErr_SetString(PyExc_IndexError, "there is no such class");
            return NULL;
        }
    npy_intp width = groups * classes, together = width < BLOCK ? BLOCK / (width ? width : 1) : 1;
    double *work = PyMem_Malloc((together * width + 1) * sizeof(double));
    if (!work) return PyErr_NoMemory();
    if (PyArray_TYPE(z) == NPY_DOUBLE)
        slopes_double(PyArray_DATA(z), label, scale, sums[0], sums[1], rows, groups, classes, work,
                      together);
    else
        slopes_float(PyArray_DATA(z), label, scale, sums[0], sums[1], rows, groups, classes, work,
                     together);
    PyMem_Free(work);
    Py_RETURN_NONE;
}
