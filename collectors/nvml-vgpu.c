/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "collectors/nvml-vgpu.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "collectors/gpu-window.h"
#include "collectors/nvml-use.h"
#include "host/proc-text.h"
#include "model/vm-name.h"

/* The maximum number of vGPUs of one device. NVIDIA's limit is 32. */
#define VGPUS_MAX 64
/* If the VM of a vGPU was not found, it is searched for again after this time, because command
 * lines are long. */
#define RETRY_NS (10 * VG_NS_PER_S)
#define UUID_MAX 80

struct vgpu {
    unsigned instance;
    struct vg_nvml_use use;
    char vm_id[UUID_MAX]; /* as the library reports it */
    bool found;           /* id is valid */
    uint32_t id;
    int64_t retry_ns;
    bool present;            /* in the present list */
    unsigned long long time; /* of the newest sample */
};

struct vg_nvml_vgpus {
    const struct vg_nvml *nvml;
    vg_nvml_handle handle;
    const char *address; /* borrowed */
    char *proc;
    GArray *list; /* struct vgpu */
    struct vg_nvml_lack no_list;
    struct vg_nvml_lack no_use;
    struct vg_nvml_news news;
    struct vg_nvml_lack no_log_v2;
    struct vg_nvml_lack no_log;
    struct vg_nvml_log_meter log;
    char *scheduler; /* as text, or NULL */
};

vg_nvml_vgpus *
vg_nvml_vgpus_new(const struct vg_nvml *nvml, vg_nvml_handle handle, const char *address,
                  const char *proc)
{
    vg_nvml_vgpus *vgpus = g_new0(vg_nvml_vgpus, 1);

    vgpus->nvml = nvml;
    vgpus->handle = handle;
    vgpus->address = address;
    vgpus->proc = g_strdup(proc);
    vgpus->list = g_array_new(FALSE, TRUE, sizeof(struct vgpu));
    return vgpus;
}

void
vg_nvml_vgpus_free(vg_nvml_vgpus *vgpus)
{
    if (!vgpus)
        return;
    g_array_unref(vgpus->list);
    g_free(vgpus->proc);
    g_free(vgpus->scheduler);
    g_free(vgpus);
}

static struct vgpu *
find_vgpu(const vg_nvml_vgpus *vgpus, unsigned instance)
{
    for (unsigned i = 0; i < vgpus->list->len; i++) {
        struct vgpu *vgpu = &g_array_index(vgpus->list, struct vgpu, i);
        if (vgpu->instance == instance)
            return vgpu;
    }
    return NULL;
}

/* Returns 0, or the code if it means that the device is lost. */
static int
nvml_vgpu_hear(int code, struct vg_nvml_lack *lack)
{
    enum vg_nvml_answer answer = vg_nvml_answer_of(code);

    if (answer == VG_NVML_NEVER)
        *lack = (struct vg_nvml_lack){.lacks = true, .code = code};
    return answer == VG_NVML_LOST ? code : 0;
}

/* ---- sampling ---- */

static void
take_use(vg_nvml_vgpus *vgpus, int value_type, const struct vg_nvml_vgpu_use *use,
         unsigned long long after, int64_t now_ns)
{
    const union vg_nvml_value *const values[VG_NVML_ENGINE_MAX] = {[VG_NVML_SM] = &use->sm,
                                                                   [VG_NVML_MEM_BW] = &use->memory,
                                                                   [VG_NVML_ENC] = &use->enc,
                                                                   [VG_NVML_DEC] = &use->dec};
    struct vgpu *vgpu = find_vgpu(vgpus, use->instance);

    if (!vgpu || !vg_nvml_news_is_new(&vgpus->news, after, use->time, &vgpu->time, now_ns))
        return;
    for (unsigned i = 0; i < VG_NVML_ENGINE_MAX; i++) {
        double percent = vg_nvml_percent(value_type, values[i]);
        if (percent >= 0)
            vgpu->use.percent[i] = percent;
    }
    vgpu->use.heard_ns = now_ns;
}

