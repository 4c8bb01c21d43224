/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "trace/ctf-source.h"

#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "model/event.h"
#include "trace/ctf-graph.h"

/* The space that sink.ctf.fs reserves for a packet: eight pages. A packet must never need more:
 * 2.0.4 then frees the old space, and frees it again if there is no memory for more. */
#define SINK_ROOM 32768

/* Magic, UUID and stream ids; sizes, times, losses, sequence number and CPU. */
#define PACKET_HEAD_BYTES (4 + 16 + 8 + 8 + 6 * 8 + 4)

/* Class id, time; tid, pid. */
#define RECORD_HEAD_BYTES (8 + 8 + 4 + 4)

#define PACKET_RECORDS_BYTES (SINK_ROOM - PACKET_HEAD_BYTES)

G_STATIC_ASSERT(VG_CTF_RECORD_BYTES_MAX <= PACKET_RECORDS_BYTES);

#define CPU 0

struct ctf_source {
    const struct vg_ctf_plan *plan;
    GError *error;
    bt_stream *stream;
    /* The next record, which starts a packet or is added to the open one. */
    struct vg_ctf_record record;
    size_t record_bytes;
    bool has_record;
    uint64_t n_records; /* including this one */
    int64_t last_ns;    /* of the previous record */
    /* Messages to return. The queue does not own those that were returned. */
    GPtrArray *queue;
    unsigned int given;
    bool begun;
    bool any_packet;
    bool ended;
};

static const struct kind {
    unsigned int bits; /* 0: a string */
    bool is_signed;
} kinds[VG_CTF_KIND_MAX] = {
    [VG_CTF_U8] = {8, false},   [VG_CTF_U16] = {16, false}, [VG_CTF_U32] = {32, false},
    [VG_CTF_U64] = {64, false}, [VG_CTF_S32] = {32, true},  [VG_CTF_S64] = {64, true},
    [VG_CTF_STRING] = {0},
};

void
ctf_digest_to_uuid(GChecksum *sha256, uint8_t ret[CTF_UUID_SIZE])
{
    uint8_t digest[32];
    gsize length = sizeof(digest);

    g_checksum_get_digest(sha256, digest, &length);
    memcpy(ret, digest, CTF_UUID_SIZE);
    /* RFC 9562: version 8, "vendor-specific", of the usual variant. */
    ret[6] = (uint8_t)((ret[6] & 0x0f) | 0x80);
    ret[8] = (uint8_t)((ret[8] & 0x3f) | 0x80);
}

/* ---- what can be said ---- */

static bool
is_identifier(const char *name)
{
    if (!g_ascii_isalpha(name[0]) && name[0] != '_')
        return false;
    for (const char *c = name; *c; c++) {
        if (!g_ascii_isalnum(*c) && *c != '_')
            return false;
    }
    return true;
}

/* Returns whether a field may have this name: sink.ctf.fs and its readers handle these names. It
 * refuses them as env entries, and crashes. */
static bool
is_tsdl_word(const char *name)
{
    static const char *const words[] = {
        "align",   "callsite", "const",  "char",    "clock",  "double",   "enum",
        "env",     "event",    "float",  "integer", "int",    "long",     "floating_point",
        "short",   "signed",   "stream", "string",  "struct", "trace",    "typealias",
        "typedef", "unsigned", "void",   "variant", "_Bool",  "_Complex", "_Imaginary",
        NULL,
    };
    return g_strv_contains(words, name);
}

static int
check_class(const struct vg_ctf_class *class, GError **err)
{
    size_t n = 0;

    if (!class->name[0] || !g_utf8_validate(class->name, -1, NULL))
        return vg_error(err, VG_E_INVALID, "a record class must have a UTF-8 name");
    for (const struct vg_ctf_field *f = class->fields; f->name; f++) {
        if (++n > VG_CTF_FIELDS_MAX)
            return vg_error(err, VG_E_INVALID, "%s has more than %d fields", class->name,
                            VG_CTF_FIELDS_MAX);
        if (!is_identifier(f->name))
            return vg_error(err, VG_E_INVALID, "'%s' cannot name a field of %s", f->name,
                            class->name);
        for (const struct vg_ctf_field *other = class->fields; other < f; other++) {
            if (strcmp(other->name, f->name) == 0)
                return vg_error(err, VG_E_INVALID, "%s has two '%s' fields", class->name, f->name);
        }
    }
    return 0;
}

