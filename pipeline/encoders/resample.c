/* Pillow's 8-bit resampling (its src/libImaging/Resample.c), computed only where a crop shows it, with the same bits.

   Pillow scales a picture along one side, rounds to 8 bits, then along the other, and rounds again. All of it is
   integer arithmetic (pixels of 8 bits, coefficients of 22 bits after the point, sums of 32 bits), so the order of a
   sum does not matter, and a part of the picture has the same bits as that part of the whole.

   Plain C, called by resample.py through ctypes; without a compiler Pillow itself does the work. */

#include <stdint.h>
#include <stdlib.h>

#include "processors.h"

/* Which source this was compiled from: native.py does not call what is older than the files beside it. */
const char referee_source[] = REFEREE_SOURCE;

#define PRECISION_BITS 22
#define HALF (1 << (PRECISION_BITS - 1))

typedef int32_t four __attribute__((vector_size(16))); /* a pixel of four channels */

/* Round `count` sums to 8 bits. */
static inline __attribute__((always_inline)) void round_sums(const int32_t *restrict sums, int64_t count,
                                                             uint8_t *restrict to) {
    for (int64_t i = 0; i < count; i++) {
        const int32_t value = sums[i] >> PRECISION_BITS;
        to[i] = (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
    }
}

/* Scale `rows` rows of `length` 4-byte pixels along the width, four rows at a time.
   from: the first row, the others `stride` bytes apart. bounds: (columns), the first pixel that each column of the
   result weighs. weights: (columns, taps). to: (rows, columns) pixels, and room for three rows more.
   wide, sums: room for four rows of either. */
FOR_EVERY_PROCESSOR
static void scale_width(const uint8_t *from, int64_t stride, int32_t rows, int32_t length, int32_t columns,
                        const int32_t *bounds, const int32_t *weights, int32_t taps, int32_t *wide, int32_t *sums,
                        uint8_t *to) {
    for (int32_t y = 0; y < rows; y += 4, to += 16 * (int64_t)columns) {
        for (int32_t r = 0; r < 4; r++) { /* beyond the last row: the last row again, to be overwritten */
            const uint8_t *line = from + stride * (y + r < rows ? y + r : rows - 1);
            int32_t *there = wide + 4 * (int64_t)length * r;
            for (int64_t i = 0; i < 4 * (int64_t)length; i++) {
                there[i] = line[i];
            }
        }
        const int32_t *weight = weights;
        for (int32_t x = 0; x < columns; x++, weight += taps) {
            const four *at = (const four *)wide + bounds[x];
            four a = {HALF, HALF, HALF, HALF}, b = a, c = a, d = a;
            for (int32_t k = 0; k < taps; k++, at++) {
                a += at[0] * weight[k];
                b += at[length] * weight[k];
                c += at[2 * (int64_t)length] * weight[k];
                d += at[3 * (int64_t)length] * weight[k];
            }
            four *there = (four *)sums + x;
            there[0] = a;
            there[columns] = b;
            there[2 * (int64_t)columns] = c;
            there[3 * (int64_t)columns] = d;
        }
        round_sums(sums, 16 * (int64_t)columns, to);
    }
}

/* Scale rows of `length` 4-byte pixels along the height to `rows` rows; the rest as above. sums: room for a row. */
FOR_EVERY_PROCESSOR
static void scale_height(const uint8_t *from, int64_t stride, int32_t length, int32_t rows, const int32_t *bounds,
                         const int32_t *weights, int32_t taps, int32_t *restrict sums, uint8_t *restrict to) {
    const int64_t width = 4 * (int64_t)length;
    for (int32_t y = 0; y < rows; y++, weights += taps, to += width) {
        for (int64_t i = 0; i < width; i++) {
            sums[i] = HALF;
        }
        int32_t k = 0;
        for (; k + 2 <= taps; k += 2) { /* two rows at a time: half as many sums to fetch and to put back */
            const uint8_t *restrict line = from + stride * (bounds[y] + k);
            const uint8_t *restrict next = line + stride;
            const int32_t weight = weights[k], next_weight = weights[k + 1];
            for (int64_t i = 0; i < width; i++) {
                sums[i] += line[i] * weight + next[i] * next_weight;
            }
        }
        if (k < taps) {
            const uint8_t *restrict line = from + stride * (bounds[y] + k);
            const int32_t weight = weights[k];
            for (int64_t i = 0; i < width; i++) {
                sums[i] += line[i] * weight;
            }
        }
        round_sums(sums, width, to);
    }
}

/* Crop of a scaled picture of 4-byte pixels: (rows, columns, 3) bytes into `to`; 0, or 1 without memory.
   from: the first of (height, length) pixels that the crop depends on, rows `stride` bytes apart. The bounds of columns
   and rows count from there; each weighs `taps` pixels from its bound on, some of them with a weight of zero.
   height_first: along which side Pillow scales first, for a picture of this size. */
int referee_resample(const uint8_t *from, int64_t stride, int32_t length, int32_t height, int32_t height_first,
                     int32_t columns, const int32_t *column_bounds, const int32_t *column_weights,
                     int32_t column_taps, int32_t rows, const int32_t *row_bounds, const int32_t *row_weights,
                     int32_t row_taps, uint8_t *to) {
    const size_t longest = (size_t)(length > columns ? length : columns);
    const size_t highest = (size_t)(height > rows ? height : rows) + 3; /* scale_width may write three rows more */
    int32_t *wide = aligned_alloc(64, 64 * longest);                    /* four rows of pixels of four channels */
    int32_t *sums = aligned_alloc(64, 64 * longest);
    uint8_t *middle = malloc(4 * longest * highest);
    uint8_t *result = malloc(4 * (size_t)columns * ((size_t)rows + 3));
    const int failed = wide == NULL || sums == NULL || middle == NULL || result == NULL;
    if (!failed && height_first) {
        scale_height(from, stride, length, rows, row_bounds, row_weights, row_taps, sums, middle);
        scale_width(middle, 4 * (int64_t)length, rows, length, columns, column_bounds, column_weights, column_taps,
                    wide, sums, result);
    } else if (!failed) {
        scale_width(from, stride, height, length, columns, column_bounds, column_weights, column_taps, wide, sums,
                    middle);
        scale_height(middle, 4 * (int64_t)columns, columns, rows, row_bounds, row_weights, row_taps, sums, result);
    }
    for (int64_t i = 0; !failed && i < (int64_t)rows * columns; i++) {
        to[3 * i] = result[4 * i];
        to[3 * i + 1] = result[4 * i + 1];
        to[3 * i + 2] = result[4 * i + 2];
    }
    free(wide);
    free(sums);
    free(middle);
    free(result);
    return failed;
}
