/* SPDX-License-Identifier: Apache-2.0
 *
 * What etcd keeps about automatic moves, below /vgpud/CLUSTER+act/ so that only those who need it
 * read it: state (struct vg_acting), which the leader writes; pause (struct vg_act_mark), while a
 * user has stopped them; and resume, when that last ended.
 *
 * Any thread may call; all functions but the last block up to a few seconds.
 */
#ifndef VG_CLUSTER_ACTS_H
#define VG_CLUSTER_ACTS_H

#include "cluster/etcd.h"
#include "model/acting.h"

typedef struct vg_acts vg_acts;

vg_acts *vg_acts_new(const struct vg_etcd_options *etcd, const char *cluster);
void vg_acts_free(vg_acts *acts); /* NULL is fine */

/* Makes calls fail within a second. */
void vg_acts_interrupt(vg_acts *acts);

/* All of it; each member may be NULL. */
struct vg_acts_state {
    vg_acting *acting;
    struct vg_act_mark *pause;
    struct vg_act_mark *resume;
};
typedef struct vg_acts_state vg_acts_state;

void vg_acts_state_clear(struct vg_acts_state *state);
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(vg_acts_state, vg_acts_state_clear)

/* Reads all of it. Fails also if something there cannot be understood. */
int vg_acts_read(vg_acts *acts, struct vg_acts_state *ret, GError **err);

/* Writes the state if this revision still is the create revision of the leader's key. Otherwise
 * fails with VG_E_CONFLICT. */
int vg_acts_write(vg_acts *acts, int64_t leader, const struct vg_acting *acting, GError **err);

/* Stop all automatic moves, and end that. Succeed if that is so already. */
int vg_acts_pause(vg_acts *acts, const char *by, GError **err);
int vg_acts_resume(vg_acts *acts, const char *by, GError **err);

/* Returns the name of such a key, for the prefix of a cluster's other keys, "/vgpud/CLUSTER/". The
 * caller frees it. */
char *vg_acts_key_below(const char *prefix, const char *name);

#endif
