/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/track/know.h"

#include <stdlib.h>
#include <string.h>

#include "opencl/track/program.h"
#include "opencl/track/tell.h"

cl_int
vg_cl_answer_give(struct vg_cl_answer *answer, size_t size, void *value, size_t *size_ret)
{
    cl_int result = answer->error;

    if (result == CL_SUCCESS && value && size < answer->size)
        result = CL_INVALID_VALUE;
    else if (result == CL_SUCCESS && value && answer->size)
        memcpy(value, answer->data, answer->size);
    if (result == CL_SUCCESS && size_ret)
        *size_ret = answer->size;
    free(answer->copy);
    return result;
}

static bool
know_bytes(struct vg_cl_answer *answer, const void *data, size_t size)
{
    *answer = (struct vg_cl_answer){.data = data, .size = size};
    return true;
}

static bool
know_number(struct vg_cl_answer *answer, uint64_t number, size_t size)
{
    *answer = (struct vg_cl_answer){.own = number, .size = size};
    answer->data = &answer->own;
    return true;
}

static bool
know_object(struct vg_cl_answer *answer, const struct vg_cl_object *object)
{
    return know_number(answer, (uintptr_t)object, sizeof object);
}

static bool
know_refs(struct vg_cl_answer *answer, const struct vg_cl_object *object)
{
    return know_number(answer, object->refs, sizeof(cl_uint));
}

static bool
know_error(struct vg_cl_answer *answer, cl_int error)
{
    *answer = (struct vg_cl_answer){.error = error};
    return true;
}

/* Takes COPY. */
static bool
know_copy(struct vg_cl_answer *answer, void *copy, size_t size)
{
    if (!copy)
        return false;
    *answer = (struct vg_cl_answer){.data = copy, .copy = copy, .size = size};
    return true;
}

/* ---- extensions ---- */

/* Extensions without functions of their own, and without external memory or events: their effect is
 * in kernels, or in flags that are passed on. */
static const char *const carried[] = {
    "cl_khr_3d_image_writes",
    "cl_khr_byte_addressable_store",
    "cl_khr_depth_images",
    "cl_khr_extended_bit_ops",
    "cl_khr_extended_versioning",
    "cl_khr_fp16",
    "cl_khr_fp64",
    "cl_khr_global_int32_base_atomics",
    "cl_khr_global_int32_extended_atomics",
    "cl_khr_icd",
    "cl_khr_image2d_from_buffer",
    "cl_khr_int64_base_atomics",
    "cl_khr_int64_extended_atomics",
    "cl_khr_integer_dot_product",
    "cl_khr_local_int32_base_atomics",
    "cl_khr_local_int32_extended_atomics",
    "cl_khr_spir",
    "cl_khr_subgroup_ballot",
    "cl_khr_subgroup_clustered_reduce",
    "cl_khr_subgroup_extended_types",
    "cl_khr_subgroup_named_barrier",
    "cl_khr_subgroup_non_uniform_arithmetic",
    "cl_khr_subgroup_non_uniform_vote",
    "cl_khr_subgroup_rotate",
    "cl_khr_subgroup_shuffle",
    "cl_khr_subgroup_shuffle_relative",
    "cl_nv_compiler_options",
    "cl_nv_device_attribute_query",
    "cl_nv_pragma_unroll",
};

static bool
know_is_carried(const char *name, size_t size)
{
    for (size_t i = 0; i < sizeof carried / sizeof *carried; i++)
        if (strlen(carried[i]) == size && memcmp(carried[i], name, size) == 0)
            return true;
    return false;
}

void
vg_cl_know_filter(char *text)
{
    char *to = text;
    bool is_last = true;

    for (const char *from = text; *from;) {
        size_t size = strcspn(from, " "), all = size + strspn(from + size, " ");
        is_last = size == 0 || know_is_carried(from, size);
        if (is_last) {
            memmove(to, from, all);
            to += all;
        }
        from += all;
    }
    while (!is_last && to > text && to[-1] == ' ')
        to--;
    *to = '\0';
}

