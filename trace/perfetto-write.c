/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "trace/perfetto-write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "trace/perfetto-wire.h"

/* All events are one sequence of packets: the data of one packet applies to later ones. */
#define SEQUENCE_ID       1
#define BUFFER_BYTES      65536
#define CLOCK_IS_REALTIME 1 /* common/builtin_clock.proto */
#define CLOCK_IS_RAW      3 /* BUILTIN_CLOCK_MONOTONIC */

/* Field numbers, from https://github.com/google/perfetto, protos/perfetto/trace/. */
enum {
    /* trace.proto */
    TRACE_PACKET = 1,
    /* trace_packet.proto */
    PACKET_CLOCK_SNAPSHOT = 6,
    PACKET_TIMESTAMP = 8,
    PACKET_SEQUENCE_ID = 10, /* trusted_packet_sequence_id */
    PACKET_TRACK_EVENT = 11,
    PACKET_INTERNED_DATA = 12,
    PACKET_SEQUENCE_FLAGS = 13,
    PACKET_DEFAULTS = 59, /* trace_packet_defaults */
    PACKET_TRACK_DESCRIPTOR = 60,
    PACKET_IS_FIRST = 87, /* first_packet_on_sequence */
    /* trace_packet_defaults.proto */
    DEFAULTS_CLOCK_ID = 58, /* timestamp_clock_id */
    /* clock_snapshot.proto */
    SNAPSHOT_CLOCKS = 1,
    SNAPSHOT_PRIMARY = 2, /* primary_trace_clock */
    CLOCK_ID = 1,
    CLOCK_TIMESTAMP = 2,
    /* track_event/track_descriptor.proto */
    TRACK_UUID = 1,
    TRACK_NAME = 2,
    TRACK_PROCESS = 3,
    TRACK_THREAD = 4,
    TRACK_PARENT = 5, /* parent_uuid */
    TRACK_COUNTER = 8,
    /* track_event/process_descriptor.proto */
    PROCESS_PID = 1,
    PROCESS_NAME = 6,
    /* track_event/thread_descriptor.proto */
    THREAD_PID = 1,
    THREAD_TID = 2,
    THREAD_NAME = 5,
    /* track_event/counter_descriptor.proto */
    COUNTER_UNIT_NAME = 6,
    /* track_event/track_event.proto */
    EVENT_CATEGORY_IID = 3,
    EVENT_ANNOTATION = 4, /* debug_annotations */
    EVENT_TYPE = 9,
    EVENT_NAME_IID = 10,
    EVENT_TRACK = 11, /* track_uuid */
    EVENT_CATEGORY = 22,
    EVENT_NAME = 23,
    EVENT_COUNTER_INT = 30,    /* counter_value */
    EVENT_COUNTER_DOUBLE = 44, /* double_counter_value */
    EVENT_FLOW = 47,           /* flow_ids */
    EVENT_FLOW_END = 48,       /* terminating_flow_ids */
    /* track_event/debug_annotation.proto */
    ANNOTATION_NAME_IID = 1,
    ANNOTATION_INT = 4,
    ANNOTATION_TEXT = 6,
    ANNOTATION_NAME = 10,
    /* interned_data/interned_data.proto; each entry has a number and a name */
    INTERNED_CATEGORY = 1,
    INTERNED_EVENT_NAME = 2,
    INTERNED_ANNOTATION_NAME = 3,
    ENTRY_IID = 1,
    ENTRY_NAME = 2,
};

enum sequence_flags { STATE_CLEARED = 1, NEEDS_STATE = 2 };

enum event_type { TYPE_SLICE_BEGIN = 1, TYPE_SLICE_END = 2, TYPE_COUNTER = 4 };

/* The fields for one kind of names: in interned_data, for the number of a name, and for the name
 * itself. */
enum { NAMES_CATEGORY, NAMES_EVENT, NAMES_ANNOTATION, NAMES_MAX };
static const struct {
    uint32_t interned;
    uint32_t iid;
    uint32_t text;
} name_fields[NAMES_MAX] = {
    [NAMES_CATEGORY] = {INTERNED_CATEGORY, EVENT_CATEGORY_IID, EVENT_CATEGORY},
    [NAMES_EVENT] = {INTERNED_EVENT_NAME, EVENT_NAME_IID, EVENT_NAME},
    [NAMES_ANNOTATION] = {INTERNED_ANNOTATION_NAME, ANNOTATION_NAME_IID, ANNOTATION_NAME},
};

