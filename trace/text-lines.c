/* SPDX-License-Identifier: Apache-2.0
 *
 * Each started part has a cursor with its next record. The earliest record is delivered, followed
 * by the lines after it, up to the part's next record.
 */
#include "config.h"

#include "trace/text-lines.h"

#include <string.h>

#include "trace/text-head.h"
#include "trace/text-line.h"
#include "trace/text-parts.h"

struct text_cursor {
    const struct vg_text_part *part;
    vg_text_source *source;
    struct vg_text_raw_line held; /* the next record */
    int64_t ts_ns;                /* of held; INT64_MIN: there is none */
};

struct vg_text_lines {
    vg_text_source *source; /* of the text in its order */
    GArray *parts;          /* from vg_text_parts_find(), shared; NULL: source is read */
    bool tells_loss;
    GArray *cursors;             /* struct text_cursor */
    guint n_begun;               /* number of started parts */
    struct text_cursor *current; /* source of the delivered lines; in cursors, or NULL */
    int64_t bytes;               /* of all delivered lines */
    int64_t offset;              /* of the last delivered line */
    char *damage, *error;
};

static void
text_lines_clear_cursor(void *data)
{
    struct text_cursor *cursor = data;
    vg_text_source_free(cursor->source);
}

static vg_text_lines *
text_lines_make(vg_text_source *source_take, GArray *parts, bool tells_loss)
{
    vg_text_lines *lines = g_new0(vg_text_lines, 1);

    lines->source = source_take;
    lines->parts = parts ? g_array_ref(parts) : NULL;
    lines->tells_loss = tells_loss;
    lines->cursors = g_array_new(FALSE, FALSE, sizeof(struct text_cursor));
    g_array_set_clear_func(lines->cursors, text_lines_clear_cursor);
    return lines;
}

vg_text_lines *
vg_text_lines_new(vg_text_source *source_take, vg_recording *recording)
{
    struct vg_text_parts parts = {.tells_loss = true};

    if (!source_take)
        return NULL;
    g_autoptr(vg_text_source) first = vg_text_source_again(source_take);
    g_autoptr(vg_text_source) again = vg_text_source_again(source_take);
    if (first && again)
        vg_text_parts_find(first, again, &parts);
    if (parts.repeats > 0)
        vg_recording_problem(recording, recording->name, VG_NONE,
                             "%u of the %u recordings in this text start before others of the same "
                             "CPUs end; their records up to that end are ignored as duplicates",
                             parts.repeats, parts.list->len);
    vg_text_lines *lines = text_lines_make(source_take, parts.list, parts.tells_loss);
    g_clear_pointer(&parts.list, g_array_unref);
    return lines;
}

vg_text_lines *
vg_text_lines_again(const vg_text_lines *lines)
{
    vg_text_source *source = vg_text_source_again(lines->source);
    return source ? text_lines_make(source, lines->parts, lines->tells_loss) : NULL;
}

void
vg_text_lines_free(vg_text_lines *lines)
{
    if (!lines)
        return;
    vg_text_source_free(lines->source);
    g_clear_pointer(&lines->parts, g_array_unref);
    g_array_unref(lines->cursors);
    g_free(lines->damage);
    g_free(lines->error);
    g_free(lines);
}

static const struct vg_text_part *
text_lines_next_part(const vg_text_lines *lines)
{
    return lines->n_begun < lines->parts->len
               ? &g_array_index(lines->parts, struct vg_text_part, lines->n_begun)
               : NULL;
}

static void
text_lines_begin_part(vg_text_lines *lines)
{
    g_autoptr(GError) error = NULL;
    const struct vg_text_part *part = text_lines_next_part(lines);
    struct text_cursor cursor = {.part = part, .ts_ns = INT64_MIN};

    lines->n_begun++;
    cursor.source = vg_text_source_part(lines->source, part->begin, part->end, &error);
    if (!cursor.source) {
        lines->error = g_strdup_printf("%u parts of the text cover the same time: %s",
                                       lines->cursors->len + 1, error->message);
        return;
    }
    g_array_append_val(lines->cursors, cursor);
    lines->current = &g_array_index(lines->cursors, struct text_cursor, lines->cursors->len - 1);
}

