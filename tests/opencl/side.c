/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tests/opencl/side.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <dlfcn.h>

typedef cl_int(CL_API_CALL *get_platforms)(cl_uint, cl_platform_id *, cl_uint *);
typedef void *(CL_API_CALL *get_address)(const char *);

void
must(cl_int result, const char *what)
{
    if (result == CL_SUCCESS)
        return;
    fprintf(stderr, "%s: OpenCL's error %d\n", what, (int)result);
    exit(1);
}

void
side_open(struct side *side, const char *library)
{
    cl_int error;

    side->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!side->library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    get_address address = (get_address)dlsym(side->library, "clGetExtensionFunctionAddress");
    get_platforms platforms = address ? (get_platforms)address("clIcdGetPlatformIDsKHR") : NULL;
    must(platforms ? platforms(1, &side->platform, NULL) : CL_INVALID_PLATFORM, library);
    side->cl = *(const cl_icd_dispatch *const *)side->platform;
    error = side->cl->clGetDeviceIDs(side->platform, CL_DEVICE_TYPE_GPU, 1, &side->device, NULL);
    if (error == CL_DEVICE_NOT_FOUND)
        error =
            side->cl->clGetDeviceIDs(side->platform, CL_DEVICE_TYPE_ALL, 1, &side->device, NULL);
    must(error, "clGetDeviceIDs");
    side->context = side->cl->clCreateContext(NULL, 1, &side->device, NULL, NULL, &error);
    must(error, "clCreateContext");
    side->queue = side->cl->clCreateCommandQueue(side->context, side->device, 0, &error);
    must(error, "clCreateCommandQueue");
}

void
side_close(struct side *side)
{
    must(side->cl->clReleaseCommandQueue(side->queue), "clReleaseCommandQueue");
    must(side->cl->clReleaseContext(side->context), "clReleaseContext");
    dlclose(side->library);
}

cl_program
side_build(const struct side *side, const char *source)
{
    cl_int error;
    cl_program program =
        side->cl->clCreateProgramWithSource(side->context, 1, &source, NULL, &error);

    must(error, "clCreateProgramWithSource");
    must(side->cl->clBuildProgram(program, 1, &side->device, "", NULL, NULL), "clBuildProgram");
    return program;
}

cl_kernel
side_kernel(const struct side *side, cl_program program, const char *name)
{
    cl_int error;
    cl_kernel kernel = side->cl->clCreateKernel(program, name, &error);

    must(error, name);
    return kernel;
}

cl_mem
side_buffer(const struct side *side, size_t size)
{
    cl_int error;
    cl_mem buffer = side->cl->clCreateBuffer(side->context, CL_MEM_READ_WRITE, size, NULL, &error);

    must(error, "clCreateBuffer");
    return buffer;
}

void
side_launch(const struct side *side, cl_kernel kernel, size_t global, size_t local)
{
    must(side->cl->clEnqueueNDRangeKernel(side->queue, kernel, 1, NULL, &global,
                                          local ? &local : NULL, 0, NULL, NULL),
         "clEnqueueNDRangeKernel");
}

void
side_finish(const struct side *side)
{
    must(side->cl->clFinish(side->queue), "clFinish");
}

int64_t
now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static int
compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;

    return left < right ? -1 : left > right;
}

double
median(double *numbers, unsigned n)
{
    qsort(numbers, n, sizeof *numbers, compare);
    return n % 2 ? numbers[n / 2] : (numbers[n / 2 - 1] + numbers[n / 2]) / 2;
}
