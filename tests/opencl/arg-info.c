/* SPDX-License-Identifier: Apache-2.0
 *
 * arg-info [FILE]: says what kernels tell of their arguments, by how their programs were built, and
 * whether numbers that are the addresses of handles come to the kernels as they are; with
 * VG_OPAQUE, also of images and samplers. With FILE, the programs are built, "built" is said, and
 * all the rest follows once there is that file.
 */
#include "config.h"

#define CL_TARGET_OPENCL_VERSION          300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS 1
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <CL/cl.h>

static const char text[] =
    "typedef long number; typedef struct { int a, b; } pair;\n"
    "kernel void keep(global long *out, long a, ulong b, double c, int2 d, number e, pair f,\n"
    "                 read_only image2d_t image, sampler_t g) {\n"
    "  out[0] = a; out[1] = b; out[2] = as_long(c); out[3] = as_long(d); out[4] = e;\n"
    "  out[5] = as_long((int2)(f.a, f.b)); out[6] = get_image_width(image); }\n"
    "kernel void none() {}\n";

#define NUMBERS 6 /* of the arguments after the first */
#define OUT     7
#define ARGS    9

static const char *const ways[] = {NULL, "", "-cl-kernel-arg-info", "-DX -cl-kernel-arg-info",
                                   "-DX"};
#define N_WAYS (sizeof ways / sizeof *ways)

struct made {
    char name[96];
    cl_program program;
    cl_kernel kernel, none;
};

static struct {
    cl_device_id device;
    cl_context context;
    cl_command_queue queue;
    cl_mem out, image;
    cl_sampler sampler;
    cl_event event;
    struct made made[32];
    int n;
} w;

static void
say(const char *what, cl_int error)
{
    printf("  %s: %d\n", what, error);
}

/* ---- programs ---- */

static void
keep(const char *name, const char *options, cl_program program, cl_int error)
{
    struct made *made = &w.made[w.n++];

    snprintf(made->name, sizeof made->name, "%s, %s", name, options ? options : "no options");
    printf("%s: %d\n", made->name, error);
    made->program = program;
    made->kernel = program ? clCreateKernel(program, "keep", &error) : NULL;
    say("kernel", error);
    made->none = program ? clCreateKernel(program, "none", &error) : NULL;
}

static cl_program
source(void)
{
    const char *lines = text;
    cl_int error;

    return clCreateProgramWithSource(w.context, 1, &lines, NULL, &error);
}

static void
make_built(const char *options)
{
    cl_program program = source();

    keep("built", options, program, clBuildProgram(program, 0, NULL, options, NULL, NULL));
}

static void
make_linked(const char *compiled, const char *linked)
{
    cl_program part = source();
    cl_int error = clCompileProgram(part, 0, NULL, compiled, 0, NULL, NULL, NULL, NULL);
    char options[64] = "";
    size_t size = 0;

    printf("compiled, %s: %d\n", compiled ? compiled : "no options", error);
    error = clGetProgramBuildInfo(part, w.device, CL_PROGRAM_BUILD_OPTIONS, sizeof options, options,
                                  &size);
    printf("  options %d '%s' %zu\n", error, options, size);
    cl_program program = clLinkProgram(w.context, 0, NULL, linked, 1, &part, NULL, NULL, &error);
    clReleaseProgram(part);
    keep("linked", linked, program, error);
}

static void
make_from_binary(const char *first, const char *options)
{
    cl_program program = source();
    size_t size = 0;
    cl_int error = clBuildProgram(program, 0, NULL, first, NULL, NULL), status = 0;

    say("first", error);
    clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, NULL);
    unsigned char *binary = malloc(size + 1);
    clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL);
    clReleaseProgram(program);
    program = clCreateProgramWithBinary(w.context, 1, &w.device, &size,
                                        (const unsigned char **)&binary, &status, &error);
    say("binary", error);
    error = clBuildProgram(program, 0, NULL, options, NULL, NULL);
    free(binary);
    keep("from a binary", options, program, error);
}

static void
make_wrong(const char *lines, const char *options)
{
    static char log[4096];
    size_t size = 0;
    cl_int error;
    cl_program program = clCreateProgramWithSource(w.context, 1, &lines, NULL, &error);

    error = clBuildProgram(program, 0, NULL, options, NULL, NULL);
    printf("wrong, %s: %d\n", options ? options : "no options", error);
    error =
        clGetProgramBuildInfo(program, w.device, CL_PROGRAM_BUILD_OPTIONS, sizeof log, log, &size);
    printf("  options %d '%s' %zu\n", error, log, size);
    error = clGetProgramBuildInfo(program, w.device, CL_PROGRAM_BUILD_LOG, sizeof log, log, &size);
    printf("  log %d %s\n", error,
           strstr(log, "kernel-arg-info") ? log : "is of the program's options");
    clReleaseProgram(program);
}

/* ---- what is asked ---- */

