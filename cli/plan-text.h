/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan, and the judgement of a VM's candidate hosts, for people. The caller frees the text.
 */
#ifndef VG_CLI_PLAN_TEXT_H
#define VG_CLI_PLAN_TEXT_H

#include "cli/output.h"
#include "model/plan.h"

/* commands: also print the virsh and openstack commands that do the same, which stay whole. width:
 * columns to which other lines are folded; 0: they are not. */
char *vg_plan_text(const vg_plan *plan, bool commands, size_t width);

/* The commands of an action, without a newline. quote: g_shell_quote(), which keeps every byte and
 * which any shell reads, or vg_printable_quote() for a terminal. */
typedef char *(*vg_quote_function)(const char *argument);
char *vg_plan_action_virsh(const struct vg_plan_action *action, vg_quote_function quote);
char *vg_plan_action_openstack(const struct vg_plan_action *action, vg_quote_function quote);

/* Prints a plan in the format; document is what JSON and YAML show, and gets the commands, too. */
int vg_plan_print(const vg_plan *plan, json_object *document, enum vg_output_format format,
                  bool commands, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* The same for a plan that is only known as a document; *ret_plan, which may be NULL, is the
 * caller's. */
int vg_plan_print_document(json_object *document, enum vg_output_format format, bool commands,
                           vg_plan **ret_plan, GError **err) G_GNUC_WARN_UNUSED_RESULT;

#endif
