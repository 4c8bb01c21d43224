/* SPDX-License-Identifier: Apache-2.0
 *
 * vgpuctl gpu list|show|requests: shows GPUs and their requests.
 */
#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/figure-columns.h"
#include "cli/online-args.h"
#include "cli/when.h"

enum { KEY_LIMIT = 0x800, KEY_VM };

#define LIMIT_DEFAULT 1000
#define LIMIT_MAX     1000000
#define PAGE_MAX      10000 /* vgpud's maximum */

struct gpu_args {
    struct vg_online_args online;
    struct vg_when_args when;
    const char *vm;
    int64_t limit; /* 0 if not given */
};

static const struct vg_column list_columns[] = {
    {"GPU", "id", VG_CELL_TEXT, false},
    {"VENDOR", "inventory.vendor", VG_CELL_TEXT, true},
    {"PRODUCT", "inventory.product", VG_CELL_TEXT, false},
    {"DRIVER", "inventory.driver", VG_CELL_TEXT, false},
    {"NUMA NODE", "numa_node", VG_CELL_COUNT, true},
    {"ENGINES", "n_engines", VG_CELL_COUNT, false},
    {"BUSY %", "busy_share", VG_CELL_PERCENT, false},
    {"BUSIEST", "busiest", VG_CELL_TEXT, true},
    {"MEM MiB", "mem_bytes", VG_CELL_MIB, false},
    {"LARGEST", "largest", VG_CELL_TEXT, false},
    {"VMS", "n_vms", VG_CELL_COUNT, false},
    {"PROCESSES", "n_processes", VG_CELL_COUNT, false},
    {"MEASURED BY", "source", VG_CELL_TEXT, false},
};

static const struct vg_column engine_columns[] = {{"ENGINE", "engine", VG_CELL_TEXT, false},
                                                  VG_GPU_COLUMNS};

static const struct vg_column cmd_gpu_vm_columns[] = {
    {"VM", "vm.name", VG_CELL_NAME, false},         {"VM ID", "vm.id", VG_CELL_TEXT, true},
    {"ENGINE", "engine", VG_CELL_TEXT, false},      {"SHARE %", "share", VG_CELL_PERCENT, false},
    {"BUSY s", "busy_ns", VG_CELL_SECONDS, false},  {"WAIT s", "wait_ns", VG_CELL_SECONDS, false},
    {"REQUESTS", "requests", VG_CELL_COUNT, false}, {"MEM MiB", "mem_bytes", VG_CELL_MIB, false},
    {"CONTEXTS", "contexts", VG_CELL_COUNT, false},
};

static const struct vg_column process_columns[] = {{"PROCESS", "comm", VG_CELL_TEXT, false},
                                                   {"PID", "pid", VG_CELL_COUNT, false},
                                                   {"ENGINE", "engine", VG_CELL_TEXT, false},
                                                   VG_GPU_COLUMNS};

static const struct vg_column type_columns[] = {
    {"VGPU TYPE", "type", VG_CELL_TEXT, false},
    {"NAME", "name", VG_CELL_TEXT, false},
    {"AVAILABLE", "available", VG_CELL_COUNT, false},
};

static const struct vg_column assigned_columns[] = {
    {"ASSIGNED TO", "vm.name", VG_CELL_NAME, false},
    {"DEVICE", "kind", VG_CELL_TEXT, false},
    {"ADDRESS", "address", VG_CELL_TEXT, false},
    {"TYPE", "type", VG_CELL_TEXT, false},
};

static const struct vg_column part_columns[] = {
    {"PART", "kind", VG_CELL_TEXT, false},  {"ADDRESS", "address", VG_CELL_TEXT, false},
    {"TYPE", "type", VG_CELL_TEXT, false},  {"STATE", "state", VG_CELL_TEXT, false},
    {"FREE", "free", VG_CELL_COUNT, false}, {"WHY", "why", VG_CELL_TEXT, false},
};

