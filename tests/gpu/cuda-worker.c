/* SPDX-License-Identifier: Apache-2.0
 *
 * A program of CUDA for tests/gpu: cuda-worker BYTES [KIND [FILE]] adds one to each word of so much
 * GPU memory again and again, says "ready" when it has begun, and with SIGTERM how many words are
 * wrong and how long it once stood still. KIND says what memory that is, or what it has besides:
 *   plain    (the default)
 *   managed  unified memory
 *   async    memory of a stream's pool
 *   mapped   memory of the host
 *   graph    the adding is a captured graph
 *   export   its memory is offered to others, by a handle in FILE
 *   import   it has opened the memory that FILE offers
 *   two      as much of the second GPU
 *   peer     the same, to which each step copies
 * It is built on the machine that has the GPU, with gcc and CUDA's headers.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cuda.h>

static const char kernel_text[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry add_one(.param .u64 words, .param .u64 n)\n{\n"
    ".reg .pred %p;\n.reg .b32 %r<5>;\n.reg .b64 %d<6>;\n"
    "ld.param.u64 %d0, [words];\nld.param.u64 %d1, [n];\ncvta.to.global.u64 %d0, %d0;\n"
    "mov.u32 %r0, %ctaid.x;\nmov.u32 %r1, %ntid.x;\nmov.u32 %r2, %tid.x;\n"
    "mul.wide.u32 %d2, %r0, %r1;\ncvt.u64.u32 %d3, %r2;\nadd.u64 %d2, %d2, %d3;\n"
    "setp.ge.u64 %p, %d2, %d1;\n@%p ret;\n"
    "shl.b64 %d4, %d2, 2;\nadd.u64 %d4, %d0, %d4;\n"
    "ld.global.u32 %r3, [%d4];\nadd.u32 %r3, %r3, 1;\nst.global.u32 [%d4], %r3;\nret;\n}\n";

static volatile sig_atomic_t ended;

struct worker {
    size_t n;
    const char *kind, *file;
    CUcontext context, second;
    CUstream stream;
    CUfunction kernel;
    CUgraphExec graph;
    /* Its memory, and what it has of the second GPU. */
    CUdeviceptr words, other;
    uint32_t steps;
};

static void
on_signal(int number)
{
    (void)number;
    ended = 1;
}

static double
now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void
must(CUresult result, const char *what)
{
    const char *name = NULL;

    if (result == CUDA_SUCCESS)
        return;
    cuGetErrorName(result, &name);
    printf("%s: %s\n", what, name ? name : "?");
    exit(1);
}
#define MUST(call) must(call, #call)

static int
is(const struct worker *worker, const char *kind)
{
    return strcmp(worker->kind, kind) == 0;
}

static void
allocate(struct worker *worker)
{
    size_t size = 4 * worker->n;
    void *host = NULL;

    if (is(worker, "managed")) {
        MUST(cuMemAllocManaged(&worker->words, size, CU_MEM_ATTACH_GLOBAL));
        host = (void *)(uintptr_t)worker->words;
    } else if (is(worker, "async")) {
        MUST(cuMemAllocAsync(&worker->words, size, worker->stream));
        MUST(cuStreamSynchronize(worker->stream));
    } else if (is(worker, "mapped")) {
        MUST(cuMemHostAlloc(&host, size, CU_MEMHOSTALLOC_DEVICEMAP));
        MUST(cuMemHostGetDevicePointer(&worker->words, host, 0));
    } else {
        MUST(cuMemAlloc(&worker->words, size));
    }
    if (!host)
        MUST(cuMemsetD32(worker->words, 7, worker->n));
    for (size_t i = 0; host && i < worker->n; i++)
        ((uint32_t *)host)[i] = 7;
}

