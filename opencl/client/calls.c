/* SPDX-License-Identifier: Apache-2.0
 *
 * Hand-written functions of the program's side: those with other objects as arguments, and those
 * with callbacks.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "opencl/base/say.h"
#include "opencl/client/later.h"
#include "opencl/client/table.h"

#define CALLS_MADE_MAX 4096  /* maximum number of objects, formats or lists in an answer */
#define CALLS_ARG_MAX  65536 /* maximum bytes of an argument; vendors allow a few thousand */

/* ---- platforms, devices, contexts ---- */

cl_int CL_API_CALL
vg_wire_GetDeviceIDs(cl_platform_id platform, cl_device_type device_type, cl_uint num_entries,
                     cl_device_id *devices, cl_uint *num_devices)
{
    struct vg_wire_call call;
    size_t size;

    vg_wire_call_begin(&call, platform, VG_WIRE_OP_GetDeviceIDs);
    vg_wire_put(&call.out, device_type);
    vg_wire_put_object(&call, platform);
    cl_int result = vg_wire_call_ask(&call);
    const uint64_t *ids = vg_wire_get_list(&call.in, &size);
    cl_uint n = 0;
    for (size_t i = 0; ids && i < size / sizeof *ids; i++) {
        struct vg_wire_object *device = vg_wire_root(call.client, ids[i]);
        if (!device || device->type != VG_CL_DEVICE)
            continue;
        if (devices && n < num_entries)
            devices[n] = (cl_device_id)device;
        n++;
    }
    if (result == CL_SUCCESS && num_devices)
        *num_devices = n;
    vg_wire_call_end(&call);
    return result;
}

/* Functions of the program cannot be called from another machine. */
cl_int CL_API_CALL
vg_wire_GetDeviceInfo(cl_device_id device, cl_device_info param_name, size_t param_value_size,
                      void *param_value, size_t *param_value_size_ret)
{
    cl_int result = vg_wire_ask_GetDeviceInfo(device, param_name, param_value_size, param_value,
                                              param_value_size_ret);

    if (result == CL_SUCCESS && param_value && param_name == CL_DEVICE_EXECUTION_CAPABILITIES &&
        param_value_size >= sizeof(cl_device_exec_capabilities))
        *(cl_device_exec_capabilities *)param_value &=
            ~(cl_device_exec_capabilities)CL_EXEC_NATIVE_KERNEL;
    return result;
}

cl_context CL_API_CALL
vg_wire_CreateContext(const cl_context_properties *properties, cl_uint num_devices,
                      const cl_device_id *devices, vg_cl_context_notify pfn_notify, void *user_data,
                      cl_int *errcode_ret)
{
    struct vg_wire_call call;
    cl_uint n = vg_cl_count_pairs(properties);

    if (!pfn_notify && user_data) {
        vg_cl_set_error(errcode_ret, CL_INVALID_VALUE);
        return NULL;
    }
    vg_wire_call_begin(&call, devices[0], VG_WIRE_OP_CreateContext);
    vg_wire_put(&call.out, num_devices);
    vg_wire_put_objects(&call, num_devices, devices);
    vg_wire_put(&call.out, properties ? n * sizeof *properties : VG_WIRE_NONE);
    for (cl_uint i = 0; i < n; i++) {
        bool is_platform = i % 2 == 1 && properties[i - 1] == CL_CONTEXT_PLATFORM;
        if (is_platform)
            vg_wire_put_object(&call, (const void *)properties[i]);
        else
            vg_wire_put(&call.out, (uint64_t)properties[i]);
    }
    struct vg_wire_object *made = vg_wire_new(&call, VG_CL_CONTEXT, NULL);
    return vg_wire_call_made(&call, made, errcode_ret);
}

/* ---- queues, and what they have done ---- */

static cl_command_queue
calls_note_order(cl_command_queue queue, cl_command_queue_properties properties)
{
    if (queue)
        vg_wire_object(queue)->order = properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE
                                           ? VG_WIRE_ORDER_OUT
                                           : VG_WIRE_ORDER_IN;
    return queue;
}

