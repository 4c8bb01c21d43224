/* SPDX-License-Identifier: Apache-2.0
 *
 * The GPU ledger: lives of requests written by hand, with figures that can be worked out in the
 * head, and streams made at random, whose figures are computed from the intervals themselves, one
 * nanosecond boundary after the other.
 */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <glib.h>
#include <malloc.h>

#include "model/gpu-ledger.h"
#include "tests/unit/sanitizer.h"

#define MS INT64_C(1000000)

/* No test gets there. */
#define LATE_NS (1000000 * MS)

struct host {
    vg_topology *topology;
    vg_names *names;
    vg_gpu_ledger *ledger;
    struct told *told; /* by request: what the observer heard last */
    GHashTable *sums;  /* process id -> struct told_sum, owned */
};

/* ---- what is told as it happens ---- */

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
add_told(struct host *host, uint32_t process, const struct told_sum *more)
{
    struct told_sum *sum = g_hash_table_lookup(host->sums, GUINT_TO_POINTER(process));

    if (!sum) {
        sum = g_new0(struct told_sum, 1);
        g_hash_table_insert(host->sums, GUINT_TO_POINTER(process), sum);
    }
    sum->exec_ns += more->exec_ns;
    sum->wait_ns += more->wait_ns;
}

/* It did what it does until then. */
static void
end_stage(struct told *told, int64_t t_ns)
{
    struct told_sum *sum = told->process == VG_PROCESS_NO_ID ? &told->nobodys : &told->users;

    if (told->stage == VG_GPU_STAGE_NONE || told->stage == VG_GPU_STAGE_OVER)
        return;
    assert_true(t_ns >= told->since_ns || told->stage != VG_GPU_STAGE_RUNNING);
    if (told->stage == VG_GPU_STAGE_RUNNING)
        sum->exec_ns += t_ns - told->since_ns;
    else
        sum->wait_ns += t_ns - told->since_ns;
}

static void
end_request(struct host *host, const struct told *told)
{
    add_told(host, VG_PROCESS_NO_ID, &told->nobodys);
    add_told(host, told->user, &told->users);
}

static void
hear(void *data, const struct vg_gpu_change *change)
{
    struct host *host = data;
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
end_open(struct host *host, struct told *told)
{
    end_stage(told, LATE_NS);
    end_request(host, told);
}

static void
listen(struct host *host)
{
    memset(host->told, 0, VG_GPU_OPEN_REQUESTS_MAX * sizeof(struct told));
    g_hash_table_remove_all(host->sums);
    vg_gpu_ledger_watch_stages(host->ledger, hear, host);
}

static void
begin_at(struct host *host, int64_t t_ns)
{
    vg_gpu_ledger_begin(host->ledger, t_ns);
    listen(host);
}

static struct told_sum
told_of(struct host *host, const struct vg_process *process)
{
    struct told_sum total = {0};
    GHashTableIter iter;
    void *key, *value;

    g_hash_table_iter_init(&iter, host->sums);
    while (g_hash_table_iter_next(&iter, &key, &value)) {
        struct vg_process *of = vg_topology_process_at(host->topology, GPOINTER_TO_UINT(key));
        const struct told_sum *sum = value;
        if (!of || vg_process_resolve(of) != process)
            continue;
        total.exec_ns += sum->exec_ns;
        total.wait_ns += sum->wait_ns;
    }
    return total;
}

static struct told_sum
measured_of(const struct vg_window *window, const struct vg_process *process)
{
    struct told_sum total = {0};

    for (guint i = 0; i < window->vms->len; i++) {
        const struct vg_vm_sample *vm = &g_array_index(window->vms, struct vg_vm_sample, i);
        for (guint k = 0; vm->id == process->id && k < vm->gpus->len; k++) {
            total.exec_ns += g_array_index(vm->gpus, struct vg_gpu_sample, k).exec_ns;
            total.wait_ns += g_array_index(vm->gpus, struct vg_gpu_sample, k).wait_ns;
        }
    }
    for (guint i = 0; i < window->gpu_processes->len; i++) {
        const struct vg_gpu_process_sample *of =
            &g_array_index(window->gpu_processes, struct vg_gpu_process_sample, i);
        if (process->is_vm || of->pid != process->pid)
            continue;
        total.exec_ns += of->gpu.exec_ns;
        total.wait_ns += of->gpu.wait_ns;
    }
    return total;
}

/* Of the engines together, also what is nobody's. */
static void
check_told_of_engines(struct host *host, const struct vg_window *window)
{
    struct told_sum told = {0}, measured = {0};
    GHashTableIter iter;
    void *value;

    g_hash_table_iter_init(&iter, host->sums);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const struct told_sum *sum = value;
        told.exec_ns += sum->exec_ns;
        told.wait_ns += sum->wait_ns;
    }
    for (guint i = 0; i < window->gpus->len; i++) {
        measured.exec_ns += g_array_index(window->gpus, struct vg_gpu_sample, i).exec_ns;
        measured.wait_ns += g_array_index(window->gpus, struct vg_gpu_sample, i).wait_ns;
    }
    assert_int_equal(told.exec_ns, measured.exec_ns);
    assert_int_equal(told.wait_ns, measured.wait_ns);
}

/* Whatever the test did: what was told of a VM or process is what was measured. */
static void
check_told(struct host *host)
{
    struct vg_window window;

    vg_window_init(&window, false);
    vg_gpu_ledger_read_period(host->ledger, LATE_NS, &window);
    for (uint32_t i = 0; i < VG_GPU_OPEN_REQUESTS_MAX; i++)
        end_open(host, &host->told[i]);
    for (uint32_t id = 0; id < vg_topology_process_count(host->topology); id++) {
        struct vg_process *process = vg_topology_process_at(host->topology, id);
        if (!process || process->merged_into)
            continue;
        struct told_sum told = told_of(host, process), measured = measured_of(&window, process);
        assert_int_equal(told.exec_ns, measured.exec_ns);
        assert_int_equal(told.wait_ns, measured.wait_ns);
    }
    check_told_of_engines(host, &window);
    vg_window_clear(&window);
}

static int
setup(void **state)
{
    struct host *host = g_new0(struct host, 1);

    host->topology = vg_topology_new();
    host->names = vg_names_new();
    host->ledger = vg_gpu_ledger_new(host->topology, host->names);
    host->told = g_new0(struct told, VG_GPU_OPEN_REQUESTS_MAX);
    host->sums = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    listen(host);
    *state = host;
    return 0;
}

static int
teardown(void **state)
{
    struct host *host = *state;

    check_told(host);
    g_hash_table_unref(host->sums);
    g_free(host->told);
    vg_gpu_ledger_free(host->ledger);
    vg_names_unref(host->names);
    vg_topology_free(host->topology);
    g_free(host);
    return 0;
}

/* ---- records ---- */

static struct vg_event
record(struct host *host, int64_t ts_ns, enum vg_gpu_op op)
{
    struct vg_event event = {.ts_ns = ts_ns, .type = VG_EVENT_GPU, .cpu = 0, .tid = 0, .pid = 0};

    event.gpu.op = (uint8_t)op;
    event.gpu.vgpu = VG_NONE;
    event.gpu.device = vg_names_id(host->names, "card0");
    event.gpu.engine = vg_names_id(host->names, "rcs0");
    return event;
}

static void
i915(struct host *host, int64_t ts_ns, enum vg_gpu_op op, uint64_t context, uint64_t seqno)
{
    struct vg_event event = record(host, ts_ns, op);

    event.gpu.context = context;
    event.gpu.seqno = seqno;
    event.gpu.flags = op == VG_GPU_RUNNING ? VG_GPU_COALESCES : 0;
    vg_gpu_ledger_feed(host->ledger, &event);
}

/* By a process. */
static void
i915_by(struct host *host, int64_t ts_ns, enum vg_gpu_op op, uint64_t context, uint64_t seqno,
        int32_t pid)
{
    struct vg_event event = record(host, ts_ns, op);

    event.gpu.context = context;
    event.gpu.seqno = seqno;
    event.tid = event.pid = pid;
    vg_gpu_ledger_feed(host->ledger, &event);
}

/* GVT-g: the vGPU's number is that of its VM, whose QEMU has the pid 1000 * number. */
static void
gvt(struct host *host, int64_t ts_ns, enum vg_gpu_op op, int32_t vgpu, uint64_t workload,
    uint64_t context, uint64_t seqno)
{
    struct vg_event event = record(host, ts_ns, op);

    event.gpu.vgpu = vgpu;
    event.gpu.id = workload;
    event.gpu.id_space = VG_GPU_ID_WORKLOAD;
    event.gpu.flags = VG_GPU_ENGINE_WEAK;
    event.gpu.context = context;
    event.gpu.seqno = seqno;
    if (op == VG_GPU_QUEUED)
        event.tid = event.pid = 1000 * vgpu;
    vg_gpu_ledger_feed(host->ledger, &event);
}

/* The driver's record by a thread of GVT-g, which does not say for which vGPU. */
static void
i915_by_gvt(struct host *host, int64_t ts_ns, enum vg_gpu_op op, uint64_t context, uint64_t seqno)
{
    struct vg_event event = record(host, ts_ns, op);

    event.tid = event.pid = 77;
    event.gpu.comm = vg_names_id(host->names, "gvt:rcs0");
    event.gpu.context = context;
    event.gpu.seqno = seqno;
    vg_gpu_ledger_feed(host->ledger, &event);
}

static void
switch_to(struct host *host, int64_t ts_ns, int32_t vgpu)
{
    struct vg_event event = record(host, ts_ns, VG_GPU_SWITCH);

    event.gpu.vgpu = vgpu;
    vg_gpu_ledger_feed(host->ledger, &event);
}

/* ---- figures ---- */

static void
read_period(struct host *host, int64_t end_ns, struct vg_window *ret)
{
    vg_window_init(ret, false);
    vg_gpu_ledger_read_period(host->ledger, end_ns, ret);
}

static const struct vg_vm_sample *
vm_of(const struct vg_window *window, const char *name)
{
    for (guint i = 0; i < window->vms->len; i++) {
        const struct vg_vm_sample *vm = &g_array_index(window->vms, struct vg_vm_sample, i);
        if (strcmp(vm->name, name) == 0)
            return vm;
    }
    fail_msg("there is no VM '%s'", name);
    abort();
}

static const struct vg_gpu_sample *
engine_of(const GArray *gpus, const char *engine)
{
    for (guint i = 0; i < gpus->len; i++) {
        const struct vg_gpu_sample *gpu = &g_array_index(gpus, struct vg_gpu_sample, i);
        if (strcmp(gpu->engine, engine) == 0)
            return gpu;
    }
    fail_msg("there is no engine '%s'", engine);
    abort();
}

static struct vg_gpu_sample
rcs0_after(struct host *host, int64_t end_ns)
{
    struct vg_window window;
    read_period(host, end_ns, &window);
    struct vg_gpu_sample sample = *engine_of(window.gpus, "rcs0");
    vg_window_clear(&window);
    return sample;
}

static struct vg_gpu_ledger_stats
stats_of(const struct host *host)
{
    struct vg_gpu_ledger_stats stats;

    vg_gpu_ledger_read_stats(host->ledger, &stats);
    return stats;
}

/* ---- cases ---- */

static void
test_life(void **state)
{
    struct host *host = *state;

    begin_at(host, 0);
    i915(host, 1 * MS, VG_GPU_QUEUED, 7, 1);
    i915(host, 2 * MS, VG_GPU_SUBMITTED, 7, 1);
    i915(host, 4 * MS, VG_GPU_READY, 7, 1);
    i915(host, 7 * MS, VG_GPU_RUNNING, 7, 1);
    i915(host, 17 * MS, VG_GPU_DONE, 7, 1);
    i915(host, 90 * MS, VG_GPU_RETIRED, 7, 1);
    struct vg_gpu_sample gpu = rcs0_after(host, 100 * MS);
    assert_string_equal(gpu.device, "card0");
    assert_int_equal(gpu.requests, 1);
    assert_int_equal(gpu.partial, 0);
    assert_int_equal(gpu.vgpu_queue_ns, 1 * MS);
    assert_int_equal(gpu.dependency_ns, 2 * MS);
    assert_int_equal(gpu.driver_queue_ns, 3 * MS);
    assert_int_equal(gpu.wait_ns, 6 * MS);
    assert_int_equal(gpu.exec_ns, 10 * MS);
    assert_int_equal(gpu.busy_ns, 10 * MS);
    assert_int_equal(gpu.latency_mean_ns, 16 * MS);
    assert_int_equal(gpu.latency_max_ns, 16 * MS);
    assert_int_equal(gpu.queue_len_max, 1);
    assert_true(fabs(gpu.queue_len_avg - 0.06) < 1e-9);
    assert_int_equal(stats_of(host).open, 0);
}

