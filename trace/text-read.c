/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "trace/text-read.h"

#include <string.h>

#include "base/error.h"
#include "trace/absent-cpus.h"
#include "trace/adapter.h"
#include "trace/late-cpus.h"
#include "trace/text-ahead.h"
#include "trace/text-body.h"
#include "trace/text-class.h"
#include "trace/text-files.h"
#include "trace/text-foreign.h"
#include "trace/text-head.h"
#include "trace/text-line.h"
#include "trace/text-lines.h"
#include "trace/text-scan.h"
#include "trace/text-silence.h"

/* More consecutive zero bytes than any field can contain. */
#define HOLE_SIZE 32

/* The maximum length of a quotation from an unknown line. */
#define QUOTE_MAX 60

/* A recording reserves the rest of its problems for the file itself: damage, time. */
#define LINE_PROBLEMS_MAX (VG_TRACE_PROBLEMS_MAX - 10)

struct text_recording {
    struct vg_recording base;
    vg_text_lines *lines;
    struct vg_text_files *files;
    struct vg_text_files_at at;
    GHashTable *classes;         /* name -> struct vg_text_class, owned */
    struct vg_text_class *other; /* for names beyond the limits; never NULL */
    struct vg_adapt_env env;
    bool have_time;
    int64_t last_ns; /* of the last event */
    bool waking_seen;
    bool begins_again; /* a head came after the last event: a gap up to the next event */
    struct vg_text_silence silence;
    bool gap;        /* lines between the last event and the next one may have been events */
    GArray *scanned; /* struct vg_event: losses known when the file was opened; or NULL */
    guint n_scanned; /* number of delivered ones */
    uint64_t seen[VG_CPU_LIMIT / 64]; /* one bit per CPU of which an event was read */
    uint64_t lost[VG_CPU_LIMIT / 64]; /* one bit per CPU that was found to have no events */
    vg_text_ahead *ahead;             /* NULL: not needed so far */
    GArray *
        losses; /* struct vg_event, one per CPU: reported losses whose end becomes known only now */
    GArray *queue;    /* struct vg_event, to be delivered */
    size_t delivered; /* number of delivered ones in queue */
    bool at_end;
    bool is_mixed;    /* recordings of the same time were appended without merging */
    const char *hint; /* how to handle the first unknown line, or NULL */
};

static struct vg_text_class *
text_read_class_of(struct text_recording *recording, const struct vg_text_line *line)
{
    if (line->event.len == 0 || line->event.len > VG_TEXT_EVENT_NAME_MAX)
        return recording->other;
    struct vg_text_class *class = g_hash_table_lookup(recording->classes, &line->event);
    if (class)
        return class;
    if (g_hash_table_size(recording->classes) >= VG_TEXT_EVENT_NAMES_MAX ||
        memchr(line->event.s, '\0', line->event.len))
        return recording->other;
    class = vg_text_class_new(line->event, line->body, recording->base.aliases);
    g_hash_table_insert(recording->classes, &class->name, class);
    return class;
}

/* ---- is there a sched_wakeup at all? ---- */

static bool
lines_have_wakeup(vg_text_lines *lines, struct vg_text_files *files)
{
    struct vg_text_files_at at = {files, false};
    struct vg_text_raw_line raw;
    struct vg_text_line line;

    while (vg_text_lines_next(lines, &raw)) {
        if (!raw.too_long &&
            memmem(raw.text.s, raw.text.len, VG_TEXT_WAKEUP, strlen(VG_TEXT_WAKEUP)) &&
            vg_text_line_parse(raw.text, &line) == VG_TEXT_EVENT &&
            vg_text_files_take(&at, VG_TEXT_EVENT, &line) &&
            vg_text_class_is(line.event, VG_TEXT_WAKEUP))
            return true;
    }
    return false;
}

static void
note_wakeups(struct text_recording *recording, const struct vg_text_class *class)
{
    if (class->is_wakeup)
        recording->base.has_wakeup = true;
    if (!class->is_waking || recording->waking_seen)
        return;
    recording->waking_seen = true;
    if (recording->base.has_wakeup)
        return;
    g_autoptr(vg_text_lines) again = vg_text_lines_again(recording->lines);
    recording->base.has_wakeup = again && lines_have_wakeup(again, recording->files);
}

/* ---- lines to events ---- */