cl_command_queue CL_API_CALL
vg_wire_CreateCommandQueue(cl_context context, cl_device_id device,
                           cl_command_queue_properties properties, cl_int *errcode_ret)
{
    return calls_note_order(
        vg_wire_ask_CreateCommandQueue(context, device, properties, errcode_ret), properties);
}

cl_command_queue CL_API_CALL
vg_wire_CreateCommandQueueWithProperties(cl_context context, cl_device_id device,
                                         const cl_queue_properties *properties, cl_int *errcode_ret)
{
    cl_command_queue_properties bits = 0;

    for (size_t i = 0; properties && properties[i]; i += 2)
        if (properties[i] == CL_QUEUE_PROPERTIES)
            bits = properties[i + 1];
    return calls_note_order(
        vg_wire_ask_CreateCommandQueueWithProperties(context, device, properties, errcode_ret),
        bits);
}

cl_int CL_API_CALL
vg_wire_Finish(cl_command_queue command_queue)
{
    const struct vg_wire_object *queue = vg_wire_object(command_queue);

    if (!queue)
        return CL_INVALID_COMMAND_QUEUE;
    uint64_t last = vg_wire_last(queue->client);
    cl_int result = vg_wire_ask_Finish(command_queue);
    return result == CL_SUCCESS ? vg_wire_settle(queue->client, queue->serial, 0, last) : result;
}

cl_int CL_API_CALL
vg_wire_WaitForEvents(cl_uint num_events, const cl_event *event_list)
{
    cl_int result = vg_wire_ask_WaitForEvents(num_events, event_list);
    bool are_over = result == CL_SUCCESS || result == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;

    for (cl_uint i = 0; are_over && i < num_events; i++)
        if (vg_wire_settle_event(vg_wire_object(event_list[i])) != CL_SUCCESS)
            result = VG_WIRE_BROKEN;
    return result;
}

cl_int CL_API_CALL
vg_wire_GetEventInfo(cl_event event, cl_event_info param_name, size_t param_value_size,
                     void *param_value, size_t *param_value_size_ret)
{
    cl_int status = CL_QUEUED;
    cl_int result = vg_wire_ask_GetEventInfo(event, param_name, param_value_size, param_value,
                                             param_value_size_ret);

    if (result == CL_SUCCESS && param_name == CL_EVENT_COMMAND_EXECUTION_STATUS && param_value &&
        param_value_size >= sizeof status)
        memcpy(&status, param_value, sizeof status);
    return status <= CL_COMPLETE && vg_wire_settle_event(vg_wire_object(event)) != CL_SUCCESS
               ? VG_WIRE_BROKEN
               : result;
}

/* ---- several objects at a time ---- */

/* Puts N new objects of TYPE, which are stored in MADE. */
static bool
calls_put_new(struct vg_wire_call *call, enum vg_cl_type type, const void *context, cl_uint n,
              struct vg_wire_object **made)
{
    bool ok = true;

    vg_wire_put(&call->out, n * sizeof(uint64_t));
    for (cl_uint i = 0; i < n; i++) {
        made[i] = vg_wire_new(call, type, context);
        ok = ok && made[i];
    }
    return ok;
}

/* Ends a call that creates up to N objects and reports their number. */
static cl_int
calls_made(struct vg_wire_call *call, bool ok, cl_uint n, struct vg_wire_object **made,
           cl_uint *n_ret)
{
    cl_int result = ok ? vg_wire_call_ask(call) : CL_OUT_OF_HOST_MEMORY;
    uint64_t there = result == CL_SUCCESS ? vg_wire_get(&call->in) : 0;

    if (result == CL_SUCCESS && (call->in.is_bad || (made && there > n)))
        result = VG_WIRE_BROKEN;
    for (cl_uint i = 0; i < n; i++)
        if (result != CL_SUCCESS || i >= there) {
            vg_wire_free(made[i]);
            made[i] = NULL;
        }
    if (result == CL_SUCCESS && n_ret)
        *n_ret = (cl_uint)there;
    vg_wire_call_end(call);
    return result;
}

