/* Entries rounded to nearest even: bfloat16, float16, float32. */
#include "compress.h"

/* the upper half of a float32; a NaN stays one */
static inline uint16_t to_bfloat16(float value) {
    uint32_t b = bits_of_float(value);
    uint32_t rounded = (b + 0x7FFF + (b >> 16 & 1)) >> 16;
    uint32_t quiet = b >> 16 | 0x40;
    return (uint16_t)((b & 0x7FFFFFFF) > 0x7F800000 ? quiet : rounded);
}

/* Round a double to float16 in one step, as numpy does. */
static inline uint16_t to_float16(double value) {
    uint64_t b = bits_of_double(value);
    uint16_t sign = (uint16_t)(b >> 48 & 0x8000);
    uint64_t size = b & 0x7FFFFFFFFFFFFFFFULL;
    if (size > 0x7FF0000000000000ULL) { /* NaN */
        uint16_t kept = (uint16_t)(0x7C00 | (size >> 42 & 0x3FF));
        return sign | (kept == 0x7C00 ? 0x7C01 : kept);
    }
    int exponent = (int)(size >> 52) - 1023;
    if (exponent >= 16) return sign | 0x7C00;
    if (exponent < -25) return sign; /* below half of the least float16 */
    uint64_t digits = (size & 0xFFFFFFFFFFFFFULL) | 0x10000000000000ULL;
    int drop = exponent < -14 ? 42 - 14 - exponent : 42; /* digits that do not fit */
    uint64_t half = 1ULL << (drop - 1), kept = digits >> drop, rest = digits & ((half << 1) - 1);
    kept += rest > half || (rest == half && (kept & 1));
    if (exponent < -14) return sign | (uint16_t)kept;
    return sign | (uint16_t)(((uint64_t)(exponent + 14) << 10) + kept); /* carries included */
}

static inline float of_float16(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31;
    uint32_t digits = half & 0x3FF;
    if (exponent == 31) return float_of_bits(sign | 0x7F800000 | digits << 13);
    if (exponent) return float_of_bits(sign | (exponent + 112) << 23 | digits << 13);
    float least = (float)digits * 0x1p-24f;
    return float_of_bits(sign | bits_of_float(least));
}

#define CASTS(T)                                                                                \
    WIDE static void to_bfloat16s_##T(const T *restrict z, uint16_t *restrict out, npy_intp n) { \
        for (npy_intp i = 0; i < n; i++) out[i] = to_bfloat16((float)z[i]);                     \
    }                                                                                           \
    WIDE static void of_bfloat16s_##T(const uint16_t *restrict in, T *restrict out, npy_intp n) { \
        for (npy_intp i = 0; i < n; i++) out[i] = (T)float_of_bits((uint32_t)in[i] << 16);      \
    }                                                                                           \
    static void to_float16s_##T(const T *restrict z, uint16_t *restrict out, npy_intp n) {      \
        for (npy_intp i = 0; i < n; i++) out[i] = to_float16((double)z[i]);                     \
    }                                                                                           \
    static void of_float16s_##T(const uint16_t *restrict in, T *restrict out, npy_intp n) {     \
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
