/* SPDX-License-Identifier: Apache-2.0
 *
 * A program's library at a proxy that lies (opencl-liar.h). The program gives memory that is as
 * large as it says, frees it as soon as the standard lets it, and never waits for ever, as the link
 * is closed at the end.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opencl/client/client.h"
#include "opencl/client/table.h"
#include "tests/fuzz/opencl-liar.h"

#define CLIENT_EACH  6
#define CLIENT_ROOMS 64
#define CL           vg_wire_dispatch

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct client_mem {
    cl_mem mem;
    size_t size, width, height, element;
    void *host;
    void *map;
};

static struct {
    cl_platform_id platform;
    cl_device_id device;
    cl_context context;
    cl_command_queue queue;
    cl_program program;
    cl_kernel kernel;
    struct client_mem mems[CLIENT_EACH];
    cl_event events[CLIENT_EACH], last; /* of the last read or write, if it has one */
    void *rooms[CLIENT_ROOMS];          /* that commands may use */
    unsigned n_rooms;
} has;

/* The queue, which is in order, has done all that was put into it. */
static void
free_rooms(void)
{
    while (has.n_rooms)
        free(has.rooms[--has.n_rooms]);
}

/* Memory that is there until commands are done. */
static void *
room(size_t size)
{
    void *bytes = malloc(size ? size : 1);

    if (!bytes || has.n_rooms == CLIENT_ROOMS)
        abort();
    memset(bytes, 0, size ? size : 1);
    has.rooms[has.n_rooms++] = bytes;
    return bytes;
}

static void CL_CALLBACK
on_event(cl_event event, cl_int status, void *data)
{
    (void)event;
    (void)status;
    (void)data;
}

/* ---- objects ---- */

static struct client_mem *
any_mem(void)
{
    struct client_mem *mem = &has.mems[liar_byte() % CLIENT_EACH];

    return mem->mem ? mem : NULL;
}

static void
end_event(unsigned i)
{
    if (has.events[i])
        CL.clReleaseEvent(has.events[i]);
    has.events[i] = NULL;
}

static cl_event *
new_event(void)
{
    uint8_t byte = liar_byte();
    unsigned i = byte % CLIENT_EACH;

    if (byte >= 0xC0)
        return NULL;
    end_event(i);
    return &has.events[i];
}

static void
release_mem(struct client_mem *mem)
{
    CL.clReleaseMemObject(mem->mem);
    free(mem->host);
    *mem = (struct client_mem){.mem = NULL};
}

static void
make_mem(void)
{
    struct client_mem *mem = &has.mems[liar_byte() % CLIENT_EACH];
    uint8_t how = liar_byte();
    cl_mem_flags flags = how & 1 ? CL_MEM_USE_HOST_PTR : how & 2 ? CL_MEM_COPY_HOST_PTR : 0;
    size_t size = how & 4 ? 20000 : 64 + how;
    cl_int error = CL_SUCCESS;

    if (mem->mem || !has.context)
        return;
    if (how & 8) {
        const cl_image_format formats[] = {{CL_RGBA, CL_UNSIGNED_INT8}, {CL_R, CL_FLOAT}};
        cl_image_desc desc = {
            .image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 8, .image_height = 4};
        mem->width = 8;
        mem->height = 4;
        mem->element = 4;
        size = 8 * 4 * 4;
        mem->host = flags ? calloc(1, size) : NULL;
        liar_expect(0, 4);
        mem->mem =
            CL.clCreateImage(has.context, flags, &formats[how >> 4 & 1], &desc, mem->host, &error);
    } else {
        mem->host = flags ? calloc(1, size) : NULL;
        liar_expect(0, 0);
        mem->mem = CL.clCreateBuffer(has.context, flags, size, mem->host, &error);
    }
    mem->size = size;
    if (!mem->mem != (error != CL_SUCCESS))
        abort();
    if (mem->mem)
        return;
    free(mem->host);
    *mem = (struct client_mem){.mem = NULL};
}

static void
make_part(void)
{
    struct client_mem *whole = any_mem(), *part = &has.mems[liar_byte() % CLIENT_EACH];
    const cl_buffer_region region = {8, 32};
    cl_int error;

    if (!whole || whole->element || whole->host || part->mem)
        return;
    liar_expect(0, 0);
    part->mem = CL.clCreateSubBuffer(whole->mem, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &error);
    part->size = region.size;
}

