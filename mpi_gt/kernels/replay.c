/* A recorded step: the calls of mix, mix.compressed, wait, grad and grad.full that `step` made, and
   the programs between them.

   The values of a step are in slots: first the fields of the state, then the results of wait, grad
   and the programs, and the compressed vectors of one's own. */
#include "kernels.h"
#include <stddef.h>

#define MOST_SLOTS 64

enum { MIX, WAIT, GRAD, RUN, FULL, COMPRESSED, OWN };

typedef struct {
    int kind, in_count, out_count, index;
    int adds_up_later; /* of WAIT: only the next program uses the result, and adds it up itself */
    unsigned char in[MOST_OPERANDS], out[MOST_OPERANDS];
    Program *program;
} Event;

typedef struct {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    PyObject *step; /* the method that was recorded */
    PyTypeObject *state;
    int fields, slots, events_used;
    unsigned char result[MOST_SLOTS];
    Event *events;
} Replay;

static PyObject *wait_name, *full_name, *compressed_name;

/* Return a result of mix or grad as a plain array of the model's dtype and shape; an error if numpy
   cannot convert it. */
static PyArrayObject *made_plain(PyObject *thing, PyArrayObject *model) {
    if (is_alike(thing, model)) return (PyArrayObject *)Py_NewRef(thing);
    PyArrayObject *array = (PyArrayObject *)PyArray_FROMANY(
        thing, PyArray_TYPE(model), 0, 0, NPY_ARRAY_CARRAY_RO | NPY_ARRAY_ENSUREARRAY);
    if (array && !same_shape(array, model)) {
        PyErr_SetString(PyExc_ValueError, "a result of mix or grad has another shape than x");
        Py_CLEAR(array);
    }
    return array;
}

/* Return a result of the last mix, borrowed: of a compressed one, a pair of own vector and pending
   sum. */
static PyObject *result_of(PyObject *mixed, const Event *event) {
    PyObject *found = mixed && event->index < PyTuple_GET_SIZE(mixed)
                          ? PyTuple_GET_ITEM(mixed, event->index)
                          : NULL;
    if (!found) PyErr_SetString(PyExc_ValueError, "mix returned too few results");
    if (!found || (event->kind == WAIT && !PyTuple_Check(found))) return found;
    if (!PyTuple_Check(found) || PyTuple_GET_SIZE(found) != 2) {
        PyErr_SetString(PyExc_TypeError, "mix.compressed must return pairs");
        return NULL;
    }
    return PyTuple_GET_ITEM(found, event->kind == WAIT);
}

/* Wait for a result of mix, and leave its sum to the program that uses it: the slot then holds only an
   array of the same dtype and shape. Return 1 if that was done, 0 if not, -1 after an error. */
static int await_sum(const Event *event, PyObject *pending, PyObject **slots, Sum *sums) {
    if (!event->adds_up_later || !Py_IS_TYPE(pending, &PendingMixType)) return 0;
    int slot = event->out[0];
    PyObject *model = pending_await(pending, sums + slot);
    if (!model || model == Py_None) return Py_XDECREF(model), model ? 0 : -1;
    slots[slot] = model;
    if (is_alike(model, (PyArrayObject *)slots[0])) return 1;
    PyErr_SetString(PyExc_ValueError, "a result of mix has another shape than x");
    return -1;
}

/* Run the program of an event; inputs whose slot has a sum are added up on the way. */
static int run(const Event *event, PyObject **in, PyObject **slots, Sum *sums, double t) {
    PyArrayObject *out[MOST_OPERANDS];
    const Sum *given[MOST_OPERANDS];
    int any = 0;
    for (int i = 0; i < event->in_count; i++) {
        Sum *sum = sums + event->in[i];
        given[i] = sum->count ? sum : NULL;
        any |= given[i] != NULL;
    }
    if (program_run(event->program, (PyArrayObject **)in, any ? given : NULL, &t, out)) return -1;
    for (int i = 0; i < event->out_count; i++) slots[event->out[i]] = (PyObject *)out[i];
    return 0;
}

