/* SPDX-License-Identifier: Apache-2.0
 *
 * A library that answers as NVIDIA's management library does, for tests on machines without a GPU.
 * What there is is in the file that VG_FAKE_NVML names, which is read at nvmlInit_v2() and before
 * every answer; one thing in a line, what it is not told of is as on a plain GPU:
 *     error INIT                    nvmlInit_v2() answers with this number
 *     gpu DOMAIN:BUS:SLOT NAME...   one more GPU; what follows is about it
 *     rates GPU MEMORY              per cent; "rates -3" answers with error 3, as all of these do
 *     codecs ENC DEC                likewise
 *     only-samples                  all four come from the library's buffer alone
 *     memory USED TOTAL             MiB
 *     process PID SM MEM ENC DEC MIB
 *     process-use -3
 *     crowd PID N                   before those, N more that do nothing, of these and the next
 *                                   pids
 *     vgpus -3                      what nvmlDeviceGetActiveVgpus() answers
 *     vgpu INSTANCE VM_ID MDEV_UUID SM MEM ENC DEC MIB     VM_ID: a UUID, or a number; or -
 *     vgpu-use -3
 *     vgpu-type TYPE MIB MAX        a type of vGPUs that the GPU supports, and how many of them
 *     mig GI CI SM MIB              one more slice of the GPU, which is in MIG mode then; SM is -3
 * for error 3 heterogeneous 0 | 1           without this line, the function answers with error 3
 *     scheduler POLICY
 *     log RUNLIST TIME TOTAL RUN    one more entry, ns
 *     log-api 1 | 2 | 0             which version of the log there is; default 2
 *     hang SECONDS                  nvmlDeviceGetUtilizationRates() takes so long
 *     time US                       of all samples, since the epoch; default: now
 *     calls FILE                    every call of a function is a line there
 */
#include "config.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "collectors/nvml.h"

#define GPUS_MAX      8
#define PROCESSES_MAX 8
#define VGPUS_MAX     8
#define LINE_LEN      512

struct process {
    unsigned pid;
    unsigned percent[4];
    unsigned long long mib;
};

struct vgpu {
    unsigned instance;
    char vm_id[64];
    char mdev[64];
    unsigned percent[4];
    unsigned long long mib;
};

struct vg_nvml_opaque {
    unsigned gpu_instance, compute_instance; /* only of a slice */
    unsigned n_slices;
    struct vg_nvml_opaque *slices; /* VGPUS_MAX of them, for ever */
    unsigned domain, bus, slot;
    char name[64];
    int rates[2];
    int codecs[2];
    bool only_samples;
    unsigned long long used_mib, total_mib;
    unsigned n_processes;
    struct process processes[PROCESSES_MAX];
    unsigned crowd_pid, n_crowd;
    int vgpus_error;
    int process_use_error, vgpu_use_error;
    unsigned n_vgpus;
    struct vgpu vgpus[VGPUS_MAX];
    unsigned n_types;
    struct {
        unsigned type, max;
        unsigned long long mib;
    } types[VGPUS_MAX];
    int heterogeneous; /* -1: not supported */
    unsigned policy;
    unsigned log_api;
    unsigned n_log;
    struct vg_nvml_log_entry log[VG_NVML_LOG_MAX];
    double hang_s;
};

static struct vg_nvml_opaque gpus[GPUS_MAX];
static struct vg_nvml_opaque all_slices[GPUS_MAX][VGPUS_MAX];
static unsigned n_gpus;
static int init_error;
static char calls[256];
static unsigned long long sample_us; /* 0: now */