/* What is not told is part of the next stage. */
static void
test_stages_that_are_not_told(void **state)
{
    struct host *host = *state;

    i915(host, 0, VG_GPU_QUEUED, 7, 1);
    i915(host, 5 * MS, VG_GPU_RUNNING, 7, 1);
    i915(host, 6 * MS, VG_GPU_DONE, 7, 1);
    i915(host, 10 * MS, VG_GPU_QUEUED, 7, 2);
    i915(host, 12 * MS, VG_GPU_READY, 7, 2);
    i915(host, 15 * MS, VG_GPU_RUNNING, 7, 2);
    i915(host, 16 * MS, VG_GPU_DONE, 7, 2);
    struct vg_gpu_sample gpu = rcs0_after(host, 20 * MS);
    assert_int_equal(gpu.vgpu_queue_ns, 0);
    assert_int_equal(gpu.dependency_ns, 2 * MS);
    assert_int_equal(gpu.driver_queue_ns, 8 * MS);
}

/* Done without having been seen running: since it was submitted, or the engine was free. */
static void
test_engine_without_start_events(void **state)
{
    struct host *host = *state;

    i915(host, 0, VG_GPU_SUBMITTED, 7, 1);
    i915(host, 2 * MS, VG_GPU_SUBMITTED, 8, 1);
    i915(host, 10 * MS, VG_GPU_DONE, 7, 1);
    i915(host, 14 * MS, VG_GPU_DONE, 8, 1);
    i915(host, 30 * MS, VG_GPU_SUBMITTED, 7, 2);
    i915(host, 31 * MS, VG_GPU_RETIRED, 7, 2);
    struct vg_gpu_sample gpu = rcs0_after(host, 40 * MS);
    assert_int_equal(gpu.requests, 3);
    assert_int_equal(gpu.busy_ns, 15 * MS);
    assert_int_equal(gpu.exec_ns, 15 * MS);
    assert_int_equal(gpu.wait_ns, 8 * MS);
}

static void
test_taken_off_and_back(void **state)
{
    struct host *host = *state;

    i915(host, 0, VG_GPU_QUEUED, 7, 1);
    i915(host, 1 * MS, VG_GPU_RUNNING, 7, 1);
    i915(host, 3 * MS, VG_GPU_OFF, 7, 1);
    i915(host, 8 * MS, VG_GPU_RUNNING, 7, 1);
    i915(host, 9 * MS, VG_GPU_DONE, 7, 1);
    struct vg_gpu_sample gpu = rcs0_after(host, 10 * MS);
    assert_int_equal(gpu.exec_ns, 3 * MS);
    assert_int_equal(gpu.wait_ns, 6 * MS);
    assert_int_equal(gpu.requests, 1);
    assert_int_equal(gpu.latency_max_ns, 9 * MS);
}

/* Turns of one request: that a turn ended is missed, which the next one shows. */
static void
test_end_of_a_turn_missed(void **state)
{
    struct host *host = *state;

    gvt(host, 0, VG_GPU_QUEUED, 1, 0xa, 0, 0);
    gvt(host, 0, VG_GPU_SUBMITTED, 1, 0xa, 21, 1);
    for (int64_t at = 0; at < 40 * MS; at += 10 * MS) {
        i915(host, at, VG_GPU_RUNNING, 21, 1);
        if (at != 20 * MS)
            i915(host, at + 2 * MS, VG_GPU_OFF, 21, 1);
    }
    i915(host, 40 * MS, VG_GPU_RUNNING, 21, 1);
    i915(host, 41 * MS, VG_GPU_DONE, 21, 1);
    struct vg_gpu_sample gpu = rcs0_after(host, 50 * MS);
    assert_int_equal(gpu.exec_ns, 9 * MS);
    assert_int_equal(gpu.busy_ns, 9 * MS);
    assert_int_equal(gpu.wait_ns, 32 * MS);
    assert_int_equal(gpu.requests, 1);
    assert_int_equal(stats_of(host).discontinuities, 1);
}

/* One whose end is told last ran beside the others, through two pauses of theirs. */
static void
test_busy_in_several_gaps(void **state)
{
    struct host *host = *state;

    i915_by(host, 1 * MS, VG_GPU_RUNNING, 102, 1, 77);
    i915_by(host, 2 * MS, VG_GPU_RUNNING, 102, 2, 77);
    i915_by(host, 5 * MS, VG_GPU_DONE, 102, 2, 77);
    i915_by(host, 7 * MS, VG_GPU_RUNNING, 104, 1, 77);
    i915_by(host, 9 * MS, VG_GPU_DONE, 104, 1, 77);
    i915_by(host, 12 * MS, VG_GPU_DONE, 102, 1, 77);
    struct vg_gpu_sample gpu = rcs0_after(host, 20 * MS);
    assert_int_equal(gpu.exec_ns, 16 * MS);
    assert_int_equal(gpu.busy_ns, 11 * MS);
}

static void
test_coalesced(void **state)
{
    struct host *host = *state;

    i915(host, 0, VG_GPU_QUEUED, 7, 1);
    i915(host, 1 * MS, VG_GPU_QUEUED, 7, 2);
    i915(host, 1 * MS, VG_GPU_QUEUED, 8, 1);
    i915(host, 2 * MS, VG_GPU_QUEUED, 7, 3);
    i915(host, 4 * MS, VG_GPU_RUNNING, 7, 2);
    i915(host, 9 * MS, VG_GPU_DONE, 7, 2);
    struct vg_gpu_sample gpu = rcs0_after(host, 10 * MS);
    assert_int_equal(gpu.requests, 2);
    assert_int_equal(gpu.coalesced, 1);
    assert_int_equal(gpu.exec_ns, 5 * MS);
    assert_int_equal(gpu.wait_ns, (4 + 3 + 9 + 8) * MS);
    assert_int_equal(gpu.partial, 2); /* those that still wait */
}

/* The end of an earlier request of the context comes after that of a later one. */
static void
test_ends_out_of_order(void **state)
{
    struct host *host = *state;

    i915(host, 0, VG_GPU_QUEUED, 7, 1);
    i915(host, 0, VG_GPU_QUEUED, 7, 2);
    i915(host, 1 * MS, VG_GPU_RUNNING, 7, 1);
    i915(host, 2 * MS, VG_GPU_RUNNING, 7, 2);
    i915(host, 6 * MS, VG_GPU_DONE, 7, 2);
    i915(host, 8 * MS, VG_GPU_DONE, 7, 1);
    struct vg_gpu_sample gpu = rcs0_after(host, 10 * MS);
    assert_int_equal(gpu.requests, 2);
    assert_int_equal(gpu.exec_ns, 11 * MS);
    assert_int_equal(gpu.busy_ns, 7 * MS);
    assert_int_equal(gpu.latency_max_ns, 8 * MS);
    assert_int_equal(stats_of(host).open, 0);
}

/* The end that nobody told is that of the next one of the context. */
static void
test_end_missed(void **state)
{
    struct host *host = *state;

    i915(host, 0, VG_GPU_RUNNING, 7, 1);
    i915(host, 4 * MS, VG_GPU_QUEUED, 7, 2);
    i915(host, 5 * MS, VG_GPU_RUNNING, 7, 2);
    i915(host, 6 * MS, VG_GPU_DONE, 7, 2);
    i915(host, 7 * MS, VG_GPU_QUEUED, 7, 3);
    i915(host, 8 * MS, VG_GPU_RUNNING, 7, 3);
    i915(host, 9 * MS, VG_GPU_DONE, 7, 3);
    struct vg_gpu_sample gpu = rcs0_after(host, 10 * MS);
    assert_int_equal(gpu.requests, 3);
    assert_int_equal(gpu.partial, 1); /* the first began before it was told of */
    assert_int_equal(gpu.busy_ns, 7 * MS);
    assert_int_equal(stats_of(host).open, 0);
}

/* Late records of a request that is over do not make it anew. */
static void
test_stale_records(void **state)
{
    struct host *host = *state;

    i915(host, 0, VG_GPU_QUEUED, 7, 1);
    i915(host, 1 * MS, VG_GPU_DONE, 7, 1);
    i915(host, 1 * MS, VG_GPU_RUNNING, 7, 1);
    i915(host, 1 * MS, VG_GPU_READY, 7, 1);
    struct vg_gpu_sample gpu = rcs0_after(host, 10 * MS);
    assert_int_equal(gpu.requests, 1);
    assert_int_equal(gpu.partial, 0);
    assert_int_equal(gpu.busy_ns, 1 * MS);
}

static void
test_seqnos_begin_anew(void **state)
{
    struct host *host = *state;

    i915(host, 0, VG_GPU_QUEUED, 7, UINT32_MAX);
    i915(host, 1 * MS, VG_GPU_RUNNING, 7, UINT32_MAX);
    i915(host, 2 * MS, VG_GPU_DONE, 7, UINT32_MAX);
    i915(host, 2 * MS, VG_GPU_QUEUED, 7, 0);
    i915(host, 3 * MS, VG_GPU_RUNNING, 7, 0);
    i915(host, 5 * MS, VG_GPU_DONE, 7, 0);
    struct vg_gpu_sample gpu = rcs0_after(host, 10 * MS);
    assert_int_equal(gpu.requests, 2);
    assert_int_equal(gpu.busy_ns, 3 * MS);
}

/* It was on the hardware when the recording began. */
static void
test_running_at_the_beginning(void **state)
{
    struct host *host = *state;

    begin_at(host, 0);
    i915(host, 3 * MS, VG_GPU_DONE, 7, 41);
    i915(host, 5 * MS, VG_GPU_DONE, 8, 3); /* unknown, but the engine is not: no guess */
    struct vg_gpu_sample gpu = rcs0_after(host, 10 * MS);
    assert_int_equal(gpu.requests, 1);
    assert_int_equal(gpu.partial, 1);
    assert_int_equal(gpu.busy_ns, 3 * MS);
    assert_int_equal(gpu.latency_max_ns, 0);
}

/* Sums are clipped to the period; what is not whole in it has no latency. */
static void
test_clipped(void **state)
{
    struct host *host = *state;

    i915(host, 0, VG_GPU_QUEUED, 7, 1);
    i915(host, 5 * MS, VG_GPU_RUNNING, 7, 1);
    i915(host, 6 * MS, VG_GPU_QUEUED, 8, 1);
    begin_at(host, 10 * MS);
    i915(host, 12 * MS, VG_GPU_DONE, 7, 1);
    i915(host, 13 * MS, VG_GPU_RUNNING, 8, 1);
    struct vg_gpu_sample gpu = rcs0_after(host, 20 * MS);
    assert_int_equal(gpu.requests, 1);
    assert_int_equal(gpu.partial, 2);
    assert_int_equal(gpu.busy_ns, 9 * MS);
    assert_int_equal(gpu.wait_ns, 3 * MS);
    assert_int_equal(gpu.latency_max_ns, 0);
}

/* Two vGPUs with the same seqnos on the same engine; workload ids are told of the vGPU only. */
static void
test_vgpus_with_equal_seqnos(void **state)
{
    struct host *host = *state;
    struct vg_window window;

    gvt(host, 0, VG_GPU_QUEUED, 1, 0xa, 0, 0);
    gvt(host, 0, VG_GPU_QUEUED, 2, 0xa, 0, 0);
    gvt(host, 1 * MS, VG_GPU_SUBMITTED, 1, 0xa, 21, 1);
    i915(host, 1 * MS, VG_GPU_SUBMITTED, 21, 1);
    i915(host, 1 * MS, VG_GPU_RUNNING, 21, 1);
    i915(host, 4 * MS, VG_GPU_DONE, 21, 1);
    gvt(host, 4 * MS, VG_GPU_DONE, 1, 0xa, 0, 0);
    gvt(host, 5 * MS, VG_GPU_SUBMITTED, 2, 0xa, 22, 1);
    i915(host, 5 * MS, VG_GPU_RUNNING, 22, 1);
    i915(host, 10 * MS, VG_GPU_DONE, 22, 1);
    read_period(host, 10 * MS, &window);
    const struct vg_gpu_sample *one = engine_of(vm_of(&window, "qemu-1000")->gpus, "rcs0");
    const struct vg_gpu_sample *two = engine_of(vm_of(&window, "qemu-2000")->gpus, "rcs0");
    assert_int_equal(one->requests, 1);
    assert_int_equal(one->busy_ns, 3 * MS);
    assert_int_equal(one->vgpu_queue_ns, 1 * MS);
    assert_int_equal(two->requests, 1);
    assert_int_equal(two->busy_ns, 5 * MS);
    assert_int_equal(two->wait_ns, 5 * MS);
    assert_int_equal(vm_of(&window, "qemu-1000")->gpu_active_ns, 4 * MS);
    assert_int_equal(vm_of(&window, "qemu-2000")->gpu_active_ns, 10 * MS);
    vg_window_clear(&window);
}

