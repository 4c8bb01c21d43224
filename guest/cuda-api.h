/* SPDX-License-Identifier: Apache-2.0
 *
 * NVIDIA driver functions that the agent calls: the checkpoint functions of libcuda.so.1, and the
 * functions of libnvidia-ml.so.1 that list the GPUs and the processes using their memory. Both
 * libraries are opened when needed, in a process that may hang or crash. The declarations follow
 * their public ABI.
 */
#ifndef VG_GUEST_CUDA_API_H
#define VG_GUEST_CUDA_API_H

#include <stdint.h>

/* The CUresult values that matter here. */
enum {
    VG_CUDA_SUCCESS = 0,
    VG_CUDA_INVALID_VALUE = 1,
    VG_CUDA_OUT_OF_MEMORY = 2,
    VG_CUDA_NOT_INITIALIZED = 3,
    VG_CUDA_NOT_READY = 600,
    VG_CUDA_NOT_PERMITTED = 800,
    VG_CUDA_NOT_SUPPORTED = 801,
};

/* The values of CUprocessState. */
enum {
    VG_CUDA_RUNNING,
    VG_CUDA_LOCKED,
    VG_CUDA_CHECKPOINTED,
    VG_CUDA_FAILED,
};

struct vg_cuda_uuid {
    unsigned char bytes[16];
};

struct vg_cuda_pair {
    struct vg_cuda_uuid from, to;
};

/* The arguments have 64 bytes each; reserved members are zero. */
struct vg_cuda_lock_args {
    /* 0 waits indefinitely. */
    unsigned int timeout_ms;
    unsigned int reserved;
    uint64_t reserved_too[7];
};

struct vg_cuda_restore_args {
    struct vg_cuda_pair *pairs;
    unsigned int n_pairs;
    char reserved[52 - sizeof(void *)];
    uint64_t reserved_too;
};

struct vg_cuda_api {
    int (*init)(unsigned int flags);
    int (*error_name)(int result, const char **ret);
    int (*state)(int pid, int *ret);
    int (*lock)(int pid, struct vg_cuda_lock_args *args);
    int (*checkpoint)(int pid, void *args);
    int (*restore)(int pid, struct vg_cuda_restore_args *args);
    int (*unlock)(int pid, void *args);
};

enum vg_cuda_loaded {
    VG_CUDA_LOADED,
    VG_CUDA_MISSING, /* there is no such library, or it cannot be loaded */
    VG_CUDA_OLD,     /* its driver is older than these calls */
};

/* Opens the library. Sets *ret_why to the reason, which the caller frees, unless it is loaded. */
enum vg_cuda_loaded vg_cuda_load(struct vg_cuda_api *ret, char **ret_why);

/* The nvmlReturn_t values that matter here. */
enum { VG_NVML_SUCCESS = 0, VG_NVML_INSUFFICIENT_SIZE = 7 };

struct vg_nvml_memory {
    unsigned int version;
    unsigned long long total, reserved, free, used;
};
#define VG_NVML_MEMORY_VERSION ((unsigned int)sizeof(struct vg_nvml_memory) | 2U << 24)

struct vg_nvml_pci {
    char bus_id_legacy[16];
    unsigned int domain, bus, device, pci_device_id, pci_subsystem_id;
    char bus_id[32];
};

/* `memory` is ~0 if the driver does not report it. */
struct vg_nvml_process {
    unsigned int pid;
    unsigned long long memory;
    unsigned int gpu_instance, compute_instance;
};

struct vg_nvml_api {
    int (*init)(void);
    int (*count)(unsigned int *ret);
    int (*by_index)(unsigned int index, void **ret);
    int (*uuid)(void *device, char *ret, unsigned int size);
    int (*name)(void *device, char *ret, unsigned int size);
    int (*pci)(void *device, struct vg_nvml_pci *ret);
    int (*memory)(void *device, struct vg_nvml_memory *memory);
    int (*capability)(void *device, int *ret_major, int *ret_minor);
    int (*processes)(void *device, unsigned int *n, struct vg_nvml_process *ret);
};

/* Opens the library as vg_cuda_load() does. */
enum vg_cuda_loaded vg_nvml_load(struct vg_nvml_api *ret, char **ret_why);

#endif
