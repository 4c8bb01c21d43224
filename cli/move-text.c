/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/move-text.h"

#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/printable.h"

#define GIB (1024.0 * 1024 * 1024)
#define MIB (1024.0 * 1024)

#define TEXT_MIN 20 /* the minimum width of a text, however narrow the terminal is */

char *
vg_move_text_time(int64_t ns)
{
    if (ns < VG_NS_PER_S - VG_NS_PER_MS / 2)
        return g_strdup_printf("%.0f ms", (double)ns / (double)VG_NS_PER_MS);
    return vg_move_text_seconds(ns);
}

char *
vg_move_text_seconds(int64_t ns)
{
    const int64_t s = (ns + VG_NS_PER_S / 2) / VG_NS_PER_S;

    if (ns < 60 * VG_NS_PER_S - VG_NS_PER_S / 20)
        return g_strdup_printf("%.1f s", (double)ns / (double)VG_NS_PER_S);
    if (s < 3600)
        return g_strdup_printf("%" PRId64 " min %02" PRId64 " s", s / 60, s % 60);
    return g_strdup_printf("%" PRId64 " h %02" PRId64 " min", s / 3600, s / 60 % 60);
}

char *
vg_move_text_bytes(int64_t bytes)
{
    const double gib = (double)bytes / GIB;

    if (gib < 1)
        return g_strdup_printf("%.0f MiB", (double)bytes / MIB);
    if (gib < 1000)
        return g_strdup_printf("%.*f GiB", gib < 10 ? 2 : 1, gib);
    return g_strdup_printf("%.2f TiB", gib / 1024);
}

char *
vg_move_text_forked(int64_t children, int64_t descriptors, int64_t maps)
{
    return g_strdup_printf("%" PRId64 " forked child%s with %" PRId64 " descriptor%s and %" PRId64
                           " mapping%s of the GPUs inherited from them",
                           children, children == 1 ? "" : "ren", descriptors,
                           descriptors == 1 ? "" : "s", maps, maps == 1 ? "" : "s");
}

const char *
vg_move_text_state(enum vg_migration_state state)
{
    switch ((int)state) {
    case VG_MIGRATION_ROLLING_BACK:
        return "rolling back";
    case VG_MIGRATION_ROLLED_BACK:
        return "rolled back";
    default:
        return vg_migration_state_names[state];
    }
}

/* ---- where the VM is ---- */

static const char *
move_text_gpu(const vg_migration *move)
{
    /* The VM never had a GPU, so none is missing. */
    if (move->devices->len == 0)
        return "";
    switch (move->gpu) {
    case VG_GPU_ATTACHED:
        return " and has its GPUs";
    case VG_GPU_DETACHED:
        return " WITHOUT its GPUs";
    case VG_GPU_PARTLY:
        return " with only SOME of its GPUs";
    case VG_GPU_UNKNOWN:
    case VG_GPU_STATE_MAX:
    default:
        return " and it is unknown whether it has its GPUs";
    }
}

static char *
move_text_on(const vg_migration *move, const char *host)
{
    const char *gpu = move_text_gpu(move);

    return g_strdup_printf("%s is on %s%s%s%s%s", move->vm, host, move->stands ? ", " : "",
                           move->stands ? move->stands : "", move->stands && gpu[0] ? "," : "",
                           gpu);
}

char *
vg_move_text_where(const vg_migration *move)
{
    switch (move->vm_on) {
    case VG_PLACE_SOURCE:
        return move_text_on(move, move->from);
    case VG_PLACE_TARGET:
        return move_text_on(move, move->to);
    case VG_PLACE_MOVING:
        return g_strdup_printf("%s is still moving %s from %s to %s",
                               vg_migration_executor_names[move->executor], move->vm, move->from,
                               move->to);
    case VG_PLACE_NOWHERE:
        return g_strdup_printf("%s is running NEITHER on %s NOR on %s", move->vm, move->from,
                               move->to);
    case VG_PLACE_BOTH:
        return g_strdup_printf("%s is running TWICE, on %s and on %s: stop one of them "
                               "immediately, because both write to its disks",
                               move->vm, move->from, move->to);
    case VG_PLACE_UNKNOWN:
    case VG_PLACE_MAX:
    default:
        return g_strdup_printf("it is unknown whether %s is on %s or on %s", move->vm, move->from,
                               move->to);
    }
}

char *
vg_move_text_downtime(const vg_migration *move)
{
    const int64_t ns = move->progress.downtime_ns, most_ns = move->downtime_limit_ns;

    if (ns <= 0)
        return NULL;
    g_autofree char *time = vg_move_text_time(ns);
    if (most_ns <= 0 || ns <= most_ns)
        return g_strconcat("downtime ", time, NULL);
    g_autofree char *most = vg_move_text_time(most_ns);
    return g_strdup_printf("downtime %s, the target was %s", time, most);
}

