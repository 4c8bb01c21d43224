/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/opencl/random-calls.h"

static const char *const sources[] = {
    "kernel void add(global int *a, global int *b, int c) { size_t i = get_global_id(0);"
    " a[i] = a[i] * 3 + b[i] + c; }",
    "struct pair { int x; long y; float z[8]; };"
    " kernel void pairs(global int *a, struct pair p, local int *l) {"
    " size_t i = get_local_id(0); l[i] = a[get_global_id(0)] + p.x + (int)p.y + (int)p.z[i % 8];"
    " barrier(CLK_LOCAL_MEM_FENCE); a[get_global_id(0)] = l[get_local_size(0) - 1 - i]; }",
    "kernel void texels(global uint *a, read_only image2d_t im, sampler_t s) {"
    " size_t i = get_global_id(0); uint4 t = read_imageui(im, s, (int2)(i % 7, i / 7));"
    " a[i] = t.x + t.y * 3 + t.z * 5 + t.w * 7; }",
    "int twice(int x); kernel void linked(global int *a, constant int *k) {"
    " size_t i = get_global_id(0); a[i] = twice(a[i]) + k[i]; }",
};

static const char library[] = "#include \"factor.h\"\nint twice(int x) { return FACTOR * x; }";
static const char header[] = "#define FACTOR 2\n";

/* The kinds of arguments: m memory, i image, s sampler, c int, p the struct, l local memory. */
static const char *const names[] = {"add", "pairs", "texels", "linked"};
static const char *const args[] = {"mmc", "mpl", "mis", "mm"};

struct pair {
    cl_int x;
    cl_long y;
    cl_float z[8];
};

static cl_program
build_plain(int kind, cl_int *error)
{
    const char *text = sources[kind];
    cl_program program = clCreateProgramWithSource(w.context, 1, &text, NULL, error);

    if (program)
        *error =
            clBuildProgram(program, 0, NULL, draw(2) ? "-cl-kernel-arg-info" : NULL, NULL, NULL);
    return program;
}

static void
keep_program(cl_program program)
{
    int slot = (int)draw(PROGRAMS);

    if (w.programs[slot])
        say("drop", clReleaseProgram(w.programs[slot]), 0);
    w.programs[slot] = program;
}

void
step_program(void)
{
    int kind = (int)draw(3);
    cl_int error, status = 0;
    cl_program program = build_plain(kind, &error);

    say("program", error, (uint64_t)kind);
    if (program && draw(3) == 0) {
        /* The same from its binary. */
        size_t size = 0;
        clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, NULL);
        unsigned char *binary = malloc(size + 1);
        clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL);
        cl_program other = clCreateProgramWithBinary(
            w.context, 1, &w.device, &size, (const unsigned char **)&binary, &status, &error);
        if (other)
            error = clBuildProgram(other, 0, NULL, NULL, NULL, NULL);
        say("binary", error, (uint64_t)status);
        free(binary);
        clReleaseProgram(program);
        program = other;
    }
    if (program)
        keep_program(program);
}

void
step_link(void)
{
    const char *text = sources[3], *lib = library, *head = header, *name = "factor.h";
    cl_int error[5] = {0};

    if (draw(3))
        return;
    cl_program parts[2] = {clCreateProgramWithSource(w.context, 1, &text, NULL, &error[0]),
                           clCreateProgramWithSource(w.context, 1, &lib, NULL, &error[1])};
    cl_program include = clCreateProgramWithSource(w.context, 1, &head, NULL, &error[2]);
    error[3] = clCompileProgram(parts[0], 0, NULL, NULL, 0, NULL, NULL, NULL, NULL);
    error[4] = clCompileProgram(parts[1], 0, NULL, NULL, 1, &include, &name, NULL, NULL);
    for (int i = 0; i < 5; i++)
        say("compile", error[i], (uint64_t)i);
    cl_program program = clLinkProgram(w.context, 0, NULL, NULL, 2, parts, NULL, NULL, &error[0]);
    say("link", error[0], 0);
    clReleaseProgram(parts[0]);
    clReleaseProgram(parts[1]);
    clReleaseProgram(include);
    if (program)
        keep_program(program);
}

void
step_kernel(void)
{
    int slot = (int)draw(KERNELS), p = (int)draw(PROGRAMS);
    cl_kernel kernel = NULL;
    cl_int error = 0;

    if (!w.programs[p])
        return;
    for (int kind = 0; kind < 4 && !kernel; kind++) {
        kernel = clCreateKernel(w.programs[p], names[kind], &error);
        if (kernel) {
            if (w.kernels[slot])
                clReleaseKernel(w.kernels[slot]);
            w.kernels[slot] = kernel;
            w.kernel_kinds[slot] = kind;
            w.kernel_set[slot] = 0;
        }
    }
    say("kernel", error, (uint64_t)(kernel ? w.kernel_kinds[slot] : 9));
}

