/* SPDX-License-Identifier: Apache-2.0
 *
 * vgpuctl token create|list|revoke: manages tokens, which give access over the network.
 */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/online-args.h"
#include "client/remote.h"

enum { KEY_ROLE = 0xa00, KEY_LIFETIME };

/* 100 years, the maximum of the API */
#define LIFETIME_MAX_S 3153600000.0

struct token_args {
    struct vg_online_args online;
    const char *role;
    int64_t lifetime_s; /* 0 for unlimited */
};

static const struct vg_column list_columns[] = {
    {"TOKEN", "name", VG_CELL_TEXT, false},
    {"ROLE", "role", VG_CELL_TEXT, false},
    {"STATE", "state", VG_CELL_TEXT, false},
    {"MADE (UTC)", "made", VG_CELL_TIME, false},
    {"EXPIRES (UTC)", "expires", VG_CELL_TIME, false},
    {"LAST USED (UTC)", "used", VG_CELL_TIME, false},
};

static int
token_list(void *data, vg_client *client, GError **err)
{
    const struct token_args *args = data;
    g_autoptr(json_object) items = NULL;

    if (vg_client_list(client, "/v1/tokens", &items, err) < 0)
        return -1;
    g_autoptr(json_object) rows = vg_online_rows(items);
    for (size_t i = 0; i < json_object_array_length(rows); i++) {
        json_object *row = json_object_array_get_idx(rows, i);
        const bool expired = json_object_get_boolean(vg_output_member(row, "expired"));
        vg_json_add_string(row, "state", expired ? "expired" : "valid");
        vg_online_add_time(row, "made", "made_ns");
        vg_online_add_time(row, "expires", "expires_ns");
        vg_online_add_time(row, "used", "used_ns");
    }
    const struct vg_table table = {
        NULL, rows, list_columns, G_N_ELEMENTS(list_columns),
        "there are no tokens; `vgpuctl token create NAME --role ROLE` creates one"};
    return vg_output_print(args->online.format, items, &table, 1, err);
}

/* Prints only the token to stdout, so that it can be written to a file. */
static int
token_print(const char *token, GError **err)
{
    g_autofree char *line = g_strconcat(token, "\n", NULL);

    if (vg_cli_print(line, err) < 0)
        return -1;
    fputs("vgpuctl: this token is not shown again; store it in a file that only its user can "
          "read, and specify that file with --token-file or VGPUCTL_TOKEN_FILE\n",
          stderr);
    char *path = realpath("/proc/self/fd/1", NULL);
    if (path)
        vg_remote_warn_if_open(path, "the token");
    free(path);
    return 0;
}

static int
token_create(void *data, vg_client *client, GError **err)
{
    const struct token_args *args = data;
    g_autoptr(json_object) body = json_object_new_object();
    g_autoptr(json_object) document = NULL;

    vg_json_add_string(body, "name", args->online.object);
    vg_json_add_string(body, "role", args->role);
    if (args->lifetime_s > 0)
        vg_json_add_int64(body, "lifetime_s", args->lifetime_s);
    if (vg_client_post(client, "/v1/tokens", body, &document, err) < 0)
        return -1;
    const char *token = json_object_get_string(vg_output_member(document, "token"));
    if (!token)
        return vg_error(err, VG_E_EXTERNAL, "the answer has no token");
    if (args->online.format == VG_OUTPUT_TABLE || args->online.format == VG_OUTPUT_WIDE)
        return token_print(token, err);
    return vg_output_print(args->online.format, document, NULL, 0, err);
}

static int
token_revoke(void *data, vg_client *client, GError **err)
{
    const struct token_args *args = data;
    g_autofree char *path = vg_client_path("/v1/tokens/", args->online.object, "");

    return vg_client_delete(client, path, err);
}

/* ---- arguments ---- */

static int64_t
token_parse_lifetime(const char *text, const struct argp_state *state)
{
    static const struct {
        const char *name;
        double seconds;
    } units[] = {{"s", 1}, {"min", 60}, {"h", 3600}, {"d", 86400}};
    char *end;
    double number = g_ascii_strtod(text, &end);
    double seconds = 0;

    for (size_t i = 0; i < G_N_ELEMENTS(units) && end != text; i++) {
        if (strcmp(end, units[i].name) == 0)
            seconds = number * units[i].seconds;
    }
    if (!(seconds >= 1 && seconds <= LIFETIME_MAX_S))
        vg_cli_usage(state, "--lifetime must be from 1s to 36500d, such as 12h or 30d, not '%s'",
                     text);
    return (int64_t)llround(seconds);
}

static void
token_check(const struct token_args *args, const struct argp_state *state)
{
    static const char *const roles[] = {"reader", "operator", "admin", "peer", NULL};
    bool creates = strcmp(args->online.verb->name, "create") == 0;

    if (creates && !args->role)
        argp_error(state, "specify the token's role with --role: reader, operator, admin or peer");
    if (creates && !g_strv_contains(roles, args->role))
        argp_error(state, "--role must be reader, operator, admin or peer, not '%s'", args->role);
    if (!creates && (args->role || args->lifetime_s > 0))
        argp_error(state, "--role and --lifetime are valid only with `token create`");
    if (creates && args->online.format == VG_OUTPUT_CSV)
        argp_error(state,
                   "a token is printed as plain text, or as a document with -o json or -o yaml");
}

static error_t
token_parse(int key, char *arg, struct argp_state *state)
{
    struct token_args *args = state->input;

    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->online;
        break;
    case KEY_ROLE:
        args->role = arg;
        break;
    case KEY_LIFETIME:
        args->lifetime_s = token_parse_lifetime(arg, state);
        break;
    case ARGP_KEY_END:
        token_check(args, state);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

int
vg_cmd_token(int argc, char **argv)
{
    static const struct vg_online_verb verbs[] = {
        {"create", VG_OBJECT_REQUIRED, "the token's name, which is needed to revoke it",
         token_create},
        {"list", VG_OBJECT_NONE, NULL, token_list},
        {"revoke", VG_OBJECT_REQUIRED, "specify a token; `vgpuctl token list` shows all tokens",
         token_revoke},
    };
    static const struct argp_option options[] = {
        {"role", KEY_ROLE, "ROLE", 0, "create: reader, operator, admin or peer", 1},
        {"lifetime", KEY_LIFETIME, "TIME", 0,
         "create: how long the token is valid, such as 12h or 30d (default: unlimited)", 1},
        {0},
    };
    static const struct argp argp = {
        .options = options,
        .parser = token_parse,
        .args_doc = "create NAME --role ROLE\nlist\nrevoke NAME",
        .doc = "Creates, lists and revokes tokens for access over the network. Requires the "
               "role admin, which root and vgpud's own user have on the socket.",
        .children = vg_online_once_children,
    };
    struct token_args args = {.online = {.verbs = verbs, .n_verbs = G_N_ELEMENTS(verbs)}};

    argp_parse(&argp, argc, argv, 0, NULL, &args);
    return vg_online_run(&args.online, &args);
}