static void
read_gpu_line(struct vg_nvml_opaque *gpu, const char *line)
{
    struct process *process = &gpu->processes[gpu->n_processes];
    struct vgpu *vgpu = &gpu->vgpus[gpu->n_vgpus];
    struct vg_nvml_log_entry *entry = &gpu->log[gpu->n_log];

    if (sscanf(line, "rates %d %d", &gpu->rates[0], &gpu->rates[1]) > 0 ||
        sscanf(line, "codecs %d %d", &gpu->codecs[0], &gpu->codecs[1]) > 0 ||
        sscanf(line, "memory %llu %llu", &gpu->used_mib, &gpu->total_mib) > 0 ||
        sscanf(line, "vgpus %d", &gpu->vgpus_error) > 0 ||
        sscanf(line, "process-use %d", &gpu->process_use_error) > 0 ||
        sscanf(line, "vgpu-use %d", &gpu->vgpu_use_error) > 0 ||
        sscanf(line, "scheduler %u", &gpu->policy) > 0 ||
        sscanf(line, "heterogeneous %d", &gpu->heterogeneous) > 0 ||
        sscanf(line, "log-api %u", &gpu->log_api) > 0 ||
        sscanf(line, "hang %lf", &gpu->hang_s) > 0 ||
        sscanf(line, "crowd %u %u", &gpu->crowd_pid, &gpu->n_crowd) > 0)
        return;
    if (strncmp(line, "only-samples", strlen("only-samples")) == 0)
        gpu->only_samples = true;
    if (gpu->n_processes < PROCESSES_MAX &&
        sscanf(line, "process %u %u %u %u %u %llu", &process->pid, &process->percent[0],
               &process->percent[1], &process->percent[2], &process->percent[3],
               &process->mib) == 6)
        gpu->n_processes++;
    if (gpu->n_vgpus < VGPUS_MAX &&
        sscanf(line, "vgpu %u %63s %63s %u %u %u %u %llu", &vgpu->instance, vgpu->vm_id, vgpu->mdev,
               &vgpu->percent[0], &vgpu->percent[1], &vgpu->percent[2], &vgpu->percent[3],
               &vgpu->mib) == 8)
        gpu->n_vgpus++;
    struct vg_nvml_opaque slice = {.gpu_instance = 0};
    if (gpu->n_slices < VGPUS_MAX &&
        sscanf(line, "mig %u %u %d %llu", &slice.gpu_instance, &slice.compute_instance,
               &slice.rates[0], &slice.used_mib) == 4)
        gpu->slices[gpu->n_slices++] = slice;
    if (gpu->n_types < VGPUS_MAX &&
        sscanf(line, "vgpu-type %u %llu %u", &gpu->types[gpu->n_types].type,
               &gpu->types[gpu->n_types].mib, &gpu->types[gpu->n_types].max) == 3)
        gpu->n_types++;
    if (gpu->n_log < VG_NVML_LOG_MAX && sscanf(line, "log %u %llu %llu %llu", &entry->runlist,
                                               &entry->time, &entry->run_total, &entry->run) == 4)
        gpu->n_log++;
}

static void
read_line(const char *line)
{
    struct vg_nvml_opaque gpu = {.policy = 1, .log_api = 2, .heterogeneous = -1};

    if (sscanf(line, "error %d", &init_error) > 0 || sscanf(line, "time %llu", &sample_us) > 0 ||
        sscanf(line, "calls %255s", calls) > 0)
        return;
    if (n_gpus < GPUS_MAX &&
        sscanf(line, "gpu %x:%x:%x %63[^\n]", &gpu.domain, &gpu.bus, &gpu.slot, gpu.name) == 4) {
        gpu.slices = all_slices[n_gpus];
        gpus[n_gpus++] = gpu;
    } else if (n_gpus > 0)
        read_gpu_line(&gpus[n_gpus - 1], line);
}

/* Handles stay what they are: GPUs are told in the same order each time. */
static void
read_script(const char *function)
{
    const char *path = getenv("VG_FAKE_NVML");
    char line[LINE_LEN];
    FILE *file = path ? fopen(path, "re") : NULL;

    n_gpus = 0;
    init_error = 0;
    calls[0] = '\0';
    sample_us = 0;
    while (file && fgets(line, sizeof(line), file))
        read_line(line);
    if (file)
        fclose(file);
    file = calls[0] ? fopen(calls, "ae") : NULL;
    if (!file)
        return;
    fprintf(file, "%s\n", function);
    fclose(file);
}

#define BEGIN() read_script(__func__)

/* "-3" for error 3. */
static bool
is_error(int told)
{
    return told < 0;
}

static unsigned long long
now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    if (sample_us > 0)
        return sample_us;
    return (unsigned long long)now.tv_sec * 1000000 + (unsigned long long)now.tv_nsec / 1000;
}

int nvmlInit_v2(void);
int
nvmlInit_v2(void)
{
    BEGIN();
    return init_error;
}

int nvmlShutdown(void);
int
nvmlShutdown(void)
{
    BEGIN();
    return VG_NVML_SUCCESS;
}

