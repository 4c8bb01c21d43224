/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "collectors/nvml-device.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "collectors/gpu-window.h"
#include "collectors/nvml-card.h"
#include "collectors/nvml-process.h"
#include "collectors/nvml-slices.h"
#include "collectors/nvml-use.h"
#include "collectors/nvml-vgpu.h"

/* The maximum number of samples of one engine. The library stores 100 to 120. */
#define SAMPLES_MAX 256

/* How long data about the card is used before it is read again. */
#define CARD_NS (60 * VG_NS_PER_S)

static const enum vg_nvml_sampling samplings[VG_NVML_ENGINE_MAX] = {
    [VG_NVML_SM] = VG_NVML_SAMPLING_GPU,
    [VG_NVML_MEM_BW] = VG_NVML_SAMPLING_MEMORY,
    [VG_NVML_ENC] = VG_NVML_SAMPLING_ENC,
    [VG_NVML_DEC] = VG_NVML_SAMPLING_DEC};

struct vg_nvml_device {
    const struct vg_nvml *nvml;
    vg_nvml_handle handle;
    char address[sizeof(((struct vg_gpu_sample *)NULL)->device)];
    char name[96];
    int lost_code; /* why the device is no longer queried; 0: it is */
    int64_t sampled_ns;
    struct vg_nvml_use use;
    struct vg_nvml_lack no_rates;
    struct vg_nvml_lack no_codec[VG_NVML_ENGINE_MAX]; /* of the encoder and the decoder */
    struct vg_nvml_lack no_samples[VG_NVML_ENGINE_MAX];
    struct vg_nvml_news sample_news[VG_NVML_ENGINE_MAX];
    unsigned long long last_sample[VG_NVML_ENGINE_MAX]; /* time of the newest sample */
    vg_nvml_processes *processes;
    vg_nvml_vgpus *vgpus;
    vg_nvml_slices *slices;
    struct vg_card_fact card;
    int64_t card_ns; /* time of the last reading; 0: never */
};

/* ---- the device ---- */

/* Interprets a result code, and notes permanent ones. */
static enum vg_nvml_answer
nvml_device_hear(vg_nvml_device *device, int code, struct vg_nvml_lack *lack)
{
    enum vg_nvml_answer answer = vg_nvml_answer_of(code);

    /* Every GPU reports its rates, so an unknown error means that the GPU has one. */
    if (answer == VG_NVML_FAILED && lack == &device->no_rates)
        answer = VG_NVML_LOST;
    if (answer == VG_NVML_NEVER)
        *lack = (struct vg_nvml_lack){.lacks = true, .code = code};
    else if (answer == VG_NVML_LOST)
        device->lost_code = code;
    return answer;
}

static void
set_percent(vg_nvml_device *device, enum vg_nvml_engine engine, double percent, int64_t now_ns)
{
    device->use.percent[engine] = percent;
    device->use.heard_ns = now_ns;
}

static unsigned long long
newest_time(const struct vg_nvml_sample *samples, unsigned n)
{
    unsigned long long newest = 0;

    for (unsigned i = 0; i < n; i++)
        newest = MAX(newest, samples[i].time);
    return newest;
}

/* Uses the mean of the new samples. */
static void
hear_samples(vg_nvml_device *device, enum vg_nvml_engine engine, int64_t now_ns)
{
    struct vg_nvml_news *news = &device->sample_news[engine];
    struct vg_nvml_sample samples[SAMPLES_MAX];
    unsigned n = SAMPLES_MAX, n_new = 0;
    double sum = 0, last = -1;
    int value_type = VG_NVML_VALUE_UINT;

    if (device->no_samples[engine].lacks || device->lost_code)
        return;
    const unsigned long long after = vg_nvml_news_after(news, now_ns);
    int code = VG_NVML_CALL(device->nvml, get_samples, device->handle, samplings[engine], after,
                            &value_type, &n, samples);
    if (nvml_device_hear(device, code, &device->no_samples[engine]) != VG_NVML_YES)
        return;
    n = MIN(n, SAMPLES_MAX);
    const unsigned long long newest = newest_time(samples, n);
    if (!vg_nvml_news_is_new(news, after, newest, &device->last_sample[engine], now_ns))
        return;
    for (unsigned i = 0; i < n; i++) {
        double percent = vg_nvml_percent(value_type, &samples[i].value);
        if (samples[i].time <= after || percent < 0)
            continue;
        if (samples[i].time == newest)
            last = percent;
        sum += percent;
        n_new++;
    }
    /* The first answer contains old samples. */
    if (n_new > 0)
        set_percent(device, engine, after == 0 ? MAX(last, 0) : sum / n_new, now_ns);
}

