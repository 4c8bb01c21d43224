/* SPDX-License-Identifier: Apache-2.0
 *
 * vgpuctl proxy list|show|limit|move: shows the VMs' use of vgpu-proxy and their shares of a GPU,
 * and changes the proxy of a VM's programs.
 */
#include "config.h"

#include <string.h>

#include "base/json.h"
#include "cli/cli.h"
#include "cli/fold.h"
#include "cli/online-args.h"
#include "cli/proxy-show.h"
#include "cli/vm-proxy.h"
#include "model/histogram.h"
#include "model/proxy-socket.h"

/* Longer than vgpud waits for a guest's agent ([actions] guest_deadline). */
#define MOVE_LIMIT_S 3700

enum { KEY_WEIGHT = 0xc00, KEY_TO, KEY_DRY_RUN };

struct proxy_args {
    struct vg_online_args online;
    int64_t weight; /* 0 if not given */
    const char *to; /* may be NULL */
    bool dry_run;
};

static const struct vg_column proxy_columns[] = {
    {"VM", "vm", VG_CELL_NAME, false},
    {"WEIGHT", "weight", VG_CELL_COUNT, false},
    {"CLIENTS", "clients", VG_CELL_COUNT, false},
    {"HELD s", "held_ns", VG_CELL_SECONDS, true},
    {"SHARE %", "share", VG_CELL_PERCENT, false},
    {"COMMANDS", "commands", VG_CELL_COUNT, true},
    {"WAIT ms", "mean_wait_ns", VG_CELL_MILLISECONDS, false},
    {"RUN ms", "mean_run_ns", VG_CELL_MILLISECONDS, false},
    {"P99 ms", "took_p99_ns", VG_CELL_MILLISECONDS, false},
    {"MEM MiB", "used_bytes", VG_CELL_MIB, false},
    {"LIMIT MiB", "limit_bytes", VG_CELL_MIB, true},
    {"RESERVED MiB", "reserved_bytes", VG_CELL_MIB, true},
    {"ENDED", "ended", VG_CELL_COUNT, true},
    {"GPU", "gpu", VG_CELL_TEXT, true},
    {"DEVICE", "device", VG_CELL_TEXT, true},
    {"LACKED s", "lacked_ns", VG_CELL_SECONDS, true},
    {"SOCKET", "socket", VG_CELL_TEXT, false},
    {"NOTIFIED", "guest_text", VG_CELL_TEXT, false},
};

static int64_t
proxy_number(json_object *row, const char *name)
{
    return json_object_get_int64(vg_output_member(row, name));
}

/* Returns the 99th percentile of the command times in `took`. */
static int64_t
proxy_p99(json_object *took)
{
    struct vg_histogram latency = {0};

    for (size_t i = 0; took && i < json_object_array_length(took); i++) {
        json_object *item = json_object_array_get_idx(took, i);
        const int64_t n = proxy_number(item, "commands");
        vg_histogram_add_many(&latency, proxy_number(item, "ns"),
                              (uint32_t)CLAMP(n, 0, UINT32_MAX));
    }
    const int64_t ret = vg_histogram_quantile(&latency, 0.99);
    vg_histogram_clear(&latency);
    return ret;
}

/* Adds derived figures: the share of the proxy's total time, and the time per command. */
static void
proxy_complete(json_object *row, json_object *rows)
{
    const int64_t done = proxy_number(row, "done"), limit = proxy_number(row, "memory_bytes");
    json_object *guest = vg_output_member(row, "guest");
    g_autofree char *knows = guest ? vg_vm_proxy_text(guest) : NULL;
    int64_t held_ns = 0;

    for (size_t i = 0; i < json_object_array_length(rows); i++) {
        json_object *other = json_object_array_get_idx(rows, i);
        if (proxy_number(other, "pid") == proxy_number(row, "pid"))
            held_ns += proxy_number(other, "held_ns");
    }
    vg_json_add_string(row, "guest_text", knows);
    if (held_ns > 0)
        vg_json_add_double(row, "share", (double)proxy_number(row, "held_ns") / (double)held_ns);
    if (limit > 0)
        vg_json_add_int64(row, "limit_bytes", limit);
    if (done > 0) {
        vg_json_add_int64(row, "mean_wait_ns", proxy_number(row, "wait_ns") / done);
        vg_json_add_int64(row, "mean_run_ns", proxy_number(row, "run_ns") / done);
        vg_json_add_int64(row, "took_p99_ns", proxy_p99(vg_output_member(row, "took")));
    }
}

/* Adds the guest's state to the rows of its VM's sockets, or to a new row if it has no socket
 * here. */
