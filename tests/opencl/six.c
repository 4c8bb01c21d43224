/* SPDX-License-Identifier: Apache-2.0
 *
 * six LIBRARY LIBRARY [TURNS [sums]]: six programs of OpenCL, each with both libraries in turns of
 * equal work: it writes its data, runs, and reads the result. A line for each: its name, the first
 * library's time of a turn and the second's in ms (medians), the median of their ratios, and
 * whether all results were bit by bit the same; with sums, then a line with the name and a sum of
 * the bits of the first library's last result.
 */
#include "config.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/opencl/side.h"

#define MAX_TURNS 1000
#define GROUP     64 /* work items of a group; the tile of matrices is 8 x 8 */

static const char source[] =
    "__kernel void add(__global const float *a, __global const float *b, __global float *c)"
    "{ size_t i = get_global_id(0); c[i] = a[i] + b[i]; }\n"
    "__kernel void multiply(__global const float *a, __global const float *b, __global float *c,"
    "                       int n)"
    "{ __local float ta[64], tb[64];"
    "  int l = get_local_id(0), x = l % 8, y = l / 8, tiles = n / 8;"
    "  int row = (int)get_group_id(0) / tiles * 8 + y, column = (int)get_group_id(0) % tiles * 8 + "
    "x;"
    "  float sum = 0;"
    "  for (int t = 0; t < tiles; t++) {"
    "    ta[l] = a[row * n + t * 8 + x]; tb[l] = b[(t * 8 + y) * n + column];"
    "    barrier(CLK_LOCAL_MEM_FENCE);"
    "    for (int k = 0; k < 8; k++) sum += ta[y * 8 + k] * tb[k * 8 + x];"
    "    barrier(CLK_LOCAL_MEM_FENCE); }"
    "  c[row * n + column] = sum; }\n"
    "__kernel void reduce(__global const float *from, __global float *to, __local float *part)"
    "{ int l = get_local_id(0); part[l] = from[get_global_id(0)];"
    "  for (int s = 32; s > 0; s /= 2) {"
    "    barrier(CLK_LOCAL_MEM_FENCE);"
    "    if (l < s) part[l] += part[l + s]; }"
    "  if (l == 0) to[get_group_id(0)] = part[0]; }\n"
    "__kernel void fft(__global const float2 *from, __global float2 *to, int n, int step)"
    "{ int i = get_global_id(0), k = i / step, j = i % step;"
    "  float2 a = from[i], b = from[i + n / 2], d = a - b;"
    "  float angle = -2 * M_PI_F * (float)(k * step) / (float)n, c = native_cos(angle),"
    "        s = native_sin(angle);"
    "  to[2 * k * step + j] = a + b;"
    "  to[(2 * k + 1) * step + j] = (float2)(d.x * c - d.y * s, d.x * s + d.y * c); }\n"
    "__kernel void bodies(__global const float4 *from, __global const float4 *speed,"
    "                     __global float4 *to, __global float4 *new_speed, int n, float dt)"
    "{ int i = get_global_id(0); float4 me = from[i]; float3 pull = (float3)(0);"
    "  for (int j = 0; j < n; j++) {"
    "    float3 d = from[j].xyz - me.xyz; float r = rsqrt(dot(d, d) + 0.01f);"
    "    pull += d * (from[j].w * r * r * r); }"
    "  float3 v = speed[i].xyz + pull * dt;"
    "  new_speed[i] = (float4)(v, 0); to[i] = (float4)(me.xyz + v * dt, me.w); }\n"
    "__kernel void stencil(__global const float *from, __global float *to, int width, int height)"
    "{ int i = get_global_id(0), x = i % width, y = i / width;"
    "  if (x == 0 || y == 0 || x == width - 1 || y == height - 1) { to[i] = from[i]; return; }"
    "  to[i] = 0.2f * (from[i] + from[i - 1] + from[i + 1] + from[i - width] + from[i + width]); "
    "}\n";

/* Of one library. */
struct run {
    struct side side;
    cl_program program;
    cl_kernel kernel;
    cl_mem mems[4];
};

/* ---- short forms ---- */

static void
write_to(const struct run *r, int mem, const float *data, size_t n)
{
    must(r->side.cl->clEnqueueWriteBuffer(r->side.queue, r->mems[mem], CL_FALSE, 0,
                                          n * sizeof *data, data, 0, NULL, NULL),
         "clEnqueueWriteBuffer");
}

static void
read_from(const struct run *r, int mem, float *data, size_t n)
{
    must(r->side.cl->clEnqueueReadBuffer(r->side.queue, r->mems[mem], CL_TRUE, 0, n * sizeof *data,
                                         data, 0, NULL, NULL),
         "clEnqueueReadBuffer");
}

