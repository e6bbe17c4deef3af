/* Uniform random numbers, the same as those of numpy.random.Philox for the same key and counter
   (Philox4x64-10: Salmon, Moraes, Dror, Shaw 2011). The twin is Draws in problems/base.py. */
#include "kernels.h"
#include <stddef.h>
#include <stdint.h>
#include <structmember.h>

#define FACTOR0 0xD2E7470EE14C6C93u
#define FACTOR1 0xCA5A826395121157u
#define KEY0 0x9E3779B97F4A7C15u /* what a round adds to the key */
#define KEY1 0xBB67AE8584CAA73Bu

static inline uint64_t multiply(uint64_t a, uint64_t b, uint64_t *high) {
    unsigned __int128 product = (unsigned __int128)a * b;
    *high = (uint64_t)(product >> 64);
    return (uint64_t)product;
}

/* Compute the numbers in [0, 1) of the counters [first, block, 0, 0], [first + 1, block, 0, 0], ...;
   four for each counter. */
static void philox(uint64_t first, uint64_t block, uint64_t seed, uint64_t word, int counters,
                   double *out) {
    for (int k = 0; k < counters; k++) {
        uint64_t x[] = {first + k, block, 0, 0}, key0 = seed, key1 = word;
        for (int round = 0; round < 10; round++) {
            uint64_t high0, high1;
            uint64_t low0 = multiply(FACTOR0, x[0], &high0);
            uint64_t low1 = multiply(FACTOR1, x[2], &high1);
            x[0] = high1 ^ x[1] ^ key0, x[1] = low1;
            x[2] = high0 ^ x[3] ^ key1, x[3] = low0;
            key0 += KEY0, key1 += KEY1;
        }
        /* signed: converting unsigned numbers is slower, and these are below 2^53 */
        for (int i = 0; i < 4; i++) *out++ = (double)(int64_t)(x[i] >> 11) * 0x1p-53;
    }
}

#if X86_INTRINSICS
#include <immintrin.h>
#define AVX512 __attribute__((target("avx512f,avx512dq")))

AVX512 static ALWAYS_INLINE __m512i set_8(uint64_t number) {
    return _mm512_set1_epi64((long long)number);
}

/* Multiply eight numbers by a factor, given with its upper half; products of halves, then carries. */
AVX512 static ALWAYS_INLINE __m512i multiply_8(__m512i x, __m512i factor, __m512i upper,
                                               __m512i *high) {
    const __m512i mask = set_8(0xFFFFFFFF);
    __m512i rest = _mm512_srli_epi64(x, 32);
    __m512i lowest = _mm512_srli_epi64(_mm512_mul_epu32(x, factor), 32);
    __m512i one = _mm512_add_epi64(_mm512_mul_epu32(rest, factor), lowest);
    __m512i other = _mm512_add_epi64(_mm512_mul_epu32(x, upper), _mm512_and_si512(one, mask));
    __m512i carries = _mm512_add_epi64(_mm512_srli_epi64(one, 32), _mm512_srli_epi64(other, 32));
    *high = _mm512_add_epi64(_mm512_mul_epu32(rest, upper), carries);
    return _mm512_mullo_epi64(x, factor);
}

/* Write the numbers of eight counters; `x` has one word of each, after the last round. */
AVX512 static ALWAYS_INLINE void store_8(const __m512i x[4], double *out) {
    __m512d made[4];
    for (int i = 0; i < 4; i++)
        made[i] = _mm512_mul_pd(_mm512_cvtepi64_pd(_mm512_srli_epi64(x[i], 11)),
                                _mm512_set1_pd(0x1p-53));
    __m512d even0 = _mm512_unpacklo_pd(made[0], made[1]), odd0 = _mm512_unpackhi_pd(made[0], made[1]);
    __m512d even1 = _mm512_unpacklo_pd(made[2], made[3]), odd1 = _mm512_unpackhi_pd(made[2], made[3]);
    __m512d a = _mm512_shuffle_f64x2(even0, even1, 0x44), b = _mm512_shuffle_f64x2(odd0, odd1, 0x44);
    __m512d c = _mm512_shuffle_f64x2(even0, even1, 0xEE), d = _mm512_shuffle_f64x2(odd0, odd1, 0xEE);
    _mm512_storeu_pd(out, _mm512_shuffle_f64x2(a, b, 0x88));
    _mm512_storeu_pd(out + 8, _mm512_shuffle_f64x2(a, b, 0xDD));
    _mm512_storeu_pd(out + 16, _mm512_shuffle_f64x2(c, d, 0x88));
    _mm512_storeu_pd(out + 24, _mm512_shuffle_f64x2(c, d, 0xDD));
}

