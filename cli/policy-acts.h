/* SPDX-License-Identifier: Apache-2.0
 *
 * vgpud's automatic moves, for vgpuctl policy and vgpuctl migration list.
 */
#ifndef VG_CLI_POLICY_ACTS_H
#define VG_CLI_POLICY_ACTS_H

#include "cli/output.h"
#include "client/client.h"

/* The verbs status, pause and resume: each prints the resulting state. */
int vg_policy_acts_status(enum vg_output_format format, vg_client *client, GError **err);
int vg_policy_acts_switch(enum vg_output_format format, bool pause, vg_client *client,
                          GError **err);

/* Reads the automatic moves that have not been started. The array is empty if vgpud has none or
 * does not report them. The caller releases it with json_object_put(). */
json_object *vg_policy_acts_waiting(vg_client *client);

/* Returns the table for these moves. */
struct vg_table vg_policy_acts_table(json_object *rows, const char *when_empty);

#endif
