/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows of several collectors gathered into one, and windows added up.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/gather.h"
#include "model/window-sum.h"
#include "tests/unit/chance.h"

#define S INT64_C(1000000000)

/* A window that ends at end and has one VM with one vCPU, which ran for run_ns. */
static struct vg_window
window_of(int64_t end_ns, uint32_t id, const char *name, const char *uuid, int32_t pid,
          int64_t run_ns)
{
    struct vg_window window;
    struct vg_vm_sample vm;
    struct vg_vcpu_sample vcpu = {.tid = pid + 1, .index = 0};

    vg_window_init(&window, false);
    window.begin_ns = end_ns - S;
    window.end_ns = end_ns;
    vg_vm_sample_init(&vm);
    vm.id = id;
    vm.pid = pid;
    g_strlcpy(vm.name, name, sizeof(vm.name));
    g_strlcpy(vm.uuid, uuid, sizeof(vm.uuid));
    vcpu.cpu.observed_ns = S;
    vcpu.cpu.run_ns = run_ns;
    vcpu.cpu.blocked_ns = S - run_ns;
    vm.cpu = vcpu.cpu;
    g_array_append_val(vm.vcpus, vcpu);
    g_array_append_val(window.vms, vm);
    return window;
}

static enum vg_gather_taken
put(vg_gather *gather, unsigned int source, struct vg_window window, double confidence)
{
    const struct vg_provenance provenance = {.confidence = confidence, .cost_ns = 10};

    return vg_gather_put(gather, source, &window, &provenance, 0);
}

static struct vg_vm_sample *
vm_at(struct vg_window *window, guint i)
{
    return &g_array_index(window->vms, struct vg_vm_sample, i);
}

static void
test_a_window_waits_for_all_who_live(void **state)
{
    g_autoptr(vg_gather) gather = vg_gather_new(S);
    struct vg_gathered gathered;
    unsigned int a = vg_gather_add_source(gather), b = vg_gather_add_source(gather);

    (void)state;
    put(gather, a, window_of(S, 0, "vm", "", 100, 5), 1);
    assert_false(vg_gather_next(gather, S, &gathered));
    put(gather, b, window_of(S, 7, "vm", "", 100, 9), 0.5);
    assert_true(vg_gather_next(gather, S, &gathered));
    /* The same pid is the same VM; the figures are those of the more trusted source. */
    assert_int_equal(gathered.window.vms->len, 1);
    assert_int_equal(vm_at(&gathered.window, 0)->cpu.run_ns, 5);
    assert_int_equal(gathered.provenance.cost_ns, 20);
    vg_window_clear(&gathered.window);
    assert_false(vg_gather_next(gather, S, &gathered));
}

static void
test_grace_is_one_window(void **state)
{
    g_autoptr(vg_gather) gather = vg_gather_new(S);
    struct vg_gathered gathered;
    struct vg_gather_stats stats;
    unsigned int a = vg_gather_add_source(gather);

    (void)state;
    vg_gather_add_source(gather);
    put(gather, a, window_of(S, 0, "vm", "", 100, 5), 1);
    assert_false(vg_gather_next(gather, 2 * S - 1, &gathered));
    assert_true(vg_gather_next(gather, 2 * S, &gathered));
    vg_window_clear(&gathered.window);
    vg_gather_read_stats(gather, &stats);
    assert_int_equal(stats.windows, 1);
    assert_int_equal(stats.incomplete, 1);
}

static void
test_who_is_known_to_be_late_has_more_grace(void **state)
{
    g_autoptr(vg_gather) gather = vg_gather_new(S);
    struct vg_gathered gathered;
    unsigned int a = vg_gather_add_source(gather), b = vg_gather_add_source(gather);

    (void)state;
    vg_gather_set_lag(gather, b, 3 * S);
    put(gather, a, window_of(S, 0, "vm", "", 100, 5), 1);
    assert_false(vg_gather_next(gather, 5 * S - 1, &gathered));
    assert_true(vg_gather_next(gather, 5 * S, &gathered));
    vg_window_clear(&gathered.window);
    /* The dead are late for nothing. */
    put(gather, a, window_of(2 * S, 0, "vm", "", 100, 5), 1);
    vg_gather_set_alive(gather, b, false);
    assert_true(vg_gather_next(gather, 2 * S, &gathered));
    vg_window_clear(&gathered.window);
}

static void
test_what_another_source_has_seen_was_not_missed(void **state)
{
    struct vg_provenance provenance = {.confidence = 1, .missed = 2};

    (void)state;
    for (int seen = 0; seen < 2; seen++) {
        g_autoptr(vg_gather) gather = vg_gather_new(S);
        struct vg_gathered gathered;
        unsigned int a = vg_gather_add_source(gather), b = vg_gather_add_source(gather);
        vg_gather_set_alive(gather, b, seen);
        for (int64_t i = 1; i <= 3; i++) {
            if (i == 1)
                put(gather, a, window_of(i * S, 0, "vm", "", 100, 5), 1);
            if (seen)
                put(gather, b, window_of(i * S, 0, "vm", "", 100, 5), 0.5);
            while (vg_gather_next(gather, INT64_MAX, &gathered))
                vg_window_clear(&gathered.window);
        }
        struct vg_window window = window_of(4 * S, 0, "vm", "", 100, 5);
        vg_gather_put(gather, a, &window, &provenance, 0);
        assert_true(vg_gather_next(gather, INT64_MAX, &gathered));
        assert_int_equal(gathered.provenance.missed, seen ? 0 : 2);
        vg_window_clear(&gathered.window);
    }
}

static void
test_the_dead_are_not_waited_for(void **state)
{
    g_autoptr(vg_gather) gather = vg_gather_new(S);
    struct vg_gathered gathered;
    unsigned int a = vg_gather_add_source(gather), b = vg_gather_add_source(gather);

    (void)state;
    put(gather, a, window_of(S, 0, "vm", "", 100, 5), 1);
    assert_false(vg_gather_next(gather, S, &gathered));
    vg_gather_set_alive(gather, b, false);
    assert_true(vg_gather_next(gather, S, &gathered));
    vg_window_clear(&gathered.window);
}

