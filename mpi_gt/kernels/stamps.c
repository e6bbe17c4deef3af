/* Time stamps for a profile: codes and times of the monotonic clock, in an array. */
#include "kernels.h"
#include <stddef.h>
#include <time.h>

/* Append a code and the time; stamps[0] is the number of words in use, itself included. */
int add_stamp(PyArrayObject *stamps, long long code) {
    long long *words = PyArray_DATA(stamps);
    long long used = words[0];
    if (used + 2 > PyArray_DIM(stamps, 0)) {
        PyErr_SetString(PyExc_RuntimeError, "too many time stamps in one iteration");
        return -1;
    }
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now); /* the clock of time.perf_counter_ns */
    words[used] = code;
    words[used + 1] = now.tv_sec * 1000000000LL + now.tv_nsec;
    words[0] = used + 2;
    return 0;
}

/* stamp(stamps, code): append a code and the time. */
PyObject *kernels_stamp(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    if (count != 2 || !PyArray_CheckExact(arguments[0])) {
        PyErr_SetString(PyExc_TypeError, "stamp takes an array and a code");
        return NULL;
    }
    if (add_stamp((PyArrayObject *)arguments[0], PyLong_AsLongLong(arguments[1]))) return NULL;
    Py_RETURN_NONE;
}

/* A function between two stamps, called without a Python frame. */
typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyArrayObject *stamps;
    PyObject *inner;
    long long before, after;
} Timed;

static PyObject *timed_call(PyObject *thing, PyObject *const *arguments, size_t count,
                              PyObject *names) {
    Timed *self = (Timed *)thing;
    if (!self->inner) {
        PyErr_SetString(PyExc_RuntimeError, "the timed function no longer exists");
        return NULL;
    }
    if (add_stamp(self->stamps, self->before)) return NULL;
    /* clears the offset flag: the entry before the arguments is for this function, not for inner */
    count = PyVectorcall_NARGS(count);
    PyObject *result = PyObject_Vectorcall(self->inner, arguments, count, names);
    if (result && add_stamp(self->stamps, self->after)) Py_CLEAR(result);
    return result;
}

/* Timed(stamps, before, after, inner) */
static PyObject *timed_new(PyTypeObject *type, PyObject *arguments, PyObject *names) {
    PyObject *stamps, *inner;
    long long before, after;
    if (!PyArg_ParseTuple(arguments, "O!LLO", &PyArray_Type, &stamps, &before, &after, &inner))
        return NULL;
    Timed *self = (Timed *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->vectorcall = timed_call;
    self->stamps = (PyArrayObject *)Py_NewRef(stamps);
    self->inner = Py_NewRef(inner);
    self->before = before, self->after = after;
    return (PyObject *)self;
}

static int timed_traverse(PyObject *thing, visitproc visit, void *arg) {
    Timed *self = (Timed *)thing;
    Py_VISIT(self->stamps);
    Py_VISIT(self->inner);
    return 0;
}

static int timed_clear(PyObject *thing) {
    Py_CLEAR(((Timed *)thing)->inner);
    return 0;
}

static void timed_free(PyObject *thing) {
    PyObject_GC_UnTrack(thing);
    timed_clear(thing);
    Py_XDECREF(((Timed *)thing)->stamps);
    Py_TYPE(thing)->tp_free(thing);
}

PyTypeObject TimedType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mpi_gt.kernels._c.Timed",
    .tp_basicsize = sizeof(Timed),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC,
    .tp_vectorcall_offset = offsetof(Timed, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_new = timed_new,
    .tp_traverse = timed_traverse,
    .tp_clear = timed_clear,
    .tp_dealloc = timed_free,
    .tp_doc = "A function that leaves a time stamp before and after each call.",
};
