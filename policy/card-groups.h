/* SPDX-License-Identifier: Apache-2.0
 *
 * Facts about this host's GPUs that the operator configures: [card NAME] match=PATTERN.... They
 * apply where no driver reports these facts. A GPU belongs to the first group of the file that
 * matches its PCI address. Pure; any thread.
 */
#ifndef VG_POLICY_CARD_GROUPS_H
#define VG_POLICY_CARD_GROUPS_H

#include "base/conf.h"
#include "policy/policy-conf.h"

/* A group as a file has it: an element of a vg_conf_list. */
struct vg_card_config {
    struct vg_conf_item item;
    char *match;
    int64_t memory; /* MiB; 0 if left out */
    int profiles;   /* enum vg_profiles */
};

#define VG_CARD_N_KEYS 3
extern const struct vg_conf_key vg_card_keys[VG_CARD_N_KEYS];

/* The list of a configuration, whose member at `offset` has it. */
#define VG_CARD_LIST(offset)                                                                       \
 {                                                                                                 \
  "card", vg_card_keys, VG_CARD_N_KEYS, sizeof(struct vg_card_config), offset, VG_CARD_GROUPS_MAX  \
 }

/* Copies groups (struct vg_card_config) into the policy. Adds a line to errors for each mistake. */
void vg_card_groups_set(struct vg_policy_config *policy, const GPtrArray *groups, GString *errors);

/* Fills in facts that the host's GPUs do not have yet. */
void vg_card_groups_fill_in(const struct vg_policy_config *policy, struct vg_snap_host *host);

#endif