/* An unknown line was a record of any CPU, between the events around it. */
static void
text_add_gap(struct text_recording *recording, int64_t next_ns)
{
    const struct vg_event loss = {
        .ts_ns = recording->last_ns,
        .type = VG_EVENT_LOST,
        .cpu = VG_NONE,
        .tid = VG_NONE,
        .pid = VG_NONE,
        .lost = {.end_ns = MAX(next_ns, recording->last_ns), .any_cpu = true},
    };

    recording->gap = recording->begins_again = false;
    g_array_append_val(recording->queue, loss);
}

/* Delivers the known losses that start before next_ns. */
static void
text_flush_scanned(struct text_recording *recording, int64_t next_ns)
{
    for (; recording->scanned && recording->n_scanned < recording->scanned->len;
         recording->n_scanned++) {
        struct vg_event loss =
            g_array_index(recording->scanned, struct vg_event, recording->n_scanned);
        if (loss.ts_ns >= next_ns)
            return;
        /* In case time goes backwards. */
        loss.ts_ns = recording->have_time ? MAX(loss.ts_ns, recording->last_ns) : loss.ts_ns;
        loss.lost.end_ns = MAX(loss.lost.end_ns, loss.ts_ns);
        g_array_append_val(recording->queue, loss);
    }
}

/* Delivers the losses that were read. next_ns is the time of the next event, on next_cpu. A loss of
 * that CPU ends there. Others are reported at the time of the last event, or of the first one. */
static void
flush_losses(struct text_recording *recording, int64_t next_ns, int32_t next_cpu)
{
    text_flush_scanned(recording, next_ns);
    if (recording->gap || recording->begins_again)
        text_add_gap(recording, next_ns);
    for (unsigned int i = 0; i < recording->losses->len; i++) {
        struct vg_event *loss = &g_array_index(recording->losses, struct vg_event, i);
        loss->ts_ns = recording->have_time ? recording->last_ns : next_ns;
        loss->lost.end_ns = loss->cpu == next_cpu ? MAX(next_ns, loss->ts_ns) : loss->ts_ns;
        g_array_append_val(recording->queue, *loss);
    }
    g_array_set_size(recording->losses, 0);
}

/* Returns the time for delivery, which is never before that of the last event. */
static int64_t
forward_time(struct text_recording *recording, int64_t ts_ns, int64_t offset)
{
    if (!recording->have_time || ts_ns >= recording->last_ns)
        return ts_ns;
    if (recording->base.backwards++ == 0)
        vg_recording_problem(&recording->base, recording->base.name, offset,
                             "time runs backwards (by %" G_GINT64_FORMAT
                             " ns); such events count at the time of the previous event",
                             recording->last_ns - ts_ns);
    return recording->last_ns;
}

/* Returns whether there is space for another problem of a single line. */
static bool
keep_line_problem(struct text_recording *recording)
{
    if (recording->base.problems.list->len < LINE_PROBLEMS_MAX)
        return true;
    recording->base.problems.dropped++;
    return false;
}

static void
text_read_reject(struct text_recording *recording, int64_t offset, const char *why)
{
    recording->base.rejected++;
    if (keep_line_problem(recording))
        vg_recording_problem(&recording->base, recording->base.name, offset, "event ignored: %s",
                             why);
}

/* Reports CPUs without records as lost, like CPUs without a stream in CTF: it is unknown when a
 * thread that is woken there runs. */
static void
text_read_check_target(struct text_recording *recording, const struct vg_event *event)
{
    const int32_t cpu = vg_absent_cpus_target(event);

    if (cpu == VG_NONE || (recording->seen[cpu / 64] | recording->lost[cpu / 64]) >> (cpu % 64) & 1)
        return;
    if (!recording->ahead)
        recording->ahead = vg_text_ahead_new(recording->lines, recording->files);
    if (!recording->ahead || vg_text_ahead_has_cpu(recording->ahead, cpu))
        return;
    recording->lost[cpu / 64] |= UINT64_C(1) << (cpu % 64);
    const struct vg_event loss = vg_absent_cpu_loss(cpu, event->ts_ns);
    g_array_append_val(recording->queue, loss);
}

/* Text of several recordings without header lines: the time between them was not observed. */
static void
text_read_check_silence(struct text_recording *recording, const struct vg_event *event,
                        int64_t offset)
{
    if (!recording->have_time)
        return;
    if (recording->gap || recording->begins_again || recording->losses->len > 0)
        vg_text_silence_forget(&recording->silence);
    const int64_t silent_ns = vg_text_silence_take(&recording->silence, event, recording->last_ns);
    if (silent_ns == 0)
        return;
    recording->begins_again = true;
    if (keep_line_problem(recording))
        vg_recording_problem(&recording->base, recording->base.name, offset,
                             "no CPU has records for %.3f s, and then CPU %d runs another thread "
                             "than before, as in joined recordings without header lines; this time "
                             "counts as not observed",
                             (double)silent_ns / 1e9, event->cpu);
}

