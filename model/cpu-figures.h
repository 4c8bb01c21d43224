/* SPDX-License-Identifier: Apache-2.0
 *
 * CPU ledger figures of one vCPU thread over one period, and their sums. All times are integer
 * nanoseconds clipped to the period. On any input
 *     run_ns + preempt_ns + wake_wait_ns + blocked_ns == observed_ns
 * and guest_ns <= run_ns. hyp_ns is not stored: it is run_ns - guest_ns.
 */
#ifndef VG_MODEL_CPU_FIGURES_H
#define VG_MODEL_CPU_FIGURES_H

#include <stdint.h>

#include "model/event.h"
#include "model/figures.h"

/* Times on a CPU, waiting and asleep, and how often each started. See model/figures.def for the
 * rows. */
struct vg_cpu_figures {
    VG_CPU_FIGURES(VG_FIGURE_MEMBER)
    uint64_t exits[VG_EXIT_CLASS_MAX]; /* kvm_exit by class */
};

/* _add: sum += more. _sub: from -= less. Both work member by member. */
void vg_cpu_figures_add(struct vg_cpu_figures *sum, const struct vg_cpu_figures *more);
void vg_cpu_figures_sub(struct vg_cpu_figures *from, const struct vg_cpu_figures *less);

static inline int64_t
vg_cpu_figures_hyp_ns(const struct vg_cpu_figures *f)
{
    return f->run_ns - f->guest_ns;
}

/* (run + preempt + wake_wait) / observed, 0..1; 0 if nothing was observed. */
double vg_cpu_figures_intensity(const struct vg_cpu_figures *f);

#endif
