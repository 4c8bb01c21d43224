/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "opencl/icd/entries.h"
#include "opencl/serve/handwritten.h"
#include "opencl/serve/output.h"
#include "opencl/serve/pinned.h"
#include "opencl/serve/sign.h"

#define CL vg_cl_dispatch

#define CALLS_NEW_MAX 4096 /* maximum number of objects that one call creates */

cl_int
vg_serve_hello(struct vg_serve_call *call)
{
    uint64_t magic = vg_wire_get(&call->in), version = vg_wire_get(&call->in);
    uint64_t n_devices[16], n = 0, most = 0;

    if (magic != VG_WIRE_MAGIC)
        call->in.is_bad = true;
    if (call->in.is_bad || version != VG_WIRE_VERSION)
        return CL_INVALID_VALUE;
    if (call->in.at < call->in.end)
        vg_serve_output_allow(call->serve, vg_wire_get(&call->in) & VG_WIRE_TAKES_OUTPUT);
    for (uint64_t id = 1; vg_serve_root(call->serve, id); id++) {
        const struct vg_cl_object *root = vg_serve_root(call->serve, id);
        cl_ulong size = 0;
        if (root->type == VG_CL_PLATFORM && n < 16) {
            n_devices[n++] = 0;
        } else if (n) {
            n_devices[n - 1]++;
            CL.clGetDeviceInfo((cl_device_id)(uintptr_t)root, CL_DEVICE_MAX_MEM_ALLOC_SIZE,
                               sizeof size, &size, NULL);
            most = size > most ? size : most;
        }
    }
    vg_wire_put_list(&call->out, n_devices, n * sizeof *n_devices);
    vg_wire_put(&call->out, most);
    return CL_SUCCESS;
}

cl_int
vg_serve_GetDeviceIDs(struct vg_serve_call *call)
{
    cl_device_type type = vg_wire_get(&call->in);
    cl_platform_id platform = vg_serve_object(call, VG_CL_PLATFORM);
    cl_device_id devices[256];
    uint64_t ids[256];
    cl_uint n = 0;

    if (call->in.is_bad)
        return CL_INVALID_VALUE;
    cl_int result = CL.clGetDeviceIDs(platform, type, 256, devices, &n);
    for (cl_uint i = 0; result == CL_SUCCESS && i < n && i < 256; i++)
        ids[i] = vg_serve_id_of(call->serve, devices[i]);
    vg_wire_put_list(&call->out, result == CL_SUCCESS ? ids : NULL,
                     (n < 256 ? n : 256) * sizeof *ids);
    return result;
}

cl_int
vg_serve_CreateContext(struct vg_serve_call *call)
{
    uint64_t n_devices = vg_wire_get(&call->in);
    const cl_device_id *devices = vg_serve_objects(call, VG_CL_DEVICE, n_devices);
    const uint64_t *given = vg_serve_pairs(call);
    size_t n = vg_cl_count_pairs((const intptr_t *)given);
    intptr_t *properties = given ? vg_serve_memory(call, n * sizeof *properties) : NULL;
    uint64_t id = vg_serve_new(call);
    cl_int error = CL_SUCCESS;

    if (call->in.is_bad)
        return CL_INVALID_VALUE;
    for (size_t i = 0; i < n; i++)
        properties[i] = i % 2 == 1 && properties[i - 1] == CL_CONTEXT_PLATFORM
                            ? (intptr_t)vg_serve_root(call->serve, given[i])
                            : (intptr_t)given[i];
    cl_context made =
        CL.clCreateContext(properties, (cl_uint)n_devices, devices, NULL, NULL, &error);
    vg_serve_made(call, id, VG_CL_CONTEXT, made);
    vg_serve_pinned_come(call->serve, made);
    vg_wire_put(&call->out, made != NULL);
    return error;
}

/* Reads the ids of N objects to be created, or returns NULL. */
static const uint64_t *
serve_get_new(struct vg_serve_call *call, uint64_t *n)
{
    uint64_t bytes = vg_wire_get(&call->in);

    *n = bytes / sizeof(uint64_t);
    if (bytes == VG_WIRE_NONE || *n > (size_t)(call->in.end - call->in.at) / sizeof(uint64_t)) {
        call->in.is_bad = call->in.is_bad || bytes != VG_WIRE_NONE;
        *n = 0;
        return NULL;
    }
    if (*n > CALLS_NEW_MAX)
        call->in.is_bad = true;
    uint64_t *ids = call->in.is_bad ? NULL : vg_serve_memory(call, *n * sizeof *ids);
    for (uint64_t i = 0; ids && i < *n; i++) {
        ids[i] = vg_serve_new(call);
        for (uint64_t j = 0; j < i; j++)
            if (ids[i] == ids[j] || !ids[i])
                call->in.is_bad = true;
    }
    return call->in.is_bad ? NULL : ids;
}

