/* SPDX-License-Identifier: Apache-2.0
 *
 * A binary heap of the streams that still have events, earliest on top.
 *
 * Each stream is either covered, which is inside a packet or between two that follow each other
 * without a gap, or it pauses: before its first packet, after its last one, and where a packet
 * begins later than the one before ended. LTTng leaves such gaps where tracing was stopped, but
 * also behind a packet that was handed out half full, until the next event. Where all streams pause
 * at once nobody looked, if the pause separates two sessions or is too long for a host to be
 * silent.
 */
#include "config.h"

#include "trace/ctf-merge.h"

#include <string.h>

#include "trace/ctf-stream.h"

/* A host that is traced writes something on one of its CPUs more often than this, all the more
 * after its buffers were handed out, which wakes the programs that wait for them. */
#define SILENCE_NS INT64_C(200000000)

struct ctf_merge {
    vg_recording *recording;
    const GPtrArray *streams;
    struct ctf_stream **heap;
    size_t heap_size;
    GArray *inserted; /* struct vg_event: to be delivered before the heap's */
    bool knows_cpus;  /* is_recorded[] has all CPUs that have a stream */
    bool is_recorded[VG_CPU_LIMIT];
    bool absence_told;
    int64_t now; /* of the last event delivered */
};

/* ---- the heap ---- */

/* Streams with equal times keep the order in which they were found. */
static bool
is_before(struct ctf_stream *a, struct ctf_stream *b)
{
    int64_t ta = a->queue[a->head].ts_ns, tb = b->queue[b->head].ts_ns;

    return ta != tb ? ta < tb : a->index < b->index;
}

static void
sift_down(struct ctf_merge *merge, size_t at)
{
    struct ctf_stream **heap = merge->heap;
    struct ctf_stream *moved = heap[at];

    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= merge->heap_size)
            break;
        if (child + 1 < merge->heap_size && is_before(heap[child + 1], heap[child]))
            child++;
        if (!is_before(heap[child], moved))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
}

/* The event on top is taken. */
static void
advance(struct ctf_merge *merge)
{
    struct ctf_stream *top = merge->heap[0];

    ctf_stream_pop(top);
    if (!ctf_stream_peek(top)) {
        top->pauses = true;
        top->pause_begin_ns =
            top->covered_ns == CTF_COVERAGE_UNKNOWN ? top->delivered_ts : top->covered_ns;
        top->pause_end_ns = INT64_MAX;
        merge->heap[0] = merge->heap[--merge->heap_size];
    }
    if (merge->heap_size > 0)
        sift_down(merge, 0);
}

/* ---- what is not observed ---- */

static void
insert_loss(struct ctf_merge *merge, int32_t cpu, int64_t begin_ns, int64_t end_ns)
{
    const struct vg_event loss = {
        .ts_ns = begin_ns,
        .type = VG_EVENT_LOST,
        .cpu = (int16_t)cpu,
        .tid = VG_NONE,
        .pid = VG_NONE,
        .lost.end_ns = end_ns,
    };
    g_array_append_val(merge->inserted, loss);
}

/* The time in which all streams pause, up to now. */
static bool
find_common_pause(const struct ctf_merge *merge, int64_t *ret_begin_ns, int64_t *ret_end_ns)
{
    int64_t begin_ns = INT64_MIN, end_ns = INT64_MAX;

    for (unsigned int i = 0; i < merge->streams->len; i++) {
        const struct ctf_stream *stream = g_ptr_array_index(merge->streams, i);
        if (!stream->described)
            continue;
        if (!stream->pauses)
            return false;
        begin_ns = MAX(begin_ns, stream->pause_begin_ns);
        end_ns = MIN(end_ns, stream->pause_end_ns);
    }
    *ret_begin_ns = MAX(begin_ns, merge->now);
    *ret_end_ns = end_ns;
    return begin_ns != INT64_MIN && *ret_begin_ns < end_ns;
}

static bool
is_same_trace(const struct ctf_trace *a, const struct ctf_trace *b)
{
    return a == b || (a->layout.n_uuids > 0 && b->layout.n_uuids > 0 &&
                      memcmp(a->layout.uuids[0], b->layout.uuids[0], CTF_UUID_SIZE) == 0);
}

/* Whether the trace, or the part of it before a rotation, was heard of before. */
static bool
has_begun(const struct ctf_merge *merge, const struct ctf_trace *trace)
{
    for (unsigned int i = 0; i < merge->streams->len; i++) {
        const struct ctf_stream *stream = g_ptr_array_index(merge->streams, i);
        if (stream->trace->begun && is_same_trace(stream->trace, trace))
            return true;
    }
    return false;
}

