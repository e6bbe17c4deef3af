/* The stochastic gradient of the softmax problem without Python frames: drawing the rows, gathering
   them, the slopes of the loss and the regulariser. The two products are numpy's, so that they have its
   bits. A few seeds at a time, so that their rows stay in the cache between the two products. The twin is
   `gradient` in problems/softmax.py. */
#include "../kernels.h"
#include <stddef.h>

#define AT_ONCE 262144 /* bytes of the rows of a few seeds; a seed's rows may be more */

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyArrayObject *features, *labels;
    npy_intp classes, batch;
    double scale, reg;
    PyObject *draws, *multiply, *otherwise;
    npy_intp together;             /* seeds at a time */
    PyArrayObject *rows, *outputs; /* of these: the rows of their batches, and the products */
    PyArrayObject *uniform;        /* of the shape of a batch's random numbers, of all seeds */
    npy_intp *chosen;              /* the labels of the rows */
    Pool results;
} Softmax;

#define COPY_ROW(T, S)                                                                     \
    WIDE static void copy_##S##_to_##T(void *to, const void *from, npy_intp n) {           \
        T *restrict out = to;                                                              \
        const npy_##S *restrict row = from;                                                \
        for (npy_intp i = 0; i < n; i++) out[i] = (T)row[i];                               \
    }
#define COPIES(T)                                                                          \
    COPY_ROW(T, ubyte)                                                                     \
    COPY_ROW(T, float)                                                                     \
    COPY_ROW(T, double)
COPIES(double)
COPIES(float)

#define REGULARISE(T)                                                                         \
    WIDE static void regularise_##T(T *restrict gradient, const T *restrict x, T twice,       \
                                    npy_intp n) {                                             \
        for (npy_intp i = 0; i < n; i++) {                                                    \
            T square = (T)1 + x[i] * x[i];                                                    \
            gradient[i] = gradient[i] + twice * x[i] / (square * square);                     \
        }                                                                                     \
    }                                                                                         \
    WIDE static void scale_##T(T *restrict z, T factor, npy_intp n) {                         \
        for (npy_intp i = 0; i < n; i++) z[i] *= factor;                                      \
    }
REGULARISE(double)
REGULARISE(float)

typedef void (*CopyRow)(void *, const void *, npy_intp);

/* Return the function that copies a row of features to numbers of that type; NULL if there is none. */
static CopyRow copy_for(int to, int from) {
    int wide = to == NPY_DOUBLE;
    switch (from) {
    case NPY_UBYTE: return wide ? copy_ubyte_to_double : copy_ubyte_to_float;
    case NPY_FLOAT: return wide ? copy_float_to_double : copy_float_to_float;
    case NPY_DOUBLE: return wide ? copy_double_to_double : copy_double_to_float;
    default: return NULL;
    }
}

/* Make the arrays of a batch, unless those of the last one do. */
static int make_batch(Softmax *self, PyArrayObject *x) {
    npy_intp seeds = PyArray_DIM(x, 0), width = PyArray_DIM(self->features, 1);
    if (self->rows && PyArray_TYPE(self->rows) == PyArray_TYPE(x) &&
        PyArray_DIM(self->uniform, 0) == seeds)
        return 0;
    npy_intp bytes = self->batch * width * PyArray_ITEMSIZE(x);
    npy_intp together = bytes > 0 && bytes < AT_ONCE ? AT_ONCE / bytes : 1;
    if (together > seeds) together = seeds;
    npy_intp rows[] = {together, self->batch, width};
    npy_intp outputs[] = {together, self->batch, self->classes};
    npy_intp uniform[] = {seeds, self->batch};
    Py_CLEAR(self->rows);
    Py_CLEAR(self->outputs);
    Py_CLEAR(self->uniform);
    PyMem_Free(self->chosen);
    self->together = together;
    self->outputs = (PyArrayObject *)PyArray_SimpleNew(3, outputs, PyArray_TYPE(x));
    self->uniform = (PyArrayObject *)PyArray_SimpleNew(2, uniform, NPY_DOUBLE);
    self->chosen = PyMem_Calloc(together * self->batch + 1, sizeof(npy_intp));
    if (!self->chosen) PyErr_NoMemory();
    if (self->outputs && self->uniform && self->chosen)
        self->rows = (PyArrayObject *)PyArray_SimpleNew(3, rows, PyArray_TYPE(x));
    return self->rows ? 0 : -1;
}

