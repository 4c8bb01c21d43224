/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes metrics of free capacity for vGPUs.
 */
#include "config.h"

#include "api/metrics-text.h"
#include "model/gpu-largest.h"

/* Adds a figure of free capacity unless it is unknown. */
static void
places_add(GString *out, const char *name, const char *device, const struct vg_gpu_largest *largest)
{
    g_autofree char *type = vg_metrics_label("type", largest->type ? largest->type : "");
    g_autofree char *labels = g_strconcat(device ? device : "", device ? "," : "", type, NULL);

    if (largest->state == VG_GPU_LARGEST_NONE || largest->memory_bytes > 0)
        vg_metrics_value(out, name, labels, (double)largest->memory_bytes);
}

void
vg_metrics_add_places(GString *out, const vg_snapshot *snapshot)
{
    static const char of_gpu[] = "vgpud_gpu_largest_free_profile_bytes";
    static const char of_host[] = "vgpud_host_largest_free_profile_bytes";

    vg_metrics_family(
        out, of_gpu, "gauge",
        "Memory of the largest vGPU profile that has a free slot; 0 if no profile has one.");
    for (guint i = 0; i < snapshot->hosts->len; i++) {
        const struct vg_snap_host *host = snapshot->hosts->pdata[i];
        for (guint k = 0; k < host->gpus->len; k++) {
            const struct vg_snap_gpu *gpu = host->gpus->pdata[k];
            const struct vg_gpu_largest largest = vg_gpu_largest_of(gpu);
            g_autofree char *device = vg_metrics_label("device", gpu->device);
            if (gpu->vgpu_types->len > 0)
                places_add(out, of_gpu, device, &largest);
        }
    }
    vg_metrics_family(out, of_host, "gauge",
                      "Memory of the largest vGPU profile with a free slot on any of the host's "
                      "GPUs; 0 without one.");
    for (guint i = 0; i < snapshot->hosts->len; i++) {
        const struct vg_snap_host *host = snapshot->hosts->pdata[i];
        const struct vg_gpu_largest largest = vg_gpu_largest_of_host(host);
        if (host->gpus->len > 0)
            places_add(out, of_host, NULL, &largest);
    }
}