static void
test_late_and_twice_are_counted_and_dropped(void **state)
{
    g_autoptr(vg_gather) gather = vg_gather_new(S);
    struct vg_gathered gathered;
    struct vg_gather_stats stats;
    unsigned int a = vg_gather_add_source(gather);

    (void)state;
    assert_int_equal(put(gather, a, window_of(2 * S, 0, "vm", "", 100, 5), 1), VG_GATHER_TAKEN);
    assert_int_equal(put(gather, a, window_of(2 * S, 0, "vm", "", 100, 5), 1), VG_GATHER_DUPLICATE);
    assert_true(vg_gather_next(gather, 0, &gathered));
    vg_window_clear(&gathered.window);
    assert_int_equal(put(gather, a, window_of(2 * S, 0, "vm", "", 100, 5), 1), VG_GATHER_DUPLICATE);
    assert_int_equal(put(gather, a, window_of(S, 0, "vm", "", 100, 5), 1), VG_GATHER_LATE);
    assert_false(vg_gather_next(gather, INT64_MAX, &gathered));
    vg_gather_read_stats(gather, &stats);
    assert_int_equal(stats.windows, 1);
    assert_int_equal(stats.duplicates, 2);
    assert_int_equal(stats.late, 1);
}

static void
test_windows_come_in_order_and_do_not_overlap(void **state)
{
    g_autoptr(vg_gather) gather = vg_gather_new(S);
    struct vg_gathered gathered;
    unsigned int a = vg_gather_add_source(gather), b = vg_gather_add_source(gather);

    (void)state;
    put(gather, a, window_of(S, 0, "vm", "", 100, 1), 1);
    put(gather, a, window_of(2 * S, 0, "vm", "", 100, 2), 1);
    struct vg_window longer = window_of(2 * S, 0, "vm", "", 100, 3);
    longer.begin_ns = 0;
    put(gather, b, longer, 0.5);
    assert_true(vg_gather_next(gather, 0, &gathered));
    assert_int_equal(gathered.window.end_ns, S);
    vg_window_clear(&gathered.window);
    assert_true(vg_gather_next(gather, 0, &gathered));
    assert_int_equal(gathered.window.begin_ns, S);
    assert_int_equal(gathered.window.end_ns, 2 * S);
    vg_window_clear(&gathered.window);
}

static void
test_who_floods_does_not_wait_for_ever(void **state)
{
    g_autoptr(vg_gather) gather = vg_gather_new(S);
    struct vg_gathered gathered;
    unsigned int a = vg_gather_add_source(gather), n = 0;

    (void)state;
    vg_gather_add_source(gather);
    for (int i = 1; i <= 2 * VG_GATHER_PENDING_MAX; i++)
        put(gather, a, window_of(i * S, 0, "vm", "", 100, 1), 1);
    while (vg_gather_next(gather, 0, &gathered)) {
        vg_window_clear(&gathered.window);
        n++;
    }
    assert_int_equal(n, VG_GATHER_PENDING_MAX);
}

static void
test_ids_hold_and_are_not_given_twice(void **state)
{
    g_autoptr(vg_gather) gather = vg_gather_new(S);
    struct vg_gathered gathered;
    unsigned int a = vg_gather_add_source(gather);
    uint32_t ids[3];

    (void)state;
    static const struct {
        uint32_t id;
        int32_t pid;
    } seen[] = {{4, 100}, {4, 100}, {5, 200}};
    for (int i = 0; i < 3; i++) {
        put(gather, a, window_of((i + 1) * S, seen[i].id, "vm", "", seen[i].pid, 1), 1);
        assert_true(vg_gather_next(gather, 0, &gathered));
        ids[i] = vm_at(&gathered.window, 0)->id;
        vg_window_clear(&gathered.window);
    }
    assert_int_equal(ids[0], ids[1]);
    assert_int_not_equal(ids[1], ids[2]);
}

static void
test_aggressors_keep_their_vm(void **state)
{
    g_autoptr(vg_gather) gather = vg_gather_new(S);
    struct vg_gathered gathered;
    unsigned int a = vg_gather_add_source(gather);
    struct vg_window window = window_of(S, 9, "victim", "", 100, 1);
    struct vg_window other = window_of(S, 8, "aggressor", "", 200, 1);
    struct vg_lost_to lost = {.kind = VG_AGGRESSOR_VM, .vm_id = 8, .ns = 3, .count = 1};

    (void)state;
    g_array_append_val(vm_at(&window, 0)->lost_to, lost);
    struct vg_vm_sample moved = *vm_at(&other, 0);
    vg_vm_sample_init(vm_at(&other, 0));
    g_array_append_val(window.vms, moved);
    vg_window_clear(&other);
    put(gather, a, window, 1);
    assert_true(vg_gather_next(gather, 0, &gathered));
    const struct vg_lost_to *kept =
        &g_array_index(vm_at(&gathered.window, 0)->lost_to, struct vg_lost_to, 0);
    assert_string_equal(vg_window_vm(&gathered.window, kept->vm_id)->name, "aggressor");
    vg_window_clear(&gathered.window);
}

/* ---- sums ---- */

