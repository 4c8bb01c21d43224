/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages of all streams come in batches, in order of time. Events wait in a queue until they are
 * read. If a packet reports that events are missing at its end, the queue is held until that end
 * has come, so that the loss is reported in its place.
 */
#include "config.h"

#include "trace/ctf-live.h"

#include <string.h>

#include <stdatomic.h>

#include "base/error.h"
#include "trace/ctf-decode.h"
#include "trace/ctf-graph.h"

/* If the packet of a loss does not end, the loss is reported after this many queued events: 16
 * MiB. */
#define HELD_EVENTS_MAX 262144

struct live_stream {
    struct ctf_decoder decoder;
    int64_t shift_ns; /* raw clock + shift = our clock */
    uint32_t index;
    int32_t cpu;
    bool any_packet;
    bool reject_told;
    bool cpu_told;
    int64_t last_ns; /* our clock, of the last event or packet start */
    /* The stream has a loss that holds the queue. */
    bool holds;
    int64_t loss_begin_ns, loss_end_ns; /* our clock */
    uint64_t lost_events;
    uint64_t loss_at; /* position in the queue; counts all events ever queued */
};

struct ctf_live {
    vg_recording base;
    struct ctf_graph *graph;
    bt_interrupter *interrupter;
    char *boot_id; /* only hexadecimal digits */
    int64_t epoch_at_clock_ns;
    bool is_here;
    bool ended;
    bool env_known;
    struct vg_adapt_env env;
    GHashTable *streams; /* const bt_stream * -> struct live_stream */
    uint32_t n_streams;  /* streams so far */
    GArray *queue;       /* struct vg_event */
    unsigned int n_given;
    uint64_t queue_begin; /* number of events queued before the first one in the queue */
    unsigned int n_holds;
    int64_t latest_ns; /* our clock: no earlier event will come */
    atomic_uint pull, n_pulls;
};

static const char *
ctf_live_path_of(const struct ctf_live *live)
{
    return live->base.name;
}

/* ---- clocks ---- */

static bool
is_clock_of_boot(const struct ctf_live *live, const struct ctf_clock *clock)
{
    char digits[2 * CTF_UUID_SIZE + 1] = "";

    for (size_t i = 0; i < CTF_UUID_SIZE; i++)
        g_snprintf(digits + 2 * i, 3, "%02x", clock->uuid[i]);
    return clock->has_uuid && strcmp(digits, live->boot_id) == 0;
}

static int64_t
shift_of(struct ctf_live *live, const struct ctf_clock *clock)
{
    if (is_clock_of_boot(live, clock)) {
        live->is_here = true;
        return 0;
    }
    return clock->offset_ns - live->epoch_at_clock_ns;
}

/* Converts a time to our clock. Returns false if the time is impossible. */
static bool
read_time(const struct live_stream *stream, const bt_clock_snapshot *snapshot, int64_t *ret)
{
    int64_t raw_ns;

    if (!ctf_clock_to_ns(&stream->decoder.clock, snapshot, &raw_ns))
        return false;
    *ret = raw_ns + stream->shift_ns;
    return true;
}

static void
pass(struct ctf_live *live, int64_t t_ns)
{
    live->latest_ns = MAX(live->latest_ns, t_ns);
}

/* ---- the queue ---- */

static uint64_t
queue_end(const struct ctf_live *live)
{
    return live->queue_begin + live->queue->len;
}

static void
queue_event(struct ctf_live *live, struct live_stream *stream, struct vg_event *event)
{
    if (event->ts_ns < live->latest_ns) {
        live->base.backwards++;
        event->ts_ns = live->latest_ns;
    }
    pass(live, event->ts_ns);
    stream->last_ns = event->ts_ns;
    g_array_append_val(live->queue, *event);
    stream->loss_at = queue_end(live);
}

