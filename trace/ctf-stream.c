/* SPDX-License-Identifier: Apache-2.0
 *
 * Events of a packet are delayed before they may be taken. If the decoder fails in that packet, the
 * last ones before the failure may already be wrong and are discarded.
 */
#include "config.h"

#include "trace/ctf-stream.h"

#include <string.h>

/* The number of events before a decoding error that are not reliable. Random bytes decode as one of
 * LTTng's compact events with a probability of (event classes)/32 each, so a wrong event is
 * unlikely to be further back. In a file that is merely truncated, only the last event can be
 * wrong. */
#define HOLD_GARBLED 8
#define HOLD_CUT     1

/* ---- what the first message tells ---- */

static const char *
ctf_stream_path_of(const struct ctf_stream *stream)
{
    return stream->path ? stream->path : stream->trace->dir;
}

/* Learns the path from which babeltrace2 read the stream. In a private directory, the name is that
 * of the original. */
static void
learn_path(struct ctf_stream *stream, const bt_stream *bt)
{
    const char *name = bt_stream_get_name(bt);

    if (!stream->path && name) {
        g_autofree char *base = g_path_get_basename(name);
        stream->path = g_build_filename(stream->trace->dir, base, NULL);
    }
    if (stream->path && stream->file.fd < 0)
        ctf_file_open(&stream->file, stream->path, NULL);
}

static void
ctf_stream_describe(struct ctf_stream *stream, const bt_stream *bt)
{
    if (stream->decoder.described)
        return;
    stream->decoder.aliases = stream->recording->aliases;
    ctf_decoder_describe(&stream->decoder, bt, stream->trace->dir);
    stream->decoder.has_gpu = ctf_decoder_learn_events(bt, stream->recording);
    learn_path(stream, bt);
    if (!stream->decoder.clock_key)
        vg_recording_problem(stream->recording, ctf_stream_path_of(stream), 0,
                             "the stream has no clock, so the times of its events are unknown");
    if (stream->trace->env_known)
        return;
    stream->trace->env_known = true;
    ctf_decoder_init_env(bt, stream->recording->names, &stream->trace->env);
    g_autofree char *metadata = g_build_filename(stream->trace->dir, "metadata", NULL);
    ctf_decoder_read_vms(bt, stream->recording, metadata);
}

/* ---- the queue ---- */

static bool
is_cut(const struct ctf_stream *stream)
{
    return stream->segment.padded > stream->segment.length;
}

static int64_t
packet_offset(const struct ctf_stream *stream)
{
    return stream->segment.offset + stream->packet_at;
}

static struct vg_event *
queue_slot(struct ctf_stream *stream)
{
    if (stream->fill == stream->capacity && stream->head > 0) {
        size_t kept = stream->fill - stream->head;
        memmove(stream->queue, stream->queue + stream->head, kept * sizeof(*stream->queue));
        stream->packet_fill -= MIN(stream->packet_fill, stream->head);
        stream->visible -= stream->head;
        stream->fill = kept;
        stream->head = 0;
    }
    if (stream->fill == stream->capacity) {
        stream->capacity = MAX(64, stream->capacity * 2);
        stream->queue = g_renew(struct vg_event, stream->queue, stream->capacity);
    }
    return &stream->queue[stream->fill];
}

/* Counts the completed event in queue_slot(), with a time not before the last one's. */
static void
queue_commit(struct ctf_stream *stream)
{
    struct vg_event *event = &stream->queue[stream->fill];

    stream->last_rejected = false;
    stream->fill++;
    if (event->ts_ns == VG_TIME_UNKNOWN)
        return;
    if (stream->any && event->ts_ns < stream->last_ts) {
        if (event->type != VG_EVENT_LOST)
            stream->recording->backwards++;
        if (!stream->backwards_told)
            vg_recording_problem(
                stream->recording, ctf_stream_path_of(stream), packet_offset(stream),
                "time runs backwards by %" G_GINT64_FORMAT " ns; events get the stream's last time",
                stream->last_ts - event->ts_ns);
        stream->backwards_told = true;
        event->ts_ns = stream->last_ts;
    }
    stream->last_ts = event->ts_ns;
    stream->any = true;
}