static void
test_windows_add_up(void **state)
{
    struct vg_window sum, first = window_of(S, 1, "old-name", "", 100, 5);
    struct vg_window second = window_of(2 * S, 1, "name", "u", 100, 7);
    struct vg_lost_to lost = {.kind = VG_AGGRESSOR_HOST_KERNEL, .ns = 3, .count = 1};
    int32_t cpus[] = {3, 1};

    (void)state;
    g_array_append_val(vm_at(&first, 0)->lost_to, lost);
    g_array_append_val(vm_at(&first, 0)->cpus, cpus[0]);
    lost.ns = 4;
    g_array_append_val(vm_at(&second, 0)->lost_to, lost);
    g_array_append_val(vm_at(&second, 0)->cpus, cpus[1]);
    first.lost_events = 2;
    vg_window_init(&sum, false);
    vg_window_add(&sum, &first);
    vg_window_add(&sum, &second);
    assert_int_equal(sum.begin_ns, 0);
    assert_int_equal(sum.end_ns, 2 * S);
    assert_int_equal(sum.lost_events, 2);
    assert_int_equal(sum.vms->len, 1);
    const struct vg_vm_sample *vm = vm_at(&sum, 0);
    assert_string_equal(vm->name, "name");
    assert_string_equal(vm->uuid, "u");
    assert_int_equal(vm->cpu.run_ns, 12);
    assert_int_equal(vm->vcpus->len, 1);
    assert_int_equal(g_array_index(vm->vcpus, struct vg_vcpu_sample, 0).cpu.blocked_ns, 2 * S - 12);
    assert_int_equal(vm->lost_to->len, 1);
    assert_int_equal(g_array_index(vm->lost_to, struct vg_lost_to, 0).ns, 7);
    assert_int_equal(g_array_index(vm->cpus, int32_t, 0), 1);
    assert_int_equal(g_array_index(vm->cpus, int32_t, 1), 3);

    struct vg_window copy;
    vg_window_copy(&copy, &sum);
    vg_window_clear(&sum);
    assert_int_equal(vm_at(&copy, 0)->cpu.run_ns, 12);
    vg_window_clear(&copy);
    vg_window_clear(&first);
    vg_window_clear(&second);
}

/* A window of VM 1, "victim", that lost ns to VM id, if name is given, which is there, too. */
static struct vg_window
lossy_window(int64_t end_ns, uint32_t id, const char *name, int64_t ns)
{
    struct vg_window window = window_of(end_ns, 1, "victim", "", 100, 5);
    const struct vg_lost_to lost = {.kind = VG_AGGRESSOR_VM, .vm_id = id, .ns = ns, .count = 1};

    if (!name)
        return window;
    struct vg_window other = window_of(end_ns, id, name, "", 200, 7);
    vg_window_add(&window, &other);
    vg_window_clear(&other);
    g_array_append_val(vg_window_find_vm(&window, 1)->lost_to, lost);
    return window;
}

static void
add_lossy(struct vg_window *sum, uint32_t id, const char *name, int64_t ns)
{
    struct vg_window window = lossy_window(sum->end_ns + S, id, name, ns);

    vg_window_add_live(sum, &window);
    vg_window_clear(&window);
}

/* What the victim lost to this name; -1: the name is not there. */
static int64_t
lost_to(const struct vg_window *sum, const char *name)
{
    const GArray *losses = vg_window_vm(sum, 1)->lost_to;
    int64_t ns = -1;

    for (guint i = 0; i < losses->len; i++) {
        const struct vg_lost_to *lost = &g_array_index(losses, struct vg_lost_to, i);
        if (strcmp(vg_window_aggressor(sum, lost), name) == 0)
            ns = MAX(ns, 0) + lost->ns;
    }
    return ns;
}

static void
test_losses_stay_with_the_name_of_who_is_gone(void **state)
{
    struct vg_window sum, copy;

    (void)state;
    vg_window_init(&sum, false);
    add_lossy(&sum, 2, "a", 3);
    add_lossy(&sum, 3, "b", 4);
    assert_int_equal(sum.vms->len, 2);
    assert_int_equal(lost_to(&sum, "a"), 3);
    assert_int_equal(lost_to(&sum, "b"), 4);
    add_lossy(&sum, 0, NULL, 0);
    vg_window_copy(&copy, &sum);
    assert_int_equal(lost_to(&copy, "a"), 3);
    assert_int_equal(lost_to(&copy, "b"), 4);
    assert_int_equal(lost_to(&copy, "host:unknown"), -1);
    vg_window_clear(&copy);
    /* Back as another process, it goes on; with another name, it begins anew. */
    add_lossy(&sum, 4, "a", 5);
    assert_int_equal(lost_to(&sum, "a"), 8);
    assert_int_equal(vg_window_vm(&sum, 4)->cpu.run_ns, 7);
    add_lossy(&sum, 4, "c", 6);
    assert_int_equal(lost_to(&sum, "a"), 8);
    assert_int_equal(lost_to(&sum, "c"), 6);
    assert_int_equal(vg_window_vm(&sum, 4)->cpu.run_ns, 7);
    /* Without the victim nobody wants the names. */
    struct vg_window window = window_of(sum.end_ns + S, 9, "other", "", 300, 5);
    vg_window_add_live(&sum, &window);
    assert_int_equal(sum.gone->len, 0);
    vg_window_clear(&window);
    vg_window_clear(&sum);
}

static void
test_names_of_the_gone_are_limited(void **state)
{
    struct vg_window sum;
    char name[16];

    (void)state;
    vg_window_init(&sum, false);
    for (uint32_t i = 0; i <= VG_SUM_GONE_MAX + 1; i++) {
        g_snprintf(name, sizeof(name), "vm-%u", i);
        add_lossy(&sum, i + 2, name, i + 1);
    }
    assert_int_equal(sum.gone->len, VG_SUM_GONE_MAX);
    assert_int_equal(lost_to(&sum, "vm-0"), -1);
    assert_int_equal(lost_to(&sum, "vm-1"), 2);
    assert_int_equal(lost_to(&sum, "host:unknown"), -1);
    /* The label began anew. */
    add_lossy(&sum, 1000, "vm-0", 9);
    assert_int_equal(lost_to(&sum, "vm-0"), 9);
    vg_window_clear(&sum);
}

/* A part that tells of GPUs only, of a VM of which run_ns is a lie. */
static enum vg_gather_taken
put_besides(vg_gather *gather, unsigned int source, int64_t end_ns, int32_t pid)
{
    const struct vg_provenance provenance = {.besides = true, .cost_ns = 1, .gpu_source = "nvml"};
    struct vg_window window = window_of(end_ns, 3, "vm", "", pid, 7);
    struct vg_vm_sample *vm = vm_at(&window, 0);
    struct vg_gpu_sample gpu = {
        .device = "0000:03:00.0", .engine = "render", .busy_ns = 9, .mem_bytes = 20};

    g_array_append_val(window.gpus, gpu);
    g_array_append_val(vm->gpus, gpu);
    vm->gpu_known = true;
    vm->gpu_active_ns = 9;
    const struct vg_gpu_request_sample request = {.vm = vm->id, .end_ns = end_ns, .left_out = 1};
    g_array_append_val(window.gpu_requests, request);
    return vg_gather_put(gather, source, &window, &provenance, 0);
}

