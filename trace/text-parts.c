/* SPDX-License-Identifier: Apache-2.0
 *
 * A part starts at a head, if there was a record since the previous one. Parts of the same time are
 * from different CPUs. If they are not, the records of the later part up to the end of the earlier
 * one count as duplicates, as when `cat trace` is repeated.
 */
#include "config.h"

#include "trace/text-parts.h"

#include <string.h>

#include "model/event.h"
#include "trace/text-head.h"
#include "trace/text-line.h"

#define CPU_WORDS (VG_CPU_LIMIT / 64)

/* What is known about a part during the search. */
struct text_part_look {
    struct vg_text_part part;
    uint64_t *cpus; /* CPU_WORDS, one bit per CPU with records; owned */
    unsigned int n_cpus;
    bool is_tracefs;
};

static void
text_parts_clear(void *data)
{
    struct text_part_look *look = data;
    g_free(look->cpus);
}

static void
text_parts_add(GArray *looks, int64_t begin, struct vg_text_span text)
{
    const struct text_part_look look = {
        .part = {.begin = begin,
                 .end = INT64_MAX,
                 .begin_ns = INT64_MAX,
                 .end_ns = INT64_MIN,
                 .skip_ns = INT64_MIN},
        .cpus = g_new0(uint64_t, CPU_WORDS),
        .is_tracefs = memmem(text.s, text.len, "# tracer:", 9) != NULL,
    };

    if (looks->len > 0)
        g_array_index(looks, struct text_part_look, looks->len - 1).part.end = begin;
    g_array_append_val(looks, look);
}

static bool
text_parts_line_tells_loss(struct vg_text_span text)
{
    return memmem(text.s, text.len, "LOST", 4) || memmem(text.s, text.len, "DROPPED", 7) ||
           vg_text_head_is_overwritten(text);
}

static void
text_parts_find_heads(vg_text_source *source, GArray *looks, bool *ret_tells_loss)
{
    struct vg_text_raw_line raw;
    struct vg_text_line line;
    bool any = false; /* there was a record since the last head */

    while (vg_text_source_next(source, &raw)) {
        if (raw.too_long)
            continue;
        *ret_tells_loss |= text_parts_line_tells_loss(raw.text);
        enum vg_text_kind kind = vg_text_line_parse(raw.text, &line);
        bool is_head = kind == VG_TEXT_HEADER && vg_text_head_is(raw.text);
        if (looks->len == 0 || (is_head && any && looks->len < VG_TEXT_PARTS_MAX)) {
            text_parts_add(looks, raw.offset, raw.text);
            any = false;
        }
        any = any || kind == VG_TEXT_EVENT;
    }
    /* A head without records belongs to the previous part. */
    if (!any && looks->len > 1) {
        g_array_set_size(looks, looks->len - 1);
        g_array_index(looks, struct text_part_look, looks->len - 1).part.end = INT64_MAX;
    }
}

static void
text_parts_read(vg_text_source *source, GArray *looks)
{
    struct vg_text_raw_line raw;
    struct vg_text_line line;
    guint i = 0;

    while (vg_text_source_next(source, &raw)) {
        struct text_part_look *look = &g_array_index(looks, struct text_part_look, i);
        if (raw.offset >= look->part.end)
            look = &g_array_index(looks, struct text_part_look, ++i);
        if (raw.too_long || vg_text_line_parse(raw.text, &line) != VG_TEXT_EVENT || line.impossible)
            continue;
        look->part.begin_ns = MIN(look->part.begin_ns, line.ts_ns);
        look->part.end_ns = MAX(look->part.end_ns, line.ts_ns);
        uint64_t *word = &look->cpus[line.cpu / 64], bit = UINT64_C(1) << (line.cpu % 64);
        look->n_cpus += !(*word & bit);
        *word |= bit;
    }
}

static bool
text_parts_share_cpu(const struct text_part_look *a, const struct text_part_look *b)
{
    for (size_t i = 0; i < CPU_WORDS; i++) {
        if (a->cpus[i] & b->cpus[i])
            return true;
    }
    return false;
}

static int
text_parts_compare(const void *a, const void *b)
{
    const struct vg_text_part *x = &((const struct text_part_look *)a)->part;
    const struct vg_text_part *y = &((const struct text_part_look *)b)->part;

    if (x->begin_ns != y->begin_ns)
        return x->begin_ns < y->begin_ns ? -1 : 1;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

/* Returns whether the parts are the files of per_cpu: each has one CPU, and no two have the
 * same. */
static bool
text_parts_are_cpus(const GArray *looks)
{
    for (guint i = 0; i < looks->len; i++) {
        const struct text_part_look *look = &g_array_index(looks, struct text_part_look, i);
        if (!look->is_tracefs || look->n_cpus != 1)
            return false;
        for (guint k = 0; k < i; k++) {
            if (text_parts_share_cpu(look, &g_array_index(looks, struct text_part_look, k)))
                return false;
        }
    }
    return true;
}

/* Sorts parts by time, and finds where recordings start and which parts repeat others. */
static unsigned int
text_parts_lay_out(GArray *looks)
{
    bool are_cpus = text_parts_are_cpus(looks);
    int64_t end_ns = INT64_MIN;
    unsigned int repeats = 0;

    for (guint i = 0; i < looks->len; i++) {
        struct text_part_look *look = &g_array_index(looks, struct text_part_look, i);
        look->part.begins_recording = i == 0 || (!are_cpus && look->part.begin_ns > end_ns);
        for (guint k = 0; k < i && !look->part.begins_recording; k++) {
            const struct text_part_look *other = &g_array_index(looks, struct text_part_look, k);
            if (other->part.end_ns >= look->part.begin_ns && text_parts_share_cpu(look, other))
                look->part.skip_ns = MAX(look->part.skip_ns, other->part.end_ns);
        }
        repeats += look->part.skip_ns != INT64_MIN;
        end_ns = MAX(end_ns, look->part.end_ns);
    }
    return repeats;
}

void
vg_text_parts_find(vg_text_source *source, vg_text_source *again, struct vg_text_parts *ret)
{
    g_autoptr(GArray) looks = g_array_new(FALSE, FALSE, sizeof(struct text_part_look));

    g_array_set_clear_func(looks, text_parts_clear);
    *ret = (struct vg_text_parts){0};
    text_parts_find_heads(source, looks, &ret->tells_loss);
    if (looks->len < 2)
        return;
    text_parts_read(again, looks);
    g_array_sort(looks, text_parts_compare);
    ret->repeats = text_parts_lay_out(looks);
    ret->list = g_array_new(FALSE, FALSE, sizeof(struct vg_text_part));
    for (guint i = 0; i < looks->len; i++)
        g_array_append_val(ret->list, g_array_index(looks, struct text_part_look, i).part);
}