/* The driver's record comes before GVT-g says which workload it is. */
static void
test_submission_told_after_the_driver(void **state)
{
    struct host *host = *state;
    struct vg_window window;

    gvt(host, 0, VG_GPU_QUEUED, 1, 0xa, 0, 0);
    i915(host, 2 * MS, VG_GPU_SUBMITTED, 21, 1);
    gvt(host, 2 * MS, VG_GPU_SUBMITTED, 1, 0xa, 21, 1);
    i915(host, 3 * MS, VG_GPU_RUNNING, 21, 1);
    i915(host, 5 * MS, VG_GPU_DONE, 21, 1);
    read_period(host, 10 * MS, &window);
    const struct vg_gpu_sample *vm = engine_of(vm_of(&window, "qemu-1000")->gpus, "rcs0");
    assert_int_equal(vm->requests, 1);
    assert_int_equal(vm->vgpu_queue_ns, 2 * MS);
    assert_int_equal(vm->busy_ns, 2 * MS);
    assert_int_equal(engine_of(window.gpus, "rcs0")->requests, 1);
    vg_window_clear(&window);
}

/* GVT-g says so only after the driver told that it is done. */
static void
test_submission_told_after_the_end(void **state)
{
    struct host *host = *state;
    struct vg_window window;

    gvt(host, 0, VG_GPU_QUEUED, 1, 0xa, 0, 0);
    gvt(host, 0, VG_GPU_QUEUED, 1, 0xb, 0, 0);
    gvt(host, 0, VG_GPU_SUBMITTED, 1, 0xa, 21, 1);
    i915(host, 0, VG_GPU_RUNNING, 21, 1);
    i915(host, 1 * MS, VG_GPU_DONE, 21, 1);
    i915(host, 1 * MS, VG_GPU_SUBMITTED, 21, 2);
    i915(host, 2 * MS, VG_GPU_RUNNING, 21, 2);
    i915(host, 3 * MS, VG_GPU_DONE, 21, 2);
    gvt(host, 4 * MS, VG_GPU_SUBMITTED, 1, 0xb, 21, 2);
    read_period(host, 10 * MS, &window);
    const struct vg_gpu_sample *vm = engine_of(vm_of(&window, "qemu-1000")->gpus, "rcs0");
    assert_int_equal(vm->requests, 2);
    assert_int_equal(vm->partial, 0);
    assert_int_equal(vm->wait_ns, 2 * MS);
    assert_int_equal(engine_of(window.gpus, "rcs0")->wait_ns, 2 * MS);
    vg_window_clear(&window);
}

/* The same, but whose the context is only that record says, after the end. */
static void
test_first_submission_told_after_the_end(void **state)
{
    struct host *host = *state;
    struct vg_window window;

    gvt(host, 0, VG_GPU_QUEUED, 1, 0xa, 0, 0);
    i915_by_gvt(host, 1 * MS, VG_GPU_SUBMITTED, 21, 1);
    i915(host, 1 * MS, VG_GPU_RUNNING, 21, 1);
    i915(host, 3 * MS, VG_GPU_DONE, 21, 1);
    gvt(host, 4 * MS, VG_GPU_SUBMITTED, 1, 0xa, 21, 1);
    gvt(host, 4 * MS, VG_GPU_DONE, 1, 0xa, 0, 0);
    read_period(host, 10 * MS, &window);
    const struct vg_gpu_sample *vm = engine_of(vm_of(&window, "qemu-1000")->gpus, "rcs0");
    assert_int_equal(vm->requests, 1);
    assert_int_equal(vm->exec_ns, 2 * MS);
    assert_int_equal(vm->wait_ns, 1 * MS);
    const struct vg_gpu_sample *all = engine_of(window.gpus, "rcs0");
    assert_int_equal(all->requests, 1);
    assert_int_equal(all->exec_ns, 2 * MS);
    assert_int_equal(all->wait_ns, 1 * MS);
    vg_window_clear(&window);
}

/* What is kept because GVT-g may say whose it was is told all the same, in its window. */
static void
test_request_that_nobody_claims(void **state)
{
    struct host *host = *state;
    struct vg_window window;

    vg_gpu_ledger_keep_requests(host->ledger, true);
    gvt(host, 0, VG_GPU_QUEUED, 1, 0xa, 0, 0);
    i915_by_gvt(host, 1 * MS, VG_GPU_SUBMITTED, 21, 1);
    i915(host, 1 * MS, VG_GPU_RUNNING, 21, 1);
    i915(host, 3 * MS, VG_GPU_DONE, 21, 1);
    vg_window_init(&window, false);
    vg_gpu_ledger_close_window(host->ledger, 10 * MS, &window);
    assert_int_equal(window.gpu_requests->len, 1);
    assert_int_equal(engine_of(window.gpus, "rcs0")->requests, 1);
    assert_int_equal(stats_of(host).open, 1);
    vg_window_clear(&window);
}

/* A submission that was lost: the context is the vGPU's, and GVT-g takes workloads in order. */
static void
test_submission_lost(void **state)
{
    struct host *host = *state;
    struct vg_window window;

    gvt(host, 0, VG_GPU_QUEUED, 1, 0xa, 0, 0);
    gvt(host, 0, VG_GPU_QUEUED, 1, 0xb, 0, 0);
    gvt(host, 0, VG_GPU_SUBMITTED, 1, 0xa, 21, 1);
    i915(host, 0, VG_GPU_RUNNING, 21, 1);
    i915(host, 2 * MS, VG_GPU_DONE, 21, 1);
    i915(host, 2 * MS, VG_GPU_SUBMITTED, 21, 2);
    i915(host, 3 * MS, VG_GPU_RUNNING, 21, 2);
    i915(host, 7 * MS, VG_GPU_DONE, 21, 2);
    gvt(host, 7 * MS, VG_GPU_DONE, 1, 0xb, 0, 0);
    read_period(host, 10 * MS, &window);
    const struct vg_gpu_sample *vm = engine_of(vm_of(&window, "qemu-1000")->gpus, "rcs0");
    assert_int_equal(vm->requests, 2);
    assert_int_equal(vm->busy_ns, 6 * MS);
    assert_int_equal(vm->wait_ns, 3 * MS);
    assert_int_equal(vm->partial, 0);
    vg_window_clear(&window);
}

/* All ends of a workload were lost: the next one on the engine tells that it does not run any more,
 * and the next end of its context that it is done. */
static void
test_workload_without_end(void **state)
{
    struct host *host = *state;

    gvt(host, 0, VG_GPU_QUEUED, 1, 0xa, 0, 0);
    gvt(host, 0, VG_GPU_SUBMITTED, 1, 0xa, 21, 1);
    i915(host, 0, VG_GPU_RUNNING, 21, 1);
    gvt(host, 4 * MS, VG_GPU_QUEUED, 2, 0xb, 0, 0);
    gvt(host, 5 * MS, VG_GPU_SUBMITTED, 2, 0xb, 22, 1);
    i915(host, 5 * MS, VG_GPU_RUNNING, 22, 1);
    i915(host, 6 * MS, VG_GPU_DONE, 22, 1);
    gvt(host, 6 * MS, VG_GPU_QUEUED, 1, 0xc, 0, 0);
    gvt(host, 6 * MS, VG_GPU_SUBMITTED, 1, 0xc, 21, 2);
    i915(host, 6 * MS, VG_GPU_RUNNING, 21, 2);
    i915(host, 8 * MS, VG_GPU_DONE, 21, 2);
    struct vg_gpu_sample gpu = rcs0_after(host, 10 * MS);
    assert_int_equal(gpu.requests, 3);
    assert_int_equal(gpu.exec_ns, 8 * MS);
    assert_int_equal(gpu.busy_ns, 8 * MS);
    assert_int_equal(stats_of(host).open, 0);
    assert_int_equal(stats_of(host).discontinuities, 1);
}

/* Two workloads take turns, and one end of a turn was lost: no more than that turn is in doubt. */
static void
test_end_of_a_turn_lost(void **state)
{
    struct host *host = *state;
    struct vg_window window;

    for (int32_t vgpu = 1; vgpu <= 2; vgpu++) {
        gvt(host, 0, VG_GPU_QUEUED, vgpu, 0xa, 0, 0);
        gvt(host, 0, VG_GPU_SUBMITTED, vgpu, 0xa, 20 + (uint64_t)vgpu, 1);
    }
    for (int turn = 0; turn < 20; turn++) {
        uint64_t context = 21 + (uint64_t)(turn % 2);
        i915(host, turn * 10 * MS, VG_GPU_RUNNING, context, 1);
        if (turn != 4)
            i915(host, (turn + 1) * 10 * MS, turn < 18 ? VG_GPU_OFF : VG_GPU_DONE, context, 1);
    }
    read_period(host, 200 * MS, &window);
    const struct vg_gpu_sample *one = engine_of(vm_of(&window, "qemu-1000")->gpus, "rcs0");
    const struct vg_gpu_sample *two = engine_of(vm_of(&window, "qemu-2000")->gpus, "rcs0");
    assert_int_equal(one->requests, 1);
    assert_int_equal(one->exec_ns, 100 * MS);
    assert_int_equal(one->latency_max_ns, 190 * MS);
    assert_int_equal(two->exec_ns, 100 * MS);
    assert_int_equal(engine_of(window.gpus, "rcs0")->busy_ns, 200 * MS);
    vg_window_clear(&window);
}

/* Turns with pauses, in which records were lost: another's turn shows that one is over, and the end
 * of one that it was; each was as long as the others. */
static void
test_turns_lost(void **state)
{
    struct host *host = *state;
    struct vg_window window;

    for (int32_t vgpu = 1; vgpu <= 2; vgpu++) {
        gvt(host, 0, VG_GPU_QUEUED, vgpu, 0xa, 0, 0);
        gvt(host, 0, VG_GPU_SUBMITTED, vgpu, 0xa, 20 + (uint64_t)vgpu, 1);
    }
    for (int turn = 0; turn < 8; turn++) {
        uint64_t context = 21 + (uint64_t)(turn % 2);
        if (turn != 5 && turn != 6)
            i915(host, turn * 10 * MS, VG_GPU_RUNNING, context, 1);
        if (turn != 2)
            i915(host, (turn * 10 + 2) * MS, turn < 6 ? VG_GPU_OFF : VG_GPU_DONE, context, 1);
    }
    read_period(host, 100 * MS, &window);
    const struct vg_gpu_sample *one = engine_of(vm_of(&window, "qemu-1000")->gpus, "rcs0");
    const struct vg_gpu_sample *two = engine_of(vm_of(&window, "qemu-2000")->gpus, "rcs0");
    assert_int_equal(one->requests, 1);
    assert_int_equal(one->exec_ns, 8 * MS);
    assert_int_equal(one->wait_ns, 54 * MS);
    assert_int_equal(two->requests, 1);
    assert_int_equal(two->exec_ns, 8 * MS);
    assert_int_equal(two->wait_ns, 64 * MS);
    assert_int_equal(engine_of(window.gpus, "rcs0")->busy_ns, 16 * MS);
    assert_int_equal(stats_of(host).discontinuities, 2);
    vg_window_clear(&window);
}

static void
run_workload(struct host *host, int64_t ts_ns, int32_t vgpu, uint64_t workload, int64_t exec_ns)
{
    uint64_t context = 20 + (uint64_t)vgpu;

    gvt(host, ts_ns, VG_GPU_SUBMITTED, vgpu, workload, context, workload);
    i915(host, ts_ns, VG_GPU_RUNNING, context, workload);
    i915(host, ts_ns + exec_ns, VG_GPU_DONE, context, workload);
    gvt(host, ts_ns + exec_ns, VG_GPU_DONE, vgpu, workload, 0, 0);
}

/* One workload of vGPU 1 runs until 1 ms: its context is 21, and its seqno 1. 0xa waits since 0 and
 * 0xb since then. */
static void
queue_two(struct host *host)
{
    gvt(host, 0, VG_GPU_QUEUED, 1, 1, 0, 0);
    gvt(host, 0, VG_GPU_QUEUED, 1, 0xa, 0, 0);
    run_workload(host, 0, 1, 1, 1 * MS);
    gvt(host, 1 * MS, VG_GPU_QUEUED, 1, 0xb, 0, 0);
}

