/* SPDX-License-Identifier: Apache-2.0
 *
 * The moves of the last days on all hosts, for the leader. They come from the hosts' journals.
 * Moves of hosts that have failed, and moves that a journal has lost, come from etcd.
 *
 * For the thread "leader-plan" only.
 */
#ifndef VG_DAEMON_BACKEND_ACT_PAST_H
#define VG_DAEMON_BACKEND_ACT_PAST_H

#include "cluster/acts.h"
#include "daemon/backend-private.h"

/* Stores what etcd contains, so that only changes are written to it. */
struct act_past;

struct act_past *act_past_new(void);
void act_past_free(struct act_past *past); /* NULL is allowed */

struct act_moves {
    GPtrArray *moves; /* struct vg_migration, borrowed from the members below */
    char *unknown;    /* why some moves may be missing; NULL if none are missing */
    GPtrArray *hosts; /* struct vg_host_moves; NULL if they could not be read */
    GPtrArray *past;  /* struct vg_migration, from etcd */
};

/* Reads the moves, and writes the changes to etcd. revision: of the leader's key. Fails if etcd
 * fails, or if another host is now the leader. The caller clears *ret, even after a failure. */
int act_past_read(struct act_past *past, vg_daemon_backend *backend, vg_acts *acts,
                  int64_t revision, struct act_moves *ret, GError **err);

void act_moves_clear(struct act_moves *moves);

#endif
