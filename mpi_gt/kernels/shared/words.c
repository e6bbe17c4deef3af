/* Words in shared memory by which the ranks of one host tell each other how many exchanges they have
   published; the slots with the vectors lie beside them. The Python twin is in __init__.py.

   A word has two halves: the number of exchanges, and how many ranks sleep until it grows. */
#define _GNU_SOURCE
#include "../kernels.h"
#include <errno.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <structmember.h>
#include <time.h>
#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#define NAP 50000000 /* nanoseconds of sleep after which a rank looks for signals */

typedef struct {
    uint32_t count, sleepers;
} Word;

typedef struct {
    PyObject_HEAD
    PyObject *arrays; /* keep the memory of all words alive */
    Word *own, **others; /* the sources' words first, then the readers' */
    int sources, readers;
    unsigned int count;
    int for_readers; /* true while this rank waits for those */
} Words;

/* Return whether a word has reached a count; counts may pass their largest number. */
static inline int has_reached(const Word *word, uint32_t count) {
    return (int32_t)(__atomic_load_n(&word->count, __ATOMIC_ACQUIRE) - count) >= 0;
}

/* Sleep until the word changes from `seen`, a signal comes, or a nap is over. */
static void sleep_on(Word *word, uint32_t seen) {
#ifdef __linux__
    struct timespec nap = {0, NAP};
    syscall(SYS_futex, &word->count, FUTEX_WAIT, seen, &nap, NULL, 0);
#else
    (void)word, (void)seen;
    sched_yield();
#endif
}

/* Wait until the word has reached the count; the GIL is not held. Return 0 after a while, too. */
static int nap_until(Word *word, uint32_t count) {
    /* announced before the last look, and looked for after publishing: no wake-up can be missed */
    __atomic_fetch_add(&word->sleepers, 1, __ATOMIC_SEQ_CST);
    uint32_t seen = __atomic_load_n(&word->count, __ATOMIC_SEQ_CST);
    if ((int32_t)(seen - count) < 0) sleep_on(word, seen);
    __atomic_fetch_sub(&word->sleepers, 1, __ATOMIC_SEQ_CST);
    return has_reached(word, count);
}

/* Wait until all these words have reached the count. The GIL is released while this rank waits, so
   that the watchdog runs, and signals are looked for. */
static int await_words(Word **words, int used, uint32_t count) {
    int failed = 0;
    for (int i = 0; i < used && !failed; i++) {
        if (has_reached(words[i], count)) continue;
        PyThreadState *state = PyEval_SaveThread();
        sched_yield();
        while (!has_reached(words[i], count) && !failed) {
            if (nap_until(words[i], count)) break;
            PyEval_RestoreThread(state);
            failed = PyErr_CheckSignals();
            state = PyEval_SaveThread();
        }
        PyEval_RestoreThread(state);
    }
    return failed ? -1 : 0;
}

/* words.publish(): count one more exchange, whose slot is filled, and wake those who sleep. */
static PyObject *words_publish(PyObject *thing, PyObject *none) {
    Words *self = (Words *)thing;
    __atomic_store_n(&self->own->count, ++self->count, __ATOMIC_SEQ_CST);
#ifdef __linux__
    if (__atomic_load_n(&self->own->sleepers, __ATOMIC_SEQ_CST))
        syscall(SYS_futex, &self->own->count, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
#endif
    Py_RETURN_NONE;
}

/* words.wait(index): wait until all sources have published this exchange. */
static PyObject *words_wait(PyObject *thing, PyObject *index) {
    Words *self = (Words *)thing;
    if (await_words(self->others, self->sources, self->count)) return NULL;
    Py_RETURN_NONE;
}

/* words.wait_for_readers(): wait until the slot of the next exchange may be written: until all
   readers have published the last one, for they have then read the one before, in the same slot. */
static PyObject *words_wait_for_readers(PyObject *thing, PyObject *none) {
    Words *self = (Words *)thing;
    self->for_readers = 1;
    int failed = await_words(self->others + self->sources, self->readers, self->count);
    self->for_readers = 0;
    if (failed) return NULL;
    Py_RETURN_NONE;
}

/* Return the word at the beginning of an array of uint32 in shared memory. */
static Word *word_in(PyObject *thing) {
    PyArrayObject *array = (PyArrayObject *)thing;
    if (PyArray_Check(thing) && PyArray_TYPE(array) == NPY_UINT32 && PyArray_ISCARRAY(array) &&
        PyArray_NBYTES(array) >= (npy_intp)sizeof(Word))
        return PyArray_DATA(array);
    PyErr_SetString(PyExc_ValueError, "a word is an array of two uint32");
    return NULL;
}

/* Words(own, sources, readers): arrays of two uint32, and tuples of such arrays. */
static PyObject *words_new(PyTypeObject *type, PyObject *arguments, PyObject *names) {
    PyObject *own, *sources, *readers;
    if (!PyArg_ParseTuple(arguments, "OO!O!", &own, &PyTuple_Type, &sources, &PyTuple_Type,
                          &readers))
        return NULL;
    Words *self = (Words *)type->tp_alloc(type, 0);
    if (!self) return NULL;
    self->arrays = Py_NewRef(arguments);
    self->sources = (int)PyTuple_GET_SIZE(sources), self->readers = (int)PyTuple_GET_SIZE(readers);
    self->others = PyMem_Calloc(self->sources + self->readers + 1, sizeof(Word *));
    int failed = !self->others || !(self->own = word_in(own));
    if (!self->others) PyErr_NoMemory();
    for (int i = 0; !failed && i < self->sources + self->readers; i++) {
        int reads = i >= self->sources;
        self->others[i] = word_in(PyTuple_GET_ITEM(reads ? readers : sources,
                                                   reads ? i - self->sources : i));
        failed = !self->others[i];
    }
    if (failed) Py_CLEAR(self);
    else self->count = __atomic_load_n(&self->own->count, __ATOMIC_RELAXED);
    return (PyObject *)self;
}

static void words_free(PyObject *thing) {
    Words *self = (Words *)thing;
    Py_XDECREF(self->arrays);
    PyMem_Free(self->others);
    Py_TYPE(thing)->tp_free(thing);
}

static PyMemberDef words_members[] = {
    {"count", T_UINT, offsetof(Words, count), READONLY, NULL},
    {"for_readers", T_INT, offsetof(Words, for_readers), READONLY, NULL},
    {NULL, 0, 0, 0, NULL}};

static PyMethodDef words_methods[] = {
    {"publish", words_publish, METH_NOARGS, "publish(): count one more exchange, now in its slot."},
    {"wait", words_wait, METH_O, "wait(index): wait until all sources have published it as well."},
    {"wait_for_readers", words_wait_for_readers, METH_NOARGS,
     "wait_for_readers(): wait until all readers have done with the slot that comes next."},
    {NULL, NULL, 0, NULL}};

PyTypeObject WordsType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mpi_gt.kernels._c.Words",
    .tp_basicsize = sizeof(Words),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = words_new,
    .tp_members = words_members,
    .tp_methods = words_methods,
    .tp_dealloc = words_free,
    .tp_doc = "The counts of exchanges of a rank, of those it hears and of those that hear it.",
};
