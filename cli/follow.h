/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts moves of VMs and follows them to their end. Ctrl-C ends the following, never the move.
 * Main thread.
 */
#ifndef VG_CLI_FOLLOW_H
#define VG_CLI_FOLLOW_H

#include <stdio.h>

#include "cli/output.h"
#include "client/client.h"
#include "model/migration.h"

/* What was last heard of a move. */
typedef struct {
    char *path;            /* where to look: Location */
    json_object *document; /* as vgpud told it */
    vg_migration *move;    /* the same; NULL: nothing was heard yet */
} vg_follow;
void vg_follow_clear(vg_follow *follow);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(vg_follow, vg_follow_clear)

/* Has the move of a MigrationRequest begin; key is its Idempotency-Key. Where the connection breaks
 * before an answer came, it is asked again, for a minute. */
int vg_follow_start(vg_client *client, json_object *body, const char *key, vg_follow *ret,
                    GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Looks at one. peer: whose vgpud runs it, or NULL. */
int vg_follow_open(vg_client *client, const char *id, const char *peer, vg_follow *ret,
                   GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Has one turn back ("abort"), or one that has failed begin again ("retry"); *ret as it then is. */
int vg_follow_change(vg_client *client, const char *id, const char *verb, const char *peer,
                     vg_follow *ret, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Looks again and again until the move has ended, and tells `to` meanwhile how it goes. While vgpud
 * does not answer, it is asked for a minute. timeout_s 0: for ever. VG_E_TIMEOUT after that,
 * VG_E_EXTERNAL after Ctrl-C. */
int vg_follow_to_end(vg_client *client, FILE *to, double timeout_s, vg_follow *follow,
                     GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Of a move that has ended: 0 if its state is the wanted one (VG_MIGRATION_ROLLED_BACK: or done),
 * or VG_E_EXTERNAL with the cause. Tells `to` where the VM is then. */
int vg_follow_result(const vg_follow *follow, enum vg_migration_state wanted, FILE *to,
                     GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Where to tell people how it goes: standard output where that is for them. */
FILE *vg_follow_stream(enum vg_output_format format);

/* JSON, YAML, or CSV of what was last heard; nothing for a table. */
int vg_follow_print(const vg_follow *follow, enum vg_output_format format,
                    GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* "vgpuctl migration VERB ID", with --peer where that is needed; the caller frees it. */
char *vg_follow_command(const vg_follow *follow, const char *verb);

/* Says what to do now, as vg_move_advice() does; the caller frees it. */
char *vg_follow_advice(const vg_follow *follow);

/* From begin to end, Ctrl-C interrupts what the client does and is remembered. */
void vg_follow_catch_begin(vg_client *client);
void vg_follow_catch_end(void);

/* As if Ctrl-C had not been caught: ends the program by it, if it came. */
void vg_follow_die_if_caught(void);

#endif
