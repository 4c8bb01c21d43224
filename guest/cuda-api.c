/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "guest/cuda-api.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include <dlfcn.h>

#include "guest/util.h"

static_assert(sizeof(struct vg_cuda_lock_args) == 64, "CUcheckpointLockArgs");
static_assert(sizeof(struct vg_cuda_restore_args) == 64, "CUcheckpointRestoreArgs");
static_assert(sizeof(struct vg_nvml_memory) == 40, "nvmlMemory_v2_t");
static_assert(sizeof(struct vg_nvml_process) == 24, "nvmlProcessInfo_t");

/* A function and its position in the table. */
struct symbol {
    const char *name;
    size_t at;
};

static enum vg_cuda_loaded
api_load(const char *library, const struct symbol *symbols, void *ret, char **ret_why)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);

    if (!handle) {
        *ret_why = vg_guest_format("%s cannot be loaded: %s", library, dlerror());
        return VG_CUDA_MISSING;
    }
    for (; symbols->name; symbols++) {
        void *found = dlsym(handle, symbols->name);
        if (!found) {
            *ret_why = vg_guest_format("%s has no %s: NVIDIA's driver is older than 570", library,
                                       symbols->name);
            return VG_CUDA_OLD;
        }
        memcpy((char *)ret + symbols->at, &found, sizeof found);
    }
    return VG_CUDA_LOADED;
}

enum vg_cuda_loaded
vg_cuda_load(struct vg_cuda_api *ret, char **ret_why)
{
    static const struct symbol symbols[] = {
        {"cuInit", offsetof(struct vg_cuda_api, init)},
        {"cuGetErrorName", offsetof(struct vg_cuda_api, error_name)},
        {"cuCheckpointProcessGetState", offsetof(struct vg_cuda_api, state)},
        {"cuCheckpointProcessLock", offsetof(struct vg_cuda_api, lock)},
        {"cuCheckpointProcessCheckpoint", offsetof(struct vg_cuda_api, checkpoint)},
        {"cuCheckpointProcessRestore", offsetof(struct vg_cuda_api, restore)},
        {"cuCheckpointProcessUnlock", offsetof(struct vg_cuda_api, unlock)},
        {NULL, 0},
    };

    return api_load("libcuda.so.1", symbols, ret, ret_why);
}

enum vg_cuda_loaded
vg_nvml_load(struct vg_nvml_api *ret, char **ret_why)
{
    static const struct symbol symbols[] = {
        {"nvmlInit_v2", offsetof(struct vg_nvml_api, init)},
        {"nvmlDeviceGetCount_v2", offsetof(struct vg_nvml_api, count)},
        {"nvmlDeviceGetHandleByIndex_v2", offsetof(struct vg_nvml_api, by_index)},
        {"nvmlDeviceGetUUID", offsetof(struct vg_nvml_api, uuid)},
        {"nvmlDeviceGetName", offsetof(struct vg_nvml_api, name)},
        {"nvmlDeviceGetPciInfo_v3", offsetof(struct vg_nvml_api, pci)},
        {"nvmlDeviceGetMemoryInfo_v2", offsetof(struct vg_nvml_api, memory)},
        {"nvmlDeviceGetCudaComputeCapability", offsetof(struct vg_nvml_api, capability)},
        {"nvmlDeviceGetComputeRunningProcesses_v3", offsetof(struct vg_nvml_api, processes)},
        {NULL, 0},
    };

    return api_load("libnvidia-ml.so.1", symbols, ret, ret_why);
}
