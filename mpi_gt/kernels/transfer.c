/* Transfers without Python frames: pack the vectors and start the exchange; on wait, check the
   received headers and add up. The Python twins are in reference.py. */
#include "kernels.h"
#include <stddef.h>
#include <structmember.h>

#define HEADER_BYTES 16

/* NodeCounters, the base class of Node: counters that messages, the watchdog and the loop read. */
static PyMemberDef counters_members[] = {
    {"iteration", T_LONGLONG, offsetof(NodeCounters, iteration), 0, NULL},
    {"due", T_LONGLONG, offsetof(NodeCounters, due), 0, NULL},
    {"stop_at", T_LONGLONG, offsetof(NodeCounters, stop_at), 0, NULL},
    {"waits", T_LONGLONG, offsetof(NodeCounters, waits), 0, NULL},
    {"bytes_sent", T_LONGLONG, offsetof(NodeCounters, bytes_sent), 0, NULL},
    {"gradients", T_LONGLONG, offsetof(NodeCounters, gradients), 0, NULL},
    {"waiting", T_OBJECT, offsetof(NodeCounters, waiting), 0, NULL},
    {NULL, 0, 0, 0, NULL}};

static int counters_traverse(PyObject *thing, visitproc visit, void *arg) {
    Py_VISIT(((NodeCounters *)thing)->waiting);
    return 0;
}

static int counters_clear(PyObject *thing) {
    Py_CLEAR(((NodeCounters *)thing)->waiting);
    return 0;
}

static void counters_free(PyObject *thing) {
    PyObject_GC_UnTrack(thing);
    counters_clear(thing);
    Py_TYPE(thing)->tp_free(thing);
}

PyTypeObject NodeCountersType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mpi_gt.kernels._c.NodeCounters",
    .tp_basicsize = sizeof(NodeCounters),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_members = counters_members,
    .tp_new = PyType_GenericNew,
    .tp_traverse = counters_traverse,
    .tp_clear = counters_clear,
    .tp_dealloc = counters_free,
    .tp_doc = "The base class of Node: its counters, and what it waits for.",
};

typedef struct {
    PyArrayObject *headers; /* (neighbours, 2), as received */
    char *header;           /* as sent */
    int arrived;
} MessageBuffers;

typedef struct {
    PyArrayObject *own; /* the vector in the send buffer */
    PyArrayObject *theirs; /* the vector as received, one row per neighbour */
    const void **rows;  /* the vectors to add up, in rank order */
    const void *weights; /* of these */
    int message;
    Pool results;
} Part;

struct Transfer {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    NodeCounters *node;
    PyObject *plan, *start, *finish, *fill, *results;
    PyObject *buffers; /* a tuple that keeps the arrays of all messages alive */
    PyArrayObject *weights, *stamps;
    long long before, after; /* codes of stamps */
    long long bytes, calls;
    unsigned long long pending; /* one bit per result that was not waited for yet */
    int messages_used, parts_used;
    MessageBuffers *messages;
    Part *parts;
    const void **rows;
};

int transfer_vectors(Transfer *self) { return self->parts_used; }
int transfer_is_pending(Transfer *self) { return self->pending != 0; }

/* Return whether the vectors have the number and the shapes that the transfer was made for. */
int transfer_fits(Transfer *self, PyObject *const *vectors, Py_ssize_t count) {
    if (count != self->parts_used) return 0;
    for (Py_ssize_t i = 0; i < count; i++)
        if (!PyArray_Check(vectors[i]) ||
            !same_shape((PyArrayObject *)vectors[i], self->parts[i].own))
            return 0;
    return 1;
}

/* Call start or finish of the exchange, with node.waiting set for the watchdog. */
static int call_waiting(Transfer *self, PyObject *function, PyObject *argument) {
    Py_XSETREF(self->node->waiting, Py_NewRef(self->plan));
    PyObject *done = argument ? PyObject_CallOneArg(function, argument)
                              : PyObject_CallNoArgs(function);
    if (!done) return -1;
    Py_DECREF(done);
    Py_CLEAR(self->node->waiting);
    return 0;
}

