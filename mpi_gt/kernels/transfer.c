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
    {"deadline", T_DOUBLE, offsetof(NodeCounters, deadline), 0, NULL},
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
    const void **headers; /* as received, one per neighbour */
    char *header;         /* as sent */
    int arrived;
} MessageBuffers;

typedef struct {
    PyArrayObject *own; /* the vector in the send buffer */
    Sum sum;
    int message;
} Part;

/* The buffers of one exchange. */
typedef struct {
    PyObject *buffers; /* a tuple that keeps the arrays of all messages alive */
    int messages_used, parts_used;
    MessageBuffers *messages;
    Part *parts;
    const void **rows, **headers;
} Side;

struct Transfer {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    NodeCounters *node;
    PyObject *plan, *start, *finish, *fill, *results;
    PyObject *prepare; /* called before the buffers are filled again, or NULL */
    PyArrayObject *weights, *stamps;
    npy_intp place; /* of the node's own vector among all */
    long long before, after; /* codes of stamps */
    long long bytes, calls;
    unsigned long long pending; /* one bit per result that was not waited for yet */
    Side sides[2]; /* two if the exchanges use two sets of buffers in turn */
    Side *side, *next; /* of the last exchange, and of the next one */
    Pool pools[MOST_VECTORS]; /* of the results */
};

int transfer_vectors(Transfer *self) { return self->side->parts_used; }
int transfer_is_pending(Transfer *self) { return self->pending != 0; }

/* Return whether the vectors have the number and the shapes that the transfer was made for. */
int transfer_fits(Transfer *self, PyObject *const *vectors, Py_ssize_t count) {
    if (count != self->side->parts_used) return 0;
    for (Py_ssize_t i = 0; i < count; i++)
        if (!PyArray_Check(vectors[i]) ||
            !same_shape((PyArrayObject *)vectors[i], self->side->parts[i].own))
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
    Side *side = self->next;
    for (int i = 0; i < side->parts_used; i++)
        if (!is_alike(vectors[i], side->parts[i].own)) {
            PyObject *done = PyObject_Vectorcall(self->fill, vectors, side->parts_used, NULL);
            Py_XDECREF(done);
            return done ? 0 : -1;
        }
    long long header[] = {self->node->iteration, self->node->stop_at};
    for (int i = 0; i < side->messages_used; i++)
        memcpy(side->messages[i].header, header, HEADER_BYTES);
    for (int i = 0; i < side->parts_used; i++) {
        PyArrayObject *own = side->parts[i].own;
        memcpy(PyArray_DATA(own), PyArray_DATA((PyArrayObject *)vectors[i]), PyArray_NBYTES(own));
    }
    return 0;
}

/* transfer(vector, ...): send the vectors to the neighbours; return the pending results. */
PyObject *transfer_call(PyObject *thing, PyObject *const *vectors, size_t count, PyObject *names) {
    Transfer *self = (Transfer *)thing;
    int vectors_used = self->side->parts_used;
    if (names || PyVectorcall_NARGS(count) != vectors_used || !self->plan) {
        PyErr_Format(PyExc_TypeError, "this transfer takes %d vectors", vectors_used);
        return NULL;
    }
    if (self->stamps && add_stamp(self->stamps, self->before)) return NULL;
    self->node->waits++;
    if (self->prepare && call_waiting(self, self->prepare, NULL)) return NULL;
    if (pack(self, vectors) || call_waiting(self, self->start, NULL)) return NULL;
    Side *other = self->sides + (self->next == self->sides);
    self->side = self->next;
    if (other->buffers) self->next = other;
    for (int i = 0; i < self->side->messages_used; i++) self->side->messages[i].arrived = 0;
    self->pending = ~0ULL >> (64 - vectors_used);
    self->node->bytes_sent += self->bytes;
    self->calls++;
    if (self->stamps && add_stamp(self->stamps, self->after)) return NULL;
    return Py_NewRef(self->results ? self->results : Py_None);
}

/* Return a new array with a copy of all rows but the one at `place`. */
static PyArrayObject *stack_rows(const void **rows, npy_intp count, npy_intp place, npy_intp length,
                                 int type) {
    npy_intp shape[] = {place < count ? count - 1 : count, length};
    PyArrayObject *made = (PyArrayObject *)PyArray_SimpleNew(2, shape, type);
    for (npy_intp at = 0, row = 0; made && at < count; at++)
        if (at != place)
            memcpy(PyArray_GETPTR1(made, row++), rows[at], length * PyArray_ITEMSIZE(made));
    return made;
}

