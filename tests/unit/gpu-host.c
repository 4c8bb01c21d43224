/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tests/unit/gpu-host.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <glib.h>

/* No test gets there. */
#define LATE_NS (1000000 * MS)

struct told_sum {
    int64_t exec_ns;
    int64_t wait_ns;
};

struct told {
    enum vg_gpu_stage stage;
    uint32_t process; /* now */
    int64_t since_ns;
    struct told_sum nobodys;
    struct told_sum users; /* of user, the last process that was told */
    uint32_t user;
};

static void
add_told(struct gpu_host *host, uint32_t process, const struct told_sum *more)
{
    struct told_sum *sum = g_hash_table_lookup(host->sums, GUINT_TO_POINTER(process));

    if (!sum) {
        sum = g_new0(struct told_sum, 1);
        g_hash_table_insert(host->sums, GUINT_TO_POINTER(process), sum);
    }
    sum->exec_ns += more->exec_ns;
    sum->wait_ns += more->wait_ns;
}

/* It did what it does until then, which may be before what was told last. */
static void
end_stage(struct told *told, int64_t t_ns)
{
    struct told_sum *sum = told->process == VG_PROCESS_NO_ID ? &told->nobodys : &told->users;

    if (told->stage == VG_GPU_STAGE_NONE || told->stage == VG_GPU_STAGE_OVER)
        return;
    if (told->stage == VG_GPU_STAGE_RUNNING)
        sum->exec_ns += t_ns - told->since_ns;
    else
        sum->wait_ns += t_ns - told->since_ns;
}

static void
end_request(struct gpu_host *host, const struct told *told)
{
    add_told(host, VG_PROCESS_NO_ID, &told->nobodys);
    add_told(host, told->user, &told->users);
}

static void
hear(void *data, const struct vg_gpu_change *change)
{
    struct gpu_host *host = data;
    struct told *told = &host->told[change->request];

    assert_true(change->request < VG_GPU_OPEN_REQUESTS_MAX);
    end_stage(told, change->t_ns);
    if (change->stage == VG_GPU_STAGE_OVER) {
        if (!change->in_hindsight)
            end_request(host, told);
        *told = (struct told){.stage = VG_GPU_STAGE_OVER};
        return;
    }
    if (change->process != VG_PROCESS_NO_ID) {
        if (told->user != change->process)
            add_told(host, told->user, &told->users);
        if (told->user != change->process)
            told->users = (struct told_sum){0};
        told->user = change->process;
    }
    if (change->in_hindsight && change->process != VG_PROCESS_NO_ID) {
        told->users.exec_ns += told->nobodys.exec_ns;
        told->users.wait_ns += told->nobodys.wait_ns;
        told->nobodys = (struct told_sum){0};
    }
    told->stage = change->stage;
    told->process = change->process;
    told->since_ns = change->t_ns;
}

static void
listen_anew(struct gpu_host *host)
{
    memset(host->told, 0, VG_GPU_OPEN_REQUESTS_MAX * sizeof(struct told));
    g_hash_table_remove_all(host->sums);
    vg_gpu_ledger_watch_stages(host->ledger, hear, host);
}

static struct told_sum
told_of(struct gpu_host *host, const struct vg_process *process)
{
    struct told_sum total = {0};
    GHashTableIter iter;
    void *key, *value;

    g_hash_table_iter_init(&iter, host->sums);
    while (g_hash_table_iter_next(&iter, &key, &value)) {
        struct vg_process *of = vg_topology_process_at(host->topology, GPOINTER_TO_UINT(key));
        const struct told_sum *sum = value;
        if (process && (!of || vg_process_resolve(of) != process))
            continue;
        total.exec_ns += sum->exec_ns;
        total.wait_ns += sum->wait_ns;
    }
    return total;
}

static void
add_measured(struct told_sum *total, const struct vg_gpu_sample *gpu)
{
    total->exec_ns += gpu->exec_ns;
    total->wait_ns += gpu->wait_ns;
}

/* process NULL: of the engines, also what is nobody's. */
static struct told_sum
measured_of(const struct vg_window *window, const struct vg_process *process)
{
    struct told_sum total = {0};

    for (guint i = 0; !process && i < window->gpus->len; i++)
        add_measured(&total, &g_array_index(window->gpus, struct vg_gpu_sample, i));
    for (guint i = 0; process && i < window->vms->len; i++) {
        const struct vg_vm_sample *vm = &g_array_index(window->vms, struct vg_vm_sample, i);
        for (guint k = 0; vm->id == process->id && k < vm->gpus->len; k++)
            add_measured(&total, &g_array_index(vm->gpus, struct vg_gpu_sample, k));
    }
    for (guint i = 0; process && i < window->gpu_processes->len; i++) {
        const struct vg_gpu_process_sample *of =
            &g_array_index(window->gpu_processes, struct vg_gpu_process_sample, i);
        if (!process->is_vm && of->pid == process->pid)
            add_measured(&total, &of->gpu);
    }
    return total;
}

