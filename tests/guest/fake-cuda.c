/* SPDX-License-Identifier: Apache-2.0
 *
 * A library that answers as NVIDIA's libcuda.so.1 and libnvidia-ml.so.1 do, as far as vgpu-guestd
 * asks them, for tests on machines without a GPU; its programs are fake-cuda-worker.c. They call
 * the functions that make ties, which do nothing. All is in the directory that VG_FAKE_CUDA names:
 *
 * gpus: a line for each GPU, UUID ADDRESS NODE TOTAL_MIB USED_MIB CAPABILITY NAME... The UUID has
 * 32 hexadecimal digits; USED_MIB is of others than the programs.
 *
 * programs/PID: of each program, a line for each GPU that it has: its UUID and the MiB there.
 *
 * programs/PID.sock: the socket at which it is asked.
 *
 * faults: a line for each, OP PID WHAT; PID may be *. OP is one of fake-cuda.h, init or nvml. WHAT
 * is a number, the error that is answered with nothing done; hang; crash, of who asks; die, of who
 * is asked; slow, 300 ms; copied, no answer until there is no such fault, though all is done;
 * final, an error after which the driver calls it failed; lost, error 1 for ever, of a process that
 * it calls checkpointed.
 */
#include "config.h"

#include "tests/guest/fake-cuda.h"

#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define GPUS_MAX 8

struct gpu {
    char uuid[40], address[16], name[64];
    unsigned long long total_mib, used_mib;
    int major, minor;
};

static struct gpu gpus[GPUS_MAX];
static unsigned n_gpus;

static FILE *
open_file(const char *name)
{
    const char *dir = getenv("VG_FAKE_CUDA");
    char path[1024];

    snprintf(path, sizeof path, "%s/%s", dir ? dir : "", name);
    return fopen(path, "re");
}

/* What shall go wrong now, or an empty text. */
static void
read_fault(const char *op, int pid, char ret[16])
{
    FILE *file = open_file("faults");
    char line[128], of[16], whose[16], what[16];

    ret[0] = '\0';
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%15s %15s %15s", of, whose, what) == 3 && strcmp(of, op) == 0 &&
            (strcmp(whose, "*") == 0 || atoi(whose) == pid))
            snprintf(ret, 16, "%s", what);
    }
    if (file)
        fclose(file);
}

/* The error that is wanted, -1 for none. */
static int
do_fault(const char *op, int pid)
{
    char what[16];

    read_fault(op, pid, what);
    if (strcmp(what, "hang") == 0) {
        for (;;)
            pause();
    }
    if (strcmp(what, "crash") == 0)
        raise(SIGKILL);
    if (strcmp(what, "die") == 0)
        kill(pid, SIGKILL);
    if (strcmp(what, "slow") == 0)
        usleep(300000);
    while (strcmp(what, "wait") == 0) {
        usleep(10000);
        read_fault(op, pid, what);
    }
    return *what >= '0' && *what <= '9' ? atoi(what) : -1;
}

