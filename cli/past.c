/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/past.h"

#include "base/clock.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/host-load.h"

/* The maximum number of aggressors in tables. JSON contains all. */
#define TAKERS_SHOWN 10

#define ANSWER_MAX INT64_C(10000) /* the maximum number of items in an answer */

/* Windows do not start or end exactly at the requested times. */
#define PAST_WHOLE_NS (3 * VG_NS_PER_S)

static const struct vg_column past_host_columns[] = {
    {"VMs", "vms", VG_CELL_COUNT, false},
    {"RUN cores", "rates.run_share", VG_CELL_SHARE, false},
    {"LOST cores", "lost_share", VG_CELL_SHARE, false},
    {"LOST s", "lost_ns", VG_CELL_SECONDS, false},
    {"PREEMPTIONS/s", "rates.preemptions_per_s", VG_CELL_SHARE, false},
    {"MEASURED %", "measured", VG_CELL_PERCENT, false},
    {"LOST EVENTS", "lost_events", VG_CELL_COUNT, true},
};

static const struct vg_column taker_columns[] = {
    {"TOOK CPU FROM VMs", "aggressor", VG_CELL_NAME, false},
    {"cores", "share", VG_CELL_SHARE, false},
    {"SECONDS", "ns", VG_CELL_SECONDS, false},
    {"AT MOST", "at_most", VG_CELL_SECONDS, false},
    {"PREEMPTIONS", "count", VG_CELL_COUNT, false},
    {"MOSTLY", "mostly", VG_CELL_TEXT, false},
};

static const struct vg_column past_vm_columns[] = {
    {"VM", "name", VG_CELL_NAME, false},
    {"VM ID", "id", VG_CELL_TEXT, true},
    {"LOST cores", "lost_share", VG_CELL_SHARE, false},
    {"LOST s", "lost_ns", VG_CELL_SECONDS, false},
    {"LOST MOST TO", "culprit", VG_CELL_NAME, false},
    {"RUN cores", "rates.run_share", VG_CELL_SHARE, false},
    {"CPU %", "cpu_intensity", VG_CELL_PERCENT, false},
    {"GPU %", "gpu_intensity", VG_CELL_PERCENT, false},
    {"PREEMPTIONS/s", "rates.preemptions_per_s", VG_CELL_SHARE, true},
    {"RUN s", "run_ns", VG_CELL_SECONDS, true},
    {"PREEMPT s", "preempt_ns", VG_CELL_SECONDS, true},
    {"WAKE s", "wake_wait_ns", VG_CELL_SECONDS, true},
    {"PREEMPTIONS", "preemptions", VG_CELL_COUNT, true},
    {"PRESENT %", "present", VG_CELL_PERCENT, false},
    {"NOW", "now", VG_CELL_TEXT, false},
};

static const struct vg_column loss_columns[] = {
    {"VM", "victim.name", VG_CELL_NAME, false},
    {"VM ID", "victim.id", VG_CELL_TEXT, true},
    {"LOST CPU TO", "aggressor", VG_CELL_NAME, false},
    {"SECONDS", "ns", VG_CELL_SECONDS, false},
    {"AT MOST", "at_most", VG_CELL_SECONDS, false},
    {"PREEMPTIONS", "count", VG_CELL_COUNT, false},
    {"cores", "share", VG_CELL_SHARE, false},
    {"/s", "count_per_s", VG_CELL_SHARE, false},
    {"MOSTLY", "mostly", VG_CELL_TEXT, false},
};

static const struct vg_column past_program_columns[] = {
    {"PROGRAM", "comm", VG_CELL_TEXT, false},
    {"CORES", "cores", VG_CELL_SHARE, false},
    {"SECONDS", "ns", VG_CELL_SECONDS, false},
    {"CONTROL GROUP", "cgroup", VG_CELL_TEXT, false},
};

#define PAST_PROGRAMS_TITLE "CPU time of the host's programs, at least"

#define PAST_REST_NOTE                                                                             \
 "rest: aggressors with too little time in a minute, or a second at the edges, to be stored\n"     \
 "by name.\n"                                                                                      \
 "Named figures are lower bounds; AT MOST adds all of rest.\n"

static int64_t
past_number(json_object *object, const char *member)
{
    return json_object_get_int64(vg_output_member(object, member));
}

static int
past_get(const char *start, const struct vg_when_args *when, const char *name, const char *value,
         vg_client *client, json_object **ret, GError **err)
{
    static const char *const lists[] = {"items", NULL};
    g_autoptr(GString) path = g_string_new(start);

    vg_online_add_parameter(path, name, value);
    if (vg_when_add(path, when, err) < 0 || vg_client_get(client, path->str, lists, ret, err) < 0)
        return -1;
    json_object *left_out = vg_output_member(*ret, "left_out");
    for (size_t i = 0; i < vg_output_length(left_out); i++)
        vg_cli_warn("figures are missing: %s",
                    json_object_get_string(json_object_array_get_idx(left_out, i)));
    return 0;
}

