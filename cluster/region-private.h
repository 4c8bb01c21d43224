/* SPDX-License-Identifier: Apache-2.0
 *
 * Definitions shared by the files about the region.
 */
#ifndef VG_CLUSTER_REGION_PRIVATE_H
#define VG_CLUSTER_REGION_PRIVATE_H

#include <pthread.h>

#include <stdatomic.h>

#include "base/clock.h"
#include "base/log.h"
#include "cluster/region.h"

/* The limit for one call of the thread, which must keep its heartbeat. */
#define REGION_CALL_NS (4 * VG_NS_PER_S)

/* A host according to etcd. */
struct region_host {
    struct vg_host_info *info;
    bool alive;           /* its key exists */
    int64_t silent_ns;    /* CLOCK_MONOTONIC, when its key was found missing */
    int64_t silent_at_ns; /* the same time, epoch */
};

/* A lock for a move that this host holds or is about to release. */
struct region_lock {
    char *uuid;
    int64_t created; /* the revision that created the key; 0 if unknown or if it must be created
                        again */
    bool unwanted;   /* it must be released */
};

struct vg_region {
    char *cluster;
    char *prefix; /* "/vgpud/CLUSTER/" */
    vg_etcd *etcd;
    int64_t lease_ns, poll_ns;
    vg_region_changed *changed;
    void *data;
    struct vg_host_card *own;
    pthread_mutex_t
        locking; /* held while a move's lock is acquired or released; taken before lock */
    int64_t locking_failed_ns; /* CLOCK_MONOTONIC, when acquiring or releasing a lock in etcd last
                                  failed; protected by `locking` */
    pthread_mutex_t lock;
    pthread_cond_t woken;
    vg_thread *thread;
    /* These are protected by the lock. */
    struct vg_host_summary *summary;  /* the newest one, or NULL */
    GHashTable *hosts;                /* name: struct region_host */
    GHashTable *locks;                /* UUID: struct region_lock */
    GHashTable *drained;              /* the names of the hosts that are being drained, as read */
    char *drain_by;                   /* who requested the drain of this host, or NULL */
    int64_t drain_since_ns;           /* epoch */
    bool drain_known;                 /* the drain state is known */
    bool drain_told;                  /* the drain state is in etcd, as far as is known */
    int64_t drain_revision;           /* of etcd, when it was written */
    struct vg_cluster_leader *leader; /* as read, or NULL */
    struct vg_proposal *proposal;     /* as read, or NULL */
    struct vg_log_turns turns;
    char *reason;               /* why this host is not registered in etcd, or NULL */
    char *unwritable;           /* why etcd accepts no writes, or NULL */
    bool announced;             /* this host's key exists, as far as is known */
    bool used;                  /* everything succeeded at least once */
    bool failing;               /* the last call failed */
    int64_t announced_revision; /* of etcd, when it was written */
    int64_t lease;              /* 0 if none */
    int64_t answered_ns;        /* epoch, when etcd was last read; 0 for never */
    int64_t revision;           /* of the data read; 0 if none */
    int64_t puts;
    /* These belong to the thread. */
    GHashTable *known;       /* key: mod_revision as int64_t *, of all keys that were read */
    uint64_t cluster_id;     /* of the data read */
    bool linearizable;       /* the next read must be linearizable */
    int64_t lease_due_ns;    /* CLOCK_MONOTONIC, when to renew or acquire it */
    int64_t lease_end_ns;    /* CLOCK_MONOTONIC, when it certainly ends unless renewed */
    int64_t announce_due_ns; /* CLOCK_MONOTONIC, end of the delay after a duplicate host name was
                                found */
    int64_t poll_due_ns;
    int64_t write_due_ns;         /* CLOCK_MONOTONIC, when to check that etcd accepts writes */
    struct vg_host_summary *told; /* the summary written last, or NULL */
    int64_t told_ns;              /* CLOCK_MONOTONIC */
    int64_t told_pause_ns;        /* the minimum interval between summaries */
};

/* region-locks.c: re-creates locks that were lost with a lease, and releases those that are no
 * longer wanted. On the thread. */
void region_tidy_locks(vg_region *region);
void region_lock_free(void *lock);

/* Marks all locks as lost after the lease has ended. Called under the lock. */
void region_lose_locks(vg_region *region);

/* region-drain.c */

/* If due, writes to etcd whether this host is being drained. On the thread. */
int region_tell_drain(vg_region *region, GError **err);

/* Handles a key that was created or deleted. Returns false if it does not concern a drain. Called
 * under the lock. */
bool region_take_drain(vg_region *region, const char *key, bool there);

/* Schedules another write if the data read from etcd differ from the present state. Called under
 * the lock. */
void region_check_drain(vg_region *region);

/* region-name.c */

/* Returns the part of a key after a directory of the cluster, which is a name, or NULL. */
const char *region_name_in(const vg_region *region, const char *key, const char *directory);

/* region-read.c */

/* Reads changes from etcd. On the thread. */
int region_read(vg_region *region, GError **err);
void region_host_free(void *host);

/* Returns all hosts except this host. Called under the lock. */
GPtrArray *region_list_hosts(vg_region *region);

#endif