static void
ask_arg(cl_kernel kernel, cl_uint i)
{
    unsigned number = 0;
    cl_ulong bits = 0;
    char name[64] = "";
    size_t size = 0;

    printf("  %u:", i);
    cl_int error = clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_ADDRESS_QUALIFIER, sizeof number,
                                      &number, &size);
    printf(" %d %x %zu", error, number, size);
    error =
        clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_ACCESS_QUALIFIER, sizeof number, &number, NULL);
    printf(" %d %x", error, number);
    error = clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_TYPE_NAME, sizeof name, name, &size);
    printf(" %d %s %zu", error, name, size);
    error = clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_TYPE_QUALIFIER, sizeof bits, &bits, NULL);
    printf(" %d %x", error, (unsigned)bits);
    error = clGetKernelArgInfo(kernel, i, CL_KERNEL_ARG_NAME, 1, name, NULL);
    printf(" %d", error);
    error = clGetKernelArgInfo(kernel, i, 0x9999, sizeof bits, &bits, NULL);
    printf(" %d\n", error);
}

static void
ask(const struct made *made)
{
    char options[64] = "";
    size_t size = 0;

    cl_int error = clGetProgramBuildInfo(made->program, w.device, CL_PROGRAM_BUILD_OPTIONS,
                                         sizeof options, options, &size);
    printf("%s: options %d '%s' %zu\n", made->name, error, options, size);
    error =
        clGetProgramBuildInfo(made->program, w.device, CL_PROGRAM_BUILD_OPTIONS, 0, options, NULL);
    say("no room", error);
    for (cl_uint i = 0; i <= ARGS; i++)
        ask_arg(made->kernel, i);
    ask_arg(made->none, 0);
}

/* ---- numbers that are addresses ---- */

static void
run(const struct made *made, const char *what, const void *handle)
{
    const size_t one = 1;
    cl_long out[OUT] = {0}, number = (cl_long)(uintptr_t)handle;
    cl_int error = clSetKernelArg(made->kernel, 0, sizeof w.out, &w.out);

    for (cl_uint i = 1; i <= NUMBERS && error == CL_SUCCESS; i++)
        error = clSetKernelArg(made->kernel, i, sizeof number, &number);
    if (error == CL_SUCCESS)
        error = clSetKernelArg(made->kernel, 7, sizeof w.image, &w.image);
    if (error == CL_SUCCESS)
        error = clSetKernelArg(made->kernel, 8, sizeof w.sampler, &w.sampler);
    say("args", error);
    error = clEnqueueNDRangeKernel(w.queue, made->kernel, 1, NULL, &one, &one, 0, NULL, NULL);
    say("launch", error);
    error = clEnqueueReadBuffer(w.queue, w.out, CL_TRUE, 0, sizeof out, out, 0, NULL, NULL);
    printf("  %s %d:", what, error);
    for (int i = 0; i < NUMBERS; i++)
        printf(" %s", out[i] == number ? "same" : "OTHER");
    printf(" %d\n", (int)out[6]);
}

static void
open_world(void)
{
    const cl_image_format format = {CL_RGBA, CL_UNSIGNED_INT8};
    const cl_image_desc desc = {
        .image_type = CL_MEM_OBJECT_IMAGE2D, .image_width = 4, .image_height = 4};
    unsigned char texels[64];
    cl_platform_id platform;
    cl_int error;

    for (int i = 0; i < 64; i++)
        texels[i] = (unsigned char)(i + 1);
    if (clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS ||
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &w.device, NULL) != CL_SUCCESS)
        exit(2);
    w.context = clCreateContext(NULL, 1, &w.device, NULL, NULL, &error);
    w.queue = clCreateCommandQueue(w.context, w.device, 0, &error);
    w.out = clCreateBuffer(w.context, 0, OUT * sizeof(cl_long), NULL, &error);
    w.image = clCreateImage(w.context, CL_MEM_COPY_HOST_PTR, &format, &desc, texels, &error);
    w.sampler =
        clCreateSampler(w.context, CL_FALSE, CL_ADDRESS_CLAMP_TO_EDGE, CL_FILTER_NEAREST, &error);
    if (error != CL_SUCCESS ||
        clEnqueueMarkerWithWaitList(w.queue, 0, NULL, &w.event) != CL_SUCCESS)
        exit(2);
}

int
main(int argc, char **argv)
{
    open_world();
    for (size_t i = 0; i < N_WAYS; i++)
        make_built(ways[i]);
    for (size_t i = 0; i < 3; i++)
        make_linked(ways[i], ways[(i + 1) % 3]);
    for (size_t i = 0; i < 3; i++)
        make_from_binary(ways[(i + 1) % 3], ways[i]);
    make_wrong("kernel void wrong() { nothing }", NULL);
    make_wrong(text, "-cl-no-such-option");
    puts("built");
    fflush(stdout);
    while (argc > 1 && access(argv[1], F_OK) != 0)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    for (int i = 0; i < w.n; i++)
        if (w.made[i].kernel)
            ask(&w.made[i]);
    for (int i = 0; i < w.n; i++) {
        const struct made *made = &w.made[i];
        if (!made->kernel)
            continue;
        printf("%s\n", made->name);
        run(made, "nothing", NULL);
        run(made, "memory", w.out);
        run(made, "a queue", w.queue);
        run(made, "an event", w.event);
        run(made, "a kernel", made->kernel);
        if (getenv("VG_OPAQUE")) {
            run(made, "an image", w.image);
            run(made, "a sampler", w.sampler);
        }
    }
    return 0;
}
