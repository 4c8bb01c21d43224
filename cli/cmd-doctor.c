/* SPDX-License-Identifier: Apache-2.0
 *
 * vgpuctl doctor: checks what measures and what could, and suggests fixes.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "cli/cli.h"
#include "cli/doctor.h"
#include "cli/online-args.h"
#include "client/remote.h"

/* The maximum number of guests queried for their driver, and the time after which no further guest
 * is queried. */
#define GUESTS_MAX 256
#define GUESTS_NS  (40 * VG_NS_PER_S)

static const struct vg_column check_columns[] = {
    {"STATE", "state", VG_CELL_TEXT, false},
    {"WHAT", "what", VG_CELL_TEXT, false},
    {"WHY", "details", VG_CELL_FOLD, false},
};

/* Returns a state's name in the table. */
static const char *
doctor_state_name(const char *state)
{
    static const char *const words[] = {
        [VG_HEALTH_OK] = "OK",
        [VG_HEALTH_LACKS] = "WARN",
        [VG_HEALTH_BROKEN] = "FAIL",
    };

    for (size_t i = 0; i < G_N_ELEMENTS(words); i++) {
        if (strcmp(state, vg_health_names[i]) == 0)
            return words[i];
    }
    return state;
}

/* Adds the reason and, on a separate line, the command for tables. CSV retains the states' own
 * names. */
static json_object *
doctor_rows(json_object *checks, enum vg_output_format format)
{
    json_object *rows = vg_online_rows(checks);

    for (size_t i = 0; i < json_object_array_length(rows); i++) {
        json_object *row = json_object_array_get_idx(rows, i);
        /* Text from other sources must not start a new line, or it could be taken for a command. */
        g_autofree char *why =
            vg_printable_text(json_object_get_string(vg_output_member(row, "why")));
        const char *mend = json_object_get_string(vg_output_member(row, "mend"));
        g_autofree char *details =
            mend ? g_strdup_printf("%s\n" VG_OUTPUT_COMMAND "%s", why, mend) : g_strdup(why);
        vg_json_add_string(row, "details", details);
        if (format == VG_OUTPUT_TABLE) {
            const char *state = json_object_get_string(vg_output_member(row, "state"));
            vg_json_add_string(row, "state", doctor_state_name(state));
        }
    }
    return rows;
}

/* Returns "1 failed, 2 warnings, 9 ok", which the caller frees. */
static char *
doctor_verdict(json_object *checks)
{
    const unsigned n_warnings = vg_doctor_count(checks, VG_HEALTH_LACKS);

    return g_strdup_printf("%u failed, %u warning%s, %u ok",
                           vg_doctor_count(checks, VG_HEALTH_BROKEN), n_warnings,
                           n_warnings == 1 ? "" : "s", vg_doctor_count(checks, VG_HEALTH_OK));
}

static int
doctor_print(enum vg_output_format format, json_object *checks, bool reached, GError **err)
{
    g_autoptr(json_object) document = json_object_new_object();
    g_autoptr(json_object) rows = doctor_rows(checks, format);
    g_autofree char *verdict = doctor_verdict(checks);
    const struct vg_table table = {verdict, rows, check_columns, G_N_ELEMENTS(check_columns), NULL};

    vg_json_add_bool(document, "reached", reached);
    for (int i = 0; i < VG_HEALTH_MAX; i++)
        vg_json_add_int64(document, vg_health_names[i], vg_doctor_count(checks, (enum vg_health)i));
    vg_json_add(document, "checks", json_object_get(checks));
    return vg_output_print(format, document, &table, 1, err);
}

static void
doctor_read_others(json_object *checks, json_object *host, json_object *peers)
{
    vg_doctor_read_peers(checks, peers);
    vg_doctor_read_tls(checks, host, peers);
}

/* Returns whether a VM in vgpud's list has a GPU of the host. */
static bool
doctor_has_gpu(json_object *vm)
{
    json_object *devices = vg_output_member(vm, "domain.devices");

    for (size_t i = 0; i < vg_output_length(devices); i++) {
        json_object *device = json_object_array_get_idx(devices, i);
        if (json_object_get_boolean(vg_output_member(device, "is_gpu")))
            return true;
    }
    return false;
}

/* Queries the guest of a VM with a GPU for its driver. A VM that has left, or that libvirt does not
 * know, has no GPU. */
static void
doctor_query_guest(vg_client *client, const char *id, json_object *checks)
{
    static const char *const vm_lists[] = {"lost_to", NULL};
    static const char *const movable_lists[] = {"devices", NULL};
    g_autoptr(json_object) vm = NULL, movable = NULL;
    g_autofree char *vm_path = vg_client_vm_path(id, "");
    g_autofree char *movable_path = vg_client_vm_path(id, "/movable");
    g_autoptr(GError) error = NULL;

    if (vg_client_get(client, vm_path, vm_lists, &vm, &error) == 0 && doctor_has_gpu(vm) &&
        vg_client_get(client, movable_path, movable_lists, &movable, &error) == 0)
        vg_doctor_read_guest(checks, movable);
}

