/* SPDX-License-Identifier: Apache-2.0
 *
 * A program of OpenCL for tests/gpu/try-cuda: adds one to each word of 64 MiB of GPU memory again
 * and again, says "ready" when it has begun, and with SIGTERM how many words are wrong.
 */
#define CL_TARGET_OPENCL_VERSION 120
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <CL/cl.h>

#define BYTES ((size_t)64 << 20)

static const char *const kernel_text =
    "__kernel void add_one(__global uint *words) { words[get_global_id(0)] += 1; }";
static volatile sig_atomic_t ended;

static void
on_signal(int number)
{
    (void)number;
    ended = 1;
}

static void
must(cl_int result, const char *what)
{
    if (result == CL_SUCCESS)
        return;
    printf("%s: %d\n", what, (int)result);
    exit(1);
}

int
main(void)
{
    cl_platform_id platforms[8];
    cl_uint n_platforms = 0;
    cl_device_id device;
    cl_int error;
    uint32_t zero = 0, steps = 0;
    size_t n = BYTES / 4, bad = 0;

    signal(SIGTERM, on_signal);
    setvbuf(stdout, NULL, _IOLBF, 0);
    must(clGetPlatformIDs(8, platforms, &n_platforms), "clGetPlatformIDs");
    /* A platform without a GPU, such as PoCL, may come first. */
    error = CL_DEVICE_NOT_FOUND;
    for (cl_uint i = 0; i < n_platforms && i < 8 && error != CL_SUCCESS; i++)
        error = clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_GPU, 1, &device, NULL);
    must(error, "clGetDeviceIDs");
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
    must(error, "clCreateContext");
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &error);
    must(error, "clCreateCommandQueue");
    cl_program program =
        clCreateProgramWithSource(context, 1, (const char **)&kernel_text, NULL, &error);
    must(error, "clCreateProgramWithSource");
    must(clBuildProgram(program, 1, &device, "", NULL, NULL), "clBuildProgram");
    cl_kernel kernel = clCreateKernel(program, "add_one", &error);
    must(error, "clCreateKernel");
    cl_mem words = clCreateBuffer(context, CL_MEM_READ_WRITE, BYTES, NULL, &error);
    must(error, "clCreateBuffer");
    must(clEnqueueFillBuffer(queue, words, &zero, 4, 0, BYTES, 0, NULL, NULL),
         "clEnqueueFillBuffer");
    must(clSetKernelArg(kernel, 0, sizeof words, &words), "clSetKernelArg");
    while (!ended) {
        must(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &n, NULL, 0, NULL, NULL),
             "clEnqueueNDRangeKernel");
        must(clFinish(queue), "clFinish");
        if (steps++ == 0)
            printf("ready\n");
        usleep(2000);
    }
    uint32_t *host = malloc(BYTES);
    must(host ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY, "malloc");
    must(clEnqueueReadBuffer(queue, words, CL_TRUE, 0, BYTES, host, 0, NULL, NULL),
         "clEnqueueReadBuffer");
    for (size_t i = 0; i < n; i++)
        bad += host[i] != steps;
    printf("steps %u bad %zu\n", steps, bad);
    return bad != 0;
}