cl_int CL_API_CALL
vg_wire_CreateSubDevices(cl_device_id in_device, const cl_device_partition_property *properties,
                         cl_uint num_devices, cl_device_id *out_devices, cl_uint *num_devices_ret)
{
    struct vg_wire_call call;
    size_t n = 0;
    cl_uint room = num_devices < CALLS_MADE_MAX ? num_devices : CALLS_MADE_MAX;

    while (properties && properties[n] != 0)
        n++;
    vg_wire_call_begin(&call, in_device, VG_WIRE_OP_CreateSubDevices);
    vg_wire_put(&call.out, out_devices ? room : num_devices);
    vg_wire_put_object(&call, in_device);
    /* A list of counts is followed by another 0. */
    bool is_counts = properties && properties[0] == CL_DEVICE_PARTITION_BY_COUNTS;
    vg_wire_put_list(&call.out, properties, (n + 1) * sizeof *properties);
    vg_wire_put(&call.out, is_counts);
    bool ok = !out_devices ||
              calls_put_new(&call, VG_CL_DEVICE, NULL, room, (struct vg_wire_object **)out_devices);
    if (!out_devices)
        vg_wire_put(&call.out, VG_WIRE_NONE);
    return calls_made(&call, ok, out_devices ? room : 0, (struct vg_wire_object **)out_devices,
                      num_devices_ret);
}

cl_int CL_API_CALL
vg_wire_GetSupportedImageFormats(cl_context context, cl_mem_flags flags,
                                 cl_mem_object_type image_type, cl_uint num_entries,
                                 cl_image_format *image_formats, cl_uint *num_image_formats)
{
    struct vg_wire_call call;
    size_t size;

    vg_wire_call_begin(&call, context, VG_WIRE_OP_GetSupportedImageFormats);
    vg_wire_put(&call.out, flags);
    vg_wire_put(&call.out, image_type);
    vg_wire_put(&call.out, num_entries);
    vg_wire_put(&call.out, image_formats != NULL);
    vg_wire_put_object(&call, context);
    cl_int result = vg_wire_call_ask(&call);
    uint64_t n = vg_wire_get(&call.in);
    const void *list = vg_wire_get_list(&call.in, &size);
    uint64_t most = n < num_entries ? n : num_entries;
    if (result == CL_SUCCESS &&
        (call.in.is_bad ||
         (image_formats && (!list || size > most * sizeof *image_formats ||
                            (size < most * sizeof *image_formats && most <= CALLS_MADE_MAX)))))
        result = VG_WIRE_BROKEN;
    if (result == CL_SUCCESS && image_formats)
        memcpy(image_formats, list, size);
    if (result == CL_SUCCESS && num_image_formats)
        *num_image_formats = (cl_uint)n;
    vg_wire_call_end(&call);
    return result;
}

/* ---- programs and kernels ---- */

cl_program CL_API_CALL
vg_wire_CreateProgramWithSource(cl_context context, cl_uint count, const char **strings,
                                const size_t *lengths, cl_int *errcode_ret)
{
    struct vg_wire_call call;
    size_t size = 1;
    bool ok = strings && count;

    for (cl_uint i = 0; ok && i < count; i++)
        ok = strings[i] != NULL;
    for (cl_uint i = 0; ok && i < count; i++)
        size += lengths && lengths[i] ? lengths[i] : strlen(strings[i]);
    char *source = ok ? malloc(size) : NULL, *to = source;
    for (cl_uint i = 0; source && i < count; i++) {
        size_t length = lengths && lengths[i] ? lengths[i] : strlen(strings[i]);
        memcpy(to, strings[i], length);
        to += length;
    }
    if (!source) {
        vg_cl_set_error(errcode_ret, ok ? CL_OUT_OF_HOST_MEMORY : CL_INVALID_VALUE);
        return NULL;
    }
    *to = '\0';
    vg_wire_call_begin(&call, context, VG_WIRE_OP_CreateProgramWithSource);
    vg_wire_put_object(&call, context);
    vg_wire_put_list(&call.out, source, size);
    free(source);
    struct vg_wire_object *made = vg_wire_new(&call, VG_CL_PROGRAM, context);
    return vg_wire_call_made(&call, made, errcode_ret);
}

