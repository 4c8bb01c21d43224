/* SPDX-License-Identifier: Apache-2.0
 *
 * A program of CUDA on two GPUs for tests/gpu: cuda-peer MIB KIND has one allocation of so many MiB
 * on the first GPU, says "ready", checks and changes the allocation's ends again and again, and
 * with SIGTERM says how often they were wrong. KIND says what the second GPU may access:
 *   none      nothing
 *   before    the allocation, by peer access that is enabled before it is made
 *   after     the same, enabled after
 *   rows      the same, for cuMemAllocPitch
 *   array     the same, for an array, which it only has
 *   create    the same, by cuMemSetAccess for memory of cuMemCreate
 *   one-way   nothing; the first GPU may access the second's memory
 *   disabled  nothing any longer
 *   freed     the allocation, which is freed, and one of 1 MiB made instead
 *   pool      the same, in a pool that the second GPU may access
 * It is built on the machine that has the GPUs, with gcc and CUDA's headers.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cuda.h>

static volatile sig_atomic_t ended;
static const char *kind;
static CUcontext contexts[2];
static CUdevice devices[2];

static void
on_signal(int number)
{
    (void)number;
    ended = 1;
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
is(const char *word)
{
    return strcmp(kind, word) == 0;
}

/* Lets the context `from` access the memory of the other one, or no longer. */
static void
access_peer(int from, int enable)
{
    MUST(cuCtxSetCurrent(contexts[from]));
    if (enable)
        MUST(cuCtxEnablePeerAccess(contexts[!from], 0));
    else
        MUST(cuCtxDisablePeerAccess(contexts[!from]));
    MUST(cuCtxSetCurrent(contexts[0]));
}

static CUdeviceptr
create(size_t size)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemGenericAllocationHandle handle;
    CUmemAccessDesc access[2];
    CUdeviceptr memory;

    memset(access, 0, sizeof access);
    for (int i = 0; i < 2; i++) {
        access[i].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
        access[i].location.id = i;
        access[i].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    }
    MUST(cuMemCreate(&handle, size, &prop, 0));
    MUST(cuMemAddressReserve(&memory, size, 0, 0, 0));
    MUST(cuMemMap(memory, size, 0, handle, 0));
    MUST(cuMemSetAccess(memory, size, access, 2));
    return memory;
}

static CUdeviceptr
from_pool(size_t size)
{
    CUmemAccessDesc access;
    CUmemoryPool pool;
    CUdeviceptr memory;

    memset(&access, 0, sizeof access);
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = 1;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    MUST(cuDeviceGetDefaultMemPool(&pool, devices[0]));
    MUST(cuMemPoolSetAccess(pool, &access, 1));
    MUST(cuMemAllocAsync(&memory, size, 0));
    MUST(cuStreamSynchronize(0));
    return memory;
}

static CUdeviceptr
allocate(size_t size)
{
    CUDA_ARRAY3D_DESCRIPTOR about = {.Width = 8192,
                                     .Height = size / 8192 / 4,
                                     .Format = CU_AD_FORMAT_UNSIGNED_INT32,
                                     .NumChannels = 1};
    CUdeviceptr memory;
    CUarray array;
    size_t pitch;

    if (is("create"))
        return create(size);
    if (is("pool"))
        return from_pool(size);
    if (is("rows")) {
        MUST(cuMemAllocPitch(&memory, &pitch, (size_t)1 << 20, size >> 20, 4));
        return memory;
    }
    if (is("array")) {
        MUST(cuArray3DCreate(&array, &about));
        size = (size_t)1 << 20;
    }
    MUST(cuMemAlloc(&memory, size));
    if (is("freed")) {
        MUST(cuMemFree(memory));
        MUST(cuMemAlloc(&memory, (size_t)1 << 20));
    }
    return memory;
}

int
main(int argc, char **argv)
{
    size_t size = argc > 1 ? strtoull(argv[1], NULL, 0) << 20 : 0;
    uint32_t n = 0, word, bad = 0;

    kind = argc > 2 ? argv[2] : "none";
    signal(SIGTERM, on_signal);
    setvbuf(stdout, NULL, _IOLBF, 0);
    MUST(cuInit(0));
    for (int i = 0; i < 2; i++) {
        MUST(cuDeviceGet(&devices[i], i));
        MUST(cuDevicePrimaryCtxRetain(&contexts[i], devices[i]));
    }
    int both = !is("none") && !is("create") && !is("one-way");
    if (is("one-way") || (both && !is("after")))
        access_peer(0, 1);
    if (both && !is("after"))
        access_peer(1, 1);
    MUST(cuCtxSetCurrent(contexts[0]));
    CUdeviceptr memory = allocate(size);
    if (is("after")) {
        access_peer(0, 1);
        access_peer(1, 1);
    }
    if (is("disabled")) {
        access_peer(0, 0);
        access_peer(1, 0);
    }
    if (is("freed") || is("array"))
        size = (size_t)1 << 20;
    MUST(cuMemsetD32(memory, 0, 1));
    MUST(cuMemsetD32(memory + size - 4, 0, 1));
    for (; !ended; n++) {
        for (int end = 0; end < 2; end++) {
            CUdeviceptr at = end ? memory + size - 4 : memory;
            MUST(cuMemcpyDtoH(&word, at, 4));
            bad += word != n;
            MUST(cuMemsetD32(at, n + 1, 1));
        }
        MUST(cuCtxSynchronize());
        if (n == 0)
            printf("ready\n");
        usleep(2000);
    }
    printf("steps %u bad %u\n", n, bad);
    return bad != 0;
}
