/* A program of entrywise operations, run over blocks of entries that stay in the cache.

   fuse.py records the expressions of an algorithm as instructions on registers. Array registers
   are the inputs, then the outputs, then blocks for temporary arrays. Scalar registers are the
   scalar inputs, then the constants, then scalars computed from these, once per call and in
   float64, as Python computes them. */
#include "kernels.h"
#include <math.h>
#include <stddef.h>
#include <stdint.h>

#define BLOCK 512

/* MULADD multiplies the content of its result register by a and adds b, with two roundings: one
   step of Horner's rule */
enum { ADD, SUB, MUL, DIV, MIN, MAX, SQRT, NEG, ABS, POW, MULADD, OPERATIONS };
enum { ARRAYS, ARRAY_SCALAR, SCALAR_ARRAY, SCALARS, KINDS };

#define UNARY(T, NAME, EXPRESSION)                                            \
    WIDE static void NAME##_##T(T *out, const T *p, const T *q, npy_intp n) { \
        (void)q;                                                              \
        ENTRYWISE for (npy_intp i = 0; i < n; i++) {                          \
            T a = p[i];                                                       \
            out[i] = EXPRESSION;                                              \
        }                                                                     \
    }
#define BINARY(T, NAME, EXPRESSION)                                                \
    WIDE static void NAME##_aa_##T(T *out, const T *p, const T *q, npy_intp n) {   \
        ENTRYWISE for (npy_intp i = 0; i < n; i++) {                               \
            T a = p[i], b = q[i];                                                  \
            out[i] = EXPRESSION;                                                   \
        }                                                                          \
    }                                                                              \
    WIDE static void NAME##_as_##T(T *out, const T *p, const T *q, npy_intp n) {   \
        T b = *q;                                                                  \
        ENTRYWISE for (npy_intp i = 0; i < n; i++) {                               \
            T a = p[i];                                                            \
            out[i] = EXPRESSION;                                                   \
        }                                                                          \
    }                                                                              \
    WIDE static void NAME##_sa_##T(T *out, const T *p, const T *q, npy_intp n) {   \
        T a = *p;                                                                  \
        ENTRYWISE for (npy_intp i = 0; i < n; i++) {                               \
            T b = q[i];                                                            \
            out[i] = EXPRESSION;                                                   \
        }                                                                          \
    }
#define HORNER(T)                                                                  \
    WIDE static void muladd_##T(T *out, const T *p, const T *q, npy_intp n) {      \
        T b = *q;                                                                  \
        ENTRYWISE for (npy_intp i = 0; i < n; i++) out[i] = out[i] * p[i] + b;     \
    }
