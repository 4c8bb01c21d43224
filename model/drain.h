/* SPDX-License-Identifier: Apache-2.0
 *
 * Progress of draining a host, VM by VM. Plain data.
 */
#ifndef VG_MODEL_DRAIN_H
#define VG_MODEL_DRAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/record.h"

enum vg_drain_state {
    VG_DRAIN_PLANNED, /* a dry run: no VM is moved */
    VG_DRAIN_RUNNING, /* VMs are being moved, or will be */
    VG_DRAIN_BLOCKED, /* the remaining VMs cannot be moved: see their reasons */
    VG_DRAIN_DONE,    /* no VM is left */
    VG_DRAIN_STATE_MAX
};

enum vg_drain_step {
    VG_DRAIN_WAITS, /* its move has not started */
    VG_DRAIN_MOVES, /* it is being moved */
    VG_DRAIN_MOVED, /* it is elsewhere */
    VG_DRAIN_STAYS, /* it cannot be moved, or its moves failed */
    VG_DRAIN_STEP_MAX
};

extern const char *const vg_drain_state_names[]; /* "planned", "running", "blocked", "done" */
extern const char *const vg_drain_step_names[];  /* "waits", "moves", "moved", "stays" */

struct vg_drain_vm {
    char *vm;
    char *uuid; /* or NULL */
    enum vg_drain_step step;
    char *to;        /* target host; NULL if none is known */
    GPtrArray *gpus; /* struct vg_gpu_target, the GPUs that it gets; empty if it stays */
    char *reason;    /* why there, or why it stays; NULL once it has moved */
    char *migration; /* id of its newest move, or NULL */
    int64_t tries;   /* number of its moves that ended without success */
    double seconds;  /* predicted duration of its move; 0 if unknown */
    bool has_move;   /* its newest move has not ended; not part of the document */
};

struct vg_drain {
    char *host;
    char *asked_by;   /* the user who requested it; NULL in a dry run */
    int64_t since_ns; /* epoch */
    enum vg_drain_state state;
    int64_t moved;
    int64_t left;
    double eta_s;   /* predicted time for the VMs that can be moved; 0 if none can */
    GPtrArray *vms; /* struct vg_drain_vm */
};
typedef struct vg_drain vg_drain;

struct vg_drain_request {
    bool dry_run;
    char *on_behalf_of; /* the user for whom another vgpud sends the request, or NULL */
};

extern const struct vg_record_type vg_drain_request_record;
void vg_drain_request_free(void *request); /* NULL is fine */

extern const struct vg_record_type vg_drain_record;

vg_drain *vg_drain_new(void);
struct vg_drain_vm *vg_drain_add(vg_drain *drain, const char *vm, const char *uuid);
void vg_drain_free(vg_drain *drain); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_drain, vg_drain_free)

/* For a moment after a move both hosts may report the VM, and one of the two reports is then left
 * out. Therefore, while a moved VM is still listed on this host, VMs without a target host wait for
 * one instead of staying. */
void vg_drain_wait_for_moved(vg_drain *drain);

/* Updates the counters, and the state of a drain that is not a dry run. */
void vg_drain_settle(vg_drain *drain);

#endif