#define EIGHTS 4 /* their multiplications do not depend on each other */

/* Do as `philox`, for a multiple of 32 counters. In the first two rounds, one of the two products is
   zero, or the same for all counters. */
AVX512 static void philox_avx512(uint64_t first, uint64_t block, uint64_t seed, uint64_t word,
                                 int counters, double *out) {
    const __m512i factor0 = set_8(FACTOR0), upper0 = set_8(FACTOR0 >> 32);
    const __m512i factor1 = set_8(FACTOR1), upper1 = set_8(FACTOR1 >> 32);
    const __m512i ascending = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
    uint64_t high, low = multiply(FACTOR0, block ^ seed, &high);
    for (int k = 0; k < counters; k += 8 * EIGHTS) {
        __m512i x[EIGHTS][4];
        for (int e = 0; e < EIGHTS; e++) {
            __m512i counter = _mm512_add_epi64(set_8(first + k + 8 * e), ascending), high0, high1;
            __m512i low0 = multiply_8(counter, factor0, upper0, &high0);
            x[e][1] = multiply_8(_mm512_xor_si512(high0, set_8(word)), factor1, upper1, &high1);
            x[e][0] = _mm512_xor_si512(high1, set_8(seed + KEY0));
            x[e][2] = _mm512_xor_si512(low0, set_8(high ^ (word + KEY1)));
            x[e][3] = set_8(low);
        }
        uint64_t key0 = seed + KEY0, key1 = word + KEY1;
        for (int round = 2; round < 10; round++) {
            key0 += KEY0, key1 += KEY1;
            for (int e = 0; e < EIGHTS; e++) {
                __m512i high0, high1;
                __m512i low0 = multiply_8(x[e][0], factor0, upper0, &high0);
                __m512i low1 = multiply_8(x[e][2], factor1, upper1, &high1);
                x[e][0] = _mm512_ternarylogic_epi64(high1, x[e][1], set_8(key0), 0x96); /* xor */
                x[e][2] = _mm512_ternarylogic_epi64(high0, x[e][3], set_8(key1), 0x96);
                x[e][1] = low1, x[e][3] = low0;
            }
        }
        for (int e = 0; e < EIGHTS; e++) store_8(x[e], out + 4 * k + 32 * e);
    }
}

/* Compute the numbers of some counters; up to 31 more than wanted are made where that is faster. */
static void counters_from(uint64_t first, uint64_t block, uint64_t seed, uint64_t word,
                          int counters, double *out) {
    if (counters >= 24 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))
        philox_avx512(first, block, seed, word, counters, out);
    else philox(first, block, seed, word, counters, out);
}
#else
#define counters_from philox
#endif

/* numbers that are computed before they are copied to the output; a multiple of 128 */
#define AHEAD 256

/* Fill `rows` pieces of `width` numbers, `stride` apart, with the numbers from index `begin` on. */
static void fill(double *out, npy_intp rows, npy_intp width, npy_intp stride, uint64_t begin,
                 uint64_t block, uint64_t seed, uint64_t word) {
    double ahead[AHEAD];
    uint64_t at = begin, end = begin + (uint64_t)(rows * width);
    npy_intp column = 0;
    while (at < end) {
        npy_intp direct = at % 4 ? 0 : (width - column) / AHEAD * AHEAD;
        if (direct) { /* a long row needs no copy */
            counters_from(at / 4 + 1, block, seed, word, (int)(direct / 4), out + column);
            at += direct, column += direct;
            if (column == width) column = 0, out += stride;
            continue;
        }
        uint64_t base = at / 4 * 4, stop = end - base < AHEAD ? end : base + AHEAD;
        counters_from(base / 4 + 1, block, seed, word, (int)((stop - base + 3) / 4), ahead);
        while (at < stop) {
            npy_intp left = width - column, there = (npy_intp)(stop - at);
            npy_intp n = left < there ? left : there;
            memcpy(out + column, ahead + (at - base), n * sizeof(double));
            at += n, column += n;
            if (column == width) column = 0, out += stride;
        }
    }
}

/* Fill `out` with the numbers of rows row, row + 1, ... of a block; each seed has a key of its own,
   [seed, word]. */