cl_program CL_API_CALL
vg_wire_CreateProgramWithBinary(cl_context context, cl_uint num_devices,
                                const cl_device_id *device_list, const size_t *lengths,
                                const cl_uchar **binaries, cl_int *binary_status,
                                cl_int *errcode_ret)
{
    struct vg_wire_call call;
    size_t size = 0;

    if (!lengths || !binaries) {
        vg_cl_set_error(errcode_ret, CL_INVALID_VALUE);
        return NULL;
    }
    vg_wire_call_begin(&call, context, VG_WIRE_OP_CreateProgramWithBinary);
    vg_wire_put(&call.out, num_devices);
    vg_wire_put_object(&call, context);
    vg_wire_put_objects(&call, num_devices, device_list);
    struct vg_wire_object *made = vg_wire_new(&call, VG_CL_PROGRAM, context);
    for (cl_uint i = 0; i < num_devices; i++)
        vg_wire_put_list(&call.out, lengths[i] ? binaries[i] : NULL, lengths[i]);
    cl_int result = made ? vg_wire_call_ask(&call) : CL_OUT_OF_HOST_MEMORY;
    const cl_int *status = result == VG_WIRE_BROKEN ? NULL : vg_wire_get_list(&call.in, &size);
    for (size_t i = 0; status && binary_status && i < num_devices && i < size / sizeof *status; i++)
        if (status[i] != VG_WIRE_UNTOUCHED)
            binary_status[i] = status[i];
    vg_wire_call_end(&call);
    vg_cl_set_error(errcode_ret, result);
    if (result == CL_SUCCESS)
        return (cl_program)made;
    vg_wire_free(made);
    return NULL;
}

/* Notes the sizes for which the program allocates memory: N sizes at VALUE. */
static void
calls_keep_sizes(struct vg_wire_object *program, const void *value, size_t n)
{
    size_t *sizes = vg_cl_copy(value, n, sizeof *sizes);

    vg_wire_lock(program->client);
    free(program->sizes);
    program->sizes = sizes;
    program->n_sizes = sizes ? n : 0;
    vg_wire_unlock(program->client);
}

/* Returns whether such a large size of a binary was reported to the program. */
static bool
calls_has_size(const struct vg_wire_object *program, uint64_t i, size_t size)
{
    vg_wire_lock(program->client);
    bool has = i < program->n_sizes && size <= program->sizes[i];
    vg_wire_unlock(program->client);
    return has;
}

/* Binaries are written to the addresses in a list, with the sizes that were queried. */
static cl_int
calls_get_binaries(cl_program program, size_t size, unsigned char **lists, size_t *size_ret)
{
    struct vg_wire_call call;

    vg_wire_call_begin(&call, program, VG_WIRE_OP_ProgramBinaries);
    vg_wire_put_object(&call, program);
    cl_int result = vg_wire_call_ask(&call);
    uint64_t n = result == CL_SUCCESS ? vg_wire_get(&call.in) : 0;
    if (result == CL_SUCCESS && n > CALLS_MADE_MAX)
        result = VG_WIRE_BROKEN;
    if (result == CL_SUCCESS && lists && size < n * sizeof *lists)
        result = CL_INVALID_VALUE;
    for (uint64_t i = 0; result == CL_SUCCESS && lists && i < n; i++) {
        size_t has;
        const void *binary = vg_wire_get_list(&call.in, &has);
        if (call.in.is_bad || (binary && !calls_has_size(vg_wire_object(program), i, has)))
            result = CL_INVALID_VALUE;
        else if (binary && lists[i])
            memcpy(lists[i], binary, has);
    }
    if (result == CL_SUCCESS && size_ret)
        *size_ret = n * sizeof *lists;
    vg_wire_call_end(&call);
    return result;
}

cl_int CL_API_CALL
vg_wire_GetProgramInfo(cl_program program, cl_program_info param_name, size_t param_value_size,
                       void *param_value, size_t *param_value_size_ret)
{
    size_t size = SIZE_MAX;

    if (param_name == CL_PROGRAM_BINARIES)
        return calls_get_binaries(program, param_value_size, param_value, param_value_size_ret);
    cl_int result =
        vg_wire_ask_GetProgramInfo(program, param_name, param_value_size, param_value, &size);
    if (param_value_size_ret && size != SIZE_MAX)
        *param_value_size_ret = size;
    if (result == CL_SUCCESS && param_value && param_name == CL_PROGRAM_BINARY_SIZES)
        calls_keep_sizes(vg_wire_object(program), param_value,
                         (size < param_value_size ? size : param_value_size) / sizeof size);
    return result;
}

