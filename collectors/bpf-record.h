/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the record of a watched thread: what the BPF programs counted, and on top of it how long
 * its present state has lasted. All is cumulated: run + waits + blocked of two readings differ by
 * the time between them, exactly.
 */
#ifndef VG_COLLECTORS_BPF_RECORD_H
#define VG_COLLECTORS_BPF_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "collectors/bpf-shared.h"
#include "model/cpu-figures.h"

/* Beside shares and lanes: who holds the CPU now, nobody, and nobody before the first event. */
#define VG_BPF_LOSSES_MAX (VG_BPF_SHARES + VG_BPF_LANES + 3)

struct vg_bpf_loss {
    uint32_t holder;
    uint64_t count;
    int64_t ns;
};

/* What is known of a thread from elsewhere until something happens to it. */
struct vg_bpf_assumed {
    enum vg_bpf_state state; /* UNSEEN: nothing; its first event will say */
    int64_t since_ns;        /* when its watch began; 0: not known, and left out */
};

struct vg_bpf_reading {
    int64_t at_ns;
    struct vg_cpu_figures cpu;
    enum vg_bpf_state state;
    unsigned open;  /* run, wait and guest intervals that go on */
    int32_t cpu_id; /* where it runs, waits or was last; VG_NONE: not known */
    unsigned n_losses;
    struct vg_bpf_loss
        losses[VG_BPF_LOSSES_MAX]; /* a holder may be there twice; evicted ones lack */
};

/* shared may be written to at any moment; cpu_of finds the CPU with this number, or NULL. false: it
 * was written to all the while, which does not happen to a thread that has a CPU now and then. */
bool vg_bpf_record_read(const struct vg_bpf_thread *shared,
                        const struct vg_bpf_cpu *(*cpu_of)(const void *data, int32_t cpu),
                        const void *data, const struct vg_bpf_assumed *assumed,
                        int64_t (*now)(void), struct vg_bpf_reading *ret);

/* What happened since the reading before gave *last. A wait that was told then as one that went on
 * may turn out to have been a run that nothing was heard of: it stays told, at the cost of the run.
 */
struct vg_cpu_figures vg_bpf_reading_since(const struct vg_bpf_reading *reading,
                                           const struct vg_cpu_figures *last);

#endif
