/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "trace/late-cpus.h"

/* The maximum number of CPU names in a message. */
#define NAMED_MAX 16

/* Less than 1/100 of a recording does not matter. */
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
vg_late_cpus_report(vg_recording *recording, int64_t begin_ns)
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
        "the records of CPU %s start late, so all CPUs are recorded only from %.3f s%s on (other "
        "CPUs count as idle until their first record)",
        names->str, after_s, of);
}