/* Copy header and vectors into the send buffers; `fill` does it unless all vectors are plain. */
static int pack(Transfer *self, PyObject *const *vectors) {
    for (int i = 0; i < self->parts_used; i++)
        if (!is_alike(vectors[i], self->parts[i].own)) {
            PyObject *done = PyObject_Vectorcall(self->fill, vectors, self->parts_used, NULL);
            Py_XDECREF(done);
            return done ? 0 : -1;
        }
    long long header[] = {self->node->iteration, self->node->stop_at};
    for (int i = 0; i < self->messages_used; i++)
        memcpy(self->messages[i].header, header, HEADER_BYTES);
    for (int i = 0; i < self->parts_used; i++) {
        PyArrayObject *own = self->parts[i].own;
        memcpy(PyArray_DATA(own), PyArray_DATA((PyArrayObject *)vectors[i]), PyArray_NBYTES(own));
    }
    return 0;
}

/* transfer(vector, ...): send the vectors to the neighbours; return the pending results. */
PyObject *transfer_call(PyObject *thing, PyObject *const *vectors, size_t count, PyObject *names) {
    Transfer *self = (Transfer *)thing;
    if (names || PyVectorcall_NARGS(count) != self->parts_used || !self->plan) {
        PyErr_Format(PyExc_TypeError, "this transfer takes %d vectors", self->parts_used);
        return NULL;
    }
    if (self->stamps && add_stamp(self->stamps, self->before)) return NULL;
    if (pack(self, vectors)) return NULL;
    self->node->waits++;
    if (call_waiting(self, self->start, NULL)) return NULL;
    for (int i = 0; i < self->messages_used; i++) self->messages[i].arrived = 0;
    self->pending = ~0ULL >> (64 - self->parts_used);
    self->node->bytes_sent += self->bytes;
    self->calls++;
    if (self->stamps && add_stamp(self->stamps, self->after)) return NULL;
    return Py_NewRef(self->results ? self->results : Py_None);
}

/* Wait for a message from all neighbours, unless it has arrived, and check its headers. */
static int receive(Transfer *self, int which) {
    MessageBuffers *message = self->messages + which;
    if (message->arrived) return 0;
    if (self->finish != Py_None) {
        PyObject *number = PyLong_FromLong(which);
        int failed = !number || call_waiting(self, self->finish, number);
        Py_XDECREF(number);
        if (failed) return -1;
    }
    message->arrived = 1;
    for (npy_intp row = 0; row < PyArray_DIM(message->headers, 0); row++)
        if (memcmp(PyArray_GETPTR1(message->headers, row), message->header, HEADER_BYTES)) {
            PyObject *done = PyObject_CallMethod((PyObject *)self->node, "check_headers", "O",
                                                 message->headers);
            Py_XDECREF(done);
            return done ? 0 : -1;
        }
    return 0;
}

/* Wait for vector `index` from every neighbour; the time until the caller's stamp is packing. */
static int await_vector(Transfer *self, int index) {
    if (!(self->pending >> index & 1)) {
        PyErr_SetString(PyExc_RuntimeError, "this result of mix was waited for already");
        return -1;
    }
    self->pending ^= 1ULL << index;
    if (self->stamps && add_stamp(self->stamps, self->before)) return -1;
    return receive(self, self->parts[index].message);
}

/* Wait for vector `index` from every neighbour, and return the mixed vector. */
PyObject *transfer_collect(Transfer *self, int index) {
    if (await_vector(self, index)) return NULL;
    Part *part = self->parts + index;
    PyArrayObject *total = pool_take(&part->results, part->own);
    if (!total) return NULL;
    combine_rows(total, part->rows, part->weights, PyArray_DIM(self->weights, 1));
    if (self->stamps && add_stamp(self->stamps, self->after)) Py_CLEAR(total);
    return (PyObject *)total;
}

/* transfer.receive(index): wait for that vector from every neighbour and return a copy of what came,
   one row per neighbour. */
static PyObject *transfer_receive(PyObject *thing, PyObject *argument) {
    Transfer *self = (Transfer *)thing;
    long index = PyLong_AsLong(argument);
    if (index == -1 && PyErr_Occurred()) return NULL;
    if (index < 0 || index >= self->parts_used) {
        PyErr_SetString(PyExc_ValueError, "the transfer has no such vector");
        return NULL;
    }
    if (await_vector(self, (int)index)) return NULL;
    PyObject *copy = PyArray_NewCopy(self->parts[index].theirs, NPY_CORDER);
    if (copy && self->stamps && add_stamp(self->stamps, self->after)) Py_CLEAR(copy);
    return copy;
}

/* transfer.watch(stamps, before, after): from now on, stamp the time when packing and adding up
   begin and when they end. */
