/* SPDX-License-Identifier: Apache-2.0
 *
 * The proxy's side: objects that a client has released.
 */
#include "config.h"

#include "opencl/serve/private.h"

void
vg_serve_forget(struct vg_serve_call *call, enum vg_cl_type type, uint64_t id)
{
    struct vg_serve *serve = call->serve;
    struct serve_slot slot = {NULL, VG_CL_NONE};

    pthread_mutex_lock(&serve->lock);
    if (id > serve->n_roots && id < serve->n_slots && serve->slots[id].type == type) {
        slot = serve->slots[id];
        serve->n_objects--;
        serve->slots[id] = (struct serve_slot){NULL, VG_CL_NONE};
    }
    pthread_mutex_unlock(&serve->lock);
    if (slot.type == VG_CL_MEM)
        vg_serve_drop_maps(serve, slot.handle);
    else if (slot.type == VG_CL_CONTEXT)
        vg_serve_pinned_leave(serve, slot.handle);
}
