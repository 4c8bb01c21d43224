/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "collectors/nvml-device.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "collectors/gpu-window.h"
#include "collectors/nvml-vgpu.h"

/* Processes that use a device at once; more are left out. */
#define PROCESSES_MAX 1024
/* Samples that the library keeps of one engine; it has 100 to 120. */
#define SAMPLES_MAX 256
/* What was not heard again for so long does nothing now: products sample every 1/6 to 1 s. */
#define STALE_NS (2 * VG_NS_PER_S)

static const char *const engine_names[VG_NVML_ENGINE_MAX] = {
    [VG_NVML_SM] = "sm", [VG_NVML_MEM_BW] = "mem-bw", [VG_NVML_ENC] = "enc", [VG_NVML_DEC] = "dec"};

static const enum vg_nvml_sampling samplings[VG_NVML_ENGINE_MAX] = {
    [VG_NVML_SM] = VG_NVML_SAMPLING_GPU,
    [VG_NVML_MEM_BW] = VG_NVML_SAMPLING_MEMORY,
    [VG_NVML_ENC] = VG_NVML_SAMPLING_ENC,
    [VG_NVML_DEC] = VG_NVML_SAMPLING_DEC};

struct process {
    struct vg_nvml_use use;
    bool present; /* in the list that is being made */
};

struct vg_nvml_device {
    const struct vg_nvml *nvml;
    vg_nvml_handle handle;
    char address[sizeof(((struct vg_gpu_sample *)NULL)->device)];
    char name[96];
    int lost_code; /* why it is not talked to any more; 0: it is */
    int64_t sampled_ns;
    struct vg_nvml_use use;
    struct vg_nvml_lack no_rates;
    struct vg_nvml_lack no_samples[VG_NVML_ENGINE_MAX];
    unsigned long long sample_time[VG_NVML_ENGINE_MAX]; /* of the newest one */
    GHashTable *processes;                              /* pid -> struct process, of VMs */
    struct vg_nvml_lack no_process_use;
    unsigned long long process_time;
    vg_nvml_vgpus *vgpus;
};

/* ---- use as time ---- */

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

bool
vg_nvml_use_take(struct vg_nvml_use *use, const char *device, int64_t window_ns, GArray *gpus)
{
    bool known = use->known;
    double fit = use->span_ns > 0 ? (double)window_ns / (double)use->span_ns : 0;

    for (unsigned i = 0; i < VG_NVML_ENGINE_MAX; i++) {
        int64_t busy_ns = llround(use->busy_ns[i] * fit);
        struct vg_gpu_sample more = {.busy_ns = busy_ns,
                                     .exec_ns = busy_ns,
                                     .mem_bytes = use->memory_bytes,
                                     .mem_peak_bytes = use->peak_bytes};
        g_strlcpy(more.device, device, sizeof(more.device));
        g_strlcpy(more.engine, engine_names[i], sizeof(more.engine));
        if (known && use->percent[i] >= 0)
            vg_gpu_window_add(gpus, &more);
        use->busy_ns[i] = 0;
    }
    use->span_ns = 0;
    use->known = false;
    use->peak_bytes = use->memory_bytes;
    return known;
}

/* ---- the device ---- */