static const struct vg_column request_columns[] = {
    {"END s", "end_ns", VG_CELL_SECONDS, false},
    {"VM", "vm.name", VG_CELL_NAME, false},
    {"VM ID", "vm.id", VG_CELL_TEXT, true},
    {"PID", "pid", VG_CELL_COUNT, false},
    {"ENGINE", "engine", VG_CELL_TEXT, false},
    {"CONTEXT", "context", VG_CELL_TEXT, false},
    {"SEQNO", "seqno", VG_CELL_TEXT, false},
    {"WAIT ms", "wait_ns", VG_CELL_MILLISECONDS, false},
    {"EXEC ms", "exec_ns", VG_CELL_MILLISECONDS, false},
    {"LATENCY ms", "latency_ns", VG_CELL_MILLISECONDS, false},
    {"COALESCED", "coalesced", VG_CELL_TEXT, true},
    {"QUEUED s", "queued_ns", VG_CELL_SECONDS, true},
    {"SUBMITTED s", "submitted_ns", VG_CELL_SECONDS, true},
    {"READY s", "ready_ns", VG_CELL_SECONDS, true},
    {"RUN s", "run_ns", VG_CELL_SECONDS, true},
    {"MOMENT s", "at_ns", VG_CELL_SECONDS, true},
};

/* ---- list and show ---- */

/* Returns the number of distinct values of a member in the rows. */
static int64_t
count_different(json_object *rows, const char *path)
{
    g_autoptr(GHashTable) values = g_hash_table_new(g_str_hash, g_str_equal);

    for (size_t i = 0; i < vg_output_length(rows); i++) {
        const char *value =
            json_object_get_string(vg_output_member(json_object_array_get_idx(rows, i), path));
        if (value)
            g_hash_table_add(values, (char *)value);
    }
    return g_hash_table_size(values);
}

/* Adds the busiest engine of the newest window, and the memory in use, which every engine of a GPU
 * reports. Adds null if unknown. */
static void
add_busiest(json_object *row)
{
    json_object *engines = vg_output_member(row, "newest.engines");
    json_object *busiest = NULL;
    double most = -1;

    for (size_t i = 0; i < vg_output_length(engines); i++) {
        json_object *engine = json_object_array_get_idx(engines, i);
        double share = json_object_get_double(vg_output_member(engine, "share"));
        if (share > most) {
            most = share;
            busiest = engine;
        }
    }
    vg_json_add(row, "busy_share", json_object_get(vg_output_member(busiest, "share")));
    vg_json_add(row, "busiest", json_object_get(vg_output_member(busiest, "engine")));
    vg_json_add(row, "mem_bytes", json_object_get(vg_output_member(busiest, "mem_bytes")));
}

/* Adds the largest available vGPU profile, by name or otherwise by type. */
static void
add_largest_free(json_object *row)
{
    const char *state = json_object_get_string(vg_output_member(row, "largest_free.state"));
    json_object *name = vg_output_member(row, "largest_free.name");
    json_object *type = vg_output_member(row, "largest_free.type");

    if (type)
        vg_json_add(row, "largest", json_object_get(name ? name : type));
    else if (g_strcmp0(state, "none") == 0)
        vg_json_add_string(row, "largest", "none");
}

/* Adds members for the tables only. */
static void
add_gpu_members(json_object *row)
{
    json_object *node = vg_output_member(row, "inventory.numa_node");

    if (node && json_object_get_int64(node) >= 0)
        vg_json_add(row, "numa_node", json_object_get(node));
    vg_json_add_int64(row, "n_engines",
                      (int64_t)vg_output_length(vg_output_member(row, "engines")));
    vg_json_add_int64(row, "n_vms", count_different(vg_output_member(row, "vms"), "vm.id"));
    vg_json_add_int64(row, "n_processes",
                      count_different(vg_output_member(row, "processes"), "pid"));
    add_busiest(row);
    add_largest_free(row);
}

