/* SPDX-License-Identifier: Apache-2.0
 *
 * One CPU's ring buffer of perf events, as described in perf_event_open(2): a page with the write
 * and read positions, followed by data. Records are returned one by one and complete, including
 * those that wrap around the end. One thread at a time.
 */
#ifndef VG_COLLECTORS_PERF_RING_H
#define VG_COLLECTORS_PERF_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>
#include <linux/perf_event.h>

/* The maximum size of a record, whose size field has 16 bits. */
#define VG_PERF_RECORD_MAX 65536

struct vg_perf_ring {
    struct perf_event_mmap_page *page; /* borrowed */
    const char *data;                  /* borrowed */
    uint64_t size;                     /* bytes of data, a power of two */
    uint64_t head;                     /* write position at the last vg_perf_ring_look() */
    uint64_t tail;                     /* read position */
    char *whole;                       /* buffer for a record that wraps around the end */
};

/* Initialises a ring that is mapped with 1 + n pages. The mapping still belongs to the caller. */
void vg_perf_ring_init(struct vg_perf_ring *ring, void *mapped, size_t page_bytes,
                       size_t data_bytes);
void vg_perf_ring_clear(struct vg_perf_ring *ring);

/* Reads the write position. Returns false if the ring was nearly full, so that records may have
 * been lost that no record reports yet. */
bool vg_perf_ring_look(struct vg_perf_ring *ring);

/* Returns the next record, valid until the next call, or NULL if there are no more. Sets
 * *ret_damaged if the data are not a record; everything seen is then discarded. */
const struct perf_event_header *vg_perf_ring_next(struct vg_perf_ring *ring, bool *ret_damaged);

/* Gives the space of all records returned until now back to the kernel. These records must no
 * longer be accessed. vg_perf_ring_next() also does this occasionally. */
void vg_perf_ring_release(struct vg_perf_ring *ring);

/* The fields of all records: PERF_SAMPLE_TID, TIME and CPU. Samples also have the raw data. */
#define VG_PERF_SAMPLE_TYPE (PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU | PERF_SAMPLE_RAW)

enum vg_perf_kind {
    VG_PERF_SAMPLE,
    VG_PERF_LOST,      /* count: records lost before this record */
    VG_PERF_SWITCH_IN, /* tid is now running, after other_tid */
    VG_PERF_OTHER
};

struct vg_perf_parsed {
    enum vg_perf_kind kind;
    int64_t ts_ns; /* CLOCK_MONOTONIC */
    int32_t pid, tid;
    int32_t other_tid;
    uint64_t count;
    const void *raw; /* SAMPLE */
    size_t raw_size;
};

/* Parses a record. Returns false if it is too short for its type or its time is impossible. */
bool vg_perf_parse(const struct perf_event_header *header, struct vg_perf_parsed *ret);

#endif
