/* Entries rounded to nearest even: bfloat16, float16, float32. */
#include "compress.h"

/* the upper half of a float32; a NaN stays one */
static inline uint16_t to_bfloat16(float value) {
    uint32_t b = bits_of_float(value);
    uint32_t rounded = (b + 0x7FFF + (b >> 16 & 1)) >> 16;
    uint32_t quiet = b >> 16 | 0x40;
    return (uint16_t)((b & 0x7FFFFFFF) > 0x7F800000 ? quiet : rounded);
}

/* Round a double to float16 in one step, as numpy does.

   No branches, which random exponents would mislead, and no 64-bit comparisons but of doubles: the
   compiler vectorises it. To a number whose exponent is e (at least -14, the least of float16), 2^(e+42)
   is added: the sum is rounded to the digits of a float16, which are then the last of the sum. */
static inline uint16_t to_float16(double value) {
    uint64_t b = bits_of_double(value);
    uint64_t sign = b >> 48 & 0x8000, quiet = b >> 42 & 0x3FF;
    double size = value < 0 ? -value : value;
    double kept = size < 0x1p16 ? size : 0x1p16; /* which becomes infinity, like all above */
    double least = kept > 0x1p-14 ? kept : 0x1p-14;
    uint64_t exponent = bits_of_double(least) & 0x7FF0000000000000ULL;
    double power = double_of_bits(exponent + (42ULL << 52));
    uint64_t digits = bits_of_double(kept + power) & 0xFFF;
    uint64_t rounded = (exponent >> 42) - (1009ULL << 10) + digits; /* carries included */
    uint64_t nan = 0x7C00 | quiet | (quiet == 0);
    return (uint16_t)(sign | (value != value ? nan : rounded));
}

static inline float of_float16(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, size = half & 0x7FFF;
    uint32_t small = bits_of_float((float)(int32_t)size * 0x1p-24f); /* below 2^-14 */
    uint32_t normal = (size << 13) + (112U << 23);
    uint32_t infinite = size << 13 | 0x7F800000; /* or NaN */
    uint32_t kept = size < 0x400 ? small : normal;
    return float_of_bits(sign | (size >= 0x7C00 ? infinite : kept));
}

#define CASTS(T)                                                                                \
    WIDE static void to_bfloat16s_##T(const T *restrict z, uint16_t *restrict out, npy_intp n) { \
        for (npy_intp i = 0; i < n; i++) out[i] = to_bfloat16((float)z[i]);                     \
    }                                                                                           \
    WIDE static void of_bfloat16s_##T(const uint16_t *restrict in, T *restrict out, npy_intp n) { \
        for (npy_intp i = 0; i < n; i++) out[i] = (T)float_of_bits((uint32_t)in[i] << 16);      \
    }                                                                                           \
    WIDE static void to_float16s_##T(const T *restrict z, uint16_t *restrict out, npy_intp n) { \
        for (npy_intp i = 0; i < n; i++) out[i] = to_float16((double)z[i]);                     \
    }                                                                                           \
    WIDE static void of_float16s_##T(const uint16_t *restrict in, T *restrict out, npy_intp n) { \
        for (npy_intp i = 0; i < n; i++) out[i] = (T)of_float16(in[i]);                         \
    }                                                                                           \
    WIDE static void to_floats_##T(const T *restrict z, float *restrict out, npy_intp n) {      \
        for (npy_intp i = 0; i < n; i++) out[i] = (float)z[i];                                  \
    }                                                                                           \
    WIDE static void of_floats_##T(const float *restrict in, T *restrict out, npy_intp n) {     \
        for (npy_intp i = 0; i < n; i++) out[i] = (T)in[i];                                     \
    }
CASTS(double)
CASTS(float)

#define APPLY(action, from, to)                                                                 \
    do {                                                                                        \
        if (codec->type == NPY_DOUBLE) action##_double((const void *)(from), (void *)(to), n);  \
        else action##_float((const void *)(from), (void *)(to), n);                             \
    } while (0)

void encode_cast(const Codec *codec, const void *z, char *payload) {
    npy_intp n = codec->seeds * codec->d;
    if (codec->kind == BFLOAT16) APPLY(to_bfloat16s, z, payload);
    else if (codec->kind == FLOAT16) APPLY(to_float16s, z, payload);
    else APPLY(to_floats, z, payload);
}

void decode_cast(const Codec *codec, const char *payload, void *out) {
    npy_intp n = codec->seeds * codec->d;
    if (codec->kind == BFLOAT16) APPLY(of_bfloat16s, payload, out);
    else if (codec->kind == FLOAT16) APPLY(of_float16s, payload, out);
    else APPLY(of_floats, payload, out);
}