struct track {
    int64_t last_ns;
    uint32_t depth; /* number of open slices */
    bool counter;
};

struct vg_perfetto {
    char *path;
    char *temporary;
    FILE *file;   /* NULL: closed */
    char *buffer; /* of file; glibc allocates none of a requested size */
    GError *error;
    int64_t clock_offset_ns;
    bool clock_told;
    GArray *tracks;               /* struct track; the first one has uuid 1 */
    GHashTable *names[NAMES_MAX]; /* char * -> number */
    bool pending;                 /* the event is not written yet, because more may be added */
    int64_t pending_ns;
    GString *event;
    GString *interned; /* names to write with the next event */
    GString *packet;
    GString *scratch;
    struct vg_perfetto_stats stats;
};

static void
write_packet(vg_perfetto *trace)
{
    uint8_t head[1 + VG_WIRE_VARINT_MAX] = {TRACE_PACKET << 3 | 2};
    size_t n = 1 + vg_wire_varint(trace->packet->len, head + 1);

    if (!trace->error && (fwrite(head, n, 1, trace->file) != 1 ||
                          fwrite(trace->packet->str, trace->packet->len, 1, trace->file) != 1))
        vg_error_errno(&trace->error, errno, "cannot write '%s'", trace->path);
    g_string_truncate(trace->packet, 0);
}

static void
put_clock(GString *snapshot, uint64_t id, int64_t t_ns)
{
    g_autoptr(GString) clock = g_string_new(NULL);

    vg_wire_put_uint(clock, CLOCK_ID, id);
    vg_wire_put_uint(clock, CLOCK_TIMESTAMP, (uint64_t)t_ns);
    vg_wire_put_message(snapshot, SNAPSHOT_CLOCKS, clock);
}

/* Writes the values of the clocks at the first event. This must come before it: the trace clock
 * cannot be changed once a reader has used it. */
static void
write_clocks(vg_perfetto *trace, int64_t t_ns)
{
    g_autoptr(GString) snapshot = g_string_new(NULL);
    int64_t real_ns;

    put_clock(snapshot, CLOCK_IS_RAW, t_ns);
    if (trace->clock_offset_ns != 0 &&
        !__builtin_add_overflow(t_ns, trace->clock_offset_ns, &real_ns) && real_ns >= 0)
        put_clock(snapshot, CLOCK_IS_REALTIME, real_ns);
    vg_wire_put_uint(snapshot, SNAPSHOT_PRIMARY, CLOCK_IS_RAW);
    vg_wire_put_message(trace->packet, PACKET_CLOCK_SNAPSHOT, snapshot);
    vg_wire_put_uint(trace->packet, PACKET_SEQUENCE_ID, SEQUENCE_ID);
    write_packet(trace);
    trace->clock_told = true;
}

/* Uses the raw clock for times without a clock of their own. */
static void
write_head(vg_perfetto *trace)
{
    vg_wire_put_uint(trace->scratch, DEFAULTS_CLOCK_ID, CLOCK_IS_RAW);
    vg_wire_put_uint(trace->packet, PACKET_SEQUENCE_ID, SEQUENCE_ID);
    vg_wire_put_uint(trace->packet, PACKET_SEQUENCE_FLAGS, STATE_CLEARED);
    vg_wire_put_message(trace->packet, PACKET_DEFAULTS, trace->scratch);
    vg_wire_put_uint(trace->packet, PACKET_IS_FIRST, 1);
    write_packet(trace);
}

static void
finish_event(vg_perfetto *trace)
{
    if (!trace->pending)
        return;
    trace->pending = false;
    vg_wire_put_uint(trace->packet, PACKET_TIMESTAMP, (uint64_t)trace->pending_ns);
    vg_wire_put_uint(trace->packet, PACKET_SEQUENCE_ID, SEQUENCE_ID);
    vg_wire_put_message(trace->packet, PACKET_TRACK_EVENT, trace->event);
    if (trace->interned->len > 0)
        vg_wire_put_message(trace->packet, PACKET_INTERNED_DATA, trace->interned);
    vg_wire_put_uint(trace->packet, PACKET_SEQUENCE_FLAGS, NEEDS_STATE);
    g_string_truncate(trace->interned, 0);
    write_packet(trace);
    trace->stats.events++;
}