cl_int
vg_serve_CreateSubDevices(struct vg_serve_call *call)
{
    cl_uint n_wanted = (cl_uint)vg_wire_get(&call->in), n_made = 0;
    cl_device_id device = vg_serve_object(call, VG_CL_DEVICE);
    size_t size;
    const intptr_t *given = vg_wire_get_list(&call->in, &size);
    bool is_counts = vg_wire_get(&call->in);
    uint64_t n;
    const uint64_t *ids = serve_get_new(call, &n);
    cl_device_id *made = ids ? vg_serve_memory(call, n * sizeof *made) : NULL;
    intptr_t *properties = given ? vg_serve_memory(call, size + 2 * sizeof *properties) : NULL;

    (void)is_counts;
    if (call->in.is_bad || size % sizeof *properties)
        call->in.is_bad = true;
    if (call->in.is_bad)
        return CL_INVALID_VALUE;
    if (properties)
        memcpy(properties, given, size);
    cl_int result =
        CL.clCreateSubDevices(device, properties, ids ? (cl_uint)n : n_wanted, made, &n_made);
    for (cl_uint i = 0; result == CL_SUCCESS && made && i < n_made && i < n; i++)
        vg_serve_made(call, ids[i], VG_CL_DEVICE, made[i]);
    vg_wire_put(&call->out, n_made);
    return result;
}

cl_int
vg_serve_GetSupportedImageFormats(struct vg_serve_call *call)
{
    cl_mem_flags flags = vg_wire_get(&call->in);
    cl_mem_object_type type = (cl_mem_object_type)vg_wire_get(&call->in);
    cl_uint room = (cl_uint)vg_wire_get(&call->in), n = 0;
    bool has_room = vg_wire_get(&call->in);
    cl_context context = vg_serve_object(call, VG_CL_CONTEXT);

    room = room < 4096 ? room : 4096;
    cl_image_format *formats = has_room ? vg_serve_memory(call, room * sizeof *formats) : NULL;
    if (call->in.is_bad)
        return CL_INVALID_VALUE;
    cl_int result = CL.clGetSupportedImageFormats(context, flags, type, room, formats, &n);
    vg_wire_put(&call->out, n);
    vg_wire_put_list(&call->out, result == CL_SUCCESS ? formats : NULL,
                     (n < room ? n : room) * sizeof *formats);
    return result;
}

cl_int
vg_serve_CreateProgramWithSource(struct vg_serve_call *call)
{
    cl_context context = vg_serve_object(call, VG_CL_CONTEXT);
    size_t size;
    const char *source = vg_wire_get_list(&call->in, &size);
    uint64_t id = vg_serve_new(call);
    cl_int error = CL_SUCCESS;

    /* The source may contain a NUL, because its length is given. */
    if (call->in.is_bad || !source || size == 0 || source[size - 1] != '\0')
        call->in.is_bad = true;
    if (call->in.is_bad)
        return CL_INVALID_VALUE;
    size_t length = size - 1;
    cl_program made = CL.clCreateProgramWithSource(context, 1, &source, &length, &error);
    vg_serve_made(call, id, VG_CL_PROGRAM, made);
    vg_wire_put(&call->out, made != NULL);
    return error;
}

/* Returns whether a client may load binaries: any, or only those that this proxy has signed. */
static bool
calls_may_load(struct vg_serve *serve, uint64_t n, const cl_device_id *devices,
               const size_t *lengths, const cl_uchar **binaries)
{
    bool may = true;

    if (vg_serve_may_have_binaries(serve))
        return true;
    for (uint64_t i = 0; may && i < n; i++)
        may = devices && vg_serve_is_signed(serve, devices[i], binaries[i], lengths[i]);
    return may;
}

