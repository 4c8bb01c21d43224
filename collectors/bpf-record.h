/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the record of a watched thread: what the BPF programs counted, and on top of it how long
 * its present state has lasted. All is cumulated: run + waits + blocked of two readings differ by
 * the time between them, exactly, from when on something is known of the thread.
 */
#ifndef VG_COLLECTORS_BPF_RECORD_H
#define VG_COLLECTORS_BPF_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "collectors/bpf-shared.h"
#include "model/cpu-figures.h"

/* Beside shares and lanes: processes that have no lane, who holds the CPU now, nobody, and nobody
 * before the first event, as it was assumed and as that event says. */
#define VG_BPF_LOSSES_MAX (VG_BPF_SHARES + VG_BPF_LANES + 5)

struct vg_bpf_loss {
    uint32_t holder;
    uint64_t count;
    int64_t ns;
};

/* What is known of a thread from elsewhere. */
struct vg_bpf_assumed {
    enum vg_bpf_state state; /* up to its first event; UNSEEN: that one will say */
    int64_t since_ns;        /* what was before is left out; 0: all before its first event */
    int64_t told_ns;         /* up to here the state was told, and stays; 0: not told */
    uint64_t exec_ns;        /* CPU time that the kernel had counted at since_ns */
    uint64_t exec_now_ns;    /* and at this reading, or a little before; 0: it was not asked */
};

/* Of time in which the thread wants a CPU and has none. */
bool vg_bpf_is_wait(enum vg_bpf_state state);

struct vg_bpf_reading {
    int64_t at_ns;
    struct vg_cpu_figures cpu;
    enum vg_bpf_state state;
    bool seen;     /* there was an event; else the state is what was assumed */
    unsigned open; /* run, wait and guest intervals that go on */
    unsigned n_places;
    struct vg_bpf_place places[VG_BPF_PLACES]; /* likewise up to now */
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

/* What happened since the reading before gave *last. What was told then of a state that went on may
 * turn out to have been another (a switch was not seen, or was just about to be): it stays told, at
 * the cost of what is told now. Nothing is below 0, the sum is the time observed. */
struct vg_cpu_figures vg_bpf_reading_since(const struct vg_bpf_reading *reading,
                                           const struct vg_cpu_figures *last);

#endif
