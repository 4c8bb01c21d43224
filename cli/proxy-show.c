/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/proxy-show.h"

#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "cli/online-args.h"
#include "cli/vm-proxy.h"

#define SHOW_TABLES 7

static const struct vg_column socket_columns[] = {
    {"VM", "vm", VG_CELL_NAME, false},
    {"SOCKET", "socket.socket", VG_CELL_TEXT, false},
    {"KNOWN BY", "identity", VG_CELL_TEXT, false},
    {"LISTENS", "listens", VG_CELL_TEXT, false},
    {"WEIGHT", "socket.weight", VG_CELL_COUNT, false},
    {"CLIENTS", "socket.clients", VG_CELL_COUNT, false},
    {"DEVICE", "socket.device", VG_CELL_TEXT, false},
    {"PROXY", "socket.proxy", VG_CELL_TEXT, true},
    {"PROXY PID", "socket.pid", VG_CELL_COUNT, true},
};

static const struct vg_column share_columns[] = {
    {"SOCKET", "socket.socket", VG_CELL_TEXT, true},
    {"WINDOW s", "window.span_ns", VG_CELL_SECONDS, false},
    {"HELD s", "window.held_ns", VG_CELL_SECONDS, false},
    {"SHARE %", "share", VG_CELL_PERCENT, false},
    {"DUE %", "due", VG_CELL_PERCENT, false},
    {"COMMANDS", "window.done", VG_CELL_COUNT, false},
};

static const struct vg_column time_columns[] = {
    {"SOCKET", "socket", VG_CELL_TEXT, true},
    {"TIME", "what", VG_CELL_TEXT, false},
    {"P50 ms", "p50_ns", VG_CELL_MILLISECONDS, false},
    {"P95 ms", "p95_ns", VG_CELL_MILLISECONDS, false},
    {"P99 ms", "p99_ns", VG_CELL_MILLISECONDS, false},
};

static const struct vg_column limit_columns[] = {
    {"SOCKET", "socket", VG_CELL_TEXT, true},
    {"LIMIT OF", "what", VG_CELL_TEXT, false},
    {"MOST NOW", "used", VG_CELL_TEXT, false},
    {"LIMIT", "limit", VG_CELL_TEXT, false},
};

static const struct vg_column program_columns[] = {
    {"PID", "pid", VG_CELL_COUNT, false},
    {"CAME FROM", "from", VG_CELL_TEXT, false},
    {"BY", "transport", VG_CELL_TEXT, false},
    {"LINK", "link", VG_CELL_TEXT, false},
    {"BROKEN FOR s", "broken_ns", VG_CELL_SECONDS, false},
    {"RESUMED", "resumed", VG_CELL_COUNT, false},
    {"GPU", "device", VG_CELL_TEXT, false},
    {"FOR s", "device_ns", VG_CELL_SECONDS, true},
    {"MEM MiB", "used_bytes", VG_CELL_MIB, false},
    {"OBJECTS", "objects", VG_CELL_COUNT, false},
    {"NOT DONE", "queued", VG_CELL_COUNT, false},
    {"DONE", "done", VG_CELL_COUNT, true},
    {"CONNECTED FOR s", "since_ns", VG_CELL_SECONDS, true},
};

static const struct vg_column note_columns[] = {
    {"SOCKET", "socket", VG_CELL_TEXT, true}, {"WHAT", "what", VG_CELL_TEXT, false},
    {"TIMES", "times", VG_CELL_COUNT, false}, {"LAST s AGO", "ago_ns", VG_CELL_SECONDS, false},
    {"LAST", "last", VG_CELL_TEXT, false},
};

static const struct vg_column place_columns[] = {
    {"PLACE", "place", VG_CELL_TEXT, false},
    {"WHY", "why", VG_CELL_TEXT, false},
};

static int64_t
show_number(json_object *row, const char *path)
{
    return json_object_get_int64(vg_output_member(row, path));
}

/* Appends a row to a table that contains all sockets. */
static json_object *
show_row(json_object *rows, json_object *shown, const char *what)
{
    json_object *row = json_object_new_object();

    vg_json_add_string(row, "socket",
                       json_object_get_string(vg_output_member(shown, "socket.socket")));
    vg_json_add_string(row, "what", what);
    vg_json_append(rows, row);
    return row;
}