static void
end_workload(struct host *host, int64_t ts_ns, uint64_t workload, uint64_t seqno)
{
    i915(host, ts_ns, VG_GPU_DONE, 21, seqno);
    gvt(host, ts_ns, VG_GPU_DONE, 1, workload, 0, 0);
}

/* The driver's record was taken to be of the first in the queue, until GVT-g said of which it is.
 */
static void
test_submission_out_of_order(void **state)
{
    struct host *host = *state;
    struct vg_window window;

    queue_two(host);
    i915(host, 2 * MS, VG_GPU_SUBMITTED, 21, 3);
    gvt(host, 3 * MS, VG_GPU_SUBMITTED, 1, 0xb, 21, 3);
    i915(host, 4 * MS, VG_GPU_SUBMITTED, 21, 2);
    gvt(host, 4 * MS, VG_GPU_SUBMITTED, 1, 0xa, 21, 2);
    i915(host, 4 * MS, VG_GPU_RUNNING, 21, 2);
    end_workload(host, 5 * MS, 0xa, 2);
    i915(host, 5 * MS, VG_GPU_RUNNING, 21, 3);
    end_workload(host, 9 * MS, 0xb, 3);
    read_period(host, 10 * MS, &window);
    const struct vg_gpu_sample *vm = engine_of(vm_of(&window, "qemu-1000")->gpus, "rcs0");
    assert_int_equal(vm->requests, 3);
    assert_int_equal(vm->partial, 0);
    assert_int_equal(vm->busy_ns, 6 * MS);
    assert_int_equal(vm->vgpu_queue_ns, (4 + 1) * MS);
    assert_int_equal(vm->wait_ns, (4 + 4) * MS);
    assert_int_equal(engine_of(window.gpus, "rcs0")->requests, 3);
    vg_window_clear(&window);
}

/* A workload that nobody queued has waited as long as the one before it, but was queued after it,
 * and before the next one. */
static void
test_queue_missed(void **state)
{
    struct host *host = *state;
    struct vg_window window;

    run_workload(host, 0, 2, 1, 1 * MS); /* queued before the recording, perhaps */
    gvt(host, 1 * MS, VG_GPU_QUEUED, 1, 1, 0, 0);
    gvt(host, 4 * MS, VG_GPU_QUEUED, 1, 3, 0, 0);
    run_workload(host, 6 * MS, 1, 1, 1 * MS);
    run_workload(host, 7 * MS, 1, 2, 2 * MS); /* 5 ms */
    run_workload(host, 9 * MS, 1, 3, 1 * MS);
    gvt(host, 11 * MS, VG_GPU_QUEUED, 1, 5, 0, 0);
    run_workload(host, 21 * MS, 1, 4, 1 * MS); /* not 5, but 10 ms */
    run_workload(host, 22 * MS, 1, 5, 1 * MS);
    run_workload(host, 23 * MS, 1, 6, 1 * MS); /* 11 ms: 12 would be with the one before */
    run_workload(host, 24 * MS, 2, 2, 1 * MS);
    read_period(host, 30 * MS, &window);
    const struct vg_gpu_sample *one = engine_of(vm_of(&window, "qemu-1000")->gpus, "rcs0");
    assert_int_equal(one->requests, 6);
    assert_int_equal(one->partial, 0);
    assert_int_equal(one->exec_ns, 7 * MS);
    assert_int_equal(one->wait_ns, (5 + 5 + 5 + 10 + 11 + 11) * MS);
    const struct vg_gpu_sample *all = engine_of(window.gpus, "rcs0");
    assert_int_equal(all->requests, 8);
    assert_int_equal(all->partial, 2);
    assert_int_equal(all->wait_ns, one->wait_ns);
    assert_int_equal(all->busy_ns, 9 * MS);
    assert_int_equal(stats_of(host).discontinuities, 3);
    vg_window_clear(&window);
}

/* Of a workload that was submitted as the first of its context that was lost: only as it is done it
 * comes out whose it was, and whose the context is, so that of the next ones. */
static void
test_first_submissions_lost(void **state)
{
    struct host *host = *state;
    struct vg_window window;

    gvt(host, 0, VG_GPU_QUEUED, 1, 0xa, 0, 0);
    gvt(host, 0, VG_GPU_QUEUED, 1, 0xb, 0, 0);
    gvt(host, 0, VG_GPU_QUEUED, 2, 0xa, 0, 0);
    i915_by_gvt(host, 2 * MS, VG_GPU_SUBMITTED, 21, 1);
    i915(host, 3 * MS, VG_GPU_RUNNING, 21, 1);
    i915(host, 4 * MS, VG_GPU_OFF, 21, 1);
    i915(host, 6 * MS, VG_GPU_RUNNING, 21, 1);
    i915(host, 9 * MS, VG_GPU_DONE, 21, 1);
    gvt(host, 9 * MS, VG_GPU_DONE, 1, 0xa, 0, 0);
    i915_by_gvt(host, 9 * MS, VG_GPU_SUBMITTED, 21, 2);
    i915(host, 10 * MS, VG_GPU_RUNNING, 21, 2);
    i915(host, 12 * MS, VG_GPU_DONE, 21, 2);
    gvt(host, 12 * MS, VG_GPU_DONE, 1, 0xb, 0, 0);
    read_period(host, 20 * MS, &window);
    const struct vg_gpu_sample *one = engine_of(vm_of(&window, "qemu-1000")->gpus, "rcs0");
    assert_int_equal(one->requests, 2);
    assert_int_equal(one->partial, 0);
    assert_int_equal(one->exec_ns, 6 * MS);
    assert_int_equal(one->busy_ns, 6 * MS);
    assert_int_equal(one->vgpu_queue_ns, 2 * MS + 9 * MS);
    assert_int_equal(one->driver_queue_ns, 3 * MS + 1 * MS);
    assert_int_equal(one->latency_max_ns, 12 * MS);
    assert_int_equal(engine_of(vm_of(&window, "qemu-2000")->gpus, "rcs0")->requests, 0);
    const struct vg_gpu_sample *all = engine_of(window.gpus, "rcs0");
    assert_int_equal(all->requests, 2);
    assert_int_equal(all->exec_ns, 6 * MS);
    assert_int_equal(all->busy_ns, 6 * MS);
    assert_int_equal(all->wait_ns, one->wait_ns + 20 * MS);
    assert_int_equal(stats_of(host).discontinuities, 1);
    vg_window_clear(&window);
}

/* What the driver told of nobody's and what GVT-g says is done are two things where another one was
 * done between them, or the workload was queued only after that one had begun. */
static void
test_done_is_not_nobodys(void **state)
{
    struct host *host = *state;
    struct vg_window window;

    gvt(host, 0, VG_GPU_QUEUED, 1, 0xa, 0, 0);
    i915_by_gvt(host, 1 * MS, VG_GPU_SUBMITTED, 21, 1);
    i915(host, 1 * MS, VG_GPU_RUNNING, 21, 1);
    gvt(host, 2 * MS, VG_GPU_QUEUED, 2, 0xa, 0, 0);
    i915(host, 3 * MS, VG_GPU_DONE, 21, 1);
    gvt(host, 3 * MS, VG_GPU_DONE, 2, 0xa, 0, 0);
    i915_by(host, 3 * MS, VG_GPU_QUEUED, 30, 1, 5);
    i915(host, 3 * MS, VG_GPU_RUNNING, 30, 1);
    i915(host, 4 * MS, VG_GPU_DONE, 30, 1);
    gvt(host, 4 * MS, VG_GPU_DONE, 1, 0xa, 0, 0);
    read_period(host, 10 * MS, &window);
    assert_int_equal(engine_of(vm_of(&window, "qemu-1000")->gpus, "rcs0")->exec_ns, 0);
    assert_int_equal(engine_of(vm_of(&window, "qemu-2000")->gpus, "rcs0")->exec_ns, 0);
    assert_int_equal(engine_of(window.gpus, "rcs0")->exec_ns, 3 * MS);
    assert_int_equal(stats_of(host).discontinuities, 0);
    vg_window_clear(&window);
}

/* The same, and who has the GPU when it runs tells whose it is. */
static void
test_submission_lost_beside_switches(void **state)
{
    struct host *host = *state;
    struct vg_window window;

    gvt(host, 0, VG_GPU_QUEUED, 1, 0xa, 0, 0);
    switch_to(host, 1 * MS, 1);
    i915_by_gvt(host, 2 * MS, VG_GPU_SUBMITTED, 21, 1);
    i915(host, 3 * MS, VG_GPU_RUNNING, 21, 1);
    i915(host, 5 * MS, VG_GPU_DONE, 21, 1);
    gvt(host, 5 * MS, VG_GPU_DONE, 1, 0xa, 0, 0);
    read_period(host, 10 * MS, &window);
    const struct vg_gpu_sample *vm = engine_of(vm_of(&window, "qemu-1000")->gpus, "rcs0");
    assert_int_equal(vm->requests, 1);
    assert_int_equal(vm->partial, 0);
    assert_int_equal(vm->vgpu_queue_ns, 2 * MS);
    assert_int_equal(vm->driver_queue_ns, 1 * MS);
    assert_int_equal(vm->exec_ns, 2 * MS);
    assert_int_equal(vm->latency_max_ns, 5 * MS);
    const struct vg_gpu_sample *all = engine_of(window.gpus, "rcs0");
    assert_int_equal(all->requests, 1);
    assert_int_equal(all->wait_ns, vm->wait_ns);
    vg_window_clear(&window);
}

/* Turns of 1 to 110 ms that follow each other at once: the one whose end was lost took all the time
 * until the next one. */
static void
test_end_of_a_long_turn_lost(void **state)
{
    const int64_t turns_ns[] = {1 * MS, 4 * MS,   9 * MS, 2 * MS, 30 * MS,
                                3 * MS, 110 * MS, 5 * MS, 1 * MS, 1 * MS};
    struct host *host = *state;
    struct vg_window window;
    int64_t now = 0, exec_ns[2] = {0};

    for (int32_t vgpu = 1; vgpu <= 2; vgpu++) {
        gvt(host, 0, VG_GPU_QUEUED, vgpu, 0xa, 0, 0);
        gvt(host, 0, VG_GPU_SUBMITTED, vgpu, 0xa, 20 + (uint64_t)vgpu, 1);
    }
    for (int turn = 0; turn < 20; turn++) {
        int64_t turn_ns = turns_ns[turn / 2];
        uint64_t context = 21 + (uint64_t)(turn % 2);
        i915(host, now, VG_GPU_RUNNING, context, 1);
        now += turn_ns;
        exec_ns[turn % 2] += turn_ns;
        if (turn != 12)
            i915(host, now, turn < 18 ? VG_GPU_OFF : VG_GPU_DONE, context, 1);
    }
    read_period(host, now, &window);
    const struct vg_gpu_sample *one = engine_of(vm_of(&window, "qemu-1000")->gpus, "rcs0");
    assert_int_equal(one->exec_ns, exec_ns[0]);
    assert_int_equal(engine_of(vm_of(&window, "qemu-2000")->gpus, "rcs0")->exec_ns, exec_ns[1]);
    assert_int_equal(stats_of(host).discontinuities, 1);
    vg_window_clear(&window);
}

/* GVT-g takes a moment to submit the next one: it is not a lone one for that. */
static void
test_queue_missed_and_submitted_with_a_lag(void **state)
{
    struct host *host = *state;
    struct vg_window window;

    for (uint64_t i = 1; i <= 6; i++)
        gvt(host, 0, VG_GPU_QUEUED, 1, i, 0, 0);
    for (uint64_t i = 1; i <= 7; i++)
        run_workload(host, (int64_t)(i - 1) * (MS + 10000), 1, i, 1 * MS);
    read_period(host, 10 * MS, &window);
    const struct vg_gpu_sample *vm = engine_of(vm_of(&window, "qemu-1000")->gpus, "rcs0");
    assert_int_equal(vm->requests, 7);
    assert_int_equal(vm->wait_ns, (0 + 1 + 2 + 3 + 4 + 5 + 5) * (MS + 10000));
    vg_window_clear(&window);
}

/* A switch was lost, and the driver's record comes before GVT-g's: the guess is wrong, and does not
 * take the work of the other vGPU. */
