/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/plan-apply.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/fold.h"
#include "cli/follow.h"
#include "cli/move-check.h"
#include "cli/plan-proxy.h"
#include "cli/plan-text.h"

static vg_plan *
apply_get_plan(const struct vg_plan_apply *apply, vg_client *client, GError **err)
{
    static const char *const lists[] = {"actions", NULL};
    g_autofree char *path = vg_client_path("/v1/plans/", apply->plan, "");
    g_autoptr(json_object) document = NULL;

    if (vg_client_get(client, path, lists, &document, err) < 0)
        return NULL;
    g_autofree char *text = vg_json_to_text(document, false);
    return vg_plan_from_json(text, strlen(text), err);
}

static json_object *
apply_body(const vg_plan *plan, const struct vg_plan_action *action)
{
    json_object *body = json_object_new_object();

    vg_json_add_string(body, "vm", action->uuid ? action->uuid : action->vm);
    vg_json_add_string(body, "to", action->to);
    vg_json_add_bool(body, "forward", true);
    vg_json_add_string(body, "plan_id", plan->id);
    vg_json_add_string(body, "plan_hash", plan->input_hash);
    return body;
}

/* ---- the result ---- */

/* Adds an entry for an action: the action, its result, and vgpud's text. */
static void
apply_note(json_object *results, const struct vg_plan_action *action, const char *result,
           const char *error, json_object *told)
{
    json_object *entry = json_object_new_object();

    vg_json_add_string(entry, "vm", action->vm);
    vg_json_add_string(entry, "uuid", action->uuid);
    vg_json_add_string(entry, "from", action->from);
    vg_json_add_string(entry, "to", action->to);
    vg_json_add_string(entry, "result", result);
    vg_json_add_string(entry, "error", error);
    vg_json_add(entry, "move", json_object_get(told));
    vg_json_append(results, entry);
}

static int
apply_print(const struct vg_plan_apply *apply, json_object *results, GError **err)
{
    const struct vg_column columns[] = {
        {"VM", "vm", VG_CELL_TEXT, false},
        {"FROM", "from", VG_CELL_TEXT, false},
        {"TO", "to", VG_CELL_TEXT, false},
        {"RESULT", "result", VG_CELL_TEXT, false},
        apply->dry_run ? (struct vg_column){"EXPECTED s", "move.expected_s", VG_CELL_COUNT, false}
                       : (struct vg_column){"MOVE", "move.id", VG_CELL_TEXT, false},
        {"UUID", "uuid", VG_CELL_TEXT, true},
        {"ERROR", "error", VG_CELL_TEXT, true},
    };
    g_autoptr(json_object) document = json_object_new_object();

    if (vg_follow_stream(apply->format) == stdout)
        putchar('\n');
    vg_json_add_string(document, "plan_id", apply->plan);
    vg_json_add_bool(document, "dry_run", apply->dry_run);
    vg_json_add(document, "actions", json_object_get(results));
    const struct vg_table table = {NULL, results, columns, G_N_ELEMENTS(columns), NULL};
    return vg_output_print(apply->format, document, &table, 1, err);
}

/* ---- one action ---- */

static void
apply_print_number(const struct vg_plan_apply *apply, const vg_plan *plan, guint i)
{
    fprintf(vg_follow_stream(apply->format), "\nMove %u of %u\n", i + 1, plan->actions->len);
}

static void
apply_prefix(GError **error, const vg_plan *plan, guint i)
{
    const struct vg_plan_action *action = plan->actions->pdata[i];

    g_prefix_error(error, "move %u of %u (%s to %s): ", i + 1, plan->actions->len, action->vm,
                   action->to);
}

/* Applies a move. If the same plan is applied again, it continues where it stopped: moves that were
 * started are not started again. */
static int
apply_move(const struct vg_plan_apply *apply, vg_client *client, const vg_plan *plan, guint i,
           vg_follow *follow, GError **err)
{
    FILE *to = vg_follow_stream(apply->format);
    g_autofree char *key = g_strdup_printf("%s/%u", plan->id, i + 1);
    g_autoptr(json_object) body = apply_body(plan, plan->actions->pdata[i]);

    if (vg_follow_start(client, body, key, follow, err) < 0)
        return -1;
    if (vg_migration_has_ended(follow->move->state))
        fputs("This move was already made, when the plan was applied before:\n", to);
    if (vg_follow_to_end(client, to, 0, follow, err) < 0)
        return -1;
    return vg_follow_result(follow, VG_MIGRATION_DONE, to, err);
}

