/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads what NVIDIA's library reports about GPUs, vGPUs, and processes that are VMs. Only the
 * collector's thread calls the library. If the library hangs, the thread hangs too, which its
 * heartbeat shows. If the library fails, it is shut down and tried again after a delay that grows
 * each time.
 */
#include "config.h"

#include "base/clock.h"
#include "base/error.h"
#include "collectors/gpu-source.h"
#include "collectors/nvml-device.h"
#include "collectors/nvml.h"

#define NAME "nvml"

/* The pause after a first failure; it doubles each time, up to this many times as long. */
#define RETRY_NS  (30 * VG_NS_PER_S)
#define RETRY_MAX 32
/* The maximum number of GPUs of a host. NVML has reported 16 at most. */
#define DEVICES_MAX 64

struct source {
    struct vg_gpu_source base; /* first */
    char *proc;
    char *library;
    int64_t first_retry_ns;
    int64_t backoff_ns;
    int64_t retry_ns;
    struct vg_nvml nvml;
    bool loaded;
    bool initialised;
    GPtrArray *devices; /* vg_nvml_device */
    char *problem;      /* why there is nothing to see, or less than exists; or NULL */
    bool less;          /* there should be more */
};

static void
gpu_nvml_free_device(void *device)
{
    vg_nvml_device_free(device);
}

static void
shut_down(struct source *source)
{
    g_ptr_array_set_size(source->devices, 0);
    if (source->initialised)
        (void)source->nvml.shutdown();
    source->initialised = false;
}

/* ---- beginning ---- */

static int
find_devices(struct source *source, GError **err)
{
    unsigned n = 0;
    int code = source->nvml.get_count(&n);

    if (code != VG_NVML_SUCCESS)
        return vg_error(err, VG_E_EXTERNAL, "its GPUs cannot be counted: NVML reports %s",
                        vg_nvml_says(&source->nvml, code));
    for (unsigned i = 0; i < MIN(n, DEVICES_MAX); i++) {
        g_autoptr(GError) bad = NULL;
        vg_nvml_device *device = vg_nvml_device_new(&source->nvml, i, source->proc, &bad);
        if (device) {
            g_ptr_array_add(source->devices, device);
            continue;
        }
        g_free(source->problem);
        source->problem = g_strdup(bad->message);
        source->less = true;
    }
    return 0;
}

static int
gpu_nvml_start(struct source *source, GError **err)
{
    if (!source->loaded && vg_nvml_load(source->library, &source->nvml, err) < 0)
        return -1;
    source->loaded = true;
    int code = source->nvml.init();
    if (code == VG_NVML_DRIVER_NOT_LOADED || code == VG_NVML_NO_PERMISSION)
        return vg_error(err, VG_E_EXTERNAL,
                        "it cannot be started: NVML reports %s; is the driver loaded, and can "
                        "vgpud access /dev/nvidia*? See vgpud(8)",
                        vg_nvml_says(&source->nvml, code));
    if (code != VG_NVML_SUCCESS)
        return vg_error(err, VG_E_EXTERNAL, "it cannot be started: NVML reports %s",
                        vg_nvml_says(&source->nvml, code));
    source->initialised = true;
    return find_devices(source, err);
}

static void
try_to_start(struct source *source, int64_t now_ns)
{
    g_autoptr(GError) err = NULL;

    shut_down(source);
    g_clear_pointer(&source->problem, g_free);
    source->less = false;
    source->base.trouble = VG_TROUBLE_NONE;
    source->backoff_ns =
        CLAMP(source->backoff_ns * 2, source->first_retry_ns, source->first_retry_ns * RETRY_MAX);
    source->retry_ns = now_ns + source->backoff_ns;
    if (gpu_nvml_start(source, &err) == 0)
        return;
    shut_down(source);
    source->problem = g_strdup(err->message);
    source->base.trouble = (enum vg_trouble)vg_error_detail(err);
    /* Most hosts do not have the library. */
    source->less = !g_error_matches(err, VG_ERROR, VG_E_NOT_FOUND);
}

/* Returns whether a device does not answer (any more). */
static bool
has_lost(const struct source *source)
{
    if (source->initialised && source->problem)
        return true;
    for (unsigned i = 0; i < source->devices->len; i++) {
        if (vg_nvml_device_is_lost(source->devices->pdata[i]))
            return true;
    }
    return false;
}

/* ---- the source ---- */

static bool
gpu_nvml_ready(vg_gpu_source *base, int64_t now_ns)
{
    struct source *source = (struct source *)base;

    if ((!source->initialised || has_lost(source)) && now_ns >= source->retry_ns)
        try_to_start(source, now_ns);
    /* A library that has worked for longer than the last pause counts as good again. */
    if (source->initialised && !has_lost(source) && now_ns >= source->retry_ns)
        source->backoff_ns = 0;
    return source->devices->len > 0;
}

static void
gpu_nvml_sample(vg_gpu_source *base, int64_t now_ns)
{
    const struct source *source = (const struct source *)base;

    for (unsigned i = 0; i < source->devices->len; i++)
        vg_nvml_device_sample(source->devices->pdata[i], now_ns);
}

static void
gpu_nvml_read_source(vg_gpu_source *base, const GPtrArray *vms, vg_thread *self, int64_t now_ns,
                     struct vg_window *window)
{
    const struct source *source = (const struct source *)base;

    for (unsigned i = 0; i < source->devices->len; i++) {
        vg_nvml_device_read(source->devices->pdata[i], vms, now_ns, window);
        vg_thread_beat(self);
    }
}

static bool
gpu_nvml_describe(const vg_gpu_source *base, GString *text)
{
    const struct source *source = (const struct source *)base;
    bool less = source->less;

    if (source->problem)
        g_string_append(text, source->problem);
    else if (source->devices->len == 0)
        g_string_append(text, "no NVIDIA GPU");
    for (unsigned i = 0; i < source->devices->len; i++) {
        if (i > 0 || source->problem)
            g_string_append(text, ", ");
        less = vg_nvml_device_describe(source->devices->pdata[i], text) || less;
    }
    return less;
}

static void
gpu_nvml_close_source(vg_gpu_source *base)
{
    shut_down((struct source *)base);
}

static void
gpu_nvml_free_source(vg_gpu_source *base)
{
    struct source *source = (struct source *)base;

    g_ptr_array_unref(source->devices);
    g_free(source->problem);
    g_free(source->library);
    g_free(source->proc);
    g_free(source);
}

static const struct vg_gpu_source_ops gpu_nvml_ops = {
    .name = NAME,
    .ready = gpu_nvml_ready,
    .sample = gpu_nvml_sample,
    .read = gpu_nvml_read_source,
    .describe = gpu_nvml_describe,
    .close = gpu_nvml_close_source,
    .free = gpu_nvml_free_source,
};

vg_gpu_source *
vg_gpu_nvml_new(const char *proc, const char *library, int64_t retry_ns)
{
    struct source *source = g_new0(struct source, 1);

    source->base.ops = &gpu_nvml_ops;
    source->proc = g_strdup(proc);
    source->library = g_strdup(library);
    source->first_retry_ns = retry_ns > 0 ? retry_ns : RETRY_NS;
    source->devices = g_ptr_array_new_with_free_func(gpu_nvml_free_device);
    return &source->base;
}
