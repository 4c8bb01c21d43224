/* SPDX-License-Identifier: Apache-2.0
 *
 * vgpuctl policy: compares the predicted and actual gains of moves, and shows automatic actions.
 */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/printable.h"
#include "cli/cli.h"
#include "cli/online-args.h"
#include "cli/policy-acts.h"
#include "cli/when.h"
#include "model/verdict.h"

/* The number of newest moves per host. vgpud's journal stores the same number. */
#define POLICY_MOVES "1000"

struct policy_args {
    struct vg_online_args online;
    struct vg_when_args when;
};

static const struct vg_column report_columns[] = {
    {"RULE", "rule", VG_CELL_TEXT, false},
    {"MOVES", "moves", VG_CELL_COUNT, false},
    {"NOT DONE", "not_done", VG_CELL_COUNT, false},
    {"HELPED", "helped", VG_CELL_COUNT, false},
    {"NO EFFECT", "no-effect", VG_CELL_COUNT, false},
    {"WORSE", "worse", VG_CELL_COUNT, false},
    {"CANNOT TELL", "cannot-tell", VG_CELL_COUNT, false},
    {"NOT JUDGED", "none", VG_CELL_COUNT, false},
    {"PREDICTED", "predicted", VG_CELL_TEXT, false},
    {"ACHIEVED", "achieved", VG_CELL_TEXT, false},
    {"OF", "compared", VG_CELL_COUNT, false},
};

static void
policy_count(json_object *row, const char *name)
{
    vg_json_add_int64(row, name, json_object_get_int64(vg_output_member(row, name)) + 1);
}

static void
policy_add_up(json_object *row, const char *name, json_object *more)
{
    vg_json_add_int64(row, name,
                      json_object_get_int64(vg_output_member(row, name)) +
                          json_object_get_int64(more));
}

/* Returns the row of a rule. Adds the row if it is missing. */
static json_object *
policy_row_of(json_object *rows, const char *rule)
{
    for (size_t i = 0; i < json_object_array_length(rows); i++) {
        json_object *row = json_object_array_get_idx(rows, i);
        if (strcmp(json_object_get_string(vg_output_member(row, "rule")), rule) == 0)
            return row;
    }
    json_object *row = json_object_new_object();
    vg_json_add_string(row, "rule", rule);
    vg_json_add_int64(row, "moves", 0);
    vg_json_add_int64(row, "not_done", 0);
    for (int i = VG_VERDICT_NONE; i < VG_VERDICT_MAX; i++)
        vg_json_add_int64(row, vg_verdict_names[i], 0);
    vg_json_add_int64(row, "compared", 0);
    vg_json_add_int64(row, "predicted_ns_per_s", 0);
    vg_json_add_int64(row, "achieved_ns_per_s", 0);
    vg_json_append(rows, row);
    return row;
}

/* Adds the gains of a move. The moves of a group share one verdict, so that it counts once. */
static void
policy_add_gains(json_object *row, GHashTable *groups, json_object *move, json_object *verdict)
{
    json_object *gain = vg_output_member(verdict, "gain_ns_per_s");
    json_object *predicted = vg_output_member(verdict, "predicted_ns_per_s");
    const char *plan = json_object_get_string(vg_output_member(move, "plan_id"));
    const bool is_compared =
        json_object_is_type(gain, json_type_int) && json_object_is_type(predicted, json_type_int);

    if (!is_compared ||
        !g_hash_table_add(groups,
                          g_strdup_printf("%s/%" G_GINT64_FORMAT, plan ? plan : "",
                                          json_object_get_int64(vg_output_member(move, "group")))))
        return;
    policy_count(row, "compared");
    policy_add_up(row, "predicted_ns_per_s", predicted);
    policy_add_up(row, "achieved_ns_per_s", gain);
}

static void
policy_add_move(json_object *rows, GHashTable *groups, json_object *move)
{
    const char *rule = json_object_get_string(vg_output_member(move, "rule"));
    const char *state = json_object_get_string(vg_output_member(move, "state"));
    json_object *verdict = vg_output_member(move, "verdict");
    const char *result = json_object_get_string(vg_output_member(verdict, "result"));
    json_object *row = policy_row_of(rows, rule ? rule : "(no plan)");

    policy_count(row, "moves");
    if (g_strcmp0(state, "done") != 0) {
        policy_count(row, "not_done");
        return;
    }
    policy_count(row, result ? result : vg_verdict_names[VG_VERDICT_NONE]);
    policy_add_gains(row, groups, move, verdict);
}

/* Adds the text of the sums, unless no move was compared. */
static void
policy_add_text(json_object *row)
{
    static const char *const names[][2] = {{"predicted", "predicted_ns_per_s"},
                                           {"achieved", "achieved_ns_per_s"}};

    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        if (json_object_get_int64(vg_output_member(row, "compared")) == 0) {
            vg_json_add(row, names[i][1], NULL);
            continue;
        }
        g_autofree char *text = g_strdup_printf(
            "%+.2f", (double)json_object_get_int64(vg_output_member(row, names[i][1])) / 1e9);
        vg_json_add_string(row, names[i][0], text);
    }
}

