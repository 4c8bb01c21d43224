/* SPDX-License-Identifier: Apache-2.0
 *
 * vgpuctl nova check: checks the configuration of OpenStack's scheduler.
 */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/nova-check.h"
#include "cli/nova-conf.h"
#include "cli/online-args.h"
#include "client/remote.h"

enum { KEY_CONFIG = 0xd00, KEY_HOSTS };

struct nova_args {
    struct vg_online_args online;
    const char *config; /* NULL for the default file, or for none if options name a vgpud */
    char **hosts;       /* NULL for the hosts that vgpud knows */
};

static const struct vg_column check_columns[] = {
    {"WHAT", "what", VG_CELL_TEXT, false},
    {"STATE", "state", VG_CELL_TEXT, false},
    {"DETAILS", "details", VG_CELL_TEXT, false},
};

static const struct vg_column cmd_nova_host_columns[] = {
    {"CHOICE", "choice", VG_CELL_TEXT, false},   {"HOST", "name", VG_CELL_TEXT, false},
    {"VERDICT", "verdict", VG_CELL_TEXT, false}, {"SCORE", "score", VG_CELL_SHARE, false},
    {"WEIGHT", "weight", VG_CELL_SHARE, true},   {"AGE s", "age_ns", VG_CELL_SECONDS, false},
    {"REASON", "reason", VG_CELL_TEXT, false},
};

static void
nova_add_check(json_object *rows, const char *what, const char *state, const char *details)
{
    json_object *row = json_object_new_object();

    vg_json_add_string(row, "what", what);
    vg_json_add_string(row, "state", state);
    vg_json_add_string(row, "details", details);
    vg_json_append(rows, row);
}

static double
nova_number(json_object *object, const char *member)
{
    return json_object_get_double(vg_output_member(object, member));
}

/* Returns the time or the state of an endpoint. Errors are printed with the other messages. The
 * caller frees the text. */
static char *
nova_endpoint_text(json_object *endpoint)
{
    const double time_ms = nova_number(endpoint, "time_ms");
    const double limit_ms = nova_number(endpoint, "limit_ms");

    if (!(limit_ms > 0))
        return g_strdup("nova excludes it");
    return g_strdup_printf("%.1f ms of %.0f ms%s", time_ms, limit_ms,
                           json_object_get_boolean(vg_output_member(endpoint, "taken"))
                               ? ", nova uses this answer"
                               : "");
}

static void
nova_warn(json_object *document)
{
    json_object *endpoints = vg_output_member(document, "endpoints");

    for (size_t i = 0; i < vg_output_length(endpoints); i++) {
        json_object *reason = vg_output_member(json_object_array_get_idx(endpoints, i), "reason");
        if (reason)
            vg_cli_warn("%s", json_object_get_string(reason));
    }
}

static json_object *
nova_make_checks(const struct vg_nova_conf *conf, json_object *document)
{
    json_object *rows = json_object_new_array();
    json_object *endpoints = vg_output_member(document, "endpoints");
    g_autofree char *multiplier =
        g_strdup_printf("VgpudWeigher, weights multiplied by %g", conf->weight_multiplier);

    if (conf->path) {
        nova_add_check(rows, "enabled_filters",
                       !conf->filter     ? "missing"
                       : conf->available ? "ok"
                                         : "wrong",
                       !conf->filter     ? "VgpudFilter is not listed"
                       : conf->available ? "VgpudFilter"
                                         : "available_filters does not contain "
                                           "vgpud_nova.filters.VgpudFilter");
        nova_add_check(rows, "weight_classes", conf->weigher ? "ok" : "missing",
                       conf->weigher ? multiplier : "VgpudWeigher is not listed");
    }
    for (size_t i = 0; i < vg_output_length(endpoints); i++) {
        json_object *one = json_object_array_get_idx(endpoints, i);
        g_autofree char *details = nova_endpoint_text(one);
        nova_add_check(rows, json_object_get_string(vg_output_member(one, "url")),
                       json_object_get_string(vg_output_member(one, "state")), details);
    }
    return rows;
}

/* Numbers the hosts "1", "2", ... and marks excluded ones "out". */
static json_object *
nova_make_host_rows(json_object *document)
{
    json_object *rows = vg_online_rows(vg_output_member(document, "hosts"));

    for (size_t i = 0; i < vg_output_length(rows); i++) {
        json_object *row = json_object_array_get_idx(rows, i),
                    *age = vg_output_member(row, "age_ms");
        g_autofree char *place = g_strdup_printf("%zu", i + 1);
        vg_json_add_string(row, "choice",
                           json_object_get_boolean(vg_output_member(row, "passes")) ? place
                                                                                    : "out");
        if (age)
            vg_json_add_int64(row, "age_ns", json_object_get_int64(age) * 1000000);
    }
    return rows;
}

