/* Time stamps for a profile: a code and the monotonic clock, into an array that counts them. */
#include "kernels.h"
#include <time.h>

/* stamp(stamps, code): stamps[0] is how many words are in use, itself included. */
PyObject *kernels_stamp(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    if (count != 2 || !PyArray_CheckExact(arguments[0])) {
        PyErr_SetString(PyExc_TypeError, "stamp takes an array and a code");
        return NULL;
    }
    PyArrayObject *stamps = (PyArrayObject *)arguments[0];
    long long *words = PyArray_DATA(stamps);
    long long used = words[0];
    if (used + 2 > PyArray_DIM(stamps, 0)) {
        PyErr_SetString(PyExc_RuntimeError, "too many time stamps in one iteration");
        return NULL;
    }
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now); /* what time.perf_counter_ns reads */
    words[used] = PyLong_AsLongLong(arguments[1]);
    words[used + 1] = now.tv_sec * 1000000000LL + now.tv_nsec;
    words[0] = used + 2;
    Py_RETURN_NONE;
}