static void
test_gpu_use_completes_a_window(void **state)
{
    g_autoptr(vg_gather) gather = vg_gather_new(S);
    struct vg_gathered gathered;
    unsigned int cpu = vg_gather_add_source(gather), gpu = vg_gather_add_source(gather);
    struct vg_window window = window_of(S, 0, "vm", "", 100, 5);
    /* A window of which nothing was seen, and the same engine twice. */
    const struct vg_provenance lost = {.confidence = 0};
    struct vg_gpu_sample traced = {.device = "0000:03:00.0",
                                   .engine = "render",
                                   .busy_ns = 8,
                                   .lacks = VG_GPU_ONLY_WORK | VG_GPU_NO_MEMORY};

    (void)state;
    g_array_append_val(vm_at(&window, 0)->gpus, traced);
    assert_int_equal(put_besides(gather, gpu, S, 100), VG_GATHER_TAKEN);
    vg_gather_put(gather, cpu, &window, &lost, 0);
    assert_true(vg_gather_next(gather, S, &gathered));
    assert_int_equal(gathered.window.vms->len, 1);
    const struct vg_vm_sample *vm = vm_at(&gathered.window, 0);
    assert_false(gathered.provenance.besides);
    assert_int_equal(vm->cpu.run_ns, 5);
    assert_true(vm->gpu_known);
    assert_int_equal(vm->gpu_active_ns, 9);
    assert_int_equal(vm->gpus->len, 1);
    const struct vg_gpu_sample *joined = &g_array_index(vm->gpus, struct vg_gpu_sample, 0);
    assert_int_equal(joined->busy_ns, 8);
    assert_int_equal(joined->mem_bytes, 20);
    /* Memory and slices are told by the other one. */
    assert_int_equal(joined->lacks, VG_GPU_ONLY_WORK & ~VG_GPU_NO_SLICES);
    assert_int_equal(gathered.window.gpus->len, 1);
    assert_string_equal(gathered.provenance.gpu_source, "nvml");
    vg_window_clear(&gathered.window);
    /* A VM that nobody else has seen yet would have a CPU use of zeros. */
    put_besides(gather, gpu, 2 * S, 200);
    put(gather, cpu, window_of(2 * S, 0, "vm", "", 100, 5), 1);
    assert_true(vg_gather_next(gather, 2 * S, &gathered));
    assert_int_equal(gathered.window.vms->len, 1);
    assert_int_equal(vm_at(&gathered.window, 0)->pid, 100);
    vg_window_clear(&gathered.window);
}

/* A window that was missed stays missed, also if GPU use is known of it. */
static void
test_gpu_use_makes_no_window_where_cpus_are_measured(void **state)
{
    g_autoptr(vg_gather) gather = vg_gather_new(S);
    struct vg_gathered gathered;
    struct vg_gather_stats stats;
    unsigned int cpu = vg_gather_add_source(gather), gpu = vg_gather_add_source(gather);

    (void)state;
    put(gather, cpu, window_of(S, 0, "vm", "", 100, 5), 1);
    put_besides(gather, gpu, S, 100);
    assert_true(vg_gather_next(gather, S, &gathered));
    vg_window_clear(&gathered.window);
    put_besides(gather, gpu, 2 * S, 100);
    assert_false(vg_gather_next(gather, 10 * S, &gathered));
    assert_int_equal(put_besides(gather, gpu, 2 * S, 100), VG_GATHER_DUPLICATE);
    /* The one after it says so, and one that only comes late is still taken. */
    struct vg_window after = window_of(3 * S, 0, "vm", "", 100, 5);
    const struct vg_provenance provenance = {.confidence = 1, .missed = 1};
    put_besides(gather, gpu, 3 * S, 100);
    vg_gather_put(gather, cpu, &after, &provenance, 0);
    assert_true(vg_gather_next(gather, 3 * S, &gathered));
    assert_int_equal(gathered.window.begin_ns, 2 * S);
    assert_int_equal(gathered.provenance.missed, 1);
    vg_window_clear(&gathered.window);
    put_besides(gather, gpu, 4 * S, 100);
    assert_false(vg_gather_next(gather, 10 * S, &gathered));
    put(gather, cpu, window_of(4 * S, 0, "vm", "", 100, 5), 1);
    assert_true(vg_gather_next(gather, 10 * S, &gathered));
    vg_window_clear(&gathered.window);
    vg_gather_read_stats(gather, &stats);
    assert_int_equal(stats.windows, 3);
    assert_int_equal(stats.late, 0);
}

