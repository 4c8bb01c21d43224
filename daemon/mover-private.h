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
    pthread_mutex_t asking; /* held while a guest is asked without a move; taken before lock */
    atomic_uint writes;
    atomic_bool stopping;
};

struct mover_move {
    vg_mover *mover;
    const struct mover_executor *executor;
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
};

/* What came of a verb. */
struct mover_outcome {
    bool ok;
    struct vg_move_facts facts; /* of LOOK */
    char *text;                 /* owned */
};

/* Tells libvirt and nova apart. The functions block; a move calls them on its own thread. */
struct mover_executor {
    /* Says in words what a verb asks of whom; the caller frees it. */
    char *(*describe)(const struct mover_move *move, enum vg_move_verb verb);
    /* Runs a verb and sets the text of *ret, and the facts after a look. -1 and *err: it failed. */
    int (*do_verb)(struct mover_move *move, enum vg_move_verb verb, struct mover_outcome *ret,
                   GError **err);
    /* Adds sentences (char *) about what speaks against the move; without a peer, as far as this
     * host knows. -1 and *err: somebody cannot be asked. */
    int (*find_problems)(struct mover_move *move, GPtrArray *problems, GError **err);
    /* Checks that a peer can be the target. NULL: every one can. */
    int (*check_peer)(vg_mover *mover, const char *peer, GError **err);
    /* Checks that the VM's devices can move with it. gpus: struct vg_move_device, as libvirt has
     * them; NULL: libvirt has not been asked yet. */
    int (*check_devices)(const struct vg_inv_vm *vm, const GPtrArray *gpus, GError **err);
};

/* mover.c */

/* Returns the table of who moves a VM. */
const struct mover_executor *mover_executor_of(enum vg_migration_executor executor);

/* mover-libvirt.c */

extern const struct mover_executor mover_libvirt;

/* mover-nova.c */

extern const struct mover_executor mover_nova;

/* mover-reach.c */

/* The longest that the target's vgpud may take to answer about a reservation. */
#define MOVER_PEER_NS (10 * VG_NS_PER_S)

/* Finds the libvirt of a peer, as this host reaches it; VG_E_REFUSED: it is not configured. */
char *mover_peer_uri(vg_mover *mover, const char *peer, GError **err);

/* Return the move's connections, which are made now if need be; NULL and *err if they cannot be. */
vg_virt_host *mover_source(struct mover_move *move, GError **err);
vg_virt_host *mover_target(struct mover_move *move, GError **err);

/* Renews what is reserved if it is time to. */
void mover_renew_if_due(struct mover_move *move);

/* Returns the limits of a verb that begins now; what it tells goes into the record. */
struct vg_verb mover_verb(struct mover_move *move, int64_t limit_ns);

/* Adds the problem that the guest's agent does not answer. */
void mover_add_silence(GPtrArray *problems, const char *why);

/* Ends a precheck: makes an error of problems, or says that there are none, and what is in doubt.
 */
int mover_refuse(const struct mover_move *move, const GPtrArray *problems,
                 struct mover_outcome *ret, GError **err);

#endif