static void
make_objects(void)
{
    const char *source = "kernel void k() { }";
    cl_int error;

    liar_expect(1, 0);
    if (!has.context)
        has.context = CL.clCreateContext(NULL, 1, &has.device, NULL, NULL, &error);
    if (!has.context)
        return;
    liar_expect(1, 0);
    if (!has.queue)
        has.queue = CL.clCreateCommandQueue(has.context, has.device, 0, &error);
    liar_expect(1, 0);
    if (!has.program)
        has.program = CL.clCreateProgramWithSource(has.context, 1, &source, NULL, &error);
    liar_expect(1, 0);
    if (has.program && !has.kernel)
        has.kernel = CL.clCreateKernel(has.program, "k", &error);
}

/* ---- what is asked for ---- */

/* A value into room of exactly its size. */
static void
ask_info(void)
{
    uint8_t what = liar_byte(), size = liar_byte() % 40;
    unsigned char *value = what & 0x80 ? NULL : malloc(size ? size : 1);
    size_t size_ret;

    liar_expect(what & 0x40 ? 8 : size, 0);
    const cl_uint param = liar_byte();
    switch (what % 10) {
    case 0:
        CL.clGetPlatformInfo(has.platform, param + 0x900, size, value, &size_ret);
        break;
    case 1:
        CL.clGetDeviceInfo(has.device,
                           param & 1 ? CL_DEVICE_EXECUTION_CAPABILITIES : param + 0x1000, size,
                           value, &size_ret);
        break;
    case 2:
        if (has.context)
            CL.clGetContextInfo(has.context, param + 0x1080, size, value, &size_ret);
        break;
    case 3:
        if (has.queue)
            CL.clGetCommandQueueInfo(has.queue, param + 0x1090, size, value, &size_ret);
        break;
    case 4:
        if (has.mems[0].mem)
            CL.clGetMemObjectInfo(has.mems[0].mem, param % 8 + 0x1100, size, value, &size_ret);
        break;
    case 5:
        for (unsigned i = 0; i < CLIENT_EACH; i++)
            if (has.mems[i].mem && has.mems[i].element)
                CL.clGetImageInfo(has.mems[i].mem, param % 8 + 0x1110, size, value, &size_ret);
        break;
    case 6:
        if (has.program)
            CL.clGetProgramBuildInfo(has.program, has.device, param % 8 + 0x1181, size, value,
                                     &size_ret);
        break;
    case 7:
        if (has.kernel)
            CL.clGetKernelArgInfo(has.kernel, 0, param % 8 + 0x1196, size, value, &size_ret);
        break;
    case 8:
        if (has.events[0])
            CL.clGetEventInfo(has.events[0], param % 8 + 0x11D0, size, value, &size_ret);
        break;
    default:
        if (has.kernel)
            CL.clGetKernelWorkGroupInfo(has.kernel, has.device, param % 8 + 0x11B0, size, value,
                                        &size_ret);
    }
    free(value);
}

/* As programs do: first how large they are, then they themselves. */
static void
ask_binaries(void)
{
    size_t n = 1 + liar_byte() % 3, *sizes = calloc(n, sizeof *sizes);
    unsigned char **lists = calloc(n, sizeof *lists);
    bool asks = liar_byte() < 0xC0;

    if (!has.program || !sizes || !lists)
        goto out;
    liar_expect(n * sizeof *sizes, 0);
    if (asks && CL.clGetProgramInfo(has.program, CL_PROGRAM_BINARY_SIZES, n * sizeof *sizes, sizes,
                                    NULL) != CL_SUCCESS)
        goto out;
    for (size_t i = 0; i < n; i++)
        lists[i] = sizes[i] < 65536 ? malloc(sizes[i] ? sizes[i] : 1) : NULL;
    liar_expect(sizes[0], 0);
    CL.clGetProgramInfo(has.program, CL_PROGRAM_BINARIES, n * sizeof *lists, lists, NULL);
    for (size_t i = 0; i < n; i++)
        free(lists[i]);
out:
    free(sizes);
    free(lists);
}