static size_t
know_filter_versions(cl_name_version *versions, size_t n)
{
    size_t left = 0;

    for (size_t i = 0; i < n; i++)
        if (know_is_carried(versions[i].name, strnlen(versions[i].name, sizeof versions[i].name)))
            versions[left++] = versions[i];
    return left;
}

/* Returns the vendor's data about a platform or device, or NULL. The caller frees it. */
static void *
know_query(struct vg_cl_object *object, cl_uint param, size_t *size)
{
    const cl_icd_dispatch *cl = object->track->cl;
    bool is_platform = object->type == VG_CL_PLATFORM;

    cl_int result = is_platform ? cl->clGetPlatformInfo(object->real, param, 0, NULL, size)
                                : cl->clGetDeviceInfo(object->real, param, 0, NULL, size);
    void *value = result == CL_SUCCESS ? calloc(1, *size + 1) : NULL;
    if (!value)
        return NULL;
    result = is_platform ? cl->clGetPlatformInfo(object->real, param, *size, value, NULL)
                         : cl->clGetDeviceInfo(object->real, param, *size, value, NULL);
    if (result == CL_SUCCESS)
        return value;
    free(value);
    return NULL;
}

static bool
know_extensions(struct vg_cl_object *object, cl_uint param, struct vg_cl_answer *answer)
{
    size_t size = 0;
    char *text = know_query(object, param, &size);

    if (text)
        vg_cl_know_filter(text);
    return know_copy(answer, text, text ? strlen(text) + 1 : 0);
}

static bool
know_versions(struct vg_cl_object *object, cl_uint param, struct vg_cl_answer *answer)
{
    size_t size = 0;
    cl_name_version *versions = know_query(object, param, &size);

    size_t n = versions ? know_filter_versions(versions, size / sizeof *versions) : 0;
    return know_copy(answer, versions, n * sizeof *versions);
}

/* ---- platforms and devices ---- */

/* Returns where our mark starts at the end of TEXT, or NULL if it has none. */
static char *
know_find_mark(char *text)
{
    const size_t length = strlen(text), mark = strlen(VG_CL_PLATFORM_MARK);

    return length >= mark && strcmp(text + length - mark, VG_CL_PLATFORM_MARK) == 0
               ? text + length - mark
               : NULL;
}

/* Programs compare the name with their vendor's. An older proxy's name has the mark. */
static bool
know_platform_name(struct vg_cl_object *platform, struct vg_cl_answer *answer)
{
    size_t size = 0;
    char *name = know_query(platform, CL_PLATFORM_NAME, &size);
    char *mark = name ? know_find_mark(name) : NULL;

    if (!mark) {
        free(name);
        return false;
    }
    *mark = '\0';
    return know_copy(answer, name, strlen(name) + 1);
}

/* The number in a version is followed by the vendor's own text. That of a proxy has the mark. */
static bool
know_platform_version(struct vg_cl_object *platform, struct vg_cl_answer *answer)
{
    size_t size = 0;
    char *version = know_query(platform, CL_PLATFORM_VERSION, &size);
    char *longer = version ? realloc(version, size + sizeof VG_CL_PLATFORM_MARK) : NULL;

    if (!longer) {
        free(version);
        return false;
    }
    if (!know_find_mark(longer))
        strcat(longer, VG_CL_PLATFORM_MARK);
    return know_copy(answer, longer, strlen(longer) + 1);
}

bool
vg_cl_know_platform(struct vg_cl_object *platform, cl_platform_info param,
                    struct vg_cl_answer *answer)
{
    switch (param) {
    case CL_PLATFORM_NAME:
        return know_platform_name(platform, answer);
    case CL_PLATFORM_VERSION:
        return know_platform_version(platform, answer);
    case CL_PLATFORM_EXTENSIONS:
        return know_extensions(platform, param, answer);
    case CL_PLATFORM_EXTENSIONS_WITH_VERSION:
        return know_versions(platform, param, answer);
    default:
        return false;
    }
}

