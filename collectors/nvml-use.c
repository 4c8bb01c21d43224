/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "collectors/nvml-use.h"

#include <math.h>

#include "base/clock.h"
#include "collectors/gpu-window.h"

/* A user without a sample for this long is idle now: products sample every 1/6 to 1 s. */
#define STALE_NS (2 * VG_NS_PER_S)

const char *const vg_nvml_engine_names[VG_NVML_ENGINE_MAX] = {
    [VG_NVML_SM] = "sm", [VG_NVML_MEM_BW] = "mem-bw", [VG_NVML_ENC] = "enc", [VG_NVML_DEC] = "dec"};

void
vg_nvml_use_init(struct vg_nvml_use *use)
{
    *use = (struct vg_nvml_use){0};
    for (unsigned i = 0; i < VG_NVML_ENGINE_MAX; i++)
        use->percent[i] = -1;
}

void
vg_nvml_use_advance(struct vg_nvml_use *use, int64_t now_ns, int64_t span_ns)
{
    bool stale = now_ns - use->heard_ns > STALE_NS;

    for (unsigned i = 0; i < VG_NVML_ENGINE_MAX; i++) {
        if (use->percent[i] < 0)
            continue;
        if (stale)
            use->percent[i] = 0;
        use->busy_ns[i] += use->percent[i] / 100 * (double)span_ns;
        use->known = use->known || span_ns > 0;
    }
    use->span_ns += span_ns;
}

unsigned long long
vg_nvml_news_after(struct vg_nvml_news *news, int64_t now_ns)
{
    if (now_ns - news->heard_ns > STALE_NS)
        news->newest = 0;
    return news->newest;
}

bool
vg_nvml_news_is_new(struct vg_nvml_news *news, unsigned long long after, unsigned long long time,
                    unsigned long long *last, int64_t now_ns)
{
    if (time <= after || time == *last)
        return false;
    *last = time;
    news->newest = MAX(news->newest, time);
    news->heard_ns = now_ns;
    return true;
}

void
vg_nvml_use_take_part(struct vg_nvml_use *use, const char *device, const char *engine,
                      int64_t window_ns, GArray *gpus)
{
    const bool known = use->known && use->percent[VG_NVML_SM] >= 0 && use->span_ns > 0;
    const double fit = known ? (double)window_ns / (double)use->span_ns : 0;
    const int64_t busy_ns = llround(use->busy_ns[VG_NVML_SM] * fit);
    struct vg_gpu_sample more = {.busy_ns = busy_ns,
                                 .exec_ns = busy_ns,
                                 .lacks = VG_GPU_ONLY_WORK | (known ? 0 : VG_GPU_NO_WORK) |
                                          (use->peak_bytes > 0 ? 0 : VG_GPU_NO_MEMORY),
                                 .mem_bytes = use->memory_bytes,
                                 .mem_peak_bytes = use->peak_bytes};

    g_strlcpy(more.device, device, sizeof(more.device));
    g_strlcpy(more.engine, engine, sizeof(more.engine));
    if (known || use->peak_bytes > 0)
        vg_gpu_window_add(gpus, &more);
    use->busy_ns[VG_NVML_SM] = 0;
    use->span_ns = 0;
    use->known = false;
    use->peak_bytes = use->memory_bytes;
}

bool
vg_nvml_use_take(struct vg_nvml_use *use, const char *device, int64_t window_ns, GArray *gpus)
{
    bool known = use->known;
    const unsigned int no_memory = use->peak_bytes > 0 ? 0 : VG_GPU_NO_MEMORY;
    double fit = use->span_ns > 0 ? (double)window_ns / (double)use->span_ns : 0;

    for (unsigned i = 0; i < VG_NVML_ENGINE_MAX; i++) {
        int64_t busy_ns = llround(use->busy_ns[i] * fit);
        struct vg_gpu_sample more = {.busy_ns = busy_ns,
                                     .exec_ns = busy_ns,
                                     .lacks = VG_GPU_ONLY_WORK | no_memory,
                                     .mem_bytes = use->memory_bytes,
                                     .mem_peak_bytes = use->peak_bytes};
        g_strlcpy(more.device, device, sizeof(more.device));
        g_strlcpy(more.engine, vg_nvml_engine_names[i], sizeof(more.engine));
        if (known && use->percent[i] >= 0)
            vg_gpu_window_add(gpus, &more);
        use->busy_ns[i] = 0;
    }
    /* Report memory without work, as for a GPU in MIG mode. */
    if (!known && use->peak_bytes > 0) {
        struct vg_gpu_sample more = {.lacks = VG_GPU_ONLY_WORK | VG_GPU_NO_WORK,
                                     .mem_bytes = use->memory_bytes,
                                     .mem_peak_bytes = use->peak_bytes};
        g_strlcpy(more.device, device, sizeof(more.device));
        g_strlcpy(more.engine, vg_nvml_engine_names[VG_NVML_SM], sizeof(more.engine));
        vg_gpu_window_add(gpus, &more);
    }
    use->span_ns = 0;
    use->known = false;
    use->peak_bytes = use->memory_bytes;
    return known;
}
