/* The gradient of the Huber problem with a small dense Phi, all seeds in one call. */
#include "kernels.h"
#include <stddef.h>

#define LARGEST 64 /* from there on a BLAS is quicker */

/* Both products are sums of scaled rows of a matrix, in the order of the rows. */
#define HUBER(T)                                                                                \
    static ALWAYS_INLINE void add_rows_##T(T *restrict sum, const T *restrict matrix,           \
                                    const T *restrict factors, npy_intp d) {                    \
        for (npy_intp i = 0; i < d; i++) sum[i] = factors[0] * matrix[i];                       \
        for (npy_intp j = 1; j < d; j++)                                                        \
            for (npy_intp i = 0; i < d; i++) sum[i] = sum[i] + factors[j] * matrix[j * d + i];  \
    }                                                                                           \
    static ALWAYS_INLINE void seeds_##T(T *out, const T *x, const T *columns, const T *rows,      \
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
            seeds_##T(out, x, columns, rows, theta, noise, k, scale, seeds, 10, step);           \
        else                                                                                    \
            seeds_##T(out, x, columns, rows, theta, noise, k, scale, seeds, d, step);            \
    }
HUBER(double)
HUBER(float)

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyArrayObject *columns, *rows, *theta;
    double threshold, scale;
    PyObject *draws, *otherwise;
    Pool results;
} Huber;

/* huber(t, x): scale Phi' clip(theta + noise - Phi x) with the noise of iteration t. */
static PyObject *huber_call(PyObject *thing, PyObject *const *arguments, size_t count,
                            PyObject *names) {
    Huber *self = (Huber *)thing;
    if (names || PyVectorcall_NARGS(count) != 2 || !is_alike(arguments[1], self->theta))
        return PyObject_Vectorcall(self->otherwise, arguments, PyVectorcall_NARGS(count), names);
    PyArrayObject *x = (PyArrayObject *)arguments[1];
    const void *noise = NULL;
    if (self->draws != Py_None && !(noise = window_data(self->draws, arguments[0], x))) return NULL;
    PyArrayObject *out = pool_take(&self->results, x);
    if (!out) return NULL;
    npy_intp seeds = PyArray_DIM(x, 0), d = PyArray_DIM(x, 1);
    npy_intp step = PyArray_DIM(self->rows, 0) == 1 ? 0 : d * d;
    void *columns = PyArray_DATA(self->columns), *rows = PyArray_DATA(self->rows);
    void *theta = PyArray_DATA(self->theta);
    if (PyArray_TYPE(x) == NPY_DOUBLE)
        huber_double(PyArray_DATA(out), PyArray_DATA(x), columns, rows, theta, noise,
                     self->threshold, self->scale, seeds, d, step);
    else
        huber_float(PyArray_DATA(out), PyArray_DATA(x), columns, rows, theta, noise,
                    (float)self->threshold, (float)self->scale, seeds, d, step);
    return (PyObject *)out;
}

/* Huber(columns, rows, theta, threshold, scale, draws, otherwise): rows is Phi, (seeds or 1, d, d),
   columns its transpose, theta (seeds, d); draws of the noise, or None; otherwise(t, x) is called
   where x is not like theta. */
static PyObject *huber_new(PyTypeObject *type, PyObject *arguments, PyObject *names) {
    PyArrayObject *columns, *rows, *theta;
    PyObject *draws, *otherwise;
    double threshold, scale;
    if (!PyArg_ParseTuple(arguments, "O!O!O!ddOO", &PyArray_Type, &columns, &PyArray_Type, &rows,
                          &PyArray_Type, &theta, &threshold, &scale, &draws, &otherwise))
        return NULL;
    npy_intp d = PyArray_NDIM(theta) == 2 ? PyArray_DIM(theta, 1) : 0;
    if (d < 1 || d > LARGEST || !is_plain((PyObject *)theta) || !is_plain((PyObject *)rows) ||
        !is_alike((PyObject *)columns, rows) || PyArray_TYPE(rows) != PyArray_TYPE(theta) ||
        PyArray_NDIM(rows) != 3 || PyArray_DIM(rows, 1) != d || PyArray_DIM(rows, 2) != d ||
        (PyArray_DIM(rows, 0) != 1 && PyArray_DIM(rows, 0) != PyArray_DIM(theta, 0)) ||
        (draws != Py_None && !PyObject_TypeCheck(draws, &WindowType))) {
        PyErr_SetString(PyExc_ValueError, "Phi, theta and draws do not fit, or are too large");
        return NULL;
    }
    Huber *self = (Huber *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->vectorcall = huber_call;
    self->columns = (PyArrayObject *)Py_NewRef(columns);
    self->rows = (PyArrayObject *)Py_NewRef(rows);
    self->theta = (PyArrayObject *)Py_NewRef(theta);
    self->threshold = threshold, self->scale = scale;
    self->draws = Py_NewRef(draws), self->otherwise = Py_NewRef(otherwise);
    return (PyObject *)self;
}

static int huber_traverse(PyObject *thing, visitproc visit, void *arg) {
    Py_VISIT(((Huber *)thing)->draws);
    Py_VISIT(((Huber *)thing)->otherwise);
    return 0;
}

static int huber_clear(PyObject *thing) {
    Huber *self = (Huber *)thing;
    Py_XSETREF(self->draws, Py_NewRef(Py_None));
    Py_XSETREF(self->otherwise, Py_NewRef(Py_None));
    return 0;
}

static void huber_free(PyObject *thing) {
    Huber *self = (Huber *)thing;
    PyObject_GC_UnTrack(thing);
    pool_free(&self->results);
    Py_XDECREF(self->columns);
    Py_XDECREF(self->rows);
    Py_XDECREF(self->theta);
    Py_XDECREF(self->draws);
    Py_XDECREF(self->otherwise);
    Py_TYPE(thing)->tp_free(thing);
}

PyTypeObject HuberType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mpi_gt.kernels._c.Huber",
    .tp_basicsize = sizeof(Huber),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC,
    .tp_vectorcall_offset = offsetof(Huber, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_new = huber_new,
    .tp_traverse = huber_traverse,
    .tp_clear = huber_clear,
    .tp_dealloc = huber_free,
    .tp_doc = "The gradient of the Huber problem with a small dense Phi.",
};
