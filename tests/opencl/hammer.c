/* SPDX-License-Identifier: Apache-2.0
 *
 * hammer SEED THREADS CALLS [slowly]: so many threads call OpenCL at random, so often each, with
 * memory of their own and objects that all share, and compare what they get with what they expect.
 * Slowly, they take their time until they set an event that a command waits for. Ends with 0 if
 * nothing was wrong.
 */
#include "config.h"

#define CL_TARGET_OPENCL_VERSION          120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS 1
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <CL/cl.h>
#include <stdatomic.h>

#define WORDS       1024
#define THREADS_MAX 64

static const char source[] =
    "kernel void add(global int *a, int b) { a[get_global_id(0)] += b; }\n"
    "kernel void blend(global int *a, global const int *b, local int *c) {"
    " c[get_local_id(0)] = b[get_global_id(0)];"
    " a[get_global_id(0)] = a[get_global_id(0)] * 3 + c[get_local_id(0)]; }";

static struct {
    cl_device_id device;
    cl_context context;
    cl_program program;
    cl_kernel kernel; /* nobody sets its arguments */
    cl_mem shared;    /* nobody writes to it */
    unsigned calls;
    bool is_slow;
    atomic_uint wrong, told;
} w;

struct worker {
    pthread_t thread;
    uint32_t state;
    cl_command_queue queue;
    cl_mem mems[2];
    cl_kernel add, mix;
    int32_t words[2][WORDS]; /* what is in the memory */
    int32_t copy[WORDS];
};

static uint32_t
draw(struct worker *o, uint32_t limit)
{
    o->state = o->state * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)o->state * limit >> 32);
}

static void
check(bool good, const char *what)
{
    if (good)
        return;
    if (atomic_fetch_add(&w.wrong, 1) < 20)
        fprintf(stderr, "wrong: %s\n", what);
}

/* ---- steps ---- */

static void
step_write(struct worker *o)
{
    uint32_t m = draw(o, 2), first = draw(o, WORDS), n = 1 + draw(o, WORDS - first);

    for (uint32_t i = first; i < first + n; i++)
        o->words[m][i] = (int32_t)draw(o, 1000000);
    check(clEnqueueWriteBuffer(o->queue, o->mems[m], draw(o, 2), first * 4, n * 4,
                               &o->words[m][first], 0, NULL, NULL) == CL_SUCCESS,
          "write");
    check(clFinish(o->queue) == CL_SUCCESS, "finish");
}

static void
step_read(struct worker *o)
{
    uint32_t m = draw(o, 2);

    check(clEnqueueReadBuffer(o->queue, o->mems[m], CL_TRUE, 0, sizeof o->copy, o->copy, 0, NULL,
                              NULL) == CL_SUCCESS,
          "read");
    check(memcmp(o->copy, o->words[m], sizeof o->copy) == 0, "what was read");
}

static void
step_shared(struct worker *o)
{
    clEnqueueReadBuffer(o->queue, w.shared, CL_TRUE, 0, sizeof o->copy, o->copy, 0, NULL, NULL);
    for (int i = 0; i < WORDS; i++)
        if (o->copy[i] != i * 5) {
            check(false, "what all share");
            break;
        }
}

static void
launch(struct worker *o, cl_kernel kernel)
{
    const size_t global = WORDS, local = 64;
    cl_event event = NULL;

    check(clEnqueueNDRangeKernel(o->queue, kernel, 1, NULL, &global, &local, 0, NULL, &event) ==
              CL_SUCCESS,
          "launch");
    if (!event)
        return;
    check(clWaitForEvents(1, &event) == CL_SUCCESS, "wait");
    check(clReleaseEvent(event) == CL_SUCCESS, "event");
}

static void
add_with(struct worker *o, cl_kernel kernel)
{
    uint32_t m = draw(o, 2);
    cl_int number = (cl_int)draw(o, 1000);

    check(clSetKernelArg(kernel, 0, sizeof o->mems[m], &o->mems[m]) == CL_SUCCESS &&
              clSetKernelArg(kernel, 1, sizeof number, &number) == CL_SUCCESS,
          "arguments");
    launch(o, kernel);
    for (int i = 0; i < WORDS; i++)
        o->words[m][i] += number;
}

static void
step_add(struct worker *o)
{
    add_with(o, o->add);
}