static json_object *
list_rows(json_object *items)
{
    json_object *rows = vg_online_rows(items);

    for (size_t i = 0; i < json_object_array_length(rows); i++)
        add_gpu_members(json_object_array_get_idx(rows, i));
    return rows;
}

static int
cmd_gpu_show_list(void *data, vg_client *client, GError **err)
{
    const struct gpu_args *args = data;
    g_autoptr(json_object) items = NULL;

    if (vg_client_list(client, "/v1/gpus", &items, err) < 0)
        return -1;
    g_autoptr(json_object) rows = list_rows(items);
    const struct vg_table table = {NULL, rows, list_columns, G_N_ELEMENTS(list_columns),
                                   "vgpud has found no GPU"};
    return vg_output_print(args->online.format, items, &table, 1, err);
}

static int
show_gpu(void *data, vg_client *client, GError **err)
{
    static const char *const lists[] = {"engines", "vms", "processes", "assigned", "parts", NULL};
    const struct gpu_args *args = data;
    g_autofree char *path = vg_client_path("/v1/gpus/", args->online.object, "");
    g_autoptr(json_object) gpu = NULL;
    g_autoptr(json_object) items = json_object_new_array();

    if (vg_client_get(client, path, lists, &gpu, err) < 0)
        return -1;
    vg_json_append(items, json_object_get(gpu));
    g_autoptr(json_object) rows = list_rows(items);
    const struct vg_table tables[] = {
        {vg_output_member(gpu, "note")
             ? "no source reports GPU requests, so the CPU time of render servers is shown "
               "instead of GPU time"
             : NULL,
         rows, list_columns, G_N_ELEMENTS(list_columns), NULL},
        {"Engines, since vgpud started", vg_output_member(gpu, "engines"), engine_columns,
         G_N_ELEMENTS(engine_columns), NULL},
        {"Engines, in the newest window", vg_output_member(gpu, "newest.engines"), engine_columns,
         G_N_ELEMENTS(engine_columns), NULL},
        {"VMs, since vgpud started", vg_output_member(gpu, "vms"), cmd_gpu_vm_columns,
         G_N_ELEMENTS(cmd_gpu_vm_columns), NULL},
        {"VMs, in the newest window", vg_output_member(gpu, "newest.vms"), cmd_gpu_vm_columns,
         G_N_ELEMENTS(cmd_gpu_vm_columns), NULL},
        {"Processes other than VMs, since vgpud started", vg_output_member(gpu, "processes"),
         process_columns, G_N_ELEMENTS(process_columns), NULL},
        {"VMs that use this GPU", vg_output_member(gpu, "assigned"), assigned_columns,
         G_N_ELEMENTS(assigned_columns), NULL},
        {"vGPU types that this GPU offers", vg_output_member(gpu, "parts"), part_columns,
         G_N_ELEMENTS(part_columns), NULL},
        {"vGPU types", vg_output_member(gpu, "inventory.mdev_types"), type_columns,
         G_N_ELEMENTS(type_columns), NULL},
    };
    return vg_output_print(args->online.format, gpu, tables, G_N_ELEMENTS(tables), err);
}

/* ---- requests ---- */

static int
get_page(const struct gpu_args *args, vg_client *client, const char *since, const char *until,
         int64_t limit, json_object **ret, GError **err)
{
    static const char *const lists[] = {"items", NULL};
    g_autofree char *base = vg_client_path("/v1/gpus/", args->online.object, "/requests");
    g_autoptr(GString) path = g_string_new(base);

    g_string_append_printf(path, "?limit=%" PRId64, MIN(limit, PAGE_MAX));
    vg_online_add_parameter(path, "since", since);
    vg_online_add_parameter(path, "until", until);
    vg_online_add_parameter(path, "vm", args->vm);
    g_autoptr(json_object) page = NULL;
    if (vg_client_get(client, path->str, lists, &page, err) < 0)
        return -1;
    if (json_object_get_boolean(vg_output_member(page, "more")) &&
        vg_output_length(vg_output_member(page, "items")) == 0)
        return vg_error(err, VG_E_EXTERNAL,
                        "the answer says that there are more requests, but contains none");
    *ret = g_steal_pointer(&page);
    return 0;
}

