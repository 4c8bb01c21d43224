/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "collectors/nvml-card.h"

#define TYPES_MAX 256
/* No GPU has more memory; a larger number is not a size. */
#define BYTES_MAX (INT64_C(4096) << 30)

static int64_t
nvml_card_bytes(unsigned long long bytes)
{
    return bytes <= (unsigned long long)BYTES_MAX ? (int64_t)bytes : 0;
}

static int64_t
nvml_card_memory(const struct vg_nvml *nvml, vg_nvml_handle handle)
{
    struct vg_nvml_memory_v2 newer = {.version = VG_NVML_MEMORY_V2};
    struct vg_nvml_memory memory = {0};

    if (VG_NVML_CALL(nvml, get_memory_v2, handle, &newer) == VG_NVML_SUCCESS)
        return nvml_card_bytes(newer.total);
    if (VG_NVML_CALL(nvml, get_memory, handle, &memory) == VG_NVML_SUCCESS)
        return nvml_card_bytes(memory.total);
    return 0;
}

/* Returns the total memory of as many vGPUs of one type as fit, as the maximum of all types. On
 * some products, the GPU's own memory is smaller, because it does not contain what ECC takes. */
static int64_t
nvml_card_vgpu_memory(const struct vg_nvml *nvml, vg_nvml_handle handle)
{
    unsigned types[TYPES_MAX];
    unsigned n = TYPES_MAX;
    int64_t most = 0;

    if (VG_NVML_CALL(nvml, get_vgpu_types, handle, &n, types) != VG_NVML_SUCCESS)
        return 0;
    for (unsigned i = 0; i < MIN(n, TYPES_MAX); i++) {
        unsigned long long each = 0;
        unsigned count = 0;
        if (VG_NVML_CALL(nvml, get_vgpu_type_memory, types[i], &each) == VG_NVML_SUCCESS &&
            VG_NVML_CALL(nvml, get_vgpu_type_max, handle, types[i], &count) == VG_NVML_SUCCESS &&
            count > 0 && each <= (unsigned long long)BYTES_MAX / count)
            most = MAX(most, (int64_t)(each * count));
    }
    return most;
}

static enum vg_profiles
nvml_card_profiles(const struct vg_nvml *nvml, vg_nvml_handle handle)
{
    struct vg_nvml_heterogeneous mode = {.version = VG_NVML_HETEROGENEOUS_V1};

    if (VG_NVML_CALL(nvml, get_heterogeneous, handle, &mode) != VG_NVML_SUCCESS)
        return VG_PROFILES_UNKNOWN;
    return mode.enabled ? VG_PROFILES_MIXED : VG_PROFILES_HOMOGENEOUS;
}

void
vg_nvml_card_read(const struct vg_nvml *nvml, vg_nvml_handle handle, const char *address,
                  struct vg_card_fact *ret)
{
    *ret = (struct vg_card_fact){
        .memory_bytes = nvml_card_memory(nvml, handle),
        .vgpu_bytes = nvml_card_vgpu_memory(nvml, handle),
        .profiles = nvml_card_profiles(nvml, handle),
    };
    g_strlcpy(ret->device, address, sizeof(ret->device));
}