static int
check_env(const struct vg_ctf_env *env, GHashTable *names, GError **err)
{
    if (!is_identifier(env->name) || is_tsdl_word(env->name))
        return vg_error(err, VG_E_INVALID, "'%s' cannot name an entry of a trace's environment",
                        env->name);
    if (!g_utf8_validate(env->text, -1, NULL))
        return vg_error(err, VG_E_INVALID, "'%s' in a trace's environment is not UTF-8 text",
                        env->name);
    if (!g_hash_table_add(names, (void *)env->name))
        return vg_error(err, VG_E_INVALID, "'%s' appears twice in an environment", env->name);
    return 0;
}

int
ctf_plan_check(const struct vg_ctf_plan *plan, GError **err)
{
    g_autoptr(GHashTable) names = g_hash_table_new(g_str_hash, g_str_equal);

    /* The sum of offset and time must be below 2^63. */
    if (plan->clock_offset_ns >= VG_TIME_MAX || plan->clock_offset_ns <= -VG_TIME_MAX)
        return vg_error(err, VG_E_INVALID, "%" PRId64 " ns is not a valid clock offset",
                        plan->clock_offset_ns);
    for (size_t i = 0; i < plan->n_classes; i++) {
        if (check_class(&plan->classes[i], err) < 0)
            return -1;
    }
    for (size_t i = 0; i < plan->n_env; i++) {
        if (check_env(&plan->env[i], names, err) < 0)
            return -1;
    }
    return 0;
}

static bool
fits(struct kind kind, const struct vg_ctf_value *value)
{
    if (kind.bits == 64)
        return true;
    if (kind.is_signed)
        return value->s >= -(INT64_C(1) << (kind.bits - 1)) && value->s < INT64_C(1)
                                                                              << (kind.bits - 1);
    return value->u >> kind.bits == 0;
}

/* Adds the size of the text to *bytes. Returns false if it is not a valid text. */
static bool
count_text(const char *text, size_t *bytes)
{
    size_t length = text ? strlen(text) : 0;

    *bytes += length + 1;
    return text && g_utf8_validate_len(text, length, NULL);
}

/* Computes record_bytes. */
static int
check_record(struct ctf_source *source, GError **err)
{
    const struct vg_ctf_plan *plan = source->plan;
    struct vg_ctf_record *record = &source->record;
    size_t bytes = RECORD_HEAD_BYTES;

    if (record->class >= plan->n_classes)
        return vg_error(err, VG_E_INVALID, "has an unknown class (%u)", record->class);
    if (record->ts_ns < 0 || record->ts_ns >= VG_TIME_MAX)
        return vg_error(err, VG_E_INVALID, "has the invalid time %" PRId64 " ns", record->ts_ns);
    if (record->ts_ns < source->last_ns)
        return vg_error(err, VG_E_INVALID,
                        "is earlier (%" PRId64 " ns) than the record before it (%" PRId64 " ns)",
                        record->ts_ns, source->last_ns);
    if (!record->procname)
        record->procname = "";
    if (!count_text(record->procname, &bytes))
        return vg_error(err, VG_E_INVALID, "has a procname that is not UTF-8");
    const struct vg_ctf_field *fields = plan->classes[record->class].fields;
    for (size_t i = 0; fields[i].name; i++) {
        const struct kind kind = kinds[fields[i].kind];
        if (kind.bits == 0 ? !count_text(record->values[i].text, &bytes)
                           : !fits(kind, &record->values[i]))
            return vg_error(err, VG_E_INVALID, "has a '%s' that is not %s", fields[i].name,
                            kind.bits == 0 ? "UTF-8 text" : "a number of its size");
        bytes += kind.bits / 8;
    }
    if (bytes > VG_CTF_RECORD_BYTES_MAX)
        return vg_error(err, VG_E_INVALID, "has %zu bytes, more than %d", bytes,
                        VG_CTF_RECORD_BYTES_MAX);
    source->record_bytes = bytes;
    return 0;
}