/* ---- text ---- */

/* Returns the text in the form of a string field. The caller frees it. */
static char *
clean(const char *text)
{
    char *valid = g_utf8_make_valid(text, -1);

    if (strlen(valid) > VG_PERFETTO_TEXT_MAX)
        *g_utf8_find_prev_char(valid, valid + VG_PERFETTO_TEXT_MAX + 1) = '\0';
    return valid;
}

static void
put_clean(GString *to, uint32_t field, const char *text)
{
    g_autofree char *valid = clean(text);

    vg_wire_put_text(to, field, valid);
}

/* Writes a name as its number, which the first event that uses it defines. */
static void
put_name(vg_perfetto *trace, unsigned int kind, GString *to, const char *name)
{
    GHashTable *names = trace->names[kind];
    unsigned int iid = GPOINTER_TO_UINT(g_hash_table_lookup(names, name));

    if (iid == 0 && g_hash_table_size(names) >= VG_PERFETTO_NAMES_MAX) {
        put_clean(to, name_fields[kind].text, name);
        return;
    }
    if (iid == 0) {
        g_autoptr(GString) entry = g_string_new(NULL);
        iid = g_hash_table_size(names) + 1;
        g_hash_table_insert(names, g_strdup(name), GUINT_TO_POINTER(iid));
        vg_wire_put_uint(entry, ENTRY_IID, iid);
        put_clean(entry, ENTRY_NAME, name);
        vg_wire_put_message(trace->interned, name_fields[kind].interned, entry);
    }
    vg_wire_put_uint(to, name_fields[kind].iid, iid);
}

/* ---- the file ---- */

vg_perfetto *
vg_perfetto_open(const char *path, int64_t clock_offset_ns, GError **err)
{
    g_autoptr(vg_perfetto) trace = g_new0(vg_perfetto, 1);
    struct stat st;
    int fd;

    trace->path = g_strdup(path);
    trace->clock_offset_ns = clock_offset_ns;
    trace->tracks = g_array_new(FALSE, TRUE, sizeof(struct track));
    for (unsigned int i = 0; i < NAMES_MAX; i++)
        trace->names[i] = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    trace->event = g_string_new(NULL);
    trace->interned = g_string_new(NULL);
    trace->packet = g_string_new(NULL);
    trace->scratch = g_string_new(NULL);
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        vg_error(err, VG_E_INVALID, "'%s' is not a regular file, so a trace cannot replace it",
                 path);
        return NULL;
    }
    trace->temporary = g_strdup_printf("%s.XXXXXX", path);
    fd = g_mkstemp_full(trace->temporary, O_WRONLY | O_CLOEXEC, 0666);
    if (fd < 0) {
        vg_error_errno(err, errno, "cannot create '%s'", path);
        return NULL;
    }
    trace->file = fdopen(fd, "w");
    if (!trace->file)
        vg_bug("out of memory for '%s'", path);
    trace->buffer = g_malloc(BUFFER_BYTES);
    setvbuf(trace->file, trace->buffer, _IOFBF, BUFFER_BYTES);
    write_head(trace);
    return g_steal_pointer(&trace);
}

static int
finish_file(vg_perfetto *trace)
{
    FILE *file = g_steal_pointer(&trace->file);
    bool failed = fflush(file) != 0 || fsync(fileno(file)) != 0;
    int errnum = failed ? errno : 0;

    if (fclose(file) != 0 && !failed) {
        failed = true;
        errnum = errno;
    }
    if (!failed && !trace->error && rename(trace->temporary, trace->path) != 0) {
        failed = true;
        errnum = errno;
    }
    if (failed && !trace->error)
        vg_error_errno(&trace->error, errnum, "cannot write '%s'", trace->path);
    if (trace->error)
        unlink(trace->temporary);
    return trace->error ? -1 : 0;
}