/* Reports the loss for which the stream holds the queue. */
static void
release(struct ctf_live *live, struct live_stream *stream, int64_t begin_ns, int64_t end_ns)
{
    const struct vg_event loss = {
        .ts_ns = begin_ns,
        .type = VG_EVENT_LOST,
        .cpu = (int16_t)stream->cpu,
        .tid = VG_NONE,
        .pid = VG_NONE,
        .stream = stream->index,
        .lost = {.events = stream->lost_events, .end_ns = MAX(begin_ns, end_ns)},
    };
    GHashTableIter iter;
    void *value;

    if (!stream->holds)
        return;
    stream->holds = false;
    live->n_holds--;
    g_array_insert_val(live->queue, (unsigned int)(stream->loss_at - live->queue_begin), loss);
    g_hash_table_iter_init(&iter, live->streams);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        struct live_stream *other = value;
        other->loss_at += other != stream && other->loss_at >= stream->loss_at;
    }
}

static void
release_all(struct ctf_live *live)
{
    GHashTableIter iter;
    void *value;

    g_hash_table_iter_init(&iter, live->streams);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        struct live_stream *stream = value;
        release(live, stream, stream->last_ns, stream->loss_end_ns);
    }
}

/* ---- messages ---- */

static void
free_stream(void *data)
{
    struct live_stream *stream = data;

    ctf_decoder_clear(&stream->decoder);
    g_free(stream);
}

static struct live_stream *
stream_of(struct ctf_live *live, const bt_stream *bt)
{
    return g_hash_table_lookup(live->streams, bt);
}

static void
on_stream_beginning(struct ctf_live *live, const bt_stream *bt)
{
    struct live_stream *stream = g_new0(struct live_stream, 1);

    ctf_decoder_init(&stream->decoder);
    stream->decoder.aliases = live->base.aliases;
    ctf_decoder_describe(&stream->decoder, bt, ctf_live_path_of(live));
    stream->index = live->n_streams++;
    stream->cpu = VG_NONE;
    stream->last_ns = live->latest_ns;
    g_hash_table_insert(live->streams, (void *)bt, stream);
    if (!live->env_known)
        ctf_decoder_init_env(bt, live->base.names, &live->env);
    live->env_known = true;
    if (!live->base.hostname)
        live->base.hostname = g_strdup(stream->decoder.hostname);
    live->base.has_wakeup |= stream->decoder.has_wakeup;
    live->base.has_switch |= stream->decoder.comm_from_switches;
    if (stream->decoder.clock_key)
        stream->shift_ns = shift_of(live, &stream->decoder.clock);
    else
        vg_recording_problem(&live->base, ctf_live_path_of(live), VG_NONE,
                             "a stream has no clock, so the times of its events are unknown");
}

static void
on_stream_end(struct ctf_live *live, const bt_stream *bt)
{
    struct live_stream *stream = stream_of(live, bt);

    if (stream)
        release(live, stream, stream->last_ns, stream->loss_end_ns);
    g_hash_table_remove(live->streams, bt);
}

static void
ctf_live_reject(struct ctf_live *live, struct live_stream *stream, const char *why)
{
    live->base.rejected++;
    if (!stream->reject_told)
        vg_recording_problem(&live->base, ctf_live_path_of(live), VG_NONE,
                             "records of stream %u are ignored, the first because of: %s",
                             stream->index, why);
    stream->reject_told = true;
}

static void
ctf_live_on_event(struct ctf_live *live, const bt_message *message)
{
    const bt_event *record = bt_message_event_borrow_event_const(message);
    struct live_stream *stream = stream_of(live, bt_event_borrow_stream_const(record));
    struct vg_event event = {0};

    if (!stream || !stream->decoder.clock_key)
        return;
    if (!read_time(stream, bt_message_event_borrow_default_clock_snapshot_const(message),
                   &event.ts_ns)) {
        ctf_live_reject(live, stream, "invalid time");
        return;
    }
    event.cpu = (int16_t)stream->cpu;
    event.stream = stream->index;
    const struct vg_binding *binding =
        ctf_decoder_binding(&stream->decoder, bt_event_borrow_class_const(record));
    const char *why = vg_binding_read(binding, &live->env, record, &event);
    if (why) {
        ctf_live_reject(live, stream, why);
        return;
    }
    /* While programs are traced, they may add their own events. */
    live->base.has_wakeup |= event.type == VG_EVENT_SCHED_WAKEUP;
    live->base.has_switch |= event.type == VG_EVENT_SCHED_SWITCH;
    queue_event(live, stream, &event);
}

