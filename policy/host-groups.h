/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups of hosts with settings of their own: [hosts NAME] match=PATTERN.... The configuration of
 * the vgpud that makes a plan counts, for all hosts. A host belongs to the first group of the file
 * that matches its name. A setting that a group leaves out is that of [policy].
 *
 * All questions about groups go through this header. Pure; any thread.
 */
#ifndef VG_POLICY_HOST_GROUPS_H
#define VG_POLICY_HOST_GROUPS_H

#include "base/conf.h"
#include "policy/policy-conf.h"

/* A group as a file has it: an element of a vg_conf_list. */
struct vg_hosts_config {
    struct vg_conf_item item;
    char *match;
    int gpu_placement; /* 0 if left out, else an enum vg_gpu_placement plus 1 */
    int mode;          /* index into the names of the key */
    int64_t act_moves;
};

#define VG_HOSTS_N_KEYS 4
extern const struct vg_conf_key vg_hosts_keys[VG_HOSTS_N_KEYS];

/* The list of a configuration, whose member at `offset` has it. */
#define VG_HOSTS_LIST(offset)                                                                      \
 {                                                                                                 \
  "hosts", vg_hosts_keys, VG_HOSTS_N_KEYS, sizeof(struct vg_hosts_config), offset,                 \
      VG_HOST_GROUPS_MAX                                                                           \
 }

/* Copies groups (struct vg_hosts_config) into the policy. Adds a line to errors for each mistake.
 */
void vg_host_groups_set(struct vg_policy_config *policy, const GPtrArray *groups, GString *errors);

/* Returns the gpu_placement of a host. */
enum vg_gpu_placement vg_host_groups_gpu_placement(const struct vg_policy_config *policy,
                                                   const char *host);

/* Returns the group of a host, or NULL if no group matches it. */
const struct vg_host_group *vg_host_groups_find(const struct vg_policy_config *policy,
                                                const char *host);

/* Returns the mode of a host; without one of its own, `mode`. */
enum vg_policy_mode vg_host_groups_mode(const struct vg_policy_config *policy, const char *host,
                                        enum vg_policy_mode mode);

/* Returns a sentence that names all groups that match a host, or NULL if fewer than two do. The
 * caller frees it. */
char *vg_host_groups_doubt(const struct vg_policy_config *policy, const char *host);

#endif