/* Reads the next record. Returns 1 with a record, 0 at the end, and -1 with the source's error. */
static int
take_record(struct ctf_source *source)
{
    const struct vg_ctf_plan *plan = source->plan;

    source->record = (struct vg_ctf_record){0};
    int status = plan->next(plan->data, &source->record, &source->error);
    source->has_record = status == 1;
    if (status != 1) {
        source->record = (struct vg_ctf_record){0};
        return status;
    }
    source->n_records++;
    if (check_record(source, &source->error) == 0)
        return 1;
    g_prefix_error(&source->error, "record %" PRIu64 " ", source->n_records);
    return -1;
}

/* ---- what the stream is ---- */

static bt_field_class *
make_field_class(bt_trace_class *trace_class, enum vg_ctf_kind kind)
{
    bt_field_class *made;

    if (kinds[kind].bits == 0)
        return bt_field_class_string_create(trace_class);
    if (kinds[kind].is_signed)
        made = bt_field_class_integer_signed_create(trace_class);
    else
        made = bt_field_class_integer_unsigned_create(trace_class);
    if (made)
        bt_field_class_integer_set_field_value_range(made, kinds[kind].bits);
    return made;
}

static bt_field_class *
make_struct(bt_trace_class *trace_class, const struct vg_ctf_field *fields)
{
    bt_field_class *made = bt_field_class_structure_create(trace_class);

    for (; made && fields->name; fields++) {
        bt_field_class *member = make_field_class(trace_class, fields->kind);
        bool added =
            member && bt_field_class_structure_append_member(made, fields->name, member) == 0;
        bt_field_class_put_ref(member);
        if (!added)
            BT_FIELD_CLASS_PUT_REF_AND_RESET(made);
    }
    return made;
}

static int
set_packets(bt_trace_class *trace_class, bt_stream_class *stream_class)
{
    static const struct vg_ctf_field context[] = {{"cpu_id", VG_CTF_U32}, {NULL, 0}};
    bt_field_class *fields = make_struct(trace_class, context);

    bt_stream_class_set_supports_packets(stream_class, BT_TRUE, BT_TRUE, BT_TRUE);
    bt_stream_class_set_supports_discarded_events(stream_class, BT_TRUE, BT_TRUE);
    int status =
        fields ? (int)bt_stream_class_set_packet_context_field_class(stream_class, fields) : -1;
    bt_field_class_put_ref(fields);
    return status;
}

enum { CONTEXT_TID, CONTEXT_PID, CONTEXT_PROCNAME };

static int
set_contexts(bt_trace_class *trace_class, bt_stream_class *stream_class)
{
    static const struct vg_ctf_field contexts[] = {
        [CONTEXT_TID] = {"tid", VG_CTF_S32},
        [CONTEXT_PID] = {"pid", VG_CTF_S32},
        [CONTEXT_PROCNAME] = {"procname", VG_CTF_STRING},
        {NULL, 0},
    };
    bt_field_class *fields = make_struct(trace_class, contexts);
    int status =
        fields ? (int)bt_stream_class_set_event_common_context_field_class(stream_class, fields)
               : -1;

    bt_field_class_put_ref(fields);
    return status;
}

/* Adds the event classes. Their ids are their places in the plan. */
static int
add_event_classes(const struct vg_ctf_plan *plan, bt_trace_class *trace_class,
                  bt_stream_class *stream_class)
{
    for (size_t i = 0; i < plan->n_classes; i++) {
        bt_event_class *class = bt_event_class_create(stream_class);
        bt_field_class *fields = make_struct(trace_class, plan->classes[i].fields);
        bool made = class && fields && bt_event_class_set_name(class, plan->classes[i].name) == 0 &&
                    bt_event_class_set_payload_field_class(class, fields) == 0;
        bt_field_class_put_ref(fields);
        bt_event_class_put_ref(class);
        if (!made)
            return -1;
    }
    return 0;
}

