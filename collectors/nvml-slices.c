/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "collectors/nvml-slices.h"

#include <string.h>

#include "collectors/gpu-window.h"
#include "collectors/nvml-use.h"

/* A GPU has at most 7 GPU instances, each with at most 7 compute instances. */
#define SLICES_MAX 49

struct slice {
    vg_nvml_handle handle;
    unsigned gpu_instance, compute_instance;
    bool no_work; /* the library does not report it */
    bool present;
    struct vg_nvml_use use;
};

struct vg_nvml_slices {
    const struct vg_nvml *nvml;
    vg_nvml_handle handle;
    const char *address;
    GArray *list; /* struct slice */
};

vg_nvml_slices *
vg_nvml_slices_new(const struct vg_nvml *nvml, vg_nvml_handle handle, const char *address)
{
    vg_nvml_slices *slices = g_new0(vg_nvml_slices, 1);

    slices->nvml = nvml;
    slices->handle = handle;
    slices->address = address;
    slices->list = g_array_new(FALSE, TRUE, sizeof(struct slice));
    return slices;
}

void
vg_nvml_slices_free(vg_nvml_slices *slices)
{
    if (!slices)
        return;
    g_array_unref(slices->list);
    g_free(slices);
}

static void
nvml_slices_read_memory(const struct vg_nvml *nvml, struct slice *slice)
{
    struct vg_nvml_memory_v2 newer = {.version = VG_NVML_MEMORY_V2};
    struct vg_nvml_memory memory = {0};
    int code = VG_NVML_CALL(nvml, get_memory_v2, slice->handle, &newer);

    memory.used = newer.used;
    if (code != VG_NVML_SUCCESS)
        code = VG_NVML_CALL(nvml, get_memory, slice->handle, &memory);
    if (code != VG_NVML_SUCCESS || memory.used == VG_NVML_NOT_AVAILABLE)
        return;
    slice->use.memory_bytes = (int64_t)MIN(memory.used, INT64_MAX);
    slice->use.peak_bytes = MAX(slice->use.peak_bytes, slice->use.memory_bytes);
}

void
vg_nvml_slices_sample(vg_nvml_slices *slices, int64_t now_ns, int64_t span_ns)
{
    for (guint i = 0; i < slices->list->len; i++) {
        struct slice *slice = &g_array_index(slices->list, struct slice, i);
        struct vg_nvml_rates rates = {0};
        int code = slice->no_work ? VG_NVML_NOT_SUPPORTED
                                  : VG_NVML_CALL(slices->nvml, get_rates, slice->handle, &rates);
        if (code == VG_NVML_SUCCESS) {
            slice->use.percent[VG_NVML_SM] = MIN(rates.gpu, 100);
            slice->use.heard_ns = now_ns;
        }
        slice->no_work = slice->no_work || vg_nvml_answer_of(code) == VG_NVML_NEVER;
        nvml_slices_read_memory(slices->nvml, slice);
        vg_nvml_use_advance(&slice->use, now_ns, span_ns);
    }
}

static struct slice *
nvml_slices_need(vg_nvml_slices *slices, unsigned gpu_instance, unsigned compute_instance)
{
    struct slice fresh = {.gpu_instance = gpu_instance, .compute_instance = compute_instance};

    for (guint i = 0; i < slices->list->len; i++) {
        struct slice *slice = &g_array_index(slices->list, struct slice, i);
        if (slice->gpu_instance == gpu_instance && slice->compute_instance == compute_instance)
            return slice;
    }
    vg_nvml_use_init(&fresh.use);
    g_array_append_val(slices->list, fresh);
    return &g_array_index(slices->list, struct slice, slices->list->len - 1);
}

/* Lists the existing slices and forgets those that no longer exist. */
static void
nvml_slices_list(vg_nvml_slices *slices)
{
    const struct vg_nvml *nvml = slices->nvml;
    unsigned enabled = 0, pending = 0, n = 0;

    for (guint i = 0; i < slices->list->len; i++)
        g_array_index(slices->list, struct slice, i).present = false;
    if (VG_NVML_CALL(nvml, get_mig_mode, slices->handle, &enabled, &pending) != VG_NVML_SUCCESS ||
        !enabled || VG_NVML_CALL(nvml, get_slice_max, slices->handle, &n) != VG_NVML_SUCCESS)
        n = 0;
    for (unsigned i = 0; i < MIN(n, SLICES_MAX); i++) {
        vg_nvml_handle handle = NULL;
        unsigned gpu = 0, compute = 0;
        /* An index without a slice is not an error. */
        if (VG_NVML_CALL(nvml, get_slice, slices->handle, i, &handle) != VG_NVML_SUCCESS ||
            VG_NVML_CALL(nvml, get_gpu_instance, handle, &gpu) != VG_NVML_SUCCESS ||
            VG_NVML_CALL(nvml, get_compute_instance, handle, &compute) != VG_NVML_SUCCESS)
            continue;
        struct slice *slice = nvml_slices_need(slices, gpu, compute);
        slice->handle = handle;
        slice->present = true;
    }
    for (guint i = slices->list->len; i > 0; i--) {
        if (!g_array_index(slices->list, struct slice, i - 1).present)
            g_array_remove_index(slices->list, i - 1);
    }
}

void
vg_nvml_slices_read(vg_nvml_slices *slices, struct vg_window *window)
{
    for (guint i = 0; i < slices->list->len; i++) {
        struct slice *slice = &g_array_index(slices->list, struct slice, i);
        char engine[VG_GPU_ENGINE_SIZE];
        g_snprintf(engine, sizeof(engine), "sm-mig-%u-%u", slice->gpu_instance,
                   slice->compute_instance);
        vg_nvml_use_take_part(&slice->use, slices->address, engine,
                              window->end_ns - window->begin_ns, window->gpus);
    }
    nvml_slices_list(slices);
}

void
vg_nvml_slices_describe(const vg_nvml_slices *slices, GString *text)
{
    const guint n = slices->list->len;
    bool no_work = false;

    for (guint i = 0; i < n; i++)
        no_work = no_work || g_array_index(slices->list, struct slice, i).no_work;
    if (n > 0)
        g_string_append_printf(text, ": %u MIG slice%s%s", n, n == 1 ? "" : "s",
                               no_work ? "; NVML does not report the work of some of them" : "");
}