/* Wait for a message from all neighbours, unless it has arrived, and check its headers. */
static int receive(Transfer *self, int which) {
    MessageBuffers *message = self->side->messages + which;
    npy_intp neighbours = PyArray_DIM(self->weights, 1) - 1;
    if (message->arrived) return 0;
    if (self->finish != Py_None) {
        PyObject *number = PyLong_FromLong(which);
        int failed = !number || call_waiting(self, self->finish, number);
        Py_XDECREF(number);
        if (failed) return -1;
    }
    message->arrived = 1;
    for (npy_intp row = 0; row < neighbours; row++)
        if (memcmp(message->headers[row], message->header, HEADER_BYTES)) {
            PyArrayObject *all = stack_rows(message->headers, neighbours, neighbours,
                                            HEADER_BYTES / 8, NPY_INT64);
            PyObject *done = all ? PyObject_CallMethod((PyObject *)self->node, "check_headers",
                                                       "O", all)
                                 : NULL;
            Py_XDECREF(all);
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
    return receive(self, self->side->parts[index].message);
}

/* Wait for vector `index` from every neighbour, and return the mixed vector. */
PyObject *transfer_collect(Transfer *self, int index) {
    if (await_vector(self, index)) return NULL;
    Part *part = self->side->parts + index;
    PyArrayObject *total = pool_take(self->pools + index, part->own);
    if (!total) return NULL;
    combine_part(&part->sum, PyArray_TYPE(total), PyArray_DATA(total), 0, PyArray_SIZE(total));
    if (self->stamps && add_stamp(self->stamps, self->after)) Py_CLEAR(total);
    return (PyObject *)total;
}

/* Wait for vector `index` from every neighbour. Set `sum` to what has to be added up before the next
   exchange, and return an array of its dtype and shape; None under a profile, which tells waiting and
   adding up apart from the rest of a step. */
PyObject *transfer_await(Transfer *self, int index, Sum *sum) {
    if (self->stamps) Py_RETURN_NONE;
    if (await_vector(self, index)) return NULL;
    *sum = self->side->parts[index].sum;
    return Py_NewRef(self->side->parts[index].own);
}

/* transfer.receive(index): wait for that vector from every neighbour and return a copy of what came,
   one row per neighbour. */
static PyObject *transfer_receive(PyObject *thing, PyObject *argument) {
    Transfer *self = (Transfer *)thing;
    long index = PyLong_AsLong(argument);
    if (index == -1 && PyErr_Occurred()) return NULL;
    if (index < 0 || index >= self->side->parts_used) {
        PyErr_SetString(PyExc_ValueError, "the transfer has no such vector");
        return NULL;
    }
    if (await_vector(self, (int)index)) return NULL;
    Part *part = self->side->parts + index;
    PyArrayObject *copy = stack_rows(part->sum.rows, part->sum.count, self->place,
                                     PyArray_SIZE(part->own), PyArray_TYPE(part->own));
    if (copy && self->stamps && add_stamp(self->stamps, self->after)) Py_CLEAR(copy);
    return (PyObject *)copy;
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

/* Store where the rows begin: of an array, or of a sequence of arrays of one dimension. All have the
   type and length; the one at `place` is left out. Return whether they have. */
static int find_rows(PyObject *from, npy_intp count, npy_intp place, int type, npy_intp length,
                     const void **rows) {
    PyObject *given = PySequence_Tuple(from);
    int fits = given && PyTuple_GET_SIZE(given) == count - (place < count);
    for (npy_intp at = 0, next = 0; fits && at < count; at++) {
        if (at == place) continue;
        PyArrayObject *row = (PyArrayObject *)PyTuple_GET_ITEM(given, next++);
        fits = PyArray_CheckExact((PyObject *)row) && PyArray_NDIM(row) == 1 &&
               PyArray_EquivTypenums(PyArray_TYPE(row), type) && PyArray_SIZE(row) == length &&
               PyArray_ISCARRAY_RO(row);
        rows[at] = PyArray_DATA(row);
    }
    Py_XDECREF(given);
    return fits;
}

static int read_message(Transfer *self, Side *side, PyObject *from) {
    PyObject *header, *headers, *slots, *received;
    if (!PyArg_ParseTuple(from, "O!OO!O!", &PyArray_Type, &header, &headers, &PyTuple_Type, &slots,
                          &PyTuple_Type, &received))
        return -1;
    npy_intp terms = PyArray_DIM(self->weights, 1), neighbours = terms - 1;
    MessageBuffers *message = side->messages + side->messages_used;
    message->header = PyArray_DATA((PyArrayObject *)header);
    message->headers = side->headers + side->messages_used * neighbours;
    int type = PyArray_TYPE(self->weights);
    int fits = PyArray_NBYTES((PyArrayObject *)header) == HEADER_BYTES &&
               PyArray_ISCARRAY((PyArrayObject *)header) &&
               PyTuple_GET_SIZE(slots) == PyTuple_GET_SIZE(received) &&
               find_rows(headers, neighbours, neighbours, NPY_INT64, HEADER_BYTES / 8,
                         message->headers);
    for (Py_ssize_t i = 0; fits && i < PyTuple_GET_SIZE(slots); i++) {
        PyArrayObject *own = (PyArrayObject *)PyTuple_GET_ITEM(slots, i);
        const void **rows = side->rows + side->parts_used * terms;
        fits = side->parts_used < MOST_VECTORS && is_plain((PyObject *)own) &&
               PyArray_ISWRITEABLE(own) && PyArray_TYPE(own) == type &&
               find_rows(PyTuple_GET_ITEM(received, i), terms, self->place, type,
                         PyArray_SIZE(own), rows);
        if (!fits) break;
        rows[self->place] = PyArray_DATA(own);
        npy_intp last = PyArray_DIM(self->weights, 0) - 1;
        const void *weights =
            PyArray_GETPTR1(self->weights, side->parts_used < last ? side->parts_used : last);
        side->parts[side->parts_used++] = (Part){
            .own = own, .sum = {rows, weights, terms}, .message = side->messages_used};
    }
    if (!fits && !PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "the buffers of a message do not match");
    side->messages_used++;
    return fits ? 0 : -1;
}

/* Read the buffers of all messages. */
static int read_side(Transfer *self, Side *side, PyObject *messages) {
    npy_intp terms = PyArray_DIM(self->weights, 1), count = PyTuple_GET_SIZE(messages);
    side->buffers = Py_NewRef(messages);
    side->messages = PyMem_Calloc(count + 1, sizeof(MessageBuffers));
    side->parts = PyMem_Calloc(MOST_VECTORS, sizeof(Part));
    side->rows = PyMem_Calloc(MOST_VECTORS * terms, sizeof(void *));
    side->headers = PyMem_Calloc(count * terms + 1, sizeof(void *));
    if (!side->messages || !side->parts || !side->rows || !side->headers) {
        PyErr_NoMemory();
        return -1;
    }
    for (npy_intp i = 0; i < count; i++)
        if (read_message(self, side, PyTuple_GET_ITEM(messages, i))) return -1;
    if (!side->parts_used) PyErr_SetString(PyExc_ValueError, "a transfer needs at least one vector");
    return side->parts_used ? 0 : -1;
}

static void free_side(Side *side) {
    Py_CLEAR(side->buffers);
    PyMem_Free(side->messages);
    PyMem_Free(side->parts);
    PyMem_Free(side->rows);
    PyMem_Free(side->headers);
    *side = (Side){0};
}

/* transfer.alternate(messages, prepare): from now on use these buffers and the first ones in turn,
   and call prepare(), unless it is None, before they are filled. */
static PyObject *transfer_alternate(PyObject *thing, PyObject *arguments) {
    Transfer *self = (Transfer *)thing;
    PyObject *messages, *prepare;
    if (!PyArg_ParseTuple(arguments, "O!O", &PyTuple_Type, &messages, &prepare)) return NULL;
    Side *other = self->sides + 1;
    if (other->buffers) {
        PyErr_SetString(PyExc_RuntimeError, "the transfer has two sets of buffers already");
        return NULL;
    }
    int failed = read_side(self, other, messages);
    if (!failed && other->parts_used != self->sides->parts_used) {
        PyErr_SetString(PyExc_ValueError, "the other messages have another number of vectors");
        failed = 1;
    }
    if (failed) {
        free_side(other);
        return NULL;
    }
    if (prepare != Py_None) Py_XSETREF(self->prepare, Py_NewRef(prepare));
    Py_RETURN_NONE;
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
    self->plan = Py_NewRef(plan);
    self->place = place;
    self->weights = (PyArrayObject *)Py_NewRef(weights);
    self->start = Py_NewRef(start), self->finish = Py_NewRef(finish), self->fill = Py_NewRef(fill);
    self->results = Py_NewRef(Py_None);
    self->bytes = bytes;
    self->side = self->next = self->sides;
    if (read_side(self, self->sides, messages)) Py_CLEAR(self);
    return (PyObject *)self;
}

static int transfer_traverse(PyObject *thing, visitproc visit, void *arg) {
    Transfer *self = (Transfer *)thing;
    Py_VISIT(self->node);
    Py_VISIT(self->plan);
    Py_VISIT(self->start);
    Py_VISIT(self->finish);
    Py_VISIT(self->fill);
    Py_VISIT(self->prepare);
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
    Py_CLEAR(self->prepare);
    return 0;
}

static void transfer_free(PyObject *thing) {
    Transfer *self = (Transfer *)thing;
    PyObject_GC_UnTrack(thing);
    transfer_clear(thing);
    Py_XDECREF(self->node);
    Py_XDECREF(self->weights);
    Py_XDECREF(self->stamps);
    for (int i = 0; i < 2; i++) free_side(self->sides + i);
    for (int i = 0; i < MOST_VECTORS; i++) pool_free(self->pools + i);
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
    {"alternate", transfer_alternate, METH_VARARGS,
     "alternate(messages, prepare): use these buffers and the first ones in turn."},
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
