/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <stdlib.h>

#include "opencl/track/callback.h"
#include "opencl/track/calls.h"
#include "opencl/track/leaving.h"
#include "opencl/track/remake.h"

/* ---- devices ---- */

cl_int
vg_cl_RetainDevice(struct vg_cl_object *device)
{
    if (!device)
        return CL_INVALID_DEVICE;
    return device->device.parent ? vg_cl_retain(device, CL_INVALID_DEVICE) : CL_SUCCESS;
}

cl_int
vg_cl_ReleaseDevice(struct vg_cl_object *device)
{
    if (!device)
        return CL_INVALID_DEVICE;
    return device->device.parent ? vg_cl_release(device, CL_INVALID_DEVICE) : CL_SUCCESS;
}

static cl_uint
context_count_partition(const cl_device_partition_property *properties)
{
    cl_uint n = 0;

    while (properties && properties[n] != 0)
        n++;
    return properties ? n + 1 : 0;
}

static cl_int
context_wrap_parts(struct vg_cl_object *parent, const cl_device_partition_property *properties,
                   cl_device_id *parts, cl_uint n, struct vg_cl_object **out)
{
    for (cl_uint i = 0; i < n; i++) {
        cl_int error;
        out[i] = vg_cl_object_new(VG_CL_DEVICE, parent->track, NULL, parts[i], &error);
        if (!out[i]) {
            for (cl_uint left = i; left < n; left++)
                parent->track->cl->clReleaseDevice(parts[left]);
            while (i-- > 0)
                vg_cl_unuse(out[i]);
            return error;
        }
        out[i]->device.parent = vg_cl_use(parent);
        out[i]->device.index = i;
        out[i]->device.partition =
            vg_cl_copy(properties, context_count_partition(properties), sizeof *properties);
    }
    return CL_SUCCESS;
}

cl_int
vg_cl_CreateSubDevices(struct vg_cl_object *in_device,
                       const cl_device_partition_property *properties, cl_uint num_devices,
                       struct vg_cl_object **out_devices, cl_uint *num_devices_ret)
{
    cl_uint n = 0;

    if (!in_device)
        return CL_INVALID_DEVICE;
    const cl_icd_dispatch *cl = in_device->track->cl;
    cl_int result = cl->clCreateSubDevices(in_device->real, properties,
                                           out_devices ? 0 : num_devices, NULL, &n);
    if (result != CL_SUCCESS || !out_devices) {
        if (result == CL_SUCCESS && num_devices_ret)
            *num_devices_ret = n;
        return result;
    }
    cl_device_id *parts = calloc(n ? n : 1, sizeof *parts);
    if (!parts)
        return CL_OUT_OF_HOST_MEMORY;
    cl_uint room = num_devices < n ? num_devices : n;
    result = cl->clCreateSubDevices(in_device->real, properties, room, parts, &n);
    if (result == CL_SUCCESS)
        result = context_wrap_parts(in_device, properties, parts, n, out_devices);
    if (result == CL_SUCCESS && num_devices_ret)
        *num_devices_ret = n;
    free(parts);
    return result;
}

/* ---- contexts ---- */

/* Replaces the platform in PROPERTIES with the vendor's in COPY. Refuses properties that would
 * connect the context to another API. */
static cl_int
context_translate(const struct vg_cl_track *track, cl_context_properties *copy)
{
    for (; copy && copy[0] != 0; copy += 2) {
        if (copy[0] == CL_CONTEXT_PLATFORM) {
            struct vg_cl_object *platform = vg_cl_as((void *)copy[1], VG_CL_PLATFORM);
            if (!platform || platform->track != track)
                return CL_INVALID_PLATFORM;
            copy[1] = (cl_context_properties)platform->real;
        } else if (copy[0] != CL_CONTEXT_INTEROP_USER_SYNC) {
            return CL_INVALID_PROPERTY;
        }
    }
    return CL_SUCCESS;
}

void (*vg_cl_on_context)(void);

cl_int
vg_cl_context_make(struct vg_cl_object *context)
{
    struct vg_cl_context *ctx = &context->ctx;
    cl_int error = CL_OUT_OF_HOST_MEMORY;
    cl_context_properties *copy =
        vg_cl_copy(ctx->properties, ctx->n_properties, sizeof *ctx->properties);
    cl_device_id *devices = calloc(ctx->n_devices, sizeof *devices);

    if (devices && (copy || ctx->n_properties == 0)) {
        for (cl_uint i = 0; i < ctx->n_devices; i++)
            devices[i] = ctx->devices[i]->real;
        error = context_translate(context->track, copy);
        if (error == CL_SUCCESS)
            context->real = context->track->cl->clCreateContext(
                copy, ctx->n_devices, devices, ctx->notify, ctx->user_data, &error);
    }
    free(copy);
    free(devices);
    if (vg_cl_on_context)
        vg_cl_on_context();
    return error;
}

/* A device that a program names twice counts once. */
static bool
context_has_device(const struct vg_cl_context *ctx, const struct vg_cl_object *device)
{
    for (cl_uint i = 0; i < ctx->n_devices; i++)
        if (ctx->devices[i] == device)
            return true;
    return false;
}

