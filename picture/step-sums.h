/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums over a time whose end is not known: amounts are spread over steps, which become longer as
 * time goes on, so that there are VG_STEPS_MAX at most. Several series share the steps. Pure.
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

/* A new series, all zero; its number. */
unsigned int vg_step_sums_add_series(vg_step_sums *sums);

/* Makes room up to t_ns; how long a step is then. */
int64_t vg_step_sums_reach(vg_step_sums *sums, int64_t t_ns);

/* Spreads the amount evenly over begin_ns..end_ns; what lies before the beginning is left out. */
void vg_step_sums_spread(vg_step_sums *sums, unsigned int series, int64_t begin_ns, int64_t end_ns,
                         double amount);

/* How many equal steps, each of *ret_step_ns, a picture of all until end_ns should have: half as
 * many as there are, so that none is drawn out of less than it shows. At least 1. */
size_t vg_step_sums_steps(vg_step_sums *sums, int64_t end_ns, int64_t *ret_step_ns);

/* The amounts until end_ns in n steps of that length; ret has room for them. */
void vg_step_sums_read(const vg_step_sums *sums, unsigned int series, int64_t end_ns, size_t n,
                       int64_t step_ns, double *ret);

#endif