static void
check_told_of(struct gpu_host *host, const struct vg_window *window,
              const struct vg_process *process)
{
    struct told_sum told = told_of(host, process), measured = measured_of(window, process);

    assert_int_equal(told.exec_ns, measured.exec_ns);
    assert_int_equal(told.wait_ns, measured.wait_ns);
}

static void
check_told(struct gpu_host *host)
{
    struct vg_window window;

    /* No stage goes on: of those that are open only what is proven is measured. */
    vg_gpu_ledger_end(host->ledger, LATE_NS, false);
    gpu_host_read(host, LATE_NS, &window);
    for (uint32_t i = 0; i < VG_GPU_OPEN_REQUESTS_MAX; i++) {
        end_stage(&host->told[i], LATE_NS);
        end_request(host, &host->told[i]);
    }
    for (uint32_t id = 0; id < vg_topology_process_count(host->topology); id++) {
        struct vg_process *process = vg_topology_process_at(host->topology, id);
        if (process && !process->merged_into)
            check_told_of(host, &window, process);
    }
    check_told_of(host, &window, NULL);
    vg_window_clear(&window);
}

int
gpu_host_setup(void **state)
{
    struct gpu_host *host = g_new0(struct gpu_host, 1);

    host->topology = vg_topology_new();
    host->names = vg_names_new();
    host->ledger = vg_gpu_ledger_new(host->topology, host->names);
    host->told = g_new0(struct told, VG_GPU_OPEN_REQUESTS_MAX);
    host->sums = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    listen_anew(host);
    *state = host;
    return 0;
}

int
gpu_host_teardown(void **state)
{
    struct gpu_host *host = *state;

    check_told(host);
    g_hash_table_unref(host->sums);
    g_free(host->told);
    vg_gpu_ledger_free(host->ledger);
    vg_names_unref(host->names);
    vg_topology_free(host->topology);
    g_free(host);
    return 0;
}

void
gpu_host_begin(struct gpu_host *host, int64_t t_ns)
{
    vg_gpu_ledger_begin(host->ledger, t_ns);
    listen_anew(host);
}

struct vg_event
gpu_host_record(struct gpu_host *host, int64_t ts_ns, enum vg_gpu_op op)
{
    struct vg_event event = {.ts_ns = ts_ns, .type = VG_EVENT_GPU, .cpu = 0, .tid = 0, .pid = 0};

    event.gpu.op = (uint8_t)op;
    event.gpu.vgpu = VG_NONE;
    event.gpu.device = vg_names_id(host->names, "card0");
    event.gpu.engine = vg_names_id(host->names, "rcs0");
    return event;
}

void
gpu_host_read(struct gpu_host *host, int64_t end_ns, struct vg_window *ret)
{
    vg_window_init(ret, false);
    vg_gpu_ledger_read_period(host->ledger, end_ns, ret);
}

struct vg_gpu_ledger_stats
gpu_host_stats(const struct gpu_host *host)
{
    struct vg_gpu_ledger_stats stats;

    vg_gpu_ledger_read_stats(host->ledger, &stats);
    return stats;
}

static const struct vg_gpu_sample *
engine_of(const GArray *gpus, const char *engine)
{
    for (guint i = 0; i < gpus->len; i++) {
        const struct vg_gpu_sample *gpu = &g_array_index(gpus, struct vg_gpu_sample, i);
        if (strcmp(gpu->engine, engine) == 0)
            return gpu;
    }
    return NULL;
}

const struct vg_gpu_sample *
gpu_host_row(const struct vg_window *window, const char *user, const char *engine)
{
    if (!user || strcmp(user, "all") == 0)
        return engine_of(window->gpus, engine);
    for (guint i = 0; i < window->vms->len; i++) {
        const struct vg_vm_sample *vm = &g_array_index(window->vms, struct vg_vm_sample, i);
        if (strcmp(vm->name, user) == 0)
            return engine_of(vm->gpus, engine);
    }
    for (guint i = 0; i < window->gpu_processes->len; i++) {
        const struct vg_gpu_process_sample *process =
            &g_array_index(window->gpu_processes, struct vg_gpu_process_sample, i);
        if (process->pid == atoi(user) && strcmp(process->gpu.engine, engine) == 0)
            return &process->gpu;
    }
    return NULL;
}