/* Losses before the first packet happened before this recording started. */
static void
on_discarded_events(struct ctf_live *live, const bt_message *message)
{
    struct live_stream *stream =
        stream_of(live, bt_message_discarded_events_borrow_stream_const(message));
    uint64_t count;

    if (!stream || !stream->any_packet)
        return;
    const bt_stream_class *stream_class =
        bt_stream_borrow_class_const(bt_message_discarded_events_borrow_stream_const(message));
    if (bt_message_discarded_events_get_count(message, &count) !=
        BT_PROPERTY_AVAILABILITY_AVAILABLE)
        count = 1;
    stream->loss_begin_ns = stream->loss_end_ns = live->latest_ns;
    if (bt_stream_class_discarded_events_have_default_clock_snapshots(stream_class)) {
        read_time(
            stream,
            bt_message_discarded_events_borrow_beginning_default_clock_snapshot_const(message),
            &stream->loss_begin_ns);
        read_time(stream,
                  bt_message_discarded_events_borrow_end_default_clock_snapshot_const(message),
                  &stream->loss_end_ns);
    }
    pass(live, stream->loss_begin_ns);
    stream->lost_events = stream->holds ? stream->lost_events + count : count;
    live->n_holds += !stream->holds;
    stream->holds = true;
    stream->last_ns = live->latest_ns;
    stream->loss_at = queue_end(live);
}

static void
on_discarded_packets(struct ctf_live *live, const bt_message *message)
{
    const bt_stream *bt = bt_message_discarded_packets_borrow_stream_const(message);
    struct live_stream *stream = stream_of(live, bt);
    uint64_t count;

    if (!stream || !stream->any_packet)
        return;
    if (bt_message_discarded_packets_get_count(message, &count) !=
        BT_PROPERTY_AVAILABILITY_AVAILABLE)
        count = 1;
    struct vg_event loss = {
        .ts_ns = live->latest_ns,
        .type = VG_EVENT_LOST,
        .cpu = (int16_t)stream->cpu,
        .tid = VG_NONE,
        .pid = VG_NONE,
        .stream = stream->index,
        .lost = {.packets = count, .end_ns = live->latest_ns},
    };
    if (bt_stream_class_discarded_packets_have_default_clock_snapshots(
            bt_stream_borrow_class_const(bt))) {
        read_time(
            stream,
            bt_message_discarded_packets_borrow_beginning_default_clock_snapshot_const(message),
            &loss.ts_ns);
        read_time(stream,
                  bt_message_discarded_packets_borrow_end_default_clock_snapshot_const(message),
                  &loss.lost.end_ns);
    }
    queue_event(live, stream, &loss);
}

