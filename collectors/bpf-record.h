/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the record of a watched thread: the BPF programs' counters and the duration of its current
 * state. All figures accumulate. Once the thread's state is known, run + waits + blocked grows
 * between two readings by exactly the time between them.
 */
#ifndef VG_COLLECTORS_BPF_RECORD_H
#define VG_COLLECTORS_BPF_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "collectors/bpf-shared.h"
#include "model/cpu-figures.h"

/* The additional entries are for processes without a lane, the current holder of the CPU, an
 * unknown holder, and an unknown holder before the first event, both as assumed and as stated by
 * that event. */
#define VG_BPF_LOSSES_MAX (VG_BPF_SHARES + VG_BPF_LANES + 5)

struct vg_bpf_loss {
    uint32_t holder;
    uint64_t count;
    int64_t ns;
};

/* Information about a thread from other sources. */
struct vg_bpf_assumed {
    enum vg_bpf_state state; /* state until its first event; UNSEEN if that event will reveal it */
    int64_t since_ns; /* time before this does not count; 0 if all time before its first event does
                         not */
    int64_t
        told_ns; /* the state up to this time was reported and remains; 0 if it was not reported */
    uint64_t exec_ns;     /* CPU time according to the kernel at since_ns */
    uint64_t exec_now_ns; /* the same at this reading or shortly before; 0 if not read */
};

/* Returns whether a thread in this state wants a CPU and has none. */
bool vg_bpf_is_wait(enum vg_bpf_state state);

struct vg_bpf_reading {
    int64_t at_ns;
    struct vg_cpu_figures cpu;
    enum vg_bpf_state state;
    bool seen;     /* there was an event; otherwise the state is the assumed one */
    unsigned open; /* number of open run, wait and guest intervals */
    unsigned n_places;
    struct vg_bpf_place places[VG_BPF_PLACES]; /* places until now */
    unsigned n_losses;
    struct vg_bpf_loss
        losses[VG_BPF_LOSSES_MAX]; /* a holder may occur twice; evicted holders are missing */
};

/* Reads a record while programs may be writing to it. cpu_of returns the CPU with a number, or
 * NULL. Returns false if it was being written during all attempts, which cannot happen to a thread
 * that has a CPU only part of the time. */
bool vg_bpf_record_read(const struct vg_bpf_thread *shared,
                        const struct vg_bpf_cpu *(*cpu_of)(const void *data, int32_t cpu),
                        const void *data, const struct vg_bpf_assumed *assumed,
                        int64_t (*now)(void), struct vg_bpf_reading *ret);

/* Returns the changes since the reading that produced *last. A figure reported earlier for an open
 * state may prove wrong, if a switch was missed or about to happen. It remains, and the figures
 * returned now compensate for it. No figure is negative, and they add up to the time observed. */
struct vg_cpu_figures vg_bpf_reading_since(const struct vg_bpf_reading *reading,
                                           const struct vg_cpu_figures *last);

#endif
