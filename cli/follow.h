/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts VM moves and follows them to their end. Ctrl-C stops following, but never the move. Main
 * thread.
 */
#ifndef VG_CLI_FOLLOW_H
#define VG_CLI_FOLLOW_H

#include <stdio.h>

#include "cli/output.h"
#include "client/client.h"
#include "model/migration.h"

/* The latest state received of a move. */
typedef struct {
    char *path;            /* path to query: Location */
    json_object *document; /* as received from vgpud */
    vg_migration *move;    /* the same, parsed; NULL if nothing was received yet */
} vg_follow;
void vg_follow_clear(vg_follow *follow);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(vg_follow, vg_follow_clear)

/* Starts the move of a MigrationRequest; key is its Idempotency-Key. If the connection breaks
 * before an answer arrives, retries for a minute. */
int vg_follow_start(vg_client *client, json_object *body, const char *key, vg_follow *ret,
                    GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Queries a move. peer: the peer whose vgpud runs it, or NULL. */
int vg_follow_open(vg_client *client, const char *id, const char *peer, vg_follow *ret,
                   GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Reverses a move ("abort") or resumes a failed one ("retry"). *ret is the resulting state. */
int vg_follow_change(vg_client *client, const char *id, const char *verb, const char *peer,
                     vg_follow *ret, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Polls until the move has ended, and reports progress on `to`. If vgpud does not answer, retries
 * for a minute. A timeout_s of 0 means no limit. Fails with VG_E_TIMEOUT after timeout_s, and with
 * VG_E_EXTERNAL after Ctrl-C. */
int vg_follow_to_end(vg_client *client, FILE *to, double timeout_s, vg_follow *follow,
                     GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* For a move that has ended: returns 0 if its state is the wanted state (for
 * VG_MIGRATION_ROLLED_BACK, also done). Otherwise fails with VG_E_EXTERNAL and the cause. Reports
 * on `to` where the VM is. */
int vg_follow_result(const vg_follow *follow, enum vg_migration_state wanted, FILE *to,
                     GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Returns the stream for progress messages: stdout if its format is meant for people. */
FILE *vg_follow_stream(enum vg_output_format format);

/* Prints the latest state as JSON, YAML or CSV; prints nothing for a table. */
int vg_follow_print(const vg_follow *follow, enum vg_output_format format,
                    GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Returns "vgpuctl migration VERB ID", with --peer if needed; the caller frees it. */
char *vg_follow_command(const vg_follow *follow, const char *verb);

/* Returns what to do now, in the form of vg_move_advice(); the caller frees it. */
char *vg_follow_advice(const vg_follow *follow);

/* Between the two calls, Ctrl-C interrupts the client's operation and is remembered. */
void vg_follow_catch_begin(vg_client *client);
void vg_follow_catch_end(void);

/* If Ctrl-C was caught, ends the program with that signal. */
void vg_follow_die_if_caught(void);

#endif
