/* SPDX-License-Identifier: Apache-2.0
 *
 * changed FILE: makes memory objects, each of another size, some in memory of its own; has kernels
 * and commands change some of them; says "made", and goes on once there is FILE: then it says which
 * of them hold what they should.
 *
 * The sizes are 4096 bytes times powers of two, so that how many bytes were read says of which.
 */
#include "config.h"

#define CL_TARGET_OPENCL_VERSION          120
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS 1
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <CL/cl.h>

#define PAGE 4096

static const char text[] =
    "kernel void change(global int *to) { to[get_global_id(0)] = 7; }\n"
    "kernel void look(global const int *a, constant int *b, global int *to) {\n"
    "  to[get_global_id(0)] = a[0] + b[0] - 2 + 7; }\n"
    /* What compilers bear, and the standard has no word on. */
    "kernel void cheat(global const int *a) { ((global int *)a)[get_global_id(0)] = 7; }\n";

enum { ONE = 1, SEVEN = 7 };

static struct {
    cl_context context;
    cl_command_queue queue;
    cl_program program;
    struct made {
        const char *name;
        cl_mem mem;
        cl_int expected; /* in each element */
        size_t n;        /* of them */
    } made[16];
    unsigned n;
} w;

static void
must(cl_int error, const char *what)
{
    if (error == CL_SUCCESS)
        return;
    fprintf(stderr, "%s: %d\n", what, error);
    exit(2);
}

/* In its own memory, with ones, or without anything in it. */
static cl_mem
make(const char *name, cl_mem_flags flags, cl_int expected)
{
    struct made *made = &w.made[w.n];
    size_t size = (size_t)PAGE << w.n++;
    cl_int error, *ones = NULL;

    if (flags & (CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR)) {
        ones = aligned_alloc(PAGE, size);
        for (size_t i = 0; ones && i < size / sizeof *ones; i++)
            ones[i] = ONE;
    }
    made->name = name;
    made->expected = expected;
    made->n = size / sizeof(cl_int);
    made->mem = clCreateBuffer(w.context, flags, size, ones, &error);
    must(error, name);
    return made->mem;
}

static cl_kernel
kernel(const char *name, cl_mem a, cl_mem b, cl_mem c)
{
    const cl_mem args[] = {a, b, c};
    cl_int error;
    cl_kernel kernel = clCreateKernel(w.program, name, &error);

    must(error, name);
    for (cl_uint i = 0; i < 3 && args[i]; i++)
        must(clSetKernelArg(kernel, i, sizeof(cl_mem), &args[i]), "clSetKernelArg");
    return kernel;
}

static void
run(cl_kernel kernel, size_t n)
{
    must(clEnqueueNDRangeKernel(w.queue, kernel, 1, NULL, &n, NULL, 0, NULL, NULL), "a launch");
    clReleaseKernel(kernel);
}

static void
open_world(void)
{
    const char *lines = text;
    cl_platform_id platform;
    cl_device_id device;
    cl_int error;

    must(clGetPlatformIDs(1, &platform, NULL), "platforms");
    must(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), "devices");
    w.context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
    must(error, "a context");
    w.queue = clCreateCommandQueue(w.context, device, 0, &error);
    must(error, "a queue");
    w.program = clCreateProgramWithSource(w.context, 1, &lines, NULL, &error);
    must(clBuildProgram(w.program, 0, NULL, "", NULL, NULL), "a build");
}

/* How many elements the object that was made last has. */
static size_t
last_n(void)
{
    return w.made[w.n - 1].n;
}

static void
make_all(void)
{
    const cl_mem_flags own = CL_MEM_USE_HOST_PTR | CL_MEM_READ_WRITE;
    const cl_int seven = SEVEN;
    cl_int error;

    cl_mem ones = make("left as it was", own, ONE);
    cl_mem looked_at = make("read by kernels alone", CL_MEM_USE_HOST_PTR | CL_MEM_READ_ONLY, ONE);
    cl_mem mem = make("changed by a kernel", own, SEVEN);
    run(kernel("look", looked_at, ones, mem), last_n());
    mem = make("changed though const", own, SEVEN);
    run(kernel("cheat", mem, NULL, NULL), last_n());
    mem = make("filled", own, SEVEN);
    must(clEnqueueFillBuffer(w.queue, mem, &seven, sizeof seven, 0, last_n() * sizeof seven, 0,
                             NULL, NULL),
         "a fill");
    cl_mem from = mem;
    size_t n = last_n();
    mem = make("half copied", own, SEVEN);
    for (size_t half = 0; half < 2; half++)
        must(clEnqueueCopyBuffer(w.queue, from, mem, 0, half * n * sizeof seven, n * sizeof seven,
                                 0, NULL, NULL),
             "a copy");
    mem = make("changed by its part", own, SEVEN);
    cl_buffer_region region = {0, last_n() * sizeof seven};
    cl_mem part = clCreateSubBuffer(mem, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &error);
    must(error, "a part");
    run(kernel("change", part, NULL, NULL), last_n());
    mem = make("mapped and written", own, SEVEN);
    cl_int *mapped = clEnqueueMapBuffer(w.queue, mem, CL_TRUE, CL_MAP_WRITE, 0,
                                        last_n() * sizeof seven, 0, NULL, NULL, &error);
    must(error, "a map");
    for (size_t i = 0; i < last_n(); i++)
        mapped[i] = SEVEN;
    must(clEnqueueUnmapMemObject(w.queue, mem, mapped, 0, NULL, NULL), "an unmap");
    make("the device's, with ones", CL_MEM_COPY_HOST_PTR, ONE);
    make("the device's, with nothing", CL_MEM_READ_WRITE, -1);
    must(clFinish(w.queue), "the end");
}

static bool
holds(const struct made *made)
{
    cl_int error;
    bool ok = true;
    const cl_int *mapped = clEnqueueMapBuffer(w.queue, made->mem, CL_TRUE, CL_MAP_READ, 0,
                                              made->n * sizeof *mapped, 0, NULL, NULL, &error);

    must(error, "a map");
    for (size_t i = 0; i < made->n; i++)
        ok = ok && mapped[i] == made->expected;
    must(clEnqueueUnmapMemObject(w.queue, made->mem, (void *)mapped, 0, NULL, NULL), "an unmap");
    return ok;
}

int
main(int argc, char **argv)
{
    open_world();
    make_all();
    puts("made");
    fflush(stdout);
    while (argc > 1 && access(argv[1], F_OK) != 0)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    for (unsigned i = 0; i < w.n; i++)
        if (w.made[i].expected >= 0)
            printf("%s: %s\n", w.made[i].name, holds(&w.made[i]) ? "right" : "WRONG");
    return 0;
}
