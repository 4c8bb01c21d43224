/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the record of a watched thread: the counts of the BPF programs, and how long its present
 * state has lasted. All figures accumulate: between two readings, run + waits + blocked grows by
 * exactly the time between them, once something is known of the thread.
 */
#ifndef VG_COLLECTORS_BPF_RECORD_H
#define VG_COLLECTORS_BPF_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "collectors/bpf-shared.h"
#include "model/cpu-figures.h"

/* Room beside shares and lanes: for processes without a lane, the present holder of the CPU,
 * nobody, and nobody before the first event, both as assumed and as that event says. */
#define VG_BPF_LOSSES_MAX (VG_BPF_SHARES + VG_BPF_LANES + 5)

struct vg_bpf_loss {
    uint32_t holder;
    uint64_t count;
    int64_t ns;
};

/* Knowledge of a thread from elsewhere. */
struct vg_bpf_assumed {
    enum vg_bpf_state state; /* state up to its first event; UNSEEN: that event will tell */
    int64_t since_ns;        /* time before this is left out; 0: all before its first event */
    int64_t told_ns;         /* the state up to here was reported, and stays; 0: not reported */
    uint64_t exec_ns;        /* CPU time that the kernel had counted at since_ns */
    uint64_t exec_now_ns;    /* the same at this reading, or a little before; 0: not asked */
};

/* Tells if a thread in this state wants a CPU and has none. */
bool vg_bpf_is_wait(enum vg_bpf_state state);

struct vg_bpf_reading {
    int64_t at_ns;
    struct vg_cpu_figures cpu;
    enum vg_bpf_state state;
    bool seen;     /* there was an event; otherwise the state is the assumed one */
    unsigned open; /* number of open run, wait and guest intervals */
    unsigned n_places;
    struct vg_bpf_place places[VG_BPF_PLACES]; /* places up to now */
    unsigned n_losses;
    struct vg_bpf_loss
        losses[VG_BPF_LOSSES_MAX]; /* a holder may occur twice; evicted ones are missing */
};

/* Reads a record while programs may write to it. cpu_of finds the CPU with this number, or NULL.
 * false: it was written to all the time, which does not happen to a thread that has a CPU only now
 * and then. */
bool vg_bpf_record_read(const struct vg_bpf_thread *shared,
                        const struct vg_bpf_cpu *(*cpu_of)(const void *data, int32_t cpu),
                        const void *data, const struct vg_bpf_assumed *assumed,
                        int64_t (*now)(void), struct vg_bpf_reading *ret);

/* Returns what happened since the reading that gave *last. What was reported then of an open state
 * may turn out to be wrong (a switch was not seen, or was just about to happen): it stays, at the
 * cost of what is reported now. No figure is below 0, and they add up to the time observed. */
struct vg_cpu_figures vg_bpf_reading_since(const struct vg_bpf_reading *reading,
                                           const struct vg_cpu_figures *last);

#endif
