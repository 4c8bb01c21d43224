/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan, and the judgement of a VM's candidate hosts, for people. The caller frees the text.
 */
#ifndef VG_CLI_PLAN_TEXT_H
#define VG_CLI_PLAN_TEXT_H

#include "model/plan.h"

/* commands: also print the virsh and openstack commands that do the same. */
char *vg_plan_text(const vg_plan *plan, bool commands);

/* The commands of an action, without a newline. quote: g_shell_quote(), which keeps every byte and
 * which any shell reads, or vg_printable_quote() for a terminal. */
typedef char *(*vg_quote_function)(const char *argument);
char *vg_plan_action_virsh(const struct vg_plan_action *action, vg_quote_function quote);
char *vg_plan_action_openstack(const struct vg_plan_action *action, vg_quote_function quote);

#endif