static bool
know_device_type(struct vg_cl_object *device, struct vg_cl_answer *answer)
{
    return device->track->as_gpu && know_number(answer, CL_DEVICE_TYPE_GPU, sizeof(cl_device_type));
}

bool
vg_cl_know_device(struct vg_cl_object *device, cl_device_info param, struct vg_cl_answer *answer)
{
    switch (param) {
    case CL_DEVICE_TYPE:
        return know_device_type(device, answer);
    case CL_DEVICE_PLATFORM:
        return know_object(answer, device->track->platform);
    case CL_DEVICE_PARENT_DEVICE:
        return know_object(answer, device->device.parent);
    case CL_DEVICE_REFERENCE_COUNT:
        return device->device.parent && know_refs(answer, device);
    case CL_DEVICE_EXTENSIONS:
        return know_extensions(device, param, answer);
    case CL_DEVICE_EXTENSIONS_WITH_VERSION:
        return know_versions(device, param, answer);
    case CL_DEVICE_SVM_CAPABILITIES:
    case CL_DEVICE_QUEUE_ON_DEVICE_PROPERTIES:
    case CL_DEVICE_DEVICE_ENQUEUE_CAPABILITIES:
        return know_number(answer, 0, sizeof(cl_bitfield));
    case CL_DEVICE_PIPE_SUPPORT:
    case CL_DEVICE_MAX_PIPE_ARGS:
    case CL_DEVICE_PIPE_MAX_ACTIVE_RESERVATIONS:
    case CL_DEVICE_PIPE_MAX_PACKET_SIZE:
    case CL_DEVICE_QUEUE_ON_DEVICE_PREFERRED_SIZE:
    case CL_DEVICE_QUEUE_ON_DEVICE_MAX_SIZE:
    case CL_DEVICE_MAX_ON_DEVICE_QUEUES:
    case CL_DEVICE_MAX_ON_DEVICE_EVENTS:
        return know_number(answer, 0, sizeof(cl_uint));
    default:
        return false;
    }
}

/* ---- the rest, in the order in which they need each other ---- */

bool
vg_cl_know_context(struct vg_cl_object *context, cl_context_info param, struct vg_cl_answer *answer)
{
    struct vg_cl_context *ctx = &context->ctx;

    switch (param) {
    case CL_CONTEXT_REFERENCE_COUNT:
        return know_refs(answer, context);
    case CL_CONTEXT_NUM_DEVICES:
        return know_number(answer, ctx->n_devices, sizeof(cl_uint));
    case CL_CONTEXT_DEVICES:
        return know_bytes(answer, ctx->devices, ctx->n_devices * sizeof *ctx->devices);
    case CL_CONTEXT_PROPERTIES:
        return know_bytes(answer, ctx->properties, ctx->n_properties * sizeof *ctx->properties);
    default:
        return false;
    }
}

bool
vg_cl_know_commandqueue(struct vg_cl_object *queue, cl_command_queue_info param,
                        struct vg_cl_answer *answer)
{
    switch (param) {
    case CL_QUEUE_CONTEXT:
        return know_object(answer, queue->context);
    case CL_QUEUE_DEVICE:
        return know_object(answer, queue->queue.device);
    case CL_QUEUE_DEVICE_DEFAULT:
        return know_object(answer, NULL);
    case CL_QUEUE_REFERENCE_COUNT:
        return know_refs(answer, queue);
    case CL_QUEUE_PROPERTIES_ARRAY:
        return know_bytes(answer, queue->queue.properties,
                          queue->queue.n_properties * sizeof *queue->queue.properties);
    default:
        return false;
    }
}

static cl_uint
know_count_maps(const struct vg_cl_object *mem)
{
    cl_uint n = 0;

    vg_cl_lock();
    for (const struct vg_cl_map *map = mem->mem.maps; map; map = map->next)
        n++;
    vg_cl_unlock();
    return n;
}