/* What the answer means, put down where it means something for long. */
static enum vg_nvml_answer
hear(vg_nvml_device *device, int code, struct vg_nvml_lack *lack)
{
    enum vg_nvml_answer answer = vg_nvml_answer_of(code);

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

/* The mean of the samples that are new. */
static void
hear_samples(vg_nvml_device *device, enum vg_nvml_engine engine, int64_t now_ns)
{
    struct vg_nvml_sample samples[SAMPLES_MAX];
    unsigned n = SAMPLES_MAX, n_new = 0;
    const unsigned long long after = device->sample_time[engine];
    double sum = 0, last = -1;
    int value_type = VG_NVML_VALUE_UINT;

    if (device->no_samples[engine].lacks || device->lost_code)
        return;
    int code = VG_NVML_CALL(device->nvml, get_samples, device->handle, samplings[engine], after,
                            &value_type, &n, samples);
    if (hear(device, code, &device->no_samples[engine]) != VG_NVML_YES)
        return;
    for (unsigned i = 0; i < MIN(n, SAMPLES_MAX); i++) {
        double percent = vg_nvml_percent(value_type, &samples[i].value);
        if (samples[i].time <= after || percent < 0)
            continue;
        if (samples[i].time >= device->sample_time[engine]) {
            device->sample_time[engine] = samples[i].time;
            last = percent;
        }
        sum += percent;
        n_new++;
    }
    /* The first time it is the past that is told. */
    if (n_new > 0)
        set_percent(device, engine, after == 0 ? last : sum / n_new, now_ns);
}

static void
hear_rates(vg_nvml_device *device, int64_t now_ns)
{
    struct vg_nvml_rates rates = {0};

    if (!device->no_rates.lacks) {
        int code = VG_NVML_CALL(device->nvml, get_rates, device->handle, &rates);
        if (hear(device, code, &device->no_rates) == VG_NVML_YES) {
            set_percent(device, VG_NVML_SM, MIN(rates.gpu, 100), now_ns);
            set_percent(device, VG_NVML_MEM_BW, MIN(rates.memory, 100), now_ns);
        }
    }
    if (device->no_rates.lacks) {
        hear_samples(device, VG_NVML_SM, now_ns);
        hear_samples(device, VG_NVML_MEM_BW, now_ns);
    }
    hear_samples(device, VG_NVML_ENC, now_ns);
    hear_samples(device, VG_NVML_DEC, now_ns);
}

/* The newer function leaves out what the driver keeps for itself. */
static void
hear_memory(vg_nvml_device *device)
{
    struct vg_nvml_memory_v2 newer = {.version = VG_NVML_MEMORY_V2};
    struct vg_nvml_memory memory = {0};
    int code = VG_NVML_CALL(device->nvml, get_memory_v2, device->handle, &newer);

    memory.used = newer.used;
    if (code != VG_NVML_SUCCESS)
        code = VG_NVML_CALL(device->nvml, get_memory, device->handle, &memory);
    if (code != VG_NVML_SUCCESS)
        return;
    device->use.memory_bytes = (int64_t)MIN(memory.used, INT64_MAX);
    device->use.peak_bytes = MAX(device->use.peak_bytes, device->use.memory_bytes);
}

/* ---- processes ---- */

/* Puts down what is told of a VM's process. */
static void
take_process_use(vg_nvml_device *device, const struct vg_nvml_process_use *told,
                 unsigned long long after)
{
    struct process *process = g_hash_table_lookup(device->processes, GUINT_TO_POINTER(told->pid));

    /* Some drivers hand out old ones, and such as were never filled in. */
    if (!process || told->time <= after || told->sm > 100)
        return;
    process->use.percent[VG_NVML_SM] = told->sm;
    process->use.percent[VG_NVML_MEM_BW] = MIN(told->memory, 100);
    process->use.percent[VG_NVML_ENC] = MIN(told->enc, 100);
    process->use.percent[VG_NVML_DEC] = MIN(told->dec, 100);
    device->process_time = MAX(device->process_time, told->time);
}

/* Processes that did nothing lately are not told of, and of none where all did nothing. */
static void
hear_processes(vg_nvml_device *device, int64_t now_ns)
{
    g_autofree struct vg_nvml_process_use *uses = g_new0(struct vg_nvml_process_use, PROCESSES_MAX);
    const unsigned long long after = device->process_time;
    unsigned n = PROCESSES_MAX;
    GHashTableIter iter;
    void *value;

    int code = VG_NVML_CALL(device->nvml, get_process_use, device->handle, uses, &n, after);
    enum vg_nvml_answer answer = hear(device, code, &device->no_process_use);
    if (answer != VG_NVML_YES && answer != VG_NVML_NOTHING)
        return;
    g_hash_table_iter_init(&iter, device->processes);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        struct vg_nvml_use *use = &((struct process *)value)->use;
        if (answer == VG_NVML_NOTHING && use->percent[VG_NVML_SM] >= 0)
            continue;
        for (unsigned i = 0; i < VG_NVML_ENGINE_MAX; i++)
            use->percent[i] = 0;
        use->heard_ns = now_ns;
    }
    for (unsigned i = 0; answer == VG_NVML_YES && i < MIN(n, PROCESSES_MAX); i++)
        take_process_use(device, &uses[i], after);
}

static void
advance_processes(const vg_nvml_device *device, int64_t now_ns, int64_t span_ns)
{
    GHashTableIter iter;
    void *value;

    g_hash_table_iter_init(&iter, device->processes);
    while (g_hash_table_iter_next(&iter, NULL, &value))
        vg_nvml_use_advance(&((struct process *)value)->use, now_ns, span_ns);
}

static const struct vg_proc_vm *
find_vm(const GPtrArray *vms, unsigned pid)
{
    for (unsigned i = 0; i < vms->len; i++) {
        const struct vg_proc_vm *vm = vms->pdata[i];
        if ((unsigned)vm->pid == pid)
            return vm;
    }
    return NULL;
}