static void uniform(PyArrayObject *out, PyArrayObject *seeds, uint64_t word, uint64_t block,
                    uint64_t row) {
    npy_intp rows = PyArray_DIM(out, 0), columns = PyArray_DIM(out, 1), width = PyArray_DIM(out, 2);
    const uint64_t *keys = PyArray_DATA(seeds);
    for (npy_intp k = 0; k < columns; k++)
        fill((double *)PyArray_DATA(out) + k * width, rows, width, columns * width,
             row * (uint64_t)width, block, keys[k], word);
}

/* uniform(out, seeds, word, block, row): fill out (rows, seeds, width) with the numbers of rows
   row, row + 1, ... of a block; each seed has a key of its own, [seed, word]. */
PyObject *kernels_uniform(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    if (count != 5 || !PyArray_Check(arguments[0]) || !PyArray_Check(arguments[1])) {
        PyErr_SetString(PyExc_TypeError, "uniform takes two arrays and three numbers");
        return NULL;
    }
    PyArrayObject *out = (PyArrayObject *)arguments[0], *seeds = (PyArrayObject *)arguments[1];
    unsigned long long word = PyLong_AsUnsignedLongLong(arguments[2]);
    unsigned long long block = PyLong_AsUnsignedLongLong(arguments[3]);
    unsigned long long row = PyLong_AsUnsignedLongLong(arguments[4]);
    if (PyErr_Occurred()) return NULL;
    if (PyArray_TYPE(out) != NPY_DOUBLE || !PyArray_ISCARRAY(out) || PyArray_NDIM(out) != 3 ||
        PyArray_TYPE(seeds) != NPY_UINT64 || !PyArray_ISCARRAY_RO(seeds) ||
        PyArray_SIZE(seeds) != PyArray_DIM(out, 1)) {
        PyErr_SetString(PyExc_ValueError, "uniform takes out (rows, seeds, width) and the seeds");
        return NULL;
    }
    uniform(out, seeds, word, block, row);
    Py_RETURN_NONE;
}

/* Window, the base class of Draws: the numbers of some consecutive iterations. They are uniform
   numbers, maybe transformed by a program. With a transform that is no program, the method
   `_fill(index)` of Draws makes those of iteration index + 1 and returns their row. */
typedef struct {
    PyObject_HEAD
    PyObject *numbers; /* (iterations, seeds, width) */
    long long first, count;
    PyObject *program, *seeds;
    unsigned long long word;
    long long length, window, width; /* iterations per block and per window; numbers per seed */
    char identity;                   /* the uniform numbers are not transformed */
    Pool uniform;
} Window;

/* Draw the window with iteration index + 1 and return the row of that iteration, like
   Draws._fill. */
static long long window_fill(Window *self, long long index) {
    Program *program = (Program *)self->program;
    if (!self->identity &&
        (!program || !Py_IS_TYPE(self->program, &ProgramType) || program_inputs(program) != 1 ||
         program_outputs(program) != 1 || program_scalars(program) != 1)) {
        PyObject *found = PyObject_CallMethod((PyObject *)self, "_fill", "L", index);
        long long place = found ? PyLong_AsLongLong(found) : -1;
        Py_XDECREF(found);
        return place;
    }
    PyArrayObject *seeds = (PyArrayObject *)self->seeds;
    if (index < 0 || self->length < 1 || self->window < 1 || self->width < 1 || !seeds ||
        !PyArray_CheckExact(self->seeds) || PyArray_TYPE(seeds) != NPY_UINT64 ||
        !PyArray_ISCARRAY_RO(seeds)) {
        PyErr_SetString(PyExc_ValueError, "the numbers of this iteration cannot be drawn");
        return -1;
    }
    long long block = index / self->length, row = index % self->length;
    long long first = row - row % self->window;
    long long rows = self->length - first < self->window ? self->length - first : self->window;
    npy_intp shape[] = {rows, PyArray_SIZE(seeds), self->width};
    if (self->identity) { /* then their memory is used again, unless somebody has kept them */
        self->count = 0;
        Py_CLEAR(self->numbers);
    }
    PyArrayObject *drawn = pool_take_shape(&self->uniform, 3, shape, NPY_DOUBLE), *made = drawn;
    if (!drawn) return -1;
    uniform(drawn, seeds, self->word, block, first);
    if (!self->identity) {
        double none = 0;
        int failed = program_run(program, &drawn, NULL, &none, &made);
        Py_DECREF(drawn);
        if (failed) return -1;
    }
    Py_XSETREF(self->numbers, (PyObject *)made);
    self->first = index + 1 - row + first, self->count = rows;
    return row - first;
}

