/* SPDX-License-Identifier: Apache-2.0
 *
 * Rebuilds programs concurrently, while other objects are re-created.
 */
#ifndef VG_OPENCL_TRACK_REBUILD_H
#define VG_OPENCL_TRACK_REBUILD_H

#include <pthread.h>

#include "opencl/track/extract.h"
#include "opencl/track/object.h"
#include "opencl/track/stream.h"

struct vg_cl_rebuilt {
    struct vg_cl_object *object;
    struct vg_cl_reader content; /* of its record */
};

struct vg_cl_rebuild {
    struct vg_cl_rebuilt *programs; /* the caller's */
    size_t n;
    char reason[VG_CL_REASON]; /* of the first failure */
    atomic_bool failed;

    pthread_mutex_t lock;
    pthread_t thread;
    bool has_thread;
    int phase;
    atomic_size_t next;
};

/* Builds PROGRAM again in a new vendor's program, with only the program's own options. Returns
 * NULL on failure. The caller owns the result. */
cl_program vg_cl_rebuild_alone(const struct vg_cl_object *program);

/* Links INPUTS, the vendor's objects of OBJECTS, as vg_cl_kinds_link() does (tell.h). If that
 * fails, links copies that were built with only the program's own options. */
cl_int vg_cl_rebuild_link(struct vg_cl_object *object, cl_uint n, const cl_device_id *devices,
                          const char *options, cl_uint n_inputs, const cl_program *inputs,
                          struct vg_cl_object *const *objects);

/* Starts to build the programs, whose contexts must exist. All members except the list must be
 * zero. Omits programs that the application has released and that only linked programs need, unless
 * these are linked again. If a proxy rejects a binary of the application, `failed` is set on
 * return. */
void vg_cl_rebuild_begin(struct vg_cl_rebuild *r);

/* Waits until all are built. Returns false if any failed. */
bool vg_cl_rebuild_end(struct vg_cl_rebuild *r);

#endif