static void
test_switch_lost(void **state)
{
    struct host *host = *state;
    struct vg_window window;

    switch_to(host, 0, 2);
    gvt(host, 0, VG_GPU_QUEUED, 1, 0xa, 0, 0);
    gvt(host, 0, VG_GPU_QUEUED, 2, 0xb, 0, 0);
    i915_by_gvt(host, 1 * MS, VG_GPU_SUBMITTED, 21, 1);
    i915(host, 1 * MS, VG_GPU_RUNNING, 21, 1);
    gvt(host, 1 * MS, VG_GPU_SUBMITTED, 1, 0xa, 21, 1);
    i915(host, 3 * MS, VG_GPU_DONE, 21, 1);
    gvt(host, 3 * MS, VG_GPU_DONE, 1, 0xa, 0, 0);
    gvt(host, 4 * MS, VG_GPU_SUBMITTED, 2, 0xb, 22, 1);
    i915(host, 4 * MS, VG_GPU_RUNNING, 22, 1);
    i915(host, 6 * MS, VG_GPU_DONE, 22, 1);
    gvt(host, 6 * MS, VG_GPU_DONE, 2, 0xb, 0, 0);
    read_period(host, 10 * MS, &window);
    const struct vg_gpu_sample *all = engine_of(window.gpus, "rcs0");
    assert_int_equal(all->requests, 2);
    assert_int_equal(all->exec_ns, 4 * MS);
    assert_int_equal(engine_of(vm_of(&window, "qemu-1000")->gpus, "rcs0")->exec_ns, 2 * MS);
    assert_int_equal(engine_of(vm_of(&window, "qemu-2000")->gpus, "rcs0")->exec_ns, 2 * MS);
    vg_window_clear(&window);
}

/* Turns that vary less than the pauses, and a pause that is shorter than all before: the turn whose
 * end was lost took no time, rather than all of it. */
static void
test_end_of_a_turn_before_a_short_pause_lost(void **state)
{
    struct host *host = *state;
    struct vg_window window;
    int64_t now = 0;

    for (int32_t vgpu = 1; vgpu <= 2; vgpu++) {
        gvt(host, 0, VG_GPU_QUEUED, vgpu, 0xa, 0, 0);
        gvt(host, 0, VG_GPU_SUBMITTED, vgpu, 0xa, 20 + (uint64_t)vgpu, 1);
    }
    for (int turn = 0; turn < 12; turn++) {
        i915(host, now, VG_GPU_RUNNING, 21 + (uint64_t)(turn % 2), 1);
        now += turn / 2 % 2 == 0 ? MS / 2 : 7 * MS / 2;
        i915(host, now, VG_GPU_OFF, 21 + (uint64_t)(turn % 2), 1);
        now += 5 * MS;
    }
    i915(host, now, VG_GPU_RUNNING, 21, 1);
    i915(host, now + 49 * MS / 10, VG_GPU_RUNNING, 22, 1);
    i915(host, now + 6 * MS, VG_GPU_OFF, 22, 1);
    read_period(host, now + 6 * MS, &window);
    const struct vg_gpu_sample *one = engine_of(vm_of(&window, "qemu-1000")->gpus, "rcs0");
    assert_int_equal(one->exec_ns, 12 * MS);
    vg_window_clear(&window);
}

/* The engine takes 1 ms to change over, also where nobody said that it had. */
static void
test_begin_lost_after_a_change_over(void **state)
{
    struct host *host = *state;
    struct vg_window window;
    int64_t now = 0;

    for (uint64_t i = 1; i <= 10; i++) {
        gvt(host, 0, VG_GPU_QUEUED, 1, i, 0, 0);
        gvt(host, now, VG_GPU_SUBMITTED, 1, i, 21, i);
        now += 1 * MS;
        if (i != 7)
            i915(host, now, VG_GPU_RUNNING, 21, i);
        now += (int64_t)i * MS;
        i915(host, now, VG_GPU_DONE, 21, i);
        gvt(host, now, VG_GPU_DONE, 1, i, 0, 0);
    }
    read_period(host, now, &window);
    const struct vg_gpu_sample *vm = engine_of(vm_of(&window, "qemu-1000")->gpus, "rcs0");
    assert_int_equal(vm->requests, 10);
    assert_int_equal(vm->exec_ns, 55 * MS);
    assert_int_equal(vm->driver_queue_ns, 10 * MS);
    vg_window_clear(&window);
}

/* It was submitted when no other one had just made room for it: so it has waited as long as others
 * in that case, and not as long as the one before. */
static void
test_queue_of_a_lone_workload_missed(void **state)
{
    struct host *host = *state;
    struct vg_window window;
    int64_t now = 0;

    for (uint64_t i = 1; i <= 12; i += 2) {
        if (i != 11)
            gvt(host, now, VG_GPU_QUEUED, 1, i, 0, 0);
        gvt(host, now, VG_GPU_QUEUED, 1, i + 1, 0, 0);
        run_workload(host, now, 1, i, 5 * MS);
        run_workload(host, now + 5 * MS, 1, i + 1, 1 * MS);
        now += 20 * MS;
    }
    read_period(host, now, &window);
    const struct vg_gpu_sample *vm = engine_of(vm_of(&window, "qemu-1000")->gpus, "rcs0");
    assert_int_equal(vm->requests, 12);
    assert_int_equal(vm->partial, 0);
    assert_int_equal(vm->wait_ns, 6 * 5 * MS);
    assert_int_equal(stats_of(host).discontinuities, 1);
    vg_window_clear(&window);
}

/* What was dropped for want of room has waited until then, and is not to be counted again. */
static void
test_queue_dropped(void **state)
{
    struct host *host = *state;
    const uint64_t more = 2;

    gvt(host, 0, VG_GPU_QUEUED, 1, 1, 0, 0);
    run_workload(host, 1 * MS, 1, 1, 1 * MS);
    for (uint64_t i = 2; i < 2 + VG_GPU_OPEN_REQUESTS_MAX + more; i++)
        gvt(host, 2 * MS, VG_GPU_QUEUED, 1, i, 0, 0);
    assert_int_equal(stats_of(host).dropped, more);
    for (uint64_t i = 2; i < 2 + more; i++)
        run_workload(host, 10 * MS + (int64_t)i * MS, 1, i, 0);
    struct vg_gpu_sample gpu = rcs0_after(host, 22 * MS);
    assert_int_equal(gpu.requests, 1 + more);
    /* One made room for the first of them, 10 ms later; the others wait. */
    assert_int_equal(gpu.wait_ns, 1 * MS + 10 * MS + (VG_GPU_OPEN_REQUESTS_MAX - 1) * 20 * MS);
    assert_int_equal(stats_of(host).discontinuities, 0);
}

/* The driver's records come before GVT-g's, and that of a queueing was lost: the workload was taken
 * for the next one in the queue, which waits on. The next one must not be taken for the one after.
 */
static void
test_queue_missed_and_told_after_the_driver(void **state)
{
    struct host *host = *state;
    struct vg_window window;
    int64_t now = 0;

    for (uint64_t i = 1; i <= 3; i++)
        gvt(host, 0, VG_GPU_QUEUED, 1, i, 0, 0);
    for (uint64_t i = 1; i <= 10; i++) {
        i915(host, now, VG_GPU_SUBMITTED, 21, i);
        gvt(host, now, VG_GPU_SUBMITTED, 1, i, 21, i);
        i915(host, now, VG_GPU_RUNNING, 21, i);
        now += 5 * MS;
        i915(host, now, VG_GPU_DONE, 21, i);
        gvt(host, now, VG_GPU_DONE, 1, i, 0, 0);
        if (i != 1 && i <= 7)
            gvt(host, now, VG_GPU_QUEUED, 1, i + 3, 0, 0);
    }
    read_period(host, now, &window);
    const struct vg_gpu_sample *vm = engine_of(vm_of(&window, "qemu-1000")->gpus, "rcs0");
    assert_int_equal(vm->requests, 10);
    assert_int_equal(vm->partial, 0);
    assert_int_equal(vm->exec_ns, 50 * MS);
    assert_int_equal(vm->wait_ns, 85 * MS);
    assert_int_equal(vm->vgpu_queue_ns, 85 * MS);
    assert_int_equal(vm->latency_max_ns, 15 * MS);
    assert_int_equal(stats_of(host).discontinuities, 1);
    vg_window_clear(&window);
}

/* As out of order, but it ran already when GVT-g told which one it is. */
static void
test_workload_told_after_it_ran(void **state)
{
    struct host *host = *state;
    struct vg_window window;

    queue_two(host);
    i915(host, 2 * MS, VG_GPU_SUBMITTED, 21, 3);
    i915(host, 2 * MS, VG_GPU_RUNNING, 21, 3);
    gvt(host, 3 * MS, VG_GPU_SUBMITTED, 1, 0xb, 21, 3);
    end_workload(host, 4 * MS, 0xb, 3);
    i915(host, 4 * MS, VG_GPU_SUBMITTED, 21, 4);
    gvt(host, 4 * MS, VG_GPU_SUBMITTED, 1, 0xa, 21, 4);
    i915(host, 4 * MS, VG_GPU_RUNNING, 21, 4);
    end_workload(host, 6 * MS, 0xa, 4);
    read_period(host, 10 * MS, &window);
    const struct vg_gpu_sample *vm = engine_of(vm_of(&window, "qemu-1000")->gpus, "rcs0");
    assert_int_equal(vm->requests, 3);
    assert_int_equal(vm->partial, 0);
    assert_int_equal(vm->exec_ns, 5 * MS);
    assert_int_equal(vm->busy_ns, 5 * MS);
    assert_int_equal(vm->wait_ns, (1 + 4) * MS);
    assert_int_equal(vm->latency_max_ns, 6 * MS);
    vg_window_clear(&window);
}

/* Two vGPUs whose turns are of 1 ms: in the end, at 2 ms, the first one may run. */
static void
take_turns(struct host *host)
{
    for (int32_t vgpu = 1; vgpu <= 2; vgpu++) {
        uint64_t context = 20 + (uint64_t)vgpu;
        gvt(host, 0, VG_GPU_QUEUED, vgpu, 0xa, 0, 0);
        gvt(host, 0, VG_GPU_SUBMITTED, vgpu, 0xa, context, 1);
    }
    for (int turn = 0; turn < 2; turn++) {
        i915(host, turn * MS, VG_GPU_RUNNING, 21 + (uint64_t)turn, 1);
        i915(host, (turn + 1) * MS, VG_GPU_OFF, 21 + (uint64_t)turn, 1);
    }
}

/* The end of a turn was lost, and the host's own request ran meanwhile, from then to then: the
 * engine was busy with that, and with nothing else. */
static void
check_turn_beside_host(struct host *host, int64_t host_ns, int64_t host_end_ns)
{
    struct vg_window window;

    take_turns(host);
    i915_by(host, 2 * MS, VG_GPU_SUBMITTED, 30, 1, 7000);
    i915(host, 2 * MS, VG_GPU_RUNNING, 21, 1);
    i915(host, host_ns, VG_GPU_RUNNING, 30, 1);
    if (host_end_ns < 100 * MS)
        i915(host, host_end_ns, VG_GPU_DONE, 30, 1);
    i915(host, 100 * MS, VG_GPU_RUNNING, 22, 1);
    i915(host, 101 * MS, VG_GPU_DONE, 22, 1);
    if (host_end_ns >= 100 * MS)
        i915(host, host_end_ns, VG_GPU_DONE, 30, 1);
    read_period(host, 110 * MS, &window);
    const struct vg_gpu_sample *gpu = engine_of(window.gpus, "rcs0");
    int64_t shared_ns = MAX(MIN(host_end_ns, 101 * MS) - 100 * MS, 0);
    assert_int_equal(gpu->exec_ns, 4 * MS + host_end_ns - host_ns);
    assert_int_equal(gpu->busy_ns, gpu->exec_ns - shared_ns);
    assert_int_equal(engine_of(vm_of(&window, "qemu-1000")->gpus, "rcs0")->exec_ns, 2 * MS);
    vg_window_clear(&window);
}

static void
test_end_of_a_turn_lost_beside_the_host(void **state)
{
    check_turn_beside_host(*state, 90 * MS, 101 * MS);
}

static void
test_end_of_a_turn_lost_before_the_host(void **state)
{
    check_turn_beside_host(*state, 3 * MS, 99 * MS);
}

