/* Uniform numbers, the same as numpy.random.Philox gives for the same key and counter
   (Salmon, Moraes, Dror, Shaw 2011: Philox4x64-10). */
#include "kernels.h"
#include <stdint.h>

#define TOGETHER 2 /* counters at once: their multiplications do not wait for each other */

static inline uint64_t multiply(uint64_t a, uint64_t b, uint64_t *high) {
    unsigned __int128 product = (unsigned __int128)a * b;
    *high = (uint64_t)(product >> 64);
    return (uint64_t)product;
}

/* Four numbers for each of the counters [first, block, 0, 0], [first + 1, block, 0, 0], ... */
static void philox(uint64_t first, uint64_t block, uint64_t seed, uint64_t word,
                   uint64_t out[TOGETHER][4]) {
    for (int k = 0; k < TOGETHER; k++)
        out[k][0] = first + k, out[k][1] = block, out[k][2] = 0, out[k][3] = 0;
    for (int round = 0; round < 10; round++) {
        for (int k = 0; k < TOGETHER; k++) {
            uint64_t high0, high1;
            uint64_t low0 = multiply(0xD2E7470EE14C6C93u, out[k][0], &high0);
            uint64_t low1 = multiply(0xCA5A826395121157u, out[k][2], &high1);
            out[k][0] = high1 ^ out[k][1] ^ seed, out[k][1] = low1;
            out[k][2] = high0 ^ out[k][3] ^ word, out[k][3] = low0;
        }
        seed += 0x9E3779B97F4A7C15u, word += 0xBB67AE8584CAA73Bu;
    }
}

static void fill(double *out, npy_intp rows, npy_intp width, npy_intp stride, uint64_t begin,
                 uint64_t block, uint64_t seed, uint64_t word) {
    uint64_t at = begin, end = begin + (uint64_t)(rows * width);
    npy_intp column = 0;
    while (at < end) {
        uint64_t numbers[TOGETHER][4], base = at / 4 * 4;
        philox(at / 4 + 1, block, seed, word, numbers);
        for (; at < end && at < base + 4 * TOGETHER; at++) {
            /* signed: the conversion of unsigned numbers is slower, and these are small */
            out[column] = (double)(int64_t)(numbers[(at - base) / 4][at % 4] >> 11) * 0x1p-53;
            if (++column == width) column = 0, out += stride;
        }
    }
}

/* uniform(out, seeds, word, block, row): fill out (rows, seeds, width) with the numbers of the
   rows row, row + 1, ... of a block, each seed's from its own key [seed, word]. */
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
    npy_intp rows = PyArray_DIM(out, 0), columns = PyArray_DIM(out, 1), width = PyArray_DIM(out, 2);
    const uint64_t *keys = PyArray_DATA(seeds);
    for (npy_intp k = 0; k < columns; k++)
        fill((double *)PyArray_DATA(out) + k * width, rows, width, columns * width,
             (uint64_t)row * (uint64_t)width, block, keys[k], word);
    Py_RETURN_NONE;
}