static void
arg(const struct run *r, cl_uint i, size_t size, const void *value)
{
    must(r->side.cl->clSetKernelArg(r->kernel, i, size, value), "clSetKernelArg");
}

static void
arg_mem(const struct run *r, cl_uint i, int mem)
{
    arg(r, i, sizeof(cl_mem), &r->mems[mem]);
}

static void
arg_int(const struct run *r, cl_uint i, int value)
{
    arg(r, i, sizeof value, &value);
}

/* ---- the programs: a turn of each, with N as it is sized; the result goes to OUT ---- */

static size_t
turn_add(const struct run *r, int n, const float *in, float *out)
{
    write_to(r, 0, in, (size_t)n);
    write_to(r, 1, in, (size_t)n);
    for (int i = 0; i < 20; i++) {
        arg_mem(r, 0, i % 2 ? 2 : 0);
        arg_mem(r, 1, 1);
        arg_mem(r, 2, i % 2 ? 0 : 2);
        side_launch(&r->side, r->kernel, (size_t)n, GROUP);
    }
    read_from(r, 0, out, (size_t)n);
    return (size_t)n;
}

static size_t
turn_multiply(const struct run *r, int n, const float *in, float *out)
{
    size_t elements = (size_t)n * (size_t)n;

    write_to(r, 0, in, elements);
    write_to(r, 1, in, elements);
    for (cl_uint i = 0; i < 3; i++)
        arg_mem(r, i, (int)i);
    arg_int(r, 3, n);
    side_launch(&r->side, r->kernel, elements, GROUP);
    read_from(r, 2, out, elements);
    return elements;
}

static size_t
turn_reduce(const struct run *r, int n, const float *in, float *out)
{
    write_to(r, 3, in, (size_t)n);
    for (int i = 0; i < 10; i++) {
        int from = 3, to = 0;
        for (size_t left = (size_t)n; left >= GROUP; left /= GROUP) {
            arg_mem(r, 0, from);
            arg_mem(r, 1, to);
            arg(r, 2, GROUP * sizeof(float), NULL);
            side_launch(&r->side, r->kernel, left, GROUP);
            from = to;
            to = 1 - to;
        }
    }
    /* What is left lies where an even number of steps leads. */
    read_from(r, 0, out, 1);
    read_from(r, 1, out + 1, 1);
    return 2;
}

static size_t
turn_fft(const struct run *r, int n, const float *in, float *out)
{
    int from = 0;

    write_to(r, 0, in, (size_t)n * 2);
    arg_int(r, 2, n);
    for (int step = 1; step < n; step *= 2) {
        arg_mem(r, 0, from);
        arg_mem(r, 1, 1 - from);
        arg_int(r, 3, step);
        side_launch(&r->side, r->kernel, (size_t)n / 2, GROUP);
        from = 1 - from;
    }
    read_from(r, from, out, (size_t)n * 2);
    return (size_t)n * 2;
}

static size_t
turn_bodies(const struct run *r, int n, const float *in, float *out)
{
    float dt = 0.001f;

    write_to(r, 0, in, (size_t)n * 4);
    write_to(r, 1, in, (size_t)n * 4);
    for (int i = 0; i < 8; i++) {
        int from = i % 2 ? 2 : 0;
        arg_mem(r, 0, from);
        arg_mem(r, 1, from + 1);
        arg_mem(r, 2, 2 - from);
        arg_mem(r, 3, 3 - from);
        arg_int(r, 4, n);
        arg(r, 5, sizeof dt, &dt);
        side_launch(&r->side, r->kernel, (size_t)n, GROUP);
    }
    read_from(r, 0, out, (size_t)n * 4);
    return (size_t)n * 4;
}

static size_t
turn_stencil(const struct run *r, int n, const float *in, float *out)
{
    write_to(r, 0, in, (size_t)n * (size_t)n);
    arg_int(r, 2, n);
    arg_int(r, 3, n);
    for (int i = 0; i < 40; i++) {
        arg_mem(r, 0, i % 2);
        arg_mem(r, 1, 1 - i % 2);
        side_launch(&r->side, r->kernel, (size_t)n * (size_t)n, GROUP);
    }
    read_from(r, 0, out, (size_t)n * (size_t)n);
    return (size_t)n * (size_t)n;
}

