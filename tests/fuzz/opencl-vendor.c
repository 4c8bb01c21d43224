/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tests/fuzz/opencl-vendor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/opencl-vendor-private.h"

static struct fake_object fake_platform = {.type = VG_CL_PLATFORM, .refs = 1};
static struct fake_object fake_devices[2] = {{.type = VG_CL_DEVICE, .refs = 1},
                                             {.type = VG_CL_DEVICE, .refs = 1}};
static struct fake_object *fake_all;
static unsigned fake_failing;

void
fake_die(const char *why)
{
    fprintf(stderr, "the vendor was called wrongly: %s\n", why);
    abort();
}

/* ---- what it is given ---- */

void
fake_read(const void *bytes, size_t size)
{
    static volatile unsigned char sink;
    const unsigned char *at = bytes;
    unsigned char all = 0;

    if (size && !bytes)
        fake_die("bytes that are nowhere");
    for (size_t i = 0; i < size; i++)
        all ^= at[i];
    sink = all;
    (void)sink;
}

void
fake_write(void *bytes, size_t size)
{
    if (size && !bytes)
        fake_die("room that is nowhere");
    if (size)
        memset(bytes, 0x5A, size);
}

cl_int
fake_give(const void *value, size_t n, size_t size, void *to, size_t *size_ret)
{
    if (size_ret)
        *size_ret = n;
    if (to && size < n)
        return CL_INVALID_VALUE;
    if (to)
        fake_write(to, size);
    if (to && n)
        memcpy(to, value, n);
    return CL_SUCCESS;
}

void
fake_fail_at(unsigned n)
{
    fake_failing = n;
}

bool
fake_fails(void)
{
    return fake_failing && --fake_failing == 0;
}

/* ---- objects ---- */

struct fake_object *
fake_find(const void *handle)
{
    struct fake_object *object = fake_all;

    if (handle == &fake_platform || handle == &fake_devices[0] || handle == &fake_devices[1])
        object = (struct fake_object *)(uintptr_t)handle;
    while (object && object != handle)
        object = object->next;
    return object;
}

struct fake_object *
fake_as(const void *handle, enum vg_cl_type type)
{
    struct fake_object *object = handle ? fake_find(handle) : NULL;

    if (handle && !object)
        fake_die("a handle that is none");
    return object && object->type == type ? object : NULL;
}

struct fake_object *
fake_new(enum vg_cl_type type, struct fake_object *parent, cl_int *error)
{
    struct fake_object *object = fake_fails() ? NULL : calloc(1, sizeof *object);

    vg_cl_set_error(error, object ? CL_SUCCESS : CL_OUT_OF_RESOURCES);
    if (!object)
        return NULL;
    object->type = type;
    object->refs = 1;
    object->parent = parent;
    if (parent)
        parent->refs++;
    object->next = fake_all;
    fake_all = object;
    return object;
}

void
fake_release(struct fake_object *object)
{
    struct fake_object **link = &fake_all;

    if (!object || object->type == VG_CL_DEVICE || --object->refs > 0)
        return;
    while (*link != object)
        link = &(*link)->next;
    *link = object->next;
    if (object->is_own)
        free(object->bytes);
    while (object->destructors) {
        struct fake_destructor *destructor = object->destructors;
        object->destructors = destructor->next;
        destructor->call((cl_mem)object, destructor->data);
        free(destructor);
    }
    while (object->callbacks) {
        struct fake_callback *callback = object->callbacks;
        object->callbacks = callback->next;
        free(callback);
    }
    fake_release(object->parent);
    free(object);
}

struct fake_object *
fake_user_event(void)
{
    struct fake_object *object = fake_all;

    while (object && !(object->is_user && object->status > 0))
        object = object->next;
    return object;
}

unsigned
fake_objects_n(void)
{
    unsigned n = 0;

    for (const struct fake_object *object = fake_all; object; object = object->next, n++)
        fprintf(stderr, "an object of type %u has %u references\n", object->type, object->refs);
    return n;
}

