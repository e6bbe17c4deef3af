/* Payloads of compressed vectors: what the files of this folder share. The Python twins are in
   mpi_gt/compressors. */
#ifndef MPI_GT_COMPRESS_H
#define MPI_GT_COMPRESS_H

#include "../kernels.h"
#include <stdint.h>

/* as in mpi_gt/compressors/base.py */
enum { NONE, BFLOAT16, FLOAT16, FLOAT32, QSGD, SIGN, TOP };

/* A compressor for vectors of one shape and dtype. */
typedef struct {
    int kind, type;    /* one of the above; NPY_DOUBLE or NPY_FLOAT */
    npy_intp seeds, d; /* the shape */
    npy_intp bits, block;
    npy_intp kept; /* TOP: entries */
    double factor; /* QSGD: decoded values are divided by it */
} Codec;

static inline npy_intp codec_blocks(const Codec *codec) {
    return (codec->d + codec->block - 1) / codec->block;
}

static inline uint64_t bits_of_double(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline double double_of_bits(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t bits_of_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Return the least float32 that is not less. */
static inline float rounded_up(double value) {
    float nearest = (float)value;
    return (double)nearest < value ? float_of_bits(bits_of_float(nearest) + 1) : nearest;
}

/* Return whether a block with this largest entry has levels other than 0. Else it decodes to 0, or
   to NaN if the largest is not finite. */
static inline int is_scale(float m) { return m > 0 && m - m == 0; }

/* Return the code of an entry: the level with its sign, plus s. */
static inline unsigned char quantised(double z, double uniform, double m, int32_t s) {
    double level = s * (z < 0 ? -z : z) / m + uniform;
    int32_t floor = (int32_t)(level > s ? s : level);
    return (unsigned char)(z < 0 ? s - floor : s + floor);
}

/* casts.c */
void encode_cast(const Codec *codec, const void *z, char *payload);
void decode_cast(const Codec *codec, const char *payload, void *out);

/* quantise.c; 0, or -1 without memory */
int encode_qsgd(const Codec *codec, const void *z, const double *uniform, char *payload);
int decode_qsgd(const Codec *codec, const char *payload, void *out);

/* One seed's vector, as the parts of a payload: a scale per block, a code per entry. */
#define QUANTISE(name, T)                                                                       \
    void name(const T *restrict z, const double *restrict uniform, npy_intp d, npy_intp block,  \
              int32_t s, char *scales, unsigned char *restrict codes)
#define DEQUANTISE(name, T)                                                                     \
    void name(const unsigned char *restrict codes, const char *scales, double factor,           \
              npy_intp d, npy_intp block, int32_t s, T *restrict out)

/* quantise_avx2.c; for processors with AVX2 and FMA, and X86_INTRINSICS */
QUANTISE(quantise_avx2_double, double);
QUANTISE(quantise_avx2_float, float);
DEQUANTISE(dequantise_avx2_double, double);
DEQUANTISE(dequantise_avx2_float, float);

/* sign.c */
void encode_sign(const Codec *codec, const void *z, char *payload);
void decode_sign(const Codec *codec, const char *payload, void *out);

/* top.c; 0, or -1 with a Python error */
int encode_top(const Codec *codec, const void *z, char *payload);
int decode_top(const Codec *codec, const char *payload, void *out);

#endif