/* Copy the rows that these uniform numbers choose, and their labels. */
static void gather(Softmax *self, const double *uniform, npy_intp count) {
    npy_intp all = PyArray_DIM(self->features, 0), width = PyArray_DIM(self->features, 1);
    npy_intp size = PyArray_ITEMSIZE(self->rows);
    const npy_intp *labels = PyArray_DATA(self->labels);
    CopyRow copy = copy_for(PyArray_TYPE(self->rows), PyArray_TYPE(self->features));
    char *to = PyArray_DATA(self->rows);
    for (npy_intp i = 0; i < count; i++, to += width * size) {
        npy_intp row = (npy_intp)(uniform[i] * (double)all); /* u < 1, but this may round up */
        if (row > all - 1) row = all - 1;
        self->chosen[i] = labels[row];
        copy(to, PyArray_GETPTR1(self->features, row), width);
    }
}

/* A view of some seeds of an array, as (seeds, rows, columns), or with the last two exchanged. */
typedef struct {
    npy_intp first, seeds, rows, columns;
    int transposed;
} View;

static PyObject *view_of(PyArrayObject *array, View as) {
    npy_intp size = PyArray_ITEMSIZE(array), row = as.columns * size, matrix = as.rows * row;
    npy_intp shape[] = {as.seeds, as.rows, as.columns}, strides[] = {matrix, row, size};
    if (as.transposed) {
        shape[1] = as.columns, shape[2] = as.rows;
        strides[1] = size, strides[2] = row;
    }
    PyArray_Descr *dtype = PyArray_DESCR(array);
    Py_INCREF(dtype);
    PyObject *made = PyArray_NewFromDescr(&PyArray_Type, dtype, 3, shape, strides,
                                          PyArray_BYTES(array) + as.first * matrix,
                                          NPY_ARRAY_WRITEABLE, NULL);
    if (made && PyArray_SetBaseObject((PyArrayObject *)made, Py_NewRef(array))) Py_CLEAR(made);
    return made;
}

/* Set out to the product of two arrays of matrices. All three are given up. */
static int multiply(Softmax *self, PyObject *a, PyObject *b, PyObject *out) {
    PyObject *given[] = {NULL, a, b, out}, *done = NULL;
    if (a && b && out)
        done = PyObject_Vectorcall(self->multiply, given + 1, 3 | PY_VECTORCALL_ARGUMENTS_OFFSET,
                                   NULL);
    Py_XDECREF(a);
    Py_XDECREF(b);
    Py_XDECREF(out);
    Py_XDECREF(done);
    return done ? 0 : -1;
}

/* Compute the gradients of `seeds` seeds, whose rows are gathered, from number `first` on. */
static int add_products(Softmax *self, PyArrayObject *x, PyArrayObject *gradient, npy_intp first,
                        npy_intp seeds) {
    npy_intp width = PyArray_DIM(self->features, 1), batch = self->batch, classes = self->classes;
    View weights = {first, seeds, classes, width, 1}, result = {first, seeds, classes, width, 0};
    View rows = {0, seeds, batch, width, 0}, outputs = {0, seeds, batch, classes, 0};
    if (multiply(self, view_of(self->rows, rows), view_of(x, weights),
                 view_of(self->outputs, outputs)))
        return -1;
    npy_intp count = seeds * batch;
    void *data = PyArray_DATA(self->outputs);
    /* the small products are scaled, not the features */
    if (PyArray_TYPE(x) == NPY_DOUBLE)
        scale_double(data, self->scale, count * classes);
    else
        scale_float(data, (float)self->scale, count * classes);
    if (slopes_in_place(self->outputs, self->chosen, count, self->scale / (double)batch)) return -1;
    outputs.transposed = 1;
    return multiply(self, view_of(self->outputs, outputs), view_of(self->rows, rows),
                    view_of(gradient, result));
}

/* Set the gradient at x with the rows that the uniform numbers choose. */
static int compute(Softmax *self, PyArrayObject *x, const double *uniform,
                   PyArrayObject *gradient) {
    npy_intp all = PyArray_DIM(x, 0), together = self->together;
    for (npy_intp first = 0; first < all; first += together) {
        npy_intp seeds = all - first < together ? all - first : together;
        gather(self, uniform + first * self->batch, seeds * self->batch);
        if (add_products(self, x, gradient, first, seeds)) return -1;
    }
    if (PyArray_TYPE(x) == NPY_DOUBLE)
        regularise_double(PyArray_DATA(gradient), PyArray_DATA(x), 2 * self->reg, PyArray_SIZE(x));
    else
        regularise_float(PyArray_DATA(gradient), PyArray_DATA(x), (float)(2 * self->reg),
                         PyArray_SIZE(x));
    return 0;
}