static int
ask(int pid, const struct fake_cuda_request *request, struct fake_cuda_answer *answer)
{
    struct sockaddr_un address;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    int dir = fake_cuda_address(&address, pid);

    bool ok = connect(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
              send(fd, request, sizeof *request, MSG_NOSIGNAL) == sizeof *request &&
              recv(fd, answer, sizeof *answer, 0) == sizeof *answer;
    close(dir);
    close(fd);
    return ok ? answer->result : VG_CUDA_NOT_INITIALIZED;
}

static int
call(const char *op, int pid, struct fake_cuda_request *request, int *ret_state)
{
    struct fake_cuda_answer answer = {0};
    char what[16];
    int error = do_fault(op, pid);

    if (error >= 0)
        return error;
    read_fault(op, pid, what);
    snprintf(request->op, sizeof request->op, "%s", strcmp(what, "final") == 0 ? "fail" : op);
    if (strcmp(what, "lost") == 0)
        return VG_CUDA_INVALID_VALUE;
    int result = ask(pid, request, &answer);
    while (strcmp(what, "copied") == 0) {
        usleep(10000);
        read_fault(op, pid, what);
    }
    if (ret_state && result == 0)
        *ret_state = answer.state;
    return result;
}

static int is_initialized;

int cuInit(unsigned flags);
int
cuInit(unsigned flags)
{
    int error = do_fault("init", 0);

    (void)flags;
    is_initialized = error <= 0;
    return error >= 0 ? error : 0;
}

int cuDeviceGetCount(int *count);
int
cuDeviceGetCount(int *count)
{
    *count = 1;
    return is_initialized ? 0 : 3;
}

int cuGetErrorName(int result, const char **ret);
int
cuGetErrorName(int result, const char **ret)
{
    *ret = result == 0 ? "CUDA_SUCCESS" : result == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : NULL;
    return *ret ? 0 : 1;
}

int cuCheckpointProcessGetState(int pid, int *ret);
int
cuCheckpointProcessGetState(int pid, int *ret)
{
    struct fake_cuda_request request = {0};

    return call("state", pid, &request, ret);
}

int cuCheckpointProcessLock(int pid, struct vg_cuda_lock_args *args);
int
cuCheckpointProcessLock(int pid, struct vg_cuda_lock_args *args)
{
    struct fake_cuda_request request = {.timeout_ms = args ? args->timeout_ms : 0};

    return call("lock", pid, &request, NULL);
}

int cuCheckpointProcessCheckpoint(int pid, void *args);
int
cuCheckpointProcessCheckpoint(int pid, void *args)
{
    struct fake_cuda_request request = {0};

    (void)args;
    return call("checkpoint", pid, &request, NULL);
}

int cuCheckpointProcessRestore(int pid, struct vg_cuda_restore_args *args);
int
cuCheckpointProcessRestore(int pid, struct vg_cuda_restore_args *args)
{
    struct fake_cuda_request request = {.n_pairs = args ? args->n_pairs : 0};

    if (request.n_pairs > FAKE_CUDA_PAIRS_MAX)
        return 1;
    for (unsigned i = 0; i < request.n_pairs; i++)
        request.pairs[i] = args->pairs[i];
    return call("restore", pid, &request, NULL);
}

int cuCheckpointProcessUnlock(int pid, void *args);
int
cuCheckpointProcessUnlock(int pid, void *args)
{
    struct fake_cuda_request request = {0};

    (void)args;
    return call("unlock", pid, &request, NULL);
}

/* ---- what makes ties ---- */

int cuMemImportFromShareableHandle(void *ret, void *handle, int type);
int
cuMemImportFromShareableHandle(void *ret, void *handle, int type)
{
    (void)ret;
    (void)handle;
    return type;
}

int cuMemExportToShareableHandle(void *ret, unsigned long long memory, int type,
                                 unsigned long long flags);
int
cuMemExportToShareableHandle(void *ret, unsigned long long memory, int type,
                             unsigned long long flags)
{
    (void)ret;
    (void)memory;
    (void)flags;
    return type;
}

int cuMemAllocManaged(unsigned long long *ret, size_t bytes, unsigned flags);
int
cuMemAllocManaged(unsigned long long *ret, size_t bytes, unsigned flags)
{
    (void)bytes;
    *ret = 0;
    return (int)flags;
}

int cuMulticastCreate(unsigned long long *ret, const void *what);
int
cuMulticastCreate(unsigned long long *ret, const void *what)
{
    (void)what;
    *ret = 0;
    return 0;
}

int cuIpcOpenMemHandle_v2(void *ret, const void *handle, int flags);
int
cuIpcOpenMemHandle_v2(void *ret, const void *handle, int flags)
{
    (void)ret;
    (void)handle;
    return flags;
}

/* ---- memory, and who may access it ---- */

int cuMemAlloc_v2(unsigned long long *ret, size_t bytes);
int
cuMemAlloc_v2(unsigned long long *ret, size_t bytes)
{
    *ret = bytes;
    return 0;
}

int cuMemAllocAsync(unsigned long long *ret, size_t bytes, void *stream);
int
cuMemAllocAsync(unsigned long long *ret, size_t bytes, void *stream)
{
    (void)stream;
    *ret = bytes;
    return 0;
}

int cuMemAllocPitch_v2(unsigned long long *ret, size_t *ret_pitch, size_t width, size_t height);
int
cuMemAllocPitch_v2(unsigned long long *ret, size_t *ret_pitch, size_t width, size_t height)
{
    *ret_pitch = width;
    *ret = height;
    return 0;
}

int cuArray3DCreate_v2(unsigned long long *ret, const void *what);
int
cuArray3DCreate_v2(unsigned long long *ret, const void *what)
{
    (void)what;
    *ret = 0;
    return 0;
}

int cuMemCreate(unsigned long long *ret, size_t bytes, const void *what, unsigned long long flags);
int
cuMemCreate(unsigned long long *ret, size_t bytes, const void *what, unsigned long long flags)
{
    (void)what;
    *ret = bytes;
    return (int)flags;
}

int cuMemSetAccess(unsigned long long memory, size_t bytes, const void *who, size_t n);
int
cuMemSetAccess(unsigned long long memory, size_t bytes, const void *who, size_t n)
{
    (void)memory;
    (void)bytes;
    return who && n > 0 ? 0 : VG_CUDA_INVALID_VALUE;
}

int cuMemPoolSetAccess(void *pool, const void *who, size_t n);
int
cuMemPoolSetAccess(void *pool, const void *who, size_t n)
{
    (void)pool;
    return who && n > 0 ? 0 : VG_CUDA_INVALID_VALUE;
}

int cuCtxEnablePeerAccess(unsigned long long context, unsigned flags);
int
cuCtxEnablePeerAccess(unsigned long long context, unsigned flags)
{
    (void)context;
    return (int)flags;
}

int cuCtxDisablePeerAccess(unsigned long long context);
int
cuCtxDisablePeerAccess(unsigned long long context)
{
    (void)context;
    return 0;
}

/* ---- libnvidia-ml ---- */

int nvmlInit_v2(void);
int
nvmlInit_v2(void)
{
    FILE *file = open_file("gpus");
    int error = do_fault("nvml", 0), node;
    char line[256];

    n_gpus = 0;
    while (file && n_gpus < GPUS_MAX && fgets(line, sizeof line, file)) {
        struct gpu *gpu = &gpus[n_gpus];
        if (sscanf(line, "%39s %15s %d %llu %llu %d.%d %63[^\n]", gpu->uuid, gpu->address, &node,
                   &gpu->total_mib, &gpu->used_mib, &gpu->major, &gpu->minor, gpu->name) == 8)
            n_gpus++;
    }
    if (file)
        fclose(file);
    return error >= 0 ? error : 0;
}

int nvmlDeviceGetCount_v2(unsigned *ret);
int
nvmlDeviceGetCount_v2(unsigned *ret)
{
    *ret = n_gpus;
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **ret);
int
nvmlDeviceGetHandleByIndex_v2(unsigned index, void **ret)
{
    *ret = &gpus[index];
    return index < n_gpus ? 0 : 2;
}

int nvmlDeviceGetUUID(void *device, char *ret, unsigned size);
int
nvmlDeviceGetUUID(void *device, char *ret, unsigned size)
{
    const char *uuid = ((struct gpu *)device)->uuid;

    snprintf(ret, size, "GPU-%.8s-%.4s-%.4s-%.4s-%.12s", uuid, uuid + 8, uuid + 12, uuid + 16,
             uuid + 20);
    return 0;
}

int nvmlDeviceGetName(void *device, char *ret, unsigned size);
int
nvmlDeviceGetName(void *device, char *ret, unsigned size)
{
    snprintf(ret, size, "%s", ((struct gpu *)device)->name);
    return 0;
}

int nvmlDeviceGetPciInfo_v3(void *device, struct vg_nvml_pci *ret);
int
nvmlDeviceGetPciInfo_v3(void *device, struct vg_nvml_pci *ret)
{
    *ret = (struct vg_nvml_pci){0};
    sscanf(((struct gpu *)device)->address, "%x:%x:%x", &ret->domain, &ret->bus, &ret->device);
    return 0;
}

int nvmlDeviceGetCudaComputeCapability(void *device, int *ret_major, int *ret_minor);
int
nvmlDeviceGetCudaComputeCapability(void *device, int *ret_major, int *ret_minor)
{
    *ret_major = ((struct gpu *)device)->major;
    *ret_minor = ((struct gpu *)device)->minor;
    return 0;
}

/* Programs that have it. */
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *n, struct vg_nvml_process *ret);
int
nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *n, struct vg_nvml_process *ret)
{
    const struct gpu *gpu = device;
    const char *dir = getenv("VG_FAKE_CUDA");
    unsigned max = *n, have = 0;
    char path[512];

    snprintf(path, sizeof path, "%s/programs", dir ? dir : "");
    DIR *list = opendir(path);
    for (struct dirent *entry = list ? readdir(list) : NULL; entry; entry = readdir(list)) {
        unsigned long long mib;
        char uuid[40];
        int pid = atoi(entry->d_name);
        if (pid <= 0 || strchr(entry->d_name, '.') || kill(pid, 0) != 0)
            continue;
        snprintf(path, sizeof path, "programs/%d", pid);
        FILE *file = open_file(path);
        while (file && fscanf(file, "%39s %llu", uuid, &mib) == 2) {
            if (strcmp(uuid, gpu->uuid) != 0)
                continue;
            if (have < max)
                ret[have] = (struct vg_nvml_process){.pid = (unsigned)pid, .memory = mib << 20};
            have++;
        }
        if (file)
            fclose(file);
    }
    if (list)
        closedir(list);
    *n = have;
    return have > max ? VG_NVML_INSUFFICIENT_SIZE : 0;
}

int nvmlDeviceGetMemoryInfo_v2(void *device, struct vg_nvml_memory *memory);
int
nvmlDeviceGetMemoryInfo_v2(void *device, struct vg_nvml_memory *memory)
{
    static struct vg_nvml_process list[1024];
    const struct gpu *gpu = device;
    unsigned n = 1024;

    nvmlDeviceGetComputeRunningProcesses_v3(device, &n, list);
    memory->total = gpu->total_mib << 20;
    memory->used = gpu->used_mib << 20;
    for (unsigned i = 0; i < n && i < 1024; i++)
        memory->used += list[i].memory;
    memory->free = memory->total > memory->used ? memory->total - memory->used : 0;
    return 0;
}
