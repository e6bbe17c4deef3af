/* Declarations shared by the files of the extension. It contains no MPI, so that one build serves
   every MPI library. */
#ifndef MPI_GT_KERNELS_H
#define MPI_GT_KERNELS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL mpi_gt_kernels
#ifndef KERNELS_MODULE
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>
#include <string.h>

/* WIDE: a function with loops over entries, compiled twice, for any processor and for AVX2; the
   loader chooses. Both give the same bits, since no operation is fused or reordered. A test defines
   NARROW to compare them. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(NARROW)
#define WIDE __attribute__((target_clones("avx2", "default")))
#else
#define WIDE
#endif

/* X86_INTRINSICS: functions for one instruction set may be compiled; who calls one asks the processor
   with __builtin_cpu_supports. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(NARROW)
#define X86_INTRINSICS 1
#else
#define X86_INTRINSICS 0
#endif

#if defined(__GNUC__) && !defined(__clang__)
#define ENTRYWISE _Pragma("GCC ivdep")
#else
#define ENTRYWISE
#endif

#if defined(__GNUC__)
#define ALWAYS_INLINE inline __attribute__((always_inline))
#else
#define ALWAYS_INLINE inline
#endif

/* like np.minimum and np.maximum: NaN if one of the two is NaN */
#define MINIMUM(a, b) ((a) < (b) || (a) != (a) ? (a) : (b))
#define MAXIMUM(a, b) ((a) > (b) || (a) != (a) ? (a) : (b))

/* Return true for a plain float64 or float32 array with contiguous entries. */
static inline int is_plain(PyObject *thing) {
    if (!PyArray_CheckExact(thing)) return 0;
    PyArrayObject *array = (PyArrayObject *)thing;
    int type = PyArray_TYPE(array);
    return (type == NPY_DOUBLE || type == NPY_FLOAT) && PyArray_ISCARRAY_RO(array);
}

static inline int same_shape(PyArrayObject *a, PyArrayObject *b) {
    if (PyArray_NDIM(a) != PyArray_NDIM(b)) return 0;
    for (int i = 0; i < PyArray_NDIM(a); i++)
        if (PyArray_DIM(a, i) != PyArray_DIM(b, i)) return 0;
    return 1;
}

/* Return true for a plain array of the dtype and shape of the model. */
static inline int is_alike(PyObject *thing, PyArrayObject *model) {
    return is_plain(thing) && PyArray_TYPE((PyArrayObject *)thing) == PyArray_TYPE(model) &&
           same_shape((PyArrayObject *)thing, model);
}

/* The arrays of the last two results of some call, which are used again once nobody else refers to
   them. Two, because the older one may still be part of the state that the next result is made
   from. */
typedef struct {
    PyArrayObject *spare[2]; /* the older one first */
} Pool;

/* Return an array of the shape and type: one of the pool, or a new one that joins the pool. */
static inline PyArrayObject *pool_take_shape(Pool *pool, int dimensions, const npy_intp *shape,
                                             int type) {
#ifndef Py_GIL_DISABLED
    for (int i = 0; i < 2; i++) {
        PyArrayObject *spare = pool->spare[i];
        if (spare && Py_REFCNT(spare) == 1 && PyArray_TYPE(spare) == type &&
            PyArray_ISCARRAY(spare) && PyArray_NDIM(spare) == dimensions &&
            !memcmp(PyArray_DIMS(spare), shape, dimensions * sizeof(npy_intp)))
            return (PyArrayObject *)Py_NewRef(spare);
    }
#endif
    PyArrayObject *made = (PyArrayObject *)PyArray_SimpleNew(dimensions, shape, type);
#ifndef Py_GIL_DISABLED
    if (made) {
        Py_XSETREF(pool->spare[0], pool->spare[1]);
        pool->spare[1] = (PyArrayObject *)Py_NewRef(made);
    }
#endif
    return made;
}

static inline PyArrayObject *pool_take(Pool *pool, PyArrayObject *model) {
    return pool_take_shape(pool, PyArray_NDIM(model), PyArray_DIMS(model), PyArray_TYPE(model));
}

static inline void pool_free(Pool *pool) {
    for (int i = 0; i < 2; i++) Py_CLEAR(pool->spare[i]);
}

/* combine.c */
typedef struct {
    const void **rows;   /* the vectors to add up, in rank order */
    const void *weights; /* of these, in their dtype */
    npy_intp count;
} Sum;
void combine_part(const Sum *sum, int type, void *out, npy_intp begin, npy_intp n);

/* program.c */
#define MOST_OPERANDS 16
typedef struct Program Program;
extern PyTypeObject ProgramType;
int program_inputs(Program *program);
int program_outputs(Program *program);
int program_scalars(Program *program);
int program_run(Program *program, PyArrayObject **inputs, const Sum *const *sums,
                const double *scalars, PyArrayObject **outputs);

/* replay.c */
extern PyTypeObject ReplayType;

/* stamps.c */
extern PyTypeObject TimedType;
int add_stamp(PyArrayObject *stamps, long long code);

/* transfer.c */
#define MOST_VECTORS 64 /* per exchange; as in plan.py */
typedef struct {
    PyObject_HEAD
    long long iteration, due, stop_at, waits, bytes_sent, gradients;
    double deadline; /* of the monotonic clock, in seconds; 0: none */
    PyObject *waiting;
} NodeCounters;
typedef struct Transfer Transfer;
extern PyTypeObject NodeCountersType, TransferType;
int transfer_vectors(Transfer *transfer);
int transfer_is_pending(Transfer *transfer);
int transfer_fits(Transfer *transfer, PyObject *const *vectors, Py_ssize_t count);
PyObject *transfer_call(PyObject *transfer, PyObject *const *vectors, size_t count,
                        PyObject *names);
PyObject *transfer_collect(Transfer *transfer, int index);
PyObject *transfer_await(Transfer *transfer, int index, Sum *sum);

/* mix.c */
extern PyTypeObject PendingMixType, MixType;
PyObject *pending_wait(PyObject *pending);
PyObject *pending_await(PyObject *pending, Sum *sum);

/* advance.c */
extern PyTypeObject NextGradientType;
PyObject *next_gradient_full(PyObject *grad, PyObject *x);

/* collective.c */
extern PyTypeObject CollectiveType;

/* shared/words.c */
extern PyTypeObject WordsType;

/* draws.c */
extern PyTypeObject WindowType;
const void *window_data(PyObject *window, PyObject *t, PyArrayObject *model);

/* gradients/ */
extern PyTypeObject HuberType, SoftmaxType;
int slopes_in_place(PyArrayObject *z, const npy_intp *labels, npy_intp rows, double scale);

/* fixed_order/functions.c */
double fixed_exp(double x);
double fixed_log(double x);
double fixed_erf(double x);

/* advance.c, combine.c, draws.c, stamps.c, local_metrics.c, gradients, fixed_order, compress */
PyObject *kernels_advance(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *kernels_uniform(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *kernels_slopes(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *kernels_stamp(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *kernels_local_metrics(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *kernels_mix_all(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *kernels_multiply(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *kernels_elementary(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *kernels_encode(PyObject *module, PyObject *const *arguments, Py_ssize_t count);
PyObject *kernels_decode(PyObject *module, PyObject *const *arguments, Py_ssize_t count);

#endif