int
vg_perfetto_close(vg_perfetto *trace, int64_t end_ns, GError **err)
{
    for (unsigned int i = 0; i < trace->tracks->len; i++) {
        const struct track *track = &g_array_index(trace->tracks, struct track, i);
        for (uint32_t open = track->depth; open > 0; open--) {
            vg_perfetto_slice_end(trace, i + 1, MAX(end_ns, track->last_ns));
            trace->stats.closed++;
        }
    }
    finish_event(trace);
    if (finish_file(trace) == 0)
        return 0;
    g_propagate_error(err, g_steal_pointer(&trace->error));
    return -1;
}

void
vg_perfetto_free(vg_perfetto *trace)
{
    if (!trace)
        return;
    if (trace->file) {
        fclose(trace->file);
        unlink(trace->temporary);
    }
    for (unsigned int i = 0; i < NAMES_MAX; i++)
        g_hash_table_unref(trace->names[i]);
    g_array_unref(trace->tracks);
    g_string_free(trace->event, TRUE);
    g_string_free(trace->interned, TRUE);
    g_string_free(trace->packet, TRUE);
    g_string_free(trace->scratch, TRUE);
    g_clear_error(&trace->error);
    g_free(trace->buffer);
    g_free(trace->temporary);
    g_free(trace->path);
    g_free(trace);
}

bool
vg_perfetto_failed(const vg_perfetto *trace)
{
    return trace->error;
}

struct vg_perfetto_stats
vg_perfetto_stats(const vg_perfetto *trace)
{
    return trace->stats;
}

/* ---- tracks ---- */

static void
check_track(const vg_perfetto *trace, uint64_t track)
{
    if (track > trace->tracks->len)
        vg_bug("track %" G_GUINT64_FORMAT " of a trace that has %u", track, trace->tracks->len);
}

/* Adds a track with the message for its kind, which is in trace->scratch. */
static uint64_t
add_track(vg_perfetto *trace, uint64_t parent, const char *name, uint32_t kind)
{
    g_autoptr(GString) descriptor = g_string_new(NULL);
    struct track track = {.counter = kind == TRACK_COUNTER};

    check_track(trace, parent);
    finish_event(trace);
    g_array_append_val(trace->tracks, track);
    vg_wire_put_uint(descriptor, TRACK_UUID, trace->tracks->len);
    put_clean(descriptor, TRACK_NAME, name);
    if (kind)
        vg_wire_put_message(descriptor, kind, trace->scratch);
    if (parent)
        vg_wire_put_uint(descriptor, TRACK_PARENT, parent);
    vg_wire_put_uint(trace->packet, PACKET_SEQUENCE_ID, SEQUENCE_ID);
    vg_wire_put_message(trace->packet, PACKET_TRACK_DESCRIPTOR, descriptor);
    write_packet(trace);
    return trace->tracks->len;
}

uint64_t
vg_perfetto_track(vg_perfetto *trace, uint64_t parent, const char *name)
{
    return add_track(trace, parent, name, 0);
}

uint64_t
vg_perfetto_track_process(vg_perfetto *trace, const char *name, int32_t pid)
{
    g_string_truncate(trace->scratch, 0);
    vg_wire_put_uint(trace->scratch, PROCESS_PID, (uint64_t)pid);
    put_clean(trace->scratch, PROCESS_NAME, name);
    return add_track(trace, 0, name, TRACK_PROCESS);
}

uint64_t
vg_perfetto_track_thread(vg_perfetto *trace, uint64_t parent, const char *name, int32_t pid,
                         int32_t tid)
{
    g_string_truncate(trace->scratch, 0);
    vg_wire_put_uint(trace->scratch, THREAD_PID, (uint64_t)pid);
    vg_wire_put_uint(trace->scratch, THREAD_TID, (uint64_t)tid);
    put_clean(trace->scratch, THREAD_NAME, name);
    return add_track(trace, parent, name, TRACK_THREAD);
}

uint64_t
vg_perfetto_track_counter(vg_perfetto *trace, uint64_t parent, const char *name, const char *unit)
{
    g_string_truncate(trace->scratch, 0);
    if (unit)
        put_clean(trace->scratch, COUNTER_UNIT_NAME, unit);
    return add_track(trace, parent, name, TRACK_COUNTER);
}

/* ---- events ---- */

