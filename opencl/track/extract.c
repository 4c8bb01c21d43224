/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/track/extract.h"

#include <stdlib.h>
#include <time.h>

#include "opencl/track/binaries.h"
#include "opencl/track/callback.h"
#include "opencl/track/leaving.h"
#include "opencl/track/memory.h"
#include "opencl/track/read.h"
#include "opencl/track/state.h"
#include "opencl/track/warm.h"

static void
extract_pause(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

/* ---- coming to rest ---- */

/* Polls a marker first, because clFinish() cannot be interrupted. */
static bool
extract_finish_queue(struct vg_cl_switch *s, const struct vg_cl_object *queue)
{
    const cl_icd_dispatch *cl = queue->track->cl;
    cl_int status = CL_QUEUED;
    cl_event marker;
    bool is_over = false;

    if (cl->clEnqueueMarkerWithWaitList(queue->real, 0, NULL, &marker) != CL_SUCCESS)
        return vg_cl_fail(s, "a queue does not accept a marker");
    cl->clFlush(queue->real);
    while (!is_over && status > CL_COMPLETE) {
        if (cl->clGetEventInfo(marker, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status,
                               NULL) != CL_SUCCESS) {
            is_over = vg_cl_is_over(s);
            break;
        }
        if (status > CL_COMPLETE) {
            extract_pause();
            is_over = vg_cl_is_over(s);
        }
    }
    /* Everything is done by now. This waits until the vendor's threads release the queue. */
    if (!is_over)
        cl->clFinish(queue->real);
    cl->clReleaseEvent(marker);
    return is_over ? vg_cl_fail(s, "commands were still running or waiting for an event when %s",
                                s->is_aborted && s->is_aborted(s->data) ? "the request was aborted"
                                                                        : "the time limit expired")
                   : true;
}

static bool
extract_finish_queues(struct vg_cl_switch *s)
{
    for (struct vg_cl_object *o = vg_cl_object_next(NULL); o; o = vg_cl_object_next(o))
        if (o->type == VG_CL_QUEUE && o->real && !extract_finish_queue(s, o))
            return false;
    return true;
}

bool
vg_cl_drain(struct vg_cl_switch *s)
{
    unsigned before;

    /* A callback may have enqueued new commands. */
    do {
        before = vg_cl_callbacks_done;
        if (!extract_finish_queues(s))
            return false;
        while (vg_cl_callbacks_n > 0 || !vg_cl_leaving_done()) {
            if (vg_cl_is_over(s))
                return false;
            extract_pause();
        }
    } while (before != vg_cl_callbacks_done);
    return true;
}

/* ---- memory ---- */

static bool
extract_mem(struct vg_cl_switch *s, struct vg_cl_writer *writer, struct vg_cl_copier *copier,
            const struct vg_cl_object *mem)
{
    size_t region[3];
    size_t size = vg_cl_content_size(mem, region);
    bool is_used = !mem->mem.parent && mem->mem.is_written && vg_cl_mem_is_in_place(mem);

    if (!vg_cl_copier_get(copier, mem))
        return vg_cl_fail(s, "a context does not accept another queue");
    if (is_used && !vg_cl_read_back(s, copier, mem))
        return false;
    vg_cl_writer_begin(writer, VG_CL_MEM, mem->id);
    vg_cl_state_put_mem(writer, mem, size);
    unsigned char *to = size ? vg_cl_put_room(writer, size) : NULL;
    if (size && !to)
        vg_cl_fail(s, "there is no space to save a memory object of %zu bytes", size);
    if (size && (!to || !vg_cl_read_content(s, copier, mem, region, size, to)))
        return false;
    vg_cl_writer_end(writer);
    return true;
}

/* ---- programs and events ---- */

/* Binaries avoid compilation if the device is the same, and the program may know their sizes. */
static void
extract_program(struct vg_cl_writer *writer, struct vg_cl_object *object)
{
    const cl_icd_dispatch *cl = object->track->cl;
    const struct vg_cl_program *program = object->program;
    const bool is_built = program->step == VG_CL_PROGRAM_BUILT;
    cl_uint n = object->real && (is_built || program->told_sizes) ? program->n_devices : 0;
    size_t *sizes = calloc(n ? n : 1, sizeof *sizes);
    unsigned char **binaries = calloc(n ? n : 1, sizeof *binaries);
    bool ok = n && sizes && binaries &&
              cl->clGetProgramInfo(object->real, CL_PROGRAM_BINARY_SIZES, n * sizeof *sizes, sizes,
                                   NULL) == CL_SUCCESS;

    for (cl_uint i = 0; ok && i < n; i++) {
        binaries[i] = sizes[i] ? malloc(sizes[i]) : NULL;
        ok = binaries[i] || sizes[i] == 0;
    }
    ok = ok && cl->clGetProgramInfo(object->real, CL_PROGRAM_BINARIES, n * sizeof *binaries,
                                    binaries, NULL) == CL_SUCCESS;
    if (ok)
        vg_cl_binaries_keep(object, sizes, binaries);
    ok = ok && is_built;
    vg_cl_writer_begin(writer, VG_CL_PROGRAM, object->id);
    vg_cl_state_put_program(writer, object, ok ? n : 0);
    for (cl_uint i = 0; ok && i < n; i++)
        vg_cl_put_bytes(writer, binaries[i], sizes[i]);
    vg_cl_writer_end(writer);
    for (cl_uint i = 0; binaries && i < n; i++)
        free(binaries[i]);
    free(binaries);
    free(sizes);
}

/* Stores the vendor's data that is needed after the vendor is unloaded. */
static void
extract_keep_logs(struct vg_cl_object *object)
{
    struct vg_cl_program *program = object->program;

    /* Data from before the last stop is still right if the program was not built again. */
    if (!object->real || program->step == VG_CL_PROGRAM_MADE ||
        (program->is_remade && program->logs))
        return;
    for (cl_uint i = 0; program->logs && i < program->n_devices; i++)
        free(program->logs[i]);
    free(program->logs);
    program->logs = calloc(program->n_devices, sizeof *program->logs);
    for (cl_uint i = 0; program->logs && i < program->n_devices; i++) {
        size_t size = 0;
        object->track->cl->clGetProgramBuildInfo(object->real, program->devices[i]->real,
                                                 CL_PROGRAM_BUILD_LOG, 0, NULL, &size);
        program->logs[i] = calloc(1, size + 1);
        if (program->logs[i])
            object->track->cl->clGetProgramBuildInfo(object->real, program->devices[i]->real,
                                                     CL_PROGRAM_BUILD_LOG, size, program->logs[i],
                                                     NULL);
    }
}

/* An event with an unknown status would be waited for indefinitely after the switch. */
static bool
extract_event(struct vg_cl_switch *s, struct vg_cl_object *event)
{
    const cl_icd_dispatch *cl = event->track->cl;
    cl_ulong times[5];
    bool has_times = true;

    if (!event->real)
        return true;
    cl_int error = cl->clGetEventInfo(event->real, CL_EVENT_COMMAND_EXECUTION_STATUS,
                                      sizeof event->event.status, &event->event.status, NULL);
    if (error != CL_SUCCESS)
        return vg_cl_fail(s, "the status of an event is unknown: OpenCL error %d", error);
    for (cl_uint i = 0; has_times && i < 5; i++)
        has_times = cl->clGetEventProfilingInfo(event->real, CL_PROFILING_COMMAND_QUEUED + i,
                                                sizeof *times, &times[i], NULL) == CL_SUCCESS;
    free(event->event.profile);
    event->event.profile = has_times ? vg_cl_copy(times, 5, sizeof *times) : NULL;
    return true;
}

/* ---- all ---- */

static bool
extract_small(struct vg_cl_switch *s, struct vg_cl_writer *writer, struct vg_cl_object *object)
{
    if (object->type == VG_CL_PROGRAM) {
        extract_keep_logs(object);
        extract_program(writer, object);
        return true;
    }
    if (object->type == VG_CL_EVENT && !extract_event(s, object))
        return false;
    vg_cl_writer_begin(writer, object->type, object->id);
    if (object->type == VG_CL_KERNEL)
        vg_cl_state_put_kernel(writer, object);
    else if (object->type == VG_CL_EVENT)
        vg_cl_state_put_event(writer, object);
    else
        vg_cl_state_put_small(writer, object);
    vg_cl_writer_end(writer);
    return true;
}

static bool
extract_all_of(struct vg_cl_switch *s, struct vg_cl_writer *writer, struct vg_cl_copier *copier,
               enum vg_cl_type type)
{
    for (struct vg_cl_object *o = vg_cl_object_next(NULL); o; o = vg_cl_object_next(o)) {
        if (o->type != type || (type == VG_CL_DEVICE && !o->device.parent))
            continue;
        if (vg_cl_is_over(s))
            return false;
        if (!(type == VG_CL_MEM ? extract_mem(s, writer, copier, o) : extract_small(s, writer, o)))
            return false;
    }
    return true;
}

/* NVIDIA's library does not release a context as long as one of the program's user events is not
 * set. Nothing waits for it any more: commands and callbacks that do have prevented the stop. */
static void
extract_set_event(const struct vg_cl_object *event)
{
    if (event->real && !event->event.queue && event->event.status > CL_COMPLETE)
        event->track->cl->clSetUserEventStatus(event->real, CL_COMPLETE);
}

/* PoCL never frees memory that is released while it is mapped. What is mapped here is the program's
 * memory, and remains. */
static void
extract_unmap_all(void)
{
    struct vg_cl_copier copier = {.cl = NULL};

    for (const struct vg_cl_object *o = vg_cl_object_next(NULL); o; o = vg_cl_object_next(o)) {
        if (o->type != VG_CL_MEM || !o->real)
            continue;
        for (const struct vg_cl_map *map = o->mem.maps; map; map = map->next)
            if (!map->is_shadow && vg_cl_copier_get(&copier, o) &&
                copier.cl->clEnqueueUnmapMemObject(copier.queue, o->real, map->pointer, 0, NULL,
                                                   NULL) == CL_SUCCESS)
                copier.cl->clFinish(copier.queue);
    }
    if (copier.queue)
        copier.cl->clReleaseCommandQueue(copier.queue);
}

/* Releases objects in reverse order of creation. */
void
vg_cl_release_all(void)
{
    static const enum vg_cl_type order[] = {VG_CL_EVENT,   VG_CL_KERNEL,  VG_CL_PROGRAM,
                                            VG_CL_SAMPLER, VG_CL_MEM,     VG_CL_MEM,
                                            VG_CL_QUEUE,   VG_CL_CONTEXT, VG_CL_DEVICE};

    extract_unmap_all();
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        /* Release sub-buffers before their parents. */
        bool parts_only = order[i] == VG_CL_MEM && order[i + 1] == VG_CL_MEM;
        for (struct vg_cl_object *o = vg_cl_object_next(NULL); o; o = vg_cl_object_next(o))
            if (o->type == order[i] && !(parts_only && !o->mem.parent) &&
                !(o->type == VG_CL_DEVICE && !o->device.parent)) {
                if (o->type == VG_CL_EVENT)
                    extract_set_event(o);
                vg_cl_object_drop(o);
            }
    }
}

