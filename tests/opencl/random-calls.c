/* SPDX-License-Identifier: Apache-2.0
 *
 * random-calls SEED STEPS [MILLISECONDS]: makes calls of OpenCL at random, checks nothing, and
 * writes what each returned: errors, hashes of memory, answers that are no addresses. Two runs of
 * one seed write the same, whatever happens to the devices meanwhile. MILLISECONDS pass between two
 * steps.
 */
#include "config.h"

#include "tests/opencl/random-calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct world w;

static uint64_t state;

uint32_t
draw(uint32_t limit)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 33) % limit;
}

uint64_t
hash(const void *bytes, size_t size)
{
    uint64_t h = UINT64_C(14695981039346656037);

    for (size_t i = 0; i < size; i++)
        h = (h ^ ((const unsigned char *)bytes)[i]) * UINT64_C(1099511628211);
    return h;
}

void
say(const char *what, int error, uint64_t more)
{
    printf("%u %s %d %016llx\n", w.step, what, error, (unsigned long long)more);
}

void
fill_random(void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        ((unsigned char *)bytes)[i] = (unsigned char)draw(256);
}

static void
open_world(void)
{
    cl_platform_id platform;
    cl_int error = clGetPlatformIDs(1, &platform, NULL);

    if (error == CL_SUCCESS)
        error = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &w.device, NULL);
    if (error == CL_SUCCESS)
        w.context = clCreateContext(NULL, 1, &w.device, NULL, NULL, &error);
    for (int i = 0; error == CL_SUCCESS && i < QUEUES; i++)
        w.queues[i] =
            clCreateCommandQueue(w.context, w.device, i ? CL_QUEUE_PROFILING_ENABLE : 0, &error);
    if (error == CL_SUCCESS)
        w.sampler =
            clCreateSampler(w.context, CL_FALSE, CL_ADDRESS_CLAMP, CL_FILTER_NEAREST, &error);
    if (error != CL_SUCCESS) {
        fprintf(stderr, "no OpenCL: %d\n", error);
        exit(2);
    }
}

static void
close_world(void)
{
    for (int i = 0; i < MEMS; i++)
        mem_release(i);
    for (int i = 0; i < KERNELS; i++)
        if (w.kernels[i])
            clReleaseKernel(w.kernels[i]);
    for (int i = 0; i < PROGRAMS; i++)
        if (w.programs[i])
            clReleaseProgram(w.programs[i]);
    for (int i = 0; i < EVENTS; i++)
        event_release(i);
    say("sampler", clReleaseSampler(w.sampler), 0);
    for (int i = 0; i < QUEUES; i++)
        say("queue", clReleaseCommandQueue(w.queues[i]), 0);
    say("context", clReleaseContext(w.context), 0);
}

int
main(int argc, char **argv)
{
    static void (*const steps[])(void) = {
        step_buffer, step_buffer, step_sub,    step_image,   step_release, step_write,
        step_read,   step_read,   step_rect,   step_copy,    step_fill,    step_map,
        step_unmap,  step_unmap,  step_texels, step_program, step_link,    step_kernel,
        step_arg,    step_arg,    step_arg,    step_launch,  step_launch,  step_launch,
        step_event,  step_user,   step_wait,   step_ask,     step_ask,     step_wrong,
    };

    if (argc < 3)
        return 2;
    state = strtoull(argv[1], NULL, 10) * 2654435761u + 1;
    unsigned n = (unsigned)strtoul(argv[2], NULL, 10);
    long ms = argc > 3 ? strtol(argv[3], NULL, 10) : 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    open_world();
    for (w.step = 0; w.step < n; w.step++) {
        steps[draw(sizeof steps / sizeof *steps)]();
        if (ms)
            nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000},
                      NULL);
    }
    close_world();
    return 0;
}
