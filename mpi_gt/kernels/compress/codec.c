/* encode and decode: the entry points, which check shapes, dtypes and sizes. */
#include "compress.h"

/* Return the bytes of a payload, -1 for a codec that makes no sense. */
static npy_intp payload_size(const Codec *codec) {
    npy_intp seeds = codec->seeds, d = codec->d, n = seeds * d;
    npy_intp size = codec->type == NPY_DOUBLE ? 8 : 4, bits = codec->bits;
    if (d < 1) return -1;
    switch (codec->kind) {
    case NONE: return n * size;
    case BFLOAT16:
    case FLOAT16: return n * 2;
    case FLOAT32: return n * 4;
    case QSGD:
        if ((bits != 2 && bits != 4 && bits != 8) || codec->block < 1) return -1;
        return seeds * (codec_blocks(codec) * 4 + (d * bits + 7) / 8);
    case SIGN: return seeds * (size + (d + 7) / 8);
    case TOP:
        if (codec->kept < 1 || codec->kept > d || d > INT32_MAX) return -1;
        return seeds * codec->kept * (4 + size);
    default: return -1;
    }
}

static int read_codec(PyObject *from, PyArrayObject *model, int axis, Codec *codec) {
    *codec = (Codec){.type = PyArray_TYPE(model), .seeds = PyArray_DIM(model, axis),
                     .d = PyArray_DIM(model, axis + 1)};
    if (!PyTuple_Check(from) || !PyArg_ParseTuple(from, "innnd", &codec->kind, &codec->bits,
                                                  &codec->block, &codec->kept, &codec->factor)) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "a codec is a tuple");
        return -1;
    }
    return 0;
}

static int is_bytes(PyObject *thing, int dimensions) {
    return PyArray_CheckExact(thing) && PyArray_TYPE((PyArrayObject *)thing) == NPY_UINT8 &&
           PyArray_NDIM((PyArrayObject *)thing) == dimensions;
}

/* encode(codec, z, payload, uniform): write the payload of z (seeds, d). The codec is a tuple (kind,
   bits, block, kept, factor); `uniform` has the shape of z, in float64, or is None. */
PyObject *kernels_encode(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    Codec codec;
    if (count != 4 || !is_plain(arguments[1]) || !is_bytes(arguments[2], 1) ||
        PyArray_NDIM((PyArrayObject *)arguments[1]) != 2) {
        PyErr_SetString(PyExc_ValueError, "encode takes a codec, z (seeds, d), payload, uniform");
        return NULL;
    }
    PyArrayObject *z = (PyArrayObject *)arguments[1], *payload = (PyArrayObject *)arguments[2];
    if (read_codec(arguments[0], z, 0, &codec)) return NULL;
    int drawn = codec.kind == QSGD;
    PyArrayObject *uniform = drawn ? (PyArrayObject *)arguments[3] : NULL;
    if (payload_size(&codec) != PyArray_SIZE(payload) || !PyArray_ISCARRAY(payload) ||
        (drawn && (!is_plain(arguments[3]) || PyArray_TYPE(uniform) != NPY_DOUBLE ||
                   !same_shape(uniform, z)))) {
        PyErr_SetString(PyExc_ValueError, "the payload or the draws do not fit the vector");
        return NULL;
    }
    const void *from = PyArray_DATA(z);
    char *to = PyArray_DATA(payload);
    switch (codec.kind) {
    case NONE: memcpy(to, from, PyArray_NBYTES(z)); break;
    case QSGD:
        if (encode_qsgd(&codec, from, PyArray_DATA(uniform), to)) return PyErr_NoMemory();
        break;
    case SIGN: encode_sign(&codec, from, to); break;
    case TOP:
        if (encode_top(&codec, from, to)) return NULL;
        break;
    default: encode_cast(&codec, from, to);
    }
    Py_RETURN_NONE;
}

/* decode(codec, payloads, out): write the vectors out (rows, seeds, d) of payloads (rows, size). */
PyObject *kernels_decode(PyObject *module, PyObject *const *arguments, Py_ssize_t count) {
    Codec codec;
    if (count != 3 || !is_bytes(arguments[1], 2) || !is_plain(arguments[2]) ||
        PyArray_NDIM((PyArrayObject *)arguments[2]) != 3) {
        PyErr_SetString(PyExc_ValueError, "decode takes a codec, payloads and out (rows, seeds, d)");
        return NULL;
    }
    PyArrayObject *payloads = (PyArrayObject *)arguments[1], *out = (PyArrayObject *)arguments[2];
    if (read_codec(arguments[0], out, 1, &codec)) return NULL;
    npy_intp rows = PyArray_DIM(out, 0), size = PyArray_DIM(payloads, 1);
    if (payload_size(&codec) != size || PyArray_DIM(payloads, 0) != rows ||
        !PyArray_ISWRITEABLE(out) || (rows && size > 1 && PyArray_STRIDE(payloads, 1) != 1)) {
        PyErr_SetString(PyExc_ValueError, "the payloads do not fit the vectors");
        return NULL;
    }
    for (npy_intp row = 0; row < rows; row++) {
        const char *from = PyArray_GETPTR1(payloads, row);
        void *to = PyArray_GETPTR1(out, row);
        switch (codec.kind) {
        case NONE: memcpy(to, from, size); break;
        case QSGD:
            if (decode_qsgd(&codec, from, to)) return PyErr_NoMemory();
            break;
        case SIGN: decode_sign(&codec, from, to); break;
        case TOP:
            if (decode_top(&codec, from, to)) return NULL;
            break;
        default: decode_cast(&codec, from, to);
        }
    }
    Py_RETURN_NONE;
}