cl_int
vg_serve_CreateProgramWithBinary(struct vg_serve_call *call)
{
    uint64_t n = vg_wire_get(&call->in);
    cl_context context = vg_serve_object(call, VG_CL_CONTEXT);
    const cl_device_id *devices = vg_serve_objects(call, VG_CL_DEVICE, n);
    uint64_t id = vg_serve_new(call);
    cl_int error = CL_SUCCESS;

    if (n > (size_t)(call->in.end - call->in.at) / sizeof(uint64_t))
        call->in.is_bad = true;
    if (call->in.is_bad)
        return CL_INVALID_VALUE;
    size_t *lengths = vg_serve_memory(call, n * sizeof *lengths);
    const cl_uchar **binaries = vg_serve_memory(call, n * sizeof *binaries);
    cl_int *status = vg_serve_memory(call, n * sizeof *status);
    for (uint64_t i = 0; status && i < n; i++)
        status[i] = VG_WIRE_UNTOUCHED;
    for (uint64_t i = 0; !call->in.is_bad && i < n; i++)
        binaries[i] = vg_wire_get_list(&call->in, &lengths[i]);
    if (call->in.is_bad)
        return CL_INVALID_VALUE;
    if (!calls_may_load(call->serve, n, devices, lengths, binaries)) {
        for (uint64_t i = 0; i < n; i++)
            status[i] = CL_INVALID_BINARY;
        call->why = "a program binary that was compiled elsewhere, or for another VM or device";
        vg_wire_put_list(&call->out, status, n * sizeof *status);
        return CL_INVALID_BINARY;
    }
    cl_program made = CL.clCreateProgramWithBinary(context, (cl_uint)n, devices, lengths, binaries,
                                                   status, &error);
    vg_serve_made(call, id, VG_CL_PROGRAM, made);
    vg_wire_put_list(&call->out, status, n * sizeof *status);
    return error;
}

cl_int
vg_serve_ProgramBinaries(struct vg_serve_call *call)
{
    cl_program program = vg_serve_object(call, VG_CL_PROGRAM);
    const size_t room = vg_serve_sign_room(call->serve);
    cl_device_id devices[256];
    size_t sizes[256], size = 0, all = 0;

    if (call->in.is_bad)
        return CL_INVALID_VALUE;
    cl_int result =
        CL.clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof sizes, sizes, &size);
    size_t n = result == CL_SUCCESS ? size / sizeof *sizes : 0;
    for (size_t i = 0; i < n; i++)
        if (__builtin_add_overflow(all, sizes[i], &all) || __builtin_add_overflow(all, room, &all))
            return CL_OUT_OF_HOST_MEMORY;
    unsigned char **lists = vg_serve_memory(call, n * sizeof *lists);
    unsigned char *bytes = vg_serve_memory(call, all);
    if (!lists || !bytes)
        return CL_OUT_OF_HOST_MEMORY;
    for (size_t i = 0; i < n; i++) {
        lists[i] = sizes[i] ? bytes : NULL;
        bytes += sizes[i] + room;
    }
    if (result == CL_SUCCESS)
        result = CL.clGetProgramInfo(program, CL_PROGRAM_BINARIES, n * sizeof *lists, lists, NULL);
    if (result == CL_SUCCESS)
        result = CL.clGetProgramInfo(program, CL_PROGRAM_DEVICES, sizeof devices, devices, NULL);
    vg_wire_put(&call->out, n);
    for (size_t i = 0; i < n; i++) {
        if (result == CL_SUCCESS && room && sizes[i])
            vg_serve_sign(call->serve, program, devices[i], lists[i], sizes[i]);
        vg_wire_put_list(&call->out, lists[i], sizes[i] ? sizes[i] + room : 0);
    }
    return result;
}

cl_int
vg_serve_CreateKernelsInProgram(struct vg_serve_call *call)
{
    cl_uint n_wanted = (cl_uint)vg_wire_get(&call->in), n_made = 0;
    cl_program program = vg_serve_object(call, VG_CL_PROGRAM);
    uint64_t n;
    const uint64_t *ids = serve_get_new(call, &n);
    cl_kernel *made = ids ? vg_serve_memory(call, n * sizeof *made) : NULL;

    if (call->in.is_bad)
        return CL_INVALID_VALUE;
    cl_int result =
        CL.clCreateKernelsInProgram(program, ids ? (cl_uint)n : n_wanted, made, &n_made);
    for (cl_uint i = 0; result == CL_SUCCESS && made && i < n_made && i < n; i++)
        vg_serve_made(call, ids[i], VG_CL_KERNEL, made[i]);
    vg_wire_put(&call->out, n_made);
    return result;
}

/* Returns what an argument of KERNEL accepts, or NULL if there is none. */
static const struct vg_cl_arg *
calls_arg(cl_kernel kernel, cl_uint i)
{
    const struct vg_cl_object *object = vg_cl_as(kernel, VG_CL_KERNEL);

    return object && i < object->kernel.n_args ? &object->kernel.args[i] : NULL;
}

/* Vendors treat the bytes of a memory argument as one of their pointers, and follow it. These bytes
 * must not come from the client. */