/* The stream goes on after a pause. If all of them paused nobody may have looked meanwhile. */
static void
end_pause(struct ctf_merge *merge, struct ctf_stream *stream)
{
    int64_t begin_ns, end_ns;
    bool all = find_common_pause(merge, &begin_ns, &end_ns);

    stream->pauses = false;
    if (!all || (has_begun(merge, stream->trace) && end_ns - begin_ns < SILENCE_NS))
        return;
    for (unsigned int i = 0; i < merge->streams->len; i++) {
        const struct ctf_stream *other = g_ptr_array_index(merge->streams, i);
        if (other->trace->begun && other->cpu != VG_NONE)
            insert_loss(merge, other->cpu, begin_ns, end_ns);
    }
}

/* LTTng and perf have a stream for each CPU: where none is, the file is gone or was never made, and
 * nobody sees when a thread that is woken there gets to run. */
static void
check_target(struct ctf_merge *merge, const struct vg_event *event)
{
    int32_t cpu = VG_NONE;

    if (event->type == VG_EVENT_SCHED_WAKEUP)
        cpu = event->wakeup.target_cpu;
    else if (event->type == VG_EVENT_SCHED_MIGRATE)
        cpu = event->migrate.dest_cpu;
    if (cpu == VG_NONE || merge->is_recorded[cpu])
        return;
    merge->is_recorded[cpu] = true; /* said once */
    insert_loss(merge, cpu, event->ts_ns, INT64_MAX);
    if (!merge->absence_told)
        vg_recording_problem(merge->recording, merge->recording->name, 0,
                             "no records of CPU %d are here, on which threads are woken: how long "
                             "they wait and run there is not known, nor of other such CPUs",
                             cpu);
    merge->absence_told = true;
}

/* ---- the interface ---- */

static void
begin_stream(struct ctf_merge *merge, struct ctf_stream *stream)
{
    const struct vg_event *first = ctf_stream_peek(stream);

    stream->pauses = true;
    stream->pause_begin_ns = INT64_MIN;
    stream->pause_end_ns = stream->begin_ns;
    if (first) {
        merge->heap[merge->heap_size++] = stream;
        stream->pause_end_ns = MIN(stream->begin_ns, first->ts_ns);
    } else if (stream->covered_ns != CTF_COVERAGE_UNKNOWN) {
        stream->pause_begin_ns = stream->covered_ns;
        stream->pause_end_ns = INT64_MAX;
    }
    if (stream->cpu != VG_NONE)
        merge->is_recorded[stream->cpu] = true;
    if (stream->described && (!stream->is_of_one_cpu || stream->cpu == VG_NONE))
        merge->knows_cpus = false;
}

struct ctf_merge *
ctf_merge_new(vg_recording *recording, const GPtrArray *streams)
{
    struct ctf_merge *merge = g_new0(struct ctf_merge, 1);

    merge->recording = recording;
    merge->streams = streams;
    merge->heap = g_new0(struct ctf_stream *, streams->len);
    merge->inserted = g_array_new(FALSE, FALSE, sizeof(struct vg_event));
    merge->knows_cpus = true;
    merge->now = INT64_MIN;
    for (unsigned int i = 0; i < streams->len; i++) {
        struct ctf_stream *stream = g_ptr_array_index(streams, i);
        stream->index = i;
        begin_stream(merge, stream);
    }
    for (size_t i = merge->heap_size / 2; i-- > 0;)
        sift_down(merge, i);
    return merge;
}

void
ctf_merge_free(struct ctf_merge *merge)
{
    if (!merge)
        return;
    g_array_unref(merge->inserted);
    g_free(merge->heap);
    g_free(merge);
}

static void
begin_pause(struct ctf_stream *stream, const struct vg_event *pause)
{
    stream->pauses = true;
    stream->pause_begin_ns = (int64_t)pause->lost.events;
    stream->pause_end_ns = pause->lost.end_ns;
}

bool
ctf_merge_next(struct ctf_merge *merge, struct vg_event *ret_event)
{
    while (merge->inserted->len == 0) {
        if (merge->heap_size == 0)
            return false;
        struct ctf_stream *top = merge->heap[0];
        *ret_event = *ctf_stream_peek(top);
        if (ret_event->type == CTF_EVENT_PAUSE) {
            begin_pause(top, ret_event);
            advance(merge);
            continue;
        }
        if (top->pauses && ret_event->ts_ns != VG_TIME_UNKNOWN)
            end_pause(merge, top);
        if (merge->knows_cpus)
            check_target(merge, ret_event);
        if (merge->inserted->len > 0)
            break;
        advance(merge);
        top->trace->begun = true;
        merge->now = MAX(merge->now, ret_event->ts_ns);
        return true;
    }
    *ret_event = g_array_index(merge->inserted, struct vg_event, 0);
    g_array_remove_index(merge->inserted, 0);
    return true;
}
