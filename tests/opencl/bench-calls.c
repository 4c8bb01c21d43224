/* SPDX-License-Identifier: Apache-2.0
 *
 * bench-calls LIBRARY LIBRARY [ROUNDS [transfers]]: what calls of OpenCL cost through the second
 * library against the first, which take turns. A line for each: its name, the first's time and the
 * second's in ns, and the ratio; each is the median of the rounds.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/opencl/side.h"

#define SET_ARGS     5000
#define LAUNCHES     40
#define TRANSFERS    4
#define TRANSFER     (4 << 20) /* bytes */
#define MAX_ROUNDS   10000
#define WARM_ROUNDS  3
#define DEFAULT_TURN 300

struct under_test {
    struct side side;
    cl_kernel kernel;
    cl_mem memory[2], large;
};

static char bytes[TRANSFER];

static const char source[] =
    "__kernel void test(__global int *to, int number, __global const int *from)"
    "{ if (number < 0) to[0] = from[0]; }";

static double ns[2][MAX_ROUNDS], ratios[MAX_ROUNDS];

static void
open_test(struct under_test *t, const char *library)
{
    int number = 1;

    side_open(&t->side, library);
    t->kernel = side_kernel(&t->side, side_build(&t->side, source), "test");
    t->memory[0] = side_buffer(&t->side, 4096);
    t->memory[1] = side_buffer(&t->side, 4096);
    t->large = side_buffer(&t->side, TRANSFER);
    const cl_icd_dispatch *cl = t->side.cl;
    must(cl->clSetKernelArg(t->kernel, 0, sizeof(cl_mem), &t->memory[0]), "clSetKernelArg");
    must(cl->clSetKernelArg(t->kernel, 1, sizeof number, &number), "clSetKernelArg");
    must(cl->clSetKernelArg(t->kernel, 2, sizeof(cl_mem), &t->memory[1]), "clSetKernelArg");
}

/* ---- what is measured: each returns how many calls it made ---- */

static unsigned
set_number(const struct under_test *t)
{
    cl_int result = CL_SUCCESS;

    for (int i = 1; i <= SET_ARGS; i++)
        result |= t->side.cl->clSetKernelArg(t->kernel, 1, sizeof i, &i);
    must(result, "clSetKernelArg");
    return SET_ARGS;
}

static unsigned
set_memory(const struct under_test *t)
{
    cl_int result = CL_SUCCESS;

    for (int i = 0; i < SET_ARGS; i++)
        result |= t->side.cl->clSetKernelArg(t->kernel, 2, sizeof(cl_mem), &t->memory[i % 2]);
    must(result, "clSetKernelArg");
    return SET_ARGS;
}

static unsigned
launch_and_finish(const struct under_test *t)
{
    for (int i = 0; i < LAUNCHES; i++) {
        side_launch(&t->side, t->kernel, 1, 1);
        side_finish(&t->side);
    }
    return LAUNCHES;
}

static unsigned
launch(const struct under_test *t)
{
    for (int i = 0; i < LAUNCHES; i++)
        side_launch(&t->side, t->kernel, 1, 1);
    side_finish(&t->side);
    return LAUNCHES;
}

static unsigned
write_large(const struct under_test *t)
{
    for (int i = 0; i < TRANSFERS; i++)
        must(t->side.cl->clEnqueueWriteBuffer(t->side.queue, t->large, CL_TRUE, 0, TRANSFER, bytes,
                                              0, NULL, NULL),
             "clEnqueueWriteBuffer");
    return TRANSFERS;
}

static unsigned
read_large(const struct under_test *t)
{
    for (int i = 0; i < TRANSFERS; i++)
        must(t->side.cl->clEnqueueReadBuffer(t->side.queue, t->large, CL_TRUE, 0, TRANSFER, bytes,
                                             0, NULL, NULL),
             "clEnqueueReadBuffer");
    return TRANSFERS;
}

#define CALLS 4 /* the rest are transfers */

static const struct {
    const char *name;
    unsigned (*run)(const struct under_test *t);
} measured[] = {{"clSetKernelArg-number", set_number}, {"clSetKernelArg-memory", set_memory},
                {"launch-finish", launch_and_finish},  {"launch", launch},
                {"write-4MiB", write_large},           {"read-4MiB", read_large}};

static double
time_of(const struct under_test *t, size_t what)
{
    int64_t begin = now_ns();
    unsigned n = measured[what].run(t);

    return (double)(now_ns() - begin) / n;
}

/* Who is first changes, as the second may find the processor in another state. */
static void
measure(const struct under_test tests[2], size_t what, unsigned rounds)
{
    for (unsigned i = 0; i < 2 * WARM_ROUNDS; i++)
        time_of(&tests[i % 2], what);
    for (unsigned i = 0; i < rounds; i++) {
        ns[i % 2][i] = time_of(&tests[i % 2], what);
        ns[1 - i % 2][i] = time_of(&tests[1 - i % 2], what);
        ratios[i] = ns[1][i] / ns[0][i];
    }
    printf("%s %.2f %.2f %.4f\n", measured[what].name, median(ns[0], rounds), median(ns[1], rounds),
           median(ratios, rounds));
}

int
main(int argc, char **argv)
{
    struct under_test tests[2];
    unsigned rounds = argc > 3 ? (unsigned)atoi(argv[3]) : DEFAULT_TURN;

    if (argc < 3 || rounds < 1 || rounds > MAX_ROUNDS) {
        fprintf(stderr, "usage: %s LIBRARY LIBRARY [ROUNDS [transfers]]\n", argv[0]);
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    open_test(&tests[0], argv[1]);
    open_test(&tests[1], argv[2]);
    size_t n = argc > 4 ? sizeof measured / sizeof *measured : CALLS;
    for (size_t i = 0; i < n; i++)
        measure(tests, i, rounds);
    return 0;
}
