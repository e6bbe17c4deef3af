/* What a message needs on its way: packing, comparing the headers, the weighted sum. */
#include "kernels.h"
#include <string.h>

#define PIECE 1024

static int wrong_count(const char *name, Py_ssize_t count, Py_ssize_t expected) {
    if (count == expected) return 0;
    PyErr_Format(PyExc_TypeError, "%s takes %zd arguments, not %zd", name, expected, count);
    return 1;
}

/* pack(header, slots, iteration, stop_at, vectors): fill the header and copy each vector into its
   slot of the send buffer. False, and nothing done, where one is not plain and like its slot. */
PyObject *kernels_pack(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    if (wrong_count("pack", count, 5)) return NULL;
    PyArrayObject *header = (PyArrayObject *)arguments[0];
    PyObject *slots = arguments[1], *vectors = arguments[4];
    if (!PyTuple_Check(slots) || !PyTuple_Check(vectors) ||
        PyTuple_GET_SIZE(slots) != PyTuple_GET_SIZE(vectors))
        Py_RETURN_FALSE;
    Py_ssize_t length = PyTuple_GET_SIZE(slots);
    for (Py_ssize_t i = 0; i < length; i++)
        if (!is_alike(PyTuple_GET_ITEM(vectors, i), (PyArrayObject *)PyTuple_GET_ITEM(slots, i)))
            Py_RETURN_FALSE;
    long long words[2] = {PyLong_AsLongLong(arguments[2]), PyLong_AsLongLong(arguments[3])};
    if (PyErr_Occurred()) return NULL;
    memcpy(PyArray_DATA(header), words, sizeof words);
    for (Py_ssize_t i = 0; i < length; i++) {
        PyArrayObject *slot = (PyArrayObject *)PyTuple_GET_ITEM(slots, i);
        memcpy(PyArray_DATA(slot), PyArray_DATA((PyArrayObject *)PyTuple_GET_ITEM(vectors, i)),
               PyArray_NBYTES(slot));
    }
    Py_RETURN_TRUE;
}

/* agree(headers, header): whether every row of headers is the header. */
PyObject *kernels_agree(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    if (wrong_count("agree", count, 2)) return NULL;
    PyArrayObject *headers = (PyArrayObject *)arguments[0];
    PyArrayObject *header = (PyArrayObject *)arguments[1];
    for (npy_intp row = 0; row < PyArray_DIM(headers, 0); row++)
        if (memcmp(PyArray_GETPTR1(headers, row), PyArray_DATA(header), PyArray_NBYTES(header)))
            Py_RETURN_FALSE;
    Py_RETURN_TRUE;
}

/* Adds weight * row to the total, row after row; four at a time, which spares the total some
   trips to memory and changes no sum. */
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

/* combine(received, own, weights, place): the sum over the rows of received, with own inserted
   at its place, of weight * row; a new array like own. */
PyObject *kernels_combine(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    if (wrong_count("combine", count, 4)) return NULL;
    for (int i = 0; i < 3; i++)
        if (!PyArray_Check(arguments[i])) {
            PyErr_SetString(PyExc_TypeError, "combine takes arrays");
            return NULL;
        }
    PyArrayObject *received = (PyArrayObject *)arguments[0], *own = (PyArrayObject *)arguments[1];
    PyArrayObject *weights = (PyArrayObject *)arguments[2];
    npy_intp place = PyLong_AsSsize_t(arguments[3]), length = PyArray_SIZE(own);
    if (place == -1 && PyErr_Occurred()) return NULL;
    npy_intp rows = PyArray_NDIM(received) == 2 ? PyArray_DIM(received, 0) : -1;
    int type = PyArray_TYPE(own);
    if (!is_plain((PyObject *)own) || !is_plain((PyObject *)weights) || rows < 0 ||
        PyArray_DIM(received, 1) != length || PyArray_SIZE(weights) != rows + 1 || place < 0 ||
        place > rows || PyArray_TYPE(received) != type || PyArray_TYPE(weights) != type ||
        (rows > 0 && length > 1 && PyArray_STRIDE(received, 1) != PyArray_ITEMSIZE(received))) {
        PyErr_SetString(PyExc_ValueError, "the arrays to combine do not fit together");
        return NULL;
    }
    const void *few[64], **all = few;
    if (rows >= 64 && !(all = PyMem_Malloc((rows + 1) * sizeof(void *)))) return PyErr_NoMemory();
    for (npy_intp row = 0, at = 0; at <= rows; at++)
        all[at] = at == place ? PyArray_DATA(own) : PyArray_GETPTR1(received, row++);
    PyArrayObject *total = new_like(own);
    if (total && type == NPY_DOUBLE)
        combine_double(PyArray_DATA(total), (const double *const *)all, PyArray_DATA(weights),
                       rows + 1, length);
    else if (total)
        combine_float(PyArray_DATA(total), (const float *const *)all, PyArray_DATA(weights),
                      rows + 1, length);
    if (all != few) PyMem_Free(all);
    return (PyObject *)total;
}
