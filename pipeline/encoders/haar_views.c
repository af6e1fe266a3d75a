/* The three views of a crop in one go, normalised as the model wants them: Haar, one level, sides of even length.

   The same operations in the same order as wavelet_transform.py and frequency_views.py, which serve every wavelet, level
   and device, so the same bits; only the sums of the noise's scale are in another order, in float64, rounded once to
   float32. They take a dozen passes over arrays that do not fit the cache; this takes two over what does.

   Plain C, called by normalised_views.py through ctypes. Compiled with -ffp-contract=off: a fused multiply-add rounds once
   where torch rounds twice. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "processors.h"

#define LANES 8

typedef struct {
    int32_t width;
    float mean, std;
} channel;

static inline __attribute__((always_inline)) float clipped(float value) {
    value = value > 0.0f ? value : 0.0f;
    return value < 1.0f ? value : 1.0f;
}

/* Two rows of a crop, channel by channel, in [0, 1]. */
FOR_EVERY_PROCESSOR
static void read_rows(const uint8_t *crop, int32_t width, float *restrict rows) {
    for (int32_t y = 0; y < 2; y++) {
        for (int32_t c = 0; c < 3; c++) {
            float *restrict row = rows + (int64_t)width * (2 * c + y);
            const uint8_t *restrict from = crop + 3 * (int64_t)width * y + c;
            for (int32_t x = 0; x < width; x++) {
                row[x] = (float)from[3 * x] / 255.0f;
            }
        }
    }
}

FOR_EVERY_PROCESSOR
static void normalise(const float *restrict from, int64_t count, float mean, float std, float *restrict to) {
    for (int64_t i = 0; i < count; i++) {
        to[i] = (from[i] - mean) / std;
    }
}

/* LL, LH, HL, HH of two rows: (4, width / 2), `apart` floats from one to the next. */
FOR_EVERY_PROCESSOR
static void analyse(const float *restrict top, int32_t width, int64_t apart, float *restrict bands) {
    const float *restrict bottom = top + width;
    float *restrict ll = bands, *restrict lh = bands + apart, *restrict hl = bands + 2 * apart,
                    *restrict hh = bands + 3 * apart;
    for (int32_t i = 0; i < width / 2; i++) {
        const float left_sum = top[2 * i] + bottom[2 * i], right_sum = top[2 * i + 1] + bottom[2 * i + 1];
        const float left = top[2 * i] - bottom[2 * i], right = top[2 * i + 1] - bottom[2 * i + 1];
        ll[i] = (left_sum + right_sum) * 0.5f;
        lh[i] = (left + right) * 0.5f;
        hl[i] = (left_sum - right_sum) * 0.5f;
        hh[i] = (left - right) * 0.5f;
    }
}

/* View `zeros` of two rows from their LL alone. */
FOR_EVERY_PROCESSOR
static void without_details(const float *restrict ll, channel of, float *restrict to) {
    for (int32_t i = 0; i < of.width / 2; i++) {
        const float value = (clipped(ll[i] * 0.5f) - of.mean) / of.std;
        to[2 * i] = value;
        to[2 * i + 1] = value;
    }
    memcpy(to + of.width, to, sizeof(float) * (size_t)of.width);
}

/* The population standard deviation of `count` values. */
FOR_EVERY_PROCESSOR
static float deviation(const float *restrict values, int64_t count) {
    double sums[LANES] = {0}, sum = 0, squares[LANES] = {0}, square = 0;
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        for (int j = 0; j < LANES; j++) {
            sums[j] += (double)values[i + j];
        }
    }
    for (; i < count; i++) {
        sum += (double)values[i];
    }
    for (int j = 0; j < LANES; j++) {
        sum += sums[j];
    }
    const double mean = sum / (double)count;
    for (i = 0; i + LANES <= count; i += LANES) {
        for (int j = 0; j < LANES; j++) {
            const double centred = (double)values[i + j] - mean;
            squares[j] += centred * centred;
        }
    }
    for (; i < count; i++) {
        square += ((double)values[i] - mean) * ((double)values[i] - mean);
    }
    for (int j = 0; j < LANES; j++) {
        square += squares[j];
    }
    return (float)(sqrt(square) / sqrt((double)count));
}

