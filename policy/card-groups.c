/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "policy/card-groups.h"

#include <string.h>

#define SEPARATORS ", "
#define PATTERN    "0123456789abcdefABCDEF:.*?"
#define MIB        (INT64_C(1) << 20)
#define MEMORY_MAX (INT64_C(4096) * 1024) /* MiB */

#define AT(member) offsetof(struct vg_card_config, member)

static const char *const profiles[] = {"unknown", "homogeneous", "mixed", NULL};

const struct vg_conf_key vg_card_keys[VG_CARD_N_KEYS] = {
    {"card", "match", VG_CONF_STRING, AT(match), "", 0, VG_CARD_GROUP_MATCH_MAX, NULL,
     "PCI addresses of GPUs, with the wildcards * and ?, separated by commas or spaces."},
    {"card", "memory", VG_CONF_INT, AT(memory), "0", 0, MEMORY_MAX, NULL,
     "Memory that the GPU's vGPUs share, in MiB; 0 if unknown."},
    {"card", "profiles", VG_CONF_ENUM, AT(profiles), "unknown", 0, 0, profiles,
     "homogeneous: vGPUs of one type at a time; mixed: vGPUs of several types."},
};

void
vg_card_groups_set(struct vg_policy_config *policy, const GPtrArray *groups, GString *errors)
{
    policy->n_card_groups = 0;
    for (guint i = 0; i < groups->len && i < VG_CARD_GROUPS_MAX; i++) {
        const struct vg_card_config *from = groups->pdata[i];
        struct vg_card_group *group = &policy->card_groups[policy->n_card_groups++];
        const size_t length = strlen(from->match);
        const char *wrong = length == strspn(from->match, SEPARATORS)
                                ? "match, the PCI addresses of the group's GPUs, is missing"
                            : length != strspn(from->match, PATTERN SEPARATORS)
                                ? "match: a pattern is a PCI address such as 0000:3b:00.0; it may "
                                  "contain '*' and '?'"
                                : NULL;
        if (wrong)
            g_string_append_printf(errors, "%s%s:%u: [card %s] %s", errors->len > 0 ? "\n" : "",
                                   from->item.file, from->item.line, from->item.name, wrong);
        g_strlcpy(group->match, from->match, sizeof(group->match));
        group->memory_bytes = from->memory * MIB;
        group->profiles = (enum vg_profiles)from->profiles;
    }
}

static bool
card_groups_match(const struct vg_card_group *group, const char *device)
{
    g_autofree char *lower = g_ascii_strdown(group->match, -1);
    g_auto(GStrv) patterns = g_strsplit_set(lower, SEPARATORS, -1);

    for (size_t i = 0; patterns[i]; i++) {
        if (patterns[i][0] && g_pattern_match_simple(patterns[i], device))
            return true;
    }
    return false;
}

void
vg_card_groups_fill_in(const struct vg_policy_config *policy, struct vg_snap_host *host)
{
    for (guint i = 0; i < host->gpus->len; i++) {
        struct vg_snap_gpu *gpu = host->gpus->pdata[i];
        const struct vg_card_group *group = NULL;
        for (size_t g = 0; g < policy->n_card_groups && !group; g++)
            group = card_groups_match(&policy->card_groups[g], gpu->device)
                        ? &policy->card_groups[g]
                        : NULL;
        if (group && gpu->profiles == VG_PROFILES_UNKNOWN)
            gpu->profiles = group->profiles;
        if (group && gpu->memory_bytes == 0)
            gpu->memory_bytes = group->memory_bytes;
    }
}