/* Who measures CPUs was late and has one long window, of which GPU use has three pieces. */
static void
test_gpu_use_of_a_long_window(void **state)
{
    g_autoptr(vg_gather) gather = vg_gather_new(S);
    struct vg_gathered gathered;
    unsigned int cpu = vg_gather_add_source(gather), gpu = vg_gather_add_source(gather);

    (void)state;
    put_besides(gather, gpu, S, 100);
    assert_false(vg_gather_next(gather, 3 * S, &gathered));
    for (int64_t end_ns = 2 * S; end_ns <= 4 * S; end_ns += S) {
        put_besides(gather, gpu, end_ns, 100);
        assert_false(vg_gather_next(gather, end_ns, &gathered));
    }
    struct vg_window window = window_of(4 * S, 0, "vm", "", 100, 5);
    const struct vg_provenance provenance = {.confidence = 1};
    window.begin_ns = S;
    vg_gather_put(gather, cpu, &window, &provenance, 0);
    assert_true(vg_gather_next(gather, 4 * S, &gathered));
    assert_int_equal(gathered.window.begin_ns, S);
    const struct vg_vm_sample *vm = vm_at(&gathered.window, 0);
    assert_int_equal(vm->gpu_active_ns, 27);
    assert_int_equal(vm->gpus->len, 1);
    assert_int_equal(g_array_index(vm->gpus, struct vg_gpu_sample, 0).busy_ns, 27);
    assert_int_equal(g_array_index(vm->gpus, struct vg_gpu_sample, 0).mem_bytes, 20);
    assert_int_equal(vm->cpu.run_ns, 5);
    assert_int_equal(gathered.window.gpu_requests->len, 3);
    for (guint i = 0; i < 3; i++) {
        const struct vg_gpu_request_sample *request =
            &g_array_index(gathered.window.gpu_requests, struct vg_gpu_request_sample, i);
        assert_int_equal(request->left_out, 1);
        assert_int_equal(request->vm, vm->id);
        assert_int_equal(request->end_ns, (i + 2) * S);
    }
    vg_window_clear(&gathered.window);
    /* They are not added again. */
    put_besides(gather, gpu, 5 * S, 100);
    put(gather, cpu, window_of(5 * S, 0, "vm", "", 100, 5), 1);
    assert_true(vg_gather_next(gather, 5 * S, &gathered));
    assert_int_equal(vm_at(&gathered.window, 0)->gpu_active_ns, 9);
    vg_window_clear(&gathered.window);
}

/* A part that tells of GPUs only, from begin to end: the VM with this pid had one busy for half of
 * it, and did 10 requests in a second. */
static enum vg_gather_taken
put_long(vg_gather *gather, unsigned int source, int64_t begin_ns, int64_t end_ns, int32_t pid)
{
    const struct vg_provenance provenance = {.besides = true, .cost_ns = 1, .gpu_source = "nvml"};
    const int64_t length_ns = end_ns - begin_ns;
    struct vg_window window = window_of(end_ns, 3, "vm", "", pid, 0);
    struct vg_gpu_sample gpu = {.device = "0000:03:00.0",
                                .engine = "render",
                                .busy_ns = length_ns / 2,
                                .requests = (uint64_t)(length_ns / (S / 10))};

    window.begin_ns = begin_ns;
    g_array_append_val(window.gpus, gpu);
    g_array_append_val(vm_at(&window, 0)->gpus, gpu);
    vm_at(&window, 0)->gpu_known = true;
    vm_at(&window, 0)->gpu_active_ns = length_ns / 2;
    const struct vg_gpu_request_sample request = {.vm = 3, .end_ns = end_ns};
    g_array_append_val(window.gpu_requests, request);
    return vg_gather_put(gather, source, &window, &provenance, 0);
}

/* Takes the next window, which has this, and returns how many lacked the use of GPUs before it. */
static uint64_t
take_with(vg_gather *gather, int64_t now_ns, int64_t end_ns, int64_t busy_ns, guint n_requests)
{
    struct vg_gathered gathered;

    assert_true(vg_gather_next(gather, now_ns, &gathered));
    assert_int_equal(gathered.window.end_ns, end_ns);
    assert_int_equal(vm_at(&gathered.window, 0)->cpu.run_ns, 5);
    assert_int_equal(vm_at(&gathered.window, 0)->gpu_known, busy_ns >= 0);
    assert_int_equal(gathered.window.gpus->len, busy_ns >= 0);
    for (guint i = 0; i < gathered.window.gpus->len; i++) {
        const struct vg_gpu_sample *gpu =
            &g_array_index(gathered.window.gpus, struct vg_gpu_sample, i);
        assert_int_equal(gpu->busy_ns, busy_ns);
        assert_int_equal(gpu->requests, busy_ns / (S / 20));
        assert_int_equal(vm_at(&gathered.window, 0)->gpu_active_ns, busy_ns);
    }
    assert_int_equal(gathered.window.gpu_requests->len, n_requests);
    assert_int_equal(gathered.provenance.missed, 0);
    const uint64_t missed = gathered.provenance.gpu_missed;
    vg_window_clear(&gathered.window);
    return missed;
}

/* GPUs were read late, and have one long window: those that wait for it have it all, and others are
 * counted. */
static void
test_gpu_use_that_comes_late(void **state)
{
    g_autoptr(vg_gather) gather = vg_gather_new(S);
    struct vg_gathered gathered;
    unsigned int cpu = vg_gather_add_source(gather), gpu = vg_gather_add_source(gather);

    (void)state;
    vg_gather_set_lag(gather, gpu, 3 * S);
    for (int64_t i = 1; i <= 3; i++)
        put(gather, cpu, window_of(i * S, 0, "vm", "", 100, 5), 1);
    assert_false(vg_gather_next(gather, 4 * S, &gathered));
    put_long(gather, gpu, 0, 3 * S, 100);
    assert_int_equal(take_with(gather, 4 * S, S, S / 2, 0), 0);
    assert_int_equal(take_with(gather, 4 * S, 2 * S, S / 2, 0), 0);
    assert_int_equal(take_with(gather, 4 * S, 3 * S, S / 2, 1), 0);
    /* Two windows of the long one are closed already. */
    for (int64_t i = 4; i <= 6; i++)
        put(gather, cpu, window_of(i * S, 0, "vm", "", 100, 5), 1);
    assert_int_equal(take_with(gather, 9 * S, 4 * S, -1, 0), 0);
    assert_int_equal(take_with(gather, 9 * S, 5 * S, -1, 0), 0);
    put_long(gather, gpu, 3 * S, 6 * S, 100);
    assert_int_equal(take_with(gather, 9 * S, 6 * S, S / 2, 1), 2);
    /* All of it is. */
    put(gather, cpu, window_of(7 * S, 0, "vm", "", 100, 5), 1);
    assert_int_equal(take_with(gather, 11 * S, 7 * S, -1, 0), 0);
    assert_int_equal(put_long(gather, gpu, 6 * S, 7 * S, 100), VG_GATHER_LATE);
    put(gather, cpu, window_of(8 * S, 0, "vm", "", 100, 5), 1);
    put_long(gather, gpu, 7 * S, 8 * S, 100);
    assert_int_equal(take_with(gather, 11 * S, 8 * S, S / 2, 1), 1);
}