/* A sub-buffer inherits the flags that it does not have itself. */
static cl_mem_flags
know_own_flags(const struct vg_cl_mem *mem)
{
    const cl_mem_flags access = CL_MEM_READ_WRITE | CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY;
    const cl_mem_flags host =
        CL_MEM_HOST_WRITE_ONLY | CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_NO_ACCESS;
    const cl_mem_flags place = CL_MEM_USE_HOST_PTR | CL_MEM_ALLOC_HOST_PTR | CL_MEM_COPY_HOST_PTR;
    cl_mem_flags flags = mem->flags;

    if (!mem->is_sub)
        return flags;
    if (!(flags & access))
        flags |= mem->parent->mem.flags & access;
    if (!(flags & host))
        flags |= mem->parent->mem.flags & host;
    return flags | (mem->parent->mem.flags & place);
}

/* Some vendors add flags that mean no access flag at all. */
static cl_mem_flags
know_flags(const struct vg_cl_object *object)
{
    const cl_mem_flags access = CL_MEM_READ_WRITE | CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY;
    cl_mem_flags flags = know_own_flags(&object->mem), real = 0;

    if (!(flags & access))
        object->track->cl->clGetMemObjectInfo(object->real, CL_MEM_FLAGS, sizeof real, &real, NULL);
    return flags | (real & access);
}

static const void *
know_host_ptr(const struct vg_cl_mem *mem)
{
    const char *parents = mem->is_sub ? mem->parent->mem.host_ptr : NULL;

    return mem->is_sub && parents ? parents + mem->origin : mem->host_ptr;
}

bool
vg_cl_know_memobject(struct vg_cl_object *object, cl_mem_info param, struct vg_cl_answer *answer)
{
    struct vg_cl_mem *mem = &object->mem;

    switch (param) {
    case CL_MEM_FLAGS:
        return know_number(answer, know_flags(object), sizeof mem->flags);
    case CL_MEM_HOST_PTR:
        return know_number(answer, (uintptr_t)know_host_ptr(mem), sizeof(void *));
    case CL_MEM_CONTEXT:
        return know_object(answer, object->context);
    case CL_MEM_ASSOCIATED_MEMOBJECT:
        return know_object(answer, mem->parent);
    case CL_MEM_REFERENCE_COUNT:
        return know_refs(answer, object);
    case CL_MEM_MAP_COUNT:
        return know_number(answer, know_count_maps(object), sizeof(cl_uint));
    case CL_MEM_USES_SVM_POINTER:
        return know_number(answer, CL_FALSE, sizeof(cl_bool));
    case CL_MEM_PROPERTIES:
        return know_bytes(answer, mem->properties, mem->n_properties * sizeof *mem->properties);
    default:
        return false;
    }
}

bool
vg_cl_know_image(struct vg_cl_object *image, cl_image_info param, struct vg_cl_answer *answer)
{
    if (param == CL_IMAGE_BUFFER && image->mem.image)
        return know_object(answer, image->mem.parent);
    return false;
}

bool
vg_cl_know_sampler(struct vg_cl_object *sampler, cl_sampler_info param, struct vg_cl_answer *answer)
{
    switch (param) {
    case CL_SAMPLER_REFERENCE_COUNT:
        return know_refs(answer, sampler);
    case CL_SAMPLER_CONTEXT:
        return know_object(answer, sampler->context);
    case CL_SAMPLER_PROPERTIES:
        return know_bytes(answer, sampler->sampler.properties,
                          sampler->sampler.n_properties * sizeof *sampler->sampler.properties);
    default:
        return false;
    }
}

bool
vg_cl_know_program(struct vg_cl_object *object, cl_program_info param, struct vg_cl_answer *answer)
{
    struct vg_cl_program *program = object->program;

    switch (param) {
    case CL_PROGRAM_REFERENCE_COUNT:
        return know_refs(answer, object);
    case CL_PROGRAM_CONTEXT:
        return know_object(answer, object->context);
    case CL_PROGRAM_NUM_DEVICES:
        return know_number(answer, program->n_devices, sizeof(cl_uint));
    case CL_PROGRAM_DEVICES:
        return know_bytes(answer, program->devices, program->n_devices * sizeof(void *));
    case CL_PROGRAM_SOURCE:
        return (program->is_remade || program->made) && program->source &&
               know_bytes(answer, program->source, strlen(program->source) + 1);
    default:
        return false;
    }
}

