/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "collectors/perf-ring.h"

#include <string.h>

#include "model/event.h"

/* A ring with less space than this may have refused a record. kvm_exit's take 120 bytes. */
#define ROOM_MIN 1024

void
vg_perf_ring_init(struct vg_perf_ring *ring, void *mapped, size_t page_bytes, size_t data_bytes)
{
    *ring = (struct vg_perf_ring){
        .page = mapped,
        .data = (const char *)mapped + page_bytes,
        .size = data_bytes,
        .whole = g_malloc(VG_PERF_RECORD_MAX),
    };
    ring->head = ring->tail = ring->page->data_tail;
}

void
vg_perf_ring_clear(struct vg_perf_ring *ring)
{
    g_clear_pointer(&ring->whole, g_free);
}

bool
vg_perf_ring_look(struct vg_perf_ring *ring)
{
    /* Pairs with the kernel's barrier between writing records and moving the head. */
    ring->head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
    return ring->head - ring->page->data_tail + ROOM_MIN <= ring->size;
}

const struct perf_event_header *
vg_perf_ring_next(struct vg_perf_ring *ring, bool *ret_damaged)
{
    uint64_t at = ring->tail & (ring->size - 1);
    uint64_t left = ring->head - ring->tail;
    struct perf_event_header header;

    *ret_damaged = false;
    /* Records that were returned before are no longer in use. */
    if (ring->tail - ring->page->data_tail >= ring->size / 4)
        vg_perf_ring_release(ring);
    if (left == 0)
        return NULL;
    /* Records are multiples of 8 bytes, so a header never wraps around the end. */
    if (left >= sizeof(header) && left <= ring->size && at + sizeof(header) <= ring->size) {
        memcpy(&header, ring->data + at, sizeof(header));
        if (header.size >= sizeof(header) && header.size % 8 == 0 && header.size <= left) {
            ring->tail += header.size;
            if (at + header.size <= ring->size)
                return (const struct perf_event_header *)(const void *)(ring->data + at);
            size_t first = ring->size - at;
            memcpy(ring->whole, ring->data + at, first);
            memcpy(ring->whole + first, ring->data, header.size - first);
            return (const struct perf_event_header *)(const void *)ring->whole;
        }
    }
    ring->tail = ring->head;
    *ret_damaged = true;
    return NULL;
}

void
vg_perf_ring_release(struct vg_perf_ring *ring)
{
    /* Everything that was read is copied before the kernel may overwrite it. */
    __atomic_store_n(&ring->page->data_tail, ring->tail, __ATOMIC_RELEASE);
}

/* ---- records ---- */

/* The sample_id of perf_event_open(2), with which samples start, except for the padding. */
struct sample_id {
    int32_t pid, tid;
    uint64_t time;
    uint32_t cpu, reserved;
};

static bool
take_id(const struct sample_id *id, struct vg_perf_parsed *ret)
{
    ret->pid = id->pid;
    ret->tid = id->tid;
    ret->ts_ns = (int64_t)id->time;
    return id->time <= VG_TIME_MAX;
}

static bool
parse_sample(const char *body, size_t size, struct vg_perf_parsed *ret)
{
    struct sample_id id;
    uint32_t raw_size;

    if (size < sizeof(id) + sizeof(raw_size))
        return false;
    memcpy(&id, body, sizeof(id));
    memcpy(&raw_size, body + sizeof(id), sizeof(raw_size));
    ret->kind = VG_PERF_SAMPLE;
    ret->raw = body + sizeof(id) + sizeof(raw_size);
    ret->raw_size = raw_size;
    return raw_size <= size - sizeof(id) - sizeof(raw_size) && take_id(&id, ret);
}

/* Parses a record that is not a sample: fixed fields, then the sample_id at the end. */
static bool
parse_fixed(const char *body, size_t size, void *ret_fixed, size_t fixed,
            struct vg_perf_parsed *ret)
{
    struct sample_id id;

    if (size < fixed + sizeof(id))
        return false;
    memcpy(ret_fixed, body, fixed);
    memcpy(&id, body + size - sizeof(id), sizeof(id));
    return take_id(&id, ret);
}

bool
vg_perf_parse(const struct perf_event_header *header, struct vg_perf_parsed *ret)
{
    const char *body = (const char *)(header + 1);
    size_t size = header->size - sizeof(*header);
    struct {
        uint64_t id, count;
    } lost;
    struct {
        int32_t pid, tid;
    } other;

    *ret = (struct vg_perf_parsed){.kind = VG_PERF_OTHER};
    switch (header->type) {
    case PERF_RECORD_SAMPLE:
        return parse_sample(body, size, ret);
    case PERF_RECORD_LOST:
        ret->kind = VG_PERF_LOST;
        if (!parse_fixed(body, size, &lost, sizeof(lost), ret))
            return false;
        ret->count = lost.count;
        return true;
    case PERF_RECORD_SWITCH_CPU_WIDE:
        if (header->misc & PERF_RECORD_MISC_SWITCH_OUT)
            return true;
        ret->kind = VG_PERF_SWITCH_IN;
        if (!parse_fixed(body, size, &other, sizeof(other), ret))
            return false;
        ret->other_tid = other.tid;
        return true;
    default:
        return true;
    }
}
