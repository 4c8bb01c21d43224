/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "daemon/alert-config.h"

#include "actuators/alert-command.h"
#include "base/clock.h"
#include "base/event-log.h"
#include "base/json.h"
#include "base/log.h"

#define VG_LOG_TAG "alert"

#define AT_ALERT(member) offsetof(struct vg_alert_config, member)

const struct vg_conf_key vg_alert_keys[VG_ALERT_N_KEYS] = {
    {"alert", "lost_cores", VG_CONF_DOUBLE, AT_ALERT(lost_cores), "0", 0, 100000, NULL,
     "Mean number of lost cores above which the alert is raised."},
    {"alert", "for", VG_CONF_DURATION, AT_ALERT(for_ns), "1min", 1, 86400, NULL,
     "Period over which that mean is calculated."},
    {"alert", "clear_for", VG_CONF_DURATION, AT_ALERT(clear_for_ns), "0s", 0, 86400, NULL,
     "How long the mean must stay 10 % below lost_cores before the alert is cleared; 0s means as "
     "long as `for`."},
    {"alert", "vm", VG_CONF_STRING, AT_ALERT(vm), "", 0, 255, NULL,
     "VMs to monitor individually: names or UUIDs, with the wildcards * and ?; empty for the whole "
     "host."},
};

void
vg_alert_config_check(const struct vg_daemon_config *config, GString *errors)
{
    for (guint i = 0; i < config->alerts->len; i++) {
        const struct vg_alert_config *alert = config->alerts->pdata[i];
        if (alert->lost_cores > 0)
            continue;
        g_string_append_printf(errors, "%s%s:%u: [alert %s] lost_cores, the threshold, is missing",
                               errors->len > 0 ? "\n" : "", alert->item.file, alert->item.line,
                               alert->item.name);
    }
}

int
vg_alert_config_check_command(const struct vg_daemon_config *config, GError **err)
{
    return vg_alert_command_check(config->alert_command, err);
}

struct vg_alert_rule *
vg_alert_config_rules(const struct vg_daemon_config *config, size_t *ret_n)
{
    struct vg_alert_rule *rules = g_new0(struct vg_alert_rule, config->alerts->len);

    for (guint i = 0; i < config->alerts->len; i++) {
        const struct vg_alert_config *alert = config->alerts->pdata[i];
        rules[i] = (struct vg_alert_rule){
            .name = alert->item.name,
            .lost_cores = alert->lost_cores,
            .for_ns = alert->for_ns,
            .vm = alert->vm,
            .clear_for_ns = alert->clear_for_ns > 0 ? alert->clear_for_ns : alert->for_ns,
        };
    }
    *ret_n = config->alerts->len;
    return rules;
}

void
vg_alert_report(void *arg, const struct vg_alert_change *change)
{
    vg_event_log *events = arg;
    const struct vg_alert_rule *rule = change->rule;
    const char *what = change->raised ? "raised" : "cleared";
    json_object *data = json_object_new_object();

    vg_json_add_string(data, "what", what);
    vg_json_add_string(data, "alert", rule->name);
    vg_json_add_string(data, "vm", change->vm);
    if (change->display_name)
        vg_json_add_string(data, "display_name", change->display_name);
    vg_json_add_string(data, "uuid", change->uuid && change->uuid[0] ? change->uuid : NULL);
    vg_json_add_double(data, "lost_cores", change->lost_cores);
    vg_json_add_double(data, "limit", rule->lost_cores);
    vg_json_add_double(data, "for_s", (double)rule->for_ns / (double)VG_NS_PER_S);
    vg_json_add_int64(data, "since_ns", change->since_ns);
    vg_json_add_string(data, "reason", change->reason);
    if (change->raised)
        vg_log_warn("alert raised alert=%s vm=\"%s\" lost_cores=%.3f limit=%.3f", rule->name,
                    change->vm ? change->vm : "", change->lost_cores, rule->lost_cores);
    else
        vg_log_notice("alert cleared alert=%s vm=\"%s\" lost_cores=%.3f reason=\"%s\"", rule->name,
                      change->vm ? change->vm : "", change->lost_cores,
                      change->reason ? change->reason : "");
    vg_event_log_add(events, "alert", data);
}