/* Returns the program's build options, from those that the vendor got. */
static bool
know_options(struct vg_cl_object *object, struct vg_cl_object *device, struct vg_cl_answer *answer)
{
    const cl_icd_dispatch *cl = object->track->cl;
    size_t size = 0;

    cl_int result = cl->clGetProgramBuildInfo(object->real, device->real, CL_PROGRAM_BUILD_OPTIONS,
                                              0, NULL, &size);
    char *options = result == CL_SUCCESS ? calloc(1, size + 1) : NULL;
    if (!options)
        return false;
    cl->clGetProgramBuildInfo(object->real, device->real, CL_PROGRAM_BUILD_OPTIONS, size, options,
                              NULL);
    const char *own = vg_cl_kinds_without(options);
    memmove(options, own, strlen(own) + 1);
    return know_copy(answer, options, strlen(options) + 1);
}

bool
vg_cl_know_programbuild(struct vg_cl_object *object, struct vg_cl_object *device,
                        cl_program_build_info param, struct vg_cl_answer *answer)
{
    struct vg_cl_program *program = object->program;

    if (!device)
        return false;
    if (param == CL_PROGRAM_BUILD_OPTIONS && program->is_telling &&
        !(program->is_remade && program->options))
        return know_options(object, device, answer);
    if (!program->is_remade)
        return false;
    if (param == CL_PROGRAM_BUILD_OPTIONS && program->options)
        return know_bytes(answer, program->options, strlen(program->options) + 1);
    for (cl_uint i = 0; i < program->n_devices && program->logs; i++)
        if (param == CL_PROGRAM_BUILD_LOG && program->devices[i] == device && program->logs[i])
            return know_bytes(answer, program->logs[i], strlen(program->logs[i]) + 1);
    return false;
}

bool
vg_cl_know_kernel(struct vg_cl_object *kernel, cl_kernel_info param, struct vg_cl_answer *answer)
{
    switch (param) {
    case CL_KERNEL_REFERENCE_COUNT:
        return know_refs(answer, kernel);
    case CL_KERNEL_CONTEXT:
        return know_object(answer, kernel->context);
    case CL_KERNEL_PROGRAM:
        return know_object(answer, kernel->kernel.program);
    default:
        return false;
    }
}

bool
vg_cl_know_event(struct vg_cl_object *event, cl_event_info param, struct vg_cl_answer *answer)
{
    switch (param) {
    case CL_EVENT_COMMAND_QUEUE:
        return know_object(answer, event->event.queue);
    case CL_EVENT_CONTEXT:
        return know_object(answer, event->context);
    case CL_EVENT_COMMAND_TYPE:
        return know_number(answer, event->event.command, sizeof(cl_command_type));
    case CL_EVENT_REFERENCE_COUNT:
        return know_refs(answer, event);
    case CL_EVENT_COMMAND_EXECUTION_STATUS:
        return !event->real && know_number(answer, (uint32_t)event->event.status, sizeof(cl_int));
    default:
        return !event->real && know_error(answer, CL_INVALID_VALUE);
    }
}

bool
vg_cl_know_eventprofiling(struct vg_cl_object *event, cl_profiling_info param,
                          struct vg_cl_answer *answer)
{
    if (event->real)
        return false;
    if (!event->event.profile)
        return know_error(answer, CL_PROFILING_INFO_NOT_AVAILABLE);
    if (param < CL_PROFILING_COMMAND_QUEUED || param > CL_PROFILING_COMMAND_COMPLETE)
        return know_error(answer, CL_INVALID_VALUE);
    return know_number(answer, event->event.profile[param - CL_PROFILING_COMMAND_QUEUED],
                       sizeof(cl_ulong));
}
