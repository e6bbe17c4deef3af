/* The signs of the entries, and one scale per vector: the mean of their sizes. */
#include "compress.h"

#define LANES 16 /* partial sums; as in mpi_gt/compressors/sign.py */

/* Set the eight bits of a byte, the first on top, from eight bytes that are 0 or 1. */
static inline unsigned char packed_byte(const unsigned char *flags) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    uint64_t word;
    memcpy(&word, flags, sizeof word);
    return (unsigned char)(word * 0x8040201008040201ULL >> 56);
#else
    unsigned char byte = 0;
    for (int i = 0; i < 8; i++) byte |= (unsigned char)(flags[i] << (7 - i));
    return byte;
#endif
}

#define PIECE 512

/* The sum has a fixed order: entry i goes to lane i % LANES, and the lanes are folded in half. */
#define SIGNS(T)                                                                                \
    WIDE static double mean_size_##T(const T *z, npy_intp n) {                                  \
        double lanes[LANES] = {0};                                                              \
        npy_intp whole = n - n % LANES;                                                         \
        for (npy_intp i = 0; i < whole; i += LANES)                                             \
            for (int lane = 0; lane < LANES; lane++) {                                          \
                double value = (double)z[i + lane];                                             \
                lanes[lane] += value < 0 ? -value : value;                                      \
            }                                                                                   \
        for (npy_intp i = whole; i < n; i++) {                                                  \
            double value = (double)z[i];                                                        \
            lanes[i - whole] += value < 0 ? -value : value;                                     \
        }                                                                                       \
        for (int half = LANES / 2; half; half /= 2)                                             \
            for (int lane = 0; lane < half; lane++) lanes[lane] += lanes[lane + half];          \
        return lanes[0] / (double)n;                                                            \
    }                                                                                           \
    WIDE static void flags_##T(const T *restrict z, unsigned char *restrict flags, npy_intp n) { \
        for (npy_intp i = 0; i < n; i++) flags[i] = z[i] >= 0;                                  \
    }                                                                                           \
    static void pack_##T(const T *z, unsigned char *out, npy_intp n) {                          \
        unsigned char flags[PIECE];                                                             \
        for (npy_intp begin = 0; begin < n; begin += PIECE) {                                   \
            npy_intp count = n - begin < PIECE ? n - begin : PIECE;                             \
            flags_##T(z + begin, flags, count);                                                 \
            memset(flags + count, 0, -count & 7);                                               \
            for (npy_intp i = 0; i < count; i += 8) *out++ = packed_byte(flags + i);            \
        }                                                                                       \
    }                                                                                           \
    /* four entries per half of a byte, copied from a table of the sixteen */                  \
    static void unpack_##T(const unsigned char *in, T scale, T *out, npy_intp n) {              \
        T fours[16][4];                                                                         \
        for (int half = 0; half < 16; half++)                                                   \
            for (int j = 0; j < 4; j++) fours[half][j] = half >> (3 - j) & 1 ? scale : -scale;  \
        npy_intp whole = n / 8;                                                                 \
        for (npy_intp i = 0; i < whole; i++) {                                                  \
            memcpy(out + 8 * i, fours[in[i] >> 4], sizeof fours[0]);                            \
            memcpy(out + 8 * i + 4, fours[in[i] & 15], sizeof fours[0]);                        \
        }                                                                                       \
        for (npy_intp i = 8 * whole; i < n; i++)                                                \
            out[i] = in[whole] >> (7 - (i - 8 * whole)) & 1 ? scale : -scale;                   \
    }
SIGNS(double)
SIGNS(float)

#define EACH_SEED(T, action)                                                                    \
    for (npy_intp seed = 0; seed < codec->seeds; seed++) {                                      \
        T scale;                                                                                \
        action                                                                                  \
    }

void encode_sign(const Codec *codec, const void *z, char *payload) {
    npy_intp d = codec->d, width = (d + 7) / 8;
    npy_intp size = codec->type == NPY_DOUBLE ? sizeof(double) : sizeof(float);
    unsigned char *packed = (unsigned char *)payload + codec->seeds * size;
    if (codec->type == NPY_DOUBLE)
        EACH_SEED(double, {
            const double *from = (const double *)z + seed * d;
            scale = mean_size_double(from, d);
            memcpy(payload + seed * size, &scale, size);
            pack_double(from, packed + seed * width, d);
        })
    else
        EACH_SEED(float, {
            const float *from = (const float *)z + seed * d;
            scale = (float)mean_size_float(from, d);
            memcpy(payload + seed * size, &scale, size);
            pack_float(from, packed + seed * width, d);
        })
}

void decode_sign(const Codec *codec, const char *payload, void *out) {
    npy_intp d = codec->d, width = (d + 7) / 8;
    npy_intp size = codec->type == NPY_DOUBLE ? sizeof(double) : sizeof(float);
    const unsigned char *packed = (const unsigned char *)payload + codec->seeds * size;
    if (codec->type == NPY_DOUBLE)
        EACH_SEED(double, {
            memcpy(&scale, payload + seed * size, size);
            unpack_double(packed + seed * width, scale, (double *)out + seed * d, d);
        })
    else
        EACH_SEED(float, {
            memcpy(&scale, payload + seed * size, size);
            unpack_float(packed + seed * width, scale, (float *)out + seed * d, d);
        })
}
