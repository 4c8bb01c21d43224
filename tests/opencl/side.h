/* SPDX-License-Identifier: Apache-2.0
 *
 * One library of OpenCL with a device, a context and a queue, called as a loader calls it: through
 * the table of its platform. So a program can use two libraries in turns.
 */
#ifndef VG_TESTS_OPENCL_SIDE_H
#define VG_TESTS_OPENCL_SIDE_H

#define CL_TARGET_OPENCL_VERSION          300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS 1
#include <stdint.h>

#include <CL/cl_icd.h>

struct side {
    void *library;
    const cl_icd_dispatch *cl;
    cl_platform_id platform;
    cl_device_id device;
    cl_context context;
    cl_command_queue queue;
};

/* Ends the program with a message unless RESULT is CL_SUCCESS. */
void must(cl_int result, const char *what);

/* Loads the library of that name; opens its first device that is a GPU, or else any. */
void side_open(struct side *side, const char *library);

/* Releases what side_open() made, and unloads the library. */
void side_close(struct side *side);

cl_program side_build(const struct side *side, const char *source);
cl_kernel side_kernel(const struct side *side, cl_program program, const char *name);
cl_mem side_buffer(const struct side *side, size_t size);

/* Puts a command into the queue. */
void side_launch(const struct side *side, cl_kernel kernel, size_t global, size_t local);
void side_finish(const struct side *side);

int64_t now_ns(void);

/* The middle of N numbers, which it sorts. */
double median(double *numbers, unsigned n);

#endif