static void
text_lines_end_part(vg_text_lines *lines)
{
    const char *damage = vg_text_source_damage(lines->current->source);

    if (damage && !lines->damage)
        lines->damage = g_strdup(damage);
    g_array_remove_index_fast(
        lines->cursors,
        (guint)(lines->current - (struct text_cursor *)(void *)lines->cursors->data));
    lines->current = NULL;
}

/* Selects the cursor with the earliest record. If a part does not start after it, starts that part
 * first. Returns false if there are no more records. */
static bool
text_lines_choose(vg_text_lines *lines)
{
    const struct vg_text_part *next = text_lines_next_part(lines);
    struct text_cursor *first = NULL;

    for (guint i = 0; i < lines->cursors->len; i++) {
        struct text_cursor *cursor = &g_array_index(lines->cursors, struct text_cursor, i);
        if (!first || cursor->ts_ns < first->ts_ns ||
            (cursor->ts_ns == first->ts_ns && cursor->part->begin < first->part->begin))
            first = cursor;
    }
    lines->current = first;
    if (next && (!first || next->begin_ns <= first->ts_ns))
        text_lines_begin_part(lines);
    return lines->current && !lines->error;
}

/* Reads the next line of the present part that can be delivered now. Returns false if it is a
 * record, which is held, or the part has ended. */
static bool
text_lines_read(struct text_cursor *cursor, struct vg_text_raw_line *ret, bool *ret_at_end)
{
    struct vg_text_line line;

    while (vg_text_source_next(cursor->source, ret)) {
        enum vg_text_kind kind =
            ret->too_long ? VG_TEXT_UNKNOWN : vg_text_line_parse(ret->text, &line);
        if (kind == VG_TEXT_EVENT && line.ts_ns <= cursor->part->skip_ns)
            continue;
        if (kind == VG_TEXT_EVENT) {
            cursor->held = *ret;
            cursor->ts_ns = line.ts_ns;
            return false;
        }
        if (kind != VG_TEXT_HEADER || cursor->part->begins_recording || !vg_text_head_is(ret->text))
            return true;
    }
    *ret_at_end = true;
    return false;
}

static bool
text_lines_next_of_parts(vg_text_lines *lines, struct vg_text_raw_line *ret)
{
    for (;;) {
        struct text_cursor *cursor = lines->current;
        bool at_end = false;
        if (cursor && cursor->ts_ns == INT64_MIN) {
            if (text_lines_read(cursor, ret, &at_end))
                return true;
            if (at_end)
                text_lines_end_part(lines);
        }
        if (!text_lines_choose(lines))
            return false;
        if (lines->current->ts_ns == INT64_MIN)
            continue;
        *ret = lines->current->held;
        lines->current->ts_ns = INT64_MIN;
        return true;
    }
}

bool
vg_text_lines_next(vg_text_lines *lines, struct vg_text_raw_line *ret)
{
    if (!lines->parts)
        return vg_text_source_next(lines->source, ret);
    if (!text_lines_next_of_parts(lines, ret))
        return false;
    lines->offset = ret->offset;
    lines->bytes += (int64_t)ret->text.len + 1;
    return true;
}

bool
vg_text_lines_report_loss(const vg_text_lines *lines)
{
    return lines->tells_loss;
}

int64_t
vg_text_lines_offset(const vg_text_lines *lines)
{
    return lines->parts ? lines->offset : vg_text_source_offset(lines->source);
}

int64_t
vg_text_lines_bytes(const vg_text_lines *lines)
{
    return lines->parts ? lines->bytes : vg_text_source_offset(lines->source);
}

const char *
vg_text_lines_damage(const vg_text_lines *lines)
{
    return lines->parts ? lines->damage : vg_text_source_damage(lines->source);
}

double
vg_text_lines_progress(const vg_text_lines *lines)
{
    if (!lines->parts)
        return vg_text_source_progress(lines->source);
    return (double)lines->n_begun / (double)lines->parts->len;
}

vg_text_source *
vg_text_lines_source(const vg_text_lines *lines)
{
    return lines->source;
}

const char *
vg_text_lines_error(const vg_text_lines *lines)
{
    return lines->error;
}
