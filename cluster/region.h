/* SPDX-License-Identifier: Apache-2.0
 *
 * The hosts of a cluster according to etcd. A separate thread, "etcd", holds a lease there. It
 * writes the address of this host's vgpud and a summary of the host, both attached to the lease,
 * and periodically reads changes by the other hosts. It polls by revision instead of using a watch.
 * A watch through the gateway costs etcd 108 KB of memory and notifies each host of every other
 * host's changes, and a watch that hangs cannot be distinguished from an idle watch.
 *
 * Keys below /vgpud/CLUSTER/: hosts/HOST (struct vg_host_card) and summary/HOST (struct
 * vg_host_summary), moves/UUID while a vgpud moves that VM, and drain/HOST while a host is being
 * drained. cluster/leader.h has the others.
 *
 * While etcd is unreachable, the data read last remain, and their age is reported.
 */
#ifndef VG_CLUSTER_REGION_H
#define VG_CLUSTER_REGION_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "base/thread.h"
#include "cluster/etcd.h"
#include "model/host-info.h"
#include "model/proposal.h"

/* The maximum number of hosts. */
#define VG_REGION_HOSTS_MAX 10000

/* Called on the thread "etcd" with the other hosts (struct vg_host_info) after each read; the list
 * is borrowed. */
typedef void vg_region_changed(void *data, const GPtrArray *hosts);

struct vg_region_options {
    struct vg_etcd_options etcd;
    const char *cluster;            /* the name of the cluster */
    const struct vg_host_card *own; /* copied */
    int64_t lease_ns;               /* how long an unresponsive host is kept */
    int64_t poll_ns;                /* the interval between reads, for up to a few hundred hosts */
    vg_region_changed *changed;     /* may be NULL */
    void *data;
};

typedef struct vg_region vg_region;

/* Checks the name of a cluster or of a host in it: letters, digits, '.', '-' and '_'. */
bool vg_region_name_is_good(const char *name);

/* Starts the thread. Returns NULL and sets *err if that fails. */
vg_region *vg_region_new(const struct vg_region_options *options, GError **err);

/* Makes the thread revoke the lease and end. Waiting calls fail. NULL is allowed. */
void vg_region_stop(vg_region *region);
void vg_region_free(vg_region *region); /* NULL is fine */

const vg_thread *vg_region_thread(const vg_region *region);

/* Sets a newer summary of this host, which is written when due. Any thread; quick. */
void vg_region_set_summary(vg_region *region, struct vg_host_summary *take_summary);

/* The state of the connection to etcd. */
struct vg_region_state {
    char *cluster;
    char *endpoint;      /* the endpoint in use */
    bool known;          /* etcd answers and accepts writes, and other hosts see this host there */
    char *reason;        /* the reason otherwise, as a sentence; NULL if known */
    int64_t answered_ns; /* epoch, when etcd was last read; 0 for never */
    int64_t hosts;       /* number of live hosts, including this host */
    int64_t revision;    /* of etcd, when it was read */
    int64_t puts;        /* number of writes since this vgpud started */
};

/* Any thread. These functions do not block. The caller clears what they return. */
void vg_region_read_state(vg_region *region, struct vg_region_state *ret);
void vg_region_state_clear(struct vg_region_state *state);

/* Returns struct vg_host_info for each other host, by name: live hosts, and hosts that became
 * unresponsive within the last hour. The caller frees the list. */
GPtrArray *vg_region_hosts(vg_region *region);

/* Return the cluster's leader and the last proposal as read from etcd, or NULL if unknown. The
 * caller frees them. */
struct vg_cluster_leader *vg_region_leader(vg_region *region);
struct vg_proposal *vg_region_proposal(vg_region *region);

/* Returns the number of live hosts whose names sort before this host's; INT_MAX if the other hosts
 * do not see this host. */
int vg_region_rank(vg_region *region);

/* ---- hosts being drained ---- */

/* Sets who requested the drain of this host, and when (epoch); NULL if it is not being drained.
 * Until the first call, the state in etcd is unchanged. Any thread; quick. */
void vg_region_set_drain(vg_region *region, const char *asked_by, int64_t since_ns);

/* Returns the set of names of all hosts that are being drained, as read, including hosts that are
 * not alive. The caller frees it. Any thread; does not block. */
GHashTable *vg_region_drained(vg_region *region);

/* ---- locks for moves of VMs ---- */

/* Acquires the cluster-wide lock for moves of a VM. Waits for etcd up to five seconds. Fails with
 * VG_E_CONFLICT if another host is moving it, or VG_E_UNREACHABLE if etcd is unreachable now. A
 * host may acquire its own lock again. leader: 0, or for an automatic move the create revision of
 * the leader's key when it ordered the move. If another host is now the leader, or a user has
 * stopped automatic moves, fails with VG_E_REFUSED. etcd checks this together with the lock. Any
 * thread. */
int vg_region_lock_move(vg_region *region, const char *uuid, int64_t leader, GError **err);

/* Restores a lock that this host's vgpud held before it restarted: the lock is acquired again once
 * there is a lease. Does nothing if this host already has the lock. Any thread; quick. */
void vg_region_take_up_move(vg_region *region, const char *uuid);

/* Returns whether another host is known to be moving this VM, and the name of that host, which the
 * caller frees. Queries etcd if etcd is responding; otherwise, no other host is known. Waits up to
 * two seconds. Any thread. */
bool vg_region_other_moves(vg_region *region, const char *uuid, char **ret_host);

/* Releases the lock. If etcd is unreachable now, the thread does so later. Waits up to two
 * seconds. Any thread. */
void vg_region_unlock_move(vg_region *region, const char *uuid);

#endif
