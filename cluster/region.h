/* SPDX-License-Identifier: Apache-2.0
 *
 * The hosts of a cluster, as etcd knows them. A thread of its own, "etcd", keeps a lease there,
 * puts down how this host's vgpud is reached and a summary of the host, both for as long as the
 * lease lasts, and reads from time to time what has changed of the others. It polls by revision
 * instead of watching: a watch through the gateway costs etcd 108 KB of memory and tells each host
 * of every change of each other, and one that hangs looks like one that is quiet.
 *
 * Keys below /vgpud/CLUSTER/: hosts/HOST (struct vg_host_card) and summary/HOST (struct
 * vg_host_summary), moves/UUID while a vgpud moves that VM, and drain/HOST while a host is being
 * emptied; cluster/leader.h has the others.
 *
 * While etcd cannot be asked, everything that was read last stays, and its age is told.
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

/* The maximum number of hosts that are kept. */
#define VG_REGION_HOSTS_MAX 10000

/* Called on the thread "etcd" with the other hosts (struct vg_host_info), whenever etcd was read;
 * the list is borrowed. */
typedef void vg_region_changed(void *data, const GPtrArray *hosts);

struct vg_region_options {
    struct vg_etcd_options etcd;
    const char *cluster;            /* the name of the cluster */
    const struct vg_host_card *own; /* copied */
    int64_t lease_ns;               /* how long a host that falls silent is kept */
    int64_t poll_ns;            /* the time between two readings, for up to some hundred hosts */
    vg_region_changed *changed; /* NULL: nobody wants to know */
    void *data;
};

typedef struct vg_region vg_region;

/* Checks the name of a cluster, or of a host that is to be one of its: letters, digits, '.', '-'
 * and '_'. */
bool vg_region_name_is_good(const char *name);

/* Starts the thread. Returns NULL and sets *err if that fails. */
vg_region *vg_region_new(const struct vg_region_options *options, GError **err);

/* Has the thread give the lease back, and end. Calls that wait fail. NULL is fine. */
void vg_region_stop(vg_region *region);
void vg_region_free(vg_region *region); /* NULL is fine */

const vg_thread *vg_region_thread(const vg_region *region);

/* Takes a newer summary of this host, which is put down when it is time. Any thread; quick. */
void vg_region_set_summary(vg_region *region, struct vg_host_summary *take_summary);

/* How it stands with etcd. */
struct vg_region_state {
    char *cluster;
    char *endpoint;      /* the one that is asked */
    bool known;          /* etcd answers and accepts writes, and others see this host there */
    char *reason;        /* why not, as a sentence; NULL if it does */
    int64_t answered_ns; /* epoch, when etcd was last read; 0: never */
    int64_t hosts;       /* that are alive, with this one */
    int64_t revision;    /* of etcd, when it was read */
    int64_t puts;        /* what this vgpud has written since its start */
};

/* Any thread; these do not block. The caller clears what they return. */
void vg_region_read_state(vg_region *region, struct vg_region_state *ret);
void vg_region_state_clear(struct vg_region_state *state);

/* Returns struct vg_host_info for each host but this one, by name: those that are alive, and those
 * that have fallen silent within the last hour. The caller frees the list. */
GPtrArray *vg_region_hosts(vg_region *region);

/* Returns who leads the cluster, and what was proposed last, as read; NULL if nobody, or nothing.
 * The caller frees them. */
struct vg_cluster_leader *vg_region_leader(vg_region *region);
struct vg_proposal *vg_region_proposal(vg_region *region);

/* Returns the number of hosts that are alive and come before this one by name; INT_MAX if this one
 * is not known to the others. */
int vg_region_rank(vg_region *region);

/* ---- which hosts are being emptied ---- */

/* Sets who wants this host to be emptied, and since when (epoch); NULL: nobody. Until this is
 * called, what etcd has stays. Any thread; quick. */
void vg_region_set_drain(vg_region *region, const char *asked_by, int64_t since_ns);

/* Returns the set of the names of all hosts that are being emptied, as read, also of those that are
 * not alive. The caller frees it. Any thread; does not block. */
GHashTable *vg_region_drained(vg_region *region);

/* ---- who moves a VM ---- */

/* Has this host be the only one of the cluster that moves a VM. Waits for etcd up to five seconds.
 * VG_E_CONFLICT: another host moves it; VG_E_UNREACHABLE: etcd cannot be asked now. A host may lock
 * what it has locked. Any thread. */
int vg_region_lock_move(vg_region *region, const char *uuid, GError **err);

/* Takes up what this host's vgpud had locked before it was started anew: the lock is made again
 * once there is a lease. Nothing if this host has it. Any thread; quick. */
void vg_region_take_up_move(vg_region *region, const char *uuid);

/* Returns whether another host is known to move this VM, and its name, which the caller frees. Asks
 * etcd if that answers at present; if it does not, nobody else is known. Waits up to two seconds.
 * Any thread. */
bool vg_region_other_moves(vg_region *region, const char *uuid, char **ret_host);

/* Lets the VM be moved by others again. If etcd cannot be asked now, the thread does it later.
 * Waits up to two seconds. Any thread. */
void vg_region_unlock_move(vg_region *region, const char *uuid);

#endif
