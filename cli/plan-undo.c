/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/plan-undo.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "cli/cli.h"
#include "cli/follow.h"
#include "cli/move-check.h"
#include "cli/move-text.h"

/* A VM is moved back at most once within this time, so that it does not move back and forth. */
#define UNDO_AGAIN_NS (86400 * VG_NS_PER_S)

json_object *
vg_plan_undo_body(const vg_migration *move, GError **err)
{
    const bool has_arrived = vg_migration_has_ended(move->state) &&
                             move->vm_on == VG_PLACE_TARGET &&
                             (move->devices->len == 0 || move->gpu == VG_GPU_ATTACHED);

    if (!has_arrived) {
        g_autofree char *where = vg_move_text_where(move);
        vg_error(err, VG_E_REFUSED,
                 "a move can be undone only if it brought the VM to its target with its GPUs; "
                 "%s is %s: %s",
                 move->id, vg_move_text_state(move->state), where);
        return NULL;
    }
    json_object *body = json_object_new_object();
    vg_json_add_string(body, "vm", move->uuid);
    vg_json_add_string(body, "to", move->from);
    vg_json_add_bool(body, "forward", true);
    if (move->no_agent)
        vg_json_add_bool(body, "no_agent", true);
    vg_json_add_string(body, "undo_of", move->id);
    return body;
}

/* ---- which moves ---- */

static const char *
undo_text(json_object *move, const char *name)
{
    const char *text = json_object_get_string(vg_output_member(move, name));

    return text ? text : "";
}

static bool
undo_is_worse(json_object *move, const char *plan)
{
    return strcmp(undo_text(move, "plan_id"), plan) == 0 &&
           strcmp(undo_text(move, "verdict.result"), vg_verdict_names[VG_VERDICT_WORSE]) == 0;
}

/* Returns the reason for not undoing a move, or NULL. The moves are sorted, newest first. */
static const char *
undo_obstacle(json_object *moves, size_t at)
{
    json_object *move = json_object_array_get_idx(moves, at);
    const int64_t since_ns = vg_clock_realtime_ns() - UNDO_AGAIN_NS;

    for (size_t i = 0; i < json_object_array_length(moves); i++) {
        json_object *other = json_object_array_get_idx(moves, i);
        const bool is_done = strcmp(undo_text(other, "state"), "done") == 0;
        if (i == at || strcmp(undo_text(other, "uuid"), undo_text(move, "uuid")) != 0)
            continue;
        if (json_object_is_type(vg_output_member(other, "ended_ns"), json_type_null))
            return "the VM is being moved";
        if (is_done && i < at)
            return "the VM has been moved again since then";
        if (is_done && undo_text(other, "undo_of")[0] &&
            json_object_get_int64(vg_output_member(other, "made_ns")) > since_ns)
            return "a move of this VM was undone within the last day";
    }
    return NULL;
}

/* Reads the moves of all hosts, and prints the moves to be undone. Returns these. The caller puts
 * them. */
static json_object *
undo_choose(const struct vg_plan_apply *undo, vg_client *client, GError **err)
{
    static const char *const lists[] = {"items", NULL};
    g_autoptr(json_object) document = NULL;
    g_autoptr(GString) text = g_string_new(NULL);

    if (vg_client_get(client, "/v1/cluster/migrations?limit=1000", lists, &document, err) < 0)
        return NULL;
    json_object *moves = vg_output_member(document, "items");
    json_object *chosen = json_object_new_array();
    for (size_t i = 0; i < json_object_array_length(moves); i++) {
        json_object *move = json_object_array_get_idx(moves, i);
        if (!undo_is_worse(move, undo->plan))
            continue;
        const char *obstacle = undo_obstacle(moves, i);
        vg_printable_append_line(text, "%s: %s %s from %s back to %s: %s", undo_text(move, "id"),
                                 obstacle ? "leave" : "move", undo_text(move, "vm"),
                                 undo_text(move, "to"), undo_text(move, "from"),
                                 obstacle ? obstacle : undo_text(move, "verdict.why"));
        if (!obstacle)
            vg_json_append(chosen, json_object_get(move));
    }
    if (text->len == 0)
        vg_printable_append_line(text, "none of the moves of %s is known to have made things worse",
                                 undo->plan);
    fputs(text->str, vg_follow_stream(undo->format));
    return chosen;
}

/* ---- undoing ---- */

static int
undo_check(json_object *body, vg_client *client, FILE *to, GError **err)
{
    g_autoptr(json_object) check = NULL;

    vg_json_add_bool(body, "dry_run", true);
    if (vg_move_check_ask(client, body, &check, err) < 0)
        return -1;
    g_autofree char *text = vg_move_check_text(check);
    fputs(text, to);
    return vg_move_check_problems(check, err);
}

/* The key contains the move's id, so that a move is not undone twice. */
static int
undo_one(const struct vg_plan_apply *undo, vg_client *client, json_object *move, GError **err)
{
    FILE *to = vg_follow_stream(undo->format);
    g_autofree char *key = g_strdup_printf("undo/%s", undo_text(move, "id"));
    const char *peer = json_object_get_string(vg_output_member(move, "peer"));
    g_auto(vg_follow) old = {0};
    g_auto(vg_follow) follow = {0};

    if (vg_follow_open(client, undo_text(move, "id"), peer, &old, err) < 0)
        return -1;
    g_autoptr(json_object) body = vg_plan_undo_body(old.move, err);
    if (!body)
        return -1;
    fprintf(to, "\nUndo %s\n", old.move->id);
    if (undo->dry_run)
        return undo_check(body, client, to, err);
    if (vg_follow_start(client, body, key, &follow, err) < 0 ||
        vg_follow_to_end(client, to, 0, &follow, err) < 0)
        return -1;
    return vg_follow_result(&follow, VG_MIGRATION_DONE, to, err);
}

int
vg_plan_undo_run(const struct vg_plan_apply *undo, vg_client *client, GError **err)
{
    static const char *const lists[] = {NULL};
    g_autofree char *path = vg_client_path("/v1/plans/", undo->plan, "");
    g_autoptr(json_object) plan = NULL;
    int status = 0;

    if (vg_client_get(client, path, lists, &plan, err) < 0)
        return -1;
    g_autoptr(json_object) moves = undo_choose(undo, client, err);
    if (!moves)
        return -1;
    const size_t n = json_object_array_length(moves);
    fflush(stdout);
    if (n > 0 && !undo->dry_run && !undo->yes &&
        !vg_cli_agrees("Undo %zu move%s of %s?", n, n == 1 ? "" : "s", undo->plan))
        return vg_error(err, VG_E_INVALID, "nothing was done");
    vg_follow_catch_begin(client);
    for (size_t i = 0; i < n && status == 0; i++)
        status = undo_one(undo, client, json_object_array_get_idx(moves, i), err);
    vg_follow_catch_end();
    return status;
}