static void
step_new_kernel(struct worker *o)
{
    cl_kernel kernel = clCreateKernel(w.program, "add", NULL);

    check(kernel != NULL, "kernel");
    if (!kernel)
        return;
    add_with(o, kernel);
    check(clReleaseKernel(kernel) == CL_SUCCESS, "release of a kernel");
}

static void
step_mix(struct worker *o)
{
    uint32_t m = draw(o, 2);

    check(clSetKernelArg(o->mix, 0, sizeof o->mems[m], &o->mems[m]) == CL_SUCCESS &&
              clSetKernelArg(o->mix, 1, sizeof w.shared, &w.shared) == CL_SUCCESS &&
              clSetKernelArg(o->mix, 2, 64 * 4, NULL) == CL_SUCCESS,
          "arguments");
    launch(o, o->mix);
    for (int i = 0; i < WORDS; i++)
        o->words[m][i] = (int32_t)((uint32_t)o->words[m][i] * 3 + (uint32_t)i * 5);
}

static void
step_map(struct worker *o)
{
    uint32_t m = draw(o, 2), first = draw(o, WORDS), n = 1 + draw(o, WORDS - first);
    cl_int error;
    int32_t *words = clEnqueueMapBuffer(o->queue, o->mems[m], CL_TRUE, CL_MAP_READ | CL_MAP_WRITE,
                                        first * 4, n * 4, 0, NULL, NULL, &error);

    check(words != NULL, "map");
    if (!words)
        return;
    check(memcmp(words, &o->words[m][first], n * 4) == 0, "what is mapped");
    for (uint32_t i = 0; i < n; i++)
        o->words[m][first + i] = words[i] = (int32_t)draw(o, 1000000);
    check(clEnqueueUnmapMemObject(o->queue, o->mems[m], words, 0, NULL, NULL) == CL_SUCCESS,
          "unmap");
    check(clFinish(o->queue) == CL_SUCCESS, "finish");
}

static void
step_copy(struct worker *o)
{
    uint32_t m = draw(o, 2);

    check(clEnqueueCopyBuffer(o->queue, o->mems[m], o->mems[!m], 0, 0, sizeof o->copy, 0, NULL,
                              NULL) == CL_SUCCESS,
          "copy");
    memcpy(o->words[!m], o->words[m], sizeof o->copy);
}

static void
step_new_buffer(struct worker *o)
{
    cl_int error;
    cl_mem mem =
        clCreateBuffer(w.context, CL_MEM_COPY_HOST_PTR, sizeof o->copy, o->words[0], &error);
    const cl_buffer_region region = {.origin = 0, .size = 512};
    cl_mem part =
        mem ? clCreateSubBuffer(mem, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &error) : NULL;

    check(part != NULL, "a part");
    clReleaseMemObject(mem);
    if (!part)
        return;
    clEnqueueReadBuffer(o->queue, part, CL_TRUE, 0, 512, o->copy, 0, NULL, NULL);
    check(memcmp(o->copy, o->words[0], 512) == 0, "what is in a part");
    check(clReleaseMemObject(part) == CL_SUCCESS, "release of a part");
}

static void
step_count(struct worker *o)
{
    cl_uint n = 0;
    char name[16] = "";

    (void)o;
    check(clRetainKernel(w.kernel) == CL_SUCCESS && clRetainContext(w.context) == CL_SUCCESS &&
              clRetainMemObject(w.shared) == CL_SUCCESS && clRetainProgram(w.program) == CL_SUCCESS,
          "retain");
    clGetContextInfo(w.context, CL_CONTEXT_REFERENCE_COUNT, sizeof n, &n, NULL);
    check(n > 1, "a count");
    clGetKernelInfo(w.kernel, CL_KERNEL_FUNCTION_NAME, sizeof name, name, NULL);
    check(strcmp(name, "add") == 0, "a name");
    check(clReleaseKernel(w.kernel) == CL_SUCCESS && clReleaseContext(w.context) == CL_SUCCESS &&
              clReleaseMemObject(w.shared) == CL_SUCCESS &&
              clReleaseProgram(w.program) == CL_SUCCESS,
          "release");
}

static void CL_CALLBACK
on_event(cl_event event, cl_int status, void *data)
{
    (void)event;
    check(status == CL_COMPLETE, "what a callback is told");
    atomic_fetch_add(&w.told, 1);
    atomic_store((atomic_int *)data, 1);
}

