/* SPDX-License-Identifier: Apache-2.0
 *
 * A binary heap of the CPUs whose next event is known, the earliest on top.
 *
 * For each CPU, the merge stores the last thread that was switched to. Some kernels write no
 * records while certain threads run, such as a CPU's idle thread. These records do not exist and do
 * not count as lost. The next thread then appears from nowhere, but it writes
 * PERF_RECORD_SWITCH_CPU_WIDE, which is converted to a sched_switch.
 */
#include "config.h"

#include "collectors/perf-merge.h"

#include <string.h>

#include "collectors/perf-ring.h"

struct class
{
    vg_perf_format *format;
    struct vg_binding binding;
};

struct stream {
    int32_t cpu;
    struct vg_perf_ring ring;
    bool has_event;
    struct vg_event event; /* the next one */
    int64_t last_ns;       /* of the last record; 0: there was none */
    int32_t holder;        /* tid of the running thread; VG_NONE: unknown */
    uint64_t lost_seen;    /* by the kernel's count, when the ring was full */
    uint64_t lost;         /* already reported as lost */
    uint64_t lost_ahead;   /* the part of lost that no record has reported yet */
};

struct vg_perf_merge {
    GArray *classes;    /* struct class */
    GArray *by_id;      /* uint16_t by tracepoint number: class + 1; 0: none */
    GPtrArray *streams; /* struct stream, owned */
    GPtrArray *heap;    /* the streams that have an event */
    struct vg_adapt_env env;
    vg_names *names;
    int64_t given_ns; /* no earlier event is returned any more */
    struct vg_perf_counts counts;
};

static void
class_clear(void *data)
{
    vg_perf_format_free(((struct class *)data)->format);
}

static void
perf_merge_stream_free(void *data)
{
    struct stream *stream = data;

    vg_perf_ring_clear(&stream->ring);
    g_free(stream);
}

vg_perf_merge *
vg_perf_merge_new(void)
{
    vg_perf_merge *merge = g_new0(vg_perf_merge, 1);

    merge->classes = g_array_new(FALSE, FALSE, sizeof(struct class));
    g_array_set_clear_func(merge->classes, class_clear);
    merge->by_id = g_array_new(FALSE, TRUE, sizeof(uint16_t));
    merge->streams = g_ptr_array_new_with_free_func(perf_merge_stream_free);
    merge->heap = g_ptr_array_new();
    merge->names = vg_names_new();
    vg_adapt_env_init(&merge->env, NULL, merge->names);
    return merge;
}

void
vg_perf_merge_free(vg_perf_merge *merge)
{
    if (!merge)
        return;
    g_ptr_array_unref(merge->heap);
    vg_names_unref(merge->names);
    g_ptr_array_unref(merge->streams);
    g_array_unref(merge->by_id);
    g_array_unref(merge->classes);
    g_free(merge);
}

void
vg_perf_merge_add_format(vg_perf_merge *merge, vg_perf_format *take_format)
{
    struct class class = {.format = take_format};

    vg_binding_init(&class.binding, vg_perf_format_name(take_format), NULL, &vg_perf_fields,
                    take_format);
    g_array_append_val(merge->classes, class);
    unsigned id = vg_perf_format_id(take_format);
    if (id >= merge->by_id->len)
        g_array_set_size(merge->by_id, id + 1);
    g_array_index(merge->by_id, uint16_t, id) = (uint16_t)merge->classes->len;
}

vg_names *
vg_perf_merge_names(const vg_perf_merge *merge)
{
    return merge->names;
}

const struct vg_perf_counts *
vg_perf_merge_counts(const vg_perf_merge *merge)
{
    return &merge->counts;
}

/* ---- the heap ---- */

static bool
perf_merge_is_before(const struct stream *a, const struct stream *b)
{
    return a->event.ts_ns != b->event.ts_ns ? a->event.ts_ns < b->event.ts_ns : a->cpu < b->cpu;
}

static void
sift_down(GPtrArray *heap, unsigned at)
{
    struct stream *moved = heap->pdata[at];

    for (;;) {
        unsigned child = 2 * at + 1;
        if (child >= heap->len)
            break;
        if (child + 1 < heap->len &&
            perf_merge_is_before(heap->pdata[child + 1], heap->pdata[child]))
            child++;
        if (!perf_merge_is_before(heap->pdata[child], moved))
            break;
        heap->pdata[at] = heap->pdata[child];
        at = child;
    }
    heap->pdata[at] = moved;
}