/* Converts a time for the API: digits are already a time of the raw clock, other times are
 * converted with vgpud's clock offset. *ret is NULL if text is NULL. The caller frees it. */
static int
raw_time(const struct gpu_args *args, vg_client *client, const char *text, char **ret, GError **err)
{
    g_autoptr(json_object) page = NULL;
    struct vg_when when;

    *ret = NULL;
    if (!text || strspn(text, "0123456789") == strlen(text)) {
        *ret = g_strdup(text);
        return 0;
    }
    if (vg_when_parse(text, vg_clock_realtime_ns(), &when, err) < 0)
        return -1;
    if (!when.relative && get_page(args, client, NULL, NULL, 1, &page, err) < 0)
        return -1;
    int64_t raw_ns = when.ns - json_object_get_int64(vg_output_member(page, "clock_offset_ns"));
    *ret = when.relative ? vg_when_parameter(&when) : g_strdup_printf("%" PRId64, MAX(raw_ns, 0));
    return 0;
}

/* Appends a page to the document, as if both had been requested together. */
static void
join_page(json_object *document, json_object *page)
{
    static const char *const newer[] = {"newest_ns", "clock_offset_ns", "more", "next_since"};
    json_object *items = vg_output_member(document, "items");
    json_object *more = vg_output_member(page, "items");
    int64_t left_out = json_object_get_int64(vg_output_member(document, "left_out"));

    if (__builtin_add_overflow(left_out, json_object_get_int64(vg_output_member(page, "left_out")),
                               &left_out))
        left_out = INT64_MAX;

    for (size_t i = 0; i < json_object_array_length(more); i++)
        vg_json_append(items, json_object_get(json_object_array_get_idx(more, i)));
    for (size_t i = 0; i < G_N_ELEMENTS(newer); i++)
        vg_json_add(document, newer[i], json_object_get(vg_output_member(page, newer[i])));
    vg_json_add_int64(document, "left_out", left_out);
}

static int
get_requests(const struct gpu_args *args, vg_client *client, json_object **ret, GError **err)
{
    int64_t limit = args->limit > 0 ? args->limit : LIMIT_DEFAULT;
    g_autoptr(json_object) document = NULL;
    g_autofree char *first = NULL, *until = NULL;

    if (raw_time(args, client, args->when.since, &first, err) < 0 ||
        raw_time(args, client, args->when.until, &until, err) < 0 ||
        get_page(args, client, first, until, limit, &document, err) < 0)
        return -1;
    while (json_object_get_boolean(vg_output_member(document, "more"))) {
        int64_t n = (int64_t)vg_output_length(vg_output_member(document, "items"));
        const char *since = json_object_get_string(vg_output_member(document, "next_since"));
        g_autoptr(json_object) page = NULL;
        if (n >= limit)
            break;
        if (get_page(args, client, since, until, limit - n, &page, err) < 0)
            return -1;
        join_page(document, page);
    }
    *ret = g_steal_pointer(&document);
    return 0;
}

/* Adds the difference of two times, unless one is unknown. */
static void
add_difference(json_object *row, const char *name, const char *from, const char *to)
{
    json_object *begin = vg_output_member(row, from);
    json_object *end = vg_output_member(row, to);

    int64_t ns;

    if (begin && end &&
        !__builtin_sub_overflow(json_object_get_int64(end), json_object_get_int64(begin), &ns))
        vg_json_add_int64(row, name, ns);
}

