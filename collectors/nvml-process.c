/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "collectors/nvml-process.h"

#include <stdio.h>

#include "collectors/gpu-window.h"
#include "collectors/nvml-use.h"
#include "host/proc-text.h"

/* The maximum number of processes of a device; more are ignored. The list may be longer, because
 * the library returns either all or none. */
#define PROCESSES_MAX        1024
#define PROCESSES_LISTED_MAX 65536

struct process {
    struct vg_nvml_use use;
    char comm[VG_COMM_LEN];  /* when it was first seen */
    bool of_vm;              /* when the list was made */
    bool reported;           /* in the present answer */
    unsigned long long time; /* of the newest sample */
    bool present;            /* in the present list */
};

struct vg_nvml_processes {
    const struct vg_nvml *nvml;
    vg_nvml_handle handle;
    const char *address;
    char *proc;
    GHashTable *list; /* pid -> struct process, owned */
    struct vg_nvml_lack no_use;
    struct vg_nvml_news news;
};

vg_nvml_processes *
vg_nvml_processes_new(const struct vg_nvml *nvml, vg_nvml_handle handle, const char *address,
                      const char *proc)
{
    vg_nvml_processes *processes = g_new0(vg_nvml_processes, 1);

    processes->nvml = nvml;
    processes->handle = handle;
    processes->address = address;
    processes->proc = g_strdup(proc);
    processes->list = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    return processes;
}

void
vg_nvml_processes_free(vg_nvml_processes *processes)
{
    if (!processes)
        return;
    g_hash_table_unref(processes->list);
    g_free(processes->proc);
    g_free(processes);
}

/* ---- what they use ---- */

static void
take_use(vg_nvml_processes *processes, const struct vg_nvml_process_use *reported,
         unsigned long long after, int64_t now_ns)
{
    struct process *process = g_hash_table_lookup(processes->list, GUINT_TO_POINTER(reported->pid));

    /* Some drivers return entries that were never filled in. */
    if (!process || reported->sm > 100)
        return;
    if (vg_nvml_news_is_new(&processes->news, after, reported->time, &process->time, now_ns)) {
        process->use.percent[VG_NVML_SM] = reported->sm;
        process->use.percent[VG_NVML_MEM_BW] = MIN(reported->memory, 100);
        process->use.percent[VG_NVML_ENC] = MIN(reported->enc, 100);
        process->use.percent[VG_NVML_DEC] = MIN(reported->dec, 100);
        process->use.heard_ns = now_ns;
        process->reported = true;
    } else if (reported->time == process->time) {
        /* The driver samples less often than it is queried. */
        process->reported = true;
    }
}

enum which { ALL, NEVER_SAMPLED, NOT_REPORTED };

/* Marks these processes as idle from now on. */
static void
set_idle(const vg_nvml_processes *processes, enum which which, int64_t now_ns)
{
    GHashTableIter iter;
    void *value;

    g_hash_table_iter_init(&iter, processes->list);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        struct process *process = value;
        if ((which == NEVER_SAMPLED && process->use.percent[VG_NVML_SM] >= 0) ||
            (which == NOT_REPORTED && process->reported))
            continue;
        for (unsigned i = 0; i < VG_NVML_ENGINE_MAX; i++)
            process->use.percent[i] = 0;
        process->use.heard_ns = now_ns;
    }
}

static void
begin_answer(const vg_nvml_processes *processes)
{
    GHashTableIter iter;
    void *value;

    g_hash_table_iter_init(&iter, processes->list);
    while (g_hash_table_iter_next(&iter, NULL, &value))
        ((struct process *)value)->reported = false;
}

/* Queries the processes' use. The answer omits processes that were idle lately. If all were idle,
 * there is no answer. Returns the error code if the device is lost, otherwise 0. */
