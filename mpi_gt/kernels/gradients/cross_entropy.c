/* The gradient of -log softmax(z)[label] by z, row by row. The twin is problems/cross_entropy.py.
   */
#include "../kernels.h"
#include <math.h>
#include <stdint.h>
#include <string.h>

#define BLOCK 1024

/* Compute exp(x) in place for many x <= 0, in a loop that the compiler can vectorise, unlike calls
   of the C library: 2^k P(r) with x = k log 2 + r and P of degree 13, to about two units in the
   last place. Below -700 the result is exp(-700), which is negligible beside the largest term, 1.
   */
WIDE static void exponentials(double *x, npy_intp n) {
    const double shift = 0x1.8p52; /* adding it rounds to an integer, found in the low bits */
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

/* A sum of logarithms, as the logarithm of a product: one call of log per 16 totals. */
typedef struct {
    double product;
    int factors;
    double (*log)(double); /* of the C library, or the same on every processor */
} Logs;

/* Add log(total); return the sum of the last 16 logarithms when they are complete, else 0. */
static inline double add_log(Logs *logs, double total) {
    logs->product *= total;
    if (++logs->factors < 16) return 0;
    double sum = logs->log(logs->product);
    logs->product = 1, logs->factors = 0;
    return sum;
}

/* A line is one row of one group. `together` lines at a time are laid out class by class, so that
   the inner loops run over lines: loops over a few classes would be too short. */
#define SLOPES(T)                                                                              \
    WIDE static void slopes_##T(T *z, const npy_intp *labels, double scale, double *loss,      \
                                npy_int64 *correct, npy_intp rows, npy_intp groups,            \
                                npy_intp classes, double *work, npy_intp together,             \
                                Logs *logs) {                                                  \
        double *largest = work + together * classes, *total = largest + together;              \
        npy_intp row = 0, g = 0, lines = rows * groups;                                        \
        for (npy_intp begin = 0; begin < lines; begin += together, z += together * classes) {  \
            npy_intp n = lines - begin < together ? lines - begin : together;                  \
            for (npy_intp i = 0; i < n; i++)                                                   \
                for (npy_intp c = 0; c < classes; c++)                                         \
                    work[c * together + i] = z[i * classes + c];                               \
            for (npy_intp i = 0; i < n; i++) largest[i] = work[i], total[i] = 0;               \
            for (npy_intp c = 1; c < classes; c++)                                             \
                ENTRYWISE for (npy_intp i = 0; i < n; i++)                                     \
                    largest[i] = MAXIMUM(largest[i], work[c * together + i]);                  \
            for (npy_intp c = 0; c < classes; c++) {                                           \
                double *column = work + c * together;                                          \
                ENTRYWISE for (npy_intp i = 0; i < n; i++) column[i] -= largest[i];            \
                exponentials(column, n);                                                       \
                ENTRYWISE for (npy_intp i = 0; i < n; i++) total[i] += column[i];              \
            }                                                                                  \
            for (npy_intp i = 0; i < n; i++, g++) {                                            \
                if (g == groups) g = 0, row++;                                                 \
                T *line = z + i * classes;                                                     \
                npy_intp label = labels[row];                                                  \
                if (loss) loss[g] += largest[i] - line[label] + add_log(logs + g, total[i]);   \
                if (correct && line[label] == largest[i]) {                                    \
                    npy_intp first = 0;                                                        \
                    while (line[first] != largest[i]) first++;                                 \
                    correct[g] += first == label;                                              \
                }                                                                              \
                double factor = scale / total[i];                                              \
                for (npy_intp c = 0; c < classes; c++)                                         \
                    line[c] = (T)(work[c * together + i] * factor);                            \
                line[label] -= (T)scale;                                                       \
            }                                                                                  \
        }                                                                                      \
    }
SLOPES(double)
SLOPES(float)

/* Compute slopes as described below, of z with this many rows, groups and classes. */
static int compute_slopes(int type, void *z, const npy_intp *labels, double scale, void *loss,
                          void *correct, npy_intp rows, npy_intp groups, npy_intp classes,
                          int fixed) {
    npy_intp together = classes < BLOCK ? BLOCK / (classes ? classes : 1) : 1;
    double *work = PyMem_Malloc((together * (classes + 2)) * sizeof(double));
    Logs *logs = PyMem_Malloc((groups + 1) * sizeof(Logs));
    if (!work || !logs) {
        PyMem_Free(work);
        PyMem_Free(logs);
        PyErr_NoMemory();
        return -1;
    }
    for (npy_intp g = 0; g < groups; g++) logs[g] = (Logs){1, 0, fixed ? fixed_log : log};
    if (type == NPY_DOUBLE)
        slopes_double(z, labels, scale, loss, correct, rows, groups, classes, work, together, logs);
    else
        slopes_float(z, labels, scale, loss, correct, rows, groups, classes, work, together, logs);
    for (npy_intp g = 0; loss && g < groups; g++)
        ((double *)loss)[g] += logs[g].log(logs[g].product);
    PyMem_Free(work);
    PyMem_Free(logs);
    return 0;
}

/* Replace each row of z, whose last dimension is the classes, by scale (softmax(z) - [label]); the labels
   have been checked. */
int slopes_in_place(PyArrayObject *z, const npy_intp *labels, npy_intp rows, double scale) {
    npy_intp classes = PyArray_DIM(z, PyArray_NDIM(z) - 1);
    return compute_slopes(PyArray_TYPE(z), PyArray_DATA(z), labels, scale, NULL, NULL, rows, 1,
                          classes, 0);
}

/* slopes(z, labels, scale, loss, correct, fixed): replace z (rows, groups, classes) by
   scale (softmax(z) - [label]), for labels (rows,). Unless they are None, add to loss (groups,) in
   float64 the losses of all rows, and to correct (groups,) in int64 the number of rows whose label
   has the largest z. `fixed`: the same bits on every processor. */
PyObject *kernels_slopes(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    if (count != 6 || !is_plain(arguments[0]) || !PyArray_Check(arguments[1])) {
        PyErr_SetString(PyExc_TypeError, "slopes takes z, labels, scale, loss, correct, fixed");
        return NULL;
    }
    PyArrayObject *z = (PyArrayObject *)arguments[0], *labels = (PyArrayObject *)arguments[1];
    double scale = PyFloat_AsDouble(arguments[2]);
    int fixed = PyObject_IsTrue(arguments[5]);
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
            PyErr_SetString(PyExc_ValueError, "loss and correct must be arrays (groups,)");
            return NULL;
        }
        sums[i] = PyArray_DATA(sum);
    }
    const npy_intp *label = PyArray_DATA(labels);
    for (npy_intp row = 0; row < rows; row++)
        if (label[row] < 0 || label[row] >= classes) {
            PyErr_SetString(PyExc_IndexError, "a label is not in [0, classes)");
            return NULL;
        }
    if (compute_slopes(PyArray_TYPE(z), PyArray_DATA(z), label, scale, sums[0], sums[1], rows,
                       groups, classes, fixed))
        return NULL;
    Py_RETURN_NONE;
}
