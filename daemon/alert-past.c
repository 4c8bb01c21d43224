/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "daemon/alert-past.h"

#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "daemon/alert-config.h"

#define VG_LOG_TAG "alert"

/* Returns a string member, or NULL. */
static const char *
alert_past_text(json_object *event, const char *name)
{
    json_object *member = NULL;

    if (!json_object_object_get_ex(event, name, &member) ||
        !json_object_is_type(member, json_type_string))
        return NULL;
    return json_object_get_string(member);
}

static double
alert_past_number(json_object *event, const char *name)
{
    json_object *member = NULL;

    return json_object_object_get_ex(event, name, &member) ? json_object_get_double(member) : 0;
}

static struct vg_active_alert *
alert_past_new(json_object *event, int64_t at_ns)
{
    json_object *since = NULL;
    struct vg_active_alert *alert = g_new0(struct vg_active_alert, 1);

    alert->alert = g_strdup(alert_past_text(event, "alert"));
    alert->vm = g_strdup(alert_past_text(event, "vm"));
    alert->display_name = g_strdup(alert_past_text(event, "display_name"));
    alert->uuid = g_strdup(alert_past_text(event, "uuid"));
    alert->lost_cores = alert_past_number(event, "lost_cores");
    alert->limit = alert_past_number(event, "limit");
    /* A number of seconds that was converted from nanoseconds is exact only after rounding. */
    alert->for_ns = (int64_t)(alert_past_number(event, "for_s") * (double)VG_NS_PER_S + 0.5);
    alert->since_ns =
        json_object_object_get_ex(event, "since_ns", &since) ? json_object_get_int64(since) : at_ns;
    return alert;
}

/* Applies an event, in chronological order. Then raised contains the alerts that are raised, by
 * alert and VM. */
static void
alert_past_take(GHashTable *raised, const struct vg_happening *happening)
{
    g_autoptr(json_object) event = json_tokener_parse(happening->text);
    const char *name = alert_past_text(event, "alert"), *what = alert_past_text(event, "what");

    /* An alert that does not come from the configuration has no limit. */
    if (!name || !what || !(alert_past_number(event, "limit") > 0))
        return;
    const char *uuid = alert_past_text(event, "uuid"), *vm = alert_past_text(event, "vm");
    char *key = g_strjoin("\n", name, uuid ? uuid : vm ? vm : "", NULL);
    if (strcmp(what, "raised") == 0) {
        g_hash_table_replace(raised, key, alert_past_new(event, happening->at_ns));
        return;
    }
    g_hash_table_remove(raised, key);
    g_free(key);
}

/* Reports the end of an alert whose rule no longer exists. */
static void
alert_past_end(const struct vg_active_alert *alert, vg_event_log *events)
{
    const struct vg_alert_rule rule = {
        .name = alert->alert, .lost_cores = alert->limit, .for_ns = alert->for_ns, .vm = alert->vm};
    const struct vg_alert_change change = {.rule = &rule,
                                           .vm = alert->vm,
                                           .display_name = alert->display_name,
                                           .uuid = alert->uuid,
                                           .lost_cores = alert->lost_cores,
                                           .since_ns = alert->since_ns,
                                           .reason = "the configuration has changed"};

    vg_alert_report(events, &change);
}

static void
alert_past_settle(void *data, const char *boot, uint64_t seq)
{
    vg_journal_settle_event(data, boot, seq);
}

vg_alert_command *
vg_alert_past_new_command(vg_journal *journal, const char *host)
{
    return vg_alert_command_new(host, alert_past_settle, journal);
}

void
vg_alert_past_keep(vg_journal *journal, vg_alert_command *command, const struct vg_happening *event,
                   bool is_replay)
{
    const bool runs =
        strcmp(event->type, VG_HAPPENING_ALERT) == 0 && vg_alert_command_is_set(command);

    vg_journal_note_event(journal, event, runs && !is_replay);
    if (runs)
        vg_alert_command_put(command, event);
}

static void
alert_past_run_owed(vg_journal *journal, vg_alert_command *command)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GPtrArray) owed = vg_journal_list_owed(journal, &error);

    if (!owed) {
        vg_log_warn("the alerts that wait for the alert command cannot be read: %s",
                    error->message);
        return;
    }
    if (owed->len > 0)
        vg_log_notice("alerts of an earlier run wait for the alert command count=%u", owed->len);
    for (guint i = 0; i < owed->len; i++)
        vg_alert_command_put(command, owed->pdata[i]);
}

void
vg_alert_past_restore(vg_journal *journal, vg_alert_command *command, vg_node *node,
                      vg_event_log *events)
{
    const struct vg_happening_query query = {
        .until_ns = INT64_MAX, .types = "alert", .limit = SIZE_MAX / 2};
    g_autoptr(GError) error = NULL;
    g_autoptr(GPtrArray) past = vg_journal_list_events(journal, &query, &error);
    g_autoptr(GHashTable) raised =
        g_hash_table_new_full(g_str_hash, g_str_equal, g_free, vg_active_alert_free);
    GHashTableIter iter;
    void *value;

    alert_past_run_owed(journal, command);
    if (!past) {
        g_prefix_error(&error, "earlier alerts cannot be read: ");
        vg_log_warn("%s", error->message);
        vg_alerts_doubt(vg_node_alerts(node), error->message);
        vg_node_tick(node);
        return;
    }
    for (guint i = 0; i < past->len; i++)
        alert_past_take(raised, past->pdata[i]);
    g_hash_table_iter_init(&iter, raised);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const struct vg_active_alert *alert = value;
        if (vg_alerts_restore(vg_node_alerts(node), alert))
            vg_log_notice("alert is still active alert=%s vm=\"%s\"", alert->alert,
                          alert->vm ? alert->vm : "");
        else
            alert_past_end(alert, events);
    }
    vg_node_tick(node);
}
