/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "policy/host-groups.h"

#include <string.h>

#define SEPARATORS ", "
#define PATTERN    G_CSET_A_2_Z G_CSET_a_2_z "0123456789.-_:*?"

#define AT(member) offsetof(struct vg_hosts_config, member)

static const char *const placements[] = {"policy", "spread", "pack", NULL};
static const char *const modes[] = {"policy", "observe", "propose", "act", NULL};

const struct vg_conf_key vg_hosts_keys[VG_HOSTS_N_KEYS] = {
    {"hosts", "match", VG_CONF_STRING, AT(match), "", 0, VG_HOST_GROUP_MATCH_MAX, NULL,
     "Host names, with the wildcards * and ?, separated by commas or spaces."},
    {"hosts", "gpu_placement", VG_CONF_ENUM, AT(gpu_placement), "policy", 0, 0, placements,
     "gpu_placement for these hosts; policy: same as in [policy]."},
    {"hosts", "mode", VG_CONF_ENUM, AT(mode), "policy", 0, 0, modes,
     "mode for moves from and to these hosts; policy: same as in [policy]."},
    {"hosts", "act_moves", VG_CONF_INT, AT(act_moves), "0", 0, 1000, NULL,
     "No automatic move starts while this many moves from and to these hosts are in progress; 0 "
     "for no limit."},
};

void
vg_host_groups_set(struct vg_policy_config *policy, const GPtrArray *groups, GString *errors)
{
    policy->n_host_groups = 0;
    for (guint i = 0; i < groups->len && i < VG_HOST_GROUPS_MAX; i++) {
        const struct vg_hosts_config *from = groups->pdata[i];
        struct vg_host_group *group = &policy->host_groups[policy->n_host_groups++];
        const size_t length = strlen(from->match);
        const char *wrong = length == strspn(from->match, SEPARATORS)
                                ? "match, the names of the group's hosts, is missing"
                            : length != strspn(from->match, PATTERN SEPARATORS)
                                ? "match: a pattern may contain only letters, digits, '.', '-', "
                                  "'_', ':', '*' and '?'"
                                : NULL;
        if (wrong)
            g_string_append_printf(errors, "%s%s:%u: [hosts %s] %s", errors->len > 0 ? "\n" : "",
                                   from->item.file, from->item.line, from->item.name, wrong);
        g_strlcpy(group->name, from->item.name, sizeof(group->name));
        g_strlcpy(group->match, from->match, sizeof(group->match));
        group->has_gpu_placement = from->gpu_placement > 0;
        group->gpu_placement = (enum vg_gpu_placement)MAX(from->gpu_placement - 1, 0);
        group->mode = from->mode == 0 ? VG_POLICY_UNSET
                                      : (enum vg_policy_mode)(VG_POLICY_OBSERVE + from->mode - 1);
        group->act_moves = from->act_moves;
    }
}

static bool
groups_match(const struct vg_host_group *group, const char *host)
{
    g_auto(GStrv) patterns = g_strsplit_set(group->match, SEPARATORS, -1);

    for (size_t i = 0; patterns[i]; i++) {
        if (patterns[i][0] && g_pattern_match_simple(patterns[i], host))
            return true;
    }
    return false;
}

const struct vg_host_group *
vg_host_groups_find(const struct vg_policy_config *policy, const char *host)
{
    for (size_t i = 0; i < policy->n_host_groups; i++) {
        if (groups_match(&policy->host_groups[i], host))
            return &policy->host_groups[i];
    }
    return NULL;
}

enum vg_gpu_placement
vg_host_groups_gpu_placement(const struct vg_policy_config *policy, const char *host)
{
    const struct vg_host_group *group = vg_host_groups_find(policy, host);

    return group && group->has_gpu_placement ? group->gpu_placement : policy->gpu_placement;
}

enum vg_policy_mode
vg_host_groups_mode(const struct vg_policy_config *policy, const char *host,
                    enum vg_policy_mode mode)
{
    const struct vg_host_group *group = vg_host_groups_find(policy, host);

    return group && group->mode != VG_POLICY_UNSET ? group->mode : mode;
}

char *
vg_host_groups_doubt(const struct vg_policy_config *policy, const char *host)
{
    const struct vg_host_group *first = vg_host_groups_find(policy, host);
    g_autoptr(GString) others = g_string_new(NULL);

    for (size_t i = 0; first && i < policy->n_host_groups; i++) {
        const struct vg_host_group *group = &policy->host_groups[i];
        if (group != first && groups_match(group, host))
            g_string_append_printf(others, "%s[hosts %s]", others->len > 0 ? ", " : "",
                                   group->name);
    }
    if (others->len == 0)
        return NULL;
    return g_strdup_printf("host '%s' belongs to [hosts %s], the first group that matches it; it "
                           "also matches %s",
                           host, first->name, others->str);
}
