/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/icd/forked.h"

#include <pthread.h>

#include "opencl/client/client.h"
#include "opencl/icd/gate.h"
#include "opencl/icd/vendor.h"

static void
forked_before(void)
{
    vg_cl_objects_hold();
    vg_cl_gate_hold();
}

static void
forked_in_parent(void)
{
    vg_cl_gate_let_go();
    vg_cl_objects_let_go();
}

static void
forked_sever_objects(bool are_contexts)
{
    for (struct vg_cl_object *o = vg_cl_object_next(NULL); o; o = vg_cl_object_next(o)) {
        const struct vg_cl_object *context = o->context;
        if ((o->type == VG_CL_CONTEXT) != are_contexts)
            continue;
        o->real = vg_wire_severed(o->type, context && context != o ? context->real : NULL);
        if (o->type == VG_CL_KERNEL)
            o->kernel.set = vg_wire_dispatch.clSetKernelArg;
    }
}

/* Has all handles stand for what a proxy that is gone would have. */
static void
forked_sever(void)
{
    cl_uint n;
    const struct vg_cl_vendor *vendors = vg_cl_vendors_get(&n);

    for (cl_uint v = 0; v < n; v++)
        for (cl_uint t = 0; t < vendors[v].n_tracks; t++) {
            vendors[v].tracks[t]->cl = &vg_wire_dispatch;
            vendors[v].tracks[t]->is_remote = true;
        }
    forked_sever_objects(true);
    forked_sever_objects(false);
}

static void
forked_in_child(void)
{
    const bool was_open = vg_cl_gate_is_forked();

    vg_cl_objects_let_go();
    if (!was_open)
        forked_sever();
}

void
vg_cl_forked_watch(void)
{
    pthread_atfork(forked_before, forked_in_parent, forked_in_child);
}