/* Queues a mark for the merge. It does not count as the stream's last time, which a garbled packet
 * would distort. */
static void
queue_mark(struct ctf_stream *stream, unsigned int type, int64_t ts_ns, int64_t covered_ns)
{
    *queue_slot(stream) = (struct vg_event){
        .ts_ns = ts_ns,
        .type = (uint16_t)type,
        .stream = stream->index,
        .lost.end_ns = covered_ns,
    };
    stream->fill++;
}

/* Called before an event of the packet, or at its end. */
static void
queue_resume(struct ctf_stream *stream, int64_t limit_ns)
{
    if (stream->resume_due)
        queue_mark(stream, CTF_EVENT_RESUME, MIN(stream->packet_begin_ns, limit_ns), 0);
    stream->resume_due = false;
}

/* ---- messages ---- */

static void
ctf_stream_reject(struct ctf_stream *stream, const char *why)
{
    stream->recording->rejected++;
    stream->last_rejected = true;
    if (stream->reject_told)
        return;
    stream->reject_told = true;
    vg_recording_problem(stream->recording, ctf_stream_path_of(stream), packet_offset(stream),
                         "records of this packet are ignored, the first because of: %s", why);
}

static void
ctf_stream_on_event(struct ctf_stream *stream, const bt_message *message)
{
    const bt_event *record = bt_message_event_borrow_event_const(message);
    struct vg_event *event = queue_slot(stream);

    if (!stream->decoder.clock_key)
        return;
    if (!ctf_clock_to_ns(&stream->decoder.clock,
                         bt_message_event_borrow_default_clock_snapshot_const(message),
                         &event->ts_ns)) {
        ctf_stream_reject(stream, "invalid time");
        return;
    }
    if (event->ts_ns > stream->latest_ns) {
        ctf_stream_reject(stream, "time after the packet's end");
        return;
    }
    event->cpu = (int16_t)stream->cpu;
    event->stream = stream->index;
    const struct vg_binding *binding =
        ctf_decoder_binding(&stream->decoder, bt_event_borrow_class_const(record));
    const char *why = vg_binding_read(binding, &stream->trace->env, record, event);
    if (why) {
        ctf_stream_reject(stream, why);
        return;
    }
    /* perf first describes existing processes, at time 0 or while it starts. */
    if (binding->is_perf_record && !stream->any)
        event->ts_ns = VG_TIME_UNKNOWN;
    if (stream->resume_due) {
        const struct vg_event waits = *event;
        queue_resume(stream, event->ts_ns);
        *queue_slot(stream) = waits;
    }
    queue_commit(stream);
}

static void
emit_loss(struct ctf_stream *stream, int64_t end_ns)
{
    if (!stream->loss_pending)
        return;
    stream->loss_pending = false;
    /* Before the stream's first event, the start of the loss is unknown. */
    if (stream->loss.ts_ns == 0 && !stream->any) {
        if (end_ns == INT64_MAX)
            return;
        stream->loss.ts_ns = end_ns;
    }
    struct vg_event *event = queue_slot(stream);
    *event = stream->loss;
    event->cpu = (int16_t)stream->cpu;
    event->lost.no_gpu = !stream->decoder.has_gpu;
    event->lost.end_ns = MAX(event->ts_ns, MIN(event->lost.end_ns, end_ns));
    queue_commit(stream);
}

/* Reports losses. A loss is reported before the packet that follows it, with a range that may
 * extend into that packet. Nothing is missing there, so the loss ends where the packet starts. */
static void
note_loss(struct ctf_stream *stream, int64_t begin_ns, int64_t end_ns, uint64_t events,
          uint64_t packets)
{
    if (!stream->loss_pending) {
        stream->loss = (struct vg_event){
            .ts_ns = begin_ns,
            .type = VG_EVENT_LOST,
            .tid = VG_NONE,
            .pid = VG_NONE,
            .stream = stream->index,
        };
        stream->loss_pending = true;
    }
    stream->loss.lost.end_ns = MAX(stream->loss.lost.end_ns, end_ns);
    stream->loss.lost.events += events;
    stream->loss.lost.packets += packets;
}