static void
take_event(struct text_recording *recording, const struct vg_text_line *line, int64_t offset)
{
    struct vg_text_record record;
    struct vg_event event = {.cpu = VG_NONE};

    recording->base.events++;
    if (line->impossible) {
        text_read_reject(recording, offset, line->impossible);
        return;
    }
    struct vg_text_class *class = text_read_class_of(recording, line);
    note_wakeups(recording, class);
    recording->is_mixed |= recording->begins_again && line->ts_ns < recording->last_ns;
    event.ts_ns = forward_time(recording, line->ts_ns, offset);
    event.cpu = (int16_t)line->cpu;
    record.line = line;
    if (class->layout.n_wanted > 0)
        vg_text_body_read(&class->layout, line->body, record.values);
    const char *why = vg_binding_read(&class->binding, &recording->env, &record, &event);

    if (!why)
        text_read_check_silence(recording, &event, offset);
    flush_losses(recording, event.ts_ns, event.cpu);
    recording->have_time = true;
    recording->last_ns = event.ts_ns;
    if (why) {
        text_read_reject(recording, offset, why);
        return;
    }
    if (event.cpu >= 0)
        recording->seen[event.cpu / 64] |= UINT64_C(1) << (event.cpu % 64);
    recording->base.has_switch |= event.type == VG_EVENT_SCHED_SWITCH;
    text_read_check_target(recording, &event);
    g_array_append_val(recording->queue, event);
}

/* Handles perf's records about processes. They have time 0 for earlier facts and are not part of
 * the recording's time, so each is delivered with the previous event. */
static void
text_read_take_process(struct text_recording *recording, const struct vg_text_line *line)
{
    struct vg_text_record record = {.line = line};
    struct vg_event event = {
        .ts_ns = recording->have_time ? recording->last_ns : VG_TIME_UNKNOWN,
        .cpu = VG_NONE,
    };
    struct vg_text_class *class = text_read_class_of(recording, line);

    vg_text_body_read(&class->layout, line->body, record.values);
    if (!vg_binding_read(&class->binding, &recording->env, &record, &event))
        g_array_append_val(recording->queue, event);
}

static struct vg_event *
pending_loss(struct text_recording *recording, int32_t cpu)
{
    const struct vg_event loss = {
        .type = VG_EVENT_LOST,
        .cpu = (int16_t)cpu,
        .tid = VG_NONE,
        .pid = VG_NONE,
    };

    for (unsigned int i = 0; i < recording->losses->len; i++) {
        struct vg_event *known = &g_array_index(recording->losses, struct vg_event, i);
        if (known->cpu == loss.cpu)
            return known;
    }
    g_array_append_val(recording->losses, loss);
    return &g_array_index(recording->losses, struct vg_event, recording->losses->len - 1);
}

static void
take_loss(struct text_recording *recording, const struct vg_text_line *line, int64_t offset)
{
    if (line->impossible) {
        text_read_reject(recording, offset, line->impossible);
        return;
    }
    vg_text_silence_forget(&recording->silence);
    if (recording->scanned && line->cpu != VG_NONE &&
        recording->seen[line->cpu / 64] >> (line->cpu % 64) & 1)
        return;
    struct vg_event *loss = pending_loss(recording, line->cpu);
    loss->lost.events += (uint64_t)line->lost;
    if (line->ts_ns == VG_NONE)
        return;
    int64_t ts_ns = recording->have_time ? MAX(line->ts_ns, recording->last_ns) : line->ts_ns;
    flush_losses(recording, ts_ns, line->cpu);
    recording->have_time = true;
    recording->last_ns = ts_ns;
}

static void
not_understood(struct text_recording *recording, struct vg_text_span text, int64_t offset)
{
    if (!keep_line_problem(recording))
        return;
    const char *hint = vg_text_foreign_hint(text);
    recording->hint = recording->hint ? recording->hint : hint;
    g_autofree char *part = g_strndup(text.s, MIN(text.len, QUOTE_MAX));
    g_autofree char *quote = g_strescape(part, NULL);

    vg_recording_problem(&recording->base, recording->base.name, offset,
                         "line not understood: \"%s\"%s%s%s", quote,
                         text.len > QUOTE_MAX ? "..." : "", hint ? "; " : "", hint ? hint : "");
}

/* Detects what a file system returns for blocks that were never written. */
static bool
has_hole(struct vg_text_span text)
{
    static const char hole[HOLE_SIZE] = {0};

    return memmem(text.s, text.len, hole, sizeof(hole)) != NULL;
}