/* What was put aside is not lost if who measures CPUs comes after all, whatever the lengths. */
static void
test_cpus_that_come_late(void **state)
{
    g_autoptr(vg_gather) gather = vg_gather_new(S);
    struct vg_gathered gathered;
    unsigned int cpu = vg_gather_add_source(gather), gpu = vg_gather_add_source(gather);

    (void)state;
    put_long(gather, gpu, 0, S, 100);
    put_long(gather, gpu, S, 4 * S, 100);
    put_long(gather, gpu, 4 * S, 5 * S, 100);
    assert_false(vg_gather_next(gather, 10 * S, &gathered));
    put(gather, cpu, window_of(S, 0, "vm", "", 100, 5), 1);
    assert_int_equal(take_with(gather, 10 * S, S, S / 2, 1), 0);
    put(gather, cpu, window_of(2 * S, 0, "vm", "", 100, 5), 1);
    assert_int_equal(take_with(gather, 10 * S, 2 * S, S / 2, 0), 0);
    /* A long one of both kinds, the end of which GPU use lacks. */
    struct vg_window window = window_of(6 * S, 0, "vm", "", 100, 5);
    const struct vg_provenance provenance = {.confidence = 1};
    window.begin_ns = 2 * S;
    vg_gather_put(gather, cpu, &window, &provenance, 0);
    assert_int_equal(take_with(gather, 10 * S, 6 * S, 3 * S / 2, 2), 0);
    assert_int_equal(put_long(gather, gpu, 5 * S, 6 * S, 100), VG_GATHER_LATE);
    put(gather, cpu, window_of(7 * S, 0, "vm", "", 100, 5), 1);
    put_long(gather, gpu, 6 * S, 7 * S, 100);
    assert_int_equal(take_with(gather, 10 * S, 7 * S, S / 2, 1), 1);
}

/* CPU figures of a time of which windows were closed without them are in none, which is counted. */
static void
test_cpus_of_closed_windows(void **state)
{
    g_autoptr(vg_gather) gather = vg_gather_new(S);
    struct vg_gathered gathered;
    struct vg_gather_stats stats;
    unsigned int cpu = vg_gather_add_source(gather), gpu = vg_gather_add_source(gather);
    const struct vg_provenance provenance = {.confidence = 1};

    (void)state;
    put(gather, cpu, window_of(S, 0, "vm", "", 100, 5), 1);
    put_long(gather, gpu, 0, S, 100);
    assert_int_equal(take_with(gather, S, S, S / 2, 1), 0);
    /* It hangs, and windows with the use of GPUs alone go on. */
    vg_gather_set_alive(gather, cpu, false);
    for (int64_t i = 2; i <= 3; i++) {
        put_long(gather, gpu, (i - 1) * S, i * S, 100);
        assert_true(vg_gather_next(gather, i * S, &gathered));
        assert_true(gathered.provenance.besides);
        vg_window_clear(&gathered.window);
    }
    vg_gather_set_alive(gather, cpu, true);
    struct vg_window window = window_of(4 * S, 0, "vm", "", 100, 5);
    window.begin_ns = S;
    assert_int_equal(vg_gather_put(gather, cpu, &window, &provenance, 0), VG_GATHER_LATE);
    put(gather, cpu, window_of(5 * S, 0, "vm", "", 100, 5), 1);
    put_long(gather, gpu, 3 * S, 4 * S, 100);
    put_long(gather, gpu, 4 * S, 5 * S, 100);
    assert_true(vg_gather_next(gather, 5 * S, &gathered));
    assert_int_equal(gathered.window.begin_ns, 4 * S);
    assert_int_equal(gathered.provenance.missed, 3);
    vg_window_clear(&gathered.window);
    vg_gather_read_stats(gather, &stats);
    assert_int_equal(stats.late, 1);
}

/* Windows that are lost to both are told once: who measures CPUs has missed the second and the
 * third one, and the use of GPUs of the first four comes after they are closed, in one or another
 * way. */
static void
test_windows_lost_to_both(void **state)
{
    enum { LATE, LONG, TOLD, TWO_SOURCES, WAYS };
    const struct vg_provenance missed = {.confidence = 1, .missed = 2};
    /* All of GPUs but the first window; TOLD: of the hole alone. */
    static const uint64_t gpu_missed[WAYS] = {1, 1, 0, 1};

    (void)state;
    for (int way = 0; way < WAYS; way++) {
        g_autoptr(vg_gather) gather = vg_gather_new(S);
        struct vg_gathered gathered;
        const unsigned int cpu = vg_gather_add_source(gather), gpu = vg_gather_add_source(gather);
        const unsigned int other = vg_gather_add_source(gather);
        vg_gather_set_alive(gather, other, false);
        put(gather, cpu, window_of(S, 0, "vm", "", 100, 5), 1);
        put_long(gather, gpu, 0, S, 100);
        assert_int_equal(take_with(gather, S, S, S / 2, 1), 0);
        struct vg_window window = window_of(4 * S, 0, "vm", "", 100, 5);
        if (way == TOLD) {
            const struct vg_provenance told = {
                .besides = true, .gpu_source = "nvml", .gpu_missed = 2};
            struct vg_window part = window_of(4 * S, 3, "vm", "", 100, 0);
            vg_gather_put(gather, gpu, &part, &told, 0);
        }
        vg_gather_put(gather, cpu, &window, &missed, 0);
        assert_true(vg_gather_next(gather, 10 * S, &gathered));
        assert_int_equal(gathered.provenance.missed, 2);
        assert_int_equal(gathered.provenance.gpu_missed, 0);
        vg_window_clear(&gathered.window);
        put(gather, cpu, window_of(5 * S, 0, "vm", "", 100, 5), 1);
        if (way == LATE || way == TWO_SOURCES)
            assert_int_equal(put_long(gather, gpu, S, 4 * S, 100), VG_GATHER_LATE);
        if (way == TWO_SOURCES)
            assert_int_equal(put_long(gather, other, 2 * S, 4 * S, 100), VG_GATHER_LATE);
        put_long(gather, gpu, way == LONG ? S : 4 * S, 5 * S, 100);
        assert_int_equal(take_with(gather, 10 * S, 5 * S, S / 2, 1), gpu_missed[way]);
    }
}

