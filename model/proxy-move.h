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
    char *to; /* "proxy:" and what programs in the guest connect to; or VG_PROXY_PLACE_DIRECT */
};

/* What came of it. */
struct vg_proxy_move {
    char *vm;
    char *uuid;
    char *to;
    struct vg_guest_programs guest; /* those that are at a proxy */
};

extern const struct vg_record_type vg_proxy_move_request_record;
extern const struct vg_record_type vg_proxy_move_record;

/* Checks where programs are to go. */
int vg_proxy_move_check(const struct vg_proxy_move_request *request, GError **err);

void vg_proxy_move_request_free(void *request); /* NULL is fine */
void vg_proxy_move_free(void *move);            /* NULL is fine */

#endif
