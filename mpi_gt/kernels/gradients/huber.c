/* The Huber problem with a small dense Phi, all seeds in one call: its stochastic gradient, and the
   expectations of its loss and gradient. The twin is problems/huber.py. */
#include "../kernels.h"
#include <math.h>
#include <stddef.h>

#define LARGEST 64 /* dimension; beyond it a BLAS is faster */

/* Both products with Phi are sums of scaled rows of a matrix, in the order of the rows. */
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
        if (d == 10 && noise) /* the paper's problem: the compiler unrolls these loops */       \
            seeds_##T(out, x, columns, rows, theta, noise, k, scale, seeds, 10, step);           \
        else                                                                                    \
            seeds_##T(out, x, columns, rows, theta, noise, k, scale, seeds, d, step);            \
    }
HUBER(double)
HUBER(float)

/* Normal noise truncated to [-c, c]; mass is the probability of that interval before truncation.
   Without noise c is 0. */
typedef struct {
    double sd, c, mass, variance;
    double (*exp)(double), (*erf)(double); /* of the C library, or the same on every processor */
} Noise;

/* Compute the integrals of 1, u and u^2 against the noise over [lower, upper] within [-c, c]. */
static void moments(const Noise *noise, double lower, double upper, double *integrals) {
    const double root2 = 1.4142135623730951, root2pi = 2.5066282746310002;
    double sd = noise->sd, a = lower / sd, b = upper / sd;
    double density_a = noise->exp(-0.5 * a * a) / root2pi;
    double density_b = noise->exp(-0.5 * b * b) / root2pi;
    integrals[0] = 0.5 * (noise->erf(b / root2) - noise->erf(a / root2)) / noise->mass;
    integrals[1] = sd * (density_a - density_b) / noise->mass;
    integrals[2] = sd * sd * (integrals[0] + (a * density_a - b * density_b) / noise->mass);
}

/* Return E H(r + noise), and set its slope. If the noise cannot reach a kink of H, one branch of H
   gives both. */
static double expected(const Noise *noise, double k, double r, double *slope) {
    double c = noise->c, distance = fabs(r), inner[3], above[3], below[3];
    if (!(fabs(distance - k) < c)) {
        *slope = MAXIMUM(MINIMUM(r, k), -k);
        return distance <= k - c ? 0.5 * (r * r + noise->variance) : k * (distance - 0.5 * k);
    }
    double low = MAXIMUM(MINIMUM(-k - r, c), -c), high = MAXIMUM(MINIMUM(k - r, c), -c);
    moments(noise, low, high, inner);
    moments(noise, high, c, above);
    moments(noise, -c, low, below);
    *slope = r * inner[0] + inner[1] + k * above[0] - k * below[0];
    return 0.5 * (r * r * inner[0] + 2 * r * inner[1] + inner[2]) +
           k * ((r - 0.5 * k) * above[0] + above[1]) + k * ((-r - 0.5 * k) * below[0] - below[1]);
}

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyArrayObject *columns, *rows, *theta;
    double threshold, scale;
    Noise noise;
    PyObject *draws, *otherwise;
    Pool results;
} Huber;

/* huber(t, x): return scale * Phi' clip(theta + noise - Phi x) with the noise of iteration t. */
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

/* huber.evaluate(x): return the expectations of loss (seeds,) and gradient (seeds, d) over the
   noise; None unless x is a float64 array of the shape of theta. */