static int perform(const Event *event, PyObject **slots, Sum *sums, double t, PyObject **mixed,
                   PyObject *mix, PyObject *grad) {
    PyObject *called[MOST_OPERANDS + 1], **in = called + 1; /* a method's object comes first */
    for (int i = 0; i < event->in_count; i++)
        if (!(in[i] = slots[event->in[i]])) {
            PyErr_SetString(PyExc_ValueError, "a slot is used before it is filled");
            return -1;
        }
    PyObject *made;
    int awaited;
    switch (event->kind) {
    case MIX:
    case COMPRESSED:
        called[0] = mix;
        Py_XSETREF(*mixed,
                   event->kind == MIX
                       ? PyObject_Vectorcall(mix, in, event->in_count, NULL)
                       : PyObject_VectorcallMethod(compressed_name, called, event->in_count + 1,
                                                   NULL));
        if (*mixed && !PyTuple_Check(*mixed)) {
            PyErr_SetString(PyExc_TypeError, "mix must return a tuple");
            return -1;
        }
        return *mixed ? 0 : -1;
    case WAIT:
        if (!(made = result_of(*mixed, event))) return -1;
        if ((awaited = await_sum(event, made, slots, sums))) return awaited < 0 ? -1 : 0;
        made = Py_IS_TYPE(made, &PendingMixType) ? pending_wait(made)
                                              : PyObject_CallMethodNoArgs(made, wait_name);
        break;
    case OWN: made = Py_XNewRef(result_of(*mixed, event)); break;
    case GRAD: made = PyObject_CallOneArg(grad, in[0]); break;
    case FULL:
        made = Py_IS_TYPE(grad, &NextGradientType)
                   ? next_gradient_full(grad, in[0])
                   : PyObject_CallMethodOneArg(grad, full_name, in[0]);
        break;
    default: return run(event, in, slots, sums, t);
    }
    if (!made) return -1;
    PyArrayObject *plain = made_plain(made, (PyArrayObject *)slots[0]);
    Py_DECREF(made);
    slots[event->out[0]] = (PyObject *)plain;
    return plain ? 0 : -1;
}

/* replay(t, state, mix, grad): return the same state as the step. The step itself is called unless
   the state consists of plain arrays of one dtype and shape. */
static PyObject *replay_call(PyObject *callable, PyObject *const *arguments, size_t count,
                             PyObject *names) {
    Replay *self = (Replay *)callable;
    if (names || PyVectorcall_NARGS(count) != 4)
        return PyObject_Vectorcall(self->step, arguments, count, names);
    PyObject *state = arguments[1];
    int plain = Py_TYPE(state) == self->state && PyLong_CheckExact(arguments[0]) &&
                PyTuple_GET_SIZE(state) == self->fields && is_plain(PyTuple_GET_ITEM(state, 0));
    for (int i = 1; plain && i < self->fields; i++)
        plain = is_alike(PyTuple_GET_ITEM(state, i), (PyArrayObject *)PyTuple_GET_ITEM(state, 0));
    if (!plain) return PyObject_Vectorcall(self->step, arguments, count, NULL);
    double t = PyLong_AsDouble(arguments[0]);
    if (t == -1 && PyErr_Occurred()) return NULL;

    PyObject *slots[MOST_SLOTS] = {NULL}, *mixed = NULL, *result = NULL;
    Sum sums[MOST_SLOTS];
    for (int i = 0; i < self->slots; i++) sums[i].count = 0;
    for (int i = 0; i < self->fields; i++) slots[i] = Py_NewRef(PyTuple_GET_ITEM(state, i));
    for (int i = 0; i < self->events_used; i++)
        if (perform(self->events + i, slots, sums, t, &mixed, arguments[2], arguments[3]))
            goto done;
    result = self->state->tp_alloc(self->state, self->fields);
    for (int i = 0; result && i < self->fields; i++)
        PyTuple_SET_ITEM(result, i, Py_NewRef(slots[self->result[i]]));
done:
    Py_XDECREF(mixed);
    for (int i = 0; i < self->slots; i++) Py_XDECREF(slots[i]);
    return result;
}

static int read_slots(PyObject *from, unsigned char *to, int most, int below) {
    if (!PyTuple_Check(from) || PyTuple_GET_SIZE(from) > most) {
        PyErr_SetString(PyExc_ValueError, "too many slots");
        return -1;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(from); i++) {
        long slot = PyLong_AsLong(PyTuple_GET_ITEM(from, i));
        if (PyErr_Occurred()) return -1;
        if (slot < 0 || slot >= below) {
            PyErr_SetString(PyExc_ValueError, "there is no such slot");
            return -1;
        }
        to[i] = (unsigned char)slot;
    }
    return (int)PyTuple_GET_SIZE(from);
}

