/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/host-history.h"

#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/host-load.h"

/* Values from this fraction count as complete, because windows do not end with steps. */
#define NEARLY_ALL 0.99

/* The parts of "2026-11-24 14:00:05" that may be omitted. */
#define YEAR_CHARACTERS    5
#define SECONDS_AT         16
#define SECONDS_CHARACTERS 3
#define LONG_NS            (INT64_C(300) * 86400 * VG_NS_PER_S)

static const struct vg_column host_history_columns[] = {
    {"BEGIN", "begin", VG_CELL_TEXT, false},
    {"LOST", "lost_share", VG_CELL_SHARE, false},
    {"VMS", "rates.run_share", VG_CELL_SHARE, false},
    {"HOST", "own_share", VG_CELL_SHARE, false},
    {"IDLE", "idle_share", VG_CELL_SHARE, false},
    {"STOLEN", "steal_share", VG_CELL_SHARE, false},
    {"LOAD", "load", VG_CELL_SHARE, false},
    {"PSI %", "pressure.cpu_some", VG_CELL_PERCENT, false},
    {"MEMORY PSI %", "pressure.memory_some", VG_CELL_PERCENT, true},
    {"IO PSI %", "pressure.io_some", VG_CELL_PERCENT, true},
    {"PREEMPTIONS/s", "rates.preemptions_per_s", VG_CELL_SHARE, true},
    {"LOST EVENTS", "lost_events", VG_CELL_COUNT, true},
    {"ALERTS", "alerts", VG_CELL_COUNT, false},
    {"TOP PROGRAM", "top_program", VG_CELL_TEXT, false},
    {"PROGRAMS", "top_programs", VG_CELL_TEXT, true},
    {"MEASURED", "measured", VG_CELL_TEXT, false},
};

static int64_t
host_history_number(json_object *object, const char *member)
{
    return json_object_get_int64(vg_output_member(object, member));
}

/* Returns a time as short as the steps and the period allow. The caller frees it. */
static char *
host_history_time(json_object *document, int64_t time_ns)
{
    const int64_t since_ns = host_history_number(document, "since_ns");
    char text[VG_WHEN_LEN];

    vg_when_format(time_ns, text);
    if (host_history_number(document, "step_ns") % (60 * VG_NS_PER_S) == 0 &&
        time_ns % (60 * VG_NS_PER_S) == 0 && strlen(text) >= SECONDS_AT + SECONDS_CHARACTERS)
        memmove(text + SECONDS_AT, text + SECONDS_AT + SECONDS_CHARACTERS,
                strlen(text + SECONDS_AT + SECONDS_CHARACTERS) + 1);
    bool is_long = host_history_number(document, "until_ns") - since_ns > LONG_NS;
    return g_strdup(is_long || strlen(text) < YEAR_CHARACTERS ? text : text + YEAR_CHARACTERS);
}

static void host_history_add(GString *text, const char *format, ...) G_GNUC_PRINTF(2, 3);

static void
host_history_add(GString *text, const char *format, ...)
{
    va_list args;

    if (text->len > 0)
        g_string_append(text, ", ");
    va_start(args, format);
    g_string_append_vprintf(text, format, args);
    va_end(args);
}

/* Returns for example "vgpud was killed" or "clock set by +3600 s", or NULL if other columns show
 * the event. The caller frees it. */
static char *
host_history_happened(json_object *event)
{
    const char *what = json_object_get_string(vg_output_member(event, "what"));
    const char *ended = json_object_get_string(vg_output_member(event, "ended"));

    if (g_strcmp0(what, "clock-set") == 0)
        return g_strdup_printf("clock set by %+.0f s",
                               json_object_get_double(vg_output_member(event, "by_s")));
    if (g_strcmp0(what, "away") != 0 || !ended)
        return NULL;
    return strcmp(ended, "host rebooted") == 0 ? g_strdup(ended)
                                               : g_strdup_printf("vgpud was %s", ended);
}

/* Adds the events of the step without duplicate texts: a step of an hour may contain many
 * restarts. */
static void
host_history_add_happened(GString *text, json_object *item)
{
    json_object *happened = vg_output_member(item, "happened");
    g_autoptr(GPtrArray) told = g_ptr_array_new_with_free_func(g_free);

    for (size_t i = 0; i < vg_output_length(happened); i++) {
        char *one = host_history_happened(json_object_array_get_idx(happened, i));
        if (!one || g_ptr_array_find_with_equal_func(told, one, g_str_equal, NULL)) {
            g_free(one);
            continue;
        }
        host_history_add(text, "%s", one);
        g_ptr_array_add(told, one);
    }
}

/* Describes the number of VMs, the source, and the unmeasured part of the step. The caller frees
 * the text. */