/* Does not warn if the user has set a limit. */
static void
past_warn_more(json_object *document, int64_t limit)
{
    if (limit == 0 && vg_output_member(document, "next"))
        vg_cli_warn("there are more rows than fit in one answer; only the first %zu are shown",
                    vg_output_length(vg_output_member(document, "items")));
}

/* Returns "WHAT, ... to ... (ZONE)" for the requested time, and the stored period if it is shorter.
 * The caller frees it. */
static char *
past_title(const char *what, json_object *document)
{
    const int64_t begin_ns = past_number(document, "begin_ns");
    const int64_t end_ns = past_number(document, "end_ns");
    const int64_t since_ns = past_number(document, "since_ns");
    const int64_t until_ns = past_number(document, "until_ns");
    char since[VG_WHEN_LEN], until[VG_WHEN_LEN], zone[VG_WHEN_LEN];
    GString *title = g_string_new(NULL);

    g_string_printf(title, "%s, %s to %s (%s)", what, vg_when_format(since_ns, since),
                    vg_when_format(until_ns, until), vg_when_zone(zone));
    if (begin_ns - since_ns > PAST_WHOLE_NS || until_ns - end_ns > PAST_WHOLE_NS)
        g_string_append_printf(title, ",\nof which %s to %s is stored",
                               vg_when_format(begin_ns, since), vg_when_format(end_ns, until));
    return g_string_free(title, FALSE);
}

static void
past_add_lost(json_object *row)
{
    json_object *lost_to = vg_output_member(row, "lost_to");
    json_object *first =
        vg_output_length(lost_to) > 0 ? json_object_array_get_idx(lost_to, 0) : NULL;

    vg_json_add_int64(row, "lost_ns",
                      past_number(row, "preempt_ns") + past_number(row, "wake_wait_ns"));
    vg_json_add_double(row, "lost_share",
                       json_object_get_double(vg_output_member(row, "rates.preempt_share")) +
                           json_object_get_double(vg_output_member(row, "rates.wake_wait_share")));
    vg_json_add_string(row, "culprit",
                       first ? json_object_get_string(vg_output_member(first, "aggressor")) : NULL);
    if (first && vg_output_member(first, "aggressor_label"))
        vg_json_add(row, "culprit_label",
                    json_object_get(vg_output_member(first, "aggressor_label")));
}

/* Returns the host as a row. The measured fraction refers to the requested time, not to the stored
 * period. */
static json_object *
past_host_rows(json_object *document)
{
    g_autoptr(json_object) array = json_object_new_array();

    vg_json_append(array, json_object_get(vg_output_member(document, "host")));
    json_object *rows = vg_online_rows(array);
    json_object *row = json_object_array_get_idx(rows, 0);
    double asked = (double)(past_number(document, "until_ns") - past_number(document, "since_ns"));
    past_add_lost(row);
    vg_json_add_double(row, "measured",
                       asked > 0 ? MIN((double)past_number(document, "length_ns") / asked, 1) : 0);
    vg_json_add_int64(row, "lost_events", past_number(document, "lost_events"));
    return rows;
}

/* Adds the process behind host:user that took most, and the upper bound for an aggressor if it had
 * all of the rest. Omits the bound if it equals the reported time. */
static void
past_add_taker(json_object *row, int64_t rest_ns)
{
    const bool is_rest =
        g_strcmp0(json_object_get_string(vg_output_member(row, "aggressor")), "rest") == 0;
    json_object *processes = vg_output_member(row, "processes");
    json_object *first =
        vg_output_length(processes) > 0 ? json_object_array_get_idx(processes, 0) : NULL;

    vg_json_add_string(row, "mostly",
                       first ? json_object_get_string(vg_output_member(first, "comm")) : NULL);
    if (rest_ns > 0 && !is_rest)
        vg_json_add_int64(row, "at_most", past_number(row, "ns") + rest_ns);
}

/* Returns the CPU time that the rest took. */
static int64_t
past_rest(json_object *losses)
{
    for (size_t i = 0; i < vg_output_length(losses); i++) {
        json_object *loss = json_object_array_get_idx(losses, i);
        if (g_strcmp0(json_object_get_string(vg_output_member(loss, "aggressor")), "rest") == 0)
            return past_number(loss, "ns");
    }
    return 0;
}

static int
past_print_note(enum vg_output_format format, bool has_rest, GError **err)
{
    const bool for_people = format == VG_OUTPUT_TABLE || format == VG_OUTPUT_WIDE;

    return has_rest && for_people ? vg_cli_print("\n" PAST_REST_NOTE, err) : 0;
}

