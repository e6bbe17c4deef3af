/* The largest entries, with their indices. */
#include "compress.h"

/* Return the key of rank `wanted` from above, 1 for the largest. Digit by digit from the top; `keys`
   is overwritten with those that share the digits so far. */
static uint64_t select_key(uint64_t *keys, npy_intp n, npy_intp wanted) {
    for (int shift = 56; shift >= 0; shift -= 8) {
        npy_intp counts[256] = {0};
        for (npy_intp i = 0; i < n; i++) counts[keys[i] >> shift & 255]++;
        int digit = 255;
        while (counts[digit] < wanted) wanted -= counts[digit--];
        npy_intp left = 0;
        for (npy_intp i = 0; i < n; i++)
            if ((int)(keys[i] >> shift & 255) == digit) keys[left++] = keys[i];
        n = left;
    }
    return keys[0];
}

/* The bits of |z| are ordered like |z|, with NaN above infinity. */
#define TOP_ENTRIES(T)                                                                          \
    static void top_##T(const T *z, npy_intp d, npy_intp kept, uint64_t *keys, char *indices,   \
                        char *values) {                                                         \
        for (npy_intp i = 0; i < d; i++)                                                        \
            keys[i] = bits_of_double((double)z[i]) & 0x7FFFFFFFFFFFFFFFULL;                     \
        uint64_t least = select_key(keys, d, kept);                                             \
        npy_intp ties = kept;                                                                   \
        for (npy_intp i = 0; i < d; i++)                                                        \
            ties -= (bits_of_double((double)z[i]) & 0x7FFFFFFFFFFFFFFFULL) > least;             \
        for (npy_intp i = 0; i < d; i++) {                                                      \
            uint64_t key = bits_of_double((double)z[i]) & 0x7FFFFFFFFFFFFFFFULL;                \
            if (key < least || (key == least && ties-- <= 0)) continue;                         \
            int32_t index = (int32_t)i;                                                         \
            memcpy(indices, &index, sizeof index);                                              \
            memcpy(values, z + i, sizeof(T));                                                   \
            indices += sizeof index, values += sizeof(T);                                       \
        }                                                                                       \
    }
TOP_ENTRIES(double)
TOP_ENTRIES(float)

int encode_top(const Codec *codec, const void *z, char *payload) {
    npy_intp d = codec->d, kept = codec->kept;
    npy_intp size = codec->type == NPY_DOUBLE ? sizeof(double) : sizeof(float);
    char *values = payload + codec->seeds * kept * sizeof(int32_t);
    uint64_t *keys = PyMem_Malloc(d * sizeof *keys);
    if (!keys) {
        PyErr_NoMemory();
        return -1;
    }
    for (npy_intp seed = 0; seed < codec->seeds; seed++) {
        char *indices = payload + seed * kept * sizeof(int32_t), *to = values + seed * kept * size;
        if (codec->type == NPY_DOUBLE)
            top_double((const double *)z + seed * d, d, kept, keys, indices, to);
        else
            top_float((const float *)z + seed * d, d, kept, keys, indices, to);
    }
    PyMem_Free(keys);
    return 0;
}

int decode_top(const Codec *codec, const char *payload, void *out) {
    npy_intp d = codec->d, kept = codec->kept;
    npy_intp size = codec->type == NPY_DOUBLE ? sizeof(double) : sizeof(float);
    const char *values = payload + codec->seeds * kept * sizeof(int32_t);
    memset(out, 0, codec->seeds * d * size);
    for (npy_intp i = 0; i < codec->seeds * kept; i++) {
        int32_t index;
        memcpy(&index, payload + i * sizeof index, sizeof index);
        if (index < 0 || index >= d) {
            PyErr_Format(PyExc_ValueError, "a payload has the index %d of %zd entries", index, d);
            return -1;
        }
        memcpy((char *)out + (i / kept * d + index) * size, values + i * size, size);
    }
    return 0;
}
