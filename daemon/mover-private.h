/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VG_DAEMON_MOVER_PRIVATE_H
#define VG_DAEMON_MOVER_PRIVATE_H

#include <pthread.h>

#include <stdatomic.h>

#include "base/thread.h"
#include "daemon/mover.h"

struct vg_mover {
    struct vg_mover_parts parts;
    pthread_mutex_t lock;
    vg_move_settings *settings;
    GPtrArray *moves;       /* struct mover_move: those that have not been forgotten */
    pthread_mutex_t asking; /* whoever looks at a guest without a move of it; taken before lock */
    atomic_uint writes;
    atomic_bool stopping;
};

struct mover_move {
    vg_mover *mover;
    vg_move_settings *settings;
    vg_thread *thread;
    atomic_bool cancel;
    struct vg_migration *record; /* under the lock */
    struct vg_move machine;      /* its thread; vg_move_abort() and state under the lock */
    bool ended;                  /* under the lock */
    /* Of the thread. */
    vg_virt_host *source;
    vg_virt_host *target;
    vg_nova *nova;    /* NULL: not yet, or libvirt moves the VM */
    char *peer_uri;   /* the target's libvirt, as this host reaches it */
    int64_t renew_ns; /* CLOCK_MONOTONIC: when what is reserved must be renewed */
    int64_t told_ns;  /* CLOCK_MONOTONIC: when progress was published last */
};

/* What came of a verb, in words. */
struct mover_outcome {
    bool ok;
    struct vg_move_facts facts; /* of LOOK */
    char *text;                 /* owned */
};

/* Has it done; on the move's thread. */
void mover_do(struct mover_move *move, enum vg_move_verb verb, struct mover_outcome *ret);

/* Connections that are there, or are made now; NULL and *err if they cannot be. */
vg_virt_host *mover_source(struct mover_move *move, GError **err);
vg_virt_host *mover_target(struct mover_move *move, GError **err);

/* The limits of a verb that begins now; what it tells goes into the record. */
struct vg_verb mover_verb(struct mover_move *move, int64_t limit_ns);

/* The verb `precheck`. */
int mover_precheck(struct mover_move *move, struct mover_outcome *ret, GError **err);

/* Whether libvirt or nova moves it. VG_E_REFUSED: neither may. */
int mover_set_executor(const vg_move_settings *settings, const struct vg_inv_vm *vm,
                       struct vg_migration *migration, GError **err);

/* Adds the GPUs that the VM has now to its devices. VG_E_CONFLICT: it does not run, or has too
 * many. */
int mover_read_gpus(const vg_move_settings *settings, struct vg_migration *migration, GError **err);

/* What is asked of whom, in words; the caller frees it. */
char *mover_describe(const struct mover_move *move, enum vg_move_verb verb);

/* Likewise, where nova moves the VM: daemon/mover-nova.c. */
void mover_nova_do(struct mover_move *move, enum vg_move_verb verb, struct mover_outcome *ret);
char *mover_nova_describe(const struct mover_move *move, enum vg_move_verb verb);
void mover_nova_find_problems(struct mover_move *move, GPtrArray *problems);

/* Everything that speaks against the move is an error. */
int mover_precheck(struct mover_move *move, struct mover_outcome *ret, GError **err);

/* What a verb is told that may take so long. */
struct vg_verb mover_verb(struct mover_move *move, int64_t limit_ns);

/* The libvirt of a peer, as this host reaches it; VG_E_REFUSED: it is not configured. */
char *mover_peer_uri(vg_mover *mover, const char *peer, GError **err);

#endif