/* The begin of a workload's first turn was lost: it cannot have run while others did. */
static void
test_first_turn_lost(void **state)
{
    struct host *host = *state;
    struct vg_window window;

    take_turns(host);
    i915(host, 2 * MS, VG_GPU_RUNNING, 21, 1);
    i915(host, 3 * MS, VG_GPU_DONE, 21, 1);
    gvt(host, 3 * MS, VG_GPU_DONE, 1, 0xa, 0, 0);
    gvt(host, 3 * MS, VG_GPU_QUEUED, 1, 0xb, 0, 0);
    gvt(host, 3 * MS, VG_GPU_SUBMITTED, 1, 0xb, 21, 2);
    i915(host, 3 * MS, VG_GPU_RUNNING, 22, 1);
    i915(host, 50 * MS, VG_GPU_OFF, 22, 1);
    i915(host, 51 * MS, VG_GPU_OFF, 21, 2);
    i915(host, 51 * MS, VG_GPU_RUNNING, 22, 1);
    i915(host, 60 * MS, VG_GPU_DONE, 22, 1);
    i915(host, 60 * MS, VG_GPU_RUNNING, 21, 2);
    i915(host, 61 * MS, VG_GPU_DONE, 21, 2);
    read_period(host, 61 * MS, &window);
    assert_int_equal(engine_of(vm_of(&window, "qemu-1000")->gpus, "rcs0")->exec_ns, 4 * MS);
    assert_int_equal(engine_of(window.gpus, "rcs0")->exec_ns, 61 * MS);
    assert_int_equal(engine_of(window.gpus, "rcs0")->busy_ns, 61 * MS);
    vg_window_clear(&window);
}

/* A cancellation says nothing of another vGPU of the same VM. */
static void
test_cancelled_beside_another_vgpu(void **state)
{
    struct host *host = *state;
    struct vg_window window;
    struct vg_event other = record(host, 2 * MS, VG_GPU_QUEUED);

    gvt(host, 0, VG_GPU_QUEUED, 1, 1, 0, 0);
    run_workload(host, 1 * MS, 1, 1, 1 * MS);
    gvt(host, 2 * MS, VG_GPU_QUEUED, 1, 2, 0, 0);
    other.gpu.vgpu = 2;
    other.gpu.id = 9;
    other.gpu.id_space = VG_GPU_ID_WORKLOAD;
    other.tid = other.pid = 1000;
    vg_gpu_ledger_feed(host->ledger, &other);
    other.ts_ns = 12 * MS;
    other.gpu.op = VG_GPU_DONE;
    other.gpu.flags = VG_GPU_FAILED;
    vg_gpu_ledger_feed(host->ledger, &other);
    run_workload(host, 22 * MS, 1, 2, 1 * MS);
    read_period(host, 30 * MS, &window);
    const struct vg_gpu_sample *vm = engine_of(vm_of(&window, "qemu-1000")->gpus, "rcs0");
    assert_int_equal(vm->requests, 2);
    assert_int_equal(vm->wait_ns, (1 + 20 + 10) * MS);
    assert_int_equal(stats_of(host).discontinuities, 0);
    vg_window_clear(&window);
}

/* A workload that is thrown away with its vGPU has waited, and was never done. */
static void
test_cancelled(void **state)
{
    struct host *host = *state;
    struct vg_event event;

    gvt(host, 0, VG_GPU_QUEUED, 1, 0xa, 0, 0);
    event = record(host, 4 * MS, VG_GPU_DONE);
    event.gpu.vgpu = 1;
    event.gpu.id = 0xa;
    event.gpu.id_space = VG_GPU_ID_WORKLOAD;
    event.gpu.flags = VG_GPU_FAILED;
    vg_gpu_ledger_feed(host->ledger, &event);
    struct vg_gpu_sample gpu = rcs0_after(host, 10 * MS);
    assert_int_equal(gpu.requests, 0);
    assert_int_equal(gpu.wait_ns, 4 * MS);
    assert_int_equal(gpu.exec_ns, 0);
}

/* The vGPU that nobody's thread was seen to use is a VM named after it. */
/* A vGPU's queue is dropped from its front: who is before one that is dropped was, too. */
static void
test_cancellations_missed(void **state)
{
    struct host *host = *state;

    for (uint64_t id = 1; id <= 4; id++)
        gvt(host, 0, VG_GPU_QUEUED, 1, id, 0, 0);
    gvt(host, 0, VG_GPU_QUEUED, 2, 1, 0, 0);
    struct vg_event event = record(host, 10 * MS, VG_GPU_DONE);
    event.gpu.vgpu = 1;
    event.gpu.id = 3;
    event.gpu.id_space = VG_GPU_ID_WORKLOAD;
    event.gpu.flags = VG_GPU_FAILED;
    vg_gpu_ledger_feed(host->ledger, &event);
    struct vg_gpu_sample gpu = rcs0_after(host, 20 * MS);
    /* The fourth, and that of the other vGPU, wait on. */
    assert_int_equal(gpu.wait_ns, (3 * 10 + 2 * 20) * MS);
    assert_int_equal(stats_of(host).open, 2);
    assert_int_equal(stats_of(host).discontinuities, 2);
}

static void
test_vgpu_of_nobody(void **state)
{
    struct host *host = *state;
    struct vg_window window;
    struct vg_event event = record(host, 0, VG_GPU_QUEUED);

    event.gpu.vgpu = 3;
    event.gpu.id = 5;
    event.gpu.id_space = VG_GPU_ID_WORKLOAD;
    vg_gpu_ledger_feed(host->ledger, &event);
    read_period(host, 10 * MS, &window);
    assert_int_equal(vm_of(&window, "vgpu-3")->gpu_active_ns, 10 * MS);
    vg_window_clear(&window);
}

static void
test_slices(void **state)
{
    struct host *host = *state;
    struct vg_window window;

    gvt(host, 0, VG_GPU_QUEUED, 1, 0xa, 0, 0);
    gvt(host, 0, VG_GPU_QUEUED, 2, 0xa, 0, 0);
    switch_to(host, 1 * MS, 1);
    switch_to(host, 4 * MS, 2);
    gvt(host, 5 * MS, VG_GPU_SUBMITTED, 2, 0xa, 22, 1);
    i915(host, 5 * MS, VG_GPU_RUNNING, 22, 1);
    switch_to(host, 6 * MS, 1);
    read_period(host, 8 * MS, &window);
    const struct vg_gpu_sample *one = engine_of(vm_of(&window, "qemu-1000")->gpus, "rcs0");
    const struct vg_gpu_sample *two = engine_of(vm_of(&window, "qemu-2000")->gpus, "rcs0");
    assert_int_equal(one->slices, 2);
    assert_int_equal(one->suspended_ns, 2 * MS); /* 4 to 6; before 1 nobody told */
    assert_int_equal(two->slices, 1);
    assert_int_equal(two->suspended_ns, 3 * MS); /* 1 to 4; then it runs */
    vg_window_clear(&window);
}

static void
test_processes(void **state)
{
    struct host *host = *state;
    struct vg_window window;

    i915_by(host, 0, VG_GPU_QUEUED, 30, 1, 500);
    i915(host, 1 * MS, VG_GPU_RUNNING, 30, 1);
    i915(host, 4 * MS, VG_GPU_DONE, 30, 1);
    i915_by(host, 4 * MS, VG_GPU_QUEUED, 31, 1, 600);
    i915(host, 4 * MS, VG_GPU_RUNNING, 31, 1);
    i915(host, 9 * MS, VG_GPU_DONE, 31, 1);
    i915(host, 9 * MS, VG_GPU_RUNNING, 32, 1); /* of the kernel */
    read_period(host, 10 * MS, &window);
    assert_int_equal(window.vms->len, 0);
    assert_int_equal(window.gpu_processes->len, 2);
    const struct vg_gpu_process_sample *most =
        &g_array_index(window.gpu_processes, struct vg_gpu_process_sample, 0);
    assert_int_equal(most->pid, 600);
    assert_int_equal(most->gpu.busy_ns, 5 * MS);
    assert_int_equal(engine_of(window.gpus, "rcs0")->busy_ns, 9 * MS);
    vg_window_clear(&window);
}

static void
memory(struct host *host, enum vg_gpu_op op, uint64_t id, uint64_t bytes)
{
    struct vg_event event = record(host, 0, op);

    event.tid = event.pid = 500;
    event.gpu.id = id;
    event.gpu.id_space = VG_GPU_ID_OBJECT;
    event.gpu.fence = bytes;
    vg_gpu_ledger_feed(host->ledger, &event);
}

static void
test_memory(void **state)
{
    struct host *host = *state;
    struct vg_window window;

    memory(host, VG_GPU_MEMORY_MADE, 1, 4096);
    memory(host, VG_GPU_MEMORY_MADE, 2, 8192);
    memory(host, VG_GPU_MEMORY_FREED, 2, 0);
    memory(host, VG_GPU_MEMORY_FREED, 99, 0);  /* made before the recording */
    memory(host, VG_GPU_MEMORY_MADE, 1, 1024); /* again: its end was missed */
    i915_by(host, 0, VG_GPU_QUEUED, 30, 1, 500);
    read_period(host, 10 * MS, &window);
    const struct vg_gpu_process_sample *process =
        &g_array_index(window.gpu_processes, struct vg_gpu_process_sample, 0);
    assert_int_equal(process->gpu.mem_bytes, 1024);
    assert_int_equal(process->gpu.mem_peak_bytes, 12288);
    vg_window_clear(&window);
}

/* Two contexts of the DRM scheduler for a job: the lower one tells that it runs. */
static void
fence(struct host *host, int64_t ts_ns, uint64_t context, uint64_t seqno)
{
    struct vg_event event = record(host, ts_ns, VG_GPU_DONE);

    event.gpu.device = event.gpu.engine = VG_NAME_NONE;
    event.gpu.flags = VG_GPU_OF_FENCE | VG_GPU_OF_SCHEDULER;
    event.gpu.context = context;
    event.gpu.seqno = seqno;
    vg_gpu_ledger_feed(host->ledger, &event);
}

static void
test_fences_of_the_scheduler(void **state)
{
    struct host *host = *state;

    i915(host, 0, VG_GPU_QUEUED, 249, 9);
    fence(host, 3 * MS, 248, 9);
    fence(host, 5 * MS, 249, 9);
    fence(host, 6 * MS, 300, 9);
    struct vg_gpu_sample gpu = rcs0_after(host, 10 * MS);
    assert_int_equal(gpu.requests, 1);
    assert_int_equal(gpu.wait_ns, 3 * MS);
    assert_int_equal(gpu.exec_ns, 2 * MS);
}

static void
job(struct host *host, int64_t ts_ns, enum vg_gpu_op op, const char *device, const char *ring,
    uint64_t id, uint64_t address)
{
    struct vg_event event = record(host, ts_ns, op);

    event.gpu.device = vg_names_id(host->names, device);
    event.gpu.engine = vg_names_id(host->names, ring);
    event.gpu.id = id;
    event.gpu.id_space = id ? VG_GPU_ID_JOB : VG_GPU_ID_NONE;
    event.gpu.fence = address;
    vg_gpu_ledger_feed(host->ledger, &event);
}

/* Numbers of jobs are per ring; the address of a fence is used again; the device is told once. */
static void
test_jobs(void **state)
{
    struct host *host = *state;
    struct vg_window window;

    job(host, 0, VG_GPU_QUEUED, "", "gfx", 1, 0xf0);
    job(host, 0, VG_GPU_QUEUED, "", "sdma0", 1, 0xf1);
    job(host, 1 * MS, VG_GPU_RUNNING, "", "gfx", 1, 0xf0);
    job(host, 2 * MS, VG_GPU_RUNNING, "amdgpu", "sdma0", 1, 0);
    job(host, 3 * MS, VG_GPU_DONE, "", "", 0, 0xf0);
    job(host, 4 * MS, VG_GPU_QUEUED, "", "gfx", 2, 0xf0);
    job(host, 5 * MS, VG_GPU_RUNNING, "", "gfx", 2, 0xf0);
    job(host, 6 * MS, VG_GPU_DONE, "", "", 0, 0xf1);
    job(host, 8 * MS, VG_GPU_DONE, "", "", 0, 0xf0);
    read_period(host, 10 * MS, &window);
    const struct vg_gpu_sample *gfx = engine_of(window.gpus, "gfx");
    const struct vg_gpu_sample *sdma = engine_of(window.gpus, "sdma0");
    assert_string_equal(gfx->device, "drm_sched");
    assert_int_equal(gfx->requests, 2);
    assert_int_equal(gfx->exec_ns, 5 * MS);
    assert_string_equal(sdma->device, "amdgpu");
    assert_int_equal(sdma->exec_ns, 4 * MS);
    assert_int_equal(sdma->wait_ns, 2 * MS);
    vg_window_clear(&window);
}

