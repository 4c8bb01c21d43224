/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports the progress of a client's commands to the tracer (vgpu-proxy-trace) through a ring
 * buffer in memory shared with it. The client's process writes and never waits: records that do
 * not fit are dropped and counted. While no tracer is attached, nothing is written.
 *
 * The reader trusts none of the contents.
 */
#ifndef VG_OPENCL_SERVE_PROGRESS_H
#define VG_OPENCL_SERVE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include <stdatomic.h>

#define VG_SERVE_PROGRESS_RECORDS 4096 /* records; a power of two */

enum vg_serve_progress_state {
    VG_SERVE_QUEUED,    /* it has arrived */
    VG_SERVE_SUBMITTED, /* the client has the device, and the command was passed to the vendor */
    VG_SERVE_RUNNING,   /* all commands submitted before it are done */
    VG_SERVE_DONE,
    VG_SERVE_FAILED,
    VG_SERVE_WHATS,
};

enum vg_serve_progress_kind {
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

struct vg_serve_progress_record {
    int64_t at;              /* ns of CLOCK_MONOTONIC */
    uint64_t request;        /* unique among all clients of this machine */
    uint64_t queue;          /* number of the client's queue; 0 if not known yet */
    uint64_t bytes;          /* bytes transferred or queried; 0 if none or unknown */
    int64_t wait_ns, run_ns; /* of a completed command, as counted in meter.h */
    int32_t status;          /* of a completed command */
    uint8_t what, kind;
};

struct vg_serve_progress {
    atomic_bool is_wanted;          /* set by the reader */
    _Atomic uint64_t written, read; /* total numbers of records */
    _Atomic uint64_t lost;          /* records dropped because the ring was full */
    struct vg_serve_progress_record ring[VG_SERVE_PROGRESS_RECORDS];
};

/* Only one thread at a time. */
static inline void
vg_serve_progress_write(struct vg_serve_progress *told,
                        const struct vg_serve_progress_record *record)
{
    const uint64_t written = atomic_load_explicit(&told->written, memory_order_relaxed);

    if (written - atomic_load_explicit(&told->read, memory_order_acquire) >=
        VG_SERVE_PROGRESS_RECORDS) {
        atomic_fetch_add_explicit(&told->lost, 1, memory_order_relaxed);
        return;
    }
    told->ring[written % VG_SERVE_PROGRESS_RECORDS] = *record;
    atomic_store_explicit(&told->written, written + 1, memory_order_release);
}

/* Reads up to N new records. Ignores impossible ones. */
static inline unsigned
vg_serve_progress_read(struct vg_serve_progress *told, struct vg_serve_progress_record *records,
                       unsigned n)
{
    const uint64_t read = atomic_load_explicit(&told->read, memory_order_relaxed);
    const uint64_t written = atomic_load_explicit(&told->written, memory_order_acquire);
    unsigned has = 0;

    if (written - read > VG_SERVE_PROGRESS_RECORDS) {
        atomic_store_explicit(&told->read, written, memory_order_release);
        return 0;
    }
    uint64_t at = read;
    for (; at != written && has < n; at++) {
        records[has] = told->ring[at % VG_SERVE_PROGRESS_RECORDS];
        has += records[has].what < VG_SERVE_WHATS && records[has].kind < VG_SERVE_KINDS;
    }
    atomic_store_explicit(&told->read, at, memory_order_release);
    return has;
}

#endif
