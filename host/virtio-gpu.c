/* SPDX-License-Identifier: Apache-2.0
 *
 * Sources: hw/display/virtio-gpu-gl.c and virtio-gpu-pci-gl.c of QEMU 10.0 (venus, hostmem), and of
 * 11.0 (drm_native_context).
 */
#include "config.h"

#include "host/virtio-gpu.h"

#include <string.h>

#define TEXT_BYTES_MAX 4096
#define BYTES_MAX      (INT64_C(1) << 50)

static const struct {
    const char *property;
    enum vg_virtio_gpu gpu;
} virtio_gpu_properties[] = {
    {"venus", VG_VIRTIO_GPU_VENUS},
    {"drm_native_context", VG_VIRTIO_GPU_NATIVE},
};

/* Reads a size in QEMU's format: "4G", "268435456". Returns 0 if it is invalid. */
static int64_t
virtio_gpu_size(const char *text)
{
    static const char units[] = "KMGT";
    char *end;
    const uint64_t number = g_ascii_strtoull(text, &end, 10);
    const char *unit = *end ? strchr(units, g_ascii_toupper(*end)) : NULL;
    const unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;

    return number > (uint64_t)BYTES_MAX >> shift ? 0 : (int64_t)(number << shift);
}

/* Evaluates a property. More properties may follow its value. */
static void
virtio_gpu_take(const char *name, const char *value, enum vg_virtio_gpu *gpu, int64_t *hostmem)
{
    const bool on = g_str_has_prefix(value, "on") || g_str_has_prefix(value, "true");

    for (size_t i = 0; i < G_N_ELEMENTS(virtio_gpu_properties); i++)
        if (on && strcmp(name, virtio_gpu_properties[i].property) == 0)
            *gpu = MAX(*gpu, virtio_gpu_properties[i].gpu);
    if (strcmp(name, "hostmem") == 0)
        *hostmem = virtio_gpu_size(value);
}

/* Reads one QEMU argument: "virtio-gpu-gl-pci,venus=on,hostmem=4G", "device.ua-v.venus=on". */
static void
virtio_gpu_read_argument(const char *argument, enum vg_virtio_gpu *gpu, int64_t *hostmem)
{
    g_auto(GStrv) parts = g_strsplit(argument, ",", -1);

    if (!strstr(argument, "virtio-gpu") && !strstr(argument, "virtio-vga") &&
        !g_str_has_prefix(argument, "device."))
        return;
    for (char **part = parts; *part; part++) {
        char *value = strchr(*part, '=');
        if (!value)
            continue;
        *value = '\0';
        const char *dot = strrchr(*part, '.');
        virtio_gpu_take(dot ? dot + 1 : *part, value + 1, gpu, hostmem);
    }
}

static void
virtio_gpu_read_overrides(const xmlNode *domain, const char *alias, enum vg_virtio_gpu *gpu,
                          int64_t *hostmem)
{
    const xmlNode *device = vg_xml_at(domain, "override/device");

    for (; device; device = vg_xml_next(device)) {
        const xmlNode *property = vg_xml_at(device, "frontend/property");
        for (; property && vg_xml_attribute_is(device, "alias", alias);
             property = vg_xml_next(property)) {
            g_autofree char *name = vg_xml_attribute(property, "name", TEXT_BYTES_MAX);
            g_autofree char *value = vg_xml_attribute(property, "value", TEXT_BYTES_MAX);
            if (name && value)
                virtio_gpu_take(name, value, gpu, hostmem);
        }
    }
}

enum vg_virtio_gpu
vg_virtio_gpu_read(const xmlNode *domain, int64_t *ret_hostmem_bytes)
{
    enum vg_virtio_gpu gpu = VG_VIRTIO_GPU_NONE;
    const xmlNode *video = vg_xml_at(domain, "devices/video");
    const xmlNode *argument = vg_xml_at(domain, "commandline/arg");
    int64_t hostmem = 0;

    for (; video; video = vg_xml_next(video)) {
        const xmlNode *model = vg_xml_child(video, "model");
        g_autofree char *alias =
            vg_xml_attribute(vg_xml_child(video, "alias"), "name", TEXT_BYTES_MAX);
        if (!vg_xml_attribute_is(model, "type", "virtio"))
            continue;
        if (vg_xml_attribute_is(vg_xml_child(model, "acceleration"), "accel3d", "yes"))
            gpu = MAX(gpu, VG_VIRTIO_GPU_VIRGL);
        if (alias)
            virtio_gpu_read_overrides(domain, alias, &gpu, &hostmem);
    }
    for (; argument; argument = vg_xml_next(argument)) {
        g_autofree char *value = vg_xml_attribute(argument, "value", TEXT_BYTES_MAX);
        if (value)
            virtio_gpu_read_argument(value, &gpu, &hostmem);
    }
    if (ret_hostmem_bytes)
        *ret_hostmem_bytes = gpu == VG_VIRTIO_GPU_NONE ? 0 : hostmem;
    return gpu;
}
