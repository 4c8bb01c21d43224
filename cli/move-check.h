/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks a possible VM move: the API's MigrationCheck.
 */
#ifndef VG_CLI_MOVE_CHECK_H
#define VG_CLI_MOVE_CHECK_H

#include "cli/output.h"
#include "client/client.h"

/* Sends body, a MigrationRequest with dry_run. The caller releases *ret with json_object_put(). */
int vg_move_check_ask(vg_client *client, json_object *body, json_object **ret,
                      GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Prints the result. Then fails with VG_E_REFUSED if the move is not possible. */
int vg_move_check_print(json_object *check, enum vg_output_format format,
                        GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* The parts of vg_move_check_print(): the obstacles to the move as lines of text, which the caller
 * frees, and the error. */
char *vg_move_check_text(json_object *check);
int vg_move_check_problems(json_object *check, GError **err) G_GNUC_WARN_UNUSED_RESULT;

#endif