const char *nvmlErrorString(int code);
const char *
nvmlErrorString(int code)
{
    switch (code) {
    case VG_NVML_NOT_SUPPORTED:
        return "Not Supported";
    case VG_NVML_NO_PERMISSION:
        return "Insufficient Permissions";
    case VG_NVML_DRIVER_NOT_LOADED:
        return "Driver Not Loaded";
    case VG_NVML_FUNCTION_NOT_FOUND:
        return "Function Not Found";
    case 15:
        return "GPU is lost";
    default:
        return "Unknown Error";
    }
}

int nvmlDeviceGetCount_v2(unsigned *count);
int
nvmlDeviceGetCount_v2(unsigned *count)
{
    BEGIN();
    *count = n_gpus;
    return VG_NVML_SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, vg_nvml_handle *device);
int
nvmlDeviceGetHandleByIndex_v2(unsigned index, vg_nvml_handle *device)
{
    BEGIN();
    if (index >= n_gpus)
        return VG_NVML_INVALID_ARGUMENT;
    *device = &gpus[index];
    return VG_NVML_SUCCESS;
}

int nvmlDeviceGetPciInfo_v3(vg_nvml_handle device, struct vg_nvml_pci *pci);
int
nvmlDeviceGetPciInfo_v3(vg_nvml_handle device, struct vg_nvml_pci *pci)
{
    BEGIN();
    *pci =
        (struct vg_nvml_pci){.domain = device->domain, .bus = device->bus, .device = device->slot};
    snprintf(pci->bus_id, sizeof(pci->bus_id), "%08X:%02X:%02X.0", device->domain, device->bus,
             device->slot);
    return VG_NVML_SUCCESS;
}

int nvmlDeviceGetName(vg_nvml_handle device, char *name, unsigned size);
int
nvmlDeviceGetName(vg_nvml_handle device, char *name, unsigned size)
{
    BEGIN();
    snprintf(name, size, "%s", device->name);
    return VG_NVML_SUCCESS;
}

int nvmlDeviceGetUtilizationRates(vg_nvml_handle device, struct vg_nvml_rates *rates);
int
nvmlDeviceGetUtilizationRates(vg_nvml_handle device, struct vg_nvml_rates *rates)
{
    BEGIN();
    if (device->hang_s > 0) {
        struct timespec pause = {.tv_sec = (time_t)device->hang_s};
        pause.tv_nsec = (long)((device->hang_s - (double)pause.tv_sec) * 1e9);
        nanosleep(&pause, NULL);
    }
    if (device->only_samples)
        return VG_NVML_NOT_SUPPORTED;
    if (is_error(device->rates[0]))
        return -device->rates[0];
    *rates = (struct vg_nvml_rates){.gpu = (unsigned)device->rates[0],
                                    .memory = (unsigned)device->rates[1]};
    return VG_NVML_SUCCESS;
}

static int
tell_codec(const struct vg_nvml_opaque *device, int which, unsigned *percent, unsigned *period)
{
    if (device->only_samples)
        return VG_NVML_NOT_SUPPORTED;
    if (is_error(device->codecs[0]))
        return -device->codecs[0];
    *percent = (unsigned)device->codecs[which];
    *period = 100000;
    return VG_NVML_SUCCESS;
}

int nvmlDeviceGetEncoderUtilization(vg_nvml_handle device, unsigned *percent, unsigned *period);
int
nvmlDeviceGetEncoderUtilization(vg_nvml_handle device, unsigned *percent, unsigned *period)
{
    BEGIN();
    return tell_codec(device, 0, percent, period);
}

int nvmlDeviceGetDecoderUtilization(vg_nvml_handle device, unsigned *percent, unsigned *period);
int
nvmlDeviceGetDecoderUtilization(vg_nvml_handle device, unsigned *percent, unsigned *period)
{
    BEGIN();
    return tell_codec(device, 1, percent, period);
}

/* Two samples that are new each time, and an old one. */
int nvmlDeviceGetSamples(vg_nvml_handle device, int sampling, unsigned long long last_time,
                         int *value_type, unsigned *count, struct vg_nvml_sample *samples);
int
nvmlDeviceGetSamples(vg_nvml_handle device, int sampling, unsigned long long last_time,
                     int *value_type, unsigned *count, struct vg_nvml_sample *samples)
{
    BEGIN();
    const int *told = sampling < VG_NVML_SAMPLING_ENC ? device->rates : device->codecs;
    int percent = told[(sampling - 1) % 2];
    if (is_error(told[0]))
        return -told[0];
    if (*count < 3)
        return VG_NVML_INSUFFICIENT_SIZE;
    *value_type = VG_NVML_VALUE_UINT;
    *count = 3;
    for (unsigned i = 0; i < 3; i++) {
        samples[i].time = i == 0 ? last_time : now_us() - 3 + i;
        samples[i].value.ull = 0;
        samples[i].value.u = i == 0 ? 99 : (unsigned)percent;
    }
    return VG_NVML_SUCCESS;
}