static void
list_processes(vg_nvml_device *device, const GPtrArray *vms,
               int (*get)(vg_nvml_handle, unsigned *, struct vg_nvml_process *))
{
    g_autofree struct vg_nvml_process *list = g_new0(struct vg_nvml_process, PROCESSES_MAX);
    unsigned n = PROCESSES_MAX;

    if (!get || get(device->handle, &n, list) != VG_NVML_SUCCESS)
        return;
    for (unsigned i = 0; i < MIN(n, PROCESSES_MAX); i++) {
        void *key = GUINT_TO_POINTER(list[i].pid);
        struct process *process = g_hash_table_lookup(device->processes, key);
        if (!find_vm(vms, list[i].pid))
            continue;
        if (!process) {
            process = g_new0(struct process, 1);
            vg_nvml_use_init(&process->use);
            g_hash_table_insert(device->processes, key, process);
        }
        /* One that computes and draws is in both lists, each with all of its memory. */
        if (list[i].memory != VG_NVML_NOT_AVAILABLE)
            process->use.memory_bytes = (int64_t)MIN(list[i].memory, INT64_MAX);
        process->use.peak_bytes = MAX(process->use.peak_bytes, process->use.memory_bytes);
        process->present = true;
    }
}

static void
read_processes(vg_nvml_device *device, const GPtrArray *vms, struct vg_window *window)
{
    GHashTableIter iter;
    void *key, *value;

    g_hash_table_iter_init(&iter, device->processes);
    while (g_hash_table_iter_next(&iter, &key, &value)) {
        struct process *process = value;
        const struct vg_proc_vm *vm = find_vm(vms, GPOINTER_TO_UINT(key));
        process->present = false;
        if (vm && process->use.known)
            vg_nvml_use_take(&process->use, device->address, window->end_ns - window->begin_ns,
                             vg_gpu_window_vm(window, vm)->gpus);
    }
    list_processes(device, vms, device->nvml->get_compute_processes);
    list_processes(device, vms, device->nvml->get_graphics_processes);
    g_hash_table_iter_init(&iter, device->processes);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        if (!((struct process *)value)->present)
            g_hash_table_iter_remove(&iter);
    }
}

/* ---- all of it ---- */

void
vg_nvml_device_sample(vg_nvml_device *device, int64_t now_ns)
{
    int64_t span_ns = device->sampled_ns > 0 ? now_ns - device->sampled_ns : 0;

    if (device->lost_code)
        return;
    device->sampled_ns = now_ns;
    hear_rates(device, now_ns);
    hear_memory(device);
    vg_nvml_use_advance(&device->use, now_ns, span_ns);
    if (g_hash_table_size(device->processes) > 0 && !device->no_process_use.lacks &&
        !device->lost_code)
        hear_processes(device, now_ns);
    advance_processes(device, now_ns, span_ns);
    if (!device->lost_code)
        device->lost_code = vg_nvml_vgpus_sample(device->vgpus, now_ns, span_ns);
}

void
vg_nvml_device_read(vg_nvml_device *device, const GPtrArray *vms, int64_t now_ns,
                    struct vg_window *window)
{
    struct vg_gpu_sample turns = {0};

    if (device->lost_code)
        return;
    read_processes(device, vms, window);
    device->lost_code = vg_nvml_vgpus_read(device->vgpus, vms, now_ns, window, &turns);
    if (!vg_nvml_use_take(&device->use, device->address, window->end_ns - window->begin_ns,
                          window->gpus))
        return;
    for (unsigned i = 0; turns.slices > 0 && i < window->gpus->len; i++) {
        struct vg_gpu_sample *gpu = &g_array_index(window->gpus, struct vg_gpu_sample, i);
        if (strcmp(gpu->device, device->address) == 0 &&
            strcmp(gpu->engine, engine_names[VG_NVML_SM]) == 0) {
            gpu->slices = turns.slices;
            gpu->exec_ns = turns.exec_ns;
        }
    }
}

bool
vg_nvml_device_is_lost(const vg_nvml_device *device)
{
    return device->lost_code != 0;
}

/* Is it not told how much it is used, and which code says why? */
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
        g_string_append_printf(text, ": lost: NVML says %s", vg_nvml_says(nvml, device->lost_code));
        return true;
    }
    if (has_no_use(device))
        g_string_append_printf(text, ": no utilization: NVML says %s",
                               vg_nvml_says(nvml, device->no_rates.code));
    if (g_hash_table_size(device->processes) > 0) {
        g_string_append_printf(text, ": %u VM process%s", g_hash_table_size(device->processes),
                               g_hash_table_size(device->processes) == 1 ? "" : "es");
        if (device->no_process_use.lacks)
            g_string_append_printf(text, ", but no utilization of processes: NVML says %s",
                                   vg_nvml_says(nvml, device->no_process_use.code));
    }
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
        vg_error(err, VG_E_EXTERNAL, "GPU %u: NVML says %s", index, vg_nvml_says(nvml, code));
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
    device->processes = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    device->vgpus = vg_nvml_vgpus_new(nvml, handle, device->address, proc);
    return device;
}

void
vg_nvml_device_free(vg_nvml_device *device)
{
    if (!device)
        return;
    g_hash_table_unref(device->processes);
    vg_nvml_vgpus_free(device->vgpus);
    g_free(device);
}
