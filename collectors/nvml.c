/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "collectors/nvml.h"

#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include <dlfcn.h>

#include "base/error.h"
#include "model/trouble.h"

_Static_assert(sizeof(struct vg_nvml_pci) == 68, "nvmlPciInfo_t");
_Static_assert(sizeof(struct vg_nvml_memory_v2) == 40, "nvmlMemory_v2_t");
_Static_assert(sizeof(struct vg_nvml_process) == 24, "nvmlProcessInfo_v2_t");
_Static_assert(sizeof(struct vg_nvml_process_use) == 32, "nvmlProcessUtilizationSample_t");
_Static_assert(sizeof(struct vg_nvml_sample) == 16, "nvmlSample_t");
_Static_assert(sizeof(struct vg_nvml_vgpu_use) == 48, "nvmlVgpuInstanceUtilizationSample_t");
_Static_assert(sizeof(struct vg_nvml_log) == 24 + 200 * 48, "nvmlVgpuSchedulerLog_t");
_Static_assert(sizeof(struct vg_nvml_log_v2) == 24 + 200 * 56, "nvmlVgpuSchedulerLogInfo_v2_t");
_Static_assert(sizeof(struct vg_nvml_scheduler) == 16, "nvmlVgpuSchedulerGetState_t");
_Static_assert(sizeof(struct vg_nvml_scheduler_v2) == 16, "nvmlVgpuSchedulerStateInfo_v2_t");
_Static_assert(sizeof(struct vg_nvml_scheduler_caps) == 40, "nvmlVgpuSchedulerCapabilities_t");
_Static_assert(sizeof(struct vg_nvml_heterogeneous) == 8, "nvmlVgpuHeterogeneousMode_v1_t");

struct symbol {
    size_t offset; /* of the pointer */
    const char *name;
    const char *older; /* older function with the same arguments, or NULL */
    bool needed;
};

#define AT(member) offsetof(struct vg_nvml, member)
static const struct symbol symbols[] = {
    {AT(init), "nvmlInit_v2", NULL, true},
    {AT(shutdown), "nvmlShutdown", NULL, true},
    {AT(get_count), "nvmlDeviceGetCount_v2", NULL, true},
    {AT(get_handle), "nvmlDeviceGetHandleByIndex_v2", NULL, true},
    {AT(get_pci), "nvmlDeviceGetPciInfo_v3", NULL, true},
    {AT(error_string), "nvmlErrorString", NULL, false},
    {AT(get_name), "nvmlDeviceGetName", NULL, false},
    {AT(get_rates), "nvmlDeviceGetUtilizationRates", NULL, false},
    {AT(get_encoder_use), "nvmlDeviceGetEncoderUtilization", NULL, false},
    {AT(get_decoder_use), "nvmlDeviceGetDecoderUtilization", NULL, false},
    {AT(get_samples), "nvmlDeviceGetSamples", NULL, false},
    {AT(get_memory), "nvmlDeviceGetMemoryInfo", NULL, false},
    {AT(get_memory_v2), "nvmlDeviceGetMemoryInfo_v2", NULL, false},
    {AT(get_compute_processes), "nvmlDeviceGetComputeRunningProcesses_v3",
     "nvmlDeviceGetComputeRunningProcesses_v2", false},
    {AT(get_graphics_processes), "nvmlDeviceGetGraphicsRunningProcesses_v3",
     "nvmlDeviceGetGraphicsRunningProcesses_v2", false},
    {AT(get_process_use), "nvmlDeviceGetProcessUtilization", NULL, false},
    {AT(get_vgpus), "nvmlDeviceGetActiveVgpus", NULL, false},
    {AT(get_vgpu_use), "nvmlDeviceGetVgpuUtilization", NULL, false},
    {AT(get_vgpu_vm), "nvmlVgpuInstanceGetVmID", NULL, false},
    {AT(get_vgpu_mdev), "nvmlVgpuInstanceGetMdevUUID", NULL, false},
    {AT(get_vgpu_memory), "nvmlVgpuInstanceGetFbUsage", NULL, false},
    {AT(get_log), "nvmlDeviceGetVgpuSchedulerLog", NULL, false},
    {AT(get_log_v2), "nvmlDeviceGetVgpuSchedulerLog_v2", NULL, false},
    {AT(get_scheduler), "nvmlDeviceGetVgpuSchedulerState", NULL, false},
    {AT(get_scheduler_v2), "nvmlDeviceGetVgpuSchedulerState_v2", NULL, false},
    {AT(get_scheduler_caps), "nvmlDeviceGetVgpuSchedulerCapabilities", NULL, false},
    {AT(get_mig_mode), "nvmlDeviceGetMigMode", NULL, false},
    {AT(get_slice_max), "nvmlDeviceGetMaxMigDeviceCount", NULL, false},
    {AT(get_slice), "nvmlDeviceGetMigDeviceHandleByIndex", NULL, false},
    {AT(get_gpu_instance), "nvmlDeviceGetGpuInstanceId", NULL, false},
    {AT(get_compute_instance), "nvmlDeviceGetComputeInstanceId", NULL, false},
    {AT(get_vgpu_types), "nvmlDeviceGetSupportedVgpus", NULL, false},
    {AT(get_vgpu_type_memory), "nvmlVgpuTypeGetFramebufferSize", NULL, false},
    {AT(get_vgpu_type_max), "nvmlVgpuTypeGetMaxInstances", NULL, false},
    {AT(get_heterogeneous), "nvmlDeviceGetVgpuHeterogeneousMode", NULL, false},
};