/* Those of which something was told since then stay; what was counted of the others does, too. */
static void
test_given_up(void **state)
{
    struct host *host = *state;

    i915(host, 0, VG_GPU_QUEUED, 7, 1);
    i915(host, 1 * MS, VG_GPU_RUNNING, 7, 1);
    i915(host, 2 * MS, VG_GPU_QUEUED, 8, 1);
    i915(host, 3 * MS, VG_GPU_QUEUED, 9, 1);
    i915(host, 6 * MS, VG_GPU_RUNNING, 9, 1);
    vg_gpu_ledger_give_up(host->ledger, 4 * MS);
    assert_int_equal(stats_of(host).dropped, 2);
    assert_int_equal(stats_of(host).open, 1);
    i915(host, 8 * MS, VG_GPU_DONE, 9, 1);
    struct vg_gpu_sample gpu = rcs0_after(host, 10 * MS);
    assert_int_equal(gpu.busy_ns, 7 * MS);
    assert_int_equal(gpu.exec_ns, (5 + 2) * MS);
    assert_int_equal(gpu.wait_ns, (1 + 4 + 3) * MS);
    assert_int_equal(gpu.requests, 1);
}

/* Windows sum up to the period, also when what happened in one is found out in the next. */
static void
test_windows_sum_up(void **state)
{
    struct host *host = *state;
    struct vg_window window;
    int64_t busy = 0, wait = 0, exec = 0;
    uint64_t requests = 0;

    begin_at(host, 0);
    i915(host, 1 * MS, VG_GPU_SUBMITTED, 7, 1);
    for (int64_t t = 10 * MS; t <= 50 * MS; t += 10 * MS) {
        if (t == 30 * MS)
            i915(host, 24 * MS, VG_GPU_DONE, 7, 1); /* ran since 1 ms */
        if (t == 40 * MS) {
            i915(host, 31 * MS, VG_GPU_QUEUED, 7, 2);
            i915(host, 33 * MS, VG_GPU_RUNNING, 7, 2);
        }
        vg_window_init(&window, false);
        vg_gpu_ledger_close_window(host->ledger, t, &window);
        const struct vg_gpu_sample *gpu = engine_of(window.gpus, "rcs0");
        assert_true(gpu->busy_ns <= 10 * MS);
        assert_true(gpu->wait_ns >= 0);
        busy += gpu->busy_ns;
        wait += gpu->wait_ns;
        exec += gpu->exec_ns;
        requests += gpu->requests;
        vg_window_clear(&window);
    }
    struct vg_gpu_sample period = rcs0_after(host, 50 * MS);
    assert_int_equal(period.exec_ns, (23 + 17) * MS);
    assert_int_equal(period.busy_ns, (23 + 17) * MS);
    assert_int_equal(period.wait_ns, 2 * MS);
    assert_int_equal(exec, period.exec_ns);
    assert_int_equal(requests, period.requests);
    /* Some of it did not fit into the windows that were left. */
    assert_true(busy <= period.busy_ns && busy >= 20 * MS);
    assert_true(wait >= period.wait_ns);
}

static void
count_life(void *data, const struct vg_gpu_life *life)
{
    int *counts = data;

    counts[life->end_ns == VG_TIME_UNKNOWN]++;
    assert_int_equal(life->context, 7);
}

static void
test_lives_are_told(void **state)
{
    struct host *host = *state;
    int counts[2] = {0};

    vg_gpu_ledger_watch(host->ledger, count_life, counts);
    for (uint64_t i = 1; i <= 5; i++)
        i915(host, (int64_t)i * MS, VG_GPU_QUEUED, 7, i);
    i915(host, 6 * MS, VG_GPU_RUNNING, 7, 2);
    i915(host, 7 * MS, VG_GPU_DONE, 7, 2);
    assert_int_equal(counts[0], 2);
    vg_gpu_ledger_open_requests(host->ledger, count_life, counts);
    assert_int_equal(counts[1], 3);
}

static uint64_t
count_left_out(const struct vg_window *window)
{
    uint64_t n = 0;

    for (guint i = 0; i < window->gpu_requests->len; i++)
        n += g_array_index(window->gpu_requests, struct vg_gpu_request_sample, i).left_out;
    return n;
}

/* Contexts that take turns, as VMs do, keep each its part, and what is not kept is told where it
 * was. */
static void
test_requests_of_a_window_are_of_all(void **state)
{
    enum { CONTEXTS = 4, EACH = 5000, N = CONTEXTS * EACH };
    struct host *host = *state;
    struct vg_window window;
    unsigned kept[CONTEXTS] = {0};
    int64_t before = 0;

    vg_gpu_ledger_keep_requests(host->ledger, true);
    vg_gpu_ledger_begin(host->ledger, 0);
    for (int64_t i = 0; i < N; i++) {
        i915(host, 2 * i, VG_GPU_RUNNING, 50 + (uint64_t)i % CONTEXTS, 1 + (uint64_t)i / CONTEXTS);
        i915(host, 2 * i + 1, VG_GPU_DONE, 50 + (uint64_t)i % CONTEXTS, 1 + (uint64_t)i / CONTEXTS);
    }
    vg_window_init(&window, false);
    vg_gpu_ledger_close_window(host->ledger, 2 * N, &window);
    guint n = window.gpu_requests->len;
    assert_in_range(n, VG_WINDOW_GPU_REQUESTS_MAX / 2 - 200, VG_WINDOW_GPU_REQUESTS_MAX);
    assert_int_equal(count_left_out(&window) + n, N);
    for (guint i = 0; i < n; i++) {
        const struct vg_gpu_request_sample *one =
            &g_array_index(window.gpu_requests, struct vg_gpu_request_sample, i);
        kept[one->context - 50]++;
        if (i + 1 < n)
            assert_int_equal((one->end_ns - before) / 2, one->left_out + (i == 0 ? 0 : 1));
        before = one->end_ns;
    }
    for (unsigned i = 0; i < CONTEXTS; i++)
        assert_in_range(kept[i], n / CONTEXTS * 8 / 10, n / CONTEXTS * 12 / 10);
    vg_window_clear(&window);
}

static void
test_requests_of_a_window(void **state)
{
    struct host *host = *state;
    struct vg_window window;

    vg_gpu_ledger_keep_requests(host->ledger, true);
    vg_gpu_ledger_begin(host->ledger, 0);
    gvt(host, 1, VG_GPU_QUEUED, 1, 0xa, 0, 0);
    gvt(host, 2, VG_GPU_SUBMITTED, 1, 0xa, 21, 1);
    i915(host, 3, VG_GPU_RUNNING, 21, 1);
    i915(host, 5, VG_GPU_DONE, 21, 1);
    i915(host, 6, VG_GPU_RUNNING, 90, 4);
    i915(host, 7, VG_GPU_DONE, 90, 4);
    for (uint64_t i = 1; i <= VG_WINDOW_GPU_REQUESTS_MAX; i++) {
        i915(host, 8, VG_GPU_QUEUED, 50, i);
        i915(host, 9, VG_GPU_DONE, 50, i);
    }
    vg_window_init(&window, false);
    vg_gpu_ledger_close_window(host->ledger, 10, &window);
    /* About half of 4098, with the first. */
    assert_in_range(window.gpu_requests->len, VG_WINDOW_GPU_REQUESTS_MAX * 4 / 10,
                    VG_WINDOW_GPU_REQUESTS_MAX * 6 / 10);
    assert_int_equal(window.gpu_requests->len + count_left_out(&window),
                     VG_WINDOW_GPU_REQUESTS_MAX + 2);
    const struct vg_gpu_request_sample *one =
        &g_array_index(window.gpu_requests, struct vg_gpu_request_sample, 0);
    assert_int_equal(one->vm, vm_of(&window, "qemu-1000")->id);
    assert_int_equal(one->gpu, 0);
    assert_int_equal(one->queued_ns, 1);
    assert_int_equal(one->run_ns, 3);
    assert_int_equal(one->end_ns, 5);
    const struct vg_gpu_request_sample *last = one + window.gpu_requests->len - 1;
    assert_in_range(last->seqno, VG_WINDOW_GPU_REQUESTS_MAX - 50, VG_WINDOW_GPU_REQUESTS_MAX);
    assert_int_equal(last->vm, VG_PROCESS_NO_ID);
    vg_window_clear(&window);
    vg_window_init(&window, false);
    i915(host, 12, VG_GPU_RUNNING, 90, 5);
    i915(host, 13, VG_GPU_DONE, 90, 5);
    vg_gpu_ledger_close_window(host->ledger, 20, &window);
    assert_int_equal(window.gpu_requests->len, 1);
    assert_int_equal(count_left_out(&window), 0);
    one = &g_array_index(window.gpu_requests, struct vg_gpu_request_sample, 0);
    assert_int_equal(one->pid, 0);
    assert_int_equal(one->queued_ns, VG_TIME_UNKNOWN);
    vg_window_clear(&window);
}

static void
test_nothing_is_known_without_events(void **state)
{
    struct host *host = *state;
    struct vg_window window;

    begin_at(host, 0);
    read_period(host, 10 * MS, &window);
    assert_int_equal(window.gpus->len, 0);
    assert_int_equal(window.vms->len, 0);
    vg_window_clear(&window);
}

static void
test_time_runs_backwards(void **state)
{
    struct host *host = *state;

    i915(host, 5 * MS, VG_GPU_QUEUED, 7, 1);
    i915(host, 4 * MS, VG_GPU_RUNNING, 7, 1);
    i915(host, 6 * MS, VG_GPU_DONE, 7, 1);
    struct vg_gpu_sample gpu = rcs0_after(host, 10 * MS);
    assert_int_equal(gpu.exec_ns, 1 * MS);
    assert_int_equal(stats_of(host).discontinuities, 1);
}

/* Mainline GVT-g: the thread of GVT-g submits for the vGPU that has the GPU when it runs. */
static void
test_vgpu_by_switches(void **state)
{
    struct host *host = *state;
    struct vg_window window;

    for (uint64_t i = 1; i <= 3; i++) {
        int64_t t = (int64_t)i * 10 * MS;
        i915_by_gvt(host, t, VG_GPU_SUBMITTED, 50, i);
        switch_to(host, t + MS, 2);
        i915(host, t + 2 * MS, VG_GPU_RUNNING, 50, i);
        i915(host, t + 5 * MS, VG_GPU_DONE, 50, i);
    }
    read_period(host, 40 * MS, &window);
    const struct vg_gpu_sample *vm = engine_of(vm_of(&window, "vgpu-2")->gpus, "rcs0");
    assert_int_equal(vm->requests, 3);
    assert_int_equal(vm->busy_ns, 9 * MS);
    vg_window_clear(&window);
}

/* Whose it is comes out when it runs: so it was in the stages before, also for who watches. */
static void
test_found_out_late(void **state)
{
    struct host *host = *state;
    struct vg_window window;

    i915_by_gvt(host, 10 * MS, VG_GPU_SUBMITTED, 50, 1);
    i915(host, 12 * MS, VG_GPU_READY, 50, 1);
    switch_to(host, 13 * MS, 2);
    i915(host, 15 * MS, VG_GPU_RUNNING, 50, 1);
    i915(host, 18 * MS, VG_GPU_DONE, 50, 1);
    read_period(host, 20 * MS, &window);
    const struct vg_gpu_sample *vm = engine_of(vm_of(&window, "vgpu-2")->gpus, "rcs0");
    assert_int_equal(vm->wait_ns, 5 * MS);
    assert_int_equal(vm->exec_ns, 3 * MS);
    vg_window_clear(&window);
}

/* ---- hostile streams ---- */

/* Under valgrind, which takes thirty times as long, and under a sanitizer fewer are enough. */
static int
scaled(int n)
{
    return g_getenv("VG_TEST_ROUNDS") ? n / 20 : UNDER_SANITIZER ? n / 5 : n;
}

/* All that this process has; 0 where something else counts memory. */
static size_t
memory_in_use(void)
{
    struct mallinfo2 info = mallinfo2();

    return info.uordblks + info.hblkhd;
}