static void
on_discarded_events(struct ctf_stream *stream, const bt_message *message)
{
    const bt_stream_class *stream_class =
        bt_stream_borrow_class_const(bt_message_discarded_events_borrow_stream_const(message));
    int64_t begin = stream->last_ts, end = INT64_MAX;
    uint64_t count = 0;

    if (bt_stream_class_discarded_events_have_default_clock_snapshots(stream_class)) {
        ctf_clock_to_ns(
            &stream->decoder.clock,
            bt_message_discarded_events_borrow_beginning_default_clock_snapshot_const(message),
            &begin);
        ctf_clock_to_ns(
            &stream->decoder.clock,
            bt_message_discarded_events_borrow_end_default_clock_snapshot_const(message), &end);
    }
    if (bt_message_discarded_events_get_count(message, &count) !=
        BT_PROPERTY_AVAILABILITY_AVAILABLE)
        count = 0;
    note_loss(stream, MAX(begin, stream->last_ts), end, count, 0);
}

static void
on_discarded_packets(struct ctf_stream *stream, const bt_message *message)
{
    const bt_stream_class *stream_class =
        bt_stream_borrow_class_const(bt_message_discarded_packets_borrow_stream_const(message));
    int64_t begin = stream->last_ts, end = INT64_MAX;
    uint64_t count = 1;

    if (bt_stream_class_discarded_packets_have_default_clock_snapshots(stream_class)) {
        ctf_clock_to_ns(
            &stream->decoder.clock,
            bt_message_discarded_packets_borrow_beginning_default_clock_snapshot_const(message),
            &begin);
        ctf_clock_to_ns(
            &stream->decoder.clock,
            bt_message_discarded_packets_borrow_end_default_clock_snapshot_const(message), &end);
    }
    if (bt_message_discarded_packets_get_count(message, &count) !=
        BT_PROPERTY_AVAILABILITY_AVAILABLE)
        count = 1;
    note_loss(stream, MAX(begin, stream->last_ts), end, 0, count);
}

/* Limits the times of events. Otherwise, garbled times would distort the whole recording. */
static int64_t
latest_in_packet(const struct ctf_stream *stream, const struct ctf_head *head, int64_t begin_ns)
{
    int64_t told_begin_ns, end_ns;

    if (!head->has_times ||
        !ctf_clock_cycles_to_ns(&stream->decoder.clock, head->begin, &told_begin_ns) ||
        told_begin_ns != begin_ns || head->end == 0 ||
        !ctf_clock_cycles_to_ns(&stream->decoder.clock, head->end, &end_ns))
        return INT64_MAX;
    return MAX(end_ns, begin_ns) + stream->decoder.after_end_ns;
}

static void
follow_coverage(struct ctf_stream *stream, const struct ctf_head *head, int64_t begin_ns)
{
    int64_t end_ns;

    if (!stream->decoder.has_coverage)
        return;
    bool gap = stream->covered_ns != CTF_COVERAGE_UNKNOWN && begin_ns > stream->covered_ns;
    if (gap)
        queue_mark(stream, CTF_EVENT_PAUSE, stream->last_ts, stream->covered_ns);
    stream->resume_due = gap || !stream->any_packet;
    stream->any_packet = true;
    stream->covered_ns = CTF_COVERAGE_UNKNOWN;
    if (head->has_times && head->end >= head->begin &&
        ctf_clock_cycles_to_ns(&stream->decoder.clock, head->end, &end_ns))
        stream->covered_ns = MAX(end_ns, begin_ns);
}

/* Handles losses at the end of a packet. LTTng discards events while there is no space for the next
 * packet. If packets follow each other without a gap, events are missing at the end of the packet
 * that reports them, not before it. */
static void
defer_loss(struct ctf_stream *stream, int64_t begin_ns)
{
    stream->lost_in_packet = 0;
    if (!stream->decoder.has_coverage || !stream->loss_pending || stream->loss.lost.packets > 0 ||
        stream->loss.ts_ns < begin_ns || stream->covered_ns == CTF_COVERAGE_UNKNOWN)
        return;
    stream->lost_in_packet = stream->loss.lost.events;
    stream->loss_pending = false;
}

