/* SPDX-License-Identifier: Apache-2.0
 *
 * ends: says "ready", ends by SIGTERM, and only then releases what it has of OpenCL, as
 * programs in C++ do; what it says last tells whether all of it was as it should be.
 */
#include "config.h"

#define CL_TARGET_OPENCL_VERSION          120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS 1
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <CL/cl.h>

static cl_context context;
static cl_command_queue queue;
static cl_mem mem;

static void
release(void)
{
    cl_int word = 0;

    puts("ends");
    fflush(stdout);
    nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL);
    cl_int error = clEnqueueReadBuffer(queue, mem, CL_TRUE, 0, sizeof word, &word, 0, NULL, NULL);
    error |= clReleaseMemObject(mem) | clReleaseCommandQueue(queue) | clReleaseContext(context);
    printf("%s\n", error == CL_SUCCESS && word == 7 ? "well" : "WRONG");
}

int
main(void)
{
    cl_platform_id platform;
    cl_device_id device;
    cl_int error, word = 7;
    sigset_t set;
    int number;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    atexit(release);
    if (clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS ||
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) != CL_SUCCESS)
        _exit(2);
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
    queue = clCreateCommandQueue(context, device, 0, &error);
    mem = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, sizeof word, &word, &error);
    puts("ready");
    fflush(stdout);
    return sigwait(&set, &number);
}