/* Replaces sub-devices with whole devices, if the vendor does so, like PoCL: it reports that the
 * context has as many. Its data about programs is then that of the whole devices. */
static void
context_take_devices(struct vg_cl_object *context)
{
    struct vg_cl_context whole = {.devices = calloc(context->ctx.n_devices, sizeof(void *))};
    struct vg_cl_context *ctx = &context->ctx;
    cl_uint n = 0;

    for (cl_uint i = 0; whole.devices && i < ctx->n_devices; i++) {
        struct vg_cl_object *device = ctx->devices[i];
        while (device->device.parent)
            device = device->device.parent;
        if (!context_has_device(&whole, device))
            whole.devices[whole.n_devices++] = device;
    }
    if (!whole.devices || whole.n_devices == ctx->n_devices ||
        context->track->cl->clGetContextInfo(context->real, CL_CONTEXT_NUM_DEVICES, sizeof n, &n,
                                             NULL) != CL_SUCCESS ||
        n != whole.n_devices) {
        free(whole.devices);
        return;
    }
    for (cl_uint i = 0; i < n; i++)
        vg_cl_use(whole.devices[i]);
    for (cl_uint i = 0; i < ctx->n_devices; i++)
        vg_cl_unuse(ctx->devices[i]);
    free(ctx->devices);
    ctx->devices = whole.devices;
    ctx->n_devices = n;
}

struct vg_cl_object *
vg_cl_CreateContext(const cl_context_properties *properties, cl_uint num_devices,
                    struct vg_cl_object *const *devices, vg_cl_context_notify pfn_notify,
                    void *user_data, cl_int *errcode_ret)
{
    cl_int error = num_devices && devices ? CL_SUCCESS : CL_INVALID_VALUE;
    struct vg_cl_object *first = error == CL_SUCCESS ? vg_cl_as(devices[0], VG_CL_DEVICE) : NULL;

    for (cl_uint i = 0; error == CL_SUCCESS && i < num_devices; i++)
        if (!vg_cl_as(devices[i], VG_CL_DEVICE) || devices[i]->track != first->track)
            error = CL_INVALID_DEVICE;
    vg_cl_set_error(errcode_ret, error);
    struct vg_cl_object *context =
        error == CL_SUCCESS ? vg_cl_object_new(VG_CL_CONTEXT, first->track, NULL, NULL, errcode_ret)
                            : NULL;
    if (!context)
        return NULL;
    context->ctx.devices = calloc(num_devices, sizeof *context->ctx.devices);
    for (cl_uint i = 0; context->ctx.devices && i < num_devices; i++)
        if (!context_has_device(&context->ctx, devices[i]))
            context->ctx.devices[context->ctx.n_devices++] = vg_cl_use(devices[i]);
    context->ctx.n_properties = vg_cl_count_pairs(properties);
    context->ctx.properties = vg_cl_copy(properties, context->ctx.n_properties, sizeof *properties);
    context->ctx.notify = pfn_notify;
    context->ctx.user_data = user_data;
    error = context->ctx.devices ? vg_cl_context_make(context) : CL_OUT_OF_HOST_MEMORY;
    if (error == CL_SUCCESS && context->real && context->ctx.n_devices > 1)
        context_take_devices(context);
    return vg_cl_made(context, error, errcode_ret);
}

struct vg_cl_object *
vg_cl_made(struct vg_cl_object *object, cl_int error, cl_int *errcode_ret)
{
    if (error == CL_SUCCESS && !object->real)
        error = CL_OUT_OF_HOST_MEMORY;
    vg_cl_set_error(errcode_ret, error);
    if (error == CL_SUCCESS)
        return object;
    vg_cl_unuse(object);
    return NULL;
}

cl_int
vg_cl_SetContextDestructorCallback(struct vg_cl_object *context,
                                   vg_cl_context_destructor pfn_notify, void *user_data)
{
    if (!context)
        return CL_INVALID_CONTEXT;
    if (!pfn_notify)
        return CL_INVALID_VALUE;
    return vg_cl_destructor_add(&context->ctx.destructors, (void (*)(void))pfn_notify, user_data);
}

/* ---- queues ---- */

cl_int
vg_cl_queue_make(struct vg_cl_object *queue)
{
    const cl_icd_dispatch *cl = queue->track->cl;
    void *context = queue->context->real, *device = vg_cl_real(queue->queue.device);
    cl_int error = CL_SUCCESS;

    if (queue->queue.is_old)
        queue->real = cl->clCreateCommandQueue(context, device, queue->queue.bits, &error);
    else
        queue->real = cl->clCreateCommandQueueWithProperties(context, device,
                                                             queue->queue.properties, &error);
    return error;
}

