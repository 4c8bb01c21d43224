/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "daemon/act-config.h"

#include <string.h>

#include "base/error.h"
#include "base/log.h"

#define VG_LOG_TAG "config"

#define AT(member) offsetof(struct vg_daemon_config, member)

static const char *const modes[] = {"cluster", "observe", "propose", "act", NULL};

static const struct vg_conf_key vg_act_keys[VG_ACT_N_KEYS] = {
    {"policy", "mode", VG_CONF_ENUM, AT(act_mode), "cluster", 0, 0, modes,
     "What the leader does: observe, propose moves, or act; cluster: same as [cluster] mode."},
    {"policy", "act_window", VG_CONF_STRING, AT(act_window), "", 0, 1000, NULL,
     "Local times when automatic moves may start, such as Mo-Fr 22:00-05:00; empty for any time."},
    {"policy", "act_moves", VG_CONF_INT, AT(act_moves), "2", 1, 1000, NULL,
     "Maximum number of concurrent moves in the cluster; only automatic moves wait for it."},
    {"policy", "act_moves_per_host", VG_CONF_INT, AT(act_moves_per_host), "1", 1, 1000, NULL,
     "Maximum number of these moves that involve the same host."},
    {"policy", "act_moves_per_target", VG_CONF_INT, AT(act_moves_per_target), "1", 1, 1000, NULL,
     "Maximum number of these moves to the same host."},
    {"policy", "cooldown", VG_CONF_DURATION, AT(act_cooldown_ns), "10min", 0, 86400, NULL,
     "Minimum time between a move of a VM and its next automatic move; it doubles with each "
     "further move."},
    {"policy", "error_budget", VG_CONF_INT, AT(act_error_budget), "3", 1, 1000, NULL,
     "Automatic moves stop once this many have failed or made things worse within a day."},
};

void
vg_act_config_add_policy(struct vg_conf_key *keys)
{
    size_t at = 0;

    for (size_t i = 0; i < vg_policy_n_keys; i++) {
        /* [policy] contains both kinds of keys. The keys of moves come first. */
        if (i > 0 && strcmp(vg_policy_keys[i].group, "policy") == 0 &&
            strcmp(vg_policy_keys[i - 1].group, "policy") != 0) {
            memcpy(&keys[at], vg_act_keys, sizeof(vg_act_keys));
            at += VG_ACT_N_KEYS;
        }
        keys[at] = vg_policy_keys[i];
        keys[at++].offset += AT(policy);
    }
}

void
vg_act_config_warn(const struct vg_conf_key *keys, const struct vg_conf_place *places, size_t n)
{
    int set = 0;

    for (size_t i = 0; i < n; i++)
        set += strcmp(keys[i].name, "mode") == 0 && places[i].file &&
               (strcmp(keys[i].group, "policy") == 0 || strcmp(keys[i].group, "cluster") == 0);
    if (set == 2)
        vg_log_warn("[cluster] mode is ignored because [policy] mode is set");
}

/* Returns the mode in force. */
static enum vg_policy_mode
act_config_mode(const struct vg_daemon_config *config)
{
    if (config->act_mode > 0)
        return (enum vg_policy_mode)(VG_POLICY_OBSERVE + config->act_mode - 1);
    return config->cluster_mode == VG_CLUSTER_OBSERVE ? VG_POLICY_OBSERVE : VG_POLICY_PROPOSE;
}

int
vg_act_config_check(const struct vg_daemon_config *config, GError **err)
{
    struct vg_act_rules rules = {.mode = act_config_mode(config)};

    if (vg_act_window_parse(config->act_window, &rules.window, err) < 0) {
        g_prefix_error(err, "[policy] act_window: ");
        return -1;
    }
    if (config->cluster_etcd[0] || !vg_acts_is_wanted(&rules, &config->policy))
        return 0;
    return vg_error(err, VG_E_INVALID,
                    rules.mode == VG_POLICY_ACT
                        ? "[policy] mode: act needs [cluster] etcd, which ensures that only one "
                          "host acts"
                        : "[hosts] mode: act needs [cluster] etcd, which ensures that only one "
                          "host acts");
}

void
vg_act_config_rules(const struct vg_daemon_config *config, struct vg_act_rules *ret)
{
    *ret = (struct vg_act_rules){
        .mode = act_config_mode(config),
        .moves = config->act_moves,
        .moves_per_host = config->act_moves_per_host,
        .moves_per_target = config->act_moves_per_target,
        .cooldown_ns = config->act_cooldown_ns,
        .error_budget = config->act_error_budget,
    };
    /* The value was checked when it was read. */
    (void)!vg_act_window_parse(config->act_window, &ret->window, NULL);
}