#define RELEASE(name, handle, TYPE, invalid)                                                       \
 static cl_int CL_API_CALL fake_clRelease##name(handle it)                                         \
 {                                                                                                 \
  struct fake_object *object = fake_as(it, TYPE);                                                  \
                                                                                                   \
  fake_release(object);                                                                            \
  return object ? CL_SUCCESS : invalid;                                                            \
 }                                                                                                 \
 static cl_int CL_API_CALL fake_clRetain##name(handle it)                                          \
 {                                                                                                 \
  struct fake_object *object = fake_as(it, TYPE);                                                  \
                                                                                                   \
  if (object)                                                                                      \
   object->refs++;                                                                                 \
  return object ? CL_SUCCESS : invalid;                                                            \
 }
RELEASE(Context, cl_context, VG_CL_CONTEXT, CL_INVALID_CONTEXT)
RELEASE(CommandQueue, cl_command_queue, VG_CL_QUEUE, CL_INVALID_COMMAND_QUEUE)
RELEASE(MemObject, cl_mem, VG_CL_MEM, CL_INVALID_MEM_OBJECT)
RELEASE(Sampler, cl_sampler, VG_CL_SAMPLER, CL_INVALID_SAMPLER)
RELEASE(Program, cl_program, VG_CL_PROGRAM, CL_INVALID_PROGRAM)
RELEASE(Kernel, cl_kernel, VG_CL_KERNEL, CL_INVALID_KERNEL)
RELEASE(Event, cl_event, VG_CL_EVENT, CL_INVALID_EVENT)
RELEASE(Device, cl_device_id, VG_CL_DEVICE, CL_INVALID_DEVICE)

struct fake_object *
fake_in_context(cl_context context, enum vg_cl_type type, cl_int *error)
{
    struct fake_object *parent = fake_as(context, VG_CL_CONTEXT);

    if (parent)
        return fake_new(type, parent, error);
    vg_cl_set_error(error, CL_INVALID_CONTEXT);
    return NULL;
}

/* A list of names and values that ends with 0. */
static void
fake_read_pairs(const intptr_t *pairs)
{
    for (size_t i = 0; pairs && pairs[i]; i += 2)
        fake_read(&pairs[i], 2 * sizeof *pairs);
}

bool
fake_are(const void *const *handles, cl_uint n, enum vg_cl_type type)
{
    for (cl_uint i = 0; i < n; i++)
        if (!fake_as(handles[i], type))
            return false;
    return true;
}

/* ---- platforms and devices ---- */

