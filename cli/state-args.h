/* SPDX-License-Identifier: Apache-2.0
 *
 * Arguments common to `placement` and `explain`: the saved snapshots, the rule and the
 * configuration.
 */
#ifndef VG_CLI_STATE_ARGS_H
#define VG_CLI_STATE_ARGS_H

#include <argp.h>

#include "cli/output.h"
#include "cli/remote-args.h"
#include "model/snapshot.h"
#include "policy/policy-conf.h"

struct vg_state_args {
    GPtrArray *paths; /* char *, borrowed from argv */
    const char *config_path;
    const char *rule; /* NULL for the configured rule */
    struct vg_remote_args remote;
    enum vg_output_format format;
    /* Set by vg_state_args_load(). */
    struct vg_policy_config config;
};

/* Child parser for argp; its input is a struct vg_state_args. */
extern const struct argp vg_state_argp;

void vg_state_args_init(struct vg_state_args *args);
void vg_state_args_clear(struct vg_state_args *args);

/* Reads the configuration only. */
int vg_state_args_load_config(struct vg_state_args *args, GError **err);

/* Reads the configuration and the snapshots or, if none are given, the snapshot of the running
 * vgpud and its peers. Returns one sealed snapshot of all hosts, or NULL. */
vg_snapshot *vg_state_args_load(struct vg_state_args *args, GError **err);

#endif