/* Lists of which the program knows how long they may be. */
static void
ask_lists(void)
{
    uint8_t how = liar_byte();
    cl_uint n = how >> 4, n_ret = 0;
    void **list = n ? calloc(n, sizeof *list) : NULL;
    void *const unwritten = &has;
    cl_int result = CL_INVALID_VALUE, error;

    for (cl_uint i = 0; i < n; i++)
        list[i] = unwritten;
    liar_expect(n * sizeof *list, 0);
    if (how % 5 == 0) {
        CL.clGetDeviceIDs(has.platform, CL_DEVICE_TYPE_ALL, n, (cl_device_id *)list, &n_ret);
    } else if (how % 5 == 1 && has.context) {
        result = CL.clGetSupportedImageFormats(has.context, 0, CL_MEM_OBJECT_IMAGE2D, n,
                                               (cl_image_format *)list, &n_ret);
        /* All that it says that there is has been written. */
        for (cl_uint i = 0; result == CL_SUCCESS && list && i < n_ret && i < n; i++)
            if (list[i] == unwritten)
                abort();
    } else if (how % 5 == 2 && has.program) {
        result = CL.clCreateKernelsInProgram(has.program, n, (cl_kernel *)list, &n_ret);
        for (cl_uint i = 0; result == CL_SUCCESS && list && i < n_ret; i++)
            CL.clReleaseKernel(list[i]);
    } else if (how % 5 == 3) {
        const cl_device_partition_property halves[] = {CL_DEVICE_PARTITION_EQUALLY, 1, 0};
        result = CL.clCreateSubDevices(has.device, halves, n, (cl_device_id *)list, &n_ret);
        for (cl_uint i = 0; result == CL_SUCCESS && list && i < n_ret; i++)
            CL.clReleaseDevice(list[i]);
    } else if (has.context) {
        const unsigned char *binary = (const unsigned char *)"bin";
        const size_t size = 3;
        cl_int *status = malloc(sizeof *status);
        cl_program made = CL.clCreateProgramWithBinary(has.context, 1, &has.device, &size, &binary,
                                                       status, &error);
        if (made)
            CL.clReleaseProgram(made);
        free(status);
    }
    free(list);
}

/* ---- commands ---- */

static void
read_and_write(void)
{
    struct client_mem *mem = any_mem();
    uint8_t how = liar_byte();
    bool is_blocking = how & 1;
    const size_t origin[3] = {0}, region[3] = {mem && mem->element ? 2 : 8, 2, 1};

    if (!mem || !has.queue)
        return;
    size_t size = mem->element ? region[0] * 2 * mem->element : how & 2 ? 16 : mem->size;
    unsigned char *bytes = has.n_rooms < CLIENT_ROOMS - 1 ? room(size) : NULL;
    if (!bytes)
        return;
    liar_expect(size, 0);
    cl_event *event = new_event();
    has.last = NULL;
    if (mem->element && how & 4)
        CL.clEnqueueReadImage(has.queue, mem->mem, is_blocking, origin, region, 0, 0, bytes, 0,
                              NULL, event);
    else if (mem->element)
        CL.clEnqueueWriteImage(has.queue, mem->mem, is_blocking, origin, region, 0, 0, bytes, 0,
                               NULL, event);
    else if (how & 2 && how & 4)
        CL.clEnqueueReadBufferRect(has.queue, mem->mem, is_blocking, origin, origin, region, 8, 16,
                                   8, 16, bytes, 0, NULL, event);
    else if (how & 2)
        CL.clEnqueueWriteBufferRect(has.queue, mem->mem, is_blocking, origin, origin, region, 8, 16,
                                    8, 16, bytes, 0, NULL, event);
    else if (how & 4)
        CL.clEnqueueReadBuffer(has.queue, mem->mem, is_blocking, 0, size, bytes, 0, NULL, event);
    else
        CL.clEnqueueWriteBuffer(has.queue, mem->mem, is_blocking, 0, size, bytes, 0, NULL, event);
    has.last = event ? *event : NULL;
}

/* What failed, and what is not waited for and failed, is freed at once. */
static void
read_and_free(void)
{
    struct client_mem *mem = any_mem();

    if (!mem || mem->element || !has.queue)
        return;
    unsigned char *bytes = malloc(mem->size);
    has.last = NULL;
    liar_expect(mem->size, 0);
    cl_int result =
        CL.clEnqueueReadBuffer(has.queue, mem->mem, CL_FALSE, 0, mem->size, bytes, 0, NULL, NULL);
    if (result != CL_SUCCESS || has.n_rooms == CLIENT_ROOMS)
        free(bytes);
    else
        has.rooms[has.n_rooms++] = bytes;
}

