/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "trace/text-ahead.h"

#include "trace/text-line.h"

struct vg_text_ahead {
    vg_text_lines *lines;
    struct vg_text_files_at at;
    uint64_t seen[VG_CPU_LIMIT / 64]; /* one bit per CPU that had an event */
    bool at_end;
};

vg_text_ahead *
vg_text_ahead_new(const vg_text_lines *lines, struct vg_text_files *files)
{
    vg_text_lines *again = vg_text_lines_again(lines);

    if (!again)
        return NULL;
    vg_text_ahead *ahead = g_new0(vg_text_ahead, 1);
    ahead->lines = again;
    ahead->at.files = files;
    return ahead;
}

void
vg_text_ahead_free(vg_text_ahead *ahead)
{
    if (!ahead)
        return;
    vg_text_lines_free(ahead->lines);
    g_free(ahead);
}

static void
text_ahead_take(vg_text_ahead *ahead, const struct vg_text_raw_line *raw)
{
    struct vg_text_line line;

    if (raw->too_long)
        return;
    const enum vg_text_kind kind = vg_text_line_parse(raw->text, &line);
    if (vg_text_files_take(&ahead->at, kind, &line) && kind == VG_TEXT_EVENT && !line.impossible &&
        line.cpu >= 0)
        ahead->seen[line.cpu / 64] |= UINT64_C(1) << (line.cpu % 64);
}

bool
vg_text_ahead_has_cpu(vg_text_ahead *ahead, int32_t cpu)
{
    const uint64_t *word = &ahead->seen[cpu / 64];
    const uint64_t bit = UINT64_C(1) << (cpu % 64);
    struct vg_text_raw_line raw;

    while (!(*word & bit) && !ahead->at_end) {
        if (vg_text_lines_next(ahead->lines, &raw))
            text_ahead_take(ahead, &raw);
        else
            ahead->at_end = true;
    }
    return *word & bit;
}
