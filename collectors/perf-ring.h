/* SPDX-License-Identifier: Apache-2.0
 *
 * The ring of one CPU that the kernel's perf events are written into, as perf_event_open(2) has it:
 * a page that says how far it was written and read, and data behind it. Records are handed out one
 * after the other, whole, also those that wrap around the end. One thread at a time.
 */
#ifndef VG_COLLECTORS_PERF_RING_H
#define VG_COLLECTORS_PERF_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>
#include <linux/perf_event.h>

/* A record's size has 16 bits. */
#define VG_PERF_RECORD_MAX 65536

struct vg_perf_ring {
    struct perf_event_mmap_page *page; /* borrowed */
    const char *data;                  /* borrowed */
    uint64_t size;                     /* bytes of data, a power of two */
    uint64_t head;                     /* write position at the last vg_perf_ring_look() */
    uint64_t tail;                     /* read position */
    char *whole;                       /* room for a record that wraps around the end */
};

/* Sets up a ring that is mapped with 1 + n pages; it stays the caller's. */
void vg_perf_ring_init(struct vg_perf_ring *ring, void *mapped, size_t page_bytes,
                       size_t data_bytes);
void vg_perf_ring_clear(struct vg_perf_ring *ring);

/* Looks what has been written by now. false: it was as good as full, so that something may have
 * been lost that no record tells of yet. */
bool vg_perf_ring_look(struct vg_perf_ring *ring);

/* Returns the next of the records seen, good until the next call; NULL: there are no more.
 * *ret_damaged: the data is no record, so everything seen is thrown away. */
const struct perf_event_header *vg_perf_ring_next(struct vg_perf_ring *ring, bool *ret_damaged);

/* Gives the room of everything handed out back to the kernel; it must not be looked at any more.
 * vg_perf_ring_next() does so now and then, too. */
void vg_perf_ring_release(struct vg_perf_ring *ring);

/* The contents of all records of our events: PERF_SAMPLE_TID, TIME and CPU; samples also have the
 * raw data. */
#define VG_PERF_SAMPLE_TYPE (PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU | PERF_SAMPLE_RAW)

enum vg_perf_kind {
    VG_PERF_SAMPLE,
    VG_PERF_LOST,      /* count: records that were lost before this one */
    VG_PERF_SWITCH_IN, /* tid runs now, after other_tid */
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

/* Parses a record; false: it is too short for what it says it is, or its time is impossible. */
bool vg_perf_parse(const struct perf_event_header *header, struct vg_perf_parsed *ret);

#endif
