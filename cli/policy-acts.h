/* SPDX-License-Identifier: Apache-2.0
 *
 * vgpud's automatic moves, for vgpuctl policy and vgpuctl migration list.
 */
#ifndef VG_CLI_POLICY_ACTS_H
#define VG_CLI_POLICY_ACTS_H

#include "cli/output.h"
#include "client/client.h"

/* The verbs status, pause and resume: each prints the state after it. */
int vg_policy_acts_status(enum vg_output_format format, vg_client *client, GError **err);
int vg_policy_acts_switch(enum vg_output_format format, bool pause, vg_client *client,
                          GError **err);

/* Reads the automatic moves that have not been started, which the caller puts; an empty array from
 * a vgpud that has none or does not report them. */
json_object *vg_policy_acts_waiting(vg_client *client);

/* Returns the table for them. */
struct vg_table vg_policy_acts_table(json_object *rows, const char *when_empty);

#endif
