/* SPDX-License-Identifier: Apache-2.0
 *
 * Queries that are answered without the vendor: those that return objects, those where the vendor
 * was given other values than the program gave, and those about features that are not offered.
 */
#ifndef VG_OPENCL_TRACK_KNOW_H
#define VG_OPENCL_TRACK_KNOW_H

#include "opencl/track/object.h"

struct vg_cl_answer {
    const void *data; /* borrowed from the object, or `own`, or `copy` */
    size_t size;
    uint64_t own;
    void *copy;   /* freed by vg_cl_answer_give() */
    cl_int error; /* if set, returned instead of an answer */
};

/* Suffix of platform versions that programs see, also through a proxy. Platform names of older
 * proxies have it, too. */
#define VG_CL_PLATFORM_MARK " (vgpud)"

/* Removes the extensions that are not offered from the list in TEXT. */
void vg_cl_know_filter(char *text);

/* Each returns false if the vendor must be queried. */
bool vg_cl_know_platform(struct vg_cl_object *platform, cl_platform_info param,
                         struct vg_cl_answer *answer);
bool vg_cl_know_device(struct vg_cl_object *device, cl_device_info param,
                       struct vg_cl_answer *answer);
bool vg_cl_know_context(struct vg_cl_object *context, cl_context_info param,
                        struct vg_cl_answer *answer);
bool vg_cl_know_commandqueue(struct vg_cl_object *queue, cl_command_queue_info param,
                             struct vg_cl_answer *answer);
bool vg_cl_know_memobject(struct vg_cl_object *mem, cl_mem_info param, struct vg_cl_answer *answer);
bool vg_cl_know_image(struct vg_cl_object *image, cl_image_info param, struct vg_cl_answer *answer);
bool vg_cl_know_sampler(struct vg_cl_object *sampler, cl_sampler_info param,
                        struct vg_cl_answer *answer);
bool vg_cl_know_program(struct vg_cl_object *program, cl_program_info param,
                        struct vg_cl_answer *answer);
bool vg_cl_know_programbuild(struct vg_cl_object *program, struct vg_cl_object *device,
                             cl_program_build_info param, struct vg_cl_answer *answer);
bool vg_cl_know_kernel(struct vg_cl_object *kernel, cl_kernel_info param,
                       struct vg_cl_answer *answer);
bool vg_cl_know_event(struct vg_cl_object *event, cl_event_info param, struct vg_cl_answer *answer);
bool vg_cl_know_eventprofiling(struct vg_cl_object *event, cl_profiling_info param,
                               struct vg_cl_answer *answer);

/* Returns the answer to the program as clGet*Info() does. */
cl_int vg_cl_answer_give(struct vg_cl_answer *answer, size_t size, void *value, size_t *size_ret);

#endif