cl_int CL_API_CALL
vg_wire_CreateKernelsInProgram(cl_program program, cl_uint num_kernels, cl_kernel *kernels,
                               cl_uint *num_kernels_ret)
{
    struct vg_wire_call call;
    cl_uint room = num_kernels < CALLS_MADE_MAX ? num_kernels : CALLS_MADE_MAX;

    vg_wire_call_begin(&call, program, VG_WIRE_OP_CreateKernelsInProgram);
    vg_wire_put(&call.out, kernels ? room : num_kernels);
    vg_wire_put_object(&call, program);
    bool ok = !kernels || calls_put_new(&call, VG_CL_KERNEL, vg_wire_object(program)->context, room,
                                        (struct vg_wire_object **)kernels);
    if (!kernels)
        vg_wire_put(&call.out, VG_WIRE_NONE);
    return calls_made(&call, ok, kernels ? room : 0, (struct vg_wire_object **)kernels,
                      num_kernels_ret);
}

/* If the tracker has the object itself, it passes its handle, so that a number that happens to
 * equal a handle can be distinguished. */
static const struct vg_wire_object *
calls_object_at(const void *value, size_t size)
{
    const struct vg_cl_object *object =
        size == sizeof object->real && value
            ? vg_cl_any((const char *)value - offsetof(struct vg_cl_object, real))
            : NULL;

    return object ? object->real : NULL;
}

cl_int CL_API_CALL
vg_wire_SetKernelArg(cl_kernel kernel, cl_uint arg_index, size_t arg_size, const void *arg_value)
{
    struct vg_wire_call call;
    const struct vg_wire_object *object = calls_object_at(arg_value, arg_size);

    vg_wire_call_begin(&call, kernel, VG_WIRE_OP_SetKernelArg);
    vg_wire_put(&call.out, arg_index);
    vg_wire_put(&call.out, arg_size);
    vg_wire_put(&call.out, object ? object->type : VG_CL_NONE);
    vg_wire_put_object(&call, kernel);
    if (object)
        vg_wire_put_object(&call, object);
    else
        vg_wire_put_list(&call.out, arg_value, arg_size <= CALLS_ARG_MAX ? arg_size : 0);
    vg_wire_later_SetKernelArg(&call, kernel, arg_index, arg_size, object, arg_value);
    cl_int result = call.is_later ? vg_wire_call_post(&call) : vg_wire_call_ask(&call);
    vg_wire_call_end(&call);
    return result;
}

/* ---- events ---- */

cl_int CL_API_CALL
vg_wire_SetEventCallback(cl_event event, cl_int command_exec_callback_type,
                         vg_cl_event_notify pfn_notify, void *user_data)
{
    struct vg_wire_call call;
    struct vg_wire_client *client = vg_wire_object(event)->client;
    uint64_t token = vg_wire_expect_event(client, pfn_notify, event, user_data);

    if (!token)
        return CL_OUT_OF_HOST_MEMORY;
    vg_wire_call_begin(&call, event, VG_WIRE_OP_SetEventCallback);
    vg_wire_put(&call.out, (uint64_t)command_exec_callback_type);
    vg_wire_put(&call.out, token);
    vg_wire_put_object(&call, event);
    cl_int result = vg_wire_call_ask(&call);
    vg_wire_call_end(&call);
    if (result != CL_SUCCESS)
        vg_wire_forget_event(client, token);
    return result;
}

cl_int CL_API_CALL
vg_wire_EnqueueNativeKernel(cl_command_queue command_queue, vg_cl_native_kernel user_func,
                            void *args, size_t cb_args, cl_uint num_mem_objects,
                            const cl_mem *mem_list, const void **args_mem_loc,
                            cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                            cl_event *event)
{
    (void)command_queue;
    (void)args;
    (void)cb_args;
    (void)num_mem_objects;
    (void)mem_list;
    (void)args_mem_loc;
    (void)num_events_in_wait_list;
    (void)event_wait_list;
    (void)event;
    if (!user_func)
        return CL_INVALID_VALUE;
    vg_cl_say("a proxy cannot run the program's own native functions");
    return CL_INVALID_OPERATION;
}
