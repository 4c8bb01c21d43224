/* SPDX-License-Identifier: Apache-2.0
 *
 * vgpuctl migration list|show|watch|abort|retry|undo: shows and changes moves of VMs.
 */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "cli/cli.h"
#include "cli/follow.h"
#include "cli/move-bars.h"
#include "cli/move-options.h"
#include "cli/move-text.h"
#include "cli/online-args.h"
#include "cli/plan-undo.h"
#include "cli/policy-acts.h"

enum { KEY_ACTIVE = 0xb00, KEY_PEER, KEY_ALL };

struct migration_args {
    struct vg_online_args online;
    struct vg_move_options options;
    bool active;
    bool all; /* include the moves of all hosts that vgpud knows */
    const char *peer;
};

/* ---- list ---- */

static const struct vg_column list_columns[] = {
    {"MOVE", "id", VG_CELL_TEXT, false},     {"VM", "vm", VG_CELL_NAME, false},
    {"FROM", "from", VG_CELL_TEXT, false},   {"TO", "to", VG_CELL_TEXT, false},
    {"STATE", "words", VG_CELL_TEXT, false}, {"REQUESTED (UTC)", "asked", VG_CELL_TIME, false},
    {"TOOK", "took", VG_CELL_TEXT, true},    {"PAUSED", "stood", VG_CELL_TEXT, true},
    {"UUID", "uuid", VG_CELL_TEXT, true},    {"CAUSE", "cause", VG_CELL_TEXT, true},
};

/* Adds "migrating: 256 MiB of 1.00 GiB (25 %), 64 MiB/s, ETA 12.0 s". */
static void
migration_add_state(json_object *row, const char *state)
{
    const char *step = json_object_get_string(vg_output_member(row, "step"));
    const char *waits = json_object_get_string(vg_output_member(row, "waits_for"));
    const struct vg_json_node node = vg_json_root(vg_output_member(row, "progress"));
    struct vg_migration_progress *progress =
        vg_record_read(&vg_migration_progress_record, &node, NULL);
    const bool copies = step && (strcmp(step, "migrate") == 0 || strcmp(step, "return") == 0) &&
                        progress && progress->total_bytes > 0;
    g_autofree char *copy = copies ? vg_move_text_copy(progress) : NULL;
    g_autofree char *wait = waits ? g_strconcat("waits for ", waits, NULL) : NULL;
    const char *now = wait ? wait : copy;
    g_autofree char *words = g_strdelimit(g_strdup(state ? state : "?"), "_", ' ');
    g_autofree char *text = g_strconcat(words, now ? ": " : NULL, now, NULL);

    vg_json_add_string(row, "words", text);
    if (progress)
        vg_record_free(&vg_migration_progress_record, progress);
}

static void
migration_add_text(json_object *row)
{
    const int64_t stood_ns = json_object_get_int64(vg_output_member(row, "standstill_ns"));
    g_autofree char *stood = stood_ns > 0 ? vg_move_text_time(stood_ns) : NULL;
    json_object *ended = vg_output_member(row, "ended_ns");

    const char *called = json_object_get_string(vg_output_member(row, "display_name"));
    g_autofree char *label =
        called ? g_strdup_printf("%s (%s)", called,
                                 json_object_get_string(vg_output_member(row, "vm")))
               : NULL;

    if (label)
        vg_json_add_string(row, "vm_label", label);
    migration_add_state(row, json_object_get_string(vg_output_member(row, "state")));
    vg_json_add_string(row, "stood", stood);
    vg_online_add_time(row, "asked", "made_ns");
    if (!json_object_is_type(ended, json_type_int))
        return;
    g_autofree char *took = vg_move_text_time(
        json_object_get_int64(ended) - json_object_get_int64(vg_output_member(row, "made_ns")));
    vg_json_add_string(row, "took", took);
}

/* Reports the hosts whose moves are missing from the list. */
static void
migration_report_unknown(json_object *document)
{
    json_object *unknown = vg_output_member(document, "unknown");

    for (size_t i = 0; i < json_object_array_length(unknown); i++) {
        json_object *one = json_object_array_get_idx(unknown, i);
        g_autoptr(GString) text = g_string_new(NULL);
        vg_printable_append_line(text, "vgpuctl: the moves of host '%s' are unknown: %s",
                                 json_object_get_string(vg_output_member(one, "host")),
                                 json_object_get_string(vg_output_member(one, "reason")));
        fputs(text->str, stderr);
    }
}

