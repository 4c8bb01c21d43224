/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "trace/late-cpus.h"

#include <inttypes.h>
#include <string.h>

#include "trace/text-line.h"

/* Names of CPUs in a message. */
#define NAMED_MAX 16

/* Less than such a part of a recording does not matter. */
#define MATTERS 100

void
vg_late_cpus_add(GArray *late, int32_t cpu, int64_t begin_ns)
{
    const struct vg_late_cpu one = {.cpu = cpu, .begin_ns = begin_ns};
    guint at = 0;

    for (; at < late->len && g_array_index(late, struct vg_late_cpu, at).cpu <= cpu; at++) {
        struct vg_late_cpu *known = &g_array_index(late, struct vg_late_cpu, at);
        if (known->cpu == cpu) {
            known->begin_ns = MAX(known->begin_ns, begin_ns);
            return;
        }
    }
    g_array_insert_val(late, at, one);
}

int64_t
vg_late_cpus_covered_ns(const GArray *late)
{
    int64_t covered_ns = VG_TIME_UNKNOWN;

    for (guint i = 0; i < late->len; i++)
        covered_ns = MAX(covered_ns, g_array_index(late, struct vg_late_cpu, i).begin_ns);
    return covered_ns;
}

struct vg_event
vg_late_cpu_loss(const struct vg_late_cpu *late, int64_t begin_ns)
{
    return (struct vg_event){
        .ts_ns = begin_ns,
        .type = VG_EVENT_LOST,
        .cpu = (int16_t)late->cpu,
        .tid = VG_NONE,
        .pid = VG_NONE,
        .lost.end_ns = MAX(late->begin_ns, begin_ns),
    };
}

bool
vg_late_cpus_matter(const GArray *late, int64_t begin_ns, int64_t length_ns)
{
    return late->len > 0 && vg_late_cpus_covered_ns(late) - begin_ns > length_ns / MATTERS;
}

void
vg_late_cpus_tell(vg_recording *recording, int64_t begin_ns)
{
    const GArray *late = recording->late;
    g_autoptr(GString) names = g_string_new(NULL);
    int64_t length_ns = recording->length_ns;

    if (!vg_late_cpus_matter(late, begin_ns, length_ns))
        return;
    for (guint i = 0; i < late->len && i < NAMED_MAX; i++)
        g_string_append_printf(names, "%s%d", i > 0 ? ", " : "",
                               g_array_index(late, struct vg_late_cpu, i).cpu);
    if (late->len > NAMED_MAX)
        g_string_append_printf(names, " and %u more", late->len - NAMED_MAX);
    double after_s = (double)(vg_late_cpus_covered_ns(late) - begin_ns) / 1e9;
    g_autofree char *of =
        length_ns > 0 ? g_strdup_printf(" of %.3f s", (double)length_ns / 1e9) : g_strdup("");
    vg_recording_problem(
        recording, recording->name, 0,
        "the records of CPU %s begin late, those before are not here: all CPUs are "
        "recorded only from %.3f s%s on (other CPUs that are silent at first are "
        "taken to have been idle)",
        names->str, after_s, of);
}

/* ---- text ---- */

struct late_text_cpu {
    bool seen;
    bool dropped; /* a line before its first record said so */
    int64_t begin_ns;
    uint64_t records;
};

struct late_text {
    struct late_text_cpu *cpus; /* VG_CPU_LIMIT of them */
    bool is_snapshot;           /* a header that only such text has was seen */
    bool overwritten;           /* tracefs says that records were */
    bool any;
    int64_t begin_ns, end_ns;
};

/* "# entries-in-buffer/entries-written: 205/4711   #P:2" */
static void
late_text_read_entries(struct late_text *text, struct vg_text_span line)
{
    static const char key[] = "entries-in-buffer/entries-written:";
    const char *end = line.s + line.len;
    const char *p = memmem(line.s, line.len, key, strlen(key));
    int64_t kept, written;

    if (!p)
        return;
    for (p += strlen(key); p < end && *p == ' ';)
        p++;
    if (!vg_text_digits(&p, end, &kept) || p == end || *p++ != '/' ||
        !vg_text_digits(&p, end, &written))
        return;
    text->is_snapshot = true;
    text->overwritten = written > kept;
}

static void
late_text_read_line(struct late_text *text, struct vg_text_span raw)
{
    struct vg_text_line line;
    enum vg_text_kind kind = vg_text_line_parse(raw, &line);
    struct late_text_cpu *cpu =
        (kind == VG_TEXT_EVENT || kind == VG_TEXT_LOST) && !line.impossible && line.cpu >= 0
            ? &text->cpus[line.cpu]
            : NULL;

    if (kind == VG_TEXT_SKIP && raw.len > 0 && raw.s[0] == '#')
        late_text_read_entries(text, raw);
    text->is_snapshot |= kind == VG_TEXT_HEADER && g_str_has_prefix(raw.s, "cpus=");
    if (cpu && kind == VG_TEXT_LOST) {
        cpu->dropped |= !cpu->seen;
    } else if (cpu) {
        cpu->begin_ns = cpu->seen ? cpu->begin_ns : line.ts_ns;
        cpu->seen = true;
        cpu->records++;
        text->begin_ns = text->any ? text->begin_ns : line.ts_ns;
        text->end_ns = line.ts_ns;
        text->any = true;
    }
}

void
vg_late_cpus_of_text(vg_text_source *source, GArray *late, int64_t *ret_begin_ns,
                     int64_t *ret_end_ns)
{
    g_autofree struct late_text_cpu *cpus = g_new0(struct late_text_cpu, VG_CPU_LIMIT);
    struct late_text text = {.cpus = cpus};
    struct vg_text_raw_line raw;
    uint64_t most = 0;

    while (vg_text_source_next(source, &raw) && (!text.any || text.is_snapshot)) {
        if (!raw.too_long)
            late_text_read_line(&text, raw.text);
    }
    for (int32_t i = 0; i < VG_CPU_LIMIT; i++)
        most = MAX(most, cpus[i].records);
    for (int32_t i = 0; i < VG_CPU_LIMIT && text.is_snapshot; i++) {
        const struct late_text_cpu *cpu = &cpus[i];
        bool is_late = cpu->dropped || (text.overwritten && cpu->records >= (most + 1) / 2);
        if (cpu->seen && is_late && cpu->begin_ns > text.begin_ns)
            vg_late_cpus_add(late, i, cpu->begin_ns);
    }
    *ret_begin_ns = text.begin_ns;
    *ret_end_ns = text.end_ns;
}