static struct vg_cl_object *
context_new_queue(struct vg_cl_object *context, struct vg_cl_object *device, cl_int *errcode_ret)
{
    if (!context)
        vg_cl_set_error(errcode_ret, CL_INVALID_CONTEXT);
    else if (!device)
        vg_cl_set_error(errcode_ret, CL_INVALID_DEVICE);
    struct vg_cl_object *queue = context && device ? vg_cl_object_new(VG_CL_QUEUE, context->track,
                                                                      context, NULL, errcode_ret)
                                                   : NULL;
    if (queue)
        queue->queue.device = vg_cl_use(device);
    return queue;
}

struct vg_cl_object *
vg_cl_CreateCommandQueue(struct vg_cl_object *context, struct vg_cl_object *device,
                         cl_command_queue_properties properties, cl_int *errcode_ret)
{
    struct vg_cl_object *queue = context_new_queue(context, device, errcode_ret);

    if (!queue)
        return NULL;
    queue->queue.is_old = true;
    queue->queue.bits = properties;
    return vg_cl_made(queue, vg_cl_queue_make(queue), errcode_ret);
}

struct vg_cl_object *
vg_cl_CreateCommandQueueWithProperties(struct vg_cl_object *context, struct vg_cl_object *device,
                                       const cl_queue_properties *properties, cl_int *errcode_ret)
{
    struct vg_cl_object *queue = context_new_queue(context, device, errcode_ret);
    cl_int error;

    if (!queue)
        return NULL;
    queue->queue.n_properties = vg_cl_count_pairs((const intptr_t *)properties);
    queue->queue.properties = vg_cl_copy(properties, queue->queue.n_properties, sizeof *properties);
    /* A device queue is not offered, because its commands cannot be queried. */
    bool is_on_device = false;
    for (cl_uint i = 0; i + 1 < queue->queue.n_properties; i += 2)
        if (properties[i] == CL_QUEUE_PROPERTIES && (properties[i + 1] & CL_QUEUE_ON_DEVICE))
            is_on_device = true;
    error = is_on_device ? CL_INVALID_QUEUE_PROPERTIES : vg_cl_queue_make(queue);
    return vg_cl_made(queue, error, errcode_ret);
}

cl_command_queue_properties
vg_cl_queue_bits(const struct vg_cl_object *queue)
{
    const cl_queue_properties *pair = queue->queue.properties;

    if (queue->queue.is_old)
        return queue->queue.bits;
    while (pair && pair[0] && pair[0] != CL_QUEUE_PROPERTIES)
        pair += 2;
    return pair && pair[0] ? pair[1] : 0;
}

cl_int
vg_cl_ReleaseCommandQueue(struct vg_cl_object *queue)
{
    if (!queue)
        return CL_INVALID_COMMAND_QUEUE;
    if (atomic_load_explicit(&queue->refs, memory_order_relaxed) == 1)
        vg_cl_leaving_add(queue);
    return vg_cl_release(queue, CL_INVALID_COMMAND_QUEUE);
}

/* ---- samplers ---- */

cl_int
vg_cl_sampler_make(struct vg_cl_object *object)
{
    const cl_icd_dispatch *cl = object->track->cl;
    const struct vg_cl_sampler *sampler = &object->sampler;
    cl_int error = CL_SUCCESS;

    if (sampler->is_old)
        object->real = cl->clCreateSampler(object->context->real, sampler->normalized,
                                           sampler->addressing, sampler->filter, &error);
    else
        object->real =
            cl->clCreateSamplerWithProperties(object->context->real, sampler->properties, &error);
    return error;
}

static struct vg_cl_object *
context_new_sampler(struct vg_cl_object *context, cl_int *errcode_ret)
{
    if (context)
        return vg_cl_object_new(VG_CL_SAMPLER, context->track, context, NULL, errcode_ret);
    vg_cl_set_error(errcode_ret, CL_INVALID_CONTEXT);
    return NULL;
}

struct vg_cl_object *
vg_cl_CreateSampler(struct vg_cl_object *context, cl_bool normalized_coords,
                    cl_addressing_mode addressing_mode, cl_filter_mode filter_mode,
                    cl_int *errcode_ret)
{
    struct vg_cl_object *sampler = context_new_sampler(context, errcode_ret);

    if (!sampler)
        return NULL;
    sampler->sampler.is_old = true;
    sampler->sampler.normalized = normalized_coords;
    sampler->sampler.addressing = addressing_mode;
    sampler->sampler.filter = filter_mode;
    return vg_cl_made(sampler, vg_cl_sampler_make(sampler), errcode_ret);
}

struct vg_cl_object *
vg_cl_CreateSamplerWithProperties(struct vg_cl_object *context,
                                  const cl_sampler_properties *sampler_properties,
                                  cl_int *errcode_ret)
{
    struct vg_cl_object *sampler = context_new_sampler(context, errcode_ret);

    if (!sampler)
        return NULL;
    sampler->sampler.n_properties = vg_cl_count_pairs((const intptr_t *)sampler_properties);
    sampler->sampler.properties =
        vg_cl_copy(sampler_properties, sampler->sampler.n_properties, sizeof *sampler_properties);
    return vg_cl_made(sampler, vg_cl_sampler_make(sampler), errcode_ret);
}
