/* SPDX-License-Identifier: Apache-2.0
 *
 * What becomes of each command of a client, told to whoever traces the proxy (vgpu-proxy-trace): a
 * ring in memory that the client's process has in common with it. The client's process writes, and
 * waits for nobody: what there is no room for is counted. While nobody traces, nothing is written.
 *
 * The reader trusts nothing of it.
 */
#ifndef VG_OPENCL_SERVE_TOLD_H
#define VG_OPENCL_SERVE_TOLD_H

#include <stdbool.h>
#include <stdint.h>

#include <stdatomic.h>

#define VG_SERVE_TOLD 4096 /* records; a power of two */

enum vg_serve_told_what {
    VG_SERVE_QUEUED,    /* it has come */
    VG_SERVE_SUBMITTED, /* the client has the device, and it is given to the vendor */
    VG_SERVE_RUNNING,   /* all that was given before it is done */
    VG_SERVE_DONE,
    VG_SERVE_FAILED,
    VG_SERVE_WHATS,
};

enum vg_serve_told_kind {
    VG_SERVE_KERNEL,
    VG_SERVE_READ,
    VG_SERVE_WRITE,
    VG_SERVE_COPY,
    VG_SERVE_FILL,
    VG_SERVE_MAP,
    VG_SERVE_UNMAP,
    VG_SERVE_MIGRATE,
    VG_SERVE_KINDS,
};

struct vg_serve_told_record {
    int64_t at;       /* ns of CLOCK_MONOTONIC */
    uint64_t request; /* unique among the clients of a machine at a time */
    uint64_t queue;   /* number of the client's queue; 0: not known yet */
    uint64_t bytes;   /* that come along with it, or that are asked for; 0: none, or not known */
    int64_t wait_ns, run_ns; /* of one that is done, as it is counted (meter.h) */
    int32_t status;          /* of one that is over */
    uint8_t what, kind;
};

struct vg_serve_told {
    atomic_bool is_wanted;          /* by the reader */
    _Atomic uint64_t written, read; /* records, in all */
    _Atomic uint64_t lost;          /* for which there was no room */
    struct vg_serve_told_record ring[VG_SERVE_TOLD];
};

/* By one thread at a time. */
static inline void
vg_serve_tell(struct vg_serve_told *told, const struct vg_serve_told_record *record)
{
    const uint64_t written = atomic_load_explicit(&told->written, memory_order_relaxed);

    if (written - atomic_load_explicit(&told->read, memory_order_acquire) >= VG_SERVE_TOLD) {
        atomic_fetch_add_explicit(&told->lost, 1, memory_order_relaxed);
        return;
    }
    told->ring[written % VG_SERVE_TOLD] = *record;
    atomic_store_explicit(&told->written, written + 1, memory_order_release);
}

/* Takes up to N records that have come. What cannot be passes for nothing. */
static inline unsigned
vg_serve_hear(struct vg_serve_told *told, struct vg_serve_told_record *records, unsigned n)
{
    const uint64_t read = atomic_load_explicit(&told->read, memory_order_relaxed);
    const uint64_t written = atomic_load_explicit(&told->written, memory_order_acquire);
    unsigned has = 0;

    if (written - read > VG_SERVE_TOLD) {
        atomic_store_explicit(&told->read, written, memory_order_release);
        return 0;
    }
    uint64_t at = read;
    for (; at != written && has < n; at++) {
        records[has] = told->ring[at % VG_SERVE_TOLD];
        has += records[has].what < VG_SERVE_WHATS && records[has].kind < VG_SERVE_KINDS;
    }
    atomic_store_explicit(&told->read, at, memory_order_release);
    return has;
}

#endif