/* Reports hosts whose moves are missing. */
static void
policy_warn_unknown(json_object *document)
{
    json_object *unknown = vg_output_member(document, "unknown");

    for (size_t i = 0; i < json_object_array_length(unknown); i++) {
        json_object *one = json_object_array_get_idx(unknown, i);
        vg_cli_warn("the moves of host '%s' are unknown: %s",
                    json_object_get_string(vg_output_member(one, "host")),
                    json_object_get_string(vg_output_member(one, "reason")));
    }
}

static bool
policy_is_in(json_object *move, int64_t since_ns, int64_t until_ns)
{
    const int64_t made_ns = json_object_get_int64(vg_output_member(move, "made_ns"));

    return made_ns >= since_ns && made_ns < until_ns;
}

static int
policy_read_time(const char *text, int64_t without_ns, int64_t now_ns, int64_t *ret, GError **err)
{
    struct vg_when when;

    *ret = without_ns;
    if (!text)
        return 0;
    if (vg_when_parse(text, now_ns, &when, err) < 0)
        return -1;
    *ret = when.relative ? now_ns - when.ns : when.ns;
    return 0;
}

static int
policy_report(void *data, vg_client *client, GError **err)
{
    static const char *const lists[] = {"items", "unknown", NULL};
    const struct policy_args *args = data;
    const int64_t now_ns = vg_clock_realtime_ns();
    g_autoptr(json_object) document = NULL;
    g_autoptr(json_object) rows = json_object_new_array();
    g_autoptr(GHashTable) groups = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    int64_t since_ns, until_ns;

    if (policy_read_time(args->when.since, 0, now_ns, &since_ns, err) < 0 ||
        policy_read_time(args->when.until, INT64_MAX, now_ns, &until_ns, err) < 0 ||
        vg_client_get(client, "/v1/cluster/migrations?limit=" POLICY_MOVES, lists, &document, err) <
            0)
        return -1;
    policy_warn_unknown(document);
    json_object *items = vg_output_member(document, "items");
    for (size_t i = 0; i < json_object_array_length(items); i++) {
        json_object *move = json_object_array_get_idx(items, i);
        if (policy_is_in(move, since_ns, until_ns))
            policy_add_move(rows, groups, move);
    }
    for (size_t i = 0; i < json_object_array_length(rows); i++)
        policy_add_text(json_object_array_get_idx(rows, i));
    const struct vg_table table = {
        "Moves by rule. Gains are in cores; OF is the number of plan groups that they include.",
        rows, report_columns, G_N_ELEMENTS(report_columns), "no VM was moved in that period"};
    return vg_output_print(args->online.format, rows, &table, 1, err);
}

static int
policy_status(void *data, vg_client *client, GError **err)
{
    return vg_policy_acts_status(((const struct policy_args *)data)->online.format, client, err);
}

static int
policy_pause(void *data, vg_client *client, GError **err)
{
    return vg_policy_acts_switch(((const struct policy_args *)data)->online.format, true, client,
                                 err);
}

static int
policy_resume(void *data, vg_client *client, GError **err)
{
    return vg_policy_acts_switch(((const struct policy_args *)data)->online.format, false, client,
                                 err);
}

static error_t
policy_parse(int key, char *arg, struct argp_state *state)
{
    struct policy_args *args = state->input;

    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->online;
        break;
    case ARGP_KEY_END:
        vg_when_check(&args->when, state);
        break;
    default:
        return vg_when_take(&args->when, key, arg);
    }
    return 0;
}

int
vg_cmd_policy(int argc, char **argv)
{
    static const struct vg_online_verb verbs[] = {
        {"report", VG_OBJECT_NONE, NULL, policy_report},
        {"status", VG_OBJECT_NONE, NULL, policy_status},
        {"pause", VG_OBJECT_NONE, NULL, policy_pause},
        {"resume", VG_OBJECT_NONE, NULL, policy_resume},
    };
    static const struct argp_option options[] = {
        {"since", VG_WHEN_SINCE, "TIME", 0,
         "only moves requested since this time, " VG_WHEN_HELP " (default: all)", 1},
        {"until", VG_WHEN_UNTIL, "TIME", 0, "only moves requested before this time", 1},
        {0},
    };
    static const struct argp argp = {
        .options = options,
        .parser = policy_parse,
        .args_doc = "report\nstatus\npause\nresume",
        .doc = "`report` summarises the moves of all hosts by the rule that proposed them: how "
               "many helped, and their predicted and achieved gains. `status` shows whether "
               "vgpud moves VMs automatically, and its current automatic moves. `pause` stops "
               "automatic moves in the whole cluster until `resume`. vgpud-policy(7) describes "
               "the verdicts and automatic moves.",
        .children = vg_online_children,
    };
    struct policy_args args = {
        .online = {.verbs = verbs, .n_verbs = G_N_ELEMENTS(verbs), .can_watch = true}};

    argp_parse(&argp, argc, argv, 0, NULL, &args);
    return vg_online_run(&args.online, &args);
}