/* A window without CPU figures lacks the use of one GPU, and is then told as one that who measures
 * CPUs has missed. */
static void
test_a_window_lost_to_gpus_first(void **state)
{
    g_autoptr(vg_gather) gather = vg_gather_new(S);
    struct vg_gathered gathered;
    const unsigned int cpu = vg_gather_add_source(gather), gpu = vg_gather_add_source(gather);
    const unsigned int other = vg_gather_add_source(gather);
    const struct vg_provenance missed = {.confidence = 1, .missed = 2};
    uint64_t n = 0;

    (void)state;
    vg_gather_set_alive(gather, other, false);
    put(gather, cpu, window_of(S, 0, "vm", "", 100, 5), 1);
    vg_gather_set_alive(gather, cpu, false);
    for (int64_t i = 1; i <= 3; i++) {
        put_long(gather, gpu, (i - 1) * S, i * S, 100);
        assert_true(vg_gather_next(gather, 10 * S, &gathered));
        n += gathered.provenance.missed + gathered.provenance.gpu_missed;
        vg_window_clear(&gathered.window);
        if (i == 2)
            assert_int_equal(put_long(gather, other, S, 2 * S, 200), VG_GATHER_LATE);
    }
    assert_int_equal(n, 1);
    vg_gather_set_alive(gather, cpu, true);
    struct vg_window window = window_of(4 * S, 0, "vm", "", 100, 5);
    vg_gather_put(gather, cpu, &window, &missed, 0);
    put_long(gather, gpu, 3 * S, 4 * S, 100);
    assert_true(vg_gather_next(gather, 10 * S, &gathered));
    assert_int_equal(gathered.provenance.missed, 1);
    assert_int_equal(gathered.provenance.gpu_missed, 0);
    vg_window_clear(&gathered.window);
}

/* A part of a source that comes at some time: those of each source are one after another, some of
 * them long. missed: so many windows are missing before it. */
struct coming {
    int64_t begin_ns, end_ns, at_ns;
    bool is_cpu;
    uint64_t missed;
};

static int
by_time(const void *a, const void *b)
{
    const struct coming *x = a, *y = b;

    return (x->at_ns > y->at_ns) - (x->at_ns < y->at_ns);
}

/* Draws parts that are in time, late, and much too late, and CPU figures that never come. */
static void
draw_parts(GRand *chance, GArray *parts, bool is_cpu, int64_t end_ns)
{
    int64_t at_ns = 0;
    uint64_t missed = 0;

    for (int64_t ns = 0; ns < end_ns;) {
        const bool is_calm = g_rand_int_range(chance, 0, 4) > 0;
        const int64_t length_ns = is_calm ? S : S * g_rand_int_range(chance, 1, 7);
        const int64_t late_ns = is_calm ? 0 : S / 10 * g_rand_int_range(chance, 0, 80);
        struct coming part = {.begin_ns = ns, .is_cpu = is_cpu};
        part.end_ns = MIN(ns + length_ns, end_ns);
        at_ns = MAX(at_ns, part.end_ns + late_ns);
        part.at_ns = at_ns;
        ns = part.end_ns;
        if (is_cpu && ns > S && ns < end_ns && g_rand_int_range(chance, 0, 8) == 0) {
            missed += (uint64_t)((ns - part.begin_ns) / S);
            continue;
        }
        part.missed = missed;
        missed = 0;
        g_array_append_val(parts, part);
    }
}

/* A GPU is busy all the time. Whatever comes late: no window has more than its length, what windows
 * lack is counted, and so are windows that are missing, each once. */
static void
check_nothing_is_lost(GRand *chance, uint64_t seed)
{
    g_autoptr(vg_gather) gather = vg_gather_new(S);
    g_autoptr(GArray) parts = g_array_new(FALSE, FALSE, sizeof(struct coming));
    const unsigned int cpu = vg_gather_add_source(gather), gpu = vg_gather_add_source(gather);
    const int64_t end_ns = 40 * S;
    int64_t lacked_ns = 0, cpu_ns = 0, holes_ns = 0;
    uint64_t missed = 0, gpu_missed = 0;
    struct vg_gathered gathered;

    vg_gather_set_lag(gather, gpu, 3 * S);
    draw_parts(chance, parts, true, end_ns);
    draw_parts(chance, parts, false, end_ns);
    /* The last ones are in time, so that all is told. */
    const struct coming last[] = {{end_ns, end_ns + S, 100 * S, true, 0},
                                  {end_ns, end_ns + S, 99 * S, false, 0}};
    g_array_append_vals(parts, last, 2);
    g_array_sort(parts, by_time);
    for (guint i = 0; i < parts->len; i++) {
        const struct coming *part = &g_array_index(parts, struct coming, i);
        if (part->is_cpu) {
            const struct vg_provenance provenance = {.confidence = 1, .missed = part->missed};
            struct vg_window window = window_of(part->end_ns, 0, "vm", "", 100, 5);
            window.begin_ns = part->begin_ns;
            vg_gather_put(gather, cpu, &window, &provenance, 0);
        } else {
            put_long(gather, gpu, part->begin_ns, part->end_ns, 100);
        }
        while (vg_gather_next(gather, part->at_ns, &gathered)) {
            const int64_t length_ns = gathered.window.end_ns - gathered.window.begin_ns;
            assert_true(gathered.window.begin_ns >= cpu_ns);
            holes_ns += gathered.window.begin_ns - cpu_ns;
            cpu_ns = gathered.window.end_ns;
            int64_t busy_ns = 0;
            if (gathered.window.gpus->len > 0)
                busy_ns = 2 * g_array_index(gathered.window.gpus, struct vg_gpu_sample, 0).busy_ns;
            assert_in_range(busy_ns, 0, length_ns);
            lacked_ns += length_ns - busy_ns;
            missed += gathered.provenance.missed;
            gpu_missed += gathered.provenance.gpu_missed;
            vg_window_clear(&gathered.window);
        }
    }
    if (missed * (uint64_t)S != (uint64_t)holes_ns ||
        gpu_missed * (uint64_t)S != (uint64_t)lacked_ns)
        chance_print(seed);
    assert_int_equal(cpu_ns, end_ns + S);
    assert_int_equal(missed * (uint64_t)S, holes_ns);
    assert_int_equal(gpu_missed * (uint64_t)S, lacked_ns);
}