static void
on_packet_beginning(struct ctf_live *live, const bt_message *message)
{
    const bt_packet *packet = bt_message_packet_beginning_borrow_packet_const(message);
    const bt_stream *bt = bt_packet_borrow_stream_const(packet);
    struct live_stream *stream = stream_of(live, bt);
    int64_t told_cpu, begin_ns;

    if (!stream)
        return;
    if ((!ctf_packet_cpu(packet, &told_cpu, &stream->cpu) || stream->cpu == VG_NONE) &&
        !stream->cpu_told) {
        stream->cpu_told = true;
        vg_recording_problem(&live->base, ctf_live_path_of(live), VG_NONE,
                             "the packets of stream %u do not name their CPU, so the threads that "
                             "ran and waited are unknown",
                             stream->index);
    }
    stream->any_packet = true;
    if (!stream->decoder.clock_key ||
        !bt_stream_class_packets_have_beginning_default_clock_snapshot(
            bt_stream_borrow_class_const(bt)) ||
        !read_time(stream, bt_message_packet_beginning_borrow_default_clock_snapshot_const(message),
                   &begin_ns))
        return;
    pass(live, begin_ns);
    /* LTTng discards events while there is no space for the next packet. If packets follow each
     * other without a gap, events are missing at the end of the packet that reports them, not
     * before it. */
    if (stream->holds && stream->loss_begin_ns < begin_ns)
        release(live, stream, stream->last_ns, begin_ns);
    stream->last_ns = live->latest_ns;
    if (stream->holds)
        stream->loss_at = queue_end(live);
}

static void
on_packet_end(struct ctf_live *live, const bt_message *message)
{
    const bt_stream *bt =
        bt_packet_borrow_stream_const(bt_message_packet_end_borrow_packet_const(message));
    struct live_stream *stream = stream_of(live, bt);
    int64_t end_ns;

    if (!stream)
        return;
    if (stream->decoder.clock_key &&
        bt_stream_class_packets_have_end_default_clock_snapshot(bt_stream_borrow_class_const(bt)) &&
        read_time(stream, bt_message_packet_end_borrow_default_clock_snapshot_const(message),
                  &end_ns))
        pass(live, end_ns);
    release(live, stream, stream->last_ns, stream->loss_end_ns);
}

static void
on_inactivity(struct ctf_live *live, const bt_message *message)
{
    const bt_clock_snapshot *snapshot =
        bt_message_message_iterator_inactivity_borrow_clock_snapshot_const(message);
    struct ctf_clock clock;
    int64_t raw_ns;

    ctf_clock_describe(&clock, bt_clock_snapshot_borrow_clock_class_const(snapshot));
    if (ctf_clock_to_ns(&clock, snapshot, &raw_ns))
        pass(live, raw_ns + shift_of(live, &clock));
}

static void
on_message(void *data, const bt_message *message)
{
    struct ctf_live *live = data;

    switch (bt_message_get_type(message)) {
    case BT_MESSAGE_TYPE_STREAM_BEGINNING:
        on_stream_beginning(live, bt_message_stream_beginning_borrow_stream_const(message));
        break;
    case BT_MESSAGE_TYPE_STREAM_END:
        on_stream_end(live, bt_message_stream_end_borrow_stream_const(message));
        break;
    case BT_MESSAGE_TYPE_EVENT:
        ctf_live_on_event(live, message);
        break;
    case BT_MESSAGE_TYPE_PACKET_BEGINNING:
        on_packet_beginning(live, message);
        break;
    case BT_MESSAGE_TYPE_PACKET_END:
        on_packet_end(live, message);
        break;
    case BT_MESSAGE_TYPE_DISCARDED_EVENTS:
        on_discarded_events(live, message);
        break;
    case BT_MESSAGE_TYPE_DISCARDED_PACKETS:
        on_discarded_packets(live, message);
        break;
    case BT_MESSAGE_TYPE_MESSAGE_ITERATOR_INACTIVITY:
        on_inactivity(live, message);
        break;
    }
}

/* ---- the recording ---- */

static void
begin_pull(struct ctf_live *live)
{
    unsigned int n = atomic_load(&live->n_pulls) + 1;

    atomic_store(&live->n_pulls, MAX(n, 1));
    atomic_store(&live->pull, MAX(n, 1));
}

static enum ctf_pull
pull(struct ctf_live *live, GError **err)
{
    begin_pull(live);
    enum ctf_pull status = ctf_graph_pull(live->graph, 0, on_message, live, err);
    atomic_store(&live->pull, 0);
    return status;
}

