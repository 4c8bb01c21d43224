/* SPDX-License-Identifier: Apache-2.0
 *
 * Intervals on rows, so many at most that a picture of them does not need more: where there are
 * too many, what is short and close together becomes one interval of the same length. How many
 * overlap stays the same. Pure.
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
    uint16_t kind; /* what is of another kind or identity does not become one */
    bool joined;   /* more than one */
};

typedef struct vg_intervals vg_intervals;

/* max: at least 4. */
vg_intervals *vg_intervals_new(int64_t begin_ns, size_t max);
void vg_intervals_free(vg_intervals *intervals);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_intervals, vg_intervals_free)

/* Not joined, not before begin_ns and not empty. */
void vg_intervals_add(vg_intervals *intervals, const struct vg_interval *interval);

/* No more will come: all are treated alike. */
void vg_intervals_finish(vg_intervals *intervals);

/* Those that are left, borrowed: struct vg_interval. */
const GArray *vg_intervals_all(const vg_intervals *intervals);

/* Whether some were joined; how many had no place even so. */
bool vg_intervals_were_joined(const vg_intervals *intervals);
uint64_t vg_intervals_left_out(const vg_intervals *intervals);

#endif
