/* SPDX-License-Identifier: Apache-2.0
 *
 * A vendor of OpenCL: PoCL, with a fault as long as there is the file that VG_FAULT names. In it is
 * a function's name, which call of it, counted while the file is the same, and what comes of that
 * call and those after it: "fails"; "slow", it takes 0.3 s; "hangs" until the file is gone.
 */
#include "config.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "tests/opencl/vendor-table.h"

static cl_icd_dispatch pocl; /* its own functions */

struct fault {
    char function[64], kind[16];
    int nth;
};

static bool
read_fault(struct fault *fault, ino_t *inode)
{
    struct stat status;
    FILE *file = fopen(getenv("VG_FAULT"), "re");

    if (!file)
        return false;
    bool ok = fstat(fileno(file), &status) == 0 &&
              fscanf(file, "%63s %d %15s", fault->function, &fault->nth, fault->kind) == 3;
    fclose(file);
    *inode = status.st_ino;
    return ok;
}

static void
pause_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

/* Whether this call fails. Those of the program itself do not: the library's own threads have a
 * name. */
static bool
is_faulty(const char *function)
{
    char thread[16] = "";
    static ino_t counted;
    static int calls;
    struct fault fault;
    ino_t inode;

    pthread_getname_np(pthread_self(), thread, sizeof thread);
    if (strcmp(thread, "vgpu-opencl") != 0 || !read_fault(&fault, &inode) ||
        strcmp(fault.function, function) != 0)
        return false;
    if (counted != inode)
        calls = 0;
    counted = inode;
    if (++calls < fault.nth)
        return false;
    if (strcmp(fault.kind, "slow") == 0)
        pause_ms(300);
    while (strcmp(fault.kind, "hangs") == 0 && read_fault(&fault, &inode))
        pause_ms(10);
    return strcmp(fault.kind, "fails") == 0;
}

