/* SPDX-License-Identifier: Apache-2.0
 *
 * Declarations that the files about the region share.
 */
#ifndef VG_CLUSTER_REGION_PRIVATE_H
#define VG_CLUSTER_REGION_PRIVATE_H

#include <pthread.h>

#include <stdatomic.h>

#include "base/clock.h"
#include "base/log.h"
#include "cluster/region.h"

/* The limit of one call of the thread, which must show signs of life. */
#define REGION_CALL_NS (4 * VG_NS_PER_S)

/* A host as etcd tells of it. */
struct region_host {
    struct vg_host_info *info;
    bool alive;           /* its key is there */
    int64_t silent_ns;    /* CLOCK_MONOTONIC, when its key was found to be gone */
    int64_t silent_at_ns; /* the same time, epoch */
};

/* A move's lock that this host has, or wants to give back. */
struct region_lock {
    char *uuid;
    int64_t created; /* the revision that made the key; 0: not known, or it is to be made again */
    bool unwanted;   /* it is to be given back */
};

struct vg_region {
    char *cluster;
    char *prefix; /* "/vgpud/CLUSTER/" */
    vg_etcd *etcd;
    int64_t lease_ns, poll_ns;
    vg_region_changed *changed;
    void *data;
    struct vg_host_card *own;
    pthread_mutex_t locking; /* held while a move's lock is made or given back; taken before lock */
    int64_t locking_failed_ns; /* CLOCK_MONOTONIC, when etcd last failed to do so; by `locking` */
    pthread_mutex_t lock;
    pthread_cond_t woken;
    vg_thread *thread;
    /* These are protected by the lock. */
    struct vg_host_summary *summary;  /* the newest one, or NULL */
    GHashTable *hosts;                /* name: struct region_host */
    GHashTable *locks;                /* UUID: struct region_lock */
    GHashTable *drained;              /* the names of the hosts that are being emptied, as read */
    char *drain_by;                   /* who wants this host to be emptied, or NULL */
    int64_t drain_since_ns;           /* epoch */
    bool drain_known;                 /* these are known */
    bool drain_told;                  /* etcd has it, as far as is known */
    int64_t drain_revision;           /* of etcd, when it was put there */
    struct vg_cluster_leader *leader; /* as read, or NULL */
    struct vg_proposal *proposal;     /* likewise */
    struct vg_log_turns turns;
    char *reason;               /* why this host is not known there, or NULL */
    char *unwritable;           /* why etcd accepts no writes, or NULL */
    bool announced;             /* the key of this host is there, as far as is known */
    bool used;                  /* all went well at least once */
    bool failing;               /* the last call failed */
    int64_t announced_revision; /* of etcd, when it was put there */
    int64_t lease;              /* 0: none */
    int64_t answered_ns;        /* epoch, when etcd was last read; 0: never */
    int64_t revision;           /* of what was read; 0: nothing */
    int64_t puts;
    /* These belong to the thread. */
    GHashTable *known;       /* key: mod_revision as int64_t *, of all keys that were read */
    uint64_t cluster_id;     /* of what was read */
    bool linearizable;       /* the next reading must be one */
    int64_t lease_due_ns;    /* CLOCK_MONOTONIC, when to renew it, or to get one */
    int64_t lease_end_ns;    /* CLOCK_MONOTONIC, when it ends for certain if it is not renewed */
    int64_t announce_due_ns; /* CLOCK_MONOTONIC, the end of the pause after a twin was found */
    int64_t poll_due_ns;
    int64_t write_due_ns;         /* CLOCK_MONOTONIC, when to check that etcd accepts writes */
    struct vg_host_summary *told; /* the summary that was put down last, or NULL */
    int64_t told_ns;              /* CLOCK_MONOTONIC */
    int64_t told_pause_ns;        /* the least time between two summaries */
};

/* region-locks.c: makes locks again that went with a lease, and gives back those that are not
 * wanted any more. On the thread. */
void region_tidy_locks(vg_region *region);
void region_lock_free(void *lock);

/* Marks all locks as lost, since the lease has ended. Called under the lock. */
void region_lose_locks(vg_region *region);

/* region-drain.c */

/* Puts down that this host is being emptied, or that it is not, if it is time. On the thread. */
int region_tell_drain(vg_region *region, GError **err);

/* Takes a key that is there, or no longer. Returns false if it is about no drain. Called under the
 * lock. */
bool region_take_drain(vg_region *region, const char *key, bool there);

/* Has it put down again if what was read is something else. Called under the lock. */
void region_check_drain(vg_region *region);

/* region-name.c */

/* Returns the name that a key has behind a directory of the cluster, or NULL. */
const char *region_name_in(const vg_region *region, const char *key, const char *directory);

/* region-read.c */

/* Reads what has changed in etcd. On the thread. */
int region_read(vg_region *region, GError **err);
void region_host_free(void *host);

/* Returns the hosts but this one. Called under the lock. */
GPtrArray *region_list_hosts(vg_region *region);

#endif