static void
hear_rates(vg_nvml_device *device, int64_t now_ns)
{
    struct vg_nvml_rates rates = {0};

    if (device->no_rates.lacks || device->lost_code)
        return;
    int code = VG_NVML_CALL(device->nvml, get_rates, device->handle, &rates);
    if (nvml_device_hear(device, code, &device->no_rates) != VG_NVML_YES)
        return;
    set_percent(device, VG_NVML_SM, MIN(rates.gpu, 100), now_ns);
    set_percent(device, VG_NVML_MEM_BW, MIN(rates.memory, 100), now_ns);
}

static void
hear_codec(vg_nvml_device *device, enum vg_nvml_engine engine,
           int (*get)(vg_nvml_handle, unsigned *, unsigned *), int64_t now_ns)
{
    struct vg_nvml_lack *lack = &device->no_codec[engine];
    unsigned percent = 0, period = 0;

    if (lack->lacks || device->lost_code)
        return;
    int code = get ? get(device->handle, &percent, &period) : VG_NVML_FUNCTION_NOT_FOUND;
    if (nvml_device_hear(device, code, lack) == VG_NVML_YES)
        set_percent(device, engine, MIN(percent, 100), now_ns);
}

/* Reads the use of the engines. The sample buffer is the last resort: the driver needs 3 ms of CPU
 * time to return it, but 0.1 ms for the other calls. */
static void
hear_engines(vg_nvml_device *device, int64_t now_ns)
{
    hear_rates(device, now_ns);
    hear_codec(device, VG_NVML_ENC, device->nvml->get_encoder_use, now_ns);
    hear_codec(device, VG_NVML_DEC, device->nvml->get_decoder_use, now_ns);
    for (unsigned i = 0; i < VG_NVML_ENGINE_MAX; i++) {
        bool is_codec = i == VG_NVML_ENC || i == VG_NVML_DEC;
        if (is_codec ? device->no_codec[i].lacks : device->no_rates.lacks)
            hear_samples(device, (enum vg_nvml_engine)i, now_ns);
    }
}

/* Returns whether no engine is known to be working. */
static bool
is_idle(const vg_nvml_device *device)
{
    for (unsigned i = 0; i < VG_NVML_ENGINE_MAX; i++) {
        if (device->use.percent[i] > 0)
            return false;
    }
    return device->use.percent[VG_NVML_SM] >= 0;
}

/* Reads the use of memory. The newer function excludes what the driver reserves for itself. */
static void
hear_memory(vg_nvml_device *device)
{
    struct vg_nvml_memory_v2 newer = {.version = VG_NVML_MEMORY_V2};
    struct vg_nvml_memory memory = {0};
    int code = VG_NVML_CALL(device->nvml, get_memory_v2, device->handle, &newer);

    memory.used = newer.used;
    if (code != VG_NVML_SUCCESS)
        code = VG_NVML_CALL(device->nvml, get_memory, device->handle, &memory);
    if (code != VG_NVML_SUCCESS || memory.used == VG_NVML_NOT_AVAILABLE)
        return;
    device->use.memory_bytes = (int64_t)MIN(memory.used, INT64_MAX);
    device->use.peak_bytes = MAX(device->use.peak_bytes, device->use.memory_bytes);
}

/* ---- all of it ---- */

void
vg_nvml_device_sample(vg_nvml_device *device, int64_t now_ns)
{
    int64_t span_ns = device->sampled_ns > 0 ? now_ns - device->sampled_ns : 0;

    if (device->lost_code)
        return;
    device->sampled_ns = now_ns;
    hear_engines(device, now_ns);
    hear_memory(device);
    vg_nvml_use_advance(&device->use, now_ns, span_ns);
    vg_nvml_slices_sample(device->slices, now_ns, span_ns);
    if (!device->lost_code)
        device->lost_code =
            vg_nvml_processes_sample(device->processes, is_idle(device), now_ns, span_ns);
    if (!device->lost_code)
        device->lost_code = vg_nvml_vgpus_sample(device->vgpus, now_ns, span_ns);
}