static cl_int
calls_check_bytes(const struct vg_serve_call *call, const struct vg_cl_arg *arg, size_t size,
                  const void *value)
{
    uint64_t bytes = 0;

    if (size == sizeof bytes && value)
        memcpy(&bytes, value, sizeof bytes);
    if (!bytes || !arg || arg->declared == VG_CL_DECLARED_VALUE || arg->takes == VG_CL_TAKES_VALUE)
        return CL_SUCCESS;
    if (arg->takes == VG_CL_TAKES_MEM)
        return CL_INVALID_MEM_OBJECT;
    if (arg->takes == VG_CL_TAKES_SAMPLER)
        return CL_INVALID_SAMPLER;
    /* A client that may send its own code may send this. */
    return arg->declared == VG_CL_DECLARED_OPAQUE && vg_serve_may_have_binaries(call->serve)
               ? CL_SUCCESS
               : CL_INVALID_ARG_VALUE;
}

static cl_int
calls_set_object(struct vg_serve_call *call, cl_kernel kernel, cl_uint i, uint64_t type)
{
    const struct vg_cl_arg *arg = calls_arg(kernel, i);
    bool is_sampler = type == VG_CL_SAMPLER;
    void *object = type <= VG_CL_EVENT ? vg_serve_object(call, (enum vg_cl_type)type) : NULL;

    if (call->in.is_bad)
        return CL_INVALID_VALUE;
    if (arg && (!object || (!is_sampler && type != VG_CL_MEM) ||
                (arg->takes == VG_CL_TAKES_MEM && is_sampler) ||
                (arg->takes == VG_CL_TAKES_SAMPLER && !is_sampler)))
        return is_sampler ? CL_INVALID_SAMPLER : CL_INVALID_MEM_OBJECT;
    /* An image, a sampler or a number must not be anything else: it would be passed on as a number,
     * which the vendor may take for one of its handles. */
    if (arg && (arg->declared == VG_CL_DECLARED_VALUE ||
                (arg->declared == VG_CL_DECLARED_OPAQUE && !is_sampler &&
                 !((const struct vg_cl_object *)object)->mem.image)))
        return CL_INVALID_ARG_VALUE;
    return CL.clSetKernelArg(kernel, i, sizeof object, &object);
}

cl_int
vg_serve_SetKernelArg(struct vg_serve_call *call)
{
    cl_uint i = (cl_uint)vg_wire_get(&call->in), n = 0;
    size_t size = vg_wire_get(&call->in), has;
    uint64_t type = vg_wire_get(&call->in);
    cl_kernel kernel = vg_serve_object(call, VG_CL_KERNEL);

    if (type != VG_CL_NONE)
        return calls_set_object(call, kernel, i, type);
    const void *value = vg_wire_get_list(&call->in, &has);
    bool is_long = value && has == 0 && size > 0;
    if (value && has != size && !is_long)
        call->in.is_bad = true;
    if (call->in.is_bad)
        return CL_INVALID_VALUE;
    if (!is_long) {
        cl_int wrong = calls_check_bytes(call, calls_arg(kernel, i), size, value);
        return wrong != CL_SUCCESS ? wrong : CL.clSetKernelArg(kernel, i, size, value);
    }
    /* This is longer than any argument. */
    cl_int result = CL.clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof n, &n, NULL);
    return result != CL_SUCCESS ? result : i < n ? CL_INVALID_ARG_SIZE : CL_INVALID_ARG_INDEX;
}

/* ---- events ---- */

struct serve_notify {
    struct vg_serve *serve;
    uint64_t token;
};

static void CL_CALLBACK
serve_on_event(cl_event event, cl_int status, void *data)
{
    struct serve_notify *notify = data;

    (void)event;
    vg_serve_say_event(notify->serve, notify->token, status);
    vg_serve_leave_place(notify->serve);
    free(notify);
}

cl_int
vg_serve_SetEventCallback(struct vg_serve_call *call)
{
    cl_int type = (cl_int)(int64_t)vg_wire_get(&call->in);
    uint64_t token = vg_wire_get(&call->in);
    cl_event event = vg_serve_object(call, VG_CL_EVENT);

    if (call->in.is_bad)
        return CL_INVALID_VALUE;
    struct serve_notify *notify = malloc(sizeof *notify);
    if (!notify)
        return CL_OUT_OF_HOST_MEMORY;
    *notify = (struct serve_notify){call->serve, token};
    if (!vg_serve_take_place(call->serve)) {
        free(notify);
        return CL_OUT_OF_HOST_MEMORY;
    }
    cl_int result = CL.clSetEventCallback(event, type, serve_on_event, notify);
    if (result != CL_SUCCESS) {
        vg_serve_leave_place(call->serve);
        free(notify);
    }
    return result;
}
