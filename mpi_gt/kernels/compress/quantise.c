/* Entries rounded at random to a few levels of the largest entry of their block. */
#include "compress.h"
#include <math.h>

#define PIECE 256 /* entries whose levels are held at once */

/* Return the least float32 that is not less. */
static inline float rounded_up(double value) {
    float nearest = (float)value;
    return (double)nearest < value ? float_of_bits(bits_of_float(nearest) + 1) : nearest;
}

/* Write the scale of each block of one seed, and one code per entry: the level with its sign, plus s.
   A block without a finite positive scale has level 0 throughout: it decodes to 0, or to NaN if
   the scale is not finite.

   The largest |z| is taken of bits, as integers: they are ordered like the numbers, with those of
   NaN on top, and the compiler vectorises that. So is the product with s/M, a fifth of the
   division's time. */
#define QUANTISE(T, INT, BITS, SIZE)                                                            \
    WIDE static void quantise_##T(const T *restrict z, const double *restrict uniform,          \
                                  npy_intp d, npy_intp block, int32_t s, char *scales,          \
                                  unsigned char *restrict codes) {                              \
        int32_t levels[PIECE];                                                                  \
        for (npy_intp first = 0; first < d; first += block) {                                   \
            npy_intp end = d - first < block ? d : first + block;                               \
            INT most = 0;                                                                       \
            for (npy_intp i = first; i < end; i++) {                                            \
                INT size = (INT)(BITS(z[i]) & SIZE);                                            \
                most = size > most ? size : most;                                               \
            }                                                                                   \
            T largest;                                                                          \
            memcpy(&largest, &most, sizeof largest);                                            \
            float m = rounded_up((double)largest);                                              \
            memcpy(scales, &m, sizeof m);                                                       \
            scales += sizeof m;                                                                 \
            if (!(m > 0 && m - m == 0)) {                                                       \
                memset(codes + first, s, end - first);                                          \
                continue;                                                                       \
            }                                                                                   \
            double ratio = s / (double)m;                                                       \
            for (npy_intp begin = first; begin < end; begin += PIECE) {                         \
                int count = (int)(end - begin < PIECE ? end - begin : PIECE);                   \
                const T *restrict from = z + begin;                                             \
                const double *restrict drawn = uniform + begin;                                 \
                for (int i = 0; i < count; i++) {                                               \
                    double value = (double)from[i] * ratio + copysign(drawn[i], from[i]);       \
                    value = value > s ? s : value;                                              \
                    value = value < -s ? -s : value;                                            \
                    levels[i] = (int32_t)value + s; /* towards 0: the floor of the size */      \
                }                                                                               \
                for (int i = 0; i < count; i++) codes[begin + i] = (unsigned char)levels[i];    \
            }                                                                                   \
        }                                                                                       \
    }                                                                                           \
    WIDE static void values_##T(const unsigned char *restrict codes, const char *scales,        \
                                double factor, npy_intp d, npy_intp block, int32_t s,           \
                                T *restrict out) {                                              \
        for (npy_intp first = 0; first < d; first += block) {                                   \
            npy_intp end = d - first < block ? d : first + block;                               \
            float m;                                                                            \
            memcpy(&m, scales, sizeof m);                                                       \
            scales += sizeof m;                                                                 \
            double unit = (double)m / s / factor;                                               \
            for (npy_intp i = first; i < end; i++)                                              \
                out[i] = (T)(unit * (double)((int32_t)codes[i] - s));                           \
        }                                                                                       \
    }
QUANTISE(double, int64_t, bits_of_double, 0x7FFFFFFFFFFFFFFFULL)
QUANTISE(float, int32_t, bits_of_float, 0x7FFFFFFFU)

static void pack_codes(const unsigned char *codes, npy_intp bits, npy_intp n, unsigned char *out) {
    npy_intp per = 8 / bits, whole = n / per;
    if (bits == 4)
        for (npy_intp i = 0; i < whole; i++)
            out[i] = (unsigned char)(codes[2 * i] << 4 | codes[2 * i + 1]);
    else
        for (npy_intp i = 0; i < whole; i++)
            out[i] = (unsigned char)(codes[4 * i] << 6 | codes[4 * i + 1] << 4 |
                                     codes[4 * i + 2] << 2 | codes[4 * i + 3]);
    if (whole * per == n) return;
    out[whole] = 0;
    for (npy_intp i = whole * per; i < n; i++)
        out[whole] |= (unsigned char)(codes[i] << (8 - bits * (i - whole * per + 1)));
}

static void unpack_codes(const unsigned char *in, npy_intp bits, npy_intp n, unsigned char *codes) {
    if (bits == 4) {
        for (npy_intp i = 0; i < n / 2; i++)
            codes[2 * i] = in[i] >> 4, codes[2 * i + 1] = in[i] & 15;
        if (n % 2) codes[n - 1] = in[n / 2] >> 4;
        return;
    }
    for (npy_intp i = 0; i < n / 4; i++)
        for (int j = 0; j < 4; j++) codes[4 * i + j] = in[i] >> (6 - 2 * j) & 3;
    for (npy_intp i = n - n % 4; i < n; i++) codes[i] = in[n / 4] >> (6 - 2 * (i % 4)) & 3;
}

int encode_qsgd(const Codec *codec, const void *z, const double *uniform, char *payload) {
    npy_intp d = codec->d, blocks = codec_blocks(codec), width = (d * codec->bits + 7) / 8;
    int32_t s = (1 << (codec->bits - 1)) - 1;
    unsigned char *packed = (unsigned char *)payload + codec->seeds * blocks * sizeof(float);
    unsigned char *scratch = codec->bits == 8 ? NULL : PyMem_Malloc(d);
    if (codec->bits < 8 && !scratch) return -1;
    for (npy_intp seed = 0; seed < codec->seeds; seed++) {
        unsigned char *codes = scratch ? scratch : packed + seed * width;
        char *scales = payload + seed * blocks * sizeof(float);
        if (codec->type == NPY_DOUBLE)
            quantise_double((const double *)z + seed * d, uniform + seed * d, d, codec->block, s,
                            scales, codes);
        else
            quantise_float((const float *)z + seed * d, uniform + seed * d, d, codec->block, s,
                           scales, codes);
        if (scratch) pack_codes(scratch, codec->bits, d, packed + seed * width);
    }
    PyMem_Free(scratch);
    return 0;
}

int decode_qsgd(const Codec *codec, const char *payload, void *out) {
    npy_intp d = codec->d, blocks = codec_blocks(codec), width = (d * codec->bits + 7) / 8;
    int32_t s = (1 << (codec->bits - 1)) - 1;
    const unsigned char *packed =
        (const unsigned char *)payload + codec->seeds * blocks * sizeof(float);
    unsigned char *scratch = codec->bits == 8 ? NULL : PyMem_Malloc(d);
    if (codec->bits < 8 && !scratch) return -1;
    for (npy_intp seed = 0; seed < codec->seeds; seed++) {
        const unsigned char *codes = scratch ? scratch : packed + seed * width;
        const char *scales = payload + seed * blocks * sizeof(float);
        if (scratch) unpack_codes(packed + seed * width, codec->bits, d, scratch);
        if (codec->type == NPY_DOUBLE)
            values_double(codes, scales, codec->factor, d, codec->block, s, (double *)out + seed * d);
        else
            values_float(codes, scales, codec->factor, d, codec->block, s, (float *)out + seed * d);
    }
    PyMem_Free(scratch);
    return 0;
}