/* Requests the moves of all hosts. The caller puts the list. */
static json_object *
migration_list_of_all(const struct migration_args *args, vg_client *client, GError **err)
{
    static const char *const lists[] = {"items", "unknown", NULL};
    g_autoptr(GString) path = g_string_new("/v1/cluster/migrations");
    g_autoptr(json_object) document = NULL;

    vg_online_add_parameter(path, "active", args->active ? "true" : NULL);
    if (vg_client_get(client, path->str, lists, &document, err) < 0)
        return NULL;
    migration_report_unknown(document);
    return json_object_get(vg_output_member(document, "items"));
}

static int
migration_list(void *data, vg_client *client, GError **err)
{
    const struct migration_args *args = data;
    g_autoptr(json_object) items = NULL;

    if (args->all)
        items = migration_list_of_all(args, client, err);
    else if (vg_client_list(client, args->active ? "/v1/migrations?active=true" : "/v1/migrations",
                            &items, err) < 0)
        return -1;
    if (!items)
        return -1;
    g_autoptr(json_object) rows = vg_online_rows(items);
    for (size_t i = 0; i < json_object_array_length(rows); i++)
        migration_add_text(json_object_array_get_idx(rows, i));
    g_autoptr(json_object) waiting = vg_policy_acts_waiting(client);
    const struct vg_table tables[] = {
        {NULL, rows, list_columns, G_N_ELEMENTS(list_columns),
         args->active ? "no VM is being moved"
         : args->all  ? "no known vgpud has moved a VM"
                      : "vgpud has not moved any VMs"},
        vg_policy_acts_table(waiting, NULL),
    };
    return vg_output_print(args->online.format, items, tables,
                           vg_output_length(waiting) > 0 ? G_N_ELEMENTS(tables) : 1, err);
}

/* ---- show, watch ---- */

static int
migration_show(void *data, vg_client *client, GError **err)
{
    const struct migration_args *args = data;
    g_auto(vg_follow) follow = {0};

    if (vg_follow_open(client, args->online.object, args->peer, &follow, err) < 0)
        return -1;
    if (vg_follow_stream(args->online.format) != stdout)
        return vg_follow_print(&follow, args->online.format, err);
    g_autofree char *advice = vg_follow_advice(&follow);
    g_autofree char *story = vg_move_text_story(follow.move, advice, vg_move_bars_width(stdout));
    return vg_cli_print(story, err);
}

static int
migration_finish(const struct migration_args *args, vg_client *client, vg_follow *follow,
                 enum vg_migration_state wanted, GError **err)
{
    return vg_move_options_finish(&args->options, client, follow, wanted, args->online.format, err);
}

static int
migration_watch(void *data, vg_client *client, GError **err)
{
    const struct migration_args *args = data;
    g_auto(vg_follow) follow = {0};

    vg_follow_catch_begin(client);
    int status = vg_follow_open(client, args->online.object, args->peer, &follow, err);
    if (status == 0)
        status = migration_finish(args, client, &follow, VG_MIGRATION_DONE, err);
    vg_follow_catch_end();
    return status;
}

/* ---- abort, retry, undo ---- */

/* Requests a change of a move. Then follows the move to the expected end, or reports its state. */
static int
migration_change(const struct migration_args *args, vg_client *client, const char *verb,
                 enum vg_migration_state wanted, const char *does, GError **err)
{
    g_auto(vg_follow) follow = {0};

    if (vg_follow_change(client, args->online.object, verb, args->peer, &follow, err) < 0)
        return -1;
    if (args->options.wait) {
        vg_follow_catch_begin(client);
        int status = migration_finish(args, client, &follow, wanted, err);
        vg_follow_catch_end();
        return status;
    }
    if (vg_follow_stream(args->online.format) != stdout)
        return vg_follow_print(&follow, args->online.format, err);
    g_autofree char *watch = vg_follow_command(&follow, "watch");
    g_autoptr(GString) text = g_string_new(NULL);
    /* A queued move ends immediately, or gets a place in the queue. */
    if (vg_migration_has_ended(follow.move->state))
        does = "has been removed from the queue; it had not started";
    else if (vg_migration_is_queued(follow.move))
        does = follow.move->waits_for;
    vg_printable_append_line(text, "%s: %s%s", follow.move->id,
                             does == follow.move->waits_for ? "waits for " : "", does);
    vg_printable_append_line(text, "to watch it:      %s", watch);
    return vg_cli_print(text->str, err);
}

static int
migration_abort(void *data, vg_client *client, GError **err)
{
    return migration_change(data, client, "abort", VG_MIGRATION_ABORTED,
                            "is being cancelled; vgpud undoes its steps, unless the VM has "
                            "switched hosts by then",
                            err);
}

