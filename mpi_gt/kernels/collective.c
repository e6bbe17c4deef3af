/* A neighbourhood collective with fixed buffers, called without mpi4py in between: on crowded cores its
   checks of buffers, found cold in every iteration, take longer than the messages of small vectors.

   There is no MPI in here. The function is looked up in the library that mpi4py has loaded, and handles
   are passed on as numbers: they are pointers or ints, and in the calling conventions of 64-bit
   processors an int fills the low half of the register or place of a pointer. */
#define _GNU_SOURCE
#include "kernels.h"
#include <stddef.h>
#include <stdint.h>
#if defined(__unix__) || defined(__APPLE__)
#include <dlfcn.h>
#define CAN_LOOK_UP 1
#else
#define CAN_LOOK_UP 0
#endif

typedef uintptr_t Handle;
typedef int (*Gather)(const void *, int, Handle, void *, int, Handle, Handle);

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyArrayObject *send, *receive;
    PyObject *fail;
    Gather function;
    Handle datatype, comm;
    int count;
} Collective;

/* Return the function of that name as the library in the file `path` finds it: first among what is
   preloaded, as tools that count messages are, then in the library and in those it is linked to. */
static Gather look_up(const char *path, const char *name) {
    void *found = NULL;
#if CAN_LOOK_UP
    const uint16_t one = 1;
    if (sizeof(void *) < 8 || !*(const char *)&one) return NULL;
    if (!(found = dlsym(RTLD_DEFAULT, name))) {
        void *library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
        if (library) found = dlsym(library, name), dlclose(library); /* mpi4py keeps it loaded */
    }
#endif
    Gather function;
    memcpy(&function, &found, sizeof function);
    return function;
}

/* collective(): exchange the content of the buffers with all neighbours. */
static PyObject *collective_call(PyObject *thing, PyObject *const *arguments, size_t count,
                                 PyObject *names) {
    Collective *self = (Collective *)thing;
    int code;
    Py_BEGIN_ALLOW_THREADS /* the watchdog runs meanwhile */
    code = self->function(PyArray_DATA(self->send), self->count, self->datatype,
                          PyArray_DATA(self->receive), self->count, self->datatype, self->comm);
    Py_END_ALLOW_THREADS
    if (!code) Py_RETURN_NONE;
    PyObject *done = PyObject_CallFunction(self->fail, "i", code);
    if (done) PyErr_SetString(PyExc_RuntimeError, "a collective call failed");
    Py_XDECREF(done);
    return NULL;
}

/* Collective(path, name, send, receive, datatype, comm, fail): the function `name` with the arguments of
   MPI_Neighbor_allgather, on the words of send to each neighbour and as many from each into receive;
   datatype and comm are handles as numbers. fail(code) raises the exception of an error code. A
   LookupError if there is no such function. */
static PyObject *collective_new(PyTypeObject *type, PyObject *arguments, PyObject *names) {
    const char *path, *name;
    PyObject *send, *receive, *fail;
    unsigned long long datatype, comm;
    if (!PyArg_ParseTuple(arguments, "ssO!O!KKO", &path, &name, &PyArray_Type, &send,
                          &PyArray_Type, &receive, &datatype, &comm, &fail))
        return NULL;
    PyArrayObject *from = (PyArrayObject *)send, *into = (PyArrayObject *)receive;
    npy_intp words = PyArray_SIZE(from);
    if (!PyArray_ISCARRAY_RO(from) || !PyArray_ISCARRAY(into) || PyArray_NDIM(into) != 2 ||
        PyArray_DIM(into, 1) != words || PyArray_TYPE(from) != NPY_INT64 ||
        PyArray_TYPE(into) != NPY_INT64) {
        PyErr_SetString(PyExc_ValueError, "the buffers of a collective do not match");
        return NULL;
    }
    Gather function = words > INT32_MAX ? NULL : look_up(path, name);
    if (!function) return PyErr_Format(PyExc_LookupError, "%s cannot be called here", name);
    Collective *self = (Collective *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->vectorcall = collective_call, self->function = function, self->count = (int)words;
    self->datatype = (Handle)datatype, self->comm = (Handle)comm;
    self->send = (PyArrayObject *)Py_NewRef(send);
    self->receive = (PyArrayObject *)Py_NewRef(receive);
    self->fail = Py_NewRef(fail);
    return (PyObject *)self;
}

static void collective_free(PyObject *thing) {
    Collective *self = (Collective *)thing;
    Py_XDECREF(self->send);
    Py_XDECREF(self->receive);
    Py_XDECREF(self->fail);
    Py_TYPE(thing)->tp_free(thing);
}

PyTypeObject CollectiveType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mpi_gt.kernels._c.Collective",
    .tp_basicsize = sizeof(Collective),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(Collective, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_new = collective_new,
    .tp_dealloc = collective_free,
    .tp_doc = "A neighbourhood collective with fixed buffers.",
};
