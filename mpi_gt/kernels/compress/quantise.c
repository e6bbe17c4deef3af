/* Entries rounded at random to a few levels of the largest entry of their block. */
#include "compress.h"
#include <math.h>

/* blocks whose largest entries are found before their codes, so that no entry waits for them */
#define GROUP 32
#define NEARBY 2048 /* entries of a group at most: they stay in the nearest cache */
#define PIECE 256   /* entries whose levels are held at once */
#define LANES 16

/* Write the scale of each block of one seed, and one code per entry.

   The largest |z| is taken of bits, as integers: they are ordered like the numbers, with those of
   NaN on top, and the compiler vectorises that. */
#define QUANTISATION(T, INT, BITS, SIZE)                                                        \
    static ALWAYS_INLINE double largest_##T(const T *restrict z, npy_intp n) {                  \
        INT most[LANES] = {0};                                                                  \
        npy_intp whole = n - n % LANES;                                                         \
        for (npy_intp i = 0; i < whole; i += LANES)                                             \
            for (int lane = 0; lane < LANES; lane++) {                                          \
                INT size = (INT)(BITS(z[i + lane]) & SIZE);                                     \
                most[lane] = size > most[lane] ? size : most[lane];                             \
            }                                                                                   \
        for (npy_intp i = whole; i < n; i++) {                                                  \
            INT size = (INT)(BITS(z[i]) & SIZE);                                                \
            most[0] = size > most[0] ? size : most[0];                                          \
        }                                                                                       \
        for (int lane = 1; lane < LANES; lane++)                                                \
            most[0] = most[lane] > most[0] ? most[lane] : most[0];                              \
        T largest;                                                                              \
        memcpy(&largest, most, sizeof largest);                                                 \
        return (double)largest;                                                                 \
    }                                                                                           \
    static ALWAYS_INLINE void codes_##T(const T *restrict z, const double *restrict uniform,    \
                                        npy_intp n, double m, int32_t s,                        \
                                        unsigned char *restrict codes) {                        \
        int32_t levels[PIECE];                                                                  \
        for (npy_intp begin = 0; begin < n; begin += PIECE) {                                   \
            int count = (int)(n - begin < PIECE ? n - begin : PIECE);                           \
            const T *restrict from = z + begin;                                                 \
            const double *restrict drawn = uniform + begin;                                     \
            for (int i = 0; i < count; i++) {                                                   \
                double value = s * fabs((double)from[i]) / m + drawn[i];                        \
                value = copysign(value > s ? s : value, from[i]);                               \
                levels[i] = (int32_t)value + s; /* towards 0: the floor of the size */          \
            }                                                                                   \
            for (int i = 0; i < count; i++) codes[begin + i] = (unsigned char)levels[i];        \
        }                                                                                       \
    }                                                                                           \
    WIDE static QUANTISE(quantise_##T, T) {                                                     \
        npy_intp group = block > NEARBY / GROUP ? 1 : GROUP;                                    \
        for (npy_intp begin = 0; begin < d; begin += group * block) {                           \
            npy_intp end = d - begin < group * block ? d : begin + group * block;               \
            float m[GROUP], *next = m;                                                          \
            for (npy_intp i = begin; i < end; i += block)                                       \
                *next++ = rounded_up(largest_##T(z + i, end - i < block ? end - i : block));    \
            memcpy(scales, m, (next - m) * sizeof *m);                                          \
            scales += (next - m) * sizeof *m, next = m;                                         \
            for (npy_intp i = begin; i < end; i += block, next++) {                             \
                npy_intp n = end - i < block ? end - i : block;                                 \
                if (is_scale(*next)) codes_##T(z + i, uniform + i, n, *next, s, codes + i);     \
                else memset(codes + i, s, n);                                                   \
            }                                                                                   \
        }                                                                                       \
    }                                                                                           \
    WIDE static DEQUANTISE(dequantise_##T, T) {                                                 \
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
QUANTISATION(double, int64_t, bits_of_double, 0x7FFFFFFFFFFFFFFFULL)
QUANTISATION(float, int32_t, bits_of_float, 0x7FFFFFFFU)

WIDE static void pack_codes(const unsigned char *restrict codes, npy_intp bits, npy_intp n,
                            unsigned char *restrict out) {
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

WIDE static void unpack_codes(const unsigned char *restrict in, npy_intp bits, npy_intp n,
                              unsigned char *restrict codes) {
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

#if X86_INTRINSICS
static int has_avx2(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#else
static int has_avx2(void) { return 0; }
#define quantise_avx2_double quantise_double
#define quantise_avx2_float quantise_float
#define dequantise_avx2_double dequantise_double
#define dequantise_avx2_float dequantise_float
#endif

int encode_qsgd(const Codec *codec, const void *z, const double *uniform, char *payload) {
    npy_intp d = codec->d, blocks = codec_blocks(codec), width = (d * codec->bits + 7) / 8;
    int32_t s = (1 << (codec->bits - 1)) - 1;
    unsigned char *packed = (unsigned char *)payload + codec->seeds * blocks * sizeof(float);
    unsigned char *scratch = codec->bits == 8 ? NULL : PyMem_Malloc(d);
    if (codec->bits < 8 && !scratch) return -1;
    int fast = has_avx2();
    for (npy_intp seed = 0; seed < codec->seeds; seed++) {
        unsigned char *codes = scratch ? scratch : packed + seed * width;
        char *scales = payload + seed * blocks * sizeof(float);
        if (codec->type == NPY_DOUBLE)
            (fast ? quantise_avx2_double : quantise_double)(
                (const double *)z + seed * d, uniform + seed * d, d, codec->block, s, scales, codes);
        else
            (fast ? quantise_avx2_float : quantise_float)(
                (const float *)z + seed * d, uniform + seed * d, d, codec->block, s, scales, codes);
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
    int fast = has_avx2();
    for (npy_intp seed = 0; seed < codec->seeds; seed++) {
        const unsigned char *codes = scratch ? scratch : packed + seed * width;
        const char *scales = payload + seed * blocks * sizeof(float);
        if (scratch) unpack_codes(packed + seed * width, codec->bits, d, scratch);
        if (codec->type == NPY_DOUBLE)
            (fast ? dequantise_avx2_double : dequantise_double)(
                codes, scales, codec->factor, d, codec->block, s, (double *)out + seed * d);
        else
            (fast ? dequantise_avx2_float : dequantise_float)(
                codes, scales, codec->factor, d, codec->block, s, (float *)out + seed * d);
    }
    PyMem_Free(scratch);
    return 0;
}
