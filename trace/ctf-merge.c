/* SPDX-License-Identifier: Apache-2.0
 *
 * A binary heap of the streams that still have events, the earliest on top.
 *
 * Each stream is either covered (in a packet, or between two that follow each other without a gap),
 * or it pauses: before its first packet, after its last one, and where a packet starts later than
 * the previous one ended. LTTng leaves such gaps where tracing was stopped, but also after a packet
 * that was flushed half full, until the next event. If all streams pause at the same time, nothing
 * was recorded, provided that the pause separates two sessions or is longer than a host can be
 * silent.
 *
 * Snapshots of one session contain its buffers, so one may repeat the end of the previous one.
 */
#include "config.h"

#include "trace/ctf-merge.h"

#include <string.h>

#include "trace/absent-cpus.h"
#include "trace/ctf-stream.h"
#include "trace/late-cpus.h"

/* On a traced host, at least one CPU writes events more often than this, especially after buffers
 * were flushed, which wakes the waiting programs. */
#define SILENCE_NS INT64_C(200000000)

/* The sub-buffers of an LTTng channel have the same size. If a packet has less space left than
 * this, its sub-buffer was full, and the next event started another one. */
#define ROOM_OF_FULL_PACKET 256

/* The end of a stream according to its file. */
struct ctf_end {
    int64_t ns;            /* end of its last packet; VG_TIME_UNKNOWN: not reported */
    int64_t largest;       /* of the largest packet, in bytes */
    int64_t size, content; /* of the last one */
};

struct ctf_merge {
    vg_recording *recording;
    const GPtrArray *streams;
    struct ctf_stream **heap;
    size_t heap_size;
    GArray *inserted;     /* struct vg_event: delivered before the heap's events */
    unsigned int n_given; /* number of delivered ones */
    int64_t now;          /* time of the last delivered event */
};

/* ---- the heap ---- */

/* Streams with equal times keep the order of discovery. */
static bool
ctf_merge_is_before(struct ctf_stream *a, struct ctf_stream *b)
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
        if (child + 1 < merge->heap_size && ctf_merge_is_before(heap[child + 1], heap[child]))
            child++;
        if (!ctf_merge_is_before(heap[child], moved))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moved;
}