static int
nvml_process_hear(vg_nvml_processes *processes, int64_t now_ns)
{
    g_autofree struct vg_nvml_process_use *uses = g_new0(struct vg_nvml_process_use, PROCESSES_MAX);
    const unsigned long long after = vg_nvml_news_after(&processes->news, now_ns);
    unsigned n = PROCESSES_MAX;

    int code = VG_NVML_CALL(processes->nvml, get_process_use, processes->handle, uses, &n, after);
    enum vg_nvml_answer answer = vg_nvml_answer_of(code);
    if (answer == VG_NVML_NEVER)
        processes->no_use = (struct vg_nvml_lack){.lacks = true, .code = code};
    if (answer == VG_NVML_NOTHING)
        set_idle(processes, NEVER_SAMPLED, now_ns);
    if (answer == VG_NVML_YES) {
        begin_answer(processes);
        for (unsigned i = 0; i < MIN(n, PROCESSES_MAX); i++)
            take_use(processes, &uses[i], after, now_ns);
        set_idle(processes, NOT_REPORTED, now_ns);
    }
    return answer == VG_NVML_LOST ? code : 0;
}

int
vg_nvml_processes_sample(vg_nvml_processes *processes, bool idle, int64_t now_ns, int64_t span_ns)
{
    GHashTableIter iter;
    void *value;
    int lost = 0;

    if (g_hash_table_size(processes->list) > 0 && !processes->no_use.lacks) {
        if (idle)
            set_idle(processes, ALL, now_ns);
        else
            lost = nvml_process_hear(processes, now_ns);
    }
    g_hash_table_iter_init(&iter, processes->list);
    while (g_hash_table_iter_next(&iter, NULL, &value))
        vg_nvml_use_advance(&((struct process *)value)->use, now_ns, span_ns);
    return lost;
}

/* ---- which there are ---- */

static const struct vg_proc_vm *
nvml_process_find_vm(const GPtrArray *vms, unsigned pid)
{
    for (unsigned i = 0; i < vms->len; i++) {
        const struct vg_proc_vm *vm = vms->pdata[i];
        int32_t own;
        for (unsigned k = 0; (own = vg_proc_vm_pid_at(vm, k)) > 0; k++) {
            if ((unsigned)own == pid)
                return vm;
        }
    }
    return NULL;
}

static struct process *
new_process(const vg_nvml_processes *processes, unsigned pid)
{
    struct process *process = g_new0(struct process, 1);
    g_autofree char *path = g_strdup_printf("%s/%u/task/%u/comm", processes->proc, pid, pid);

    vg_nvml_use_init(&process->use);
    /* The process may have exited, or belong to a container with its own /proc. */
    if (vg_proc_read(path, process->comm, sizeof(process->comm)) < 0)
        process->comm[0] = '\0';
    g_strchomp(process->comm);
    g_hash_table_insert(processes->list, GUINT_TO_POINTER(pid), process);
    return process;
}

static void
take_listed(const vg_nvml_processes *processes, const GPtrArray *vms,
            const struct vg_nvml_process *reported)
{
    /* A process of another PID namespace has no pid here. */
    if (reported->pid == 0 || reported->pid > INT32_MAX)
        return;
    struct process *process = g_hash_table_lookup(processes->list, GUINT_TO_POINTER(reported->pid));
    if (!process && g_hash_table_size(processes->list) >= PROCESSES_MAX)
        return;
    if (!process)
        process = new_process(processes, reported->pid);
    /* A process that computes and draws is in both lists, with its whole memory in each. */
    if (reported->memory != VG_NVML_NOT_AVAILABLE)
        process->use.memory_bytes = (int64_t)MIN(reported->memory, INT64_MAX);
    process->use.peak_bytes = MAX(process->use.peak_bytes, process->use.memory_bytes);
    process->of_vm = nvml_process_find_vm(vms, reported->pid) != NULL;
    process->present = true;
}

