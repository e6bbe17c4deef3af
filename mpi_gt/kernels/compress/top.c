/* The largest entries, with their indices. */
#include "compress.h"

#define DIGIT 11 /* bits: the exponent first, then parts of the fraction */
#define DIGITS (1 << DIGIT)

/* Count the keys by one of their digits. There are two tables, since a count is not yet stored when
   the next key, often with the same digit, adds to it. */
static void count_digits(const uint64_t *keys, npy_intp n, int shift, int32_t counts[2][DIGITS]) {
    memset(counts, 0, 2 * sizeof counts[0]);
    npy_intp i = 0;
    for (; i + 2 <= n; i += 2)
        for (int j = 0; j < 2; j++) counts[j][keys[i + j] >> shift & (DIGITS - 1)]++;
    if (i < n) counts[0][keys[i] >> shift & (DIGITS - 1)]++;
}

/* Return the key of rank `wanted` from above, 1 for the largest. Digit by digit from the top; `keys`
   is overwritten with those that share the digits so far. No branch depends on a key. */
static uint64_t select_key(uint64_t *keys, npy_intp n, npy_intp wanted) {
    int32_t counts[2][DIGITS];
    for (int shift = 63 - DIGIT; n > 1; shift = shift > DIGIT ? shift - DIGIT : 0) {
        count_digits(keys, n, shift, counts);
        uint64_t digit = DIGITS - 1;
        for (npy_intp here; (here = counts[0][digit] + counts[1][digit]) < wanted; digit--)
            wanted -= here;
        npy_intp left = 0;
        for (npy_intp i = 0; i < n; i++) {
            uint64_t key = keys[i];
            keys[left] = key;
            left += (key >> shift & (DIGITS - 1)) == digit;
        }
        n = left;
        if (shift == 0) break; /* the others are equal */
    }
    return keys[0];
}

/* The bits of |z| are ordered like |z|, with NaN above infinity. `keys` and `found` have room for d
   numbers. */
#define TOP_ENTRIES(T)                                                                          \
    static ALWAYS_INLINE uint64_t key_##T(T z) {                                                \
        return bits_of_double((double)z) & 0x7FFFFFFFFFFFFFFFULL;                               \
    }                                                                                           \
    WIDE static void keys_##T(const T *restrict z, npy_intp d, uint64_t *restrict keys) {       \
        for (npy_intp i = 0; i < d; i++) keys[i] = key_##T(z[i]);                               \
    }                                                                                           \
    static void top_##T(const T *z, npy_intp d, npy_intp kept, uint64_t *keys, int32_t *found,  \
                        char *indices, char *values) {                                          \
        keys_##T(z, d, keys);                                                                   \
        uint64_t least = select_key(keys, d, kept);                                             \
        npy_intp left = 0, ties = kept;                                                         \
        for (npy_intp i = 0; i < d; i++) {                                                      \
            found[left] = (int32_t)i;                                                           \
            left += key_##T(z[i]) >= least;                                                     \
        }                                                                                       \
        if (left > kept) /* else all that are equal to the least have their place */            \
            for (npy_intp i = 0; i < left; i++) ties -= key_##T(z[found[i]]) > least;           \
        for (npy_intp i = 0; i < left; i++) {                                                   \
            const T *entry = z + found[i];                                                      \
            if (key_##T(*entry) == least && ties-- <= 0) continue;                              \
            memcpy(indices, found + i, sizeof *found);                                          \
            memcpy(values, entry, sizeof(T));                                                   \
            indices += sizeof *found, values += sizeof(T);                                      \
        }                                                                                       \
    }
TOP_ENTRIES(double)
TOP_ENTRIES(float)

int encode_top(const Codec *codec, const void *z, char *payload) {
    npy_intp d = codec->d, kept = codec->kept;
    npy_intp size = codec->type == NPY_DOUBLE ? sizeof(double) : sizeof(float);
    char *values = payload + codec->seeds * kept * sizeof(int32_t);
    uint64_t *keys = PyMem_Malloc(d * (sizeof(uint64_t) + sizeof(int32_t)));
    if (!keys) {
        PyErr_NoMemory();
        return -1;
    }
    int32_t *found = (int32_t *)(keys + d);
    for (npy_intp seed = 0; seed < codec->seeds; seed++) {
        char *indices = payload + seed * kept * sizeof(int32_t), *to = values + seed * kept * size;
        if (codec->type == NPY_DOUBLE)
            top_double((const double *)z + seed * d, d, kept, keys, found, indices, to);
        else
            top_float((const float *)z + seed * d, d, kept, keys, found, indices, to);
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
