/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan, and the assessment of a VM's candidate hosts, as text for people. The caller frees the
 * text.
 */
#ifndef VG_CLI_PLAN_TEXT_H
#define VG_CLI_PLAN_TEXT_H

#include "cli/output.h"
#include "model/plan.h"

/* commands: also print equivalent virsh and openstack commands, which are not wrapped. width:
 * columns for wrapping other lines; 0 for none. */
char *vg_plan_text(const vg_plan *plan, bool commands, size_t width);

/* The commands for an action, without a newline. quote: g_shell_quote(), which preserves every
 * byte for any shell, or vg_printable_quote() for a terminal. */
typedef char *(*vg_quote_function)(const char *argument);
char *vg_plan_action_virsh(const struct vg_plan_action *action, vg_quote_function quote);
char *vg_plan_action_openstack(const struct vg_plan_action *action, vg_quote_function quote);

/* Prints a plan in the format. document is the output for JSON and YAML, and commands are added to
 * it. */
int vg_plan_print(const vg_plan *plan, json_object *document, enum vg_output_format format,
                  bool commands, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* The same for a plan that is only available as a document. *ret_plan is owned by the caller;
 * ret_plan may be NULL. */
int vg_plan_print_document(json_object *document, enum vg_output_format format, bool commands,
                           vg_plan **ret_plan, GError **err) G_GNUC_WARN_UNUSED_RESULT;

#endif