/* Returns the track, or NULL if there is none. */
static struct track *
find_track(vg_perfetto *trace, uint64_t uuid, bool counter)
{
    check_track(trace, uuid);
    finish_event(trace);
    if (uuid == 0) {
        trace->stats.no_track++;
        return NULL;
    }
    struct track *track = &g_array_index(trace->tracks, struct track, uuid - 1);
    if (track->counter != counter)
        vg_bug("track %" G_GUINT64_FORMAT " takes %s", uuid,
               track->counter ? "only counter values" : "no counter values");
    return track;
}

static void
begin_event(vg_perfetto *trace, uint64_t uuid, struct track *track, int64_t t_ns,
            enum event_type type)
{
    if (t_ns < track->last_ns)
        trace->stats.clamped++;
    track->last_ns = MAX(track->last_ns, t_ns);
    if (!trace->clock_told)
        write_clocks(trace, track->last_ns);
    trace->pending = true;
    trace->pending_ns = track->last_ns;
    g_string_truncate(trace->event, 0);
    vg_wire_put_uint(trace->event, EVENT_TYPE, type);
    vg_wire_put_uint(trace->event, EVENT_TRACK, uuid);
}

void
vg_perfetto_slice_begin(vg_perfetto *trace, uint64_t uuid, int64_t t_ns, const char *name,
                        const char *category)
{
    struct track *track = find_track(trace, uuid, false);

    if (!track)
        return;
    begin_event(trace, uuid, track, t_ns, TYPE_SLICE_BEGIN);
    put_name(trace, NAMES_EVENT, trace->event, name);
    if (category)
        put_name(trace, NAMES_CATEGORY, trace->event, category);
    track->depth++;
}

void
vg_perfetto_slice_end(vg_perfetto *trace, uint64_t uuid, int64_t t_ns)
{
    struct track *track = find_track(trace, uuid, false);

    if (!track)
        return;
    if (track->depth == 0) {
        trace->stats.no_begin++;
        return;
    }
    track->depth--;
    begin_event(trace, uuid, track, t_ns, TYPE_SLICE_END);
    finish_event(trace);
}

void
vg_perfetto_counter_int(vg_perfetto *trace, uint64_t uuid, int64_t t_ns, int64_t value)
{
    struct track *track = find_track(trace, uuid, true);

    if (!track)
        return;
    begin_event(trace, uuid, track, t_ns, TYPE_COUNTER);
    vg_wire_put_uint(trace->event, EVENT_COUNTER_INT, (uint64_t)value);
    finish_event(trace);
}

void
vg_perfetto_counter_double(vg_perfetto *trace, uint64_t uuid, int64_t t_ns, double value)
{
    struct track *track = find_track(trace, uuid, true);

    if (!track)
        return;
    begin_event(trace, uuid, track, t_ns, TYPE_COUNTER);
    vg_wire_put_double(trace->event, EVENT_COUNTER_DOUBLE, value);
    finish_event(trace);
}

void
vg_perfetto_add_flow(vg_perfetto *trace, uint64_t flow)
{
    if (trace->pending)
        vg_wire_put_fixed64(trace->event, EVENT_FLOW, flow);
}

void
vg_perfetto_add_flow_end(vg_perfetto *trace, uint64_t flow)
{
    if (trace->pending)
        vg_wire_put_fixed64(trace->event, EVENT_FLOW_END, flow);
}

void
vg_perfetto_add_int(vg_perfetto *trace, const char *name, int64_t value)
{
    if (!trace->pending)
        return;
    g_string_truncate(trace->scratch, 0);
    put_name(trace, NAMES_ANNOTATION, trace->scratch, name);
    vg_wire_put_uint(trace->scratch, ANNOTATION_INT, (uint64_t)value);
    vg_wire_put_message(trace->event, EVENT_ANNOTATION, trace->scratch);
}

void
vg_perfetto_add_text(vg_perfetto *trace, const char *name, const char *text)
{
    if (!trace->pending)
        return;
    g_string_truncate(trace->scratch, 0);
    put_name(trace, NAMES_ANNOTATION, trace->scratch, name);
    put_clean(trace->scratch, ANNOTATION_TEXT, text);
    vg_wire_put_message(trace->event, EVENT_ANNOTATION, trace->scratch);
}