/* ---- use ---- */

static void
show_complete(json_object *shown, const char *vm)
{
    const int64_t held_ns = show_number(shown, "window.all_held_ns");
    const int64_t weights = show_number(shown, "window.weights");

    vg_json_add_string(shown, "vm", vm);
    if (held_ns > 0)
        vg_json_add_double(shown, "share",
                           (double)show_number(shown, "window.held_ns") / (double)held_ns);
    if (weights > 0)
        vg_json_add_double(shown, "due",
                           MIN(1, (double)show_number(shown, "socket.weight") / (double)weights));
}

static void
show_add_times(json_object *rows, json_object *shown)
{
    static const char *const names[][2] = {
        {"waited", "window.wait"}, {"ran", "window.run"}, {"both", "window.took"}};
    static const char *const parts[] = {"p50_ns", "p95_ns", "p99_ns"};

    for (size_t i = 0; i < G_N_ELEMENTS(names) && show_number(shown, "window.done") > 0; i++) {
        json_object *row = show_row(rows, shown, names[i][0]);
        for (size_t k = 0; k < G_N_ELEMENTS(parts); k++)
            vg_json_add_int64(row, parts[k],
                              show_number(vg_output_member(shown, names[i][1]), parts[k]));
    }
}

/* ---- limits ---- */

/* Returns the maximum over the programs. */
static int64_t
show_most(json_object *shown, const char *member)
{
    json_object *programs = vg_output_member(shown, "programs");
    int64_t most = 0;

    for (size_t i = 0; i < vg_output_length(programs); i++)
        most = MAX(most, show_number(json_object_array_get_idx(programs, i), member));
    return most;
}

/* Adds a limit in UNIT. ZERO describes the meaning of 0. */
static void
show_add_limit(json_object *rows, json_object *shown, const char *what, int64_t used, int64_t limit,
               const char *zero)
{
    json_object *row = show_row(rows, shown, what);
    g_autofree char *now = used >= 0 ? g_strdup_printf("%" PRId64, used) : NULL;
    g_autofree char *most =
        limit == 0 && zero ? g_strdup(zero) : g_strdup_printf("%" PRId64, limit);

    if (now)
        vg_json_add_string(row, "used", now);
    vg_json_add_string(row, "limit", most);
}

static void
show_add_limits(json_object *rows, json_object *shown)
{
    json_object *limits = vg_output_member(shown, "limits");

    show_add_limit(rows, shown, "the VM's programs", show_number(shown, "socket.clients"),
                   show_number(limits, "vm_clients"), "no limit");
    show_add_limit(rows, shown, "the VM's memory, MiB",
                   show_number(shown, "socket.used_bytes") >> 20,
                   show_number(shown, "socket.vm_memory_bytes") >> 20, "all of the GPU's memory");
    show_add_limit(rows, shown, "memory MiB", show_most(shown, "used_bytes") >> 20,
                   show_number(shown, "socket.memory_bytes") >> 20, "all of the GPU's memory");
    show_add_limit(rows, shown, "objects", show_most(shown, "objects"),
                   show_number(limits, "objects"), NULL);
    show_add_limit(rows, shown, "commands queued", show_most(shown, "queued"),
                   show_number(limits, "depth"), NULL);
    show_add_limit(rows, shown, "command data, MiB", -1, show_number(limits, "pending_bytes") >> 20,
                   NULL);
    show_add_limit(rows, shown, "shared memory, MiB", -1,
                   show_number(limits, "staging_bytes") >> 20, "none");
    show_add_limit(rows, shown, "longest turn while others wait, s", -1,
                   show_number(limits, "max_kernel_s"), "unlimited");
    show_add_limit(rows, shown, "wait for reconnection, s", -1, show_number(limits, "linger_s"),
                   "no wait");
}

/* ---- problems ---- */

static void
show_add_note(json_object *rows, json_object *shown, const char *what, const char *member)
{
    json_object *note = vg_output_member(shown, member);
    json_object *row = show_row(rows, shown, what);

    vg_json_add_int64(row, "times", show_number(note, "times"));
    if (show_number(note, "times") == 0)
        return;
    vg_json_add_int64(row, "ago_ns", show_number(note, "ago_ns"));
    vg_json_add_string(row, "last", json_object_get_string(vg_output_member(note, "last")));
}