static PyObject *transfer_watch(PyObject *thing, PyObject *arguments) {
    Transfer *self = (Transfer *)thing;
    PyObject *stamps;
    if (!PyArg_ParseTuple(arguments, "O!LL", &PyArray_Type, &stamps, &self->before, &self->after))
        return NULL;
    if (PyArray_TYPE((PyArrayObject *)stamps) != NPY_INT64 ||
        PyArray_NDIM((PyArrayObject *)stamps) != 1 || !PyArray_ISCARRAY((PyArrayObject *)stamps)) {
        PyErr_SetString(PyExc_ValueError, "stamps must be an array of int64");
        return NULL;
    }
    Py_XSETREF(self->stamps, (PyArrayObject *)Py_NewRef(stamps));
    Py_RETURN_NONE;
}

static int read_message(Transfer *self, PyObject *from, npy_intp place) {
    PyObject *header, *headers, *slots, *received;
    if (!PyArg_ParseTuple(from, "O!O!O!O!", &PyArray_Type, &header, &PyArray_Type, &headers,
                          &PyTuple_Type, &slots, &PyTuple_Type, &received))
        return -1;
    npy_intp neighbours = PyArray_DIM(self->weights, 1) - 1;
    int type = PyArray_TYPE(self->weights);
    int fits = PyArray_NBYTES((PyArrayObject *)header) == HEADER_BYTES &&
               PyArray_ISCARRAY((PyArrayObject *)header) &&
               PyArray_NDIM((PyArrayObject *)headers) == 2 &&
               PyArray_DIM((PyArrayObject *)headers, 0) == neighbours &&
               PyArray_DIM((PyArrayObject *)headers, 1) * 8 == HEADER_BYTES &&
               PyArray_ISINTEGER((PyArrayObject *)headers) &&
               PyArray_ITEMSIZE((PyArrayObject *)headers) == 8 &&
               (neighbours == 0 || PyArray_STRIDE((PyArrayObject *)headers, 1) == 8) &&
               PyTuple_GET_SIZE(slots) == PyTuple_GET_SIZE(received);
    self->messages[self->messages_used] =
        (MessageBuffers){(PyArrayObject *)headers, PyArray_DATA((PyArrayObject *)header), 0};
    for (Py_ssize_t i = 0; fits && i < PyTuple_GET_SIZE(slots); i++) {
        PyArrayObject *own = (PyArrayObject *)PyTuple_GET_ITEM(slots, i);
        PyArrayObject *theirs = (PyArrayObject *)PyTuple_GET_ITEM(received, i);
        fits = self->parts_used < MOST_VECTORS && is_plain((PyObject *)own) &&
               PyArray_ISWRITEABLE(own) && PyArray_CheckExact((PyObject *)theirs) &&
               PyArray_ISBEHAVED_RO(theirs) &&
               PyArray_TYPE(own) == type && PyArray_TYPE(theirs) == type &&
               PyArray_NDIM(theirs) == 2 && PyArray_DIM(theirs, 0) == neighbours &&
               PyArray_DIM(theirs, 1) == PyArray_SIZE(own) &&
               (neighbours == 0 || PyArray_SIZE(own) < 2 ||
                PyArray_STRIDE(theirs, 1) == PyArray_ITEMSIZE(theirs));
        if (!fits) break;
        const void **rows = self->rows + self->parts_used * (neighbours + 1);
        npy_intp last = PyArray_DIM(self->weights, 0) - 1;
        const void *weights =
            PyArray_GETPTR1(self->weights, self->parts_used < last ? self->parts_used : last);
        for (npy_intp row = 0, at = 0; at <= neighbours; at++)
            rows[at] = at == place ? PyArray_DATA(own) : PyArray_GETPTR1(theirs, row++);
        self->parts[self->parts_used++] =
            (Part){.own = own, .theirs = theirs, .rows = rows, .weights = weights,
                   .message = self->messages_used};
    }
    if (!fits) PyErr_SetString(PyExc_ValueError, "the buffers of a message do not match");
    self->messages_used++;
    return fits ? 0 : -1;
}

/* Transfer(node, plan, messages, weights, place, bytes, start, finish, fill): messages are tuples
   of header, headers, slots and received of a Message; weights has one row per vector, the last of
   which also serves the vectors after it; place is the index of the node's own weight in a row;
   finish may be None; fill(vector, ...) packs vectors that are not plain arrays like the
   slots. `results` must be set before the first call. */