/* Ids at random, hardly ever an end: what is kept stays below the limit, what is not is counted. */
static void
test_memory_is_limited(void **state)
{
    enum { EVENTS = 3000000 };
    struct host *host = *state;
    GRand *random = g_rand_new_with_seed(11);
    struct vg_window window;
    size_t before = memory_in_use();

    for (int i = 0; i < scaled(EVENTS); i++) {
        struct vg_event event = record(host, i, (enum vg_gpu_op)g_rand_int_range(random, 0, 12));
        event.tid = event.pid = g_rand_int_range(random, -1, VG_TID_LIMIT);
        event.gpu.context = g_rand_int(random) % 5 ? g_rand_int(random) : 0;
        event.gpu.seqno = g_rand_int(random);
        event.gpu.id = g_rand_int(random);
        event.gpu.id_space = (uint8_t)g_rand_int_range(random, 0, 5);
        event.gpu.fence = g_rand_int(random) % 3 ? g_rand_int(random) : 0;
        event.gpu.vgpu = g_rand_int(random) % 2 ? g_rand_int_range(random, 1, 100000) : VG_NONE;
        event.gpu.device = (uint16_t)g_rand_int_range(random, 0, 10);
        event.gpu.engine = (uint16_t)g_rand_int_range(random, 0, 100);
        event.gpu.flags = (uint8_t)g_rand_int_range(random, 0, 32);
        vg_gpu_ledger_feed(host->ledger, &event);
        if (i % 500000 == 0) {
            vg_window_init(&window, false);
            vg_gpu_ledger_close_window(host->ledger, i, &window);
            vg_window_clear(&window);
        }
    }
    struct vg_gpu_ledger_stats stats = stats_of(host);
    assert_true(stats.bytes < VG_GPU_LEDGER_BYTES_MAX);
    /* With what the topology keeps of the threads. */
    assert_true(memory_in_use() < before + VG_GPU_LEDGER_BYTES_MAX);
    assert_true(stats.open <= VG_GPU_OPEN_REQUESTS_MAX);
    assert_true(stats.dropped > 0 || g_getenv("VG_TEST_ROUNDS"));
    assert_true(stats.unattributed > 0);
    g_rand_free(random);
}

/* Ten million contexts with a request each that never ends. */
static void
test_contexts_are_limited(void **state)
{
    const uint64_t contexts = (uint64_t)scaled(10000000);
    struct host *host = *state;

    for (uint64_t i = 1; i <= contexts; i++)
        i915(host, (int64_t)i, VG_GPU_RUNNING, i, 1);
    struct vg_gpu_ledger_stats stats = stats_of(host);
    assert_int_equal(stats.open, VG_GPU_CONTEXTS_MAX);
    assert_true(stats.bytes < VG_GPU_LEDGER_BYTES_MAX);
    assert_int_equal(stats.dropped, 2 * (contexts - VG_GPU_CONTEXTS_MAX));
}

/* ---- streams at random ---- */

#define ENGINES  3
#define VGPUS    4
#define LIVES    400
#define BEGIN_NS (100 * MS)
#define END_NS   (900 * MS)

/* A request as it really was. */
struct truth {
    int engine;
    int32_t vgpu;
    uint64_t workload;
    int64_t queued, submitted, ready, run, done; /* done > the end of the stream: never told */
};

static const char *const engine_names[ENGINES] = {"rcs0", "bcs0", "vcs0"};

/* Of vGPUs one after the other on each engine, as GVT-g runs them; of processes one after the other
 * in each context, and those of different contexts as they like. */
static void
make_lives(GRand *random, bool of_vgpus, struct truth *lives)
{
    int64_t busy_until[VGPUS + 1][ENGINES] = {0};

    for (int i = 0; i < LIVES; i++) {
        struct truth *life = &lives[i];
        life->engine = g_rand_int_range(random, 0, ENGINES);
        life->vgpu = g_rand_int_range(random, 1, VGPUS + 1);
        life->workload = (uint64_t)i + 1;
        int64_t *busy = &busy_until[of_vgpus ? 0 : life->vgpu][life->engine];
        life->queued = MAX(*busy - g_rand_int_range(random, 0, 5) * MS, 0) +
                       g_rand_int_range(random, 0, 10 * (int)MS);
        life->submitted = MAX(life->queued, *busy) + g_rand_int_range(random, 0, 2 * (int)MS);
        life->ready = life->submitted + g_rand_int_range(random, 0, (int)MS);
        life->run = life->ready + g_rand_int_range(random, 0, (int)MS);
        life->done = life->run + g_rand_int_range(random, 1, 20 * (int)MS);
        *busy = life->done;
    }
}

struct step {
    int64_t ts_ns;
    int life;
    int stage; /* 0 queued ... 4 done */
};

static int
compare_steps(const void *a, const void *b)
{
    const struct step *x = a, *y = b;

    if (x->ts_ns != y->ts_ns)
        return x->ts_ns < y->ts_ns ? -1 : 1;
    return x->life != y->life ? x->life - y->life : x->stage - y->stage;
}

static void
tell(struct host *host, bool of_vgpus, const struct truth *life, const struct step *step)
{
    static const enum vg_gpu_op ops[] = {VG_GPU_QUEUED, VG_GPU_SUBMITTED, VG_GPU_READY,
                                         VG_GPU_RUNNING, VG_GPU_DONE};
    struct vg_event event = record(host, step->ts_ns, ops[step->stage]);

    event.gpu.engine = vg_names_id(host->names, engine_names[life->engine]);
    if (step->stage <= 1)
        event.tid = event.pid = 1000 * life->vgpu;
    if (step->stage <= 1 && of_vgpus) {
        event.gpu.vgpu = life->vgpu;
        event.gpu.id = life->workload;
        event.gpu.id_space = VG_GPU_ID_WORKLOAD;
        event.gpu.flags = VG_GPU_ENGINE_WEAK;
    }
    if (step->stage >= 1 || !of_vgpus) {
        event.gpu.context = (uint64_t)life->vgpu * ENGINES + (uint64_t)life->engine;
        event.gpu.seqno = life->workload;
    }
    vg_gpu_ledger_feed(host->ledger, &event);
}

static int64_t
overlap(int64_t from, int64_t to)
{
    return MAX(MIN(to, END_NS) - MAX(from, BEGIN_NS), 0);
}

static void
expect(const struct truth *lives, int engine, int32_t vgpu, const struct vg_gpu_sample *gpu)
{
    int64_t exec = 0, wait = 0, vgpu_queue = 0, busy = 0, until = 0;
    uint64_t requests = 0, partial = 0;
    g_autoptr(GArray) runs = g_array_new(FALSE, FALSE, sizeof(struct step));

    for (int i = 0; i < LIVES; i++) {
        const struct truth *life = &lives[i];
        if (life->engine != engine || (vgpu != VG_NONE && life->vgpu != vgpu))
            continue;
        exec += overlap(life->run, life->done);
        wait += overlap(life->queued, life->run);
        vgpu_queue += overlap(life->queued, life->submitted);
        requests += life->done > BEGIN_NS && life->done <= END_NS;
        partial += (life->queued < BEGIN_NS && life->done > BEGIN_NS) ||
                   (life->queued >= BEGIN_NS && life->queued <= END_NS && life->done > END_NS);
        const struct step run = {life->run, i, 0};
        g_array_append_val(runs, run);
    }
    g_array_sort(runs, compare_steps);
    for (guint i = 0; i < runs->len; i++) {
        const struct truth *life = &lives[g_array_index(runs, struct step, i).life];
        busy += overlap(MAX(life->run, until), life->done);
        until = MAX(until, life->done);
    }
    assert_int_equal(gpu->exec_ns, exec);
    assert_int_equal(gpu->wait_ns, wait);
    assert_int_equal(gpu->busy_ns, busy);
    assert_int_equal(gpu->requests, requests);
    assert_int_equal(gpu->partial, partial);
    assert_int_equal(gpu->vgpu_queue_ns + gpu->dependency_ns + gpu->driver_queue_ns, wait);
    assert_int_equal(gpu->vgpu_queue_ns, vgpu_queue);
}

static const struct vg_gpu_sample *
user_of(const struct vg_window *window, int32_t number, const char *engine)
{
    g_autofree char *name = g_strdup_printf("qemu-%d", 1000 * number);

    for (guint i = 0; i < window->gpu_processes->len; i++) {
        const struct vg_gpu_process_sample *process =
            &g_array_index(window->gpu_processes, struct vg_gpu_process_sample, i);
        if (process->pid == 1000 * number && strcmp(process->gpu.engine, engine) == 0)
            return &process->gpu;
    }
    return engine_of(vm_of(window, name)->gpus, engine);
}

static void
check_stream(struct host *host, bool of_vgpus, GRand *random)
{
    static struct truth lives[LIVES];
    g_autoptr(GArray) steps = g_array_new(FALSE, FALSE, sizeof(struct step));
    struct vg_window window;
    bool begun = false;

    make_lives(random, of_vgpus, lives);
    for (int i = 0; i < LIVES; i++) {
        const int64_t times[] = {lives[i].queued, lives[i].submitted, lives[i].ready, lives[i].run,
                                 lives[i].done};
        for (int k = 0; k < 5; k++) {
            const struct step step = {times[k], i, k};
            g_array_append_val(steps, step);
        }
    }
    g_array_sort(steps, compare_steps);
    for (guint i = 0; i < steps->len; i++) {
        const struct step *step = &g_array_index(steps, struct step, i);
        if (step->ts_ns > BEGIN_NS && !begun) {
            begin_at(host, BEGIN_NS);
            begun = true;
        }
        if (step->ts_ns <= END_NS)
            tell(host, of_vgpus, &lives[step->life], step);
    }
    read_period(host, END_NS, &window);
    for (int e = 0; e < ENGINES; e++) {
        expect(lives, e, VG_NONE, engine_of(window.gpus, engine_names[e]));
        for (int32_t v = 1; v <= VGPUS; v++)
            expect(lives, e, v, user_of(&window, v, engine_names[e]));
    }
    vg_window_clear(&window);
}

static void
test_streams_at_random(void **state)
{
    enum { ROUNDS = 60, ROUNDS_SCALED = 10 };
    const uint32_t rounds = g_getenv("VG_TEST_ROUNDS") ? ROUNDS_SCALED : ROUNDS;
    const char *given = g_getenv("VG_TEST_SEED");
    uint32_t seed = given ? (uint32_t)strtoul(given, NULL, 10) : g_random_int();
    (void)state;

    for (uint32_t i = 0; i < rounds; i++) {
        GRand *random = g_rand_new_with_seed(seed + i);
        void *host;
        print_message("VG_TEST_SEED=%u\n", seed + i);
        setup(&host);
        check_stream(host, i % 2 == 0, random);
        teardown(&host);
        g_rand_free(random);
    }
}

int
main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(test_life),
        CASE(test_stages_that_are_not_told),
        CASE(test_engine_without_start_events),
        CASE(test_taken_off_and_back),
        CASE(test_end_of_a_turn_missed),
        CASE(test_busy_in_several_gaps),
        CASE(test_coalesced),
        CASE(test_ends_out_of_order),
        CASE(test_end_missed),
        CASE(test_stale_records),
        CASE(test_seqnos_begin_anew),
        CASE(test_running_at_the_beginning),
        CASE(test_clipped),
        CASE(test_vgpus_with_equal_seqnos),
        CASE(test_submission_told_after_the_driver),
        CASE(test_submission_told_after_the_end),
        CASE(test_first_submission_told_after_the_end),
        CASE(test_request_that_nobody_claims),
        CASE(test_submission_lost),
        CASE(test_submission_out_of_order),
        CASE(test_workload_without_end),
        CASE(test_end_of_a_turn_lost),
        CASE(test_turns_lost),
        CASE(test_queue_missed),
        CASE(test_first_submissions_lost),
        CASE(test_done_is_not_nobodys),
        CASE(test_submission_lost_beside_switches),
        CASE(test_end_of_a_long_turn_lost),
        CASE(test_queue_missed_and_submitted_with_a_lag),
        CASE(test_switch_lost),
        CASE(test_end_of_a_turn_before_a_short_pause_lost),
        CASE(test_begin_lost_after_a_change_over),
        CASE(test_queue_of_a_lone_workload_missed),
        CASE(test_queue_dropped),
        CASE(test_queue_missed_and_told_after_the_driver),
        CASE(test_workload_told_after_it_ran),
        CASE(test_end_of_a_turn_lost_beside_the_host),
        CASE(test_end_of_a_turn_lost_before_the_host),
        CASE(test_first_turn_lost),
        CASE(test_cancelled_beside_another_vgpu),
        CASE(test_cancelled),
        CASE(test_cancellations_missed),
        CASE(test_vgpu_of_nobody),
        CASE(test_slices),
        CASE(test_processes),
        CASE(test_memory),
        CASE(test_fences_of_the_scheduler),
        CASE(test_jobs),
        CASE(test_given_up),
        CASE(test_windows_sum_up),
        CASE(test_lives_are_told),
        CASE(test_requests_of_a_window_are_of_all),
        CASE(test_requests_of_a_window),
        CASE(test_nothing_is_known_without_events),
        CASE(test_time_runs_backwards),
        CASE(test_vgpu_by_switches),
        CASE(test_found_out_late),
        CASE(test_memory_is_limited),
        CASE(test_contexts_are_limited),
        cmocka_unit_test(test_streams_at_random),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
