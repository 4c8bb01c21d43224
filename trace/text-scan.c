/* SPDX-License-Identifier: Apache-2.0
 *
 * Heads of ftrace's `trace` file (kernel/trace/trace.c, print_trace_header()) tell
 * "# entries-in-buffer/entries-written: 205/1310   #P:4": of more written than are there the oldest
 * were overwritten, on each CPU.
 */
#include "config.h"

#include "trace/text-scan.h"

#include <string.h>

#include "trace/text-line.h"

#define ENTRIES   "# entries-in-buffer/entries-written:"
#define NAME_SIZE 128

struct scan_cpu {
    int64_t first_ns; /* of its records; VG_TIME_UNKNOWN: none yet */
    int64_t last_ns;
    bool any_lost; /* since then, or before all of them */
    uint64_t lost;
    bool is_late; /* it was told so before its first record: so many before it */
    uint64_t late_lost;
};

struct scan {
    struct scan_cpu *cpus; /* VG_CPU_LIMIT */
    struct vg_coverage *coverage;
    GArray *losses;
    GHashTable *names; /* of events; owned */
    bool overwritten;
};

static bool
scan_is_overwritten(struct vg_text_span text)
{
    const char *p = text.s, *end = text.s + text.len;
    int64_t there, written;

    if (text.len < strlen(ENTRIES) || memcmp(p, ENTRIES, strlen(ENTRIES)) != 0)
        return false;
    p += strlen(ENTRIES);
    while (p < end && vg_text_is_blank(*p))
        p++;
    return vg_text_digits(&p, end, &there) && p < end && *p++ == '/' &&
           vg_text_digits(&p, end, &written) && there < written;
}

static bool
scan_may_tell_loss(struct vg_text_span text)
{
    return memmem(text.s, text.len, "LOST", 4) || memmem(text.s, text.len, "DROPPED", 7);
}

/* Is anything missing at all? */
static bool
scan_finds_loss(vg_text_source *source)
{
    struct vg_text_raw_line raw;

    while (vg_text_source_next(source, &raw)) {
        if (!raw.too_long && (scan_may_tell_loss(raw.text) || scan_is_overwritten(raw.text)))
            return true;
    }
    return false;
}

static void
scan_end_loss(struct scan *scan, int32_t number, int64_t t_ns)
{
    struct scan_cpu *cpu = &scan->cpus[number];
    struct vg_event loss = {
        .ts_ns = cpu->last_ns,
        .type = VG_EVENT_LOST,
        .cpu = (int16_t)number,
        .tid = VG_NONE,
        .pid = VG_NONE,
    };

    cpu->any_lost = false;
    if (cpu->first_ns == VG_TIME_UNKNOWN) {
        cpu->is_late = true;
        cpu->late_lost = cpu->lost;
        cpu->lost = 0;
        return;
    }
    loss.lost.end_ns = MAX(t_ns, loss.ts_ns);
    loss.lost.events = cpu->lost;
    cpu->lost = 0;
    if (scan->losses->len < VG_TEXT_LOSSES_MAX)
        g_array_append_val(scan->losses, loss);
}

static void
scan_learn_event(struct scan *scan, struct vg_text_span name)
{
    char text[NAME_SIZE];

    if (name.len == 0 || name.len >= sizeof(text))
        return;
    memcpy(text, name.s, name.len);
    text[name.len] = '\0';
    if (g_hash_table_size(scan->names) >= 4096 || g_hash_table_contains(scan->names, text))
        return;
    g_hash_table_add(scan->names, g_strdup(text));
    vg_coverage_add_event(scan->coverage, text);
}