static void
text_read_take_head(struct text_recording *recording, struct vg_text_span text)
{
    recording->base.host_cpus = MAX(recording->base.host_cpus, vg_text_head_host_cpus(text));
}

static enum vg_text_kind
text_read_line(struct text_recording *recording, const struct vg_text_raw_line *raw)
{
    struct vg_text_line line;

    if (raw->too_long) {
        if (keep_line_problem(recording))
            vg_recording_problem(&recording->base, recording->base.name, raw->offset,
                                 "line of more than %d bytes, skipped", VG_TEXT_LINE_MAX);
        return VG_TEXT_UNKNOWN;
    }
    if (has_hole(raw->text)) {
        if (keep_line_problem(recording))
            vg_recording_problem(
                &recording->base, recording->base.name, raw->offset,
                "zero bytes instead of text; the lines where they start and end are ignored");
        return VG_TEXT_UNKNOWN;
    }
    enum vg_text_kind kind = vg_text_line_parse(raw->text, &line);
    if (!vg_text_files_take(&recording->at, kind, &line))
        return VG_TEXT_SKIP;
    switch (kind) {
    case VG_TEXT_EVENT:
        take_event(recording, &line, raw->offset);
        recording->gap |= line.impossible && recording->have_time;
        break;
    case VG_TEXT_PROCESS:
        text_read_take_process(recording, &line);
        break;
    case VG_TEXT_LOST:
        take_loss(recording, &line, raw->offset);
        break;
    case VG_TEXT_COUNTER:
        if (keep_line_problem(recording))
            vg_recording_problem(&recording->base, recording->base.name, raw->offset,
                                 "time is a bare count, not seconds; event ignored");
        break;
    case VG_TEXT_UNKNOWN:
        not_understood(recording, raw->text, raw->offset);
        break;
    case VG_TEXT_HEADER:
        recording->begins_again |= recording->have_time && vg_text_head_is(raw->text);
        text_read_take_head(recording, raw->text);
        break;
    case VG_TEXT_COMMENT:
        text_read_take_head(recording, raw->text);
        break;
    case VG_TEXT_SKIP:
        break;
    }
    return kind;
}

/* Handles one line. Between events, an unknown line may have been an event. */
static enum vg_text_kind
take_line(struct text_recording *recording, const struct vg_text_raw_line *raw)
{
    enum vg_text_kind kind = text_read_line(recording, raw);

    if (kind == VG_TEXT_UNKNOWN || kind == VG_TEXT_COUNTER)
        recording->gap |= recording->have_time;
    return kind;
}

/* ---- the recording ---- */

/* Handles the end after the last line. */
static void
text_read_finish(struct text_recording *recording)
{
    const char *damage = vg_text_lines_damage(recording->lines);

    recording->at_end = true;
    recording->base.is_cut = recording->gap || damage;
    /* The text after the last event is not part of the recording. */
    recording->gap = recording->begins_again = false;
    if (recording->have_time)
        text_flush_scanned(recording, INT64_MAX);
    if (recording->have_time)
        flush_losses(recording, recording->last_ns, VG_NONE);
    if (damage)
        vg_recording_problem(&recording->base, recording->base.name,
                             vg_text_lines_offset(recording->lines), "%s", damage);
}

static int
text_next(vg_recording *base, struct vg_event *ret_event, GError **err)
{
    struct text_recording *recording = (struct text_recording *)base;
    struct vg_text_raw_line raw;

    for (;;) {
        if (recording->delivered < recording->queue->len) {
            *ret_event = g_array_index(recording->queue, struct vg_event, recording->delivered++);
            return 1;
        }
        g_array_set_size(recording->queue, 0);
        recording->delivered = 0;
        if (recording->at_end)
            return 0;
        if (vg_text_lines_next(recording->lines, &raw))
            take_line(recording, &raw);
        else if (vg_text_lines_error(recording->lines))
            return vg_error(err, VG_E_IO, "%s: %s", base->name,
                            vg_text_lines_error(recording->lines));
        else
            text_read_finish(recording);
        if (recording->is_mixed)
            return vg_error(err, VG_E_INVALID,
                            "%s: a recording starts before the previous one ends, for example "
                            "because per_cpu files were joined; put the text into a file",
                            base->name);
    }
}

static double
text_progress(const vg_recording *base)
{
    const struct text_recording *recording = (const struct text_recording *)base;
    return vg_text_lines_progress(recording->lines);
}

