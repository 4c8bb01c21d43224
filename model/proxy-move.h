/* SPDX-License-Identifier: Apache-2.0
 *
 * Moves of a VM's OpenCL programs from one vgpu-proxy to another. Plain data.
 */
#ifndef VG_MODEL_PROXY_MOVE_H
#define VG_MODEL_PROXY_MOVE_H

#include "model/migration.h"

/* The place of programs that use no proxy, only their own OpenCL, if it is installed. */
#define VG_PROXY_PLACE_DIRECT "direct"

struct vg_proxy_move_request {
    /* "proxy:" and the address that programs in the guest connect to; VG_PROXY_PLACE_DIRECT; or the
     * name of a GPU of the VM's host, of a host, or HOST/GPU */
    char *to;
    bool dry_run;  /* only find the place */
    char *plan_id; /* id of the plan that proposes it and must still be valid, or NULL */
};

/* The result. */
struct vg_proxy_move {
    char *vm;
    char *uuid;
    char *to; /* the place; if a name was requested, the members below describe the choice */
    char *host;
    char *gpu; /* NULL or empty if unknown */
    char *why; /* reason for the choice; NULL if the request named the place */
    bool dry_run;
    struct vg_guest_programs guest; /* programs that use a proxy; empty in a dry run */
};

extern const struct vg_record_type vg_proxy_move_request_record;
extern const struct vg_record_type vg_proxy_move_record;

/* Returns whether the text is a place, not the name of a GPU or host. */
bool vg_proxy_move_is_place(const char *to);

/* Checks the target of a request. */
int vg_proxy_move_check(const struct vg_proxy_move_request *request, GError **err);

void vg_proxy_move_request_free(void *request); /* NULL is fine */
void vg_proxy_move_free(void *move);            /* NULL is fine */

#endif