static int
find_mem(bool is_image)
{
    int start = (int)draw(MEMS);

    for (int i = 0; i < MEMS; i++) {
        int at = (start + i) % MEMS;
        if (w.mems[at].mem && w.mems[at].is_image == is_image &&
            (is_image ? w.mems[at].width >= 7 && w.mems[at].height >= 7
                      : w.mems[at].size >= 128 && !w.mems[at].is_sub))
            return at;
    }
    return -1;
}

static cl_int
set_arg(cl_kernel kernel, int slot, cl_uint index, char kind)
{
    int at = -1;
    cl_int number = (cl_int)draw(1000);
    struct pair pair = {.x = number, .y = number * 7, .z = {1, 2, 3, 4, 5, 6, 7, 8}};

    switch (kind) {
    case 'm':
    case 'i':
        at = find_mem(kind == 'i');
        if (at < 0)
            return 1;
        w.kernel_mems[slot][index] = at + 1;
        return clSetKernelArg(kernel, index, sizeof(cl_mem), &w.mems[at].mem);
    case 's':
        return clSetKernelArg(kernel, index, sizeof w.sampler, &w.sampler);
    case 'c':
        return clSetKernelArg(kernel, index, sizeof number, &number);
    case 'p':
        return clSetKernelArg(kernel, index, sizeof pair, &pair);
    default:
        return clSetKernelArg(kernel, index, 16 * sizeof(cl_int), NULL);
    }
}

void
step_arg(void)
{
    int slot = (int)draw(KERNELS);

    if (!w.kernels[slot])
        return;
    const char *kinds = args[w.kernel_kinds[slot]];
    for (cl_uint i = 0; i < strlen(kinds); i++) {
        cl_int error = set_arg(w.kernels[slot], slot, i, kinds[i]);
        if (error == CL_SUCCESS)
            w.kernel_set[slot] |= 1u << i;
        say("arg", error, i);
    }
}

static bool
is_user(cl_event event)
{
    cl_command_type type = 0;

    clGetEventInfo(event, CL_EVENT_COMMAND_TYPE, sizeof type, &type, NULL);
    return type == CL_COMMAND_USER;
}

/* NVIDIA's OpenCL waits for events of the program's that were never set when a context ends. */
void
event_release(int i)
{
    if (!w.events[i])
        return;
    if (is_user(w.events[i]))
        clSetUserEventStatus(w.events[i], CL_COMPLETE);
    clReleaseEvent(w.events[i]);
    w.events[i] = NULL;
}

static bool
is_usable(int slot)
{
    const char *kinds = args[w.kernel_kinds[slot]];
    int first = w.kernel_mems[slot][0] - 1;

    if (w.kernel_set[slot] != (1u << strlen(kinds)) - 1)
        return false;
    for (size_t i = 0; i < strlen(kinds); i++)
        for (int m = 0; m < MEMS; m++)
            if ((kinds[i] == 'm' || kinds[i] == 'i') && w.mems[m].mem && w.mems[m].map)
                return false;
    return kinds[1] != 'm' || w.kernel_mems[slot][1] - 1 != first;
}

void
step_launch(void)
{
    int slot = (int)draw(KERNELS);
    size_t global = 32, local = 16;
    cl_command_queue queue = any_queue();
    cl_event event = NULL;

    if (!w.kernels[slot] || !is_usable(slot))
        return;
    cl_int error =
        clEnqueueNDRangeKernel(queue, w.kernels[slot], 1, NULL, &global, &local, 0, NULL, &event);
    done(queue);
    say("launch", error, (uint64_t)w.kernel_kinds[slot]);
    int keep = (int)draw(EVENTS);
    if (!event)
        return;
    event_release(keep);
    w.events[keep] = event;
}

/* ---- events ---- */

static void CL_CALLBACK
on_event(cl_event event, cl_int status, void *data)
{
    (void)event;
    *(_Atomic cl_int *)data = status + 100;
}