static int
hear_use(vg_nvml_vgpus *vgpus, int64_t now_ns)
{
    struct vg_nvml_vgpu_use uses[VGPUS_MAX];
    const unsigned long long after = vg_nvml_news_after(&vgpus->news, now_ns);
    unsigned n = VGPUS_MAX;
    int value_type = VG_NVML_VALUE_UINT;

    if (vgpus->no_use.lacks)
        return 0;
    int code = VG_NVML_CALL(vgpus->nvml, get_vgpu_use, vgpus->handle, after, &value_type, &n, uses);
    if (code != VG_NVML_SUCCESS)
        return nvml_vgpu_hear(code, &vgpus->no_use);
    for (unsigned i = 0; i < MIN(n, VGPUS_MAX); i++)
        take_use(vgpus, value_type, &uses[i], after, now_ns);
    return 0;
}

/* Calls the newer function, and fills the entries of the older one. */
static int
read_log_v2(vg_nvml_vgpus *vgpus, struct vg_nvml_log_entry *entries, unsigned *ret_n)
{
    g_autofree struct vg_nvml_log_v2 *log = g_new0(struct vg_nvml_log_v2, 1);

    log->engine = VG_NVML_ENGINE_GRAPHICS;
    int code = VG_NVML_CALL(vgpus->nvml, get_log_v2, vgpus->handle, log);
    if (code != VG_NVML_SUCCESS)
        return code;
    *ret_n = MIN(log->n_entries, VG_NVML_LOG_MAX);
    for (unsigned i = 0; i < *ret_n; i++)
        entries[i] = (struct vg_nvml_log_entry){.time = log->entries[i].time,
                                                .run_total = log->entries[i].run_total,
                                                .run = log->entries[i].run,
                                                .runlist = log->entries[i].runlist};
    return code;
}

static int
read_log(vg_nvml_vgpus *vgpus, struct vg_nvml_log_entry *entries, unsigned *ret_n)
{
    g_autofree struct vg_nvml_log *log = g_new0(struct vg_nvml_log, 1);
    int code = VG_NVML_CALL(vgpus->nvml, get_log, vgpus->handle, log);

    if (code != VG_NVML_SUCCESS)
        return code;
    *ret_n = MIN(log->n_entries, VG_NVML_LOG_MAX);
    memcpy(entries, log->entries, *ret_n * sizeof(*entries));
    return code;
}

static int
hear_log(vg_nvml_vgpus *vgpus)
{
    struct vg_nvml_log_entry entries[VG_NVML_LOG_MAX];
    unsigned n = 0;
    int code = VG_NVML_NO_DATA;
    int lost = 0;

    if (!vgpus->no_log_v2.lacks) {
        code = read_log_v2(vgpus, entries, &n);
        lost = nvml_vgpu_hear(code, &vgpus->no_log_v2);
    }
    if (vgpus->no_log_v2.lacks && !vgpus->no_log.lacks) {
        code = read_log(vgpus, entries, &n);
        lost = nvml_vgpu_hear(code, &vgpus->no_log);
    }
    if (code == VG_NVML_SUCCESS)
        vg_nvml_log_meter_feed(&vgpus->log, entries, n);
    return lost;
}

static void
hear_memory(const vg_nvml_vgpus *vgpus, struct vgpu *vgpu)
{
    unsigned long long used = 0;

    if (VG_NVML_CALL(vgpus->nvml, get_vgpu_memory, vgpu->instance, &used) != VG_NVML_SUCCESS ||
        used == VG_NVML_NOT_AVAILABLE)
        return;
    vgpu->use.memory_bytes = (int64_t)MIN(used, INT64_MAX);
    vgpu->use.peak_bytes = MAX(vgpu->use.peak_bytes, vgpu->use.memory_bytes);
}