static const struct {
    const char *name, *kernel;
    size_t (*turn)(const struct run *r, int n, const float *in, float *out);
    int n_cpu, n_gpu;
} programs[] = {{"vector-add", "add", turn_add, 1 << 18, 1 << 22},
                {"matrix-multiply", "multiply", turn_multiply, 192, 2048},
                {"reduction", "reduce", turn_reduce, 1 << 18, 1 << 24},
                {"fft", "fft", turn_fft, 1 << 16, 1 << 20},
                {"n-body", "bodies", turn_bodies, 1024, 16384},
                {"stencil", "stencil", turn_stencil, 512, 2048}};

#define FLOATS ((size_t)1 << 24) /* the most that one has */

static float *in, *out;
static float *results[2];

static bool
is_cpu(const struct side *side)
{
    cl_device_type type = 0;

    must(side->cl->clGetDeviceInfo(side->device, CL_DEVICE_TYPE, sizeof type, &type, NULL),
         "clGetDeviceInfo");
    return type & CL_DEVICE_TYPE_CPU;
}

/* All have the same memory of the host: where it lies makes a difference of its own. */
static double
turn(struct run *r, size_t what, int n, size_t *elements)
{
    int64_t begin = now_ns();

    *elements = programs[what].turn(r, n, in, out);
    return (double)(now_ns() - begin) / 1e6;
}

/* Whether there is a result, and it is the same. */
static bool
same_results(size_t elements)
{
    bool has_numbers = true;

    for (size_t i = 0; i < elements; i++)
        has_numbers = has_numbers && isfinite(results[0][i]);
    return has_numbers && memcmp(results[0], results[1], elements * sizeof(float)) == 0;
}

static void
print_sum(const char *name, size_t elements)
{
    uint64_t sum = UINT64_C(14695981039346656037);
    uint32_t word;

    for (size_t i = 0; i < elements; i++) {
        memcpy(&word, &results[0][i], sizeof word);
        sum = (sum ^ word) * UINT64_C(1099511628211);
    }
    printf("%s sum %016" PRIx64 "\n", name, sum);
}

static bool
run_program(struct run runs[2], size_t what, unsigned turns, bool sums)
{
    static double ms[2][MAX_TURNS], ratios[MAX_TURNS];
    int n = is_cpu(&runs[0].side) ? programs[what].n_cpu : programs[what].n_gpu;
    size_t elements;
    bool same = true;

    for (int i = 0; i < 2; i++) {
        runs[i].kernel = side_kernel(&runs[i].side, runs[i].program, programs[what].kernel);
        turn(&runs[i], what, n, &elements);
        turn(&runs[i], what, n, &elements);
    }
    for (unsigned i = 0; i < turns; i++) {
        for (unsigned k = 0; k < 2; k++) {
            unsigned side = (i + k) % 2;
            memset(out, 0xff, elements * sizeof(float));
            ms[side][i] = turn(&runs[side], what, n, &elements);
            memcpy(results[side], out, elements * sizeof(float));
        }
        ratios[i] = ms[1][i] / ms[0][i];
        same = same && same_results(elements);
    }
    for (int i = 0; i < 2; i++)
        must(runs[i].side.cl->clReleaseKernel(runs[i].kernel), "clReleaseKernel");
    printf("%s %.3f %.3f %.4f %s\n", programs[what].name, median(ms[0], turns),
           median(ms[1], turns), median(ratios, turns), same ? "equal" : "NOT-EQUAL");
    if (sums)
        print_sum(programs[what].name, elements);
    return same;
}

static void
open_run(struct run *r, const char *library)
{
    size_t size = FLOATS * sizeof(float);

    side_open(&r->side, library);
    if (is_cpu(&r->side))
        size /= 16;
    r->program = side_build(&r->side, source);
    for (int i = 0; i < 4; i++)
        r->mems[i] = side_buffer(&r->side, size);
}

int
main(int argc, char **argv)
{
    static struct run runs[2];
    unsigned turns = argc > 3 ? (unsigned)atoi(argv[3]) : 50;
    bool same = true;

    if (argc < 3 || turns < 1 || turns > MAX_TURNS) {
        fprintf(stderr, "usage: %s LIBRARY LIBRARY [TURNS [sums]]\n", argv[0]);
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    in = malloc(FLOATS * sizeof *in);
    out = malloc(FLOATS * sizeof *in);
    results[0] = malloc(FLOATS * sizeof *in);
    results[1] = malloc(FLOATS * sizeof *in);
    if (!in || !out || !results[0] || !results[1])
        return 1;
    for (size_t i = 0; i < FLOATS; i++)
        in[i] = (float)((i * 7919) % 1024) / 1024;
    open_run(&runs[0], argv[1]);
    open_run(&runs[1], argv[2]);
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        same = run_program(runs, i, turns, argc > 4) && same;
    return same ? 0 : 1;
}