char *
vg_move_text_copy(const struct vg_migration_progress *progress)
{
    const int64_t done_bytes = progress->total_bytes - progress->remaining_bytes;
    g_autofree char *done = vg_move_text_bytes(done_bytes);
    g_autofree char *total = vg_move_text_bytes(progress->total_bytes);
    g_autofree char *rate = vg_move_text_bytes(progress->bytes_per_s);
    g_autofree char *left =
        progress->eta_ns > 0 ? vg_move_text_time(progress->eta_ns) : g_strdup("unknown");

    return g_strdup_printf("%s of %s (%.0f %%), %s/s, ETA %s", done, total,
                           100 * (double)done_bytes / (double)MAX(progress->total_bytes, 1), rate,
                           left);
}

char *
vg_move_text_waits(const vg_migration *move)
{
    char utc[VG_UTC_LEN];

    if (!move->waits_for)
        return NULL;
    return g_strdup_printf("has waited since %s for %s",
                           vg_utc_format(move->waits_since_ns / VG_NS_PER_S * VG_NS_PER_S, utc),
                           move->waits_for);
}

int64_t
vg_move_text_took_ns(const vg_migration *move)
{
    int64_t end_ns = move->ended_ns;

    if (end_ns == 0 && move->steps->len > 0) {
        const struct vg_migration_step *last = move->steps->pdata[move->steps->len - 1];
        end_ns = MAX(last->began_ns, last->ended_ns);
    }
    return MAX(end_ns - move->made_ns, 0);
}

/* ---- lines ---- */

/* Returns how many bytes of a line fit into `room` columns: up to a blank, if there is one. */
static size_t
move_text_fit(const char *line, size_t room)
{
    const char *end = line;
    const char *blank = NULL;

    for (size_t n = 0; *end && n < room; n++, end = g_utf8_next_char(end)) {
        if (*end == ' ')
            blank = end;
    }
    if (!*end || *end == ' ')
        return (size_t)(end - line);
    return (size_t)((blank && blank > line ? blank : end) - line);
}

void
vg_move_text_append_wrapped(GString *to, int indent, int width, const char *text)
{
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    const size_t room = (size_t)MAX(width - indent, TEXT_MIN);

    for (size_t i = 0; lines[i]; i++) {
        g_autofree char *line = vg_printable_text(g_strchomp(lines[i]));
        for (const char *at = line; *at;) {
            size_t n = move_text_fit(at, room);
            g_string_append_printf(to, "%*s%.*s\n", indent, "", (int)n, at);
            at += n;
            at += strspn(at, " ");
        }
    }
}

static double
move_text_cores(int64_t ns_per_s)
{
    return (double)ns_per_s / 1e9;
}

char *
vg_move_text_verdict_figures(const struct vg_move_verdict *verdict)
{
    if (!verdict->measured)
        return NULL;
    GString *text = g_string_new("all VMs of ");
    for (guint i = 0; i < verdict->hosts->len; i++)
        g_string_append_printf(text, "%s%s",
                               i == 0                         ? ""
                               : i + 1 == verdict->hosts->len ? " and "
                                                              : ", ",
                               (const char *)verdict->hosts->pdata[i]);
    g_string_append_printf(
        text, " lost %.2f cores in the %" PRId64 " s before and %.2f in the %" PRId64 " s after",
        move_text_cores(verdict->before_ns_per_s), verdict->seconds,
        move_text_cores(verdict->after_ns_per_s), verdict->seconds);
    if (verdict->gpu_measured)
        g_string_append_printf(text, "; their GPU requests waited %.2f and %.2f of the time",
                               move_text_cores(verdict->gpu_before_ns_per_s),
                               move_text_cores(verdict->gpu_after_ns_per_s));
    if (verdict->others->len > 0)
        g_string_append_printf(text,
                               "; without the move, the change would have been %+.2f, as on %u "
                               "other host%s",
                               move_text_cores(verdict->others_ns_per_s), verdict->others->len,
                               verdict->others->len == 1 ? "" : "s");
    g_string_append_printf(text, "; gain %+.2f, with 95 %% confidence between %+.2f and %+.2f",
                           move_text_cores(verdict->gain_ns_per_s),
                           move_text_cores(verdict->low_ns_per_s),
                           move_text_cores(verdict->high_ns_per_s));
    if (verdict->predicted)
        g_string_append_printf(text, "; the plan predicted %+.2f",
                               move_text_cores(verdict->predicted_ns_per_s));
    return g_string_free(text, FALSE);
}