/* Advances past the top event. */
static void
ctf_merge_advance(struct ctf_merge *merge)
{
    struct ctf_stream *top = merge->heap[0];

    ctf_stream_pop(top);
    if (!ctf_stream_peek(top)) {
        top->ended = true;
        top->pauses = true;
        top->pause_begin_ns =
            top->covered_ns == CTF_COVERAGE_UNKNOWN ? top->delivered_ts : top->covered_ns;
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

/* Returns whether a stream shows if the scheduler was recorded. Streams without sched_switch (of
 * other channels, of programs) do not. */
static bool
is_watch(const struct ctf_stream *stream)
{
    return stream->decoder.described && stream->decoder.has_switch;
}

/* Finds the time for which all streams pause, up to now_ns. Returns false if they do not. */
static bool
find_common_pause(const struct ctf_merge *merge, int64_t now_ns, int64_t *ret_begin_ns)
{
    int64_t begin_ns = INT64_MIN;

    for (unsigned int i = 0; i < merge->streams->len; i++) {
        const struct ctf_stream *stream = g_ptr_array_index(merge->streams, i);
        if (!is_watch(stream))
            continue;
        if (!stream->pauses)
            return false;
        begin_ns = MAX(begin_ns, stream->pause_begin_ns);
    }
    *ret_begin_ns = MAX(begin_ns, merge->now);
    return begin_ns != INT64_MIN && *ret_begin_ns < now_ns;
}

static bool
is_same_trace(const struct ctf_trace *a, const struct ctf_trace *b)
{
    return a == b || (a->layout.n_uuids > 0 && b->layout.n_uuids > 0 &&
                      memcmp(a->layout.uuids[0], b->layout.uuids[0], CTF_UUID_SIZE) == 0);
}

/* Returns whether the trace, or its part before a rotation, appeared earlier. */
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

static void
lose_all(struct ctf_merge *merge, int64_t begin_ns, int64_t end_ns)
{
    bool done[VG_CPU_LIMIT] = {false};

    for (unsigned int i = 0; i < merge->streams->len; i++) {
        const struct ctf_stream *stream = g_ptr_array_index(merge->streams, i);
        if (!stream->trace->begun || stream->cpu == VG_NONE || done[stream->cpu])
            continue;
        insert_loss(merge, stream->cpu, begin_ns, end_ns);
        done[stream->cpu] = true;
    }
}

/* Handles a stream that continues after a pause. If all streams paused, the recording may have been
 * stopped in the meantime. */
static void
end_pause(struct ctf_merge *merge, struct ctf_stream *stream, int64_t now_ns)
{
    int64_t begin_ns;
    bool all = is_watch(stream) && find_common_pause(merge, now_ns, &begin_ns);

    stream->pauses = false;
    if (all && (now_ns - begin_ns >= SILENCE_NS || !has_begun(merge, stream->trace)))
        lose_all(merge, begin_ns, now_ns);
}

/* Returns whether an earlier snapshot also contains this time of the stream, and therefore the
 * event. */
static bool
is_repeated(const struct ctf_stream *stream, int64_t t_ns)
{
    for (unsigned int i = 0; stream->twins && i < stream->twins->len; i++) {
        const struct ctf_stream *twin = g_ptr_array_index(stream->twins, i);
        if ((twin->delivered && t_ns <= twin->delivered_ts) || (!twin->ended && !twin->pauses))
            return true;
    }
    return false;
}

/* Reports the loss of a CPU without a stream that an event names. LTTng and perf have a stream per
 * CPU. If it is missing, the file was removed or never created, and it is unknown when a thread
 * that is woken there runs. */
static void
check_target(struct ctf_merge *merge, struct ctf_trace *trace, const struct vg_event *event)
{
    const int32_t cpu = vg_absent_cpus_target(event);

    if (cpu == VG_NONE || trace->known_cpus[cpu / 64] >> (cpu % 64) & 1)
        return;
    trace->known_cpus[cpu / 64] |= UINT64_C(1) << (cpu % 64); /* reported once */
    const struct vg_event loss = vg_absent_cpu_loss(cpu, event->ts_ns);
    g_array_append_val(merge->inserted, loss);
}

/* ---- the interface ---- */

static void
begin_stream(struct ctf_merge *merge, struct ctf_stream *stream)
{
    struct ctf_trace *trace = stream->trace;

    trace->check_targets = true;
    stream->pauses = true;
    stream->pause_begin_ns = INT64_MIN;
    if (ctf_stream_peek(stream))
        merge->heap[merge->heap_size++] = stream;
    if (!is_watch(stream))
        return;
    if (stream->cpu == VG_NONE || !stream->decoder.is_of_one_cpu)
        trace->has_vague_cpus = true;
    else
        trace->recorded_cpus[stream->cpu / 64] |= UINT64_C(1) << (stream->cpu % 64);
    if (stream->cpu != VG_NONE && stream->decoder.is_of_one_cpu)
        merge->recording->stream_cpus[stream->cpu / 64] |= UINT64_C(1) << (stream->cpu % 64);
}

static GPtrArray *
list_traces(const GPtrArray *streams)
{
    GPtrArray *traces = g_ptr_array_new();

    for (unsigned int i = 0; i < streams->len; i++) {
        const struct ctf_stream *stream = g_ptr_array_index(streams, i);
        if (!g_ptr_array_find(traces, stream->trace, NULL))
            g_ptr_array_add(traces, stream->trace);
    }
    return traces;
}

/* Learns which CPUs have streams in other traces. These may record other CPUs of the host at the
 * same time, unlike another part of the same trace after a rotation. */
static void
learn_cpus(const GPtrArray *streams)
{
    g_autoptr(GPtrArray) traces = list_traces(streams);

    for (unsigned int i = 0; i < traces->len; i++) {
        struct ctf_trace *trace = g_ptr_array_index(traces, i);
        for (unsigned int j = 0; j < traces->len; j++) {
            const struct ctf_trace *other = g_ptr_array_index(traces, j);
            if (other != trace && is_same_trace(other, trace))
                continue;
            trace->check_targets = trace->check_targets && !other->has_vague_cpus;
            for (size_t w = 0; w < G_N_ELEMENTS(trace->known_cpus); w++)
                trace->known_cpus[w] |= other->recorded_cpus[w];
        }
    }
}

static bool
is_twin(const struct ctf_stream *a, const struct ctf_stream *b)
{
    return a->trace != b->trace && a->decoder.class_id == b->decoder.class_id && a->cpu == b->cpu &&
           a->decoder.has_coverage && b->decoder.has_coverage && a->cpu != VG_NONE &&
           is_same_trace(a->trace, b->trace);
}

static void
learn_twins(const GPtrArray *streams)
{
    for (unsigned int i = 0; i < streams->len; i++) {
        struct ctf_stream *stream = g_ptr_array_index(streams, i);
        for (unsigned int j = 0; j < i; j++) {
            struct ctf_stream *earlier = g_ptr_array_index(streams, j);
            if (!is_twin(stream, earlier))
                continue;
            if (!stream->twins)
                stream->twins = g_ptr_array_new();
            g_ptr_array_add(stream->twins, earlier);
        }
    }
}

/* Returns whether this is the continuation of another trace, as after a rotation. */
static bool
ctf_merge_continues(const GPtrArray *streams, const struct ctf_stream *stream)
{
    for (unsigned int i = 0; i < streams->len; i++) {
        const struct ctf_stream *other = g_ptr_array_index(streams, i);
        if (other != stream && other->has_begun && is_twin(other, stream) &&
            other->first_begin_ns < stream->first_begin_ns)
            return true;
    }
    return false;
}

/* Returns whether another trace is the continuation of this one. */
static bool
ctf_merge_is_continued(const GPtrArray *streams, const struct ctf_stream *stream)
{
    for (unsigned int i = 0; i < streams->len; i++) {
        const struct ctf_stream *other = g_ptr_array_index(streams, i);
        if (other != stream && other->has_begun && is_twin(other, stream) &&
            other->first_begin_ns > stream->first_begin_ns)
            return true;
    }
    return false;
}

/* Reads the headers of all packets in the stream's file. */
static struct ctf_end
ctf_merge_read_end(const struct ctf_stream *stream)
{
    const struct ctf_layout *layout = &stream->trace->layout;
    struct ctf_end end = {.ns = VG_TIME_UNKNOWN};
    struct ctf_head head;
    int64_t ns;

    if (!layout->has_sizes || stream->file.fd < 0 || !stream->decoder.clock_key)
        return end;
    for (int64_t offset = 0; offset < stream->file.size; offset += head.packet_size) {
        if (!ctf_head_read(layout, &stream->file, offset, &head) || !head.sane)
            break;
        end.size = head.packet_size;
        end.content = head.content_size;
        end.largest = MAX(end.largest, head.packet_size);
        if (head.has_times && head.end != 0 &&
            ctf_clock_cycles_to_ns(&stream->decoder.clock, head.end, &ns))
            end.ns = MAX(end.ns, ns);
    }
    return end;
}

/* Returns whether each of the trace's streams has one file. Otherwise, the end of a file is not
 * that of its stream. */
static bool
ctf_merge_has_file_each(const GPtrArray *streams, const struct ctf_trace *trace)
{
    unsigned int n = 0;

    for (unsigned int i = 0; i < streams->len; i++) {
        const struct ctf_stream *stream = g_ptr_array_index(streams, i);
        n += stream->trace == trace;
    }
    return n >= trace->paths->len;
}

/* Finds streams whose last packets are missing without damage, for example because a copy ended
 * between two packets. The last existing packet was full, so there was a next one, and other
 * streams of the trace continue for longer than a host can be silent. A CPU that was merely silent
 * leaves a packet that is not full. */
static void
ctf_merge_find_short(struct ctf_merge *merge, const struct ctf_end *ends)
{
    const GPtrArray *streams = merge->streams;

    for (unsigned int i = 0; i < streams->len; i++) {
        struct ctf_stream *stream = g_ptr_array_index(streams, i);
        int64_t largest = ends[i].largest, end_ns = ends[i].ns;
        if (!stream->decoder.has_coverage || end_ns == VG_TIME_UNKNOWN || stream->cpu == VG_NONE ||
            ends[i].size - ends[i].content >= ROOM_OF_FULL_PACKET)
            continue;
        for (unsigned int j = 0; j < streams->len; j++) {
            const struct ctf_stream *other = g_ptr_array_index(streams, j);
            if (!is_same_trace(other->trace, stream->trace))
                continue;
            end_ns = MAX(end_ns, ends[j].ns);
            if (other->decoder.class_id == stream->decoder.class_id)
                largest = MAX(largest, ends[j].largest);
        }
        if (ends[i].size < largest || end_ns - ends[i].ns < SILENCE_NS ||
            !ctf_merge_has_file_each(streams, stream->trace) ||
            ctf_merge_is_continued(streams, stream))
            continue;
        stream->stops_early = true;
        vg_recording_problem(merge->recording, stream->path, stream->file.size,
                             "the file ends here with a full packet, %.3f s before other files of "
                             "its trace, so packets are missing",
                             (double)(end_ns - ends[i].ns) / 1e9);
    }
}

/* Handles a stream that does not start with its first packet: the earlier ones were overwritten. */
static void
ctf_merge_find_late(struct ctf_merge *merge, const struct ctf_end *ends)
{
    vg_recording *recording = merge->recording;
    int64_t begin_ns = INT64_MAX, end_ns = VG_TIME_UNKNOWN;

    for (unsigned int i = 0; i < merge->streams->len; i++) {
        const struct ctf_stream *stream = g_ptr_array_index(merge->streams, i);
        if (stream->has_begun)
            begin_ns = MIN(begin_ns, stream->first_begin_ns);
    }
    for (unsigned int i = 0; i < merge->streams->len; i++) {
        const struct ctf_stream *stream = g_ptr_array_index(merge->streams, i);
        if (stream->has_begun && stream->first_seq > 0 && stream->cpu != VG_NONE &&
            stream->first_begin_ns > begin_ns && !ctf_merge_continues(merge->streams, stream))
            vg_late_cpus_add(recording->late, stream->cpu, stream->first_begin_ns);
    }
    if (recording->late->len == 0)
        return;
    for (unsigned int i = 0; i < merge->streams->len; i++)
        end_ns = MAX(end_ns, ends[i].ns);
    recording->length_ns = MAX(end_ns - begin_ns, 0);
    vg_late_cpus_report(recording, begin_ns);
    for (guint i = 0; i < recording->late->len; i++) {
        const struct vg_event loss =
            vg_late_cpu_loss(&g_array_index(recording->late, struct vg_late_cpu, i), begin_ns);
        g_array_append_val(merge->inserted, loss);
    }
}

struct ctf_merge *
ctf_merge_new(vg_recording *recording, const GPtrArray *streams)
{
    struct ctf_merge *merge = g_new0(struct ctf_merge, 1);

    merge->recording = recording;
    merge->streams = streams;
    merge->heap = g_new0(struct ctf_stream *, streams->len);
    merge->inserted = g_array_new(FALSE, FALSE, sizeof(struct vg_event));
    merge->now = INT64_MIN;
    for (unsigned int i = 0; i < streams->len; i++) {
        struct ctf_stream *stream = g_ptr_array_index(streams, i);
        stream->index = i;
        begin_stream(merge, stream);
    }
    learn_cpus(streams);
    learn_twins(streams);
    for (size_t i = merge->heap_size / 2; i-- > 0;)
        sift_down(merge, i);
    g_autofree struct ctf_end *ends = g_new0(struct ctf_end, streams->len);
    for (unsigned int i = 0; i < streams->len; i++)
        ends[i] = ctf_merge_read_end(g_ptr_array_index(streams, i));
    ctf_merge_find_late(merge, ends);
    ctf_merge_find_short(merge, ends);
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

/* Removes a mark from the heap. */
static void
take_mark(struct ctf_merge *merge, struct ctf_stream *top, const struct vg_event *mark)
{
    if (mark->type == CTF_EVENT_RESUME) {
        end_pause(merge, top, mark->ts_ns);
    } else {
        top->pauses = true;
        top->pause_begin_ns = mark->lost.end_ns;
    }
    ctf_merge_advance(merge);
}

/* Checks the top event. Returns whether it can be delivered now, which is not the case if losses
 * come before it. */
static bool
take_event(struct ctf_merge *merge, struct vg_event *ret_event)
{
    struct ctf_stream *top = merge->heap[0];

    *ret_event = *ctf_stream_peek(top);
    if (ret_event->type >= VG_EVENT_TYPE_MAX) {
        take_mark(merge, top, ret_event);
        return false;
    }
    if (is_repeated(top, ret_event->ts_ns)) {
        ctf_merge_advance(merge);
        return false;
    }
    if (top->pauses && ret_event->ts_ns != VG_TIME_UNKNOWN && ret_event->type != VG_EVENT_LOST)
        end_pause(merge, top, ret_event->ts_ns);
    if (top->trace->check_targets)
        check_target(merge, top->trace, ret_event);
    if (merge->inserted->len > 0)
        return false;
    ctf_merge_advance(merge);
    top->trace->begun = true;
    merge->now = MAX(merge->now, ret_event->ts_ns);
    return true;
}

bool
ctf_merge_next(struct ctf_merge *merge, struct vg_event *ret_event)
{
    for (;;) {
        if (merge->n_given < merge->inserted->len) {
            *ret_event = g_array_index(merge->inserted, struct vg_event, merge->n_given++);
            return true;
        }
        g_array_set_size(merge->inserted, 0);
        merge->n_given = 0;
        if (merge->heap_size == 0)
            return false;
        if (take_event(merge, ret_event))
            return true;
    }
}