int
vg_nvml_vgpus_sample(vg_nvml_vgpus *vgpus, int64_t now_ns, int64_t span_ns)
{
    if (vgpus->list->len == 0)
        return 0;
    int lost = hear_use(vgpus, now_ns);
    if (!lost)
        lost = hear_log(vgpus);
    for (unsigned i = 0; i < vgpus->list->len; i++) {
        struct vgpu *vgpu = &g_array_index(vgpus->list, struct vgpu, i);
        hear_memory(vgpus, vgpu);
        vg_nvml_use_advance(&vgpu->use, now_ns, span_ns);
    }
    return lost;
}

/* ---- whose it is ---- */

static const struct vg_proc_vm *
find_by_id(const GPtrArray *vms, uint32_t id)
{
    for (unsigned i = 0; i < vms->len; i++) {
        if (((const struct vg_proc_vm *)vms->pdata[i])->id == id)
            return vms->pdata[i];
    }
    return NULL;
}

/* Finds a VM by NVML's id. The id is libvirt's domain id, which is unknown here, or the pid if
 * there is no libvirt. */
static const struct vg_proc_vm *
find_by_vm_id(const GPtrArray *vms, const char *vm_id, int type)
{
    const struct vg_proc_vm *found = NULL;

    for (unsigned i = 0; i < vms->len; i++) {
        const struct vg_proc_vm *vm = vms->pdata[i];
        char pid[16];
        snprintf(pid, sizeof(pid), "%d", vm->pid);
        if (vg_vm_is(vm_id, type == VG_NVML_VM_UUID ? NULL : pid,
                     type == VG_NVML_VM_UUID ? vm->uuid : NULL))
            found = vg_proc_vm_choose(found, vm);
    }
    return found;
}

/* Finds a VM by its mediated device: QEMU's command line has a path that ends with the UUID. */
static const struct vg_proc_vm *
find_by_mdev(const vg_nvml_vgpus *vgpus, const GPtrArray *vms, const char *uuid)
{
    g_autofree char *text = g_malloc(VG_PROC_CMDLINE_MAX);
    const struct vg_proc_vm *found = NULL;

    for (unsigned i = 0; uuid[0] && i < vms->len; i++) {
        const struct vg_proc_vm *vm = vms->pdata[i];
        char path[PATH_MAX];
        snprintf(path, sizeof(path), "%s/%d/cmdline", vgpus->proc, vm->pid);
        ssize_t n = vg_proc_read(path, text, VG_PROC_CMDLINE_MAX);
        if (n > 0 && memmem(text, (size_t)n, uuid, strlen(uuid)))
            found = vg_proc_vm_choose(found, vm);
    }
    return found;
}

static void
nvml_vgpu_find_vm(const vg_nvml_vgpus *vgpus, struct vgpu *vgpu, const GPtrArray *vms,
                  int64_t now_ns)
{
    char vm_id[UUID_MAX] = "", mdev[UUID_MAX] = "";
    int type = VG_NVML_VM_DOMAIN_ID;

    (void)VG_NVML_CALL(vgpus->nvml, get_vgpu_vm, vgpu->instance, vm_id, sizeof(vm_id), &type);
    bool same = strcmp(vm_id, vgpu->vm_id) == 0;
    if (same && vgpu->found && find_by_id(vms, vgpu->id))
        return;
    if (same && !vgpu->found && now_ns < vgpu->retry_ns)
        return;
    g_strlcpy(vgpu->vm_id, vm_id, sizeof(vgpu->vm_id));
    const struct vg_proc_vm *vm = vm_id[0] ? find_by_vm_id(vms, vm_id, type) : NULL;
    if (!vm && VG_NVML_CALL(vgpus->nvml, get_vgpu_mdev, vgpu->instance, mdev, sizeof(mdev)) ==
                   VG_NVML_SUCCESS)
        vm = find_by_mdev(vgpus, vms, mdev);
    vgpu->found = vm != NULL;
    vgpu->id = vm ? vm->id : 0;
    vgpu->retry_ns = now_ns + RETRY_NS;
}

/* ---- windows ---- */

