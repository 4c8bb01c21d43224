/* SPDX-License-Identifier: Apache-2.0
 *
 * What etcd stores about automatic moves. These keys are not below /vgpud/CLUSTER/, so that they
 * are read only by hosts that need them:
 *
 *   /vgpud/CLUSTER+act/state   struct vg_acting, which the leader writes.
 *   /vgpud/CLUSTER+act/pause   struct vg_act_mark, while a user has stopped automatic moves.
 *   /vgpud/CLUSTER+act/resume  struct vg_act_mark, when a user last resumed them.
 *   /vgpud/CLUSTER+past/HOST   struct vg_act_past, which the leader writes.
 *
 * Any thread may call. All functions except the last one block up to a few seconds.
 */
#ifndef VG_CLUSTER_ACTS_H
#define VG_CLUSTER_ACTS_H

#include "cluster/etcd.h"
#include "model/act-past.h"
#include "model/acting.h"

typedef struct vg_acts vg_acts;

vg_acts *vg_acts_new(const struct vg_etcd_options *etcd, const char *cluster);
void vg_acts_free(vg_acts *acts); /* NULL is fine */

/* Makes calls fail within a second. */
void vg_acts_interrupt(vg_acts *acts);

/* The complete state; each member may be NULL. */
struct vg_acts_state {
    vg_acting *acting;
    struct vg_act_mark *pause;
    struct vg_act_mark *resume;
    int64_t resume_revision; /* of etcd, when `resume` was written */
};
typedef struct vg_acts_state vg_acts_state;

void vg_acts_state_clear(struct vg_acts_state *state);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(vg_acts_state, vg_acts_state_clear)

/* Reads the complete state. Also fails if a part of the state cannot be parsed. */
int vg_acts_read(vg_acts *acts, struct vg_acts_state *ret, GError **err);

/* Writes the state if this revision is still the create revision of the leader's key. Otherwise
 * fails with VG_E_CONFLICT. */
int vg_acts_write(vg_acts *acts, int64_t leader, const struct vg_acting *acting, GError **err);

/* Reads the past moves of all hosts: vg_act_past, freed with the array. Skips values that cannot be
 * read, with a warning in the log, and adds their hosts to `unread` (char *, owned). */
GPtrArray *vg_acts_read_past(vg_acts *acts, GPtrArray *unread, GError **err);

/* Writes the past moves of a host under the same condition. Deletes the key if the host has no
 * moves. Drops the oldest moves if the document is too long for etcd. */
int vg_acts_write_past(vg_acts *acts, int64_t leader, vg_act_past *past, GError **err);

/* Pause all automatic moves, and resume them. Succeed if they are already in that state. */
int vg_acts_pause(vg_acts *acts, const char *by, GError **err);
int vg_acts_resume(vg_acts *acts, const char *by, GError **err);

/* Returns the full name of one of these keys. prefix: that of the cluster's other keys,
 * "/vgpud/CLUSTER/". The caller frees it. */
char *vg_acts_key_below(const char *prefix, const char *name);

#endif