/* An unresponsive guest takes 20 seconds, so the remaining guests are skipped after some time. */
static void
doctor_query_guests(vg_client *client, json_object *checks)
{
    const int64_t until_ns = vg_clock_monotonic_ns() + GUESTS_NS;
    g_autoptr(json_object) vms = NULL;
    g_autoptr(GError) error = NULL;
    size_t i = 0;

    if (vg_client_list_some(client, "/v1/vms", GUESTS_MAX, &vms, &error) < 0) {
        vg_doctor_add(checks, "guests", VG_HEALTH_BROKEN, NULL, "%s", error->message);
        return;
    }
    for (; i < vg_output_length(vms) && vg_clock_monotonic_ns() < until_ns; i++) {
        json_object *vm = json_object_array_get_idx(vms, i);
        const char *id = json_object_get_string(vg_output_member(vm, "id"));
        if (id)
            doctor_query_guest(client, id, checks);
    }
    if (i < vg_output_length(vms))
        vg_doctor_add(checks, "guests", VG_HEALTH_LACKS, NULL,
                      "%zu of %zu guests were not queried for their driver: the other queries "
                      "took more than %d s",
                      vg_output_length(vms) - i, vg_output_length(vms),
                      (int)(GUESTS_NS / VG_NS_PER_S));
}

/* Queries vgpud. Returns false and sets *err if it does not answer. socket is that of this
 * machine's vgpud, or NULL. */
static bool
doctor_query(const struct vg_remote_args *remote, const char *socket, json_object *checks,
             GError **err)
{
    static const char *const host_lists[] = {"parts", NULL};
    static const char *const peer_lists[] = {"items", NULL};
    static const char *const proxy_lists[] = {"items", NULL};
    g_autoptr(vg_client) client = vg_client_new(remote, err);
    g_autoptr(json_object) host = NULL, peers = NULL, proxies = NULL;
    g_autofree char *metrics = NULL;
    g_autoptr(GError) peers_error = NULL, proxies_error = NULL;
    size_t size = 0;

    if (!client || vg_client_get(client, "/v1/host", host_lists, &host, err) < 0 ||
        vg_client_get_text(client, "/metrics", &metrics, &size, err) < 0)
        return false;
    vg_doctor_read_host(checks, host, metrics);
    if (socket) {
        vg_doctor_read_program(checks, vg_doctor_find_pid(socket),
                               json_object_get_string(vg_output_member(host, "daemon.version")),
                               "");
        vg_doctor_read_config(checks, vg_doctor_find_pid(socket));
        vg_doctor_read_daemons(checks, host, "");
    }
    vg_doctor_read_alerts(checks, host, metrics);
    if (vg_client_get(client, "/v1/peers", peer_lists, &peers, &peers_error) < 0)
        vg_doctor_add(checks, "peers", VG_HEALTH_BROKEN, NULL, "%s", peers_error->message);
    else
        doctor_read_others(checks, host, peers);
    if (vg_client_get(client, "/v1/proxies", proxy_lists, &proxies, &proxies_error) < 0)
        vg_doctor_add(checks, "proxy", VG_HEALTH_BROKEN, NULL, "%s", proxies_error->message);
    else
        vg_doctor_read_proxies(checks, proxies);
    doctor_query_guests(client, checks);
    return true;
}

static int
doctor_run(const struct vg_online_args *args)
{
    g_autoptr(json_object) checks = json_object_new_array();
    g_autoptr(GError) why = NULL, error = NULL;
    struct vg_remote where;

    if (vg_remote_resolve(&args->remote, &where, &error) < 0)
        return vg_cli_fail(error);
    g_autofree char *socket = g_strdup(vg_remote_value(&where, VG_REMOTE_SOCKET));
    vg_remote_clear(&where);
    const bool reached = doctor_query(&args->remote, socket, checks, &why);
    if (!reached)
        vg_doctor_add(checks, "vgpud", VG_HEALTH_BROKEN, NULL, "%s", why->message);
    if (!reached && socket)
        vg_doctor_look_around(checks, socket, "");
    if (socket) {
        vg_doctor_read_cards(checks, "");
        vg_doctor_read_driver(checks, "");
        vg_doctor_read_vulkan(checks, "");
        vg_doctor_read_clock(checks);
    }
    if (doctor_print(args->format, checks, reached, &error) < 0)
        return vg_cli_fail(error);
    if (!reached)
        return vg_error_exit_code(why);
    return vg_doctor_count(checks, VG_HEALTH_BROKEN) > 0 ? VG_EXIT_ERROR : VG_EXIT_OK;
}

int
vg_cmd_doctor(int argc, char **argv)
{
    static const struct vg_online_verb verbs[] = {{NULL, VG_OBJECT_NONE, NULL, NULL}};
    static const struct argp argp = {
        .parser = vg_online_parse_children,
        .args_doc = "",
        .doc = "Checks the installation. The output shows what vgpud measures and how, what "
               "else it could measure, what is broken, and which command fixes it. If this "
               "machine's vgpud does not answer, the command finds the reason; run it as root "
               "to see everything.",
        .children = vg_online_once_children,
    };
    struct vg_online_args args = {.verbs = verbs, .n_verbs = G_N_ELEMENTS(verbs)};

    argp_parse(&argp, argc, argv, 0, NULL, &args);
    return doctor_run(&args);
}