/* Everything in the queue has been delivered. From now on, the time without events counts. */
static void
empty_queue(struct ctf_live *live)
{
    live->queue_begin += live->queue->len;
    g_array_set_size(live->queue, 0);
    live->n_given = 0;
    live->base.passed_ns = live->latest_ns;
}

static int
next_event(vg_recording *base, struct vg_event *ret_event, GError **err)
{
    struct ctf_live *live = (struct ctf_live *)base;

    for (;;) {
        if (live->n_holds > 0 && (live->ended || live->queue->len > HELD_EVENTS_MAX))
            release_all(live);
        if (live->n_holds == 0 && live->n_given < live->queue->len) {
            *ret_event = g_array_index(live->queue, struct vg_event, live->n_given++);
            base->events += ret_event->type != VG_EVENT_LOST;
            return 1;
        }
        if (live->n_holds == 0)
            empty_queue(live);
        if (live->ended)
            return 0;
        switch (pull(live, err)) {
        case CTF_PULL_MORE:
            break;
        case CTF_PULL_AGAIN:
            if (bt_interrupter_is_set(live->interrupter))
                return vg_error(err, VG_E_TIMEOUT, "interrupted");
            return VG_RECORDING_AGAIN;
        case CTF_PULL_END:
            live->ended = true;
            break;
        case CTF_PULL_FAILED:
            return -1;
        }
    }
}

static double
progress(const vg_recording *base)
{
    (void)base;
    return 0;
}

static void
free_live(vg_recording *base)
{
    struct ctf_live *live = (struct ctf_live *)base;

    vg_ctf_live_close(base);
    bt_interrupter_put_ref(live->interrupter);
    g_hash_table_unref(live->streams);
    g_array_unref(live->queue);
    g_free(live->boot_id);
    vg_recording_clear(base);
    g_free(live);
}

static const struct vg_recording_ops live_ops = {
    .next = next_event,
    .progress = progress,
    .free = free_live,
};

static char *
without_dashes(const char *uuid)
{
    g_auto(GStrv) parts = g_strsplit(uuid, "-", -1);
    return g_strjoinv("", parts);
}

vg_recording *
vg_ctf_live_open(const struct vg_ctf_live_options *options, GError **err)
{
    struct ctf_live *live = g_new0(struct ctf_live, 1);

    vg_recording_init(&live->base, &live_ops, options->url, NULL, options->aliases);
    live->boot_id = without_dashes(options->boot_id);
    live->epoch_at_clock_ns = options->epoch_at_clock_ns;
    live->base.clock_offset_ns = options->epoch_at_clock_ns;
    live->streams = g_hash_table_new_full(NULL, NULL, NULL, free_stream);
    live->queue = g_array_new(FALSE, FALSE, sizeof(struct vg_event));
    live->latest_ns = INT64_MIN;
    live->interrupter = bt_interrupter_create();
    live->graph =
        live->interrupter ? ctf_graph_open_live(options->url, live->interrupter, err) : NULL;
    if (live->graph)
        return &live->base;
    if (!live->interrupter)
        vg_error(err, VG_E_EXTERNAL, "cannot create a babeltrace2 interrupter");
    vg_recording_free(&live->base);
    return NULL;
}

bool
vg_ctf_live_is_here(const vg_recording *live)
{
    return ((const struct ctf_live *)live)->is_here;
}

void
vg_ctf_live_close(vg_recording *base)
{
    struct ctf_live *live = (struct ctf_live *)base;

    if (!live->graph)
        return;
    begin_pull(live);
    g_clear_pointer(&live->graph, ctf_graph_unref);
    bt_current_thread_clear_error();
    atomic_store(&live->pull, 0);
}

unsigned int
vg_ctf_live_pull(const vg_recording *live)
{
    return atomic_load(&((const struct ctf_live *)live)->pull);
}

void
vg_ctf_live_interrupt(vg_recording *live)
{
    bt_interrupter_set(((struct ctf_live *)live)->interrupter);
}