/* View `rand` of two rows: LL, and for each detail a value of the normal distribution times its scale.
   words: of LH, HL, HH, `apart` from one to the next; normal: the value of word 0, those of the others around it. */
FOR_EVERY_PROCESSOR
static void with_noise(const float *restrict ll, const int16_t *restrict words, int64_t apart,
                       const float *restrict normal, const float *scales, channel of, float *restrict to) {
    float *restrict below = to + of.width;
    for (int32_t i = 0; i < of.width / 2; i++) {
        const float lh = normal[words[i]] * scales[0] * 0.5f;
        const float hl = normal[words[i + apart]] * scales[1] * 0.5f;
        const float hh = normal[words[i + 2 * apart]] * scales[2] * 0.5f;
        const float half = ll[i] * 0.5f;
        const float top = half + lh, bottom = half - lh, top_change = hl + hh, bottom_change = hl - hh;
        to[2 * i] = (clipped(top + top_change) - of.mean) / of.std;
        to[2 * i + 1] = (clipped(top - top_change) - of.mean) / of.std;
        below[2 * i] = (clipped(bottom + bottom_change) - of.mean) / of.std;
        below[2 * i + 1] = (clipped(bottom - bottom_change) - of.mean) / of.std;
    }
}

/* Views of a crop (height, width, 3): each (3, height, width) floats, or NULL if it is not wanted. 0, or 1 without memory.
   mean, std: of the three channels. words: (3 sub-bands, 3 channels, height / 2, width / 2). normal: the value of word 0.
   noise: the standard deviation of the noise, or a negative number for that of the sub-band it replaces. */
int referee_haar_views(const uint8_t *crop, int32_t height, int32_t width, const float *mean, const float *std,
                       const int16_t *words, const float *normal, float noise, float *original, float *zeros,
                       float *rand) {
    const int64_t pixels = (int64_t)height * width, quarter = pixels / 4;
    float *bands = malloc(sizeof(float) * 12 * (size_t)quarter); /* (3 channels, 4 sub-bands, height / 2, width / 2) */
    float *rows = malloc(sizeof(float) * 6 * (size_t)width);     /* (3 channels, 2 rows, width) */
    const int failed = bands == NULL || rows == NULL;
    for (int32_t y = 0; !failed && y < height; y += 2) {
        read_rows(crop + 3 * (int64_t)width * y, width, rows);
        for (int32_t c = 0; c < 3; c++) {
            const channel of = {width, mean[c], std[c]};
            const float *two = rows + 2 * (int64_t)width * c;
            float *ll = bands + 4 * quarter * c + (int64_t)(y / 2) * (width / 2);
            const int64_t here = pixels * c + (int64_t)width * y;
            if (original != NULL) {
                normalise(two, 2 * (int64_t)width, mean[c], std[c], original + here);
            }
            if (zeros != NULL || rand != NULL) {
                analyse(two, width, quarter, ll);
            }
            if (zeros != NULL) {
                without_details(ll, of, zeros + here);
            }
        }
    }
    for (int32_t c = 0; !failed && rand != NULL && c < 3; c++) {
        const channel of = {width, mean[c], std[c]};
        float scales[3];
        for (int32_t b = 0; b < 3; b++) {
            scales[b] = noise < 0.0f ? deviation(bands + quarter * (4 * c + 1 + b), quarter) : noise;
        }
        for (int32_t y = 0; y < height; y += 2) {
            const int64_t place = (int64_t)(y / 2) * (width / 2);
            with_noise(bands + 4 * quarter * c + place, words + quarter * c + place, 3 * quarter, normal, scales, of,
                       rand + pixels * c + (int64_t)width * y);
        }
    }
    free(bands);
    free(rows);
    return failed;
}
