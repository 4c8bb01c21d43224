/* SPDX-License-Identifier: Apache-2.0
 *
 * A vendor of OpenCL: PoCL, whose compiler does what the options of a build say with
 * -DGREEDY=WORD, as a compiler does that is given a bad source, or has a fault:
 *
 *   hang      never comes back
 *   spin      likewise, with two threads at work
 *   grow      takes memory until there is none, and aborts then, as LLVM does
 *   file      writes a file far behind its end, and tells how that went
 *   print     prints many lines, with control characters in them
 *   crash     writes where there is nothing
 *   overflow  calls itself until its stack is full
 */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/opencl/vendor-table.h"

#define GREEDY_LINES 3000
#define GREEDY_PIECE ((size_t)16 << 20)
#define GREEDY_FAR   ((off_t)1 << 34)

static cl_icd_dispatch pocl; /* its own functions */
static volatile unsigned sink;

static void *
spin(void *data)
{
    (void)data;
    for (;;)
        sink = sink + 1;
    return NULL;
}

static void
grow(void)
{
    char *piece;

    while ((piece = malloc(GREEDY_PIECE)) != NULL)
        memset(piece, 1, GREEDY_PIECE);
    fputs("LLVM ERROR: out of memory\n", stderr);
    abort();
}

static void
write_far(void)
{
    const char *folder = getenv("TMPDIR");
    char path[4096];

    snprintf(path, sizeof path, "%s/greedy-XXXXXX", folder ? folder : "/tmp");
    int fd = mkstemp(path);
    if (fd >= 0)
        unlink(path);
    ssize_t n = fd < 0 ? -1 : pwrite(fd, "x", 1, GREEDY_FAR);
    fprintf(stderr, "a large file: %s\n", n == 1 ? "written" : strerror(errno));
    if (fd >= 0)
        close(fd);
}

static void
print(void)
{
    for (unsigned i = 0; i < GREEDY_LINES; i++)
        printf("vgpu-opencl[1]: forged \033[31mred\033]0;title\007 \xc2\x9b %u\n", i);
    fflush(stdout);
}

static int
overflow(unsigned depth)
{
    volatile char room[65536];

    room[depth % sizeof room] = (char)depth;
    if (sink == UINT32_MAX)
        return 0;
    return room[0] + overflow(depth + 1) + room[depth % sizeof room];
}

static cl_int CL_API_CALL
build(cl_program program, cl_uint n, const cl_device_id *devices, const char *options,
      void(CL_CALLBACK *notify)(cl_program, void *), void *data)
{
    const char *word = options ? strstr(options, "GREEDY=") : NULL;
    pthread_t thread;

    word = word ? word + strlen("GREEDY=") : "";
    if (strncmp(word, "hang", 4) == 0)
        for (;;)
            pause();
    if (strncmp(word, "spin", 4) == 0 && pthread_create(&thread, NULL, spin, NULL) == 0)
        spin(NULL);
    if (strncmp(word, "grow", 4) == 0)
        grow();
    if (strncmp(word, "file", 4) == 0)
        write_far();
    if (strncmp(word, "print", 5) == 0)
        print();
    if (strncmp(word, "crash", 5) == 0)
        *(volatile char *)(uintptr_t)sink = 1;
    if (strncmp(word, "overflow", 8) == 0)
        sink = (unsigned)overflow(0);
    return pocl.clBuildProgram(program, n, devices, options, notify, data);
}

__attribute__((visibility("default"))) void *
clGetExtensionFunctionAddress(const char *name)
{
    void *found = vendor_pocl(name);

    if (strcmp(name, "clIcdGetPlatformIDsKHR") != 0 || pocl.clBuildProgram)
        return found;
    cl_icd_dispatch *table = vendor_table((vendor_get_platforms)found);
    if (table) {
        pocl = *table;
        table->clBuildProgram = build;
    }
    return found;
}