static int
set_clock(const struct vg_ctf_plan *plan, bt_self_component *self, bt_stream_class *stream_class)
{
    g_autoptr(GChecksum) digest = g_checksum_new(G_CHECKSUM_SHA256);
    bt_clock_class *clock = bt_clock_class_create(self);
    int64_t seconds = plan->clock_offset_ns / VG_NS_PER_S;
    int64_t rest_ns = plan->clock_offset_ns % VG_NS_PER_S;
    uint8_t uuid[CTF_UUID_SIZE];

    if (!clock)
        return -1;
    if (rest_ns < 0) {
        seconds--;
        rest_ns += VG_NS_PER_S;
    }
    for (size_t i = 0; i < plan->n_env; i++) {
        const struct vg_ctf_env *env = &plan->env[i];
        g_checksum_update(digest, (const guchar *)env->name, (gssize)strlen(env->name) + 1);
        g_checksum_update(digest, (const guchar *)env->text, (gssize)strlen(env->text) + 1);
    }
    const int64_t offset = GINT64_TO_LE(plan->clock_offset_ns);
    g_checksum_update(digest, (const guchar *)&offset, sizeof(offset));
    ctf_digest_to_uuid(digest, uuid);
    bt_clock_class_set_frequency(clock, VG_NS_PER_S);
    bt_clock_class_set_offset(clock, seconds, (uint64_t)rest_ns);
    bt_clock_class_set_origin_is_unix_epoch(clock, plan->clock_offset_ns != 0);
    bt_clock_class_set_uuid(clock, uuid);
    int status = (int)bt_clock_class_set_name(clock, "monotonic");
    if (status == 0)
        status = (int)bt_stream_class_set_default_clock_class(stream_class, clock);
    bt_clock_class_put_ref(clock);
    return status;
}

static bt_stream *
make_stream(const struct vg_ctf_plan *plan, bt_trace_class *trace_class,
            bt_stream_class *stream_class)
{
    bt_trace *trace = bt_trace_create(trace_class);
    int status = trace ? 0 : -1;

    for (size_t i = 0; status == 0 && i < plan->n_env; i++)
        status =
            (int)bt_trace_set_environment_entry_string(trace, plan->env[i].name, plan->env[i].text);
    bt_stream *stream = status == 0 ? bt_stream_create(stream_class, trace) : NULL;
    bt_trace_put_ref(trace);
    return stream;
}

static bt_component_class_initialize_method_status
initialize(bt_self_component_source *self, bt_self_component_source_configuration *configuration,
           const bt_value *params, void *data)
{
    bt_self_component *component = bt_self_component_source_as_self_component(self);
    bt_trace_class *trace_class = bt_trace_class_create(component);
    bt_stream_class *stream_class = trace_class ? bt_stream_class_create(trace_class) : NULL;
    struct ctf_source *source = data;

    (void)configuration;
    (void)params;
    bt_self_component_set_data(component, source);
    if (stream_class && set_clock(source->plan, component, stream_class) == 0 &&
        set_packets(trace_class, stream_class) == 0 &&
        set_contexts(trace_class, stream_class) == 0 &&
        add_event_classes(source->plan, trace_class, stream_class) == 0)
        source->stream = make_stream(source->plan, trace_class, stream_class);
    bt_stream_class_put_ref(stream_class);
    bt_trace_class_put_ref(trace_class);
    if (!source->stream || bt_self_component_source_add_output_port(self, "out", NULL, NULL) != 0)
        return BT_COMPONENT_CLASS_INITIALIZE_METHOD_STATUS_ERROR;
    return BT_COMPONENT_CLASS_INITIALIZE_METHOD_STATUS_OK;
}

/* ---- messages ---- */

/* Queues the message, which may be NULL if it could not be created. */
static int
queue_message(struct ctf_source *source, const bt_message *take_message)
{
    if (!take_message)
        return -1;
    g_ptr_array_add(source->queue, (void *)take_message);
    return 0;
}

