/* SPDX-License-Identifier: Apache-2.0
 *
 * frames MIB FRAMES PAUSE_MS [FILE]: makes frame after frame of so much of a device's memory, with
 * a pause after each, FRAMES of them, and more for as long as there is FILE. Says of each frame
 * when it was done, in milliseconds of this program, and a sum of its bits; in the end how many
 * there were, and a sum of all bits of the memory and of all frames. As all numbers are integers,
 * sums are the same for every device.
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

#define FRAME ((size_t)16384) /* numbers of a frame */

static const char source[] =
    "__kernel void begin(__global uint *all)"
    "{ uint i = get_global_id(0); all[i] = i * 2654435761u + 1u; }\n"
    /* Each number from its own place and one of the frame before: a frame that is lost or comes
       twice is seen. */
    "__kernel void frame(__global uint *all, __global uint *last, uint first, uint n)"
    "{ uint i = get_global_id(0), x = all[first + i] ^ last[i] ^ n;"
    "  for (int k = 0; k < 8; k++) { x ^= x << 13; x ^= x >> 17; x ^= x << 5; x += 0x9E3779B9u; }"
    "  all[first + i] = x; last[i] = x; }\n";

static void
must(cl_int result, const char *what)
{
    if (result == CL_SUCCESS)
        return;
    fprintf(stderr, "%s: OpenCL's error %d\n", what, (int)result);
    exit(1);
}

static uint64_t
add_bits(uint64_t sum, const uint32_t *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sum = (sum ^ words[i]) * UINT64_C(1099511628211);
    return sum;
}

static int64_t
now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

static cl_mem
make_buffer(cl_context context, size_t size)
{
    cl_int error;
    cl_mem buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, size, NULL, &error);

    must(error, "clCreateBuffer");
    return buffer;
}

static cl_kernel
make_kernel(cl_program program, const char *name, cl_mem first)
{
    cl_int error;
    cl_kernel kernel = clCreateKernel(program, name, &error);

    must(error, name);
    must(clSetKernelArg(kernel, 0, sizeof first, &first), name);
    return kernel;
}

int
main(int argc, char **argv)
{
    const size_t mib = argc >= 4 ? (size_t)atol(argv[1]) : 0, n = mib << 18;
    const long frames = argc >= 4 ? atol(argv[2]) : 0, pause_ms = argc >= 4 ? atol(argv[3]) : 0;
    uint64_t sum = UINT64_C(14695981039346656037);
    const char *text = source;
    cl_platform_id platform;
    cl_device_id device;
    cl_int error;

    if (mib < 1 || mib > 1024 || frames < 1) {
        fprintf(stderr, "usage: %s MIB FRAMES PAUSE_MS [FILE]\n", argv[0]);
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    uint32_t *words = malloc(n * sizeof *words);
    must(words ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY, "malloc");
    must(clGetPlatformIDs(1, &platform, NULL), "clGetPlatformIDs");
    must(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL), "clGetDeviceIDs");
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
    must(error, "clCreateContext");
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &error);
    must(error, "clCreateCommandQueue");
    cl_program program = clCreateProgramWithSource(context, 1, &text, NULL, &error);
    must(error, "clCreateProgramWithSource");
    must(clBuildProgram(program, 1, &device, "", NULL, NULL), "clBuildProgram");
    cl_mem all = make_buffer(context, n * sizeof *words);
    cl_mem last = make_buffer(context, FRAME * sizeof *words);
    cl_kernel begin = make_kernel(program, "begin", all);
    cl_kernel frame = make_kernel(program, "frame", all);
    must(clSetKernelArg(frame, 1, sizeof last, &last), "clSetKernelArg");
    must(clEnqueueNDRangeKernel(queue, begin, 1, NULL, &n, NULL, 0, NULL, NULL), "begin");
    for (size_t i = 0; i < FRAME; i++)
        words[i] = 0;
    must(clEnqueueWriteBuffer(queue, last, CL_TRUE, 0, FRAME * sizeof *words, words, 0, NULL, NULL),
         "clEnqueueWriteBuffer");
    const size_t global = FRAME;
    cl_uint done = 0;
    while ((long)done < frames || (argc > 4 && access(argv[4], F_OK) == 0)) {
        cl_uint first = (cl_uint)(done * FRAME % n);
        must(clSetKernelArg(frame, 2, sizeof first, &first), "clSetKernelArg");
        must(clSetKernelArg(frame, 3, sizeof done, &done), "clSetKernelArg");
        must(clEnqueueNDRangeKernel(queue, frame, 1, NULL, &global, NULL, 0, NULL, NULL), "frame");
        must(clEnqueueReadBuffer(queue, last, CL_TRUE, 0, FRAME * sizeof *words, words, 0, NULL,
                                 NULL),
             "clEnqueueReadBuffer");
        sum = add_bits(sum, words, FRAME);
        done++;
        printf("frame %u at %" PRId64 " ms %08x\n", (unsigned)done, now_ms(),
               (unsigned)(sum >> 32));
        nanosleep(
            &(struct timespec){.tv_sec = pause_ms / 1000, .tv_nsec = pause_ms % 1000 * 1000000},
            NULL);
    }
    must(clEnqueueReadBuffer(queue, all, CL_TRUE, 0, n * sizeof *words, words, 0, NULL, NULL),
         "clEnqueueReadBuffer");
    printf("frames %u sum %016" PRIx64 "\n", (unsigned)done, add_bits(sum, words, n));
    free(words);
    return 0;
}