static char *
host_history_measured(json_object *item)
{
    json_object *measured_by = vg_output_member(item, "measured_by");
    const double length_ns =
        (double)(host_history_number(item, "end_ns") - host_history_number(item, "begin_ns"));
    const double measured_ns = (double)host_history_number(item, "measured_ns");
    const double vms = json_object_get_double(vg_output_member(item, "vms"));
    GString *text = g_string_new(NULL);
    double told_ns = 0, who_ns = 0;
    const int64_t whole = (int64_t)(vms + 0.5);

    if (vms - (double)whole < 0.05 && (double)whole - vms < 0.05)
        host_history_add(text, "%" G_GINT64_FORMAT " VM%s", whole, whole == 1 ? "" : "s");
    else
        host_history_add(text, "%.1f VMs", vms);
    for (size_t i = 0; i < vg_output_length(measured_by); i++) {
        json_object *one = json_object_array_get_idx(measured_by, i);
        const double ns = (double)host_history_number(one, "ns");
        const char *by = json_object_get_string(vg_output_member(one, "by"));
        /* The recording is known, and its name may be long. */
        if (g_str_has_prefix(by, "replay:"))
            by = "replay";
        told_ns += ns;
        who_ns += (double)host_history_number(one, "who_ns");
        if (i == 0 && ns >= NEARLY_ALL * measured_ns)
            g_string_append_printf(text, " by %s", by);
        else
            host_history_add(text, "%s %.0f %%", by, 100 * ns / measured_ns);
    }
    if (told_ns > 0 && who_ns < NEARLY_ALL * told_ns)
        host_history_add(text, "aggressors: %.0f %% known", 100 * who_ns / told_ns);
    if (measured_ns < NEARLY_ALL * length_ns)
        host_history_add(text, "%.0f %% of the time measured", 100 * measured_ns / length_ns);
    host_history_add_happened(text, item);
    return g_string_free(text, FALSE);
}

/* Adds members for the tables only. */
static void
host_history_complete(json_object *document, json_object *row, bool for_people)
{
    const int64_t begin_ns = host_history_number(row, "begin_ns");
    char whole[VG_WHEN_LEN];
    g_autofree char *begin = for_people ? host_history_time(document, begin_ns)
                                        : g_strdup(vg_when_format(begin_ns, whole));
    json_object *preempt = vg_output_member(row, "rates.preempt_share");
    json_object *wake = vg_output_member(row, "rates.wake_wait_share");

    vg_json_add_string(row, "begin", begin);
    if (json_object_get_boolean(vg_output_member(row, "gap"))) {
        g_autofree char *to = host_history_time(document, host_history_number(row, "end_ns"));
        g_autoptr(GString) text = g_string_new(NULL);
        host_history_add(text, "not until %s", to);
        host_history_add_happened(text, row);
        vg_json_add_string(row, "measured", text->str);
        /* These figures are unknown, not 0. */
        vg_json_add(row, "lost_events", NULL);
        if (host_history_number(row, "alerts") == 0)
            vg_json_add(row, "alerts", NULL);
        return;
    }
    g_autofree char *measured = host_history_measured(row);
    json_object *programs = vg_output_member(row, "programs");
    const int64_t measured_ns = host_history_number(row, "measured_ns");
    g_autofree char *top = vg_host_program_names(programs, measured_ns, 1);
    g_autofree char *all = vg_host_program_names(programs, measured_ns, SIZE_MAX);
    vg_json_add_string(row, "top_program", top);
    vg_json_add_string(row, "top_programs", all);
    vg_json_add_double(row, "lost_share",
                       json_object_get_double(preempt) + json_object_get_double(wake));
    vg_json_add_string(row, "measured", measured);
}

/* Returns a duration in the largest unit of which it is a multiple, for example "10min" or "1h".
 * The caller frees it. */
static char *
host_history_duration(int64_t ns)
{
    static const struct {
        const char *name;
        int64_t s;
    } units[] = {{"d", 86400}, {"h", 3600}, {"min", 60}};

    for (size_t i = 0; i < G_N_ELEMENTS(units); i++) {
        if (ns % (units[i].s * VG_NS_PER_S) == 0)
            return g_strdup_printf("%" G_GINT64_FORMAT "%s", ns / (units[i].s * VG_NS_PER_S),
                                   units[i].name);
    }
    return g_strdup_printf("%" G_GINT64_FORMAT "s", ns / VG_NS_PER_S);
}

static bool
host_history_is_empty(json_object *items)
{
    for (size_t i = 0; i < vg_output_length(items); i++) {
        if (!json_object_get_boolean(vg_output_member(json_object_array_get_idx(items, i), "gap")))
            return false;
    }
    return true;
}

int
vg_host_history_show(const struct vg_online_args *online, const struct vg_host_history_args *args,
                     vg_client *client, GError **err)
{
    static const char *const lists[] = {"items", NULL};
    g_autoptr(GString) path = g_string_new("/v1/host/history");
    g_autoptr(json_object) document = NULL;

    if (vg_when_add(path, &args->when, err) < 0)
        return -1;
    vg_online_add_parameter(path, "step", args->step);
    vg_online_add_parameter(path, "source", args->source);
    if (vg_client_get(client, path->str, lists, &document, err) < 0)
        return -1;
    json_object *left_out = vg_output_member(document, "left_out");
    for (size_t i = 0; i < vg_output_length(left_out); i++)
        vg_cli_warn("figures are missing: %s",
                    json_object_get_string(json_object_array_get_idx(left_out, i)));
    json_object *items = vg_output_member(document, "items");
    g_autoptr(json_object) rows =
        host_history_is_empty(items) ? json_object_new_array() : vg_online_rows(items);
    const bool for_people = online->format == VG_OUTPUT_TABLE || online->format == VG_OUTPUT_WIDE;
    for (size_t i = 0; i < vg_output_length(rows); i++)
        host_history_complete(document, json_object_array_get_idx(rows, i), for_people);
    char zone[VG_WHEN_LEN];
    g_autofree char *step = host_history_duration(host_history_number(document, "step_ns"));
    g_autofree char *title = g_strdup_printf("In cores, for each step of %s; times are local: %s",
                                             step, vg_when_zone(zone));
    const struct vg_table table = {vg_output_length(rows) > 0 ? title : NULL, rows,
                                   host_history_columns, G_N_ELEMENTS(host_history_columns),
                                   "nothing is stored for that time"};
    return vg_output_print(online->format, document, &table, 1, err);
}
