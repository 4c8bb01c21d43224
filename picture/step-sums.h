/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums over a period of unknown length. Amounts are spread over steps, which become longer over
 * time, so that there are at most VG_STEPS_MAX. Several series share the steps. Pure.
 */
#ifndef VG_PICTURE_STEP_SUMS_H
#define VG_PICTURE_STEP_SUMS_H

#include <stdint.h>

#include <glib.h>

#define VG_STEPS_MAX 512

typedef struct vg_step_sums vg_step_sums;

vg_step_sums *vg_step_sums_new(int64_t begin_ns);
void vg_step_sums_free(vg_step_sums *sums);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_step_sums, vg_step_sums_free)

/* Adds a series, all zero. Returns its number. */
unsigned int vg_step_sums_add_series(vg_step_sums *sums);

/* Extends the steps up to t_ns. Returns the resulting length of a step. */
int64_t vg_step_sums_reach(vg_step_sums *sums, int64_t t_ns);

/* Spreads the amount evenly over begin_ns..end_ns. The part before the start of the sums is left
 * out. */
void vg_step_sums_spread(vg_step_sums *sums, unsigned int series, int64_t begin_ns, int64_t end_ns,
                         double amount);

/* Returns the number of equal steps, each of *ret_step_ns, for a chart of everything until end_ns.
 * It is half the number of stored steps, so that no drawn step is finer than the data. At least
 * 1. */
size_t vg_step_sums_steps(vg_step_sums *sums, int64_t end_ns, int64_t *ret_step_ns);

/* Reads the amounts until end_ns in n steps of that length. ret has n elements. */
void vg_step_sums_read(const vg_step_sums *sums, unsigned int series, int64_t end_ns, size_t n,
                       int64_t step_ns, double *ret);

#endif