static void
nvml_device_read_card(vg_nvml_device *device, int64_t now_ns, struct vg_window *window)
{
    if (device->card_ns == 0 || now_ns - device->card_ns >= CARD_NS) {
        vg_nvml_card_read(device->nvml, device->handle, device->address, &device->card);
        device->card_ns = now_ns;
    }
    g_array_append_val(window->gpu_cards, device->card);
}

void
vg_nvml_device_read(vg_nvml_device *device, const GPtrArray *vms, int64_t now_ns,
                    struct vg_window *window)
{
    struct vg_gpu_sample turns = {0};

    if (device->lost_code)
        return;
    nvml_device_read_card(device, now_ns, window);
    vg_nvml_processes_read(device->processes, vms, window);
    vg_nvml_slices_read(device->slices, window);
    device->lost_code = vg_nvml_vgpus_read(device->vgpus, vms, now_ns, window, &turns);
    if (!vg_nvml_use_take(&device->use, device->address, window->end_ns - window->begin_ns,
                          window->gpus))
        return;
    for (unsigned i = 0; i < window->gpus->len; i++) {
        struct vg_gpu_sample *gpu = &g_array_index(window->gpus, struct vg_gpu_sample, i);
        if (strcmp(gpu->device, device->address) == 0 &&
            strcmp(gpu->engine, vg_nvml_engine_names[VG_NVML_SM]) == 0) {
            gpu->lacks &= turns.lacks | ~(unsigned int)VG_GPU_NO_SLICES;
            gpu->slices = turns.slices;
            if (turns.slices > 0)
                gpu->exec_ns = turns.exec_ns;
        }
    }
}

bool
vg_nvml_device_is_lost(const vg_nvml_device *device)
{
    return device->lost_code != 0;
}

/* Returns whether the use of the device is unknown. */
static bool
has_no_use(const vg_nvml_device *device)
{
    return device->no_rates.lacks && device->no_samples[VG_NVML_SM].lacks;
}

bool
vg_nvml_device_describe(const vg_nvml_device *device, GString *text)
{
    const struct vg_nvml *nvml = device->nvml;

    g_string_append_printf(text, "%s (%s)", device->address, device->name);
    if (device->lost_code) {
        g_string_append_printf(text, ": lost: NVML reports %s",
                               vg_nvml_says(nvml, device->lost_code));
        return true;
    }
    if (has_no_use(device))
        g_string_append_printf(text, ": no utilisation: NVML reports %s",
                               vg_nvml_says(nvml, device->no_rates.code));
    vg_nvml_slices_describe(device->slices, text);
    vg_nvml_processes_describe(device->processes, text);
    bool less = vg_nvml_vgpus_describe(device->vgpus, text);
    return less || has_no_use(device);
}

vg_nvml_device *
vg_nvml_device_new(const struct vg_nvml *nvml, unsigned index, const char *proc, GError **err)
{
    struct vg_nvml_pci pci = {0};
    vg_nvml_handle handle = NULL;
    int code = nvml->get_handle(index, &handle);

    if (code == VG_NVML_SUCCESS)
        code = nvml->get_pci(handle, &pci);
    if (code != VG_NVML_SUCCESS) {
        vg_error(err, VG_E_EXTERNAL, "GPU %u: NVML reports %s", index, vg_nvml_says(nvml, code));
        return NULL;
    }
    vg_nvml_device *device = g_new0(vg_nvml_device, 1);
    device->nvml = nvml;
    device->handle = handle;
    g_snprintf(device->address, sizeof(device->address), "%04x:%02x:%02x.0", pci.domain, pci.bus,
               pci.device);
    if (VG_NVML_CALL(nvml, get_name, handle, device->name, sizeof(device->name)) != VG_NVML_SUCCESS)
        g_strlcpy(device->name, "no name", sizeof(device->name));
    vg_nvml_use_init(&device->use);
    device->processes = vg_nvml_processes_new(nvml, handle, device->address, proc);
    device->vgpus = vg_nvml_vgpus_new(nvml, handle, device->address, proc);
    device->slices = vg_nvml_slices_new(nvml, handle, device->address);
    return device;
}

void
vg_nvml_device_free(vg_nvml_device *device)
{
    if (!device)
        return;
    vg_nvml_processes_free(device->processes);
    vg_nvml_vgpus_free(device->vgpus);
    vg_nvml_slices_free(device->slices);
    g_free(device);
}