static int read_event(Replay *self, Event *event, PyObject *from) {
    PyObject *in, *out, *program;
    if (!PyArg_ParseTuple(from, "iO!O!iO", &event->kind, &PyTuple_Type, &in, &PyTuple_Type, &out,
                          &event->index, &program))
        return -1;
    event->in_count = read_slots(in, event->in, MOST_OPERANDS, self->slots);
    event->out_count = read_slots(out, event->out, MOST_OPERANDS, self->slots);
    if (event->in_count < 0 || event->out_count < 0) return -1;
    if (event->kind == RUN) {
        if (!Py_IS_TYPE(program, &ProgramType) ||
            program_inputs((Program *)program) != event->in_count ||
            program_outputs((Program *)program) != event->out_count ||
            program_scalars((Program *)program) != 1) {
            PyErr_SetString(PyExc_ValueError, "the program does not fit its slots");
            return -1;
        }
        event->program = (Program *)Py_NewRef(program);
    }
    return 0;
}

/* Find the results of mix that one program uses and nothing else does, with no other mix before it:
   what is received stays in its buffers until then. */
static void find_sums(Replay *self) {
    for (int i = 0; i < self->events_used; i++) {
        Event *wait = self->events + i, *user = NULL;
        int uses = 0, mixed = 0;
        if (wait->kind != WAIT) continue;
        for (int f = 0; f < self->fields; f++) uses += self->result[f] == wait->out[0];
        for (Event *at = wait + 1; at < self->events + self->events_used; at++) {
            for (int k = 0; k < at->in_count; k++)
                if (at->in[k] == wait->out[0]) uses++, user = at;
            if (!user) mixed |= at->kind == MIX || at->kind == COMPRESSED;
        }
        wait->adds_up_later = uses == 1 && user && user->kind == RUN && !mixed;
    }
}

/* Replay(step, state, fields, slots, events, result): the recorded method, its State class and the
   number of its fields, the number of slots, the events (kind, slots in, slots out, index, program)
   in order, and the slots of the new state. */
static PyObject *replay_new(PyTypeObject *type, PyObject *arguments, PyObject *names) {
    PyObject *step, *state, *events, *result;
    int fields, slots;
    if (!PyArg_ParseTuple(arguments, "OO!iiO!O!", &step, &PyType_Type, &state, &fields, &slots,
                          &PyTuple_Type, &events, &PyTuple_Type, &result))
        return NULL;
    if (fields < 1 || slots < fields || slots > MOST_SLOTS ||
        !PyType_IsSubtype((PyTypeObject *)state, &PyTuple_Type)) {
        PyErr_SetString(PyExc_ValueError, "too many slots, or a state that is no tuple");
        return NULL;
    }
    Replay *self = (Replay *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->vectorcall = replay_call;
    self->step = Py_NewRef(step);
    self->state = (PyTypeObject *)Py_NewRef(state);
    self->fields = fields, self->slots = slots;
    self->events = PyMem_Calloc(PyTuple_GET_SIZE(events) + 1, sizeof(Event));
    if (!self->events) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    if (read_slots(result, self->result, MOST_SLOTS, slots) != fields) goto bad;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(events); i++) {
        self->events_used++;
        if (read_event(self, self->events + i, PyTuple_GET_ITEM(events, i))) goto bad;
    }
    find_sums(self);
    if (!wait_name && !(wait_name = PyUnicode_InternFromString("wait"))) goto bad;
    if (!full_name && !(full_name = PyUnicode_InternFromString("full"))) goto bad;
    if (!compressed_name && !(compressed_name = PyUnicode_InternFromString("compressed"))) goto bad;
    return (PyObject *)self;
bad:
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "the result is not a whole state");
    Py_DECREF(self);
    return NULL;
}

static void replay_free(PyObject *thing) {
    Replay *self = (Replay *)thing;
    Py_XDECREF(self->step);
    Py_XDECREF(self->state);
    for (int i = 0; i < self->events_used; i++) Py_XDECREF(self->events[i].program);
    PyMem_Free(self->events);
    Py_TYPE(thing)->tp_free(thing);
}

PyTypeObject ReplayType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mpi_gt.kernels._c.Replay",
    .tp_basicsize = sizeof(Replay),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(Replay, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_new = replay_new,
    .tp_dealloc = replay_free,
    .tp_doc = "The recorded step of an algorithm.",
};