static void
emit_deferred_loss(struct ctf_stream *stream)
{
    uint64_t events = stream->lost_in_packet;

    if (events == 0)
        return;
    stream->lost_in_packet = 0;
    note_loss(stream, MAX(stream->last_ts, stream->packet_begin_ns), stream->covered_ns, events, 0);
    emit_loss(stream, stream->covered_ns);
}

static void
on_packet_beginning(struct ctf_stream *stream, const bt_message *message)
{
    const bt_packet *packet = bt_message_packet_beginning_borrow_packet_const(message);
    const bt_stream_class *stream_class =
        bt_stream_borrow_class_const(bt_packet_borrow_stream_const(packet));
    struct ctf_head head;
    int64_t told_cpu;

    /* babeltrace2 does not report the sizes in the packet context. */
    stream->packet_at += stream->packet_length;
    if (!ctf_head_read(&stream->trace->layout, &stream->file, packet_offset(stream), &head))
        head = (struct ctf_head){0};
    stream->packet_length = head.packet_size;
    if (!ctf_packet_cpu(packet, &told_cpu, &stream->cpu)) {
        if (!stream->cpu_told)
            vg_recording_problem(stream->recording, ctf_stream_path_of(stream),
                                 packet_offset(stream),
                                 "the packets do not name their CPU, so the threads that ran and "
                                 "waited are unknown");
        stream->cpu_told = true;
    } else if (stream->cpu == VG_NONE) {
        vg_recording_problem(stream->recording, ctf_stream_path_of(stream), packet_offset(stream),
                             "the packet names the invalid CPU %" G_GINT64_FORMAT, told_cpu);
    }
    int64_t begin_ns = stream->last_ts;
    if (stream->decoder.clock_key &&
        bt_stream_class_packets_have_beginning_default_clock_snapshot(stream_class))
        ctf_clock_to_ns(&stream->decoder.clock,
                        bt_message_packet_beginning_borrow_default_clock_snapshot_const(message),
                        &begin_ns);
    stream->latest_ns = latest_in_packet(stream, &head, begin_ns);
    stream->packet_begin_ns = begin_ns;
    if (!stream->has_begun) {
        stream->has_begun = true;
        stream->first_begin_ns = begin_ns;
        stream->first_seq = head.seq;
    }
    follow_coverage(stream, &head, begin_ns);
    defer_loss(stream, begin_ns);
    emit_loss(stream, begin_ns);
    stream->visible = stream->fill;
    stream->packet_fill = stream->fill;
    stream->in_packet = true;
    stream->last_rejected = false;
    stream->reject_told = false;
}

static void
on_message(void *data, const bt_message *message)
{
    struct ctf_stream *stream = data;

    switch (bt_message_get_type(message)) {
    case BT_MESSAGE_TYPE_STREAM_BEGINNING:
        ctf_stream_describe(stream, bt_message_stream_beginning_borrow_stream_const(message));
        break;
    case BT_MESSAGE_TYPE_EVENT:
        ctf_stream_on_event(stream, message);
        break;
    case BT_MESSAGE_TYPE_PACKET_BEGINNING:
        on_packet_beginning(stream, message);
        break;
    case BT_MESSAGE_TYPE_PACKET_END:
        /* Padding may have completed the last event of a truncated packet. on_cut_end() decides. */
        if (!is_cut(stream)) {
            queue_resume(stream, INT64_MAX);
            emit_deferred_loss(stream);
            stream->visible = stream->fill;
        }
        stream->in_packet = false;
        break;
    case BT_MESSAGE_TYPE_DISCARDED_EVENTS:
        on_discarded_events(stream, message);
        break;
    case BT_MESSAGE_TYPE_DISCARDED_PACKETS:
        on_discarded_packets(stream, message);
        break;
    case BT_MESSAGE_TYPE_STREAM_END:
    case BT_MESSAGE_TYPE_MESSAGE_ITERATOR_INACTIVITY:
        break;
    }
}

/* ---- damage ---- */

static size_t
hold_of(const struct ctf_stream *stream)
{
    if (is_cut(stream))
        return stream->last_rejected ? 0 : HOLD_CUT;
    return HOLD_GARBLED;
}