/* softmax(t, x): return the gradient at x with the rows of iteration t. */
static PyObject *softmax_call(PyObject *thing, PyObject *const *arguments, size_t count,
                              PyObject *names) {
    Softmax *self = (Softmax *)thing;
    PyArrayObject *x = (PyArrayObject *)(PyVectorcall_NARGS(count) == 2 ? arguments[1] : NULL);
    if (names || !x || !is_plain((PyObject *)x) || PyArray_NDIM(x) != 2 ||
        PyArray_DIM(x, 1) != self->classes * PyArray_DIM(self->features, 1))
        return PyObject_Vectorcall(self->otherwise, arguments, PyVectorcall_NARGS(count), names);
    if (make_batch(self, x)) return NULL;
    const double *uniform = window_data(self->draws, arguments[0], self->uniform);
    PyArrayObject *gradient = uniform ? pool_take(&self->results, x) : NULL;
    if (gradient && compute(self, x, uniform, gradient)) Py_CLEAR(gradient);
    return (PyObject *)gradient;
}

/* Softmax(features, labels, classes, batch, scale, reg, draws, multiply, otherwise): the features
   (rows, width) as they are stored, of uint8, float32 or float64, of which `scale` times is meant;
   labels (rows,) in [0, classes); draws the Window of uniform numbers, `batch` per iteration and seed;
   multiply(a, b, out) as np.matmul; otherwise(t, x) is called for any other x. */
static PyObject *softmax_new(PyTypeObject *type, PyObject *arguments, PyObject *names) {
    PyArrayObject *features, *labels;
    Py_ssize_t classes, batch;
    double scale, reg;
    PyObject *draws, *multiply, *otherwise;
    if (!PyArg_ParseTuple(arguments, "O!O!nnddO!OO", &PyArray_Type, &features, &PyArray_Type,
                          &labels, &classes, &batch, &scale, &reg, &WindowType, &draws, &multiply,
                          &otherwise))
        return NULL;
    int fits = PyArray_NDIM(features) == 2 && PyArray_ISCARRAY_RO(features) &&
               copy_for(NPY_DOUBLE, PyArray_TYPE(features)) && PyArray_DIM(features, 0) > 0 &&
               PyArray_TYPE(labels) == NPY_INTP && PyArray_ISCARRAY_RO(labels) &&
               PyArray_SIZE(labels) == PyArray_DIM(features, 0) && batch > 0;
    const npy_intp *label = PyArray_DATA(labels);
    for (npy_intp i = 0; fits && i < PyArray_SIZE(labels); i++)
        fits = label[i] >= 0 && label[i] < classes;
    if (!fits) {
        PyErr_SetString(PyExc_ValueError, "features, labels and classes do not match");
        return NULL;
    }
    Softmax *self = (Softmax *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->vectorcall = softmax_call;
    self->features = (PyArrayObject *)Py_NewRef(features);
    self->labels = (PyArrayObject *)Py_NewRef(labels);
    self->classes = classes, self->batch = batch, self->scale = scale, self->reg = reg;
    self->draws = Py_NewRef(draws), self->multiply = Py_NewRef(multiply);
    self->otherwise = Py_NewRef(otherwise);
    return (PyObject *)self;
}

static int softmax_traverse(PyObject *thing, visitproc visit, void *arg) {
    Py_VISIT(((Softmax *)thing)->draws);
    Py_VISIT(((Softmax *)thing)->otherwise);
    return 0;
}

static int softmax_clear(PyObject *thing) {
    Py_XSETREF(((Softmax *)thing)->otherwise, Py_NewRef(Py_None));
    return 0;
}

static void softmax_free(PyObject *thing) {
    Softmax *self = (Softmax *)thing;
    PyObject_GC_UnTrack(thing);
    pool_free(&self->results);
    PyMem_Free(self->chosen);
    Py_XDECREF(self->features);
    Py_XDECREF(self->labels);
    Py_XDECREF(self->rows);
    Py_XDECREF(self->outputs);
    Py_XDECREF(self->uniform);
    Py_XDECREF(self->draws);
    Py_XDECREF(self->multiply);
    Py_XDECREF(self->otherwise);
    Py_TYPE(thing)->tp_free(thing);
}

PyTypeObject SoftmaxType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mpi_gt.kernels._c.Softmax",
    .tp_basicsize = sizeof(Softmax),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC,
    .tp_vectorcall_offset = offsetof(Softmax, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_new = softmax_new,
    .tp_traverse = softmax_traverse,
    .tp_clear = softmax_clear,
    .tp_dealloc = softmax_free,
    .tp_doc = "The stochastic gradient of the softmax problem.",
};
