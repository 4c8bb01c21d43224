/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread that releases memory objects, one after the other, while what others hold is still read.
 */
#ifndef VG_OPENCL_TRACK_TRAIL_H
#define VG_OPENCL_TRACK_TRAIL_H

#include <pthread.h>

#include "opencl/track/object.h"

struct vg_cl_trail {
    struct vg_cl_object **objects; /* owned; N of them were given, and the first N_DONE released */
    size_t n, n_done, most;
    pthread_t thread;
    pthread_mutex_t lock; /* of all but the thread's own */
    pthread_cond_t more;
    bool has_thread, is_over;
};

/* Begins with room for MOST objects. Without memory or a thread, nothing is released. */
void vg_cl_trail_begin(struct vg_cl_trail *trail, size_t most);

/* Has the vendor's object of MEM released, which nothing else needs. From one thread. */
void vg_cl_trail_add(struct vg_cl_trail *trail, struct vg_cl_object *mem);

/* Waits until all that were given are released, and ends. Returns how many these are. */
size_t vg_cl_trail_end(struct vg_cl_trail *trail);

#endif