static void
scan_take_line(struct scan *scan, struct vg_text_span text)
{
    struct vg_coverage *coverage = scan->coverage;
    struct vg_text_line line;

    scan->overwritten |= scan_is_overwritten(text);
    enum vg_text_kind kind = vg_text_line_parse(text, &line);
    if ((kind != VG_TEXT_EVENT && kind != VG_TEXT_LOST) || line.impossible || line.cpu < 0)
        return;
    struct scan_cpu *cpu = &scan->cpus[line.cpu];
    if (kind == VG_TEXT_LOST) {
        cpu->any_lost = true;
        cpu->lost += (uint64_t)line.lost;
    } else {
        scan_learn_event(scan, line.event);
    }
    if (line.ts_ns == VG_NONE)
        return;
    if (cpu->any_lost)
        scan_end_loss(scan, line.cpu, line.ts_ns);
    if (cpu->first_ns == VG_TIME_UNKNOWN)
        cpu->first_ns = line.ts_ns;
    cpu->last_ns = line.ts_ns;
    if (coverage->begin_ns == VG_TIME_UNKNOWN)
        coverage->begin_ns = line.ts_ns;
    coverage->begin_ns = MIN(coverage->begin_ns, line.ts_ns);
    coverage->end_ns = MAX(coverage->end_ns, line.ts_ns);
}

/* Losses after which no record of their CPU comes. One without any record is not waited for. */
static void
scan_end_losses(struct scan *scan)
{
    for (int32_t i = 0; i < VG_CPU_LIMIT; i++) {
        struct scan_cpu *cpu = &scan->cpus[i];
        bool is_silent = cpu->first_ns == VG_TIME_UNKNOWN;
        if (!cpu->any_lost)
            continue;
        if (is_silent)
            cpu->first_ns = cpu->last_ns = scan->coverage->begin_ns;
        scan_end_loss(scan, i, is_silent ? cpu->last_ns : scan->coverage->end_ns);
        if (is_silent)
            cpu->first_ns = VG_TIME_UNKNOWN;
    }
}

/* What is late has lost records up to its first one. */
static void
scan_add_late(struct scan *scan)
{
    struct vg_coverage *coverage = scan->coverage;

    coverage->all_begin_ns = coverage->begin_ns;
    for (int32_t i = 0; i < VG_CPU_LIMIT; i++) {
        const struct scan_cpu *cpu = &scan->cpus[i];
        if (cpu->first_ns == VG_TIME_UNKNOWN || !(scan->overwritten || cpu->is_late))
            continue;
        vg_coverage_add_late(coverage, i, cpu->first_ns);
        const struct vg_event loss = {
            .ts_ns = coverage->begin_ns,
            .type = VG_EVENT_LOST,
            .cpu = (int16_t)i,
            .tid = VG_NONE,
            .pid = VG_NONE,
            .lost.end_ns = cpu->first_ns,
            .lost.events = cpu->late_lost,
        };
        if (cpu->is_late || cpu->first_ns > coverage->begin_ns)
            g_array_append_val(scan->losses, loss);
    }
}

static int
scan_compare_losses(const void *a, const void *b)
{
    const struct vg_event *x = a, *y = b;

    if (x->ts_ns != y->ts_ns)
        return x->ts_ns < y->ts_ns ? -1 : 1;
    return (x->cpu > y->cpu) - (x->cpu < y->cpu);
}

bool
vg_text_scan(vg_text_source *source, struct vg_coverage *coverage, GArray *ret_losses)
{
    g_autoptr(vg_text_source) again = vg_text_source_again(source);
    g_autoptr(vg_text_source) whole = again ? vg_text_source_again(source) : NULL;
    struct vg_text_raw_line raw;

    if (!whole || !scan_finds_loss(again))
        return false;
    struct scan scan = {
        .cpus = g_new0(struct scan_cpu, VG_CPU_LIMIT),
        .coverage = coverage,
        .losses = ret_losses,
        .names = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL),
    };
    for (int32_t i = 0; i < VG_CPU_LIMIT; i++)
        scan.cpus[i].first_ns = VG_TIME_UNKNOWN;
    while (vg_text_source_next(whole, &raw)) {
        if (!raw.too_long)
            scan_take_line(&scan, raw.text);
    }
    if (coverage->begin_ns != VG_TIME_UNKNOWN) {
        scan_end_losses(&scan);
        scan_add_late(&scan);
    }
    g_array_sort(ret_losses, scan_compare_losses);
    g_hash_table_unref(scan.names);
    g_free(scan.cpus);
    return ret_losses->len < VG_TEXT_LOSSES_MAX;
}