void
step_event(void)
{
    int i = (int)draw(EVENTS);
    static _Atomic cl_int told[64];
    static unsigned n;
    cl_ulong begin = 0, end = 0;
    cl_int status = 99;
    cl_command_type type = 0;

    if (!w.events[i])
        return;
    cl_int error = clGetEventInfo(w.events[i], CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status,
                                  &status, NULL);
    say("status", error, (uint64_t)status);
    error = clGetEventInfo(w.events[i], CL_EVENT_COMMAND_TYPE, sizeof type, &type, NULL);
    say("type", error, type);
    error = clGetEventProfilingInfo(w.events[i], CL_PROFILING_COMMAND_START, sizeof begin, &begin,
                                    NULL);
    clGetEventProfilingInfo(w.events[i], CL_PROFILING_COMMAND_END, sizeof end, &end, NULL);
    say("profile", error, begin <= end);
    if (status != CL_COMPLETE)
        return;
    _Atomic cl_int *answer = &told[n++ % 64];
    *answer = 0;
    error = clSetEventCallback(w.events[i], CL_COMPLETE, on_event, (void *)answer);
    for (int try = 0; error == CL_SUCCESS && *answer == 0 && try < 60000; try++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    say("callback", error, (uint64_t)*answer);
}

void
step_user(void)
{
    int i = (int)draw(EVENTS);
    cl_int error;

    /* NVIDIA's answers now this and now that when another event is set. */
    if (w.events[i] && is_user(w.events[i]) && draw(2)) {
        error = clSetUserEventStatus(w.events[i], CL_COMPLETE);
        say("set", error, 0);
        return;
    }
    event_release(i);
    w.events[i] = clCreateUserEvent(w.context, &error);
    say("user", error, 0);
}

static bool
is_set(cl_event event)
{
    cl_int status = CL_QUEUED;

    clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL);
    return status <= CL_COMPLETE;
}

void
step_wait(void)
{
    cl_event list[EVENTS];
    cl_uint n = 0;
    cl_command_queue queue = any_queue();

    for (int i = 0; i < EVENTS; i++)
        if (w.events[i] && is_set(w.events[i]) && draw(2))
            list[n++] = w.events[i];
    say("wait", clWaitForEvents(n, n ? list : NULL), n);
    cl_event event = NULL;
    cl_int error = clEnqueueMarkerWithWaitList(queue, n, n ? list : NULL, &event);
    if (event)
        clWaitForEvents(1, &event);
    cl_int status = 0;
    if (event)
        clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL);
    say("marker", error, status < 0);
    if (event)
        clReleaseEvent(event);
}

/* ---- answers and errors ---- */

void
step_ask(void)
{
    static char text[65536];
    size_t size = 0;
    int p = (int)draw(PROGRAMS), m = (int)draw(MEMS), k = (int)draw(KERNELS);
    cl_uint n = 0;

    if (w.programs[p]) {
        cl_int error = clGetProgramInfo(w.programs[p], CL_PROGRAM_SOURCE, sizeof text, text, &size);
        say("source", error, hash(text, size));
        error = clGetProgramInfo(w.programs[p], CL_PROGRAM_KERNEL_NAMES, sizeof text, text, &size);
        say("names", error, hash(text, size));
        error = clGetProgramBuildInfo(w.programs[p], w.device, CL_PROGRAM_BUILD_OPTIONS,
                                      sizeof text, text, &size);
        say("options", error, hash(text, size));
    }
    if (w.mems[m].mem) {
        cl_int error = clGetMemObjectInfo(w.mems[m].mem, CL_MEM_SIZE, sizeof size, &size, NULL);
        say("size", error, size);
        cl_mem_flags flags = 0;
        error = clGetMemObjectInfo(w.mems[m].mem, CL_MEM_FLAGS, sizeof flags, &flags, NULL);
        say("flags", error, flags);
        cl_context context = NULL;
        clGetMemObjectInfo(w.mems[m].mem, CL_MEM_CONTEXT, sizeof context, &context, NULL);
        say("context", context == w.context, 0);
    }
    if (w.kernels[k]) {
        cl_int error = clGetKernelInfo(w.kernels[k], CL_KERNEL_NUM_ARGS, sizeof n, &n, NULL);
        say("args", error, n);
    }
}

void
step_wrong(void)
{
    struct mem *m = &w.mems[draw(MEMS)];
    unsigned char few[16];
    int k = (int)draw(KERNELS);
    size_t none = 0;

    if (m->mem && !m->is_image) {
        say("beyond",
            clEnqueueReadBuffer(w.queues[0], m->mem, CL_TRUE, m->size, 16, few, 0, NULL, NULL), 0);
        say("no-image",
            clEnqueueReadImage(w.queues[0], m->mem, CL_TRUE, &none, &none, 0, 0, few, 0, NULL,
                               NULL) != CL_SUCCESS,
            0);
    }
    if (w.kernels[k]) {
        say("index", clSetKernelArg(w.kernels[k], 17, 4, few), 0);
        say("bytes", clSetKernelArg(w.kernels[k], 0, 3, few), 0);
    }
    say("null", clRetainKernel(NULL), 0);
    say("no-list", clEnqueueMarkerWithWaitList(w.queues[0], 1, NULL, NULL), 0);
    say("no-size", clCreateBuffer(w.context, 0, 0, NULL, NULL) == NULL, 0);
}