static void
step_user_event(struct worker *o)
{
    atomic_int is_told = 0;
    cl_event user = clCreateUserEvent(w.context, NULL), marker = NULL;

    check(user && clEnqueueMarkerWithWaitList(o->queue, 1, &user, &marker) == CL_SUCCESS, "marker");
    if (!marker)
        return;
    if (w.is_slow)
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    check(clSetEventCallback(marker, CL_COMPLETE, on_event, &is_told) == CL_SUCCESS, "callback");
    check(clSetUserEventStatus(user, CL_COMPLETE) == CL_SUCCESS, "set");
    check(clWaitForEvents(1, &marker) == CL_SUCCESS, "wait");
    clReleaseEvent(marker);
    clReleaseEvent(user);
    while (!atomic_load(&is_told))
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
}

static void
step_wrong(struct worker *o)
{
    check(clSetKernelArg(o->add, 9, 4, o->copy) == CL_INVALID_ARG_INDEX, "an index");
    check(clRetainEvent(NULL) == CL_INVALID_EVENT, "no event");
    check(clEnqueueReadBuffer(o->queue, o->mems[0], CL_TRUE, WORDS * 4, 4, o->copy, 0, NULL,
                              NULL) == CL_INVALID_VALUE,
          "beyond");
}

static void *
work(void *data)
{
    static void (*const steps[])(struct worker *) = {
        step_write,      step_read,       step_read,  step_shared, step_add,
        step_new_kernel, step_mix,        step_map,   step_copy,   step_new_buffer,
        step_count,      step_user_event, step_wrong,
    };
    struct worker *o = data;
    cl_int error;

    o->queue = clCreateCommandQueue(w.context, w.device, 0, &error);
    for (int m = 0; m < 2; m++) {
        o->mems[m] = clCreateBuffer(w.context, 0, sizeof o->copy, NULL, &error);
        clEnqueueWriteBuffer(o->queue, o->mems[m], CL_TRUE, 0, sizeof o->copy, o->words[m], 0, NULL,
                             NULL);
    }
    o->add = clCreateKernel(w.program, "add", &error);
    o->mix = clCreateKernel(w.program, "blend", &error);
    check(error == CL_SUCCESS, "the beginning");
    for (unsigned i = 0; i < w.calls; i++)
        steps[draw(o, sizeof steps / sizeof *steps)](o);
    step_read(o);
    clReleaseKernel(o->add);
    clReleaseKernel(o->mix);
    for (int m = 0; m < 2; m++)
        check(clReleaseMemObject(o->mems[m]) == CL_SUCCESS, "release of memory");
    check(clReleaseCommandQueue(o->queue) == CL_SUCCESS, "release of a queue");
    return NULL;
}

int
main(int argc, char **argv)
{
    static struct worker workers[THREADS_MAX];
    int32_t words[WORDS];
    const char *text = source;
    cl_platform_id platform;
    cl_int error;

    if (argc < 4)
        return 2;
    unsigned n = (unsigned)strtoul(argv[2], NULL, 10);
    w.is_slow = argc > 4;
    w.calls = (unsigned)strtoul(argv[3], NULL, 10);
    if (n > THREADS_MAX || clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS ||
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &w.device, NULL) != CL_SUCCESS)
        return 2;
    for (int i = 0; i < WORDS; i++)
        words[i] = i * 5;
    w.context = clCreateContext(NULL, 1, &w.device, NULL, NULL, &error);
    w.program = clCreateProgramWithSource(w.context, 1, &text, NULL, &error);
    error = clBuildProgram(w.program, 0, NULL, "", NULL, NULL);
    w.kernel = error == CL_SUCCESS ? clCreateKernel(w.program, "add", &error) : NULL;
    w.shared = clCreateBuffer(w.context, CL_MEM_COPY_HOST_PTR, sizeof words, words, NULL);
    if (error != CL_SUCCESS || !w.shared)
        return 2;
    for (unsigned i = 0; i < n; i++) {
        workers[i].state = (uint32_t)strtoul(argv[1], NULL, 10) * 2654435761u + i * 977;
        pthread_create(&workers[i].thread, NULL, work, &workers[i]);
    }
    for (unsigned i = 0; i < n; i++)
        pthread_join(workers[i].thread, NULL);
    clReleaseMemObject(w.shared);
    clReleaseKernel(w.kernel);
    clReleaseProgram(w.program);
    clReleaseContext(w.context);
    printf("%u threads, %u calls each, %u wrong\n", n, w.calls, w.wrong);
    return w.wrong > 0;
}