static const char *
policy_name(unsigned policy)
{
    static const char *const names[] = {[VG_NVML_POLICY_BEST_EFFORT] = "best effort",
                                        [VG_NVML_POLICY_EQUAL_SHARE] = "equal share",
                                        [VG_NVML_POLICY_FIXED_SHARE] = "fixed share"};

    return policy < G_N_ELEMENTS(names) && names[policy] ? names[policy] : "by an unknown policy";
}

/* Reads the scheduler, which cannot change while there are vGPUs. */
static void
read_scheduler(vg_nvml_vgpus *vgpus)
{
    struct vg_nvml_scheduler_v2 newer = {.engine = VG_NVML_ENGINE_GRAPHICS};
    struct vg_nvml_scheduler state = {0};
    struct vg_nvml_scheduler_caps caps = {0};
    int code = VG_NVML_CALL(vgpus->nvml, get_scheduler_v2, vgpus->handle, &newer);
    g_autoptr(GString) text = g_string_new(NULL);

    state.policy = newer.policy;
    if (code != VG_NVML_SUCCESS)
        code = VG_NVML_CALL(vgpus->nvml, get_scheduler, vgpus->handle, &state);
    g_clear_pointer(&vgpus->scheduler, g_free);
    if (code != VG_NVML_SUCCESS)
        return;
    g_string_append(text, policy_name(state.policy));
    if (VG_NVML_CALL(vgpus->nvml, get_scheduler_caps, vgpus->handle, &caps) == VG_NVML_SUCCESS) {
        const char *before = " (could be ";
        for (unsigned i = 0; i < VG_NVML_POLICIES; i++) {
            unsigned policy = caps.supported[i];
            if (policy == VG_NVML_POLICY_UNKNOWN || policy == state.policy)
                continue;
            g_string_append_printf(text, "%s%s", before, policy_name(policy));
            before = ", ";
        }
        if (before[0] == ',')
            g_string_append_c(text, ')');
    }
    vgpus->scheduler = g_string_free(g_steal_pointer(&text), FALSE);
}

static int
list_vgpus(vg_nvml_vgpus *vgpus)
{
    unsigned instances[VGPUS_MAX];
    unsigned n = VGPUS_MAX, before = vgpus->list->len;

    if (vgpus->no_list.lacks)
        return 0;
    int code = VG_NVML_CALL(vgpus->nvml, get_vgpus, vgpus->handle, &n, instances);
    if (code != VG_NVML_SUCCESS) {
        int lost = nvml_vgpu_hear(code, &vgpus->no_list);
        if (vgpus->no_list.lacks)
            g_array_set_size(vgpus->list, 0);
        return lost;
    }
    for (unsigned i = 0; i < vgpus->list->len; i++)
        g_array_index(vgpus->list, struct vgpu, i).present = false;
    for (unsigned i = 0; i < MIN(n, VGPUS_MAX); i++) {
        struct vgpu *known = find_vgpu(vgpus, instances[i]);
        if (!known) {
            struct vgpu fresh = {.instance = instances[i]};
            vg_nvml_use_init(&fresh.use);
            g_array_append_val(vgpus->list, fresh);
            known = &g_array_index(vgpus->list, struct vgpu, vgpus->list->len - 1);
        }
        known->present = true;
    }
    for (unsigned i = vgpus->list->len; i > 0; i--) {
        if (!g_array_index(vgpus->list, struct vgpu, i - 1).present)
            g_array_remove_index(vgpus->list, i - 1);
    }
    if (before == 0 && vgpus->list->len > 0)
        read_scheduler(vgpus);
    return 0;
}

/* Takes the turns from the log. The log contains run lists instead of vGPUs, so turns are only
 * known if there is one vGPU. */