static void
proxy_add_guest(json_object *items, json_object *guest)
{
    bool has_row = false;

    for (size_t i = 0; i < json_object_array_length(items); i++) {
        json_object *row = json_object_array_get_idx(items, i);
        if (!vg_vm_proxy_is_of(guest, json_object_get_string(vg_output_member(row, "vm"))))
            continue;
        vg_json_add(row, "guest", json_object_get(guest));
        has_row = true;
    }
    if (has_row)
        return;
    json_object *row = json_object_new_object();
    vg_json_add_string(row, "vm", json_object_get_string(vg_output_member(guest, "vm")));
    vg_json_add(row, "guest", json_object_get(guest));
    vg_json_append(items, row);
}

static void
proxy_add_guests(json_object *items, json_object *guests)
{
    for (size_t i = 0; i < vg_output_length(guests); i++)
        proxy_add_guest(items, json_object_array_get_idx(guests, i));
}

static int
proxy_print(const struct proxy_args *args, json_object *document, GError **err)
{
    json_object *items = vg_output_member(document, "items");

    proxy_add_guests(items, vg_output_member(document, "guests"));
    g_autoptr(json_object) rows = vg_online_rows(items);
    for (size_t i = 0; i < json_object_array_length(rows); i++)
        proxy_complete(json_object_array_get_idx(rows, i), rows);
    const struct vg_table table = {
        NULL, rows, proxy_columns, G_N_ELEMENTS(proxy_columns),
        "vgpud knows no vgpu-proxy on this host; list the proxies' control sockets in [gpu] "
        "proxies of vgpud.conf"};
    return vg_output_print(args->online.format, items, &table, 1, err);
}

static int
proxy_list(void *data, vg_client *client, GError **err)
{
    static const char *const lists[] = {"items", NULL};
    const struct proxy_args *args = data;
    g_autoptr(json_object) document = NULL;

    if (vg_client_get(client, "/v1/proxies", lists, &document, err) < 0)
        return -1;
    return proxy_print(args, document, err);
}

static int
proxy_show(void *data, vg_client *client, GError **err)
{
    const struct proxy_args *args = data;

    return vg_proxy_show_vm(client, args->online.object, args->online.format, err);
}

static int
proxy_limit(void *data, vg_client *client, GError **err)
{
    const struct proxy_args *args = data;
    g_autofree char *path = vg_client_vm_path(args->online.object, "/proxy");
    g_autoptr(json_object) body = json_object_new_object(), document = NULL;

    vg_json_add_int64(body, "weight", args->weight);
    if (vg_client_post(client, path, body, &document, err) < 0)
        return -1;
    return proxy_print(args, document, err);
}

/* ---- moving programs to another proxy ---- */

static const struct vg_column move_columns[] = {
    {"PID", "pid", VG_CELL_COUNT, false},
    {"PROGRAM", "comm", VG_CELL_NAME, false},
    {"STATE", "state", VG_CELL_TEXT, false},
    {"AT", "at", VG_CELL_TEXT, false},
    {"PAUSED ms", "stop_ns", VG_CELL_MILLISECONDS, false},
    {"WHY", "why", VG_CELL_TEXT, true},
};

/* Returns the place of a proxy. "proxy:" may be omitted. Anything other than a path or an address
 * is the name of a GPU or host, which vgpud resolves. The caller frees it. */
static char *
proxy_place(const char *to)
{
    const bool is_bare = to[0] == '/' || g_str_has_prefix(to, "tcp:") ||
                         g_str_has_prefix(to, "tls:") || g_str_has_prefix(to, "vsock:");

    return g_strconcat(is_bare ? "proxy:" : "", to, NULL);
}

static bool
proxy_is_text(const struct proxy_args *args)
{
    return args->online.format == VG_OUTPUT_TABLE || args->online.format == VG_OUTPUT_WIDE;
}

/* Prints the place that was chosen for a name. */
static void
proxy_print_choice(const struct proxy_args *args, json_object *document)
{
    const char *why = json_object_get_string(vg_output_member(document, "why"));
    const char *to = json_object_get_string(vg_output_member(document, "to"));

    if (!proxy_is_text(args) || (!why && !args->dry_run))
        return;
    g_autofree char *line = g_strdup_printf(
        "%s %s%s%s%s.", args->dry_run ? "Programs would continue at" : "To:", to ? to : args->to,
        why ? " (" : "", why ? why : "", why ? ")" : "");
    g_autoptr(GString) text = g_string_new(NULL);
    vg_fold_append(text, line, 0, vg_fold_terminal());
    puts(text->str);
}

