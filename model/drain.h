/* SPDX-License-Identifier: Apache-2.0
 *
 * A host that is being emptied: what becomes of each of its VMs. Plain data.
 */
#ifndef VG_MODEL_DRAIN_H
#define VG_MODEL_DRAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/record.h"

enum vg_drain_state {
    VG_DRAIN_PLANNED, /* a dry run: nothing is done */
    VG_DRAIN_RUNNING, /* VMs are moved, or will be */
    VG_DRAIN_BLOCKED, /* those that are left cannot be moved: see their reasons */
    VG_DRAIN_DONE,    /* no VM is left */
    VG_DRAIN_STATE_MAX
};

enum vg_drain_step {
    VG_DRAIN_WAITS, /* its move has not begun */
    VG_DRAIN_MOVES, /* it is being moved */
    VG_DRAIN_MOVED, /* it is elsewhere */
    VG_DRAIN_STAYS, /* it cannot be moved, or its moves have failed */
    VG_DRAIN_STEP_MAX
};

extern const char *const vg_drain_state_names[]; /* "planned", "running", "blocked", "done" */
extern const char *const vg_drain_step_names[];  /* "waits", "moves", "moved", "stays" */

struct vg_drain_vm {
    char *vm;
    char *uuid; /* or NULL */
    enum vg_drain_step step;
    char *to;        /* a host; NULL: none is known */
    char *reason;    /* why there, or why it stays; NULL for one that was moved */
    char *migration; /* the id of its newest move; NULL: there is none yet */
    int64_t tries;   /* the moves of it that have ended without success */
    double seconds;  /* that its move takes, as predicted; 0 if that is not known */
    bool has_move;   /* its newest move has not ended; not part of the document */
};

struct vg_drain {
    char *host;
    char *asked_by;   /* who wanted it; NULL in a dry run */
    int64_t since_ns; /* epoch */
    enum vg_drain_state state;
    int64_t moved;
    int64_t left;
    double eta_s;   /* of what can be moved, as predicted; 0 if nothing can */
    GPtrArray *vms; /* struct vg_drain_vm */
};
typedef struct vg_drain vg_drain;

struct vg_drain_request {
    bool dry_run;
    char *on_behalf_of; /* the person for whom another vgpud asks, or NULL */
};

extern const struct vg_record_type vg_drain_request_record;
void vg_drain_request_free(void *request); /* NULL is fine */

extern const struct vg_record_type vg_drain_record;

vg_drain *vg_drain_new(void);
struct vg_drain_vm *vg_drain_add(vg_drain *drain, const char *vm, const char *uuid);
void vg_drain_free(vg_drain *drain); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_drain, vg_drain_free)

/* A VM that has left may for a moment be told of by both hosts, of which one is left out then:
 * while one that was moved is among the VMs of this host, those for which no host is known wait for
 * one instead of staying. */
void vg_drain_wait_for_moved(vg_drain *drain);

/* Counts, and sets the state of a drain that is no dry run. */
void vg_drain_settle(vg_drain *drain);

#endif