static void
test_nothing_is_lost_without_saying_so(void **state)
{
    const uint64_t seed = chance_seed();

    (void)state;
    for (unsigned i = 0; i < chance_rounds(100, 5000); i++) {
        GRand *chance = g_rand_new_with_seed((guint32)(seed + i));
        check_nothing_is_lost(chance, seed + i);
        g_rand_free(chance);
    }
}

static void
test_gpu_use_alone(void **state)
{
    g_autoptr(vg_gather) gather = vg_gather_new(S);
    struct vg_gathered gathered;
    unsigned int cpu = vg_gather_add_source(gather), gpu = vg_gather_add_source(gather);
    const struct vg_provenance provenance = {.besides = true};
    struct vg_window empty;

    (void)state;
    vg_gather_set_alive(gather, cpu, false);
    put_besides(gather, gpu, S, 100);
    assert_true(vg_gather_next(gather, S, &gathered));
    assert_true(gathered.provenance.besides);
    assert_true(vm_at(&gathered.window, 0)->gpu_known);
    vg_window_clear(&gathered.window);
    /* Nothing is known of anything. */
    vg_window_init(&empty, false);
    empty.begin_ns = S;
    empty.end_ns = 2 * S;
    vg_gather_put(gather, gpu, &empty, &provenance, 0);
    assert_false(vg_gather_next(gather, 10 * S, &gathered));
}

/* Requests of a part keep their VM and their engine, which are numbered anew. */
static void
test_gpu_requests(void **state)
{
    (void)state;
    g_autoptr(vg_gather) gather = vg_gather_new(S);
    struct vg_window windows[2];
    struct vg_gathered gathered;
    const struct vg_provenance trusted = {.confidence = 1}, less = {.confidence = 0.5};
    static const char *const engines[] = {"bcs0", "rcs0"};

    vg_gather_add_source(gather);
    vg_gather_add_source(gather);
    for (unsigned int i = 0; i < 2; i++) {
        struct vg_vm_sample vm;
        vg_window_init(&windows[i], false);
        windows[i].end_ns = S;
        vg_vm_sample_init(&vm);
        vm.id = 7;
        vm.pid = 100 + (int32_t)i;
        g_array_append_val(windows[i].vms, vm);
        struct vg_gpu_sample gpu = {.device = "card0"};
        g_strlcpy(gpu.engine, engines[i], sizeof(gpu.engine));
        g_array_append_val(windows[i].gpus, gpu);
        const struct vg_gpu_request_sample request = {.gpu = 0, .vm = 7, .end_ns = 1 + (int64_t)i};
        const struct vg_gpu_request_sample of_host = {.gpu = 0, .vm = VG_PROCESS_NO_ID};
        g_array_append_val(windows[i].gpu_requests, request);
        const struct vg_gpu_request_sample of_nobody = {.gpu = 0, .vm = 99};
        g_array_append_val(windows[i].gpu_requests, of_host);
        g_array_append_val(windows[i].gpu_requests, of_nobody);
    }
    vg_gather_put(gather, 0, &windows[0], &trusted, 0);
    vg_gather_put(gather, 1, &windows[1], &less, 0);
    assert_true(vg_gather_next(gather, 2 * S, &gathered));
    const GArray *requests = gathered.window.gpu_requests;
    assert_int_equal(requests->len, 6);
    for (guint i = 0; i < requests->len; i++) {
        const struct vg_gpu_request_sample *request =
            &g_array_index(requests, struct vg_gpu_request_sample, i);
        const struct vg_gpu_sample *gpu =
            &g_array_index(gathered.window.gpus, struct vg_gpu_sample, request->gpu);
        assert_string_equal(gpu->engine, engines[i / 3]);
        if (i % 3 > 0)
            assert_int_equal(request->vm, VG_PROCESS_NO_ID);
        else
            assert_int_equal(vg_window_vm(&gathered.window, request->vm)->pid, 100 + i / 3);
    }
    vg_window_clear(&gathered.window);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_window_waits_for_all_who_live),
        cmocka_unit_test(test_grace_is_one_window),
        cmocka_unit_test(test_who_is_known_to_be_late_has_more_grace),
        cmocka_unit_test(test_what_another_source_has_seen_was_not_missed),
        cmocka_unit_test(test_the_dead_are_not_waited_for),
        cmocka_unit_test(test_late_and_twice_are_counted_and_dropped),
        cmocka_unit_test(test_windows_come_in_order_and_do_not_overlap),
        cmocka_unit_test(test_who_floods_does_not_wait_for_ever),
        cmocka_unit_test(test_ids_hold_and_are_not_given_twice),
        cmocka_unit_test(test_aggressors_keep_their_vm),
        cmocka_unit_test(test_gpu_use_completes_a_window),
        cmocka_unit_test(test_gpu_use_makes_no_window_where_cpus_are_measured),
        cmocka_unit_test(test_gpu_use_of_a_long_window),
        cmocka_unit_test(test_gpu_use_that_comes_late),
        cmocka_unit_test(test_cpus_that_come_late),
        cmocka_unit_test(test_cpus_of_closed_windows),
        cmocka_unit_test(test_windows_lost_to_both),
        cmocka_unit_test(test_a_window_lost_to_gpus_first),
        cmocka_unit_test(test_nothing_is_lost_without_saying_so),
        cmocka_unit_test(test_gpu_use_alone),
        cmocka_unit_test(test_windows_add_up),
        cmocka_unit_test(test_gpu_requests),
        cmocka_unit_test(test_losses_stay_with_the_name_of_who_is_gone),
        cmocka_unit_test(test_names_of_the_gone_are_limited),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