/* Lists the processes. Returns false if they could not be listed this time. */
static bool
list_processes(const vg_nvml_processes *processes, const GPtrArray *vms,
               int (*get)(vg_nvml_handle, unsigned *, struct vg_nvml_process *))
{
    unsigned room = PROCESSES_MAX, n = room;
    g_autofree struct vg_nvml_process *reported = g_new0(struct vg_nvml_process, room);

    if (!get)
        return true;
    int code = get(processes->handle, &n, reported);
    if (code == VG_NVML_INSUFFICIENT_SIZE) {
        /* n is the number of processes. It may grow in the meantime. */
        room = MIN(n, PROCESSES_LISTED_MAX - PROCESSES_MAX) + PROCESSES_MAX;
        n = room;
        g_free(reported);
        reported = g_new0(struct vg_nvml_process, room);
        code = get(processes->handle, &n, reported);
    }
    if (code != VG_NVML_SUCCESS)
        return vg_nvml_answer_of(code) == VG_NVML_NEVER;
    for (unsigned i = 0; i < MIN(n, room); i++)
        take_listed(processes, vms, &reported[i]);
    return true;
}

/* Reports one of the host's own processes: its use, and, with the first engine, its memory. */
static void
nvml_process_report(const vg_nvml_processes *processes, unsigned pid, struct process *process,
                    struct vg_window *window)
{
    g_autoptr(GArray) gpus = g_array_new(FALSE, TRUE, sizeof(struct vg_gpu_sample));

    vg_nvml_use_take(&process->use, processes->address, window->end_ns - window->begin_ns, gpus);
    for (unsigned i = 0; i < gpus->len; i++) {
        struct vg_gpu_process_sample sample = {.pid = (int32_t)pid,
                                               .gpu = g_array_index(gpus, struct vg_gpu_sample, i)};
        g_strlcpy(sample.comm, process->comm, sizeof(sample.comm));
        if (i == 0 || sample.gpu.busy_ns > 0)
            g_array_append_val(window->gpu_processes, sample);
    }
}

void
vg_nvml_processes_read(vg_nvml_processes *processes, const GPtrArray *vms, struct vg_window *window)
{
    int64_t window_ns = window->end_ns - window->begin_ns;
    GHashTableIter iter;
    void *key, *value;

    g_hash_table_iter_init(&iter, processes->list);
    while (g_hash_table_iter_next(&iter, &key, &value)) {
        struct process *process = value;
        const struct vg_proc_vm *vm = nvml_process_find_vm(vms, GPOINTER_TO_UINT(key));
        process->present = false;
        if (!process->use.known && !processes->no_use.lacks)
            continue;
        if (vm)
            vg_nvml_use_take(&process->use, processes->address, window_ns,
                             vg_gpu_window_vm(window, vm)->gpus);
        else
            nvml_process_report(processes, GPOINTER_TO_UINT(key), process, window);
    }
    bool complete = list_processes(processes, vms, processes->nvml->get_compute_processes);
    complete = list_processes(processes, vms, processes->nvml->get_graphics_processes) && complete;
    if (!complete)
        return;
    g_hash_table_iter_init(&iter, processes->list);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        if (!((struct process *)value)->present)
            g_hash_table_iter_remove(&iter);
    }
}

void
vg_nvml_processes_describe(const vg_nvml_processes *processes, GString *text)
{
    unsigned n = g_hash_table_size(processes->list), n_vms = 0;
    GHashTableIter iter;
    void *value;

    if (n == 0)
        return;
    g_hash_table_iter_init(&iter, processes->list);
    while (g_hash_table_iter_next(&iter, NULL, &value))
        n_vms += ((const struct process *)value)->of_vm;
    g_string_append_printf(text, ": %u process%s, %u of VMs", n, n == 1 ? "" : "es", n_vms);
    if (processes->no_use.lacks)
        g_string_append_printf(text, ", but no process utilisation: NVML reports %s",
                               vg_nvml_says(processes->nvml, processes->no_use.code));
}