static int
migration_retry(void *data, vg_client *client, GError **err)
{
    return migration_change(data, client, "retry", VG_MIGRATION_ROLLED_BACK,
                            "continues with the step that failed", err);
}

static int
migration_undo(void *data, vg_client *client, GError **err)
{
    const struct migration_args *args = data;
    g_autofree char *key = g_uuid_string_random();
    g_auto(vg_follow) old = {0};
    g_auto(vg_follow) follow = {0};

    if (vg_follow_open(client, args->online.object, args->peer, &old, err) < 0)
        return -1;
    g_autoptr(json_object) body = vg_plan_undo_body(old.move, err);
    if (!body)
        return -1;
    vg_follow_catch_begin(client);
    int status = vg_follow_start(client, body, key, &follow, err);
    if (status == 0)
        status = migration_finish(args, client, &follow, VG_MIGRATION_DONE, err);
    vg_follow_catch_end();
    return status;
}

/* ---- arguments ---- */

static void
migration_check(struct migration_args *args, const struct argp_state *state)
{
    const char *verb = args->online.verb->name;
    const bool lists = strcmp(verb, "list") == 0;
    const bool watches = strcmp(verb, "watch") == 0;
    const bool acts =
        strcmp(verb, "abort") == 0 || strcmp(verb, "retry") == 0 || strcmp(verb, "undo") == 0;

    if (args->active && !lists)
        argp_error(state, "--active is valid only with `migration list`");
    if (args->peer && lists)
        argp_error(state,
                   "--peer needs the id of a move; `migration list --all` lists the moves of all "
                   "peers");
    if (args->all && !lists)
        argp_error(state, "--all is valid only with `migration list`");
    if (args->options.wait && !acts)
        argp_error(state, "--wait is valid only with `migration abort`, `retry` and `undo`");
    if (args->online.watch_s > 0 && !lists && strcmp(verb, "show") != 0)
        argp_error(state, "--watch is valid only with `migration list` and `show`");
    args->options.wait = args->options.wait || watches;
    vg_move_options_check(&args->options, args->options.wait, state);
}

static error_t
migration_parse(int key, char *arg, struct argp_state *state)
{
    struct migration_args *args = state->input;

    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->options;
        state->child_inputs[1] = &args->online;
        break;
    case KEY_ACTIVE:
        args->active = true;
        break;
    case KEY_ALL:
        args->all = true;
        break;
    case KEY_PEER:
        args->peer = arg;
        break;
    case ARGP_KEY_END:
        migration_check(args, state);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

int
vg_cmd_migration(int argc, char **argv)
{
    static const char hint[] = "specify a move; `vgpuctl migration list` shows all moves";
    static const struct vg_online_verb verbs[] = {
        {"list", VG_OBJECT_NONE, NULL, migration_list},
        {"show", VG_OBJECT_BEGINNING, hint, migration_show},
        {"watch", VG_OBJECT_REQUIRED, hint, migration_watch},
        {"abort", VG_OBJECT_REQUIRED, hint, migration_abort},
        {"retry", VG_OBJECT_REQUIRED, hint, migration_retry},
        {"undo", VG_OBJECT_REQUIRED, hint, migration_undo},
    };
    static const struct argp_option options[] = {
        {"active", KEY_ACTIVE, NULL, 0, "list: only moves that have not ended", 1},
        {"all", KEY_ALL, NULL, 0, "list: include the moves of all known hosts", 1},
        {"peer", KEY_PEER, "NAME", 0, "the peer that runs the move, if it is not the queried vgpud",
         1},
        {0},
    };
    static const struct argp_child children[] = {
        {&vg_move_options_argp, 0, NULL, 1}, {&vg_online_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .options = options,
        .parser = migration_parse,
        .args_doc = "list\nshow MOVE\nwatch MOVE\nabort MOVE\nretry MOVE\nundo MOVE",
        .doc = "Lists, shows and watches moves of VMs, aborts running moves, retries failed "
               "moves, and undoes completed moves. `vgpuctl migrate` starts a move.",
        .children = children,
    };
    struct migration_args args = {.online = {.verbs = verbs,
                                             .list = "/v1/migrations",
                                             .n_verbs = G_N_ELEMENTS(verbs),
                                             .can_watch = true}};

    argp_parse(&argp, argc, argv, 0, NULL, &args);
    int code = vg_online_run(&args.online, &args);
    vg_follow_die_if_caught();
    return code;
}
