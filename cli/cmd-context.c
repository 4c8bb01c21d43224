/* SPDX-License-Identifier: Apache-2.0
 *
 * vgpuctl context list|use|show: manages a user's named vgpuds. Sends no requests to them.
 */
#include "config.h"

#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/online-args.h"
#include "client/contexts.h"
#include "client/remote.h"

static const struct vg_column list_columns[] = {
    {"CURRENT", "mark", VG_CELL_TEXT, false},  {"CONTEXT", "name", VG_CELL_TEXT, false},
    {"SERVER", "server", VG_CELL_TEXT, false}, {"TOKEN FILE", "token-file", VG_CELL_TEXT, true},
    {"CA FILE", "cacert", VG_CELL_TEXT, true}, {"CERTIFICATE", "cert", VG_CELL_TEXT, true},
    {"KEY", "key", VG_CELL_TEXT, true},
};

static const struct vg_column show_columns[] = {
    {"SETTING", "name", VG_CELL_TEXT, false},
    {"VALUE", "value", VG_CELL_TEXT, false},
    {"FROM", "from", VG_CELL_TEXT, false},
};

static json_object *
context_item(const char *name, const char *const *values, const char *current)
{
    json_object *item = json_object_new_object();

    vg_json_add_string(item, "name", name);
    vg_json_add_bool(item, "current", strcmp(name, current) == 0);
    for (int i = VG_REMOTE_SERVER; i < VG_REMOTE_MAX; i++)
        vg_json_add_string(item, vg_remote_names[i].option, values[i]);
    return item;
}

static int
context_list(const struct vg_online_args *args, GError **err)
{
    static const char *const nothing[VG_REMOTE_MAX];
    g_autoptr(vg_contexts) contexts = vg_contexts_read(err);
    g_autoptr(json_object) items = json_object_new_array();

    if (!contexts)
        return -1;
    const GPtrArray *list = vg_contexts_list(contexts);
    const char *current = vg_contexts_current(contexts);
    if (!current)
        current = VG_REMOTE_LOCAL;
    vg_json_append(items, context_item(VG_REMOTE_LOCAL, nothing, current));
    for (guint i = 0; i < list->len; i++) {
        const struct vg_context *context = list->pdata[i];
        vg_json_append(items,
                       context_item(context->name, (const char *const *)context->values, current));
    }
    g_autoptr(json_object) rows = vg_online_rows(items);
    for (size_t i = 0; i < json_object_array_length(rows); i++) {
        json_object *row = json_object_array_get_idx(rows, i);
        bool is_current = json_object_get_boolean(vg_output_member(row, "current"));
        vg_json_add_string(row, "mark", is_current ? "*" : NULL);
    }
    const struct vg_table table = {NULL, rows, list_columns, G_N_ELEMENTS(list_columns), NULL};
    return vg_output_print(args->format, items, &table, 1, err);
}

static int
context_use(const struct vg_online_args *args, GError **err)
{
    g_autoptr(vg_contexts) contexts = vg_contexts_read(err);

    return contexts ? vg_contexts_use(contexts, args->object, err) : -1;
}

/* Shows the settings that other commands would use. */
static int
context_show(struct vg_online_args *args, GError **err)
{
    struct vg_remote remote;

    if (args->object)
        args->remote.context = args->object;
    if (vg_remote_resolve(&args->remote, &remote, err) < 0)
        return -1;
    g_autoptr(json_object) document = json_object_new_object();
    json_object *settings = json_object_new_array();
    vg_json_add_string(document, "context", remote.context);
    for (int i = 0; i < VG_REMOTE_MAX; i++) {
        if (!remote.settings[i].value)
            continue;
        json_object *setting = json_object_new_object();
        vg_json_add_string(setting, "name", vg_remote_names[i].option);
        vg_json_add_string(setting, "value", remote.settings[i].value);
        vg_json_add_string(setting, "from", remote.settings[i].from);
        vg_json_append(settings, setting);
    }
    vg_json_add(document, "settings", settings);
    vg_remote_clear(&remote);
    const struct vg_table table = {NULL, settings, show_columns, G_N_ELEMENTS(show_columns), NULL};
    return vg_output_print(args->format, document, &table, 1, err);
}

static error_t
context_parse(int key, char *arg, struct argp_state *state)
{
    const struct vg_online_args *args = state->input;

    if (key != ARGP_KEY_END)
        return vg_online_parse_children(key, arg, state);
    bool shows = strcmp(args->verb->name, "show") == 0;
    const char *given = vg_remote_args_given(&args->remote);
    if (given && (!shows || args->object))
        argp_error(state, "--%s is valid only with `context show` without a NAME", given);
    return 0;
}

int
vg_cmd_context(int argc, char **argv)
{
    static const struct vg_online_verb verbs[] = {
        {"list", VG_OBJECT_NONE, NULL, NULL},
        {"use", VG_OBJECT_REQUIRED, "specify a context; `vgpuctl context list` shows all contexts",
         NULL},
        {"show", VG_OBJECT_OPTIONAL, NULL, NULL},
    };
    static const struct argp argp = {
        .parser = context_parse,
        .args_doc = "list\nuse NAME\nshow [NAME]",
        .doc = "Lists contexts (named vgpuds), selects the default context, or shows which "
               "vgpud a command would query, how it would connect, and why. `" VG_REMOTE_LOCAL
               "` is this machine's vgpud.\vContexts are in ~/.config/vgpuctl/config; "
               "vgpuctl(1) lists its keys.",
        .children = vg_online_once_children,
    };
    struct vg_online_args args = {.verbs = verbs, .n_verbs = G_N_ELEMENTS(verbs)};
    g_autoptr(GError) error = NULL;
    int status;

    argp_parse(&argp, argc, argv, 0, NULL, &args);
    if (args.verb == &verbs[0])
        status = context_list(&args, &error);
    else
        status = args.verb == &verbs[1] ? context_use(&args, &error) : context_show(&args, &error);
    return status < 0 ? vg_cli_fail(error) : VG_EXIT_OK;
}