/* Checks an action, and prints problems immediately. */
static int
apply_check(const struct vg_plan_apply *apply, vg_client *client, const vg_plan *plan, guint i,
            json_object *results, GError **err)
{
    g_autoptr(json_object) body = apply_body(plan, plan->actions->pdata[i]);
    g_autoptr(json_object) check = NULL;
    g_autoptr(GError) error = NULL;

    vg_json_add_bool(body, "dry_run", true);
    if (vg_move_check_ask(client, body, &check, &error) < 0) {
        vg_cli_warn("%s", error->message);
    } else {
        g_autofree char *text = vg_move_check_text(check);
        fputs(text, vg_follow_stream(apply->format));
        (void)!vg_move_check_problems(check, &error);
    }
    apply_note(results, plan->actions->pdata[i], error ? "impossible" : "possible",
               error ? error->message : NULL, check);
    if (!error)
        return 0;
    apply_prefix(&error, plan, i);
    g_propagate_error(err, g_steal_pointer(&error));
    return -1;
}

/* ---- all of them ---- */

/* Checks all actions. The first one that cannot be checked sets the error. */
static int
apply_check_all(const struct vg_plan_apply *apply, vg_client *client, const vg_plan *plan,
                json_object *results, GError **err)
{
    int status = 0;

    for (guint i = 0; i < plan->actions->len; i++) {
        apply_print_number(apply, plan, i);
        if (apply_check(apply, client, plan, i, results, status == 0 ? err : NULL) < 0)
            status = -1;
    }
    return status;
}

/* Returns the result of a requested move. error is NULL if it is done. */
static const char *
apply_result(const vg_follow *follow, const GError *error)
{
    if (follow->move)
        return vg_migration_state_names[follow->move->state];
    if (g_error_matches(error, VG_ERROR, VG_E_UNREACHABLE) ||
        g_error_matches(error, VG_ERROR, VG_E_TIMEOUT))
        return "unknown";
    return "refused";
}

static int
apply_all(const struct vg_plan_apply *apply, vg_client *client, const vg_plan *plan,
          json_object *results, GError **err)
{
    g_autoptr(GError) error = NULL;

    for (guint i = 0; i < plan->actions->len; i++) {
        g_auto(vg_follow) follow = {0};
        if (error) {
            apply_note(results, plan->actions->pdata[i], "not-begun", NULL, NULL);
            continue;
        }
        apply_print_number(apply, plan, i);
        int status = apply_move(apply, client, plan, i, &follow, &error);
        apply_note(results, plan->actions->pdata[i], apply_result(&follow, error),
                   status < 0 ? error->message : NULL, follow.document);
        if (status < 0)
            apply_prefix(&error, plan, i);
    }
    if (!error)
        return 0;
    g_propagate_error(err, g_steal_pointer(&error));
    return -1;
}

/* Prints the results in any case. */
static int
apply_run(const struct vg_plan_apply *apply, vg_client *client, const vg_plan *plan, GError **err)
{
    g_autoptr(json_object) results = json_object_new_array();

    if (vg_plan_proxy_apply(apply, client, plan, results, err) < 0) {
        for (guint i = 0; i < plan->actions->len; i++)
            apply_note(results, plan->actions->pdata[i], "not-begun", NULL, NULL);
        apply_print(apply, results, NULL);
        return -1;
    }
    if (apply->dry_run) {
        int status = apply_check_all(apply, client, plan, results, err);
        return apply_print(apply, results, status < 0 ? NULL : err) < 0 ? -1 : status;
    }
    vg_follow_catch_begin(client);
    int status = apply_all(apply, client, plan, results, err);
    vg_follow_catch_end();
    return apply_print(apply, results, status < 0 ? NULL : err) < 0 ? -1 : status;
}

int
vg_plan_apply_run(const struct vg_plan_apply *apply, vg_client *client, GError **err)
{
    g_autoptr(vg_plan) plan = apply_get_plan(apply, client, err);

    if (!plan)
        return -1;
    g_autofree char *text = vg_plan_text(plan, false, vg_fold_terminal());
    fputs(text, vg_follow_stream(apply->format));
    fflush(stdout);
    const guint n = plan->actions->len + plan->proxies->len;
    if (n > 0 && !apply->dry_run && !apply->yes &&
        !vg_cli_agrees("Carry out %s: %u %s%s?", plan->id, n,
                       plan->proxies->len > 0 ? "change" : "move", n == 1 ? "" : "s"))
        return vg_error(err, VG_E_INVALID, "nothing was done");
    if (n == 0 && vg_follow_stream(apply->format) == stdout)
        return 0;
    return apply_run(apply, client, plan, err);
}
