/* SPDX-License-Identifier: Apache-2.0
 *
 * holder hold LIBRARY MIB: fills so much memory of a device with numbers, adds one to each of them
 * again and again, says "ready" when it has begun, and with SIGTERM how many are wrong, and how
 * long the longest step took.
 *
 * holder copy LIBRARY MIB: how long the same memory takes to read and to write by the library's own
 * functions, and what opening and closing it costs, as a line of words and milliseconds.
 */
#include "config.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "tests/opencl/side.h"

#define MAX_PIECES 256
#define PIECE      ((size_t)1 << 30) /* bytes of a buffer, at most */
#define BLOCK      ((size_t)64 << 20)

static const char source[] =
    "__kernel void fill(__global uint *words, uint seed)"
    "{ size_t i = get_global_id(0); words[i] = ((uint)i ^ seed) * 2654435761u; }\n"
    "__kernel void add_one(__global uint *words) { words[get_global_id(0)] += 1; }\n";

static struct side side;
static cl_program program;
static cl_kernel fill, step;
static cl_mem pieces[MAX_PIECES];
static size_t sizes[MAX_PIECES];
static unsigned n_pieces;
static volatile sig_atomic_t ended;

static void
on_signal(int number)
{
    (void)number;
    ended = 1;
}

/* ---- its memory ---- */

static void
open_all(const char *library, size_t bytes)
{
    cl_ulong most = 0;

    side_open(&side, library);
    must(side.cl->clGetDeviceInfo(side.device, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof most, &most,
                                  NULL),
         "clGetDeviceInfo");
    if (most > PIECE)
        most = PIECE;
    program = side_build(&side, source);
    fill = side_kernel(&side, program, "fill");
    step = side_kernel(&side, program, "add_one");
    for (n_pieces = 0; bytes > 0 && n_pieces < MAX_PIECES; n_pieces++) {
        sizes[n_pieces] = bytes < most ? bytes : most;
        pieces[n_pieces] = side_buffer(&side, sizes[n_pieces]);
        bytes -= sizes[n_pieces];
    }
    must(bytes == 0 ? CL_SUCCESS : CL_OUT_OF_RESOURCES, "pieces");
}

static void
close_all(void)
{
    while (n_pieces > 0)
        must(side.cl->clReleaseMemObject(pieces[--n_pieces]), "clReleaseMemObject");
    must(side.cl->clReleaseKernel(fill), "clReleaseKernel");
    must(side.cl->clReleaseKernel(step), "clReleaseKernel");
    must(side.cl->clReleaseProgram(program), "clReleaseProgram");
    side_close(&side);
}

static void
fill_all(void)
{
    for (unsigned i = 0; i < n_pieces; i++) {
        must(side.cl->clSetKernelArg(fill, 0, sizeof(cl_mem), &pieces[i]), "clSetKernelArg");
        must(side.cl->clSetKernelArg(fill, 1, sizeof i, &i), "clSetKernelArg");
        side_launch(&side, fill, sizes[i] / 4, 0);
    }
    side_finish(&side);
}

static void
step_all(void)
{
    for (unsigned i = 0; i < n_pieces; i++) {
        must(side.cl->clSetKernelArg(step, 0, sizeof(cl_mem), &pieces[i]), "clSetKernelArg");
        side_launch(&side, step, sizes[i] / 4, 0);
    }
    side_finish(&side);
}

static size_t
count_wrong(unsigned steps)
{
    uint32_t *block = malloc(BLOCK);
    size_t wrong = 0;

    must(block ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY, "malloc");
    for (unsigned i = 0; i < n_pieces; i++)
        for (size_t at = 0; at < sizes[i]; at += BLOCK) {
            size_t n = sizes[i] - at < BLOCK ? sizes[i] - at : BLOCK;
            must(side.cl->clEnqueueReadBuffer(side.queue, pieces[i], CL_TRUE, at, n, block, 0, NULL,
                                              NULL),
                 "clEnqueueReadBuffer");
            for (size_t k = 0; k < n / 4; k++)
                wrong += block[k] != ((uint32_t)(at / 4 + k) ^ i) * UINT32_C(2654435761) + steps;
        }
    free(block);
    return wrong;
}

/* ---- what it does ---- */

static int
hold(void)
{
    unsigned steps = 0;
    int64_t longest = 0;

    signal(SIGTERM, on_signal);
    fill_all();
    while (!ended) {
        int64_t begin = now_ns();
        step_all();
        int64_t took = now_ns() - begin;
        if (steps++ == 0)
            printf("ready\n");
        else if (took > longest)
            longest = took;
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    size_t wrong = count_wrong(steps);
    printf("steps %u wrong %zu longest %.1f ms\n", steps, wrong, (double)longest / 1e6);
    return wrong != 0;
}

enum copy_way { COPY_READ, COPY_WRITE };

/* In the largest commands that there are, and in a row, as a program would. */
static double
copy_all(enum copy_way way, char *host)
{
    int64_t begin = now_ns();

    for (unsigned i = 0; i < n_pieces; i++) {
        cl_int error = way == COPY_READ
                           ? side.cl->clEnqueueReadBuffer(side.queue, pieces[i], CL_TRUE, 0,
                                                          sizes[i], host, 0, NULL, NULL)
                           : side.cl->clEnqueueWriteBuffer(side.queue, pieces[i], CL_TRUE, 0,
                                                           sizes[i], host, 0, NULL, NULL);
        must(error, "copying");
        host += sizes[i];
    }
    side_finish(&side);
    return (double)(now_ns() - begin) / 1e6;
}

static int
copy(const char *library, size_t bytes)
{
    double fresh, read, written, closing, opening;
    char *host = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (host == MAP_FAILED)
        return 1;
    fill_all();
    fresh = copy_all(COPY_READ, host);
    read = copy_all(COPY_READ, host);
    int64_t begin = now_ns();
    close_all();
    closing = (double)(now_ns() - begin) / 1e6;
    begin = now_ns();
    open_all(library, bytes);
    opening = (double)(now_ns() - begin) / 1e6;
    double first = copy_all(COPY_WRITE, host);
    written = copy_all(COPY_WRITE, host);
    printf("read-fresh %.1f read %.1f close %.1f open %.1f write-fresh %.1f write %.1f\n", fresh,
           read, closing, opening, first, written);
    return 0;
}

int
main(int argc, char **argv)
{
    if (argc != 4 || atoi(argv[3]) < 1) {
        fprintf(stderr, "usage: %s hold|copy LIBRARY MIB\n", argv[0]);
        return 2;
    }
    size_t bytes = (size_t)atoi(argv[3]) << 20;
    setvbuf(stdout, NULL, _IOLBF, 0);
    open_all(argv[2], bytes);
    return strcmp(argv[1], "copy") == 0 ? copy(argv[2], bytes) : hold();
}
