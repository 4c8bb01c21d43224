/* SPDX-License-Identifier: Apache-2.0
 *
 * What the CPU ledger knows of one vCPU thread over one period, and sums of it. All times are
 * integer nanoseconds clipped to the period. On any input
 *     run_ns + preempt_ns + wake_wait_ns + blocked_ns == observed_ns
 * and guest_ns <= run_ns. hyp_ns is not stored: it is run_ns - guest_ns.
 */
#ifndef VG_MODEL_CPU_FIGURES_H
#define VG_MODEL_CPU_FIGURES_H

#include <stdint.h>

#include "model/event.h"

struct vg_cpu_figures {
    int64_t observed_ns; /* state known, from the first record that fixes it, minus reported loss */
    int64_t run_ns;      /* on a CPU */
    int64_t guest_ns;    /* kvm_entry..kvm_exit, cut at a switch-out between them */
    int64_t preempt_ns;  /* waits that began at a switch-out while runnable */
    int64_t wake_wait_ns; /* waits that began at a wakeup */
    int64_t blocked_ns;   /* the rest */
    uint64_t entries;     /* kvm_entry */
    uint64_t preemptions; /* switch-outs while runnable */
    uint64_t wakeups;     /* wakeups of the blocked thread */
    uint64_t blocks;      /* switch-outs not runnable, exits included */
    uint64_t switches_out;
    uint64_t exits[VG_EXIT_CLASS_MAX]; /* kvm_exit by class */
    uint64_t unseen_migrations;        /* waits that ended on another CPU than the one recorded */
    uint64_t clipped;                  /* run, wait and guest intervals cut by the period's edge */
};

/* sum += more; difference: a - b, member by member. */
void vg_cpu_figures_add(struct vg_cpu_figures *sum, const struct vg_cpu_figures *more);
void vg_cpu_figures_sub(struct vg_cpu_figures *from, const struct vg_cpu_figures *less);

static inline int64_t
vg_cpu_figures_hyp_ns(const struct vg_cpu_figures *f)
{
    return f->run_ns - f->guest_ns;
}

/* (run + preempt + wake_wait) / observed, 0..1; 0 when nothing was observed. */
double vg_cpu_figures_intensity(const struct vg_cpu_figures *f);

#endif