static void
take_turns(vg_nvml_vgpus *vgpus, GArray *gpus_of_only_vm, struct vg_gpu_sample *ret)
{
    const bool has_log = vgpus->list->len > 0 && !(vgpus->no_log_v2.lacks && vgpus->no_log.lacks);

    ret->lacks = has_log ? 0 : VG_GPU_NO_SLICES;
    ret->slices = vgpus->log.slices;
    ret->exec_ns = vgpus->log.run_ns;
    vgpus->log.slices = 0;
    vgpus->log.run_ns = 0;
    for (unsigned i = 0; gpus_of_only_vm && i < gpus_of_only_vm->len; i++) {
        struct vg_gpu_sample *gpu = &g_array_index(gpus_of_only_vm, struct vg_gpu_sample, i);
        if (strcmp(gpu->device, vgpus->address) != 0 || strcmp(gpu->engine, "sm") != 0)
            continue;
        gpu->slices = ret->slices;
        gpu->lacks &= ret->lacks | ~(unsigned int)VG_GPU_NO_SLICES;
        if (ret->slices > 0)
            gpu->exec_ns = ret->exec_ns;
    }
}

int
vg_nvml_vgpus_read(vg_nvml_vgpus *vgpus, const GPtrArray *vms, int64_t now_ns,
                   struct vg_window *window, struct vg_gpu_sample *ret)
{
    GArray *gpus = NULL;

    for (unsigned i = 0; i < vgpus->list->len; i++) {
        struct vgpu *vgpu = &g_array_index(vgpus->list, struct vgpu, i);
        const struct vg_proc_vm *vm = vgpu->found ? find_by_id(vms, vgpu->id) : NULL;
        if (!vm || (!vgpu->use.known && vgpu->use.peak_bytes == 0))
            continue;
        gpus = vg_gpu_window_vm(window, vm)->gpus;
        int64_t bytes = 0, peak_bytes = 0;
        vg_gpu_window_get_memory(gpus, vgpus->address, &bytes, &peak_bytes);
        bytes = vg_time_sum(bytes, vgpu->use.memory_bytes);
        peak_bytes = vg_time_sum(peak_bytes, vgpu->use.peak_bytes);
        vg_nvml_use_take(&vgpu->use, vgpus->address, window->end_ns - window->begin_ns, gpus);
        if (peak_bytes > 0)
            vg_gpu_window_set_memory(gpus, vgpus->address, bytes, peak_bytes);
    }
    take_turns(vgpus, vgpus->list->len == 1 ? gpus : NULL, ret);
    int lost = list_vgpus(vgpus);
    for (unsigned i = 0; i < vgpus->list->len; i++)
        nvml_vgpu_find_vm(vgpus, &g_array_index(vgpus->list, struct vgpu, i), vms, now_ns);
    return lost;
}

bool
vg_nvml_vgpus_describe(const vg_nvml_vgpus *vgpus, GString *text)
{
    unsigned n = vgpus->list->len, strangers = 0;

    if (n == 0) {
        g_string_append(text, ": no vGPU instances");
        if (vgpus->no_list.lacks)
            g_string_append_printf(text, ": NVML reports %s",
                                   vg_nvml_says(vgpus->nvml, vgpus->no_list.code));
        return false;
    }
    for (unsigned i = 0; i < n; i++)
        strangers += !g_array_index(vgpus->list, struct vgpu, i).found;
    g_string_append_printf(text, ": %u vGPU%s", n, n == 1 ? "" : "s");
    if (vgpus->scheduler)
        g_string_append_printf(text, ", scheduled %s", vgpus->scheduler);
    if (strangers > 0)
        g_string_append_printf(text, ", %u of unknown VMs", strangers);
    if (vgpus->no_log_v2.lacks && vgpus->no_log.lacks)
        g_string_append_printf(text, ", no scheduler log: NVML reports %s",
                               vg_nvml_says(vgpus->nvml, vgpus->no_log.code));
    else if (n > 1)
        g_string_append(
            text, ", scheduling turns only for the whole GPU because its log does not name vGPUs");
    if (vgpus->no_use.lacks)
        g_string_append_printf(text, ", no vGPU utilisation: NVML reports %s",
                               vg_nvml_says(vgpus->nvml, vgpus->no_use.code));
    return vgpus->no_use.lacks || strangers > 0;
}