/* Refuses what cannot be moved before anything is changed. */
static bool
extract_can(struct vg_cl_switch *s)
{
    for (struct vg_cl_object *o = vg_cl_object_next(NULL); o; o = vg_cl_object_next(o)) {
        if (o->type != VG_CL_MEM)
            continue;
        const struct vg_cl_object *root = o->mem.parent ? o->mem.parent : o;
        bool in_place = vg_cl_mem_is_in_place(root);
        for (const struct vg_cl_map *map = o->mem.maps; map; map = map->next)
            if (!map->is_shadow && (!in_place || o->mem.image))
                return vg_cl_fail(s, "the program has mapped an image in its own memory, or memory "
                                     "that the host may not read or write");
    }
    return true;
}

static size_t
extract_content_sizes(void)
{
    size_t all = 0, region[3];

    for (const struct vg_cl_object *o = vg_cl_object_next(NULL); o; o = vg_cl_object_next(o))
        if (o->type == VG_CL_MEM)
            all += vg_cl_content_size(o, region);
    return all;
}

bool
vg_cl_extract(struct vg_cl_switch *s, struct vg_cl_writer *writer)
{
    static const enum vg_cl_type order[] = {VG_CL_DEVICE,  VG_CL_CONTEXT, VG_CL_QUEUE,
                                            VG_CL_SAMPLER, VG_CL_MEM,     VG_CL_PROGRAM,
                                            VG_CL_KERNEL,  VG_CL_EVENT};
    struct vg_cl_copier copier = {.cl = NULL};
    struct vg_cl_warm warm;
    bool ok = extract_can(s);

    vg_cl_warm_begin(&warm, writer->base, ok ? extract_content_sizes() : 0);
    for (size_t i = 0; ok && i < sizeof order / sizeof *order; i++) {
        ok = extract_all_of(s, writer, &copier, order[i]);
        if (order[i] == VG_CL_MEM)
            vg_cl_step(s, "reading memory");
    }
    vg_cl_step(s, "programs");
    vg_cl_warm_end(&warm);
    if (copier.queue)
        copier.cl->clReleaseCommandQueue(copier.queue);
    if (ok && !vg_cl_writer_finish(writer))
        ok = vg_cl_fail(s, "the space for the program's state is full");
    /* If a proxy's link broke, its queries were not answered. */
    ok = ok && !vg_cl_is_over(s);
    if (ok)
        vg_cl_release_all();
    vg_cl_step(s, "releasing");
    return ok;
}
