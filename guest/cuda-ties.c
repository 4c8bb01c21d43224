/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "guest/cuda-ties.h"

#include "guest/util.h"

const struct vg_cuda_tie_call vg_cuda_tie_calls[] = {
    {"cuIpcOpenMemHandle", VG_CUDA_TIE_IMPORT},
    {"cuIpcOpenMemHandle_v2", VG_CUDA_TIE_IMPORT},
    {"cuMemImportFromShareableHandle", VG_CUDA_TIE_IMPORT},
    {"cuMemPoolImportFromShareableHandle", VG_CUDA_TIE_IMPORT},
    {"cuMemPoolImportPointer", VG_CUDA_TIE_IMPORT},
    {"cuIpcOpenEventHandle", VG_CUDA_TIE_EVENT},
    {"cuMulticastCreate", VG_CUDA_TIE_MULTICAST},
    {"cuMulticastBindMem", VG_CUDA_TIE_MULTICAST},
    {"cuMulticastBindAddr", VG_CUDA_TIE_MULTICAST},
    {"cuImportExternalMemory", VG_CUDA_TIE_EXTERNAL},
    {"cuImportExternalSemaphore", VG_CUDA_TIE_EXTERNAL},
    {"cuMemAllocManaged", VG_CUDA_TIE_MANAGED},
    {"cuIpcGetMemHandle", VG_CUDA_TIE_EXPORT},
    {"cuMemExportToShareableHandle", VG_CUDA_TIE_EXPORT},
    {"cuMemPoolExportToShareableHandle", VG_CUDA_TIE_EXPORT},
};
const size_t vg_cuda_tie_calls_n = sizeof vg_cuda_tie_calls / sizeof *vg_cuda_tie_calls;

/* The ties that keep a process from coming back, by version of the driver. Up to 580 this was tried
 * on H100s, where all of them do. For newer drivers, NVIDIA's documentation says that from 610 on,
 * processes that were started as a job may share memory and events among themselves. */
static const struct {
    int driver;
    bool is_job;
    unsigned int ties;
} rules[] = {
    {610, true, VG_CUDA_TIE_MULTICAST | VG_CUDA_TIE_EXTERNAL | VG_CUDA_TIE_MANAGED},
    {0, false,
     VG_CUDA_TIE_IMPORT | VG_CUDA_TIE_EVENT | VG_CUDA_TIE_MULTICAST | VG_CUDA_TIE_EXTERNAL |
         VG_CUDA_TIE_MANAGED},
};

/* The first driver whose jobs may share memory. */
#define DRIVER_OF_JOBS 610

static unsigned int
ties_in_the_way(const struct vg_cuda_tied *tied)
{
    size_t i = 0;

    while (tied->driver < rules[i].driver || (rules[i].is_job && !tied->is_job))
        i++;
    return tied->ties & rules[i].ties;
}

static void
ties_say_import(const struct vg_cuda_tied *tied, char *ret_why, size_t size)
{
    char whose[64] = "memory of another process";

    if (tied->exporter > 0)
        vg_guest_put(whose, sizeof whose, "memory of process %d", (int)tied->exporter);
    vg_guest_put(ret_why, size,
                 "it uses %s (NCCL, CUDA IPC), and the driver cannot bring such a process back; it "
                 "can be moved if it is started %s",
                 whose,
                 tied->driver >= DRIVER_OF_JOBS ? "by `cuda-checkpoint --launch-job`"
                                                : "with NCCL_P2P_DISABLE=1 and NCCL_SHM_DISABLE=1");
}

bool
vg_cuda_tied_can_move(const struct vg_cuda_tied *tied, char *ret_why, size_t size)
{
    unsigned int bad = ties_in_the_way(tied);

    ret_why[0] = '\0';
    if (bad & VG_CUDA_TIE_MULTICAST)
        vg_guest_put(ret_why, size,
                     "it has memory that several GPUs write at once (NCCL with NVLS, multicast), "
                     "and the driver cannot bring such a process back; it can be moved if it is "
                     "started with NCCL_NVLS_ENABLE=0, NCCL_P2P_DISABLE=1 and NCCL_SHM_DISABLE=1");
    else if (bad & VG_CUDA_TIE_IMPORT)
        ties_say_import(tied, ret_why, size);
    else if (bad & VG_CUDA_TIE_EVENT)
        vg_guest_put(ret_why, size,
                     "it waits for events of another process (CUDA IPC), and the driver cannot "
                     "bring such a process back");
    else if (bad & VG_CUDA_TIE_EXTERNAL)
        vg_guest_put(ret_why, size,
                     "it shares memory or semaphores with another interface (Vulkan, OpenGL), and "
                     "the driver cannot bring such a process back");
    else if (bad & VG_CUDA_TIE_MANAGED)
        vg_guest_put(
            ret_why, size,
            "it has allocated unified memory (cuMemAllocManaged, cudaMallocManaged), which "
            "the driver cannot release");
    else if (tied->ties & ~(unsigned int)VG_CUDA_TIE_EXPORT)
        vg_guest_put(ret_why, size,
                     "it shares memory with processes of its job; by the driver's word, it can be "
                     "brought back");
    return bad == 0;
}
