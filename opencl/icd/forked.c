/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/icd/forked.h"

#include <pthread.h>
#include <stdlib.h>

#include "opencl/base/say.h"
#include "opencl/client/client.h"
#include "opencl/icd/control.h"
#include "opencl/icd/gate.h"
#include "opencl/icd/switch.h"
#include "opencl/icd/vendor.h"
#include "opencl/track/callback.h"
#include "opencl/track/memory.h"

static pthread_mutex_t forked_lock =
    PTHREAD_MUTEX_INITIALIZER; /* for a new link; taken before others */
static uint64_t
    forked_last; /* id of the program's newest object; newer ones belong to this process */

/* ---- the program's objects ---- */

/* Returns the track in this process for the program's objects of TRACK, or NULL without memory. */
static struct vg_cl_track *
forked_track(struct vg_cl_track *track)
{
    if (!track->severed)
        track->severed = malloc(sizeof *track);
    if (track->severed) {
        *track->severed = *track;
        track->severed->cl = &vg_wire_dispatch;
        track->severed->is_remote = true;
        track->severed->is_severed = true;
    }
    return track->severed;
}

/* Disables OBJECT, which is neither a platform nor a whole device. */
static void
forked_leave(struct vg_cl_object *object)
{
    struct vg_cl_track *track = forked_track(object->track);

    if (object->type == VG_CL_MEM)
        vg_cl_mem_uncount(object);
    if (track)
        object->track = track;
}

static bool
forked_is_root(const struct vg_cl_object *object)
{
    return object->type == VG_CL_PLATFORM ||
           (object->type == VG_CL_DEVICE && !object->device.parent);
}

static void
forked_leave_objects(void)
{
    for (struct vg_cl_object *o = vg_cl_object_next(NULL); o; o = vg_cl_object_next(o))
        if (o->id <= forked_last && !forked_is_root(o))
            forked_leave(o);
    /* The program's threads, which do not exist here, would have set and called these. */
    vg_cl_user_events_n = 0;
    vg_cl_callbacks_n = 0;
}

static void
forked_sever(struct vg_cl_object *object)
{
    const struct vg_cl_object *context = object->context;

    object->real =
        vg_wire_severed(object->type, context && context != object ? context->real : NULL);
    if (object->type == VG_CL_KERNEL)
        object->kernel.set = vg_wire_dispatch.clSetKernelArg;
}

static void
forked_sever_objects(bool are_contexts)
{
    for (struct vg_cl_object *o = vg_cl_object_next(NULL); o; o = vg_cl_object_next(o))
        if ((o->type == VG_CL_CONTEXT) == are_contexts && !forked_is_root(o))
            forked_sever(o);
}

/* Makes VENDOR's platforms and devices represent those of a proxy that no longer exists. */
static void
forked_sever_roots(const struct vg_cl_vendor *vendor)
{
    for (cl_uint t = 0; t < vendor->n_tracks; t++) {
        struct vg_cl_track *track = vendor->tracks[t];
        track->cl = &vg_wire_dispatch;
        track->is_remote = true;
        forked_sever(track->platform);
        for (cl_uint d = 0; d < track->n_devices; d++)
            forked_sever(track->devices[d]);
    }
}

/* ---- a link of this process's own ---- */

/* Stores VENDOR's platforms and devices with the vendor's handles. Returns their number. */
static size_t
forked_list_roots(const struct vg_cl_vendor *vendor, void **roots)
{
    size_t n = 0;

    for (cl_uint t = 0; t < vendor->n_tracks; t++) {
        const struct vg_cl_track *track = vendor->tracks[t];
        for (cl_uint d = 0; d <= track->n_devices; d++, n++)
            if (roots)
                roots[n] = d ? track->devices[d - 1]->real : track->platform->real;
    }
    return n;
}

/* Returns NULL, or an error text. */
static const char *
forked_connect(struct vg_cl_vendor *vendor)
{
    const size_t n = forked_list_roots(vendor, NULL);
    void **roots = calloc(2 * n, sizeof *roots);

    if (!roots)
        return "out of memory";
    forked_list_roots(vendor, roots);
    vendor->library = NULL;
    const char *wrong = vg_cl_vendor_reload(vendor);
    if (wrong)
        forked_sever_roots(vendor);
    forked_list_roots(vendor, roots + n);
    for (size_t i = 0; !wrong && i < n; i++)
        vg_wire_object(roots[i])->renewed = vg_wire_object(roots[n + i]);
    free(roots);
    return wrong;
}

/* All proxies get a new link at the same time. */
static void
forked_renew(struct vg_wire_object *root)
{
    cl_uint n;
    struct vg_cl_vendor *vendors = vg_cl_vendors_get(&n);
    bool has_link = false;

    pthread_mutex_lock(&forked_lock);
    const bool is_renewed = root->renewed != NULL; /* by another thread */
    for (cl_uint v = 0; !is_renewed && v < n; v++) {
        if (!vendors[v].is_inherited)
            continue;
        vendors[v].is_inherited = false;
        forked_leave_objects();
        const char *wrong = forked_connect(&vendors[v]);
        if (wrong)
            vg_cl_say("this forked process cannot connect to %s: %s",
                      vg_cl_vendor_where(&vendors[v]), wrong);
        has_link = has_link || !wrong;
    }
    if (has_link) {
        vg_cl_vendors_stay();
        vg_cl_control_start();
    }
    pthread_mutex_unlock(&forked_lock);
}

/* ---- around a fork ---- */

static void
forked_before(void)
{
    pthread_mutex_lock(&forked_lock);
    vg_cl_objects_hold();
    vg_cl_gate_hold();
}

static void
forked_in_parent(void)
{
    vg_cl_gate_let_go();
    vg_cl_objects_let_go();
    pthread_mutex_unlock(&forked_lock);
}

static void
forked_in_child(void)
{
    const bool was_open = vg_cl_gate_is_forked();
    cl_uint n;
    const struct vg_cl_vendor *vendors = vg_cl_vendors_get(&n);

    forked_last = vg_cl_objects_last();
    vg_cl_objects_let_go();
    if (!was_open) {
        vg_cl_switch_leave();
        forked_sever_objects(true);
        forked_sever_objects(false);
        for (cl_uint v = 0; v < n; v++)
            forked_sever_roots(&vendors[v]);
        forked_leave_objects();
    }
    vg_cl_vendors_inherit();
    pthread_mutex_unlock(&forked_lock);
}

void
vg_cl_forked_watch(void)
{
    vg_wire_on_inherited = forked_renew;
    pthread_atfork(forked_before, forked_in_parent, forked_in_child);
}