/* ---- the tables ---- */

/* Adds the guest's state to each row of places. */
static void
show_add_guests(json_object *rows, json_object *guests)
{
    for (size_t i = 0; i < vg_output_length(guests); i++) {
        g_autofree char *text = vg_vm_proxy_text(json_object_array_get_idx(guests, i));
        for (size_t k = 0; k < json_object_array_length(rows); k++) {
            json_object *row = json_object_array_get_idx(rows, k);
            const char *place = json_object_get_string(vg_output_member(row, "place"));
            const char *address = json_object_get_string(
                vg_output_member(json_object_array_get_idx(guests, i), "address"));
            if (g_strcmp0(place, address) != 0)
                continue;
            g_autofree char *why = g_strdup_printf(
                "%s; the guest %s", json_object_get_string(vg_output_member(row, "why")), text);
            vg_json_add_string(row, "why", why);
        }
    }
}

static int
show_print(json_object *document, enum vg_output_format format, GError **err)
{
    const char *vm = json_object_get_string(vg_output_member(document, "vm"));
    g_autoptr(json_object) items = vg_online_rows(vg_output_member(document, "items"));
    g_autoptr(json_object) places = vg_online_rows(vg_output_member(document, "places"));
    g_autoptr(json_object) times = json_object_new_array();
    g_autoptr(json_object) limits = json_object_new_array();
    g_autoptr(json_object) programs = json_object_new_array();
    g_autoptr(json_object) notes = json_object_new_array();

    for (size_t i = 0; i < json_object_array_length(items); i++) {
        json_object *shown = json_object_array_get_idx(items, i);
        json_object *its = vg_output_member(shown, "programs");
        show_complete(shown, vm);
        show_add_times(times, shown);
        show_add_limits(limits, shown);
        show_add_note(notes, shown, "refused", "refused");
        show_add_note(notes, shown, "failed", "failed");
        for (size_t k = 0; k < vg_output_length(its); k++)
            vg_json_append(programs, json_object_get(json_object_array_get_idx(its, k)));
    }
    show_add_guests(places, vg_output_member(document, "guests"));
    const struct vg_table tables[SHOW_TABLES] = {
        {NULL, items, socket_columns, G_N_ELEMENTS(socket_columns),
         "no vgpu-proxy on this host has a socket for this VM"},
        {"The VM's share of the GPU's time", items, share_columns, G_N_ELEMENTS(share_columns),
         NULL},
        {"How long commands took", times, time_columns, G_N_ELEMENTS(time_columns), NULL},
        {"Its limits", limits, limit_columns, G_N_ELEMENTS(limit_columns), NULL},
        {"Programs", programs, program_columns, G_N_ELEMENTS(program_columns),
         "none of the VM's programs is connected"},
        {"Refused requests", notes, note_columns, G_N_ELEMENTS(note_columns), NULL},
        {"Proxies that the VM's programs can move to (vgpuctl proxy move)", places, place_columns,
         G_N_ELEMENTS(place_columns),
         "vgpud knows no proxy for this VM that other machines can reach"},
    };
    return vg_output_print(format, document, tables, SHOW_TABLES, err);
}

/* Returns whether a proxy lacks a previous reading to compare with. */
static bool
show_lacks_window(json_object *document)
{
    json_object *items = vg_output_member(document, "items");

    for (size_t i = 0; i < vg_output_length(items); i++)
        if (show_number(json_object_array_get_idx(items, i), "window.span_ns") == 0)
            return true;
    return false;
}

int
vg_proxy_show_vm(vg_client *client, const char *vm, enum vg_output_format format, GError **err)
{
    static const char *const lists[] = {"items", NULL};
    g_autofree char *path = vg_client_vm_path(vm, "/proxy");
    g_autoptr(json_object) document = NULL;

    if (vg_client_get(client, path, lists, &document, err) < 0)
        return -1;
    if (show_lacks_window(document)) {
        g_clear_pointer(&document, json_object_put);
        g_usleep(G_USEC_PER_SEC);
        if (vg_client_get(client, path, lists, &document, err) < 0)
            return -1;
    }
    return show_print(document, format, err);
}
