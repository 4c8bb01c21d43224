/* SPDX-License-Identifier: Apache-2.0
 *
 * A histogram of durations, in buckets whose width grows with the value. Below 64 every value has
 * its own bucket. Above, each power of two has 64 buckets, so a value that is read from it is off
 * by at most 1/128 (0.8 %). Histograms of the same kind can be added. Only powers of two that occur
 * use memory, 256 bytes each. One thread at a time.
 *
 * The layout is that of HdrHistogram (G. Tene, hdrhistogram.org) with 64 sub-buckets.
 */
#ifndef VG_MODEL_HISTOGRAM_H
#define VG_MODEL_HISTOGRAM_H

#include <stdint.h>

#include <glib.h>

#define VG_HISTOGRAM_SUB_BITS 6
#define VG_HISTOGRAM_SUBS     (1 << VG_HISTOGRAM_SUB_BITS)
#define VG_HISTOGRAM_OCTAVES  (64 - VG_HISTOGRAM_SUB_BITS)

/* An all-zero struct is an empty histogram. */
struct vg_histogram {
    uint32_t *octaves[VG_HISTOGRAM_OCTAVES]; /* of VG_HISTOGRAM_SUBS counts, which saturate; NULL if
                                              * all are zero */
    uint64_t count;
    __int128 sum; /* exact */
    int64_t min;  /* exact; 0 if empty */
    int64_t max;
};

/* A value below 0 counts as 0. */
void vg_histogram_add(struct vg_histogram *histogram, int64_t value);

/* Adds the same value n times. */
void vg_histogram_add_many(struct vg_histogram *histogram, int64_t value, uint32_t n);

/* sum += more */
void vg_histogram_merge(struct vg_histogram *sum, const struct vg_histogram *more);

/* Returns the value that a fraction `part` (0..1) of all values do not exceed: in ascending order
 * the value at position ceil(part * count), at least the first. 0 if empty. */
int64_t vg_histogram_quantile(const struct vg_histogram *histogram, double part);

/* Rounded; 0 if empty. */
int64_t vg_histogram_mean(const struct vg_histogram *histogram);

/* Empties the histogram, but retains its memory until vg_histogram_clear(). */
void vg_histogram_reset(struct vg_histogram *histogram);
void vg_histogram_clear(struct vg_histogram *histogram);

#endif
