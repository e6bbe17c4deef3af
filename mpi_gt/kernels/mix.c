/* What stands before a post: mix, which chooses it, and its results. */
#include "kernels.h"
#include <stddef.h>

/* One result of a post. */
typedef struct {
    PyObject_HEAD
    Post *post;
    int index;
} Arrival;

PyObject *arrival_wait(PyObject *thing) {
    Arrival *self = (Arrival *)thing;
    if (!self->post) {
        PyErr_SetString(PyExc_RuntimeError, "what was to arrive is gone");
        return NULL;
    }
    return post_collect(self->post, self->index);
}

static PyObject *arrival_wait_method(PyObject *thing, PyObject *none) {
    return arrival_wait(thing);
}

/* Arrival(post, index) */
static PyObject *arrival_new(PyTypeObject *type, PyObject *arguments, PyObject *names) {
    PyObject *post;
    int index;
    if (!PyArg_ParseTuple(arguments, "O!i", &PostType, &post, &index)) return NULL;
    if (index < 0 || index >= post_vectors((Post *)post)) {
        PyErr_SetString(PyExc_ValueError, "the post has no such vector");
        return NULL;
    }
    Arrival *self = (Arrival *)type->tp_alloc(type, 0);
    if (self) self->post = (Post *)Py_NewRef(post), self->index = index;
    return (PyObject *)self;
}

static int arrival_traverse(PyObject *thing, visitproc visit, void *arg) {
    Py_VISIT(((Arrival *)thing)->post);
    return 0;
}

static int arrival_clear(PyObject *thing) {
    Py_CLEAR(((Arrival *)thing)->post);
    return 0;
}

static void arrival_free(PyObject *thing) {
    PyObject_GC_UnTrack(thing);
    arrival_clear(thing);
    Py_TYPE(thing)->tp_free(thing);
}

static PyMethodDef arrival_methods[] = {
    {"wait", arrival_wait_method, METH_NOARGS, "The mixed vector, once all of it has come."},
    {NULL, NULL, 0, NULL}};

PyTypeObject ArrivalType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mpi_gt.kernels._c.Arrival",
    .tp_basicsize = sizeof(Arrival),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = arrival_new,
    .tp_methods = arrival_methods,
    .tp_traverse = arrival_traverse,
    .tp_clear = arrival_clear,
    .tp_dealloc = arrival_free,
    .tp_doc = "One mixed vector, pending until `wait()`, which gives it.",
};

/* mix(vector, ...): the post for so many vectors, made when it is first needed. */
typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *make;
    Post *last, *posts[MOST_VECTORS + 1];
} Mix;

static PyObject *mix_call(PyObject *thing, PyObject *const *vectors, size_t count,
                          PyObject *names) {
    Mix *self = (Mix *)thing;
    Py_ssize_t given = PyVectorcall_NARGS(count);
    if (names || !self->make) {
        PyErr_SetString(PyExc_TypeError, "mix takes vectors, without names");
        return NULL;
    }
    if (self->last && post_is_pending(self->last)) {
        PyErr_SetString(PyExc_RuntimeError, "a result of the last mix was never waited for");
        return NULL;
    }
    Post *post = given <= MOST_VECTORS ? self->posts[given] : NULL;
    if (!post) {
        PyObject *made = PyObject_Vectorcall(self->make, vectors, given, NULL);
        if (!made) return NULL;
        if (!Py_IS_TYPE(made, &PostType) || post_vectors((Post *)made) != given) {
            PyErr_SetString(PyExc_TypeError, "what was made is not a Post of so many vectors");
            Py_DECREF(made);
            return NULL;
        }
        Py_XSETREF(self->posts[given], (Post *)made);
        post = self->posts[given];
    }
    self->last = post;
    return post_call((PyObject *)post, vectors, given, NULL);
}

/* Mix(make): make(vector, ...) gives a Post for vectors like these. */
static PyObject *mix_new(PyTypeObject *type, PyObject *arguments, PyObject *names) {
    PyObject *make;
    if (!PyArg_ParseTuple(arguments, "O", &make)) return NULL;
    Mix *self = (Mix *)type->tp_alloc(type, 0);
    if (self) self->vectorcall = mix_call, self->make = Py_NewRef(make);
    return (PyObject *)self;
}

static int mix_traverse(PyObject *thing, visitproc visit, void *arg) {
    Mix *self = (Mix *)thing;
    Py_VISIT(self->make);
    for (int i = 0; i <= MOST_VECTORS; i++) Py_VISIT(self->posts[i]);
    return 0;
}

static int mix_clear(PyObject *thing) {
    Mix *self = (Mix *)thing;
    self->last = NULL;
    Py_CLEAR(self->make);
    for (int i = 0; i <= MOST_VECTORS; i++) Py_CLEAR(self->posts[i]);
    return 0;
}

static void mix_free(PyObject *thing) {
    PyObject_GC_UnTrack(thing);
    mix_clear(thing);
    Py_TYPE(thing)->tp_free(thing);
}

PyTypeObject MixType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mpi_gt.kernels._c.Mix",
    .tp_basicsize = sizeof(Mix),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC,
    .tp_vectorcall_offset = offsetof(Mix, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_new = mix_new,
    .tp_traverse = mix_traverse,
    .tp_clear = mix_clear,
    .tp_dealloc = mix_free,
    .tp_doc = "Node.mix: has the post for so many vectors do it.",
};