int nvmlDeviceGetMemoryInfo_v2(vg_nvml_handle device, struct vg_nvml_memory_v2 *memory);
int
nvmlDeviceGetMemoryInfo_v2(vg_nvml_handle device, struct vg_nvml_memory_v2 *memory)
{
    BEGIN();
    if (memory->version != 0x2000028)
        return VG_NVML_VERSION_MISMATCH;
    memory->total = device->total_mib << 20;
    memory->reserved = 300 << 20;
    memory->used = device->used_mib << 20;
    return VG_NVML_SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(vg_nvml_handle device, unsigned *count,
                                            struct vg_nvml_process *processes);
int
nvmlDeviceGetComputeRunningProcesses_v3(vg_nvml_handle device, unsigned *count,
                                        struct vg_nvml_process *processes)
{
    BEGIN();
    const unsigned room = *count;
    *count = device->n_crowd + device->n_processes;
    if (room < *count)
        return VG_NVML_INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < device->n_crowd; i++)
        *processes++ = (struct vg_nvml_process){.pid = device->crowd_pid + i};
    for (unsigned i = 0; i < device->n_processes; i++)
        processes[i] = (struct vg_nvml_process){.pid = device->processes[i].pid,
                                                .memory = device->processes[i].mib << 20,
                                                .gpu_instance = ~0u,
                                                .compute_instance = ~0u};
    return VG_NVML_SUCCESS;
}

/* As the library does, it leaves out who does nothing. */
int nvmlDeviceGetProcessUtilization(vg_nvml_handle device, struct vg_nvml_process_use *uses,
                                    unsigned *count, unsigned long long last_time);
int
nvmlDeviceGetProcessUtilization(vg_nvml_handle device, struct vg_nvml_process_use *uses,
                                unsigned *count, unsigned long long last_time)
{
    BEGIN();
    if (is_error(device->process_use_error))
        return -device->process_use_error;
    unsigned n = 0;
    for (unsigned i = 0; i < device->n_processes && n < *count; i++) {
        const struct process *process = &device->processes[i];
        if (process->percent[0] == 0)
            continue;
        uses[n++] = (struct vg_nvml_process_use){.pid = process->pid,
                                                 .time = now_us(),
                                                 .sm = process->percent[0],
                                                 .memory = process->percent[1],
                                                 .enc = process->percent[2],
                                                 .dec = process->percent[3]};
    }
    (void)last_time;
    *count = n;
    return n > 0 ? VG_NVML_SUCCESS : VG_NVML_NOT_FOUND;
}

int nvmlDeviceGetMigMode(vg_nvml_handle device, unsigned *enabled, unsigned *pending);
int
nvmlDeviceGetMigMode(vg_nvml_handle device, unsigned *enabled, unsigned *pending)
{
    BEGIN();
    *enabled = *pending = device->n_slices > 0;
    return VG_NVML_SUCCESS;
}

