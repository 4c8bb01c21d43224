/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "model/gpu-profile.h"

#include <string.h>

#include <glib.h>

#define GIB          (INT64_C(1) << 30)
#define MEMORY_MAX   INT64_C(4096) /* GiB */
#define DIGITS       "0123456789"
#define SERIES       "ABCQ" /* NVIDIA's series of vGPU types */
#define SLICE_MIDDLE "g."

/* Reads the GiB that a text starts with. Returns the number of digits, or 0. */
static size_t
profile_number(const char *text, int64_t *ret)
{
    const size_t length = strspn(text, DIGITS);

    *ret = length > 0 ? g_ascii_strtoll(text, NULL, 10) : 0;
    return *ret <= MEMORY_MAX ? length : 0;
}

/* Finds the memory of "1g.10gb". Returns false if the name has no such part. */
static bool
profile_read_slice(const char *name, int64_t *ret)
{
    const char *middle = strstr(name, SLICE_MIDDLE);

    if (!middle || middle == name || !g_ascii_isdigit(middle[-1]))
        return false;
    const size_t length = profile_number(middle + strlen(SLICE_MIDDLE), ret);
    return length > 0 && g_str_has_prefix(middle + strlen(SLICE_MIDDLE) + length, "gb");
}

/* Finds the memory at the end of "T4-1Q" or "A100-1-5CME", and whether a number of slices
 * precedes it. Returns false if the name has no such end. */
static bool
profile_read_vgpu(const char *name, int64_t *ret, bool *ret_slices)
{
    const char *dash = strrchr(name, '-');
    const size_t length = dash ? profile_number(dash + 1, ret) : 0;

    if (length == 0 || !strchr(SERIES, dash[1 + length]) || dash[1 + length] == '\0')
        return false;
    const char *before = dash;
    while (before > name && g_ascii_isdigit(before[-1]))
        before--;
    *ret_slices = before < dash && before > name && before[-1] == '-';
    return true;
}

bool
vg_gpu_profile_is_mig(const char *name)
{
    int64_t memory;
    bool slices = false;

    return name && (profile_read_slice(name, &memory) ||
                    (profile_read_vgpu(name, &memory, &slices) && slices));
}

int64_t
vg_gpu_profile_bytes(const char *name)
{
    int64_t memory = 0;
    bool slices;

    if (!name || (!profile_read_slice(name, &memory) && !profile_read_vgpu(name, &memory, &slices)))
        return 0;
    return memory > 0 ? memory * GIB : GIB / 2;
}