static PyObject *huber_evaluate(PyObject *thing, PyObject *argument) {
    Huber *self = (Huber *)thing;
    if (PyArray_TYPE(self->theta) != NPY_DOUBLE || !is_alike(argument, self->theta))
        Py_RETURN_NONE;
    npy_intp seeds = PyArray_DIM(self->theta, 0), d = PyArray_DIM(self->theta, 1);
    npy_intp step = PyArray_DIM(self->rows, 0) == 1 ? 0 : d * d;
    PyArrayObject *losses = (PyArrayObject *)PyArray_SimpleNew(1, &seeds, NPY_DOUBLE);
    PyArrayObject *gradients =
        (PyArrayObject *)PyArray_SimpleNew(2, PyArray_DIMS(self->theta), NPY_DOUBLE);
    if (!losses || !gradients) {
        Py_XDECREF(losses);
        Py_XDECREF(gradients);
        return NULL;
    }
    const double *x = PyArray_DATA((PyArrayObject *)argument), *theta = PyArray_DATA(self->theta);
    const double *columns = PyArray_DATA(self->columns), *rows = PyArray_DATA(self->rows);
    double *loss = PyArray_DATA(losses), *gradient = PyArray_DATA(gradients);
    double product[LARGEST], slope[LARGEST];
    for (npy_intp seed = 0; seed < seeds; seed++) {
        double sum = 0;
        add_rows_double(product, columns, x, d);
        for (npy_intp i = 0; i < d; i++)
            sum += expected(&self->noise, self->threshold, theta[i] - product[i], slope + i);
        add_rows_double(product, rows, slope, d);
        for (npy_intp i = 0; i < d; i++) gradient[i] = product[i] * self->scale;
        loss[seed] = -self->scale * sum;
        gradient += d, x += d, theta += d, columns += step, rows += step;
    }
    return Py_BuildValue("NN", losses, gradients);
}

static PyMethodDef huber_methods[] = {
    {"evaluate", huber_evaluate, METH_O,
     "evaluate(x): return expected loss and gradient, or None for another kind of x."},
    {NULL, NULL, 0, NULL}};

/* Huber(columns, rows, theta, threshold, scale, noise, draws, otherwise, fixed): rows is Phi, shape
   (seeds or 1, d, d), columns its transpose, theta (seeds, d), noise (sd, c, mass, variance), draws
   the Window of the noise or None; otherwise(t, x) is called unless x has the dtype and shape of
   theta; fixed: the expectations have the same bits on every processor. */
static PyObject *huber_new(PyTypeObject *type, PyObject *arguments, PyObject *names) {
    PyArrayObject *columns, *rows, *theta;
    PyObject *draws, *otherwise;
    double threshold, scale;
    Noise noise;
    int fixed;
    if (!PyArg_ParseTuple(arguments, "O!O!O!dd(dddd)OOp", &PyArray_Type, &columns, &PyArray_Type,
                          &rows, &PyArray_Type, &theta, &threshold, &scale, &noise.sd, &noise.c,
                          &noise.mass, &noise.variance, &draws, &otherwise, &fixed))
        return NULL;
    noise.exp = fixed ? fixed_exp : exp, noise.erf = fixed ? fixed_erf : erf;
    npy_intp d = PyArray_NDIM(theta) == 2 ? PyArray_DIM(theta, 1) : 0;
    if (d < 1 || d > LARGEST || !is_plain((PyObject *)theta) || !is_plain((PyObject *)rows) ||
        !is_alike((PyObject *)columns, rows) || PyArray_TYPE(rows) != PyArray_TYPE(theta) ||
        PyArray_NDIM(rows) != 3 || PyArray_DIM(rows, 1) != d || PyArray_DIM(rows, 2) != d ||
        (PyArray_DIM(rows, 0) != 1 && PyArray_DIM(rows, 0) != PyArray_DIM(theta, 0)) ||
        (draws != Py_None && !PyObject_TypeCheck(draws, &WindowType))) {
        PyErr_SetString(PyExc_ValueError, "Phi, theta and draws do not match, or are too large");
        return NULL;
    }
    Huber *self = (Huber *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->vectorcall = huber_call;
    self->columns = (PyArrayObject *)Py_NewRef(columns);
    self->rows = (PyArrayObject *)Py_NewRef(rows);
    self->theta = (PyArrayObject *)Py_NewRef(theta);
    self->threshold = threshold, self->scale = scale, self->noise = noise;
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
    .tp_methods = huber_methods,
    .tp_traverse = huber_traverse,
    .tp_clear = huber_clear,
    .tp_dealloc = huber_free,
    .tp_doc = "The gradient of the Huber problem with a small dense Phi.",
};
