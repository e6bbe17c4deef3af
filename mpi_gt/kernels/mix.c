/* The function mix, which chooses a transfer by the layer of the graph and the shapes of the vectors,
   and the pending results of a transfer. The Python twins are in reference.py. */
#include "kernels.h"
#include <stddef.h>
#include <structmember.h>

/* One pending result of a transfer. */
typedef struct {
    PyObject_HEAD
    Transfer *transfer;
    int index;
} PendingMix;

PyObject *pending_wait(PyObject *thing) {
    PendingMix *self = (PendingMix *)thing;
    if (!self->transfer) {
        PyErr_SetString(PyExc_RuntimeError, "the transfer of this result no longer exists");
        return NULL;
    }
    return transfer_collect(self->transfer, self->index);
}

/* Wait for the vector, but leave adding up to the caller; see transfer_await. */
PyObject *pending_await(PyObject *thing, Sum *sum) {
    PendingMix *self = (PendingMix *)thing;
    return self->transfer ? transfer_await(self->transfer, self->index, sum) : Py_NewRef(Py_None);
}

static PyObject *pending_wait_method(PyObject *thing, PyObject *none) {
    return pending_wait(thing);
}

/* PendingMix(transfer, index) */
static PyObject *pending_new(PyTypeObject *type, PyObject *arguments, PyObject *names) {
    PyObject *transfer;
    int index;
    if (!PyArg_ParseTuple(arguments, "O!i", &TransferType, &transfer, &index)) return NULL;
    if (index < 0 || index >= transfer_vectors((Transfer *)transfer)) {
        PyErr_SetString(PyExc_ValueError, "the transfer has no such vector");
        return NULL;
    }
    PendingMix *self = (PendingMix *)type->tp_alloc(type, 0);
    if (self) self->transfer = (Transfer *)Py_NewRef(transfer), self->index = index;
    return (PyObject *)self;
}

static int pending_traverse(PyObject *thing, visitproc visit, void *arg) {
    Py_VISIT(((PendingMix *)thing)->transfer);
    return 0;
}

static int pending_clear(PyObject *thing) {
    Py_CLEAR(((PendingMix *)thing)->transfer);
    return 0;
}

static void pending_free(PyObject *thing) {
    PyObject_GC_UnTrack(thing);
    pending_clear(thing);
    Py_TYPE(thing)->tp_free(thing);
}

static PyMethodDef pending_methods[] = {
    {"wait", pending_wait_method, METH_NOARGS,
     "Wait for the vector from all neighbours, and return the mixed vector."},
    {NULL, NULL, 0, NULL}};

PyTypeObject PendingMixType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mpi_gt.kernels._c.PendingMix",
    .tp_basicsize = sizeof(PendingMix),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_new = pending_new,
    .tp_methods = pending_methods,
    .tp_traverse = pending_traverse,
    .tp_clear = pending_clear,
    .tp_dealloc = pending_free,
    .tp_doc = "One mixed vector, pending until `wait()` returns it.",
};

/* mix(vector, ...): send the vectors by the transfer for the layer of this iteration and for their
   shapes, which is made when it is first needed. */
typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *make;
    PyObject *compressed; /* the function mix.compressed, which Node sets */
    PyObject *transfers; /* a tuple of lists, one per layer */
    NodeCounters *node;
    PyObject *turns; /* the layer of iteration t is turns(t); None: one layer after the other */
    Transfer *last, **latest; /* of all, and of each layer */
} Mix;

/* Return the number of this iteration's layer, -1 after an error. */
static Py_ssize_t layer_of(Mix *self) {
    Py_ssize_t layers = PyTuple_GET_SIZE(self->transfers);
    if (layers == 1) return 0;
    if (self->turns == Py_None) {
        Py_ssize_t layer = (Py_ssize_t)((self->node->iteration - 1) % layers);
        return layer < 0 ? layer + layers : layer;
    }
    PyObject *t = PyLong_FromLongLong(self->node->iteration);
    PyObject *number = t ? PyObject_CallOneArg(self->turns, t) : NULL;
    Py_ssize_t layer = number ? PyLong_AsSsize_t(number) : -1;
    Py_XDECREF(t);
    Py_XDECREF(number);
    if (!PyErr_Occurred() && (layer < 0 || layer >= layers))
        PyErr_SetString(PyExc_ValueError, "there is no such layer");
    return PyErr_Occurred() ? -1 : layer;
}

/* Return make(layer, vectors). */
static PyObject *make_transfer(Mix *self, Py_ssize_t layer, PyObject *const *vectors,
                               Py_ssize_t given) {
    PyObject *all = PyTuple_New(given);
    for (Py_ssize_t i = 0; all && i < given; i++) PyTuple_SET_ITEM(all, i, Py_NewRef(vectors[i]));
    PyObject *made = all ? PyObject_CallFunction(self->make, "nO", layer, all) : NULL;
    Py_XDECREF(all);
    return made;
}