#define LOOPS(T, ROOT, MAGNITUDE)   \
    HORNER(T)                       \
    BINARY(T, add, a + b)           \
    BINARY(T, sub, a - b)           \
    BINARY(T, mul, a *b)            \
    BINARY(T, div, a / b)           \
    BINARY(T, min, MINIMUM(a, b))   \
    BINARY(T, max, MAXIMUM(a, b))   \
    UNARY(T, sqrt, ROOT(a))         \
    UNARY(T, neg, -a)               \
    UNARY(T, abs, MAGNITUDE(a))     \
    typedef void (*loop_##T)(T *, const T *, const T *, npy_intp);                             \
    static const loop_##T loops_##T[OPERATIONS][KINDS] = {                                     \
        {add_aa_##T, add_as_##T, add_sa_##T}, {sub_aa_##T, sub_as_##T, sub_sa_##T},            \
        {mul_aa_##T, mul_as_##T, mul_sa_##T}, {div_aa_##T, div_as_##T, div_sa_##T},            \
        {min_aa_##T, min_as_##T, min_sa_##T}, {max_aa_##T, max_as_##T, max_sa_##T},            \
        {sqrt_##T}, {neg_##T}, {abs_##T}, {NULL}, {NULL, muladd_##T}};

LOOPS(double, sqrt, fabs)
LOOPS(float, sqrtf, fabsf)

typedef struct {
    unsigned char operation, kind, out, a, b;
} Instruction;

struct Program {
    PyObject_HEAD
    vectorcallfunc vectorcall;
    int inputs, outputs, scalars, constants, on_scalars, on_arrays;
    Instruction *instructions; /* those on scalars first */
    double *values;            /* the scalar registers */
    float *rounded;
    char **registers;          /* the array registers */
    char *blocks;
    char *summed;              /* a block for each input, for those that are sums */
    Pool results[MOST_OPERANDS];
};

int program_inputs(Program *program) { return program->inputs; }
int program_outputs(Program *program) { return program->outputs; }
int program_scalars(Program *program) { return program->scalars; }

static double on_scalars(int operation, double a, double b) {
    switch (operation) {
    case ADD: return a + b;
    case SUB: return a - b;
    case MUL: return a * b;
    case DIV: return a / b;
    case SQRT: return sqrt(a);
    case NEG: return -a;
    case ABS: return fabs(a);
    default: return pow(a, b);
    }
}

#define RUN(T, SCALARS_OF)                                                                     \
    for (npy_intp begin = 0; begin < size; begin += BLOCK) {                                   \
        npy_intp n = size - begin < BLOCK ? size - begin : BLOCK;                              \
        for (int i = 0; i < self->inputs; i++)                                                 \
            registers[i] = sums && sums[i] ? add_up(self, sums[i], i, type, begin, n)          \
                                           : (char *)((T *)PyArray_DATA(inputs[i]) + begin);   \
        for (int i = 0; i < self->outputs; i++)                                                \
            registers[self->inputs + i] = (char *)((T *)PyArray_DATA(outputs[i]) + begin);     \
        for (const Instruction *at = first; at < end; at++) {                                  \
            const T *a = at->kind == SCALAR_ARRAY ? SCALARS_OF + at->a : (T *)registers[at->a];\
            const T *b = at->kind == ARRAY_SCALAR ? SCALARS_OF + at->b : (T *)registers[at->b];\
            loops_##T[at->operation][at->kind]((T *)registers[at->out], a, b, n);              \
        }                                                                                      \
    }

/* Compute a block of an input that is a sum, and return where it is. */
static char *add_up(Program *self, const Sum *sum, int input, int type, npy_intp begin,
                    npy_intp n) {
    char *block = self->summed + (size_t)input * BLOCK * sizeof(double);
    combine_part(sum, type, block, begin, n);
    return block;
}

/* Run the program and set `outputs` to arrays that the caller owns. The inputs must be plain arrays
   of one dtype and shape. Where sums (or NULL) has a sum in the place of an input, that is added up
   block by block instead, and the input only tells its shape: no memory is written and read in
   between. */
int program_run(Program *self, PyArrayObject **inputs, const Sum *const *sums,
                const double *scalars, PyArrayObject **outputs) {
    if (sums && !self->summed &&
        !(self->summed = PyMem_Malloc((size_t)self->inputs * BLOCK * sizeof(double)))) {
        PyErr_NoMemory();
        return -1;
    }
    for (int i = 0; i < self->outputs; i++)
        if (!(outputs[i] = pool_take(self->results + i, inputs[0]))) {
            while (i--) Py_CLEAR(outputs[i]);
            return -1;
        }
    double *values = self->values;
    for (int i = 0; i < self->scalars; i++) values[i] = scalars[i];
    const Instruction *first = self->instructions + self->on_scalars;
    const Instruction *end = first + self->on_arrays;
    for (const Instruction *at = self->instructions; at < first; at++)
        values[at->out] = on_scalars(at->operation, values[at->a], values[at->b]);
    char **registers = self->registers;
    npy_intp size = PyArray_SIZE(inputs[0]);
    int type = PyArray_TYPE(inputs[0]);
    if (type == NPY_DOUBLE) {
        RUN(double, values)
    } else {
        int used = self->scalars + self->constants + self->on_scalars;
        for (int i = 0; i < used; i++) self->rounded[i] = (float)values[i];
        RUN(float, self->rounded)
    }
    return 0;
}

/* program(array, ..., scalar, ...): return the outputs, or None unless the arguments are plain
   arrays of one dtype and shape, and Python numbers. */
static PyObject *program_call(PyObject *callable, PyObject *const *arguments, size_t count,
                              PyObject *names) {
    Program *self = (Program *)callable;
    if (names || PyVectorcall_NARGS(count) != self->inputs + self->scalars) {
        PyErr_Format(PyExc_TypeError, "the program takes %d arrays and %d scalars", self->inputs,
                     self->scalars);
        return NULL;
    }
    PyArrayObject *inputs[MOST_OPERANDS], *outputs[MOST_OPERANDS];
    double scalars[MOST_OPERANDS];
    for (int i = 0; i < self->inputs; i++) {
        if (!is_plain(arguments[i]) || !is_alike(arguments[i], (PyArrayObject *)arguments[0]))
            Py_RETURN_NONE;
        inputs[i] = (PyArrayObject *)arguments[i];
    }
    for (int i = 0; i < self->scalars; i++) {
        PyObject *scalar = arguments[self->inputs + i];
        if (!PyFloat_CheckExact(scalar) && !PyLong_CheckExact(scalar)) Py_RETURN_NONE;
        scalars[i] = PyFloat_AsDouble(scalar);
        if (scalars[i] == -1 && PyErr_Occurred()) return NULL;
    }
    if (program_run(self, inputs, NULL, scalars, outputs)) return NULL;
    if (self->outputs == 1) return (PyObject *)outputs[0];
    PyObject *results = PyTuple_New(self->outputs);
    for (int i = 0; i < self->outputs; i++)
        if (results) PyTuple_SET_ITEM(results, i, (PyObject *)outputs[i]);
        else Py_DECREF(outputs[i]);
    return results;
}

/* Program(inputs, outputs, blocks, scalars, constants, on_scalars, on_arrays): the numbers of
   input arrays, output arrays, blocks and scalar inputs; the constants; and the instructions on
   scalars and on arrays, five bytes each: operation, kind, result and two operands. */
static PyObject *program_new(PyTypeObject *type, PyObject *arguments, PyObject *names) {
    int inputs, outputs, blocks, scalars;
    PyObject *constants;
    Py_buffer first, then;
    if (!PyArg_ParseTuple(arguments, "iiiiO!y*y*", &inputs, &outputs, &blocks, &scalars,
                          &PyTuple_Type, &constants, &first, &then))
        return NULL;
    Program *self = NULL;
    int total = inputs + outputs + blocks;
    int numbers = scalars + (int)PyTuple_GET_SIZE(constants);
    int on_scalars = (int)(first.len / 5), on_arrays = (int)(then.len / 5);
    if (inputs < 1 || outputs < 1 || inputs > MOST_OPERANDS || outputs > MOST_OPERANDS ||
        scalars > MOST_OPERANDS || blocks < 0 || scalars < 0 || total > 255 ||
        numbers + on_scalars > 255) {
        PyErr_SetString(PyExc_ValueError, "too many registers, or no arrays");
        goto done;
    }
    if (!(self = (Program *)type->tp_alloc(type, 0))) goto done;
    self->vectorcall = program_call;
    self->inputs = inputs, self->outputs = outputs, self->scalars = scalars;
    self->constants = numbers - scalars;
    self->on_scalars = on_scalars, self->on_arrays = on_arrays;
    self->instructions = PyMem_Calloc(on_scalars + on_arrays + 1, sizeof(Instruction));
    self->values = PyMem_Calloc(numbers + on_scalars + 1, sizeof(double));
    self->rounded = PyMem_Calloc(numbers + on_scalars + 1, sizeof(float));
    self->registers = PyMem_Calloc(total, sizeof(char *));
    self->blocks = PyMem_Calloc(blocks * BLOCK + 8, sizeof(double));
    if (!self->instructions || !self->values || !self->rounded || !self->registers ||
        !self->blocks) {
        PyErr_NoMemory();
        Py_CLEAR(self);
        goto done;
    }
    char *aligned = self->blocks + (64 - (uintptr_t)self->blocks % 64) % 64; /* to a cache line */
    for (int i = 0; i < blocks; i++)
        self->registers[inputs + outputs + i] = aligned + (size_t)i * BLOCK * sizeof(double);
    for (int i = 0; i < self->constants; i++)
        self->values[scalars + i] = PyFloat_AsDouble(PyTuple_GET_ITEM(constants, i));
    for (int i = 0; i < on_scalars + on_arrays; i++) {
        int of_scalars = i < on_scalars;
        const unsigned char *from = of_scalars ? first.buf : then.buf;
        from += 5 * (of_scalars ? i : i - on_scalars);
        Instruction at = {from[0], from[1], from[2], from[3], from[4]};
        int a_top = of_scalars || at.kind == SCALAR_ARRAY ? numbers + on_scalars : total;
        int b_top = of_scalars || at.kind == ARRAY_SCALAR ? numbers + on_scalars : total;
        int out_top = of_scalars ? numbers + on_scalars : total;
        int known = of_scalars ? at.kind == SCALARS && at.operation <= POW &&
                                     at.operation != MIN && at.operation != MAX
                               : at.kind < SCALARS && at.operation < OPERATIONS &&
                                     loops_double[at.operation][at.kind] != NULL;
        if (!known || at.a >= a_top || at.b >= b_top || at.out >= out_top) {
            PyErr_Format(PyExc_ValueError, "instruction %d is not valid", i);
            Py_CLEAR(self);
            goto done;
        }
        self->instructions[i] = at;
    }
    if (PyErr_Occurred()) Py_CLEAR(self);
done:
    PyBuffer_Release(&first);
    PyBuffer_Release(&then);
    return (PyObject *)self;
}

static void program_free(PyObject *thing) {
    Program *self = (Program *)thing;
    PyMem_Free(self->instructions);
    PyMem_Free(self->values);
    PyMem_Free(self->rounded);
    PyMem_Free(self->registers);
    PyMem_Free(self->blocks);
    PyMem_Free(self->summed);
    for (int i = 0; i < MOST_OPERANDS; i++) pool_free(self->results + i);
    Py_TYPE(thing)->tp_free(thing);
}

PyTypeObject ProgramType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "mpi_gt.kernels._c.Program",
    .tp_basicsize = sizeof(Program),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .tp_vectorcall_offset = offsetof(Program, vectorcall),
    .tp_call = PyVectorcall_Call,
    .tp_new = program_new,
    .tp_dealloc = program_free,
    .tp_doc = "A program of entrywise operations on arrays of one shape, run block by block.",
};
