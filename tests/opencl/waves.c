/* SPDX-License-Identifier: Apache-2.0
 *
 * waves SIDE STEPS PAUSE_MS [FILE]: lets waves run over a square of SIDE times SIDE floating-point
 * numbers for so many steps, with a pause after each. Says "ready" after the first; in the end, a
 * sum of all bits, which is the same for the same device whatever happens in between. Halfway, for
 * as long as there is FILE, it makes steps that change nothing, and says how many. It asks for what
 * was built of its program, as programs do that keep that.
 */
#include "config.h"

#define CL_TARGET_OPENCL_VERSION          120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS 1
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <CL/cl.h>

static const char source[] =
    "__kernel void begin(__global float *now, __global float *before, uint side)"
    "{ size_t x = get_global_id(0), y = get_global_id(1);"
    "  float r = hypot((float)x - side / 3.0f, (float)y - side / 2.0f) / side;"
    "  now[y * side + x] = before[y * side + x] = exp(-200.0f * r * r); }\n"
    "__kernel void advance(__global const float *now, __global float *next, uint side)"
    "{ size_t x = get_global_id(0), y = get_global_id(1), i = y * side + x;"
    "  if (x == 0 || y == 0 || x == side - 1 || y == side - 1) { next[i] = 0; return; }"
    "  float around = now[i - 1] + now[i + 1] + now[i - side] + now[i + side];"
    "  next[i] = 2.0f * now[i] - next[i] + 0.2f * (around - 4.0f * now[i]); }\n"
    "__kernel void still(__global uint *now, __global uint *next, uint side)"
    "{ size_t i = get_global_id(1) * side + get_global_id(0);"
    "  now[i] = ~now[i]; next[i] = ~next[i]; }\n";

static cl_command_queue queue;
static long pause_ms;

static void
must(cl_int result, const char *what)
{
    if (result == CL_SUCCESS)
        return;
    fprintf(stderr, "%s: OpenCL's error %d\n", what, (int)result);
    exit(1);
}

static cl_kernel
make_kernel(cl_program program, const char *name, cl_mem first, cl_mem second, cl_uint side)
{
    cl_int error;
    cl_kernel kernel = clCreateKernel(program, name, &error);

    must(error, name);
    must(clSetKernelArg(kernel, 0, sizeof first, &first), name);
    must(clSetKernelArg(kernel, 1, sizeof second, &second), name);
    must(clSetKernelArg(kernel, 2, sizeof side, &side), name);
    return kernel;
}

/* Makes a step, and waits for its end, and a while. */
static void
go(cl_kernel kernel, cl_uint side)
{
    const size_t global[2] = {side, side};

    must(clEnqueueNDRangeKernel(queue, kernel, 2, NULL, global, NULL, 0, NULL, NULL), "step");
    must(clFinish(queue), "clFinish");
    nanosleep(&(struct timespec){.tv_sec = pause_ms / 1000, .tv_nsec = pause_ms % 1000 * 1000000},
              NULL);
}

/* Two of these steps change nothing. */
static void
wait_for(const char *file, cl_kernel still, cl_uint side)
{
    for (unsigned n = 1; access(file, F_OK) == 0; n++) {
        go(still, side);
        go(still, side);
        printf("still %u\n", n);
    }
}

static uint64_t
sum_bits(const uint32_t *words, size_t n)
{
    uint64_t sum = UINT64_C(14695981039346656037);

    for (size_t i = 0; i < n; i++)
        sum = (sum ^ words[i]) * UINT64_C(1099511628211);
    return sum;
}

int
main(int argc, char **argv)
{
    cl_uint side = argc >= 4 ? (cl_uint)atoi(argv[1]) : 0;
    long steps = argc >= 4 ? atol(argv[2]) : 0;
    const size_t size = (size_t)side * side * sizeof(cl_float);
    const char *text = source;
    cl_platform_id platform;
    cl_device_id device;
    cl_mem fields[2];
    cl_int error;

    if (side < 4 || steps < 1) {
        fprintf(stderr, "usage: %s SIDE STEPS PAUSE_MS [FILE]\n", argv[0]);
        return 2;
    }
    pause_ms = atol(argv[3]);
    setvbuf(stdout, NULL, _IOLBF, 0);
    must(clGetPlatformIDs(1, &platform, NULL), "clGetPlatformIDs");
    must(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), "clGetDeviceIDs");
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
    must(error, "clCreateContext");
    queue = clCreateCommandQueue(context, device, 0, &error);
    must(error, "clCreateCommandQueue");
    cl_program program = clCreateProgramWithSource(context, 1, &text, NULL, &error);
    must(error, "clCreateProgramWithSource");
    must(clBuildProgram(program, 1, &device, "", NULL, NULL), "clBuildProgram");
    for (int i = 0; i < 2; i++) {
        fields[i] = clCreateBuffer(context, CL_MEM_READ_WRITE, size, NULL, &error);
        must(error, "clCreateBuffer");
    }
    cl_kernel begin = make_kernel(program, "begin", fields[0], fields[1], side);
    cl_kernel still = make_kernel(program, "still", fields[0], fields[1], side);
    cl_kernel turns[2] = {make_kernel(program, "advance", fields[0], fields[1], side),
                          make_kernel(program, "advance", fields[1], fields[0], side)};
    go(begin, side);
    for (long i = 0; i < steps; i++) {
        go(turns[i % 2], side);
        if (i == 0)
            puts("ready");
        if (i == steps / 2 && argc > 4)
            wait_for(argv[4], still, side);
    }
    size_t built;
    must(clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof built, &built, NULL),
         "clGetProgramInfo");
    uint32_t *words = malloc(size);
    must(words ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY, "malloc");
    must(clEnqueueReadBuffer(queue, fields[steps % 2], CL_TRUE, 0, size, words, 0, NULL, NULL),
         "clEnqueueReadBuffer");
    printf("steps %ld sum %016" PRIx64 "\n", steps, sum_bits(words, size / sizeof *words));
    free(words);
    return 0;
}