static int
nova_print(const struct nova_args *args, const struct vg_nova_conf *conf, json_object *document,
           GError **err)
{
    g_autoptr(json_object) checks = nova_make_checks(conf, document);
    g_autoptr(json_object) hosts = nova_make_host_rows(document);
    const struct vg_table tables[] = {
        {conf->path, checks, check_columns, G_N_ELEMENTS(check_columns), NULL},
        {"How nova uses the answer, best host first", hosts, cmd_nova_host_columns,
         G_N_ELEMENTS(cmd_nova_host_columns), NULL},
    };

    return vg_output_print(args->online.format, document, tables, G_N_ELEMENTS(tables), err);
}

/* ---- arguments ---- */

/* Only the file's settings count, not the user's environment. */
static void
nova_forget_environment(void)
{
    for (int i = 0; i < VG_REMOTE_MAX; i++)
        unsetenv(vg_remote_names[i].variable);
}

/* Sets the vgpud given by options as the only endpoint, with nova's default limits. */
static int
nova_name_remote(const struct vg_remote_args *remote, struct vg_nova_conf *conf, GError **err)
{
    struct vg_remote where;

    if (vg_remote_resolve(remote, &where, err) < 0)
        return -1;
    const char *server = vg_remote_value(&where, VG_REMOTE_SERVER);
    g_ptr_array_add(conf->endpoints,
                    server
                        ? g_strdup(server)
                        : g_strconcat("unix://", vg_remote_value(&where, VG_REMOTE_SOCKET), NULL));
    vg_remote_clear(&where);
    return 0;
}

static int
nova_read_conf(const struct nova_args *args, bool by_options, struct vg_nova_conf *conf,
               GError **err)
{
    if (by_options) {
        vg_nova_conf_init(conf);
        return nova_name_remote(&args->online.remote, conf, err);
    }
    int status = vg_nova_conf_read(args->config ? args->config : VG_NOVA_CONF_DEFAULT, conf, err);
    if (status < 0 && !args->config && g_error_matches(*err, VG_ERROR, VG_E_NOT_FOUND))
        g_prefix_error(err, "does nova-scheduler run on this host? Specify another file with "
                            "--config, or a vgpud with --server or --socket: ");
    nova_forget_environment();
    return status;
}

static int
nova_check(struct nova_args *args)
{
    const bool by_options =
        args->online.remote.context || vg_remote_args_given(&args->online.remote) != NULL;
    g_autoptr(GError) error = NULL, why = NULL;
    struct vg_nova_conf conf;

    if (nova_read_conf(args, by_options, &conf, &error) < 0) {
        vg_nova_conf_clear(&conf);
        return vg_cli_fail(error);
    }
    g_autoptr(json_object) document =
        vg_nova_check(&conf, by_options ? &args->online.remote : NULL, args->hosts, &why);
    int status = nova_print(args, &conf, document, &error);
    vg_nova_conf_clear(&conf);
    if (status < 0)
        return vg_cli_fail(error);
    nova_warn(document);
    return why ? vg_cli_fail(why) : VG_EXIT_OK;
}

static void
nova_set_hosts(struct nova_args *args, const char *arg, const struct argp_state *state)
{
    g_strfreev(args->hosts);
    args->hosts = g_strsplit(arg, ",", -1);
    for (char **host = args->hosts; *host; host++) {
        if (!*g_strstrip(*host))
            vg_cli_usage(state, "--hosts must be a comma-separated list of names, not '%s'", arg);
    }
}

static error_t
nova_parse(int key, char *arg, struct argp_state *state)
{
    struct nova_args *args = state->input;

    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->online;
        break;
    case KEY_CONFIG:
        args->config = arg;
        break;
    case KEY_HOSTS:
        nova_set_hosts(args, arg, state);
        break;
    case ARGP_KEY_END:
        if (args->config &&
            (args->online.remote.context || vg_remote_args_given(&args->online.remote)))
            argp_error(state, "--config already determines which vgpuds to query; leave out "
                              "--server, --socket, --context and their file options");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

int
vg_cmd_nova(int argc, char **argv)
{
    static const struct vg_online_verb verbs[] = {{"check", VG_OBJECT_NONE, NULL, NULL}};
    static const struct argp_option options[] = {
        {"config", KEY_CONFIG, "FILE", 0,
         "nova-scheduler's configuration (default: " VG_NOVA_CONF_DEFAULT ")", 1},
        {"hosts", KEY_HOSTS, "HOST,...", 0,
         "hypervisors to check (default: those that vgpud knows)", 1},
        {0},
    };
    static const struct argp argp = {
        .options = options,
        .parser = nova_parse,
        .args_doc = "check",
        .doc = "Queries each vgpud in nova's configuration as nova-scheduler would, and shows how "
               "nova would use the answers. Run it as nova-scheduler's user.",
        .children = vg_online_once_children,
    };
    struct nova_args args = {.online = {.verbs = verbs, .n_verbs = G_N_ELEMENTS(verbs)}};

    argp_parse(&argp, argc, argv, 0, NULL, &args);
    int code = nova_check(&args);
    g_strfreev(args.hosts);
    return code;
}