/* Return the row of iteration t among the numbers, drawn if necessary; less than 0 on error. */
static long long window_place(Window *self, PyObject *t) {
    long long iteration = PyLong_AsLongLong(t);
    if (iteration == -1 && PyErr_Occurred()) return -1;
    long long place = iteration - self->first;
    if ((place < 0 || place >= self->count) && (place = window_fill(self, iteration - 1)) < 0 &&
        PyErr_Occurred())
        return -1;
    if (!self->numbers || !PyArray_CheckExact(self->numbers) || place < 0 ||
        PyArray_NDIM((PyArrayObject *)self->numbers) < 2 ||
        place >= PyArray_DIM((PyArrayObject *)self->numbers, 0)) {
        PyErr_SetString(PyExc_IndexError, "the numbers of this iteration were not drawn");
        return -1;
    }
    return place;
}

static PyObject *window_at(PyObject *thing, PyObject *t) {
    long long place = window_place((Window *)thing, t);
    if (place < 0) return NULL;
    PyObject *row = PySequence_GetItem(((Window *)thing)->numbers, place);
    if (row) PyArray_CLEARFLAGS((PyArrayObject *)row, NPY_ARRAY_WRITEABLE);
    return row;
}

/* Return the numbers of iteration t; an error unless they have the size and dtype of the model. */
const void *window_data(PyObject *thing, PyObject *t, PyArrayObject *model) {
    Window *self = (Window *)thing;
    long long place = window_place(self, t);
    if (place < 0) return NULL;
    PyArrayObject *numbers = (PyArrayObject *)self->numbers;
    npy_intp bytes = PyArray_NBYTES(model);
    if (!is_plain(self->numbers) || PyArray_TYPE(numbers) != PyArray_TYPE(model) ||
        PyArray_NBYTES(numbers) != PyArray_DIM(numbers, 0) * bytes) {
        PyErr_SetString(PyExc_ValueError, "the draws have another size or dtype than x");
        return NULL;
    }
    return (const char *)PyArray_DATA(numbers) + place * bytes;
}

static int window_traverse(PyObject *thing, visitproc visit, void *arg) {
    Py_VISIT(((Window *)thing)->numbers);
    Py_VISIT(((Window *)thing)->program);
    Py_VISIT(((Window *)thing)->seeds);
    return 0;
}

static int window_clear(PyObject *thing) {
    Py_CLEAR(((Window *)thing)->numbers);
    Py_CLEAR(((Window *)thing)->program);
    Py_CLEAR(((Window *)thing)->seeds);
    return 0;
}

static void window_free(PyObject *thing) {
    PyObject_GC_UnTrack(thing);
    window_clear(thing);
    pool_free(&((Window *)thing)->uniform);
    Py_TYPE(thing)->tp_free(thing);
}

static PyMemberDef window_members[] = {
    {"_numbers", T_OBJECT, offsetof(Window, numbers), 0, NULL},
    {"_first", T_LONGLONG, offsetof(Window, first), 0, NULL},
    {"_count", T_LONGLONG, offsetof(Window, count), 0, NULL},
    {"_program", T_OBJECT, offsetof(Window, program), 0, NULL},
    {"_seeds", T_OBJECT, offsetof(Window, seeds), 0, NULL},
    {"_word", T_ULONGLONG, offsetof(Window, word), 0, NULL},
    {"_length", T_LONGLONG, offsetof(Window, length), 0, NULL},
    {"_window", T_LONGLONG, offsetof(Window, window), 0, NULL},
    {"_identity", T_BOOL, offsetof(Window, identity), 0, NULL},
    {"_width", T_LONGLONG, offsetof(Window, width), 0, NULL},
    {NULL, 0, 0, 0, NULL}};

static PyMethodDef window_methods[] = {
    {"at", window_at, METH_O, "Return the numbers of iteration t, of shape (seeds, width)."},
    {NULL, NULL, 0, NULL}};

PyTypeObject WindowType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mpi_gt.kernels._c.Window",
    .tp_basicsize = sizeof(Window),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_members = window_members,
    .tp_methods = window_methods,
    .tp_new = PyType_GenericNew,
    .tp_traverse = window_traverse,
    .tp_clear = window_clear,
    .tp_dealloc = window_free,
    .tp_doc = "The random numbers of some consecutive iterations: the base class of Draws.",
};