static int
set_field(bt_field *field, enum vg_ctf_kind kind, const struct vg_ctf_value *value)
{
    if (kinds[kind].bits == 0)
        return (int)bt_field_string_set_value(field, value->text);
    if (kinds[kind].is_signed)
        bt_field_integer_signed_set_value(field, value->s);
    else
        bt_field_integer_unsigned_set_value(field, value->u);
    return 0;
}

/* Queues the present record. */
static int
queue_event(struct ctf_source *source, bt_self_message_iterator *iterator, const bt_packet *packet)
{
    const struct vg_ctf_record *record = &source->record;
    const bt_event_class *class = bt_stream_class_borrow_event_class_by_id_const(
        bt_stream_borrow_class_const(source->stream), record->class);
    bt_message *message = bt_message_event_create_with_packet_and_default_clock_snapshot(
        iterator, class, packet, (uint64_t)record->ts_ns);

    if (queue_message(source, message) < 0)
        return -1;
    bt_event *event = bt_message_event_borrow_event(message);
    bt_field *context = bt_event_borrow_common_context_field(event);
    bt_field_integer_signed_set_value(
        bt_field_structure_borrow_member_field_by_index(context, CONTEXT_TID), record->tid);
    bt_field_integer_signed_set_value(
        bt_field_structure_borrow_member_field_by_index(context, CONTEXT_PID), record->pid);
    int status = (int)bt_field_string_set_value(
        bt_field_structure_borrow_member_field_by_index(context, CONTEXT_PROCNAME),
        record->procname);
    bt_field *payload = bt_event_borrow_payload_field(event);
    const struct vg_ctf_field *fields = source->plan->classes[record->class].fields;
    for (size_t i = 0; status == 0 && fields[i].name; i++)
        status = set_field(bt_field_structure_borrow_member_field_by_index(payload, i),
                           fields[i].kind, &record->values[i]);
    return status;
}

/* Queues the records of one packet, from the present one. The next one is then present. */
static int
queue_events(struct ctf_source *source, bt_self_message_iterator *iterator, const bt_packet *packet)
{
    size_t room = PACKET_RECORDS_BYTES;
    int status;

    do {
        if (queue_event(source, iterator, packet) < 0)
            return -1;
        room -= source->record_bytes;
        source->last_ns = source->record.ts_ns;
        status = take_record(source);
    } while (status == 1 && source->record.lost == 0 && source->record_bytes <= room);
    return status < 0 ? -1 : 0;
}

static bt_message *
make_loss(struct ctf_source *source, bt_self_message_iterator *iterator, uint64_t lost,
          int64_t begin_ns)
{
    bt_message *message = bt_message_discarded_events_create_with_default_clock_snapshots(
        iterator, source->stream, (uint64_t)begin_ns, (uint64_t)source->last_ns);

    if (message)
        bt_message_discarded_events_set_count(message, lost);
    return message;
}

/* Starts a packet. is_empty means that it has no records and starts with the present one. */
static int
fill_packet(struct ctf_source *source, bt_self_message_iterator *iterator, const bt_packet *packet,
            bool is_empty)
{
    const uint64_t lost = is_empty ? 0 : source->record.lost;
    const unsigned int loss_at = source->queue->len;
    const int64_t before_ns = source->last_ns;
    /* Packets follow each other without a gap, unless records are missing there. */
    const bool has_gap = !source->any_packet || lost > 0;
    const int64_t begin_ns = has_gap ? source->record.ts_ns : before_ns;

    source->any_packet = true;
    source->last_ns = begin_ns;
    if (queue_message(source, bt_message_packet_beginning_create_with_default_clock_snapshot(
                                  iterator, packet, (uint64_t)begin_ns)) < 0 ||
        (!is_empty && queue_events(source, iterator, packet) < 0) ||
        queue_message(source, bt_message_packet_end_create_with_default_clock_snapshot(
                                  iterator, packet, (uint64_t)source->last_ns)) < 0)
        return -1;
    if (lost == 0)
        return 0;
    bt_message *loss = make_loss(source, iterator, lost, before_ns);
    if (!loss)
        return -1;
    g_ptr_array_insert(source->queue, (int)loss_at, loss);
    return 0;
}