static void
build_heap(vg_perf_merge *merge)
{
    g_ptr_array_set_size(merge->heap, 0);
    for (unsigned i = 0; i < merge->streams->len; i++) {
        if (((struct stream *)merge->streams->pdata[i])->has_event)
            g_ptr_array_add(merge->heap, merge->streams->pdata[i]);
    }
    for (unsigned i = merge->heap->len / 2; i > 0; i--)
        sift_down(merge->heap, i - 1);
}

/* ---- events of one CPU ---- */

static void
begin_event(const vg_perf_merge *merge, struct stream *stream, int64_t ts_ns)
{
    /* An interrupt may have written a record between this one's timestamp and its place. */
    ts_ns = MAX(MAX(ts_ns, stream->last_ns), merge->given_ns);
    stream->event = (struct vg_event){
        .ts_ns = ts_ns,
        .type = VG_EVENT_OTHER,
        .cpu = (int16_t)stream->cpu,
        .tid = VG_NONE,
        .pid = VG_NONE,
        .stream = (uint32_t)stream->cpu,
    };
    stream->last_ns = ts_ns;
    stream->has_event = true;
}

static void
make_loss(const vg_perf_merge *merge, struct stream *stream, int64_t end_ns, uint64_t events)
{
    int64_t begin_ns = stream->last_ns;

    begin_event(merge, stream, begin_ns);
    stream->event.type = VG_EVENT_LOST;
    stream->event.lost.end_ns = MAX(end_ns, stream->event.ts_ns);
    stream->event.lost.events = events;
    stream->event.lost.packets = 0;
    stream->holder = VG_NONE;
}

static void
take_loss(const vg_perf_merge *merge, struct stream *stream, const struct vg_perf_parsed *parsed)
{
    uint64_t known = MIN(stream->lost_ahead, parsed->count);

    stream->lost_ahead -= known;
    stream->lost += parsed->count - known;
    make_loss(merge, stream, parsed->ts_ns, parsed->count - known);
}

static void
note_switch(vg_perf_merge *merge, struct stream *stream)
{
    merge->counts.switches++;
    merge->counts.gaps +=
        stream->holder != VG_NONE && stream->holder != stream->event.sched_switch.prev_tid;
    stream->holder = stream->event.sched_switch.next_tid;
}

static void
take_sample(vg_perf_merge *merge, struct stream *stream, const struct vg_perf_parsed *parsed)
{
    unsigned id = vg_perf_raw_id(parsed->raw, parsed->raw_size);
    unsigned known = id < merge->by_id->len ? g_array_index(merge->by_id, uint16_t, id) : 0;

    if (known == 0)
        return;
    const struct class *class = &g_array_index(merge->classes, struct class, known - 1);
    const struct vg_perf_record record = {.format = class->format,
                                          .raw = parsed->raw,
                                          .size = parsed->raw_size,
                                          .pid = parsed->pid,
                                          .tid = parsed->tid};
    begin_event(merge, stream, parsed->ts_ns);
    if (vg_binding_read(&class->binding, &merge->env, &record, &stream->event)) {
        merge->counts.rejected++;
        stream->has_event = false;
    } else if (stream->event.type == VG_EVENT_SCHED_SWITCH) {
        note_switch(merge, stream);
    }
}

/* Handles an arrival: the thread is the expected one, unless records of this CPU are missing. */
static void
take_arrival(vg_perf_merge *merge, struct stream *stream, const struct vg_perf_parsed *parsed)
{
    if (parsed->tid == stream->holder)
        return;
    if (parsed->tid < 0 || parsed->tid > VG_TID_LIMIT || parsed->other_tid < 0 ||
        parsed->other_tid > VG_TID_LIMIT) {
        merge->counts.rejected++;
        return;
    }
    merge->counts.gaps += stream->holder != VG_NONE;
    begin_event(merge, stream, parsed->ts_ns);
    stream->event.type = VG_EVENT_SCHED_SWITCH;
    stream->event.sched_switch.prev_tid = parsed->other_tid;
    stream->event.sched_switch.next_tid = parsed->tid;
    /* Nothing is known about the previous thread until a record mentions it. */
    stream->event.sched_switch.prev_state = VG_PREV_BLOCKED;
    stream->holder = parsed->tid;
}