static json_object *
past_taker_rows(json_object *document, bool all)
{
    json_object *lost_to = vg_output_member(document, "host.lost_to");
    g_autoptr(json_object) every = lost_to ? vg_online_rows(lost_to) : json_object_new_array();
    const double length = (double)past_number(document, "length_ns");
    json_object *rows = json_object_new_array();

    for (size_t i = 0; i < vg_output_length(every) && (all || i < TAKERS_SHOWN); i++) {
        json_object *row = json_object_array_get_idx(every, i);
        vg_json_add_double(row, "share", length > 0 ? (double)past_number(row, "ns") / length : 0);
        past_add_taker(row, past_rest(lost_to));
        vg_json_append(rows, json_object_get(row));
    }
    return rows;
}

static json_object *
past_vm_rows(json_object *document)
{
    json_object *rows = vg_online_rows(vg_output_member(document, "items"));

    for (size_t i = 0; i < json_object_array_length(rows); i++) {
        json_object *row = json_object_array_get_idx(rows, i);
        past_add_lost(row);
        if (json_object_get_boolean(vg_output_member(row, "gone")))
            vg_json_add_string(row, "now", "gone");
        if (!json_object_get_boolean(vg_output_member(row, "gpu_known")))
            vg_json_add(row, "gpu_intensity", NULL);
    }
    return rows;
}

static json_object *
past_program_rows(json_object *document)
{
    return vg_host_program_rows(vg_output_member(document, "programs"),
                                past_number(document, "length_ns"), 0, true);
}

#define NOTHING_STORED "nothing is stored for that time"

int
vg_past_show_vms(const struct vg_online_args *online, const struct vg_when_args *when,
                 const char *sort, int64_t limit, vg_client *client, GError **err)
{
    g_autofree char *start =
        g_strdup_printf("/v1/vms?limit=%" G_GINT64_FORMAT, limit > 0 ? limit : ANSWER_MAX);
    g_autoptr(json_object) document = NULL;

    if (past_get(start, when, "sort", sort, client, &document, err) < 0)
        return -1;
    past_warn_more(document, limit);
    g_autoptr(json_object) hosts = past_host_rows(document);
    g_autoptr(json_object) takers = past_taker_rows(document, online->format == VG_OUTPUT_WIDE);
    g_autoptr(json_object) programs = past_program_rows(document);
    g_autoptr(json_object) vms = past_vm_rows(document);
    g_autofree char *title = past_title("Host", document);
    const struct vg_table tables[] = {
        {title, hosts, past_host_columns, G_N_ELEMENTS(past_host_columns), NULL},
        {"Largest aggressor", takers, taker_columns, G_N_ELEMENTS(taker_columns), NULL},
        {PAST_PROGRAMS_TITLE, programs, past_program_columns, G_N_ELEMENTS(past_program_columns),
         NULL},
        {past_number(document, "windows") > 0 ? "Virtual machines" : NULL, vms, past_vm_columns,
         G_N_ELEMENTS(past_vm_columns), NOTHING_STORED},
    };
    /* CSV contains only the first table. Without windows, there is nothing to show. */
    bool only_vms = online->format == VG_OUTPUT_CSV || online->format == VG_OUTPUT_NAME ||
                    past_number(document, "windows") == 0;
    size_t first = only_vms ? G_N_ELEMENTS(tables) - 1 : 0;
    if (vg_output_print(online->format, document, tables + first, G_N_ELEMENTS(tables) - first,
                        err) < 0)
        return -1;
    return past_print_note(online->format,
                           past_rest(vg_output_member(document, "host.lost_to")) > 0, err);
}

int
vg_past_show_preemptions(const struct vg_online_args *online, const struct vg_when_args *when,
                         const char *victim, int64_t limit, vg_client *client, GError **err)
{
    g_autofree char *start =
        g_strdup_printf("/v1/preemptions?limit=%" G_GINT64_FORMAT, limit > 0 ? limit : ANSWER_MAX);
    g_autoptr(json_object) document = NULL;

    if (past_get(start, when, "vm", victim, client, &document, err) < 0)
        return -1;
    past_warn_more(document, limit);
    g_autoptr(json_object) rows = vg_online_rows(vg_output_member(document, "items"));
    bool has_rest = false;
    for (size_t i = 0; i < vg_output_length(rows); i++) {
        json_object *row = json_object_array_get_idx(rows, i);
        int64_t rest_ns = past_number(row, "at_most_ns") - past_number(row, "ns");
        has_rest = has_rest || rest_ns > 0;
        past_add_taker(row, rest_ns);
    }
    g_autofree char *title = past_title("Lost CPU time", document);
    g_autoptr(json_object) programs = past_program_rows(document);
    const struct vg_table tables[] = {
        {vg_output_length(rows) > 0 ? title : NULL, rows, loss_columns, G_N_ELEMENTS(loss_columns),
         past_number(document, "windows") > 0 ? "no VM waited for a CPU" : NOTHING_STORED},
        {PAST_PROGRAMS_TITLE, programs, past_program_columns, G_N_ELEMENTS(past_program_columns),
         NULL},
    };
    if (vg_output_print(online->format, document, tables, G_N_ELEMENTS(tables), err) < 0)
        return -1;
    return past_print_note(online->format, has_rest, err);
}