static int
queue_packet(struct ctf_source *source, bt_self_message_iterator *iterator, bool is_empty)
{
    bt_packet *packet = bt_packet_create(source->stream);

    if (!packet)
        return -1;
    bt_field_integer_unsigned_set_value(
        bt_field_structure_borrow_member_field_by_index(bt_packet_borrow_context_field(packet), 0),
        CPU);
    int status = fill_packet(source, iterator, packet, is_empty);
    bt_packet_put_ref(packet);
    return status;
}

/* Returns the next messages. A trace without records has one empty packet, because many readers
 * consider an empty stream file damaged. A trace that starts with a loss also has one, because
 * babeltrace2 does not read the number of events missing before the first packet. */
static int
fill_queue(struct ctf_source *source, bt_self_message_iterator *iterator)
{
    g_ptr_array_set_size(source->queue, 0);
    source->given = 0;
    if (!source->begun) {
        source->begun = true;
        if (take_record(source) < 0)
            return -1;
        return queue_message(source, bt_message_stream_beginning_create(iterator, source->stream));
    }
    if (!source->any_packet && (!source->has_record || source->record.lost > 0))
        return queue_packet(source, iterator, true);
    if (source->has_record)
        return queue_packet(source, iterator, false);
    source->ended = true;
    return queue_message(source, bt_message_stream_end_create(iterator, source->stream));
}

static bt_message_iterator_class_next_method_status
next(bt_self_message_iterator *iterator, bt_message_array_const messages, uint64_t capacity,
     uint64_t *ret_count)
{
    struct ctf_source *source =
        bt_self_component_get_data(bt_self_message_iterator_borrow_component(iterator));
    uint64_t n = 0;

    if (source->given == source->queue->len) {
        if (source->ended)
            return BT_MESSAGE_ITERATOR_CLASS_NEXT_METHOD_STATUS_END;
        if (fill_queue(source, iterator) < 0)
            return BT_MESSAGE_ITERATOR_CLASS_NEXT_METHOD_STATUS_ERROR;
    }
    while (n < capacity && source->given < source->queue->len)
        messages[n++] = g_ptr_array_index(source->queue, source->given++);
    *ret_count = n;
    return BT_MESSAGE_ITERATOR_CLASS_NEXT_METHOD_STATUS_OK;
}

/* ---- the interface ---- */

struct ctf_source *
ctf_source_new(const struct vg_ctf_plan *plan)
{
    struct ctf_source *source = g_new0(struct ctf_source, 1);

    source->plan = plan;
    source->queue = g_ptr_array_new();
    return source;
}

void
ctf_source_free(struct ctf_source *source)
{
    bt_stream_put_ref(source->stream);
    g_ptr_array_unref(source->queue);
    g_clear_error(&source->error);
    g_free(source);
}

int
ctf_source_add(struct ctf_source *source, bt_graph *graph, const bt_component_source **ret,
               GError **err)
{
    bt_message_iterator_class *iterator = bt_message_iterator_class_create(next);
    bt_component_class_source *class =
        iterator ? bt_component_class_source_create("records", iterator) : NULL;
    int status = -1;

    if (class && bt_component_class_source_set_initialize_method(class, initialize) == 0 &&
        bt_graph_add_source_component_with_initialize_method_data(
            graph, class, "records", NULL, source, BT_LOGGING_LEVEL_NONE, ret) ==
            BT_GRAPH_ADD_COMPONENT_STATUS_OK)
        status = 0;
    else
        ctf_take_error(err, "cannot describe the trace to babeltrace2");
    bt_component_class_source_put_ref(class);
    bt_message_iterator_class_put_ref(iterator);
    return status;
}

GError *
ctf_source_take_error(struct ctf_source *source)
{
    return g_steal_pointer(&source->error);
}

void
ctf_source_drop_messages(struct ctf_source *source)
{
    for (unsigned int i = source->given; i < source->queue->len; i++)
        bt_message_put_ref(g_ptr_array_index(source->queue, i));
    g_ptr_array_set_size(source->queue, 0);
    source->given = 0;
}