#define CHECKED(name, parameters, arguments)                                                       \
 static cl_int CL_API_CALL faulty_##name parameters                                                \
 {                                                                                                 \
  return is_faulty(#name) ? CL_OUT_OF_RESOURCES : pocl.name arguments;                             \
 }

#define CREATES(type, name, parameters, arguments)                                                 \
 static type CL_API_CALL faulty_##name parameters                                                  \
 {                                                                                                 \
  if (!is_faulty(#name))                                                                           \
   return pocl.name arguments;                                                                     \
  if (error)                                                                                       \
   *error = CL_OUT_OF_RESOURCES;                                                                   \
  return NULL;                                                                                     \
 }

#define WAIT_LIST cl_uint n, const cl_event *list, cl_event *event

CHECKED(clEnqueueMarkerWithWaitList, (cl_command_queue q, WAIT_LIST), (q, n, list, event))
CHECKED(clFinish, (cl_command_queue q), (q))
CHECKED(clEnqueueReadBuffer,
        (cl_command_queue q, cl_mem m, cl_bool wait, size_t at, size_t size, void *to, WAIT_LIST),
        (q, m, wait, at, size, to, n, list, event))
CHECKED(clEnqueueWriteBuffer,
        (cl_command_queue q, cl_mem m, cl_bool wait, size_t at, size_t size, const void *from,
         WAIT_LIST),
        (q, m, wait, at, size, from, n, list, event))
CHECKED(clEnqueueReadImage,
        (cl_command_queue q, cl_mem m, cl_bool wait, const size_t *origin, const size_t *region,
         size_t row, size_t slice, void *to, WAIT_LIST),
        (q, m, wait, origin, region, row, slice, to, n, list, event))
CHECKED(clEnqueueWriteImage,
        (cl_command_queue q, cl_mem m, cl_bool wait, const size_t *origin, const size_t *region,
         size_t row, size_t slice, const void *from, WAIT_LIST),
        (q, m, wait, origin, region, row, slice, from, n, list, event))
CHECKED(clEnqueueUnmapMemObject, (cl_command_queue q, cl_mem m, void *at, WAIT_LIST),
        (q, m, at, n, list, event))
CHECKED(clGetProgramInfo,
        (cl_program p, cl_program_info what, size_t size, void *to, size_t *size_ret),
        (p, what, size, to, size_ret))
CHECKED(clGetDeviceIDs,
        (cl_platform_id p, cl_device_type type, cl_uint n, cl_device_id *list, cl_uint *found),
        (p, type, n, list, found))
CHECKED(clBuildProgram,
        (cl_program p, cl_uint n, const cl_device_id *list, const char *options,
         void(CL_CALLBACK *notify)(cl_program, void *), void *data),
        (p, n, list, options, notify, data))
CHECKED(clCompileProgram,
        (cl_program p, cl_uint n, const cl_device_id *list, const char *options, cl_uint n_headers,
         const cl_program *headers, const char **names,
         void(CL_CALLBACK *notify)(cl_program, void *), void *data),
        (p, n, list, options, n_headers, headers, names, notify, data))
CHECKED(clSetKernelArg, (cl_kernel k, cl_uint i, size_t size, const void *value),
        (k, i, size, value))
CHECKED(clReleaseMemObject, (cl_mem m), (m))
CHECKED(clReleaseContext, (cl_context c), (c))
CREATES(cl_context, clCreateContext,
        (const cl_context_properties *properties, cl_uint n, const cl_device_id *list,
         void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *), void *data,
         cl_int *error),
        (properties, n, list, notify, data, error))
CREATES(cl_command_queue, clCreateCommandQueue,
        (cl_context c, cl_device_id d, cl_command_queue_properties bits, cl_int *error),
        (c, d, bits, error))
CREATES(cl_mem, clCreateBuffer,
        (cl_context c, cl_mem_flags flags, size_t size, void *host, cl_int *error),
        (c, flags, size, host, error))
CREATES(cl_mem, clCreateSubBuffer,
        (cl_mem m, cl_mem_flags flags, cl_buffer_create_type type, const void *info, cl_int *error),
        (m, flags, type, info, error))
CREATES(cl_mem, clCreateImage,
        (cl_context c, cl_mem_flags flags, const cl_image_format *format, const cl_image_desc *desc,
         void *host, cl_int *error),
        (c, flags, format, desc, host, error))
CREATES(cl_sampler, clCreateSampler,
        (cl_context c, cl_bool is_normal, cl_addressing_mode mode, cl_filter_mode filter,
         cl_int *error),
        (c, is_normal, mode, filter, error))
CREATES(cl_program, clCreateProgramWithSource,
        (cl_context c, cl_uint n, const char **strings, const size_t *sizes, cl_int *error),
        (c, n, strings, sizes, error))
CREATES(cl_program, clCreateProgramWithBinary,
        (cl_context c, cl_uint n, const cl_device_id *list, const size_t *sizes,
         const unsigned char **binaries, cl_int *status, cl_int *error),
        (c, n, list, sizes, binaries, status, error))
CREATES(cl_kernel, clCreateKernel, (cl_program p, const char *name, cl_int *error),
        (p, name, error))
CREATES(cl_event, clCreateUserEvent, (cl_context c, cl_int *error), (c, error))
CREATES(void *, clEnqueueMapBuffer,
        (cl_command_queue q, cl_mem m, cl_bool wait, cl_map_flags flags, size_t at, size_t size,
         WAIT_LIST, cl_int *error),
        (q, m, wait, flags, at, size, n, list, event, error))

#define FAULTY(name) table->name = faulty_##name

__attribute__((visibility("default"))) void *
clGetExtensionFunctionAddress(const char *name)
{
    void *found = vendor_pocl(name);

    if (strcmp(name, "clIcdGetPlatformIDsKHR") != 0 || pocl.clFinish)
        return found;
    cl_icd_dispatch *table = vendor_table((vendor_get_platforms)found);
    if (!table)
        return found;
    pocl = *table;
    FAULTY(clEnqueueMarkerWithWaitList);
    FAULTY(clFinish);
    FAULTY(clEnqueueReadBuffer);
    FAULTY(clEnqueueWriteBuffer);
    FAULTY(clEnqueueReadImage);
    FAULTY(clEnqueueWriteImage);
    FAULTY(clEnqueueUnmapMemObject);
    FAULTY(clGetProgramInfo);
    FAULTY(clGetDeviceIDs);
    FAULTY(clBuildProgram);
    FAULTY(clCompileProgram);
    FAULTY(clSetKernelArg);
    FAULTY(clReleaseMemObject);
    FAULTY(clReleaseContext);
    FAULTY(clCreateContext);
    FAULTY(clCreateCommandQueue);
    FAULTY(clCreateBuffer);
    FAULTY(clCreateSubBuffer);
    FAULTY(clCreateImage);
    FAULTY(clCreateSampler);
    FAULTY(clCreateProgramWithSource);
    FAULTY(clCreateProgramWithBinary);
    FAULTY(clCreateKernel);
    FAULTY(clCreateUserEvent);
    FAULTY(clEnqueueMapBuffer);
    return found;
}
