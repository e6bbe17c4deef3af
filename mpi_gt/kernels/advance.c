/* The inner loop over steps, and the `grad` of a step. The Python twins are in reference.py. */
#include "kernels.h"
#include <stddef.h>
#include <time.h>

/* Return whether the deadline has passed, by the clock of Python's time.monotonic. */
static int is_over(double deadline) {
#ifdef __APPLE__
    clockid_t clock = CLOCK_UPTIME_RAW;
#else
    clockid_t clock = CLOCK_MONOTONIC;
#endif
    struct timespec now;
    return deadline != 0 && !clock_gettime(clock, &now) &&
           (double)now.tv_sec + 1e-9 * (double)now.tv_nsec >= deadline;
}

/* advance(step, node, mix, grad, last, t, states): take steps t + 1, t + 2, ... from the last of
   `states`, until node.due, `last` or the deadline. Returns the iteration of the last step, and leaves the states
   before and after it in the list. No other states are held on the way, so that the next state can
   reuse their arrays. */
PyObject *kernels_advance(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    PyObject *states = count == 7 ? arguments[6] : NULL;
    if (!states || !PyObject_TypeCheck(arguments[1], &NodeCountersType) || !PyList_Check(states) ||
        !PyList_GET_SIZE(states)) {
        PyErr_SetString(PyExc_TypeError,
                        "advance takes step, node, mix, grad, last, t and a list of states");
        return NULL;
    }
    NodeCounters *node = (NodeCounters *)arguments[1];
    long long last = PyLong_AsLongLong(arguments[4]), t = PyLong_AsLongLong(arguments[5]);
    if (PyErr_Occurred()) return NULL;
    PyObject *result = NULL;
    Py_ssize_t held = PyList_GET_SIZE(states);
    PyObject *before = Py_NewRef(Py_None), *state = Py_NewRef(PyList_GET_ITEM(states, held - 1));
    if (PyList_SetSlice(states, 0, held, NULL)) goto done;
    while (t < last) {
        node->iteration = ++t;
        PyObject *number = PyLong_FromLongLong(t);
        if (!number) goto done;
        Py_SETREF(before, Py_NewRef(Py_None)); /* the next state reuses its arrays */
        PyObject *given[] = {NULL, number, state, arguments[2], arguments[3]};
        PyObject *made = PyObject_Vectorcall(arguments[0], given + 1,
                                             4 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
        Py_DECREF(number);
        if (!made) goto done;
        Py_SETREF(before, state);
        state = made;
        if (PyErr_CheckSignals()) goto done;
        if (t >= node->due || is_over(node->deadline)) break;
    }
    if (!PyList_Append(states, before) && !PyList_Append(states, state))
        result = PyLong_FromLongLong(t);
done:
    Py_DECREF(before);
    Py_DECREF(state);
    return result;
}

/* The `grad` of a step: the gradient with the draws of the next iteration. */

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    NodeCounters *node;
    PyObject *gradient, *full;
    long long batch, rows;
} NextGradient;

static PyObject *next_gradient_call(PyObject *thing, PyObject *const *arguments, size_t count,
                                    PyObject *names) {
    NextGradient *self = (NextGradient *)thing;
    if (names || PyVectorcall_NARGS(count) != 1 || !self->gradient) {
        PyErr_SetString(PyExc_TypeError, "grad takes x only");
        return NULL;
    }
    PyObject *t = PyLong_FromLongLong(self->node->iteration + 1);
    if (!t) return NULL;
    PyObject *given[] = {NULL, t, arguments[0]}; /* the callee may use the first entry for self */
    PyObject *made = PyObject_Vectorcall(self->gradient, given + 1,
                                         2 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    Py_DECREF(t);
    self->node->gradients += self->batch;
    return made;
}

/* grad.full(x): the exact gradient. */
PyObject *next_gradient_full(PyObject *thing, PyObject *x) {
    NextGradient *self = (NextGradient *)thing;
    if (!self->full) {
        PyErr_SetString(PyExc_RuntimeError, "the gradient no longer exists");
        return NULL;
    }
    self->node->gradients += self->rows;
    return PyObject_CallOneArg(self->full, x);
}

/* NextGradient(node, gradient, full, batch, rows): grad(x) calls gradient(t, x) with
   t = node.iteration + 1, and grad.full(x) calls full(x); these add batch and rows to
   node.gradients. */
static PyObject *next_gradient_new(PyTypeObject *type, PyObject *arguments, PyObject *names) {
    PyObject *node, *gradient, *full;
    long long batch, rows;
    if (!PyArg_ParseTuple(arguments, "O!OOLL", &NodeCountersType, &node, &gradient, &full, &batch,
                          &rows))
        return NULL;
    NextGradient *self = (NextGradient *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->vectorcall = next_gradient_call;
    self->node = (NodeCounters *)Py_NewRef(node);
    self->gradient = Py_NewRef(gradient), self->full = Py_NewRef(full);
    self->batch = batch, self->rows = rows;
    return (PyObject *)self;
}

static int next_gradient_traverse(PyObject *thing, visitproc visit, void *arg) {
    NextGradient *self = (NextGradient *)thing;
    Py_VISIT(self->node);
    Py_VISIT(self->gradient);
    Py_VISIT(self->full);
    return 0;
}

static int next_gradient_clear(PyObject *thing) {
    Py_CLEAR(((NextGradient *)thing)->gradient);
    Py_CLEAR(((NextGradient *)thing)->full);
    return 0;
}

static void next_gradient_free(PyObject *thing) {
    PyObject_GC_UnTrack(thing);
    next_gradient_clear(thing);
    Py_XDECREF(((NextGradient *)thing)->node);
    Py_TYPE(thing)->tp_free(thing);
}

static PyMethodDef next_gradient_methods[] = {
    {"full", next_gradient_full, METH_O, "full(x): return the exact gradient of this node."},
    {NULL, NULL, 0, NULL}};

PyTypeObject NextGradientType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mpi_gt.kernels._c.NextGradient",
    .tp_basicsize = sizeof(NextGradient),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC,
    .tp_vectorcall_offset = offsetof(NextGradient, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_new = next_gradient_new,
    .tp_methods = next_gradient_methods,
    .tp_traverse = next_gradient_traverse,
    .tp_clear = next_gradient_clear,
    .tp_dealloc = next_gradient_free,
    .tp_doc = "The `grad` of a step: the gradient with the draws of the next iteration.",
};