static void
take_record(vg_perf_merge *merge, struct stream *stream, const struct perf_event_header *header)
{
    struct vg_perf_parsed parsed;

    merge->counts.records++;
    if (!vg_perf_parse(header, &parsed)) {
        merge->counts.rejected++;
        return;
    }
    switch (parsed.kind) {
    case VG_PERF_SAMPLE:
        take_sample(merge, stream, &parsed);
        break;
    case VG_PERF_LOST:
        take_loss(merge, stream, &parsed);
        break;
    case VG_PERF_SWITCH_IN:
        take_arrival(merge, stream, &parsed);
        break;
    case VG_PERF_OTHER:
        break;
    }
}

/* Advances to the next event among the records that were read. */
static void
perf_merge_advance(vg_perf_merge *merge, struct stream *stream)
{
    const struct perf_event_header *header;
    bool damaged;

    stream->has_event = false;
    while (!stream->has_event && (header = vg_perf_ring_next(&stream->ring, &damaged)))
        take_record(merge, stream, header);
    if (stream->has_event)
        return;
    if (damaged) {
        /* The number of lost records is unknown. */
        merge->counts.rejected++;
        make_loss(merge, stream, stream->last_ns, 1);
    } else if (stream->lost_seen > stream->lost) {
        /* The kernel writes the record of the loss before the next record that fits. */
        uint64_t ahead = stream->lost_seen - stream->lost;
        stream->lost_ahead += ahead;
        stream->lost += ahead;
        make_loss(merge, stream, INT64_MAX, ahead);
    }
}

/* ---- CPUs ---- */

void
vg_perf_merge_add_cpu(vg_perf_merge *merge, int32_t cpu, void *mapped, size_t page_bytes,
                      size_t data_bytes)
{
    struct stream *stream = g_new0(struct stream, 1);

    stream->cpu = cpu;
    stream->holder = VG_NONE;
    vg_perf_ring_init(&stream->ring, mapped, page_bytes, data_bytes);
    g_ptr_array_add(merge->streams, stream);
}

void
vg_perf_merge_remove_cpu(vg_perf_merge *merge, int32_t cpu)
{
    for (unsigned i = 0; i < merge->streams->len; i++) {
        if (((struct stream *)merge->streams->pdata[i])->cpu == cpu) {
            g_ptr_array_remove_index_fast(merge->streams, i);
            break;
        }
    }
    build_heap(merge);
}

/* ---- all of them ---- */

void
vg_perf_merge_look(vg_perf_merge *merge, uint64_t (*is_full)(void *data, int32_t cpu), void *data)
{
    for (unsigned i = 0; i < merge->streams->len; i++) {
        struct stream *stream = merge->streams->pdata[i];
        if (!vg_perf_ring_look(&stream->ring) && is_full)
            stream->lost_seen = is_full(data, stream->cpu);
        if (!stream->has_event)
            perf_merge_advance(merge, stream);
    }
    build_heap(merge);
}

bool
vg_perf_merge_next(vg_perf_merge *merge, int64_t until_ns, struct vg_event *ret)
{
    struct stream *top = merge->heap->len > 0 ? merge->heap->pdata[0] : NULL;

    if (!top || top->event.ts_ns > until_ns)
        return false;
    *ret = top->event;
    merge->given_ns = MAX(merge->given_ns, ret->ts_ns);
    perf_merge_advance(merge, top);
    if (!top->has_event) {
        merge->heap->pdata[0] = merge->heap->pdata[merge->heap->len - 1];
        g_ptr_array_set_size(merge->heap, (int)merge->heap->len - 1);
    }
    if (merge->heap->len > 0)
        sift_down(merge->heap, 0);
    return true;
}

void
vg_perf_merge_release(vg_perf_merge *merge)
{
    for (unsigned i = 0; i < merge->streams->len; i++)
        vg_perf_ring_release(&((struct stream *)merge->streams->pdata[i])->ring);
}