/* Opens a separate graph for one readable run of packets. */
static int
open_segment(struct ctf_stream *stream, GError **err)
{
    g_autofree char *private_dir = ctf_private_dir_new(stream->trace->dir, false, err);

    if (!private_dir)
        return -1;
    if (ctf_private_dir_copy(private_dir, stream->path, &stream->segment, err) == 0)
        stream->graph = ctf_graph_open(private_dir, err);
    stream->port = 0;
    /* The first pull makes babeltrace2 open the file, which can then be unlinked. */
    if (stream->graph &&
        ctf_graph_pull(stream->graph, 0, on_message, stream, err) == CTF_PULL_FAILED)
        g_clear_pointer(&stream->graph, ctf_graph_unref);
    ctf_private_dir_remove(private_dir);
    return stream->graph ? 0 : -1;
}

static void
start_segment(struct ctf_stream *stream)
{
    stream->packet_at = 0;
    stream->packet_length = 0;
    stream->in_packet = false;
    ctf_decoder_forget_classes(&stream->decoder);
}

/* Continues with what is readable at or after `from`, if anything is. */
static void
resume_at(struct ctf_stream *stream, int64_t from)
{
    if (!stream->path) /* the damaged file is unknown */
        return;
    while (!stream->graph) {
        g_autoptr(GError) error = NULL;
        int found =
            ctf_segment_next(&stream->trace->layout, stream->path, from, &stream->segment, &error);
        if (found == 1 && stream->segment.offset > from)
            vg_recording_problem(stream->recording, stream->path, from,
                                 "%" G_GINT64_FORMAT " bytes are unreadable: no packet starts here",
                                 stream->segment.offset - from);
        if (found < 1) {
            if (error || from < ctf_file_size(stream->path))
                vg_recording_problem(stream->recording, stream->path, from, "%s",
                                     error ? error->message
                                           : "no readable packet from here to the end of the file");
            return;
        }
        start_segment(stream);
        if (open_segment(stream, &error) == 0)
            return;
        vg_recording_problem(stream->recording, stream->path, stream->segment.offset, "%s",
                             error->message);
        from = stream->segment.offset + 1;
    }
}

static void
note_damage(struct ctf_stream *stream, int64_t offset, const GError *error, size_t dropped)
{
    if (is_cut(stream))
        vg_recording_problem(stream->recording, ctf_stream_path_of(stream),
                             stream->segment.offset + stream->segment.length,
                             "the file is truncated here, in the packet at %" G_GINT64_FORMAT
                             "; the event before it is ignored",
                             stream->segment.offset);
    else
        vg_recording_problem(stream->recording, ctf_stream_path_of(stream), offset,
                             "damaged packet; %zu events before the damage are ignored: %s",
                             dropped, error ? error->message : "");
}

/* Finds the time of the last remaining event. Returns false if there is none. */
static bool
find_last_time(const struct ctf_stream *stream, int64_t *ret)
{
    for (size_t i = stream->fill; i > stream->head; i--) {
        const struct vg_event *event = &stream->queue[i - 1];
        if (event->ts_ns != VG_TIME_UNKNOWN && event->type < VG_EVENT_TYPE_MAX) {
            *ret = event->ts_ns;
            return true;
        }
    }
    *ret = stream->delivered ? stream->delivered_ts : stream->packet_begin_ns;
    return stream->delivered;
}

/* Handles an error of the decoder. */
static void
on_failure(struct ctf_stream *stream, const GError *error)
{
    int64_t bad = packet_offset(stream) + (stream->in_packet ? 0 : stream->packet_length);
    int64_t next = stream->in_packet ? bad + MAX(stream->packet_length, 1) : bad + 1;
    size_t dropped = 0;

    if (stream->in_packet || is_cut(stream)) {
        dropped = MIN(hold_of(stream), stream->fill - MIN(stream->fill, stream->packet_fill));
        stream->fill -= dropped;
    }
    stream->visible = stream->fill;
    note_damage(stream, bad, error, dropped);
    stream->any = find_last_time(stream, &stream->last_ts);
    note_loss(stream, stream->last_ts, INT64_MAX, 0, 1);
    stream->lost_in_packet = 0;
    stream->resume_due = false;
    g_clear_pointer(&stream->graph, ctf_graph_unref);
    if (!is_cut(stream))
        resume_at(stream, next);
}