static int
proxy_move(void *data, vg_client *client, GError **err)
{
    const struct proxy_args *args = data;
    g_autofree char *path = vg_client_vm_path(args->online.object, "/proxy/move");
    g_autofree char *to = proxy_place(args->to);
    g_autoptr(json_object) body = json_object_new_object(), document = NULL;

    vg_json_add_string(body, "to", to);
    if (args->dry_run)
        vg_json_add_bool(body, "dry_run", true);
    vg_client_set_limit(client, MOVE_LIMIT_S);
    if (vg_client_post(client, path, body, &document, err) < 0)
        return -1;
    proxy_print_choice(args, document);
    if (args->dry_run && proxy_is_text(args))
        return 0;
    json_object *programs = vg_output_member(vg_output_member(document, "guest"), "programs");
    g_autoptr(json_object) rows = vg_online_rows(programs);
    const struct vg_table table = {NULL, rows, move_columns, G_N_ELEMENTS(move_columns),
                                   "this VM's agent reports no OpenCL program that uses a proxy"};
    return vg_output_print(args->online.format, document, &table, 1, err);
}

/* ---- arguments ---- */

static void
proxy_check(const struct proxy_args *args, const struct argp_state *state)
{
    const bool is_limit = strcmp(args->online.verb->name, "limit") == 0;
    const bool is_move = strcmp(args->online.verb->name, "move") == 0;

    if (is_limit && args->weight == 0)
        argp_error(state, "specify the VM's weight with --weight");
    if (!is_limit && args->weight > 0)
        argp_error(state, "--weight is valid only with `proxy limit`");
    if (is_move && (!args->to || !args->to[0]))
        argp_error(state, "specify the proxy with --to");
    if (!is_move && (args->to || args->dry_run))
        argp_error(state, "--to and --dry-run are valid only with `proxy move`");
    if ((is_limit || is_move) && args->online.watch_s > 0)
        argp_error(state,
                   "--watch repeats a command, so it is not allowed with `proxy %s`, which "
                   "makes changes",
                   args->online.verb->name);
}

static error_t
proxy_parse(int key, char *arg, struct argp_state *state)
{
    struct proxy_args *args = state->input;
    char *end;

    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->online;
        break;
    case KEY_WEIGHT:
        args->weight = g_ascii_strtoll(arg, &end, 10);
        if (!g_ascii_isdigit(arg[0]) || *end || args->weight < 1 ||
            args->weight > VG_PROXY_WEIGHT_MAX)
            argp_error(state, "--weight must be a number from 1 to %d, not '%s'",
                       VG_PROXY_WEIGHT_MAX, arg);
        break;
    case KEY_TO:
        args->to = arg;
        break;
    case KEY_DRY_RUN:
        args->dry_run = true;
        break;
    case ARGP_KEY_END:
        proxy_check(args, state);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

int
vg_cmd_proxy(int argc, char **argv)
{
    static const struct vg_online_verb verbs[] = {
        {"list", VG_OBJECT_NONE, NULL, proxy_list},
        {"show", VG_OBJECT_REQUIRED,
         "specify a VM; `vgpuctl proxy list` shows the VMs with a proxy socket", proxy_show},
        {"limit", VG_OBJECT_REQUIRED,
         "specify a VM; `vgpuctl proxy list` shows the VMs with a proxy socket", proxy_limit},
        {"move", VG_OBJECT_REQUIRED, "specify a VM; `vgpuctl vm list` shows all VMs", proxy_move}};
    static const struct argp_option options[] = {
        {"weight", KEY_WEIGHT, "NUMBER", 0,
         "limit: a VM with weight 3 gets three times the GPU time of one with weight 1 while both "
         "want it",
         1},
        {"to", KEY_TO, "PLACE", 0,
         "move: a GPU of this host (see `vgpuctl gpu list`), a host, or HOST/GPU; or the "
         "address of a vgpu-proxy in the guest: PATH, tls:HOST:PORT, tcp:HOST:PORT or "
         "vsock:CID:PORT; or direct, for the programs' own OpenCL",
         1},
        {"dry-run", KEY_DRY_RUN, NULL, 0, "move: only show which proxy would be used and why", 1},
        {0},
    };
    static const struct argp_child children[] = {{&vg_online_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .options = options,
        .parser = proxy_parse,
        .args_doc = "list\nshow VM\nlimit VM --weight NUMBER\nmove VM --to PLACE [--dry-run]",
        .doc = "Lists the VMs that use a GPU of this host through vgpu-proxy, or shows details "
               "of one VM. Sets a VM's share, or moves its programs to another proxy on this or "
               "another host.",
        .children = children,
    };
    struct proxy_args args = {
        .online = {.verbs = verbs, .n_verbs = G_N_ELEMENTS(verbs), .can_watch = true}};

    argp_parse(&argp, argc, argv, 0, NULL, &args);
    return vg_online_run(&args.online, &args);
}
