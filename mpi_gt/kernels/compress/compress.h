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

/* casts.c */
void encode_cast(const Codec *codec, const void *z, char *payload);
void decode_cast(const Codec *codec, const char *payload, void *out);

/* quantise.c; 0, or -1 without memory */
int encode_qsgd(const Codec *codec, const void *z, const double *uniform, char *payload);
int decode_qsgd(const Codec *codec, const char *payload, void *out);

/* sign.c */
void encode_sign(const Codec *codec, const void *z, char *payload);
void decode_sign(const Codec *codec, const char *payload, void *out);

/* top.c; 0, or -1 with a Python error */
int encode_top(const Codec *codec, const void *z, char *payload);
int decode_top(const Codec *codec, const char *payload, void *out);

#endif