static cl_int CL_API_CALL
fake_clGetPlatformIDs(cl_uint n, cl_platform_id *platforms, cl_uint *n_ret)
{
    if (n && platforms)
        platforms[0] = (cl_platform_id)&fake_platform;
    if (n_ret)
        *n_ret = 1;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL
fake_clGetDeviceIDs(cl_platform_id platform, cl_device_type type, cl_uint n, cl_device_id *devices,
                    cl_uint *n_ret)
{
    if (!fake_as(platform, VG_CL_PLATFORM) || !(type & CL_DEVICE_TYPE_GPU))
        return CL_DEVICE_NOT_FOUND;
    for (cl_uint i = 0; devices && i < n && i < 2; i++)
        devices[i] = (cl_device_id)&fake_devices[i];
    if (n_ret)
        *n_ret = 2;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL
fake_clGetDeviceInfo(cl_device_id device, cl_device_info param, size_t size, void *value,
                     size_t *size_ret)
{
    const cl_ulong number = param == CL_DEVICE_TYPE                 ? CL_DEVICE_TYPE_GPU
                            : param == CL_DEVICE_MAX_MEM_ALLOC_SIZE ? FAKE_MEM_MAX
                                                                    : 1;

    if (!fake_as(device, VG_CL_DEVICE))
        return CL_INVALID_DEVICE;
    if (param == CL_DEVICE_NAME || param == CL_DRIVER_VERSION || param == CL_DEVICE_EXTENSIONS)
        return fake_give("one", 4, size, value, size_ret);
    if (param == CL_DEVICE_IMAGE_SUPPORT || param == CL_DEVICE_AVAILABLE)
        return fake_give(&number, sizeof(cl_bool), size, value, size_ret);
    return fake_give(&number, sizeof number, size, value, size_ret);
}

/* What it says of all else: a few bytes, or nothing. */
static cl_int
fake_info(bool is_there, cl_int invalid, cl_uint param, size_t size, void *value, size_t *size_ret)
{
    static const unsigned char bytes[64] = "abc";

    if (!is_there || fake_fails())
        return invalid;
    return param % 7 == 6 ? CL_INVALID_VALUE
                          : fake_give(bytes, param % 5 * 4 + 4, size, value, size_ret);
}

#define INFO(name, handle, TYPE, invalid)                                                          \
 static cl_int CL_API_CALL fake_clGet##name##Info(handle it, cl_uint param, size_t size,           \
                                                  void *value, size_t *size_ret)                   \
 {                                                                                                 \
  return fake_info(fake_as(it, TYPE), invalid, param, size, value, size_ret);                      \
 }
INFO(Platform, cl_platform_id, VG_CL_PLATFORM, CL_INVALID_PLATFORM)
INFO(Context, cl_context, VG_CL_CONTEXT, CL_INVALID_CONTEXT)
INFO(CommandQueue, cl_command_queue, VG_CL_QUEUE, CL_INVALID_COMMAND_QUEUE)
INFO(Sampler, cl_sampler, VG_CL_SAMPLER, CL_INVALID_SAMPLER)

static cl_int CL_API_CALL
fake_clCreateSubDevices(cl_device_id device, const cl_device_partition_property *properties,
                        cl_uint n, cl_device_id *devices, cl_uint *n_ret)
{
    size_t counts = 0;

    if (!fake_as(device, VG_CL_DEVICE))
        return CL_INVALID_DEVICE;
    if (!properties)
        return CL_INVALID_VALUE;
    while (properties[counts])
        counts++;
    fake_read(&properties[counts], sizeof *properties);
    if (properties[0] == CL_DEVICE_PARTITION_BY_COUNTS)
        fake_read(&properties[counts + 1], sizeof *properties);
    if (fake_fails() || (devices && n < 2))
        return CL_INVALID_DEVICE_PARTITION_COUNT;
    /* Its devices are never divided: parts would be objects that end. */
    for (cl_uint i = 0; devices && i < 2; i++)
        devices[i] = (cl_device_id)&fake_devices[i];
    if (devices)
        fake_write(&devices[2], (n - 2) * sizeof *devices);
    if (n_ret)
        *n_ret = 2;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL
fake_clGetDeviceAndHostTimer(cl_device_id device, cl_ulong *device_time, cl_ulong *host_time)
{
    if (!fake_as(device, VG_CL_DEVICE))
        return CL_INVALID_DEVICE;
    if (!device_time || !host_time)
        return CL_INVALID_VALUE;
    fake_write(device_time, sizeof *device_time);
    fake_write(host_time, sizeof *host_time);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL
fake_clGetHostTimer(cl_device_id device, cl_ulong *host_time)
{
    if (!fake_as(device, VG_CL_DEVICE))
        return CL_INVALID_DEVICE;
    if (!host_time)
        return CL_INVALID_VALUE;
    fake_write(host_time, sizeof *host_time);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL
fake_clUnloadPlatformCompiler(cl_platform_id platform)
{
    return fake_as(platform, VG_CL_PLATFORM) ? CL_SUCCESS : CL_INVALID_PLATFORM;
}

/* ---- contexts, queues, samplers ---- */

static cl_context CL_API_CALL
fake_clCreateContext(const cl_context_properties *properties, cl_uint n,
                     const cl_device_id *devices,
                     void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *),
                     void *data, cl_int *error)
{
    (void)notify;
    (void)data;
    fake_read_pairs(properties);
    for (size_t i = 0; properties && properties[i]; i += 2)
        if (properties[i] == CL_CONTEXT_PLATFORM && properties[i + 1] != 0 &&
            !fake_as((const void *)properties[i + 1], VG_CL_PLATFORM))
            n = 0;
    if (n && devices && fake_are((const void *const *)devices, n, VG_CL_DEVICE))
        return (cl_context)fake_new(VG_CL_CONTEXT, NULL, error);
    vg_cl_set_error(error, CL_INVALID_DEVICE);
    return NULL;
}

static cl_command_queue
fake_make_queue(cl_context context, cl_device_id device, bool is_out_of_order, cl_int *error)
{
    struct fake_object *queue = NULL;

    if (fake_as(device, VG_CL_DEVICE))
        queue = fake_in_context(context, VG_CL_QUEUE, error);
    else
        vg_cl_set_error(error, CL_INVALID_DEVICE);
    if (queue)
        queue->is_out_of_order = is_out_of_order;
    return (cl_command_queue)queue;
}

static cl_command_queue CL_API_CALL
fake_clCreateCommandQueue(cl_context context, cl_device_id device, cl_command_queue_properties bits,
                          cl_int *error)
{
    return fake_make_queue(context, device, bits & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, error);
}

static cl_command_queue CL_API_CALL
fake_clCreateCommandQueueWithProperties(cl_context context, cl_device_id device,
                                        const cl_queue_properties *properties, cl_int *error)
{
    fake_read_pairs((const intptr_t *)properties);
    return fake_make_queue(context, device, properties && properties[0] && (properties[1] & 1),
                           error);
}

static cl_sampler CL_API_CALL
fake_clCreateSampler(cl_context context, cl_bool normalized, cl_addressing_mode addressing,
                     cl_filter_mode filter, cl_int *error)
{
    (void)normalized;
    (void)addressing;
    (void)filter;
    return (cl_sampler)fake_in_context(context, VG_CL_SAMPLER, error);
}

static cl_sampler CL_API_CALL
fake_clCreateSamplerWithProperties(cl_context context, const cl_sampler_properties *properties,
                                   cl_int *error)
{
    fake_read_pairs((const intptr_t *)properties);
    return (cl_sampler)fake_in_context(context, VG_CL_SAMPLER, error);
}

const cl_icd_dispatch *
fake_table(void)
{
    static cl_icd_dispatch table = {
        .clGetPlatformIDs = fake_clGetPlatformIDs,
        .clGetPlatformInfo = fake_clGetPlatformInfo,
        .clGetDeviceIDs = fake_clGetDeviceIDs,
        .clGetDeviceInfo = fake_clGetDeviceInfo,
        .clCreateSubDevices = fake_clCreateSubDevices,
        .clRetainDevice = fake_clRetainDevice,
        .clReleaseDevice = fake_clReleaseDevice,
        .clGetDeviceAndHostTimer = fake_clGetDeviceAndHostTimer,
        .clGetHostTimer = fake_clGetHostTimer,
        .clUnloadPlatformCompiler = fake_clUnloadPlatformCompiler,
        .clCreateContext = fake_clCreateContext,
        .clRetainContext = fake_clRetainContext,
        .clReleaseContext = fake_clReleaseContext,
        .clGetContextInfo = fake_clGetContextInfo,
        .clCreateCommandQueue = fake_clCreateCommandQueue,
        .clCreateCommandQueueWithProperties = fake_clCreateCommandQueueWithProperties,
        .clRetainCommandQueue = fake_clRetainCommandQueue,
        .clReleaseCommandQueue = fake_clReleaseCommandQueue,
        .clGetCommandQueueInfo = fake_clGetCommandQueueInfo,
        .clCreateSampler = fake_clCreateSampler,
        .clCreateSamplerWithProperties = fake_clCreateSamplerWithProperties,
        .clRetainSampler = fake_clRetainSampler,
        .clReleaseSampler = fake_clReleaseSampler,
        .clGetSamplerInfo = fake_clGetSamplerInfo,
        .clRetainMemObject = fake_clRetainMemObject,
        .clReleaseMemObject = fake_clReleaseMemObject,
        .clRetainProgram = fake_clRetainProgram,
        .clReleaseProgram = fake_clReleaseProgram,
        .clRetainKernel = fake_clRetainKernel,
        .clReleaseKernel = fake_clReleaseKernel,
        .clRetainEvent = fake_clRetainEvent,
        .clReleaseEvent = fake_clReleaseEvent,
    };

    fake_add_memory(&table);
    fake_add_programs(&table);
    fake_add_events(&table);
    fake_add_commands(&table);
    return &table;
}
