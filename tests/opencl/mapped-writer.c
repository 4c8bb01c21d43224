/* SPDX-License-Identifier: Apache-2.0
 *
 * mapped-writer: writes to mapped memory again and again, without a call of OpenCL, until SIGTERM.
 * Ends with 0 if every word still was what it had last written, also after unmapping.
 */
#include "config.h"

#define CL_TARGET_OPENCL_VERSION          120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS 1
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <CL/cl.h>

#define WORDS (1 << 20)

static volatile sig_atomic_t is_over;
static uint32_t copy[WORDS];

static void
on_signal(int number)
{
    (void)number;
    is_over = 1;
}

int
main(void)
{
    cl_platform_id platform;
    cl_device_id device;
    cl_int error;
    uint32_t lost = 0, round = 0;

    signal(SIGTERM, on_signal);
    if (clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS ||
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) != CL_SUCCESS)
        return 2;
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &error);
    cl_mem mem = clCreateBuffer(context, CL_MEM_ALLOC_HOST_PTR, sizeof copy, NULL, &error);
    volatile uint32_t *words = clEnqueueMapBuffer(queue, mem, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE,
                                                  0, sizeof copy, 0, NULL, NULL, &error);
    if (error != CL_SUCCESS)
        return 2;
    for (size_t i = 0; i < WORDS; i++)
        words[i] = 0;
    puts("writes");
    fflush(stdout);
    while (!is_over) {
        for (size_t i = 0; i < WORDS; i++) {
            lost += words[i] != round;
            words[i] = round + 1;
        }
        round++;
    }
    clEnqueueUnmapMemObject(queue, mem, (void *)words, 0, NULL, NULL);
    clEnqueueReadBuffer(queue, mem, CL_TRUE, 0, sizeof copy, copy, 0, NULL, NULL);
    for (size_t i = 0; i < WORDS; i++)
        lost += copy[i] != round;
    printf("%u lost in %u rounds\n", lost, round);
    return lost ? 1 : 0;
}