static void
text_free(vg_recording *base)
{
    struct text_recording *recording = (struct text_recording *)base;

    vg_text_ahead_free(recording->ahead);
    vg_text_lines_free(recording->lines);
    vg_text_files_free(recording->files);
    vg_text_silence_clear(&recording->silence);
    g_hash_table_unref(recording->classes);
    vg_text_class_free(recording->other);
    g_array_unref(recording->losses);
    g_clear_pointer(&recording->scanned, g_array_unref);
    g_array_unref(recording->queue);
    vg_recording_clear(base);
    g_free(recording);
}

static const struct vg_recording_ops text_ops = {
    .next = text_next,
    .progress = text_progress,
    .free = text_free,
};

/* Reads up to the first event, which remains in the queue. */
static int
probe(struct text_recording *recording, GError **err)
{
    const char *name = recording->base.name;
    struct vg_text_raw_line raw;
    bool understood = false;

    if (vg_text_foreign_refuse(vg_text_lines_source(recording->lines), name, err) != 0)
        return -1;
    while (vg_text_lines_bytes(recording->lines) <= VG_TEXT_PROBE_MAX) {
        if (!vg_text_lines_next(recording->lines, &raw)) {
            text_read_finish(recording);
            break;
        }
        enum vg_text_kind kind = take_line(recording, &raw);
        if (kind == VG_TEXT_EVENT)
            return 0;
        if (kind == VG_TEXT_COUNTER)
            return vg_error(err, VG_E_INVALID,
                            "%s: times at byte %" G_GINT64_FORMAT
                            " are bare counts, not seconds; record with a clock that counts "
                            "seconds, for example `echo mono > trace_clock` or `trace-cmd record "
                            "-C mono`",
                            name, raw.offset);
        understood |= kind == VG_TEXT_HEADER || kind == VG_TEXT_LOST;
        if (recording->queue->len > 0)
            return 0;
    }
    if (understood)
        return 0;
    const char *why = vg_text_lines_damage(recording->lines);
    if (!why)
        why = recording->hint;
    return vg_error(err, VG_E_INVALID,
                    "%s: found no line of tracefs, trace-cmd report or perf script text%s%s", name,
                    why ? "; " : "", why ? why : "");
}

/* The losses of a late CPU start at the beginning. */
static void
text_find_losses(struct text_recording *recording)
{
    vg_recording *base = &recording->base;
    int64_t begin_ns = 0;

    recording->scanned = g_array_new(FALSE, FALSE, sizeof(struct vg_event));
    if (!vg_text_scan(recording->lines, recording->files, base, recording->scanned, &begin_ns))
        g_clear_pointer(&recording->scanned, g_array_unref);
    vg_late_cpus_report(base, begin_ns);
    for (guint i = base->late->len; i > 0; i--) {
        const struct vg_event loss =
            vg_late_cpu_loss(&g_array_index(base->late, struct vg_late_cpu, i - 1), begin_ns);
        g_array_prepend_val(recording->queue, loss);
    }
}

static vg_recording *
text_read_open_source(vg_text_source *source_take, const char *name, vg_aliases *aliases,
                      GError **err)
{
    struct text_recording *recording = g_new0(struct text_recording, 1);

    vg_recording_init(&recording->base, &text_ops, name, NULL, aliases);
    recording->lines = vg_text_lines_new(source_take, &recording->base);
    recording->classes =
        g_hash_table_new_full(vg_text_class_hash, vg_text_class_equal, NULL, vg_text_class_free);
    recording->other = vg_text_class_new((struct vg_text_span){0}, (struct vg_text_span){0}, NULL);
    vg_adapt_env_init(&recording->env, NULL, recording->base.names);
    vg_text_silence_init(&recording->silence);
    recording->losses = g_array_new(FALSE, FALSE, sizeof(struct vg_event));
    recording->queue = g_array_new(FALSE, FALSE, sizeof(struct vg_event));
    recording->files = vg_text_files_find(recording->lines, &recording->base);
    recording->at.files = recording->files;
    if (probe(recording, err) != 0) {
        text_free(&recording->base);
        return NULL;
    }
    text_find_losses(recording);
    return &recording->base;
}

vg_recording *
vg_text_open(const char *path, vg_aliases *aliases, GError **err)
{
    vg_text_source *source = vg_text_source_open(path, err);
    return source ? text_read_open_source(source, path, aliases, err) : NULL;
}

vg_recording *
vg_text_open_memory(const char *name, const char *text, size_t size, GError **err)
{
    vg_text_source *source = vg_text_source_memory(text, size);

    return text_read_open_source(source, name, NULL, err);
}