int nvmlDeviceGetMaxMigDeviceCount(vg_nvml_handle device, unsigned *count);
int
nvmlDeviceGetMaxMigDeviceCount(vg_nvml_handle device, unsigned *count)
{
    BEGIN();
    (void)device;
    *count = VGPUS_MAX;
    return VG_NVML_SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(vg_nvml_handle device, unsigned index,
                                        vg_nvml_handle *slice);
int
nvmlDeviceGetMigDeviceHandleByIndex(vg_nvml_handle device, unsigned index, vg_nvml_handle *slice)
{
    BEGIN();
    if (index >= device->n_slices)
        return VG_NVML_NOT_FOUND;
    *slice = &device->slices[index];
    return VG_NVML_SUCCESS;
}

int nvmlDeviceGetGpuInstanceId(vg_nvml_handle slice, unsigned *id);
int
nvmlDeviceGetGpuInstanceId(vg_nvml_handle slice, unsigned *id)
{
    BEGIN();
    *id = slice->gpu_instance;
    return VG_NVML_SUCCESS;
}

int nvmlDeviceGetComputeInstanceId(vg_nvml_handle slice, unsigned *id);
int
nvmlDeviceGetComputeInstanceId(vg_nvml_handle slice, unsigned *id)
{
    BEGIN();
    *id = slice->compute_instance;
    return VG_NVML_SUCCESS;
}

int nvmlDeviceGetSupportedVgpus(vg_nvml_handle device, unsigned *count, unsigned *types);
int
nvmlDeviceGetSupportedVgpus(vg_nvml_handle device, unsigned *count, unsigned *types)
{
    BEGIN();
    if (device->n_types == 0)
        return VG_NVML_NOT_SUPPORTED;
    if (*count < device->n_types)
        return VG_NVML_INSUFFICIENT_SIZE;
    *count = device->n_types;
    for (unsigned i = 0; i < device->n_types; i++)
        types[i] = device->types[i].type;
    return VG_NVML_SUCCESS;
}

int nvmlVgpuTypeGetFramebufferSize(unsigned type, unsigned long long *bytes);
int
nvmlVgpuTypeGetFramebufferSize(unsigned type, unsigned long long *bytes)
{
    BEGIN();
    for (unsigned g = 0; g < n_gpus; g++) {
        for (unsigned i = 0; i < gpus[g].n_types; i++) {
            if (gpus[g].types[i].type != type)
                continue;
            *bytes = gpus[g].types[i].mib << 20;
            return VG_NVML_SUCCESS;
        }
    }
    return VG_NVML_INVALID_ARGUMENT;
}

int nvmlVgpuTypeGetMaxInstances(vg_nvml_handle device, unsigned type, unsigned *count);
int
nvmlVgpuTypeGetMaxInstances(vg_nvml_handle device, unsigned type, unsigned *count)
{
    BEGIN();
    for (unsigned i = 0; i < device->n_types; i++) {
        if (device->types[i].type != type)
            continue;
        *count = device->types[i].max;
        return VG_NVML_SUCCESS;
    }
    return VG_NVML_INVALID_ARGUMENT;
}

int nvmlDeviceGetVgpuHeterogeneousMode(vg_nvml_handle device, struct vg_nvml_heterogeneous *mode);
int
nvmlDeviceGetVgpuHeterogeneousMode(vg_nvml_handle device, struct vg_nvml_heterogeneous *mode)
{
    BEGIN();
    if (mode->version != 0x1000008)
        return VG_NVML_VERSION_MISMATCH;
    if (device->heterogeneous < 0)
        return VG_NVML_NOT_SUPPORTED;
    mode->enabled = (unsigned)device->heterogeneous;
    return VG_NVML_SUCCESS;
}

int nvmlDeviceGetActiveVgpus(vg_nvml_handle device, unsigned *count, unsigned *instances);
int
nvmlDeviceGetActiveVgpus(vg_nvml_handle device, unsigned *count, unsigned *instances)
{
    BEGIN();
    if (is_error(device->vgpus_error))
        return -device->vgpus_error;
    if (*count < device->n_vgpus)
        return VG_NVML_INSUFFICIENT_SIZE;
    *count = device->n_vgpus;
    for (unsigned i = 0; i < device->n_vgpus; i++)
        instances[i] = device->vgpus[i].instance;
    return VG_NVML_SUCCESS;
}

int nvmlDeviceGetVgpuUtilization(vg_nvml_handle device, unsigned long long last_time,
                                 int *value_type, unsigned *count, struct vg_nvml_vgpu_use *uses);
int
nvmlDeviceGetVgpuUtilization(vg_nvml_handle device, unsigned long long last_time, int *value_type,
                             unsigned *count, struct vg_nvml_vgpu_use *uses)
{
    BEGIN();
    (void)last_time;
    if (is_error(device->vgpu_use_error))
        return -device->vgpu_use_error;
    if (*count < device->n_vgpus)
        return VG_NVML_INSUFFICIENT_SIZE;
    *value_type = VG_NVML_VALUE_UINT;
    *count = device->n_vgpus;
    for (unsigned i = 0; i < device->n_vgpus; i++) {
        const struct vgpu *vgpu = &device->vgpus[i];
        uses[i] = (struct vg_nvml_vgpu_use){.instance = vgpu->instance,
                                            .time = now_us(),
                                            .sm.u = vgpu->percent[0],
                                            .memory.u = vgpu->percent[1],
                                            .enc.u = vgpu->percent[2],
                                            .dec.u = vgpu->percent[3]};
    }
    return VG_NVML_SUCCESS;
}

static const struct vgpu *
find_vgpu(unsigned instance)
{
    for (unsigned g = 0; g < n_gpus; g++) {
        for (unsigned i = 0; i < gpus[g].n_vgpus; i++) {
            if (gpus[g].vgpus[i].instance == instance)
                return &gpus[g].vgpus[i];
        }
    }
    return NULL;
}

static int
tell_text(const char *text, char *ret, unsigned size)
{
    if (strcmp(text, "-") == 0)
        return VG_NVML_NOT_SUPPORTED;
    snprintf(ret, size, "%s", text);
    return VG_NVML_SUCCESS;
}

int nvmlVgpuInstanceGetVmID(unsigned instance, char *id, unsigned size, int *id_type);
int
nvmlVgpuInstanceGetVmID(unsigned instance, char *id, unsigned size, int *id_type)
{
    BEGIN();
    const struct vgpu *vgpu = find_vgpu(instance);
    if (!vgpu)
        return VG_NVML_NOT_FOUND;
    *id_type = strchr(vgpu->vm_id, '-') ? VG_NVML_VM_UUID : VG_NVML_VM_DOMAIN_ID;
    return tell_text(vgpu->vm_id, id, size);
}

int nvmlVgpuInstanceGetMdevUUID(unsigned instance, char *uuid, unsigned size);
int
nvmlVgpuInstanceGetMdevUUID(unsigned instance, char *uuid, unsigned size)
{
    BEGIN();
    const struct vgpu *vgpu = find_vgpu(instance);
    return vgpu ? tell_text(vgpu->mdev, uuid, size) : VG_NVML_NOT_FOUND;
}

int nvmlVgpuInstanceGetFbUsage(unsigned instance, unsigned long long *used);
int
nvmlVgpuInstanceGetFbUsage(unsigned instance, unsigned long long *used)
{
    BEGIN();
    const struct vgpu *vgpu = find_vgpu(instance);
    if (!vgpu)
        return VG_NVML_NOT_FOUND;
    *used = vgpu->mib << 20;
    return VG_NVML_SUCCESS;
}

int nvmlDeviceGetVgpuSchedulerLog(vg_nvml_handle device, struct vg_nvml_log *log);
int
nvmlDeviceGetVgpuSchedulerLog(vg_nvml_handle device, struct vg_nvml_log *log)
{
    BEGIN();
    if (device->log_api != 1)
        return VG_NVML_NOT_SUPPORTED;
    *log = (struct vg_nvml_log){
        .engine = VG_NVML_ENGINE_GRAPHICS, .policy = device->policy, .n_entries = device->n_log};
    memcpy(log->entries, device->log, sizeof(log->entries));
    return VG_NVML_SUCCESS;
}

int nvmlDeviceGetVgpuSchedulerLog_v2(vg_nvml_handle device, struct vg_nvml_log_v2 *log);
int
nvmlDeviceGetVgpuSchedulerLog_v2(vg_nvml_handle device, struct vg_nvml_log_v2 *log)
{
    BEGIN();
    if (log->engine != VG_NVML_ENGINE_GRAPHICS)
        return VG_NVML_INVALID_ARGUMENT;
    if (device->log_api != 2)
        return VG_NVML_FUNCTION_NOT_FOUND;
    log->n_entries = device->n_log;
    for (unsigned i = 0; i < device->n_log; i++)
        log->entries[i] = (struct vg_nvml_log_entry_v2){.time = device->log[i].time,
                                                        .run_total = device->log[i].run_total,
                                                        .run = device->log[i].run,
                                                        .runlist = device->log[i].runlist,
                                                        .weight = 1};
    return VG_NVML_SUCCESS;
}

int nvmlDeviceGetVgpuSchedulerState(vg_nvml_handle device, struct vg_nvml_scheduler *scheduler);
int
nvmlDeviceGetVgpuSchedulerState(vg_nvml_handle device, struct vg_nvml_scheduler *scheduler)
{
    BEGIN();
    *scheduler = (struct vg_nvml_scheduler){.policy = device->policy};
    return VG_NVML_SUCCESS;
}

int nvmlDeviceGetVgpuSchedulerCapabilities(vg_nvml_handle device,
                                           struct vg_nvml_scheduler_caps *caps);
int
nvmlDeviceGetVgpuSchedulerCapabilities(vg_nvml_handle device, struct vg_nvml_scheduler_caps *caps)
{
    BEGIN();
    (void)device;
    *caps = (struct vg_nvml_scheduler_caps){.supported = {1, 2, 3}};
    return VG_NVML_SUCCESS;
}