/* Handles a truncated file whose padding was decoded without an error. */
static void
on_cut_end(struct ctf_stream *stream)
{
    if (stream->segment.complete)
        vg_recording_problem(
            stream->recording, ctf_stream_path_of(stream),
            stream->segment.offset + stream->segment.length,
            "the file is truncated here, in the padding of the packet at %" G_GINT64_FORMAT
            "; that packet lost no events",
            stream->segment.offset);
    else
        on_failure(stream, NULL);
}

/* Handles the end of a graph. */
static void
on_end(struct ctf_stream *stream)
{
    int64_t end = stream->segment.offset + stream->segment.length;

    if (is_cut(stream))
        on_cut_end(stream);
    stream->visible = stream->fill;
    g_clear_pointer(&stream->graph, ctf_graph_unref);
    if (stream->segment.length > 0 && !is_cut(stream))
        resume_at(stream, end);
    if (!stream->graph && stream->stops_early)
        note_loss(stream, MAX(stream->covered_ns, stream->last_ts), INT64_MAX, 0, 1);
}

static void
fill_queue(struct ctf_stream *stream)
{
    while (stream->visible == stream->head && stream->graph) {
        g_autoptr(GError) error = NULL;
        switch (ctf_graph_pull(stream->graph, stream->port, on_message, stream, &error)) {
        case CTF_PULL_MORE:
        case CTF_PULL_AGAIN:
            if (stream->fill > stream->visible + HOLD_GARBLED)
                stream->visible = stream->fill - HOLD_GARBLED;
            break;
        case CTF_PULL_END:
            on_end(stream);
            break;
        case CTF_PULL_FAILED:
            on_failure(stream, error);
            break;
        }
    }
    if (!stream->graph && stream->visible == stream->head && stream->loss_pending) {
        emit_loss(stream, INT64_MAX);
        stream->visible = stream->fill;
    }
}

/* ---- the interface ---- */

struct ctf_stream *
ctf_stream_new(vg_recording *recording, struct ctf_trace *trace, struct ctf_graph *graph,
               unsigned int port, const char *path)
{
    struct ctf_stream *stream = g_new0(struct ctf_stream, 1);

    stream->recording = recording;
    stream->trace = trace;
    stream->graph = graph ? ctf_graph_ref(graph) : NULL;
    stream->port = port;
    stream->path = g_strdup(path);
    stream->cpu = VG_NONE;
    stream->latest_ns = INT64_MAX;
    stream->covered_ns = CTF_COVERAGE_UNKNOWN;
    stream->file.fd = -1;
    ctf_decoder_init(&stream->decoder);
    if (!graph)
        resume_at(stream, 0);
    return stream;
}

void
ctf_stream_free(struct ctf_stream *stream)
{
    if (!stream)
        return;
    ctf_graph_unref(stream->graph);
    ctf_file_close(&stream->file);
    ctf_decoder_clear(&stream->decoder);
    g_clear_pointer(&stream->twins, g_ptr_array_unref);
    g_free(stream->queue);
    g_free(stream->path);
    g_free(stream);
}

const struct vg_event *
ctf_stream_peek(struct ctf_stream *stream)
{
    if (stream->head == stream->visible)
        fill_queue(stream);
    return stream->head < stream->visible ? &stream->queue[stream->head] : NULL;
}

void
ctf_stream_pop(struct ctf_stream *stream)
{
    const struct vg_event *event = &stream->queue[stream->head++];
    if (event->ts_ns != VG_TIME_UNKNOWN && event->type < VG_EVENT_TYPE_MAX) {
        stream->delivered_ts = event->ts_ns;
        stream->delivered = true;
    }
    if (stream->head == stream->fill)
        stream->head = stream->visible = stream->fill = stream->packet_fill = 0;
}

int64_t
ctf_stream_position(const struct ctf_stream *stream)
{
    return packet_offset(stream) + stream->packet_length;
}
