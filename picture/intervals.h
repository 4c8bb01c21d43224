/* SPDX-License-Identifier: Apache-2.0
 *
 * Intervals on rows, limited to the number that a chart needs. If there are too many, short
 * intervals that are close together are merged into one with the same total length. The number of
 * overlapping intervals stays the same. Pure.
 */
#ifndef VG_PICTURE_INTERVALS_H
#define VG_PICTURE_INTERVALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

struct vg_interval {
    int64_t begin_ns;
    int64_t end_ns;
    uint32_t row;
    uint32_t identity;
    uint16_t kind; /* only intervals of the same kind and identity are merged */
    bool joined;   /* merged from several */
};

typedef struct vg_intervals vg_intervals;

/* max: at least 4. */
vg_intervals *vg_intervals_new(int64_t begin_ns, size_t max);
void vg_intervals_free(vg_intervals *intervals);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_intervals, vg_intervals_free)

/* The interval must not be joined, start before begin_ns, or be empty. */
void vg_intervals_add(vg_intervals *intervals, const struct vg_interval *interval);

/* Ends the input, and merges all rows in the same way. */
void vg_intervals_finish(vg_intervals *intervals);

/* Returns the remaining intervals, borrowed: struct vg_interval. */
const GArray *vg_intervals_all(const vg_intervals *intervals);

/* Return whether any intervals were merged, and how many did not fit despite the merging. */
bool vg_intervals_were_joined(const vg_intervals *intervals);
uint64_t vg_intervals_left_out(const vg_intervals *intervals);

#endif
