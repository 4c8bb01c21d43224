/* SPDX-License-Identifier: Apache-2.0
 *
 * That programs of OpenCL of a VM, which compute at a vgpu-proxy, go on at another one. Plain data.
 */
#ifndef VG_MODEL_PROXY_MOVE_H
#define VG_MODEL_PROXY_MOVE_H

#include "model/migration.h"

/* Where programs are that are at no proxy but, if it is one, at their own OpenCL. */
#define VG_PROXY_PLACE_DIRECT "direct"

struct vg_proxy_move_request {
    /* "proxy:" and what programs in the guest connect to; VG_PROXY_PLACE_DIRECT; or the name of a
     * GPU of the VM's host, of a host, or HOST/GPU */
    char *to;
    bool dry_run;  /* only find out where that is */
    char *plan_id; /* of the plan that proposes it, which must still hold; or NULL */
};

/* What came of it. */
struct vg_proxy_move {
    char *vm;
    char *uuid;
    char *to; /* the place; where a name was asked for, what follows tells of the choice */
    char *host;
    char *gpu; /* NULL or empty: not known */
    char *why; /* NULL: a place was asked for */
    bool dry_run;
    struct vg_guest_programs guest; /* those that are at a proxy; of a dry run none */
};

extern const struct vg_record_type vg_proxy_move_request_record;
extern const struct vg_record_type vg_proxy_move_record;

/* Returns whether that is a place, and not the name of a GPU or host. */
bool vg_proxy_move_is_place(const char *to);

/* Checks where programs are to go. */
int vg_proxy_move_check(const struct vg_proxy_move_request *request, GError **err);

void vg_proxy_move_request_free(void *request); /* NULL is fine */
void vg_proxy_move_free(void *move);            /* NULL is fine */

#endif
