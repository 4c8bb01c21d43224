/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "model/histogram.h"

#include <math.h>
#include <string.h>

struct place {
    uint32_t octave;
    uint32_t sub;
};

/* Octave 0 contains 0 to 63. Octave n contains the values from 2^(n+5), in steps of 2^(n-1). */
static struct place
place_of(uint64_t value)
{
    if (value < VG_HISTOGRAM_SUBS)
        return (struct place){0, (uint32_t)value};
    uint32_t high = 63 - (uint32_t)__builtin_clzll(value);
    uint32_t octave = high - VG_HISTOGRAM_SUB_BITS + 1;
    uint32_t sub = (uint32_t)(value >> (high - VG_HISTOGRAM_SUB_BITS)) & (VG_HISTOGRAM_SUBS - 1);
    return (struct place){octave, sub};
}

/* Returns the middle of a bucket. */
static int64_t
value_at(uint32_t octave, uint32_t sub)
{
    if (octave == 0)
        return sub;
    uint64_t step = UINT64_C(1) << (octave - 1);
    return (int64_t)((VG_HISTOGRAM_SUBS + (uint64_t)sub) * step + step / 2);
}

static uint32_t *
need_octave(struct vg_histogram *histogram, uint32_t octave)
{
    if (!histogram->octaves[octave])
        histogram->octaves[octave] = g_new0(uint32_t, VG_HISTOGRAM_SUBS);
    return histogram->octaves[octave];
}

static void
add_count(uint32_t *count, uint32_t more)
{
    *count = more > UINT32_MAX - *count ? UINT32_MAX : *count + more;
}

void
vg_histogram_add_many(struct vg_histogram *histogram, int64_t value, uint32_t n)
{
    if (n == 0)
        return;
    value = MAX(value, 0);
    struct place place = place_of((uint64_t)value);
    add_count(&need_octave(histogram, place.octave)[place.sub], n);
    histogram->min = histogram->count == 0 ? value : MIN(histogram->min, value);
    histogram->max = MAX(histogram->max, value);
    histogram->sum += (__int128)value * n;
    histogram->count += n;
}

void
vg_histogram_add(struct vg_histogram *histogram, int64_t value)
{
    vg_histogram_add_many(histogram, value, 1);
}

void
vg_histogram_merge(struct vg_histogram *sum, const struct vg_histogram *more)
{
    if (more->count == 0)
        return;
    for (uint32_t o = 0; o < VG_HISTOGRAM_OCTAVES; o++) {
        if (!more->octaves[o])
            continue;
        uint32_t *octave = need_octave(sum, o);
        for (uint32_t s = 0; s < VG_HISTOGRAM_SUBS; s++)
            add_count(&octave[s], more->octaves[o][s]);
    }
    sum->min = sum->count == 0 ? more->min : MIN(sum->min, more->min);
    sum->max = MAX(sum->max, more->max);
    sum->sum += more->sum;
    sum->count += more->count;
}

int64_t
vg_histogram_quantile(const struct vg_histogram *histogram, double part)
{
    if (histogram->count == 0)
        return 0;
    uint64_t rank = (uint64_t)ceil(part * (double)histogram->count);
    rank = CLAMP(rank, 1, histogram->count);
    for (uint32_t o = 0; o < VG_HISTOGRAM_OCTAVES; o++) {
        for (uint32_t s = 0; histogram->octaves[o] && s < VG_HISTOGRAM_SUBS; s++) {
            uint64_t n = histogram->octaves[o][s];
            if (n >= rank)
                return CLAMP(value_at(o, s), histogram->min, histogram->max);
            rank -= n;
        }
    }
    return histogram->max;
}

int64_t
vg_histogram_mean(const struct vg_histogram *histogram)
{
    uint64_t n = histogram->count;

    return n == 0 ? 0 : (int64_t)(histogram->sum / n + (histogram->sum % n + n / 2) / n);
}

void
vg_histogram_reset(struct vg_histogram *histogram)
{
    for (uint32_t o = 0; o < VG_HISTOGRAM_OCTAVES; o++) {
        if (histogram->octaves[o])
            memset(histogram->octaves[o], 0, VG_HISTOGRAM_SUBS * sizeof(uint32_t));
    }
    histogram->count = 0;
    histogram->sum = 0;
    histogram->min = 0;
    histogram->max = 0;
}

void
vg_histogram_clear(struct vg_histogram *histogram)
{
    for (uint32_t o = 0; o < VG_HISTOGRAM_OCTAVES; o++)
        g_free(histogram->octaves[o]);
    *histogram = (struct vg_histogram){0};
}
