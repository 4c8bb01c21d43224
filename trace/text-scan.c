/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "trace/text-scan.h"

#include <string.h>

#include "trace/late-cpus.h"
#include "trace/text-head.h"
#include "trace/text-line.h"

#define NAME_SIZE 128
#define NAMES_MAX 4096

struct scan_cpu {
    bool seen;    /* has a record */
    bool is_late; /* earlier records were reported as lost */
    bool is_losing;
    int64_t first_ns, last_ns; /* of its records */
    uint64_t lost;
    uint64_t records;
};

struct scan {
    struct scan_cpu *cpus; /* VG_CPU_LIMIT */
    vg_recording *recording;
    struct vg_text_files_at at;
    GArray *losses;
    GHashTable *names; /* of events, owned */
    bool overwritten;  /* according to the head, records were overwritten */
    bool any;
    int64_t begin_ns, end_ns;
};

static void
scan_end_loss(struct scan *scan, int32_t number, int64_t end_ns)
{
    struct scan_cpu *cpu = &scan->cpus[number];
    const struct vg_event loss = {
        .ts_ns = cpu->last_ns,
        .type = VG_EVENT_LOST,
        .cpu = (int16_t)number,
        .tid = VG_NONE,
        .pid = VG_NONE,
        .lost = {.end_ns = MAX(end_ns, cpu->last_ns), .events = cpu->lost},
    };

    if (cpu->seen && scan->losses->len < VG_TEXT_LOSSES_MAX)
        g_array_append_val(scan->losses, loss);
    cpu->is_late |= !cpu->seen;
    cpu->is_losing = false;
    cpu->lost = 0;
}

static void
scan_learn_event(struct scan *scan, struct vg_text_span name)
{
    char text[NAME_SIZE];

    if (name.len == 0 || name.len >= sizeof(text))
        return;
    memcpy(text, name.s, name.len);
    text[name.len] = '\0';
    if (g_hash_table_size(scan->names) >= NAMES_MAX || g_hash_table_contains(scan->names, text))
        return;
    g_hash_table_add(scan->names, g_strdup(text));
    vg_recording_learn_event(scan->recording, text);
}

static void
scan_take_line(struct scan *scan, struct vg_text_span text)
{
    struct vg_text_line line;
    enum vg_text_kind kind = vg_text_line_parse(text, &line);

    if (kind == VG_TEXT_COMMENT)
        scan->overwritten |= vg_text_head_is_overwritten(text);
    if (!vg_text_files_take(&scan->at, kind, &line))
        return;
    if ((kind != VG_TEXT_EVENT && kind != VG_TEXT_LOST) || line.impossible || line.cpu < 0)
        return;
    struct scan_cpu *cpu = &scan->cpus[line.cpu];
    if (kind == VG_TEXT_LOST) {
        cpu->is_losing = true;
        cpu->lost += (uint64_t)line.lost;
    }
    if (line.ts_ns == VG_NONE)
        return;
    if (cpu->is_losing)
        scan_end_loss(scan, line.cpu, line.ts_ns);
    if (kind == VG_TEXT_LOST)
        return;
    scan_learn_event(scan, line.event);
    cpu->first_ns = cpu->seen ? cpu->first_ns : line.ts_ns;
    cpu->last_ns = line.ts_ns;
    cpu->records++;
    scan->begin_ns = scan->any ? MIN(scan->begin_ns, line.ts_ns) : line.ts_ns;
    scan->end_ns = scan->any ? MAX(scan->end_ns, line.ts_ns) : line.ts_ns;
    cpu->seen = scan->any = true;
}

static int
scan_compare_losses(const void *a, const void *b)
{
    const struct vg_event *x = a, *y = b;

    if (x->ts_ns != y->ts_ns)
        return x->ts_ns < y->ts_ns ? -1 : 1;
    return (x->cpu > y->cpu) - (x->cpu < y->cpu);
}

/* Finds late CPUs after records were overwritten. A CPU with less than half as many records as the
 * busiest one cannot have overrun its buffer: it was only silent at first. */
static void
scan_add_late(struct scan *scan)
{
    uint64_t most = 0;

    for (int32_t i = 0; i < VG_CPU_LIMIT; i++)
        most = MAX(most, scan->cpus[i].records);
    for (int32_t i = 0; i < VG_CPU_LIMIT; i++) {
        const struct scan_cpu *cpu = &scan->cpus[i];
        bool is_late = cpu->is_late || (scan->overwritten && cpu->records >= (most + 1) / 2);
        if (cpu->seen && is_late && cpu->first_ns > scan->begin_ns)
            vg_late_cpus_add(scan->recording->late, i, cpu->first_ns);
    }
}

static void
scan_end(struct scan *scan)
{
    for (int32_t i = 0; i < VG_CPU_LIMIT; i++) {
        if (scan->cpus[i].is_losing)
            scan_end_loss(scan, i, scan->end_ns);
    }
    scan_add_late(scan);
    g_array_sort(scan->losses, scan_compare_losses);
    scan->recording->length_ns = scan->any ? scan->end_ns - scan->begin_ns : 0;
}

bool
vg_text_scan(vg_text_lines *lines, struct vg_text_files *files, vg_recording *recording,
             GArray *ret_losses, int64_t *ret_begin_ns)
{
    g_autoptr(vg_text_lines) again = vg_text_lines_again(lines);
    struct vg_text_raw_line raw;

    if (!again || !vg_text_lines_report_loss(lines))
        return false;
    struct scan scan = {
        .cpus = g_new0(struct scan_cpu, VG_CPU_LIMIT),
        .recording = recording,
        .at = {files, false},
        .losses = ret_losses,
        .names = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL),
    };
    while (vg_text_lines_next(again, &raw)) {
        if (!raw.too_long)
            scan_take_line(&scan, raw.text);
    }
    scan_end(&scan);
    *ret_begin_ns = scan.begin_ns;
    g_hash_table_unref(scan.names);
    g_free(scan.cpus);
    return ret_losses->len < VG_TEXT_LOSSES_MAX;
}