static void
map(void)
{
    struct client_mem *mem = any_mem();
    uint8_t how = liar_byte();
    const size_t origin[3] = {1, 1, 0}, region[3] = {4, 2, 1};
    const cl_map_flags flags = how & 2 ? CL_MAP_READ | CL_MAP_WRITE : CL_MAP_READ;
    size_t row = 0, slice = 0;
    cl_int error;

    if (!mem || mem->map || !has.queue)
        return;
    liar_expect(mem->element ? 4 * 2 * mem->element : mem->size, 0);
    cl_event *event = new_event();
    if (mem->element) {
        mem->map = CL.clEnqueueMapImage(has.queue, mem->mem, how & 1, flags, origin, region, &row,
                                        &slice, 0, NULL, event, &error);
        for (size_t y = 0; mem->map && y < 2; y++)
            memset((unsigned char *)mem->map + y * row, how, 4 * mem->element);
    } else {
        mem->map = CL.clEnqueueMapBuffer(has.queue, mem->mem, how & 1, flags, 0, mem->size, 0, NULL,
                                         event, &error);
        if (mem->map)
            memset(mem->map, how, mem->size);
    }
}

static void
unmap(void)
{
    struct client_mem *mem = any_mem();

    if (!mem || !mem->map || !has.queue)
        return;
    liar_expect(0, 0);
    if (CL.clEnqueueUnmapMemObject(has.queue, mem->mem, mem->map, 0, NULL, new_event()) ==
        CL_SUCCESS)
        mem->map = NULL;
}

static void
run_kernel(void)
{
    const size_t global = 4;
    uint64_t value = liar_number();

    if (!has.kernel || !has.queue)
        return;
    liar_expect(0, 0);
    CL.clSetKernelArg(has.kernel, liar_byte() % 3, liar_byte() & 1 ? 8 : 4, &value);
    CL.clEnqueueNDRangeKernel(has.queue, has.kernel, 1, NULL, &global, NULL, 0, NULL, new_event());
}

static void
wait(void)
{
    cl_event *event = &has.events[liar_byte() % CLIENT_EACH];

    liar_expect(0, 0);
    if (*event && liar_byte() & 1)
        CL.clSetEventCallback(*event, CL_COMPLETE, on_event, NULL);
    else if (*event && CL.clWaitForEvents(1, event) == CL_SUCCESS && *event == has.last)
        free_rooms();
    else if (!*event && has.queue && CL.clFinish(has.queue) == CL_SUCCESS)
        free_rooms();
}

static void
release(void)
{
    uint8_t how = liar_byte();
    struct client_mem *mem = how & 1 ? any_mem() : NULL;

    if (mem)
        release_mem(mem);
    else
        end_event(how % CLIENT_EACH);
}

static void
copy(void)
{
    struct client_mem *from = any_mem(), *to = any_mem();

    if (!from || !to || !has.queue)
        return;
    CL.clEnqueueCopyBuffer(has.queue, from->mem, to->mem, 0, 32, 16, 0, NULL, new_event());
    CL.clEnqueueFillBuffer(has.queue, to->mem, "abcd", 4, 0, 16, 0, NULL, new_event());
    CL.clEnqueueMarkerWithWaitList(has.queue, 0, NULL, new_event());
    CL.clFlush(has.queue);
}

/* ---- a run ---- */

static void
end(struct vg_wire_client *client)
{
    for (unsigned i = 0; i < CLIENT_EACH; i++) {
        end_event(i);
        if (has.mems[i].mem)
            release_mem(&has.mems[i]);
    }
    if (has.kernel)
        CL.clReleaseKernel(has.kernel);
    if (has.program)
        CL.clReleaseProgram(has.program);
    if (has.queue)
        CL.clReleaseCommandQueue(has.queue);
    if (has.context)
        CL.clReleaseContext(has.context);
    vg_wire_disconnect(client);
    free_rooms();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const calls[])(void) = {
        make_objects,  make_mem, make_part, ask_info,   ask_binaries, ask_lists, read_and_write,
        read_and_free, map,      unmap,     run_kernel, wait,         release,   copy};
    const char *why;
    cl_uint n = 0;

    setenv("VGPU_OPENCL_LOG", "/dev/null", 1);
    memset(&has, 0, sizeof has);
    liar_begin(data, size);
    liar_allow_threads(false);
    struct vg_wire_client *client = vg_wire_connect("nowhere", &why);
    cl_platform_id *platforms = client ? vg_wire_platforms(client, &n) : NULL;
    for (uint64_t id = 1; client && id <= 2; id++) {
        struct vg_wire_object *root = vg_wire_root(client, id);
        if (root && root->type == VG_CL_DEVICE)
            has.device = (cl_device_id)root;
    }
    if (platforms && n && has.device) {
        has.platform = platforms[0];
        make_objects();
        while (liar_has_more())
            calls[liar_byte() % (sizeof calls / sizeof *calls)]();
    }
    free(platforms);
    if (client)
        end(client);
    liar_end();
    liar_allow_threads(true);
    return 0;
}