/* Reads or writes the handle of memory that is shared. */
static void
share(struct worker *worker)
{
    int writes = is(worker, "export");
    CUipcMemHandle handle = {{0}};
    CUdeviceptr theirs;
    FILE *file = fopen(worker->file, writes ? "w" : "r");

    if (writes)
        MUST(cuIpcGetMemHandle(&handle, worker->words));
    if (!file || (writes ? fwrite(&handle, sizeof handle, 1, file)
                         : fread(&handle, sizeof handle, 1, file)) != 1) {
        perror(worker->file);
        exit(1);
    }
    fclose(file);
    if (!writes)
        MUST(cuIpcOpenMemHandle(&theirs, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
}

static void
use_second_gpu(struct worker *worker)
{
    CUdevice device;

    MUST(cuDeviceGet(&device, 1));
    MUST(cuDevicePrimaryCtxRetain(&worker->second, device));
    MUST(cuCtxSetCurrent(worker->second));
    MUST(cuMemAlloc(&worker->other, 4 * worker->n));
    MUST(cuMemsetD32(worker->other, 7, worker->n));
    MUST(cuCtxSynchronize());
    MUST(cuCtxSetCurrent(worker->context));
    if (is(worker, "peer"))
        MUST(cuCtxEnablePeerAccess(worker->second, 0));
}

static void
add(struct worker *worker)
{
    void *arguments[] = {&worker->words, &worker->n};

    MUST(cuLaunchKernel(worker->kernel, (unsigned)((worker->n + 255) / 256), 1, 1, 256, 1, 1, 0,
                        worker->stream, arguments, NULL));
}

static void
capture(struct worker *worker)
{
    CUgraph graph;

    MUST(cuStreamBeginCapture(worker->stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    add(worker);
    MUST(cuStreamEndCapture(worker->stream, &graph));
    MUST(cuGraphInstantiate(&worker->graph, graph, 0));
}

static void
begin(struct worker *worker)
{
    CUdevice device;
    CUmodule module;

    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    MUST(cuDevicePrimaryCtxRetain(&worker->context, device));
    MUST(cuCtxSetCurrent(worker->context));
    MUST(cuStreamCreate(&worker->stream, CU_STREAM_NON_BLOCKING));
    MUST(cuModuleLoadData(&module, kernel_text));
    MUST(cuModuleGetFunction(&worker->kernel, module, "add_one"));
    allocate(worker);
    if (is(worker, "export") || is(worker, "import"))
        share(worker);
    if (is(worker, "two") || is(worker, "peer"))
        use_second_gpu(worker);
    if (is(worker, "graph"))
        capture(worker);
    MUST(cuCtxSynchronize());
}

static void
step(struct worker *worker)
{
    if (worker->graph)
        MUST(cuGraphLaunch(worker->graph, worker->stream));
    else
        add(worker);
    MUST(cuStreamSynchronize(worker->stream));
    if (is(worker, "peer")) {
        MUST(cuMemcpyPeer(worker->other, worker->second, worker->words, worker->context,
                          4 * worker->n));
        MUST(cuCtxSynchronize());
    }
    worker->steps++;
}

/* Returns how many words of this memory are not as they should be. */
static size_t
count_bad(const struct worker *worker, CUdeviceptr words, uint32_t want)
{
    uint32_t *host = malloc(4 * worker->n);
    size_t bad = 0;

    must(host ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY, "malloc");
    MUST(cuMemcpy((CUdeviceptr)(uintptr_t)host, words, 4 * worker->n));
    for (size_t i = 0; i < worker->n; i++)
        bad += host[i] != want;
    free(host);
    return bad;
}

int
main(int argc, char **argv)
{
    struct worker worker = {.n = argc > 1 ? strtoull(argv[1], NULL, 0) / 4 : 0,
                            .kind = argc > 2 ? argv[2] : "plain",
                            .file = argc > 3 ? argv[3] : ""};
    double longest = 0;

    signal(SIGTERM, on_signal);
    setvbuf(stdout, NULL, _IOLBF, 0);
    begin(&worker);
    for (double last = now_s(); !ended;) {
        step(&worker);
        double now = now_s();
        longest = now - last > longest ? now - last : longest;
        last = now;
        if (worker.steps == 1)
            printf("ready\n");
        usleep(2000);
    }
    size_t bad = count_bad(&worker, worker.words, 7 + worker.steps);
    if (worker.other)
        bad += count_bad(&worker, worker.other, is(&worker, "peer") ? 7 + worker.steps : 7);
    printf("steps %u bad %zu longest_ms %.0f\n", worker.steps, bad, longest * 1000);
    return bad != 0;
}
