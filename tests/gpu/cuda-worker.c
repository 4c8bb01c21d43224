/* SPDX-License-Identifier: Apache-2.0
 *
 * A program of CUDA for tests/gpu/try-cuda: cuda-worker BYTES adds one to each word of so much GPU
 * memory again and again, says "ready" when it has begun, and with SIGTERM how many words are wrong
 * and how long it once stood still. It is built on the machine that has the GPU.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
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

int
main(int argc, char **argv)
{
    size_t n = argc > 1 ? strtoull(argv[1], NULL, 0) / 4 : 0, bad = 0;
    uint32_t steps = 0;
    double longest = 0;
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction kernel;
    CUdeviceptr words;

    signal(SIGTERM, on_signal);
    setvbuf(stdout, NULL, _IOLBF, 0);
    must(cuInit(0), "cuInit");
    must(cuDeviceGet(&device, 0), "cuDeviceGet");
    must(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    must(cuModuleLoadData(&module, kernel_text), "cuModuleLoadData");
    must(cuModuleGetFunction(&kernel, module, "add_one"), "cuModuleGetFunction");
    must(cuMemAlloc(&words, 4 * n), "cuMemAlloc");
    must(cuMemsetD32(words, 7, n), "cuMemsetD32");
    must(cuCtxSynchronize(), "cuCtxSynchronize");
    void *arguments[] = {&words, &n};
    for (double last = now_s(); !ended;) {
        must(cuLaunchKernel(kernel, (unsigned)((n + 255) / 256), 1, 1, 256, 1, 1, 0, NULL,
                            arguments, NULL),
             "cuLaunchKernel");
        must(cuCtxSynchronize(), "cuCtxSynchronize");
        double now = now_s();
        longest = now - last > longest ? now - last : longest;
        last = now;
        if (steps++ == 0)
            printf("ready\n");
        usleep(2000);
    }
    uint32_t *host = malloc(4 * n);
    must(host ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY, "malloc");
    must(cuMemcpyDtoH(host, words, 4 * n), "cuMemcpyDtoH");
    for (size_t i = 0; i < n; i++)
        bad += host[i] != 7 + steps;
    printf("steps %u bad %zu longest_ms %.0f\n", steps, bad, longest * 1000);
    return bad != 0;
}
