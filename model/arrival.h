/* SPDX-License-Identifier: Apache-2.0
 *
 * A scheduler's query about a VM that is to be placed: the candidate hosts, and the answer for each
 * of them. Plain data; one thread.
 */
#ifndef VG_MODEL_ARRIVAL_H
#define VG_MODEL_ARRIVAL_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#define VG_ARRIVAL_HOSTS_MAX 2000
#define VG_ARRIVAL_NAME_MAX  255 /* bytes */

enum vg_arrival_verdict {
    VG_ARRIVAL_UNKNOWN, /* neutral: the host is unknown, or its figures are too old */
    VG_ARRIVAL_PASS,
    VG_ARRIVAL_VETO /* the VM cannot run there */
};

extern const char *const vg_arrival_verdict_names[]; /* "unknown", "pass", "veto" */

/* What the expected behaviour of the VM is derived from. */
enum vg_arrival_basis { VG_ARRIVAL_BY_SIZE, VG_ARRIVAL_BY_FLAVOR, VG_ARRIVAL_BY_HISTORY };

extern const char *const vg_arrival_basis_names[]; /* "size", "flavor", "history" */

struct vg_arrival_host {
    char *name; /* of the hypervisor; owned */
    char *uuid; /* or NULL */
    /* The answer. */
    enum vg_arrival_verdict verdict;
    double score;   /* 0..1, 1 is best; 0.5 is neutral */
    int64_t age_ms; /* age of the figures, or -1 without figures */
    char text[160]; /* the reason, one sentence */
};

struct vg_arrival_query {
    char *uuid;     /* of the instance, or NULL */
    int64_t vcpus;  /* >= 1 */
    int vm_class;   /* enum vg_vm_class named by its flavor, or -1 */
    char *gpu_type; /* required vGPU type; NULL if any type will do */
    int64_t gpus;   /* number of GPUs; 0 if it needs none */
    /* char *: placement traits that its GPUs must have, or must not have. Only traits made from the
     * name of a vGPU type count, see vg_gpu_type_trait(). */
    GPtrArray *traits, *traits_forbidden;
    GPtrArray *hosts; /* struct vg_arrival_host */
    /* The answer. */
    enum vg_arrival_basis basis;
    int expected_class; /* enum vg_vm_class, or -1 */
};

/* A move that vgpud itself wants: the VM may go to this host regardless of objections. */
struct vg_approval {
    char *uuid;  /* lower case */
    char *to;    /* host name */
    bool moving; /* in progress, not only proposed */
    bool queued; /* requested, and waiting for its turn */
};

struct vg_approval *vg_approval_new(const char *uuid, const char *to, bool moving);
void vg_approval_free(void *approval); /* NULL is fine */

struct vg_arrival_query *vg_arrival_query_new(void);
void vg_arrival_query_free(void *query); /* NULL is fine */

/* Appends a neutral host. */
struct vg_arrival_host *vg_arrival_add_host(struct vg_arrival_query *query, const char *name,
                                            const char *uuid);

#endif