/* Return the transfer for these vectors; the lists hold it. */
static Transfer *transfer_for(Mix *self, PyObject *const *vectors, Py_ssize_t given) {
    Py_ssize_t layer = layer_of(self);
    if (layer < 0) return NULL;
    Transfer *latest = self->latest[layer];
    if (latest && transfer_fits(latest, vectors, given)) return latest;
    PyObject *transfers = PyTuple_GET_ITEM(self->transfers, layer);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(transfers); i++) {
        Transfer *known = (Transfer *)PyList_GET_ITEM(transfers, i);
        if (transfer_fits(known, vectors, given)) return self->latest[layer] = known;
    }
    PyObject *made = make_transfer(self, layer, vectors, given);
    if (!made) return NULL;
    if (!Py_IS_TYPE(made, &TransferType) || transfer_vectors((Transfer *)made) != given) {
        PyErr_SetString(PyExc_TypeError, "make did not return a Transfer for these vectors");
        Py_DECREF(made);
        return NULL;
    }
    int failed = PyList_Append(transfers, made);
    Py_DECREF(made);
    return failed ? NULL : (self->latest[layer] = (Transfer *)made);
}

static PyObject *mix_call(PyObject *thing, PyObject *const *vectors, size_t count,
                          PyObject *names) {
    Mix *self = (Mix *)thing;
    Py_ssize_t given = PyVectorcall_NARGS(count);
    if (names || !self->make) {
        PyErr_SetString(PyExc_TypeError, "mix takes vectors and no keywords");
        return NULL;
    }
    if (self->last && transfer_is_pending(self->last)) {
        PyErr_SetString(PyExc_RuntimeError, "a result of the last mix was never waited for");
        return NULL;
    }
    Transfer *transfer = transfer_for(self, vectors, given);
    if (!transfer) return NULL;
    self->last = transfer;
    return transfer_call((PyObject *)transfer, vectors, given, NULL);
}

/* mix.each(vector, ...): send the vectors in the same way; the results of the transfer have an
   attribute `each` with one pending result per vector that keeps the neighbours apart. */
static PyObject *mix_each(PyObject *thing, PyObject *const *vectors, Py_ssize_t count) {
    PyObject *results = mix_call(thing, vectors, count, NULL);
    if (!results) return NULL;
    PyObject *apart = PyObject_GetAttrString(results, "each");
    Py_DECREF(results);
    return apart;
}

static PyMethodDef mix_methods[] = {
    {"each", (PyCFunction)(void (*)(void))mix_each, METH_FASTCALL,
     "Send vectors to the neighbours; the results hold every neighbour's vector apart."},
    {NULL, NULL, 0, NULL}};

/* Mix(node, make, layers, turns): make(layer, vectors) returns a Transfer for as many vectors of these
   shapes; the layer of iteration t is turns(t), or with None one after the other, from t = 1. */
static PyObject *mix_new(PyTypeObject *type, PyObject *arguments, PyObject *names) {
    PyObject *node, *make, *turns = Py_None;
    Py_ssize_t layers = 1;
    if (!PyArg_ParseTuple(arguments, "O!O|nO", &NodeCountersType, &node, &make, &layers, &turns))
        return NULL;
    if (layers < 1) {
        PyErr_SetString(PyExc_ValueError, "a graph has one layer or more");
        return NULL;
    }
    Mix *self = (Mix *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->vectorcall = mix_call, self->make = Py_NewRef(make);
    self->node = (NodeCounters *)Py_NewRef(node), self->turns = Py_NewRef(turns);
    self->latest = PyMem_Calloc(layers, sizeof(Transfer *));
    self->transfers = PyTuple_New(layers);
    int failed = !self->latest || !self->transfers;
    for (Py_ssize_t i = 0; !failed && i < layers; i++) {
        PyObject *list = PyList_New(0);
        failed = !list;
        if (list) PyTuple_SET_ITEM(self->transfers, i, list);
    }
    if (failed) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    return (PyObject *)self;
}

static int mix_traverse(PyObject *thing, visitproc visit, void *arg) {
    Mix *self = (Mix *)thing;
    Py_VISIT(self->make);
    Py_VISIT(self->compressed);
    Py_VISIT(self->transfers);
    Py_VISIT(self->node);
    Py_VISIT(self->turns);
    return 0;
}

static int mix_clear(PyObject *thing) {
    Mix *self = (Mix *)thing;
    self->last = NULL;
    Py_CLEAR(self->make);
    Py_CLEAR(self->compressed);
    Py_CLEAR(self->transfers);
    Py_CLEAR(self->node);
    Py_CLEAR(self->turns);
    return 0;
}

static void mix_free(PyObject *thing) {
    PyObject_GC_UnTrack(thing);
    mix_clear(thing);
    PyMem_Free(((Mix *)thing)->latest);
    Py_TYPE(thing)->tp_free(thing);
}

static PyMemberDef mix_members[] = {
    {"compressed", T_OBJECT, offsetof(Mix, compressed), 0, NULL},
    {NULL, 0, 0, 0, NULL}};

PyTypeObject MixType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mpi_gt.kernels._c.Mix",
    .tp_basicsize = sizeof(Mix),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC,
    .tp_vectorcall_offset = offsetof(Mix, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_new = mix_new,
    .tp_methods = mix_methods,
    .tp_members = mix_members,
    .tp_traverse = mix_traverse,
    .tp_clear = mix_clear,
    .tp_dealloc = mix_free,
    .tp_doc = "The function `mix(z, ...)` of a node, with Transfers by layer and by shapes.",
};