static PyObject *transfer_new(PyTypeObject *type, PyObject *arguments, PyObject *names) {
    PyObject *node, *plan, *messages, *weights, *start, *finish, *fill;
    Py_ssize_t place;
    long long bytes;
    if (!PyArg_ParseTuple(arguments, "O!OO!O!nLOOO", &NodeCountersType, &node, &plan, &PyTuple_Type,
                          &messages, &PyArray_Type, &weights, &place, &bytes, &start, &finish,
                          &fill))
        return NULL;
    int table = is_plain(weights) && PyArray_NDIM((PyArrayObject *)weights) == 2 &&
                PyArray_DIM((PyArrayObject *)weights, 0) > 0;
    npy_intp terms = table ? PyArray_DIM((PyArrayObject *)weights, 1) : 0;
    if (place < 0 || place >= terms) {
        PyErr_SetString(PyExc_ValueError,
                        "weights must be rows of floats, and place one of their indices");
        return NULL;
    }
    Transfer *self = (Transfer *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->vectorcall = transfer_call;
    self->node = (NodeCounters *)Py_NewRef(node);
    self->plan = Py_NewRef(plan), self->buffers = Py_NewRef(messages);
    self->weights = (PyArrayObject *)Py_NewRef(weights);
    self->start = Py_NewRef(start), self->finish = Py_NewRef(finish), self->fill = Py_NewRef(fill);
    self->results = Py_NewRef(Py_None);
    self->bytes = bytes;
    self->messages = PyMem_Calloc(PyTuple_GET_SIZE(messages) + 1, sizeof(MessageBuffers));
    self->parts = PyMem_Calloc(MOST_VECTORS, sizeof(Part));
    self->rows = PyMem_Calloc(MOST_VECTORS * terms, sizeof(void *));
    if (!self->messages || !self->parts || !self->rows) {
        PyErr_NoMemory();
        Py_CLEAR(self);
    }
    for (Py_ssize_t i = 0; self && i < PyTuple_GET_SIZE(messages); i++)
        if (read_message(self, PyTuple_GET_ITEM(messages, i), place)) Py_CLEAR(self);
    if (self && !self->parts_used) {
        PyErr_SetString(PyExc_ValueError, "a transfer needs at least one vector");
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static int transfer_traverse(PyObject *thing, visitproc visit, void *arg) {
    Transfer *self = (Transfer *)thing;
    Py_VISIT(self->node);
    Py_VISIT(self->plan);
    Py_VISIT(self->start);
    Py_VISIT(self->finish);
    Py_VISIT(self->fill);
    Py_VISIT(self->results);
    return 0;
}

/* Break reference cycles. Without its plan a transfer can no longer be called; the buffers stay
   until transfer_free. */
static int transfer_clear(PyObject *thing) {
    Transfer *self = (Transfer *)thing;
    self->pending = 0;
    Py_CLEAR(self->plan);
    Py_CLEAR(self->results);
    Py_CLEAR(self->start);
    Py_CLEAR(self->finish);
    Py_CLEAR(self->fill);
    return 0;
}

static void transfer_free(PyObject *thing) {
    Transfer *self = (Transfer *)thing;
    PyObject_GC_UnTrack(thing);
    transfer_clear(thing);
    Py_XDECREF(self->node);
    Py_XDECREF(self->buffers);
    Py_XDECREF(self->weights);
    Py_XDECREF(self->stamps);
    for (int i = 0; i < self->parts_used; i++) pool_free(&self->parts[i].results);
    PyMem_Free(self->messages);
    PyMem_Free(self->parts);
    PyMem_Free(self->rows);
    Py_TYPE(thing)->tp_free(thing);
}

static PyMemberDef transfer_members[] = {
    {"results", T_OBJECT, offsetof(Transfer, results), 0, NULL},
    {"pending", T_ULONGLONG, offsetof(Transfer, pending), READONLY, NULL},
    {"calls", T_LONGLONG, offsetof(Transfer, calls), 0, NULL},
    {NULL, 0, 0, 0, NULL}};

static PyMethodDef transfer_methods[] = {
    {"watch", transfer_watch, METH_VARARGS,
     "watch(stamps, before, after): stamp the time when packing and adding up begin and end."},
    {"receive", transfer_receive, METH_O,
     "receive(index): wait for that vector from all neighbours; return one row for each."},
    {NULL, NULL, 0, NULL}};

PyTypeObject TransferType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mpi_gt.kernels._c.Transfer",
    .tp_basicsize = sizeof(Transfer),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC,
    .tp_vectorcall_offset = offsetof(Transfer, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_new = transfer_new,
    .tp_members = transfer_members,
    .tp_methods = transfer_methods,
    .tp_traverse = transfer_traverse,
    .tp_clear = transfer_clear,
    .tp_dealloc = transfer_free,
    .tp_doc = "A planned exchange of a given number of vectors with the neighbours.",
};
