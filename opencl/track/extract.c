/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/track/extract.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "opencl/track/callback.h"
#include "opencl/track/leaving.h"
#include "opencl/track/memory.h"
#include "opencl/track/program.h"
#include "opencl/track/state.h"
#include "opencl/track/warm.h"

#define CHUNK ((size_t)256 << 20) /* bytes that are read between two looks at the clock */
#define PART  ((size_t)16 << 20)  /* bytes that are copied into the program's memory at once */

bool
vg_cl_fail(struct vg_cl_switch *s, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(s->reason, sizeof s->reason, format, args);
    va_end(args);
    return false;
}

static int64_t
extract_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

void
vg_cl_step(struct vg_cl_switch *s, const char *what)
{
    size_t used = strlen(s->steps);
    int64_t now = extract_now();

    if (s->step_ns)
        snprintf(s->steps + used, sizeof s->steps - used, "%s%s %.1f ms", used ? ", " : "", what,
                 (double)(now - s->step_ns) / 1e6);
    s->step_ns = now;
    s->last = what;
}

bool
vg_cl_is_over(struct vg_cl_switch *s)
{
    if (s->is_aborted && s->is_aborted(s->data))
        return !vg_cl_fail(s, "it was aborted");
    if (extract_now() > s->deadline_ns)
        return !vg_cl_fail(s, "the time was over");
    return false;
}

