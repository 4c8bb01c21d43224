/* SPDX-License-Identifier: Apache-2.0
 *
 * A scheduler's question: a VM is to come, and these hosts could take it; and the answer for each.
 * Plain data; one thread.
 */
#ifndef VG_MODEL_ARRIVAL_H
#define VG_MODEL_ARRIVAL_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#define VG_ARRIVAL_HOSTS_MAX 2000
#define VG_ARRIVAL_NAME_MAX  255 /* bytes */

enum vg_arrival_verdict {
    VG_ARRIVAL_UNKNOWN, /* nobody knows the host, or not lately enough: neutral */
    VG_ARRIVAL_PASS,
    VG_ARRIVAL_VETO /* the VM cannot run there */
};

extern const char *const vg_arrival_verdict_names[]; /* "unknown", "pass", "veto" */

/* Where it is from what is expected of the VM. */
enum vg_arrival_basis { VG_ARRIVAL_BY_SIZE, VG_ARRIVAL_BY_FLAVOR, VG_ARRIVAL_BY_HISTORY };

extern const char *const vg_arrival_basis_names[]; /* "size", "flavor", "history" */

struct vg_arrival_host {
    char *name; /* of the hypervisor; owned */
    char *uuid; /* or NULL */
    /* The answer. */
    enum vg_arrival_verdict verdict;
    double score;   /* 0..1, 1 is best; 0.5 is neutral */
    int64_t age_ms; /* of what is known; -1: nothing is */
    char text[160]; /* why, one sentence */
};

struct vg_arrival_query {
    char *uuid;     /* of the instance, or NULL */
    int64_t vcpus;  /* >= 1 */
    int vm_class;   /* enum vg_vm_class that its flavor says, or -1 */
    char *gpu_type; /* that it needs; NULL: any will do */
    int64_t gpus;   /* how many; 0: it needs none */
    /* char *: traits of placement that its GPUs must have, and must not have. Those that are made
     * of a vGPU type's name count, see vg_gpu_type_trait(). */
    GPtrArray *traits, *traits_forbidden;
    GPtrArray *hosts; /* struct vg_arrival_host */
    /* The answer. */
    enum vg_arrival_basis basis;
    int expected_class; /* enum vg_vm_class, or -1 */
};

/* A move that vgpud itself wants: the VM may go there, whatever speaks against it. */
struct vg_approval {
    char *uuid;  /* in lower case */
    char *to;    /* name of a host */
    bool moving; /* it is under way, and not only proposed */
    bool queued; /* it was asked for, and waits for its turn */
};

struct vg_approval *vg_approval_new(const char *uuid, const char *to, bool moving);
void vg_approval_free(void *approval); /* NULL is fine */

struct vg_arrival_query *vg_arrival_query_new(void);
void vg_arrival_query_free(void *query); /* NULL is fine */

/* Appends one that is neutral. */
struct vg_arrival_host *vg_arrival_add_host(struct vg_arrival_query *query, const char *name,
                                            const char *uuid);

#endif