/* Returns whether a directory that the linker searches in addition to its cache has this file. */
static bool
nvml_is_in_path(const char *name)
{
    void *program = dlopen(NULL, RTLD_LAZY);
    Dl_serinfo size = {0};
    bool found = false;

    if (program && dlinfo(program, RTLD_DI_SERINFOSIZE, &size) == 0) {
        g_autofree Dl_serinfo *path = g_malloc0(size.dls_size);
        *path = size;
        if (dlinfo(program, RTLD_DI_SERINFO, path) == 0) {
            for (unsigned i = 0; i < path->dls_cnt && !found; i++) {
                g_autofree char *file = g_build_filename(path->dls_serpath[i].dls_name, name, NULL);
                found = access(file, F_OK) == 0;
            }
        }
    }
    if (program)
        dlclose(program);
    return found;
}

/* Returns whether the library exists. If it does but cannot be loaded, the reason is another one,
 * such as a missing dependency. The linker's error text does not distinguish the two. */
static bool
nvml_is_there(const char *library)
{
    g_autofree char *cache = NULL, *end = g_strconcat("/", library, NULL);
    size_t size = 0;

    if (strchr(library, '/'))
        return access(library, F_OK) == 0;
    if (nvml_is_in_path(library))
        return true;
    /* The cache contains the paths of libraries, each terminated by a NUL. */
    if (!g_file_get_contents("/etc/ld.so.cache", &cache, &size, NULL))
        return false;
    for (const char *at = cache; at < cache + size; at += strlen(at) + 1) {
        if (g_str_has_suffix(at, end) && access(at, F_OK) == 0)
            return true;
    }
    return false;
}

int
vg_nvml_load(const char *library, struct vg_nvml *ret, GError **err)
{
    void *object = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    struct vg_nvml found = {0};

    if (!object) {
        g_autofree char *why = g_strdup(dlerror()); /* the calls below overwrite it */
        if (nvml_is_there(library))
            return vg_error(err, VG_E_EXTERNAL, "%s", why);
        vg_error(err, VG_E_NOT_FOUND, "%s", why);
        return vg_error_set_detail(err, VG_TROUBLE_NVML_ABSENT);
    }
    for (size_t i = 0; i < G_N_ELEMENTS(symbols); i++) {
        void *function = dlsym(object, symbols[i].name);
        if (!function && symbols[i].older)
            function = dlsym(object, symbols[i].older);
        if (!function && symbols[i].needed)
            return vg_error(err, VG_E_EXTERNAL,
                            "%s has no %s: it is not NVML, or its driver is older than 410",
                            library, symbols[i].name);
        memcpy((char *)&found + symbols[i].offset, &function, sizeof(function));
    }
    *ret = found;
    return 0;
}

enum vg_nvml_answer
vg_nvml_answer_of(int code)
{
    switch (code) {
    case VG_NVML_SUCCESS:
        return VG_NVML_YES;
    case VG_NVML_INVALID_ARGUMENT:
    case VG_NVML_NOT_SUPPORTED:
    case VG_NVML_NO_PERMISSION:
    case VG_NVML_FUNCTION_NOT_FOUND:
    case VG_NVML_VERSION_MISMATCH:
    case VG_NVML_DEPRECATED:
        return VG_NVML_NEVER;
    case VG_NVML_NOT_FOUND:
    case VG_NVML_NO_DATA:
    case VG_NVML_INSUFFICIENT_SIZE:
        return VG_NVML_NOTHING;
    case VG_NVML_UNINITIALIZED:
    case VG_NVML_DRIVER_NOT_LOADED:
    case VG_NVML_GPU_IS_LOST:
    case VG_NVML_RESET_REQUIRED:
        return VG_NVML_LOST;
    default:
        return VG_NVML_FAILED;
    }
}

const char *
vg_nvml_says(const struct vg_nvml *nvml, int code)
{
    const char *text = nvml->error_string ? nvml->error_string(code) : NULL;

    return text ? text : "an unnamed error";
}

double
vg_nvml_percent(int value_type, const union vg_nvml_value *value)
{
    double percent;

    switch (value_type) {
    case VG_NVML_VALUE_DOUBLE:
        percent = value->d;
        break;
    case VG_NVML_VALUE_UINT:
        percent = value->u;
        break;
    case VG_NVML_VALUE_ULONG:
        percent = (double)value->ul;
        break;
    case VG_NVML_VALUE_ULLONG:
        percent = (double)value->ull;
        break;
    default:
        return -1;
    }
    return percent >= 0 && percent <= 100 ? percent : -1;
}