static int
show_requests(void *data, vg_client *client, GError **err)
{
    const struct gpu_args *args = data;
    g_autoptr(json_object) document = NULL;

    if (get_requests(args, client, &document, err) < 0)
        return -1;
    g_autoptr(json_object) rows = vg_online_rows(vg_output_member(document, "items"));
    for (size_t i = 0; i < json_object_array_length(rows); i++) {
        json_object *row = json_object_array_get_idx(rows, i);
        add_difference(row, "wait_ns", "queued_ns", "run_ns");
        add_difference(row, "latency_ns", "queued_ns", "end_ns");
    }
    const struct vg_table table = {NULL, rows, request_columns, G_N_ELEMENTS(request_columns),
                                   "vgpud has stored no requests from that period"};
    return vg_output_print(args->online.format, document, &table, 1, err);
}

/* ---- arguments ---- */

static void
check_time(const char *option, const char *text, const struct argp_state *state)
{
    g_autoptr(GError) error = NULL;
    struct vg_when when;

    if (text && strspn(text, "0123456789") != strlen(text) &&
        vg_when_parse(text, vg_clock_realtime_ns(), &when, &error) < 0)
        vg_cli_usage(state, "%s: %s", option, error->message);
}

static error_t
cmd_gpu_parse(int key, char *arg, struct argp_state *state)
{
    struct gpu_args *args = state->input;

    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->online;
        break;
    case KEY_VM:
        args->vm = arg;
        break;
    case KEY_LIMIT:
        if (!g_ascii_string_to_signed(arg, 10, 1, LIMIT_MAX, &args->limit, NULL))
            vg_cli_usage(state, "--limit must be a number from 1 to %d, not '%s'", LIMIT_MAX, arg);
        break;
    case ARGP_KEY_END:
        if (strcmp(args->online.verb->name, "requests") != 0 &&
            (vg_when_is_asked(&args->when) || args->vm || args->limit > 0))
            argp_error(state, "--since, --until, --limit and --vm are valid only with `gpu "
                              "requests`");
        check_time("--since", args->when.since, state);
        check_time("--until", args->when.until, state);
        break;
    default:
        return vg_when_take(&args->when, key, arg);
    }
    return 0;
}

#define GPU_HINT "specify a GPU; `vgpuctl gpu list` shows all GPUs"

int
vg_cmd_gpu(int argc, char **argv)
{
    static const struct vg_online_verb verbs[] = {
        {"list", VG_OBJECT_NONE, NULL, cmd_gpu_show_list},
        {"show", VG_OBJECT_BEGINNING, GPU_HINT, show_gpu},
        {"requests", VG_OBJECT_BEGINNING, GPU_HINT, show_requests},
    };
    static const struct argp_option options[] = {
        {"since", VG_WHEN_SINCE, "TIME", 0,
         "requests: only requests that ended after this time; " VG_WHEN_HELP "; -10s counts "
         "back from the newest request; a plain number is nanoseconds of the raw clock "
         "(default: all stored requests)",
         1},
        {"until", VG_WHEN_UNTIL, "TIME", 0, "requests: only requests that ended by this time", 1},
        {"limit", KEY_LIMIT, "N", 0, "requests: show at most N, oldest first (default: 1000)", 1},
        {"vm", KEY_VM, "VM", 0, "requests: only requests from this VM", 1},
        {0},
    };
    static const struct argp argp = {
        .options = options,
        .parser = cmd_gpu_parse,
        .args_doc = "list\nshow GPU\nrequests GPU",
        .doc = "Shows the host's GPUs, their users, and the requests they executed.",
        .children = vg_online_children,
    };
    struct gpu_args args = {
        .online = {
            .verbs = verbs, .list = "/v1/gpus", .n_verbs = G_N_ELEMENTS(verbs), .can_watch = true}};

    argp_parse(&argp, argc, argv, 0, NULL, &args);
    return vg_online_run(&args.online, &args);
}