static void
extract_pause(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

/* ---- coming to rest ---- */

/* Asks by a marker first, as clFinish() cannot be left again. */
static bool
extract_finish_queue(struct vg_cl_switch *s, const struct vg_cl_object *queue)
{
    const cl_icd_dispatch *cl = queue->track->cl;
    cl_int status = CL_QUEUED;
    cl_event marker;
    bool is_over = false;

    if (cl->clEnqueueMarkerWithWaitList(queue->real, 0, NULL, &marker) != CL_SUCCESS)
        return vg_cl_fail(s, "a queue takes no marker");
    cl->clFlush(queue->real);
    while (!is_over && status > CL_COMPLETE) {
        if (cl->clGetEventInfo(marker, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status,
                               NULL) != CL_SUCCESS)
            break;
        if (status > CL_COMPLETE) {
            extract_pause();
            is_over = vg_cl_is_over(s);
        }
    }
    /* Everything is done by now: what this waits for is that the vendor's threads let go of the
     * queue. */
    if (!is_over)
        cl->clFinish(queue->real);
    cl->clReleaseEvent(marker);
    return is_over ? vg_cl_fail(s, "commands were still running or waiting for an event when %s",
                                s->is_aborted && s->is_aborted(s->data) ? "it was aborted"
                                                                        : "the time was over")
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

    /* A function that was called may have put new commands into a queue. */
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

/* ---- what is read ---- */

static size_t
extract_element(const struct vg_cl_object *image)
{
    size_t size = 0;

    image->track->cl->clGetImageInfo(image->real, CL_IMAGE_ELEMENT_SIZE, sizeof size, &size, NULL);
    return size;
}

static void
extract_region(const cl_image_desc *desc, size_t region[3])
{
    region[0] = desc->image_width;
    region[1] = region[2] = 1;
    switch (desc->image_type) {
    case CL_MEM_OBJECT_IMAGE1D_ARRAY:
        region[1] = desc->image_array_size;
        break;
    case CL_MEM_OBJECT_IMAGE2D:
        region[1] = desc->image_height;
        break;
    case CL_MEM_OBJECT_IMAGE2D_ARRAY:
        region[1] = desc->image_height;
        region[2] = desc->image_array_size;
        break;
    case CL_MEM_OBJECT_IMAGE3D:
        region[1] = desc->image_height;
        region[2] = desc->image_depth;
        break;
    default:
        break;
    }
}

size_t
vg_cl_content_size(const struct vg_cl_object *mem, size_t region[3])
{
    if (mem->mem.parent || !mem->mem.is_written || vg_cl_mem_is_in_place(mem))
        return 0;
    if (!mem->mem.image)
        return mem->mem.size;
    extract_region(&mem->mem.image->desc, region);
    return region[0] * region[1] * region[2] * extract_element(mem);
}

/* A queue of our own in each context, for copies. */
struct extract_copier {
    const cl_icd_dispatch *cl;
    struct vg_cl_object *context;
    cl_command_queue queue;
};

static bool
extract_get_queue(struct extract_copier *copier, const struct vg_cl_object *mem)
{
    cl_int error = CL_SUCCESS;

    if (copier->context == mem->context)
        return true;
    if (copier->queue)
        copier->cl->clReleaseCommandQueue(copier->queue);
    copier->cl = mem->track->cl;
    copier->context = mem->context;
    copier->queue = copier->cl->clCreateCommandQueue(mem->context->real,
                                                     mem->context->ctx.devices[0]->real, 0, &error);
    return error == CL_SUCCESS && copier->queue;
}

/* What the host may not read is copied to a buffer that it may. */
static cl_int
extract_read_closed(const struct extract_copier *copier, const struct vg_cl_object *mem,
                    const size_t *region, size_t offset, size_t size, unsigned char *to)
{
    const size_t zero[3] = {0, 0, 0};
    cl_int error;
    cl_mem copy =
        copier->cl->clCreateBuffer(mem->context->real, CL_MEM_READ_WRITE, size, NULL, &error);

    if (error != CL_SUCCESS)
        return error;
    error = mem->mem.image ? copier->cl->clEnqueueCopyImageToBuffer(copier->queue, mem->real, copy,
                                                                    zero, region, 0, 0, NULL, NULL)
                           : copier->cl->clEnqueueCopyBuffer(copier->queue, mem->real, copy, offset,
                                                             0, size, 0, NULL, NULL);
    if (error == CL_SUCCESS)
        error = copier->cl->clEnqueueReadBuffer(copier->queue, copy, CL_TRUE, 0, size, to, 0, NULL,
                                                NULL);
    copier->cl->clReleaseMemObject(copy);
    return error;
}

static cl_int
extract_read(const struct extract_copier *copier, const struct vg_cl_object *mem,
             const size_t *region, size_t offset, size_t size, unsigned char *to)
{
    const size_t zero[3] = {0, 0, 0};

    if (mem->mem.flags & (CL_MEM_HOST_WRITE_ONLY | CL_MEM_HOST_NO_ACCESS))
        return extract_read_closed(copier, mem, region, offset, size, to);
    if (mem->mem.image)
        return copier->cl->clEnqueueReadImage(copier->queue, mem->real, CL_TRUE, zero, region, 0, 0,
                                              to, 0, NULL, NULL);
    return copier->cl->clEnqueueReadBuffer(copier->queue, mem->real, CL_TRUE, offset, size, to, 0,
                                           NULL, NULL);
}

/* An image is read at once. */
static bool
extract_content(struct vg_cl_switch *s, const struct extract_copier *copier,
                const struct vg_cl_object *mem, const size_t *region, size_t size,
                unsigned char *to)
{
    size_t chunk = mem->mem.image ? size : CHUNK;

    for (size_t at = 0; at < size; at += chunk) {
        if (vg_cl_is_over(s))
            return false;
        size_t n = size - at < chunk ? size - at : chunk;
        cl_int error = extract_read(copier, mem, region, at, n, to + at);
        if (error != CL_SUCCESS)
            return vg_cl_fail(s, "reading memory of %zu bytes failed: OpenCL's error %d", size,
                              error);
        s->n_bytes += n;
    }
    return true;
}

/* ---- memory that lies with the program ---- */

/* Returns the end of the first part of ROOT, from *AT on, that the program has not mapped for
 * writing, and sets *AT to its begin. The program may write to the other parts at any time: it is
 * not stopped, only its calls are. */
static size_t
extract_next_part(const struct vg_cl_object *root, size_t *at)
{
    size_t end = root->mem.size;
    bool moved = false;

    for (const struct vg_cl_object *o = vg_cl_object_next(NULL); o; o = vg_cl_object_next(o)) {
        if (o->type != VG_CL_MEM || (o != root && o->mem.parent != root) || o->mem.image)
            continue;
        for (const struct vg_cl_map *map = o->mem.maps; map; map = map->next) {
            size_t from = o->mem.origin + map->origin[0];
            if (map->is_shadow || !(map->flags & (CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION)))
                continue;
            if (from <= *at && *at < from + map->size) {
                *at = from + map->size;
                moved = true;
            } else if (from > *at && from < end) {
                end = from;
            }
        }
    }
    return moved ? extract_next_part(root, at) : end;
}

/* Copies what the device has into those parts of the memory that it uses which are not mapped for
 * writing. */
static cl_int
extract_sync_parts(const struct extract_copier *copier, const struct vg_cl_object *mem)
{
    char *base = mem->mem.host_ptr ? mem->mem.host_ptr : mem->mem.end->own;
    unsigned char *copy = malloc(PART);
    cl_int error = copy ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;

    for (size_t at = 0; error == CL_SUCCESS;) {
        size_t end = extract_next_part(mem, &at);
        if (at >= mem->mem.size)
            break;
        size_t n = end - at < PART ? end - at : PART;
        error = extract_read(copier, mem, NULL, at, n, copy);
        if (error == CL_SUCCESS)
            memcpy(base + at, copy, n);
        at += n;
    }
    free(copy);
    return error;
}

/* Mapping and unmapping brings what the device has into the memory that the object uses. */
static cl_int
extract_sync_whole(const struct extract_copier *copier, const struct vg_cl_object *mem)
{
    const size_t zero[3] = {0, 0, 0};
    size_t region[3], row, slice;
    cl_int error;
    void *pointer;

    if (mem->mem.image) {
        extract_region(&mem->mem.image->desc, region);
        pointer = copier->cl->clEnqueueMapImage(copier->queue, mem->real, CL_TRUE, CL_MAP_READ,
                                                zero, region, &row, &slice, 0, NULL, NULL, &error);
    } else {
        pointer = copier->cl->clEnqueueMapBuffer(copier->queue, mem->real, CL_TRUE, CL_MAP_READ, 0,
                                                 mem->mem.size, 0, NULL, NULL, &error);
    }
    if (error == CL_SUCCESS)
        error =
            copier->cl->clEnqueueUnmapMemObject(copier->queue, mem->real, pointer, 0, NULL, NULL);
    return error == CL_SUCCESS ? copier->cl->clFinish(copier->queue) : error;
}

static bool
extract_sync(struct vg_cl_switch *s, const struct extract_copier *copier,
             const struct vg_cl_object *mem)
{
    size_t at = 0, region[3];
    bool is_whole = mem->mem.image || (extract_next_part(mem, &at) == mem->mem.size && at == 0);
    cl_int error = is_whole ? extract_sync_whole(copier, mem) : extract_sync_parts(copier, mem);

    if (error == CL_SUCCESS && mem->mem.image) {
        extract_region(&mem->mem.image->desc, region);
        s->n_bytes += region[0] * region[1] * region[2] * extract_element(mem);
    } else if (error == CL_SUCCESS) {
        s->n_bytes += mem->mem.size;
    }
    return error == CL_SUCCESS ||
           vg_cl_fail(s, "reading the program's own memory back failed: OpenCL's error %d", error);
}

static bool
extract_mem(struct vg_cl_switch *s, struct vg_cl_writer *writer, struct extract_copier *copier,
            const struct vg_cl_object *mem)
{
    size_t region[3];
    size_t size = vg_cl_content_size(mem, region);
    bool is_used = !mem->mem.parent && mem->mem.is_written && vg_cl_mem_is_in_place(mem);

    if (!extract_get_queue(copier, mem))
        return vg_cl_fail(s, "a context takes no other queue");
    if (is_used && !extract_sync(s, copier, mem))
        return false;
    vg_cl_writer_begin(writer, VG_CL_MEM, mem->id);
    vg_cl_state_put_mem(writer, mem, size);
    unsigned char *to = size ? vg_cl_put_room(writer, size) : NULL;
    if (size && !to)
        return vg_cl_fail(s, "there is no room for memory of %zu bytes", size);
    if (size && !extract_content(s, copier, mem, region, size, to))
        return false;
    vg_cl_writer_end(writer);
    return true;
}

/* ---- programs and events ---- */

/* Binaries spare the compiler where the device is the same. */
static void
extract_program(struct vg_cl_writer *writer, const struct vg_cl_object *object)
{
    const cl_icd_dispatch *cl = object->track->cl;
    const struct vg_cl_program *program = object->program;
    cl_uint n = program->step == VG_CL_PROGRAM_BUILT ? program->n_devices : 0;
    size_t *sizes = calloc(n ? n : 1, sizeof *sizes);
    unsigned char **binaries = calloc(n ? n : 1, sizeof *binaries);
    bool ok = n && sizes && binaries &&
              cl->clGetProgramInfo(object->real, CL_PROGRAM_BINARY_SIZES, n * sizeof *sizes, sizes,
                                   NULL) == CL_SUCCESS;

    for (cl_uint i = 0; ok && i < n; i++) {
        binaries[i] = sizes[i] ? malloc(sizes[i]) : NULL;
        ok = binaries[i] != NULL;
    }
    ok = ok && cl->clGetProgramInfo(object->real, CL_PROGRAM_BINARIES, n * sizeof *binaries,
                                    binaries, NULL) == CL_SUCCESS;
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

/* Keeps what the vendor is asked for once it is gone. */
static void
extract_keep_logs(struct vg_cl_object *object)
{
    struct vg_cl_program *program = object->program;

    /* Those of a build before the last stop are still right if it was not built again. */
    if (program->step == VG_CL_PROGRAM_MADE || (program->is_remade && program->logs))
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

static void
extract_event(struct vg_cl_object *event)
{
    const cl_icd_dispatch *cl = event->track->cl;
    cl_ulong times[5];
    bool has_times = true;

    if (!event->real)
        return;
    cl->clGetEventInfo(event->real, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof event->event.status,
                       &event->event.status, NULL);
    for (cl_uint i = 0; has_times && i < 5; i++)
        has_times = cl->clGetEventProfilingInfo(event->real, CL_PROFILING_COMMAND_QUEUED + i,
                                                sizeof *times, &times[i], NULL) == CL_SUCCESS;
    free(event->event.profile);
    event->event.profile = has_times ? vg_cl_copy(times, 5, sizeof *times) : NULL;
}

/* ---- all ---- */

static bool
extract_all_of(struct vg_cl_switch *s, struct vg_cl_writer *writer, struct extract_copier *copier,
               enum vg_cl_type type)
{
    for (struct vg_cl_object *o = vg_cl_object_next(NULL); o; o = vg_cl_object_next(o)) {
        if (o->type != type || (type == VG_CL_DEVICE && !o->device.parent))
            continue;
        if (vg_cl_is_over(s))
            return false;
        if (type == VG_CL_MEM) {
            if (!extract_mem(s, writer, copier, o))
                return false;
            continue;
        }
        if (type == VG_CL_PROGRAM) {
            extract_keep_logs(o);
            extract_program(writer, o);
            continue;
        }
        if (type == VG_CL_EVENT)
            extract_event(o);
        vg_cl_writer_begin(writer, type, o->id);
        if (type == VG_CL_KERNEL)
            vg_cl_state_put_kernel(writer, o);
        else if (type == VG_CL_EVENT)
            vg_cl_state_put_event(writer, o);
        else
            vg_cl_state_put_small(writer, o);
        vg_cl_writer_end(writer);
    }
    return true;
}

/* NVIDIA's does not let a context go as long as an event is not set that a program was to set.
 * Nothing waits for it any more: commands and callbacks that do have refused the stop. */
static void
extract_set_event(const struct vg_cl_object *event)
{
    if (event->real && !event->event.queue && event->event.status > CL_COMPLETE)
        event->track->cl->clSetUserEventStatus(event->real, CL_COMPLETE);
}

/* Who is made last goes first. */
void
vg_cl_release_all(void)
{
    static const enum vg_cl_type order[] = {VG_CL_EVENT,   VG_CL_KERNEL,  VG_CL_PROGRAM,
                                            VG_CL_SAMPLER, VG_CL_MEM,     VG_CL_MEM,
                                            VG_CL_QUEUE,   VG_CL_CONTEXT, VG_CL_DEVICE};

    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        /* Parts of memory go before the whole. */
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

/* What cannot be carried is said before anything is changed. */
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
                return vg_cl_fail(s,
                                  "memory that the host may not read or write, or an image in the "
                                  "program's own memory, is mapped");
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
    struct extract_copier copier = {.cl = NULL};
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
        ok = vg_cl_fail(s, "the stream has no more room");
    if (ok)
        vg_cl_release_all();
    vg_cl_step(s, "releasing");
    return ok;
}
