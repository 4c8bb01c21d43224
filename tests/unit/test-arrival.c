/* SPDX-License-Identifier: Apache-2.0
 *
 * What a host is told to be worth to a VM that comes.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <glib.h>

#include "policy/arrival.h"
#include "policy/predict.h"

static vg_snapshot *snapshot;
static struct vg_policy_config config;

static int
set_up(void **state)
{
    (void)state;
    vg_policy_config_init(&config);
    snapshot = vg_snapshot_new(VG_SOURCE_EXAMPLE);
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    vg_snapshot_free(snapshot);
    return 0;
}

/* A host with so many CPUs, whose VMs want so much. */
static struct vg_snap_host *
add_host(const char *name, int64_t cpus, double wanted)
{
    struct vg_snap_host *host = vg_snapshot_add_host(snapshot, name);

    host->cpus = cpus;
    g_autofree char *vm = g_strdup_printf("vm-%s", name);
    vg_snap_host_add_vm(host, vm)->run_share = wanted;
    return host;
}

/* Of its only GPU. */
static struct vg_snap_gpu *
add_type(struct vg_snap_host *host, const char *name, int64_t free, int64_t made)
{
    struct vg_snap_gpu *gpu =
        host->gpus->len > 0 ? host->gpus->pdata[0] : vg_snap_host_add_gpu(host, "0000:41:00.0");
    struct vg_snap_vgpu_type *type = vg_record_new(&vg_snap_vgpu_type_record);

    type->type = g_strdup(name);
    type->free = free;
    type->made = made;
    g_ptr_array_add(gpu->vgpu_types, type);
    return gpu;
}

static void
add_gpu(struct vg_snap_host *host, int64_t free, double busy)
{
    struct vg_snap_gpu *gpu = add_type(host, "nvidia-63", free, 0);
    struct vg_snap_engine *engine = vg_record_new(&vg_snap_engine_record);

    engine->engine = g_strdup("rcs0");
    engine->share = busy;
    g_ptr_array_add(gpu->engines, engine);
}

static size_t
index_of(const struct vg_snap_host *host)
{
    guint index = 0;

    assert_true(g_ptr_array_find(snapshot->hosts, host, &index));
    return index;
}

static struct vg_arrival_score
rate(const struct vg_arrival *arrival, const struct vg_snap_host *host)
{
    g_autoptr(vg_arrival_hosts) hosts = vg_arrival_hosts_new(snapshot, &config);
    struct vg_arrival_score score;

    vg_arrival_rate(arrival, hosts, index_of(host), &config, &score);
    assert_true(score.score >= 0 && score.score <= 1);
    assert_true(strlen(score.text) > 10);
    return score;
}

static void
test_cpu(void **state)
{
    (void)state;
    struct vg_arrival arrival = {.vcpus = 4, .vm_class = VG_CLASS_CPU};
    const struct vg_snap_host *idle = add_host("idle", 8, 0.5), *half = add_host("half", 8, 4),
                              *full = add_host("full", 8, 8);

    vg_arrival_expect(&arrival);
    assert_true(arrival.cpu_demand > 3 && arrival.cpu_demand <= 4);
    assert_true(rate(&arrival, idle).score > rate(&arrival, half).score);
    assert_true(rate(&arrival, half).score > rate(&arrival, full).score);
    assert_true(rate(&arrival, half).lost <= 0);
    /* All that it wants is lost there, by itself or by those who are there. */
    assert_true(rate(&arrival, full).lost > 3.5 && rate(&arrival, full).score < 0.01);
    /* One that hardly does anything loses hardly anything. */
    arrival.vm_class = VG_CLASS_IDLE;
    vg_arrival_expect(&arrival);
    assert_true(rate(&arrival, full).lost < 0.5);
}

static void
test_gpu(void **state)
{
    (void)state;
    struct vg_arrival arrival = {
        .vcpus = 2, .vm_class = VG_CLASS_GPU, .gpu_type = "nvidia-63", .gpus = 1};
    struct vg_snap_host *none = add_host("none", 8, 1), *busy = add_host("busy", 8, 1),
                        *free_one = add_host("free", 8, 1), *taken = add_host("taken", 8, 1);

    add_gpu(busy, 1, 0.9);
    add_gpu(free_one, 1, 0.1);
    add_gpu(taken, 0, 0);
    vg_arrival_expect(&arrival);
    assert_true(rate(&arrival, none).veto && rate(&arrival, taken).veto);
    assert_false(rate(&arrival, busy).veto);
    assert_true(rate(&arrival, free_one).score > rate(&arrival, busy).score);
    assert_non_null(strstr(rate(&arrival, busy).text, "90 % busy"));
    arrival.gpus = 2;
    assert_true(rate(&arrival, free_one).veto);
    /* Any type will do. */
    arrival.gpu_type = NULL;
    assert_true(rate(&arrival, free_one).veto && rate(&arrival, none).veto);
    assert_non_null(strstr(rate(&arrival, none).text, "0 vGPUs are free, but the VM needs 2"));
    arrival.gpus = 1;
    assert_false(rate(&arrival, free_one).veto);
    assert_true(rate(&arrival, taken).veto);
    assert_true(rate(&arrival, free_one).score > rate(&arrival, busy).score);
    /* Whole GPUs are no vGPUs, but can be asked for. */
    add_type(none, "10de:2331", 1, 1);
    assert_true(rate(&arrival, none).veto);
    arrival.gpu_type = "10de:2331";
    assert_false(rate(&arrival, none).veto);
    /* None is needed, whatever type is named. */
    arrival.gpu_type = "nvidia-63";
    arrival.gpus = 0;
    assert_false(rate(&arrival, none).veto);
    none->maintenance = true;
    assert_true(rate(&arrival, none).veto);
}

/* Of hosts where nothing is lost, an idle GPU is best to spread, and a GPU in use with few free
 * places to pack. */
static void
test_gpu_placement(void **state)
{
    (void)state;
    struct vg_arrival arrival = {
        .vcpus = 2, .vm_class = VG_CLASS_IDLE, .gpu_type = "nvidia-63", .gpus = 1};
    struct vg_snap_host *empty = add_host("empty", 8, 1), *used = add_host("used", 8, 1),
                        *nearly_full = add_host("nearly-full", 8, 1);
    struct vg_host_group *group = &config.host_groups[0];

    add_gpu(empty, 8, 0);
    add_gpu(used, 7, 0.1);
    add_gpu(nearly_full, 1, 0.4);
    for (guint i = 1; i < snapshot->hosts->len; i++) {
        struct vg_snap_host *host = snapshot->hosts->pdata[i];
        struct vg_snap_gpu_use *use = vg_record_new(&vg_snap_gpu_use_record);
        use->device = g_strdup("0000:41:00.0");
        use->engine = g_strdup("rcs0");
        use->vgpu_type = g_strdup("nvidia-63");
        g_ptr_array_add(((struct vg_snap_vm *)host->vms->pdata[0])->gpu, use);
    }
    vg_arrival_expect(&arrival);
    assert_true(rate(&arrival, empty).score > rate(&arrival, used).score);
    assert_true(rate(&arrival, used).score > rate(&arrival, nearly_full).score);
    config.gpu_placement = VG_GPU_PLACEMENT_PACK;
    assert_true(rate(&arrival, empty).score < rate(&arrival, used).score);
    assert_true(rate(&arrival, used).score < rate(&arrival, nearly_full).score);
    /* One host spreads: its idle GPU is as good as can be. */
    *group = (struct vg_host_group){
        .match = "empty", .has_gpu_placement = true, .gpu_placement = VG_GPU_PLACEMENT_SPREAD};
    config.n_host_groups = 1;
    assert_true(rate(&arrival, empty).score > rate(&arrival, used).score);
    /* Where it would lose, no packing makes up for that. */
    arrival.vm_class = VG_CLASS_GPU;
    vg_arrival_expect(&arrival);
    config.n_host_groups = 0;
    struct vg_snap_gpu *gpu = nearly_full->gpus->pdata[0];
    ((struct vg_snap_engine *)gpu->engines->pdata[0])->share = 0.9;
    assert_true(rate(&arrival, nearly_full).score < rate(&arrival, empty).score);
    /* In a MIG slice it loses nothing. */
    ((struct vg_snap_vgpu_type *)gpu->vgpu_types->pdata[0])->mig = true;
    assert_true(rate(&arrival, nearly_full).lost <= 0);
}

/* Those that are there can all be had, of whatever type; of those to be made, as many as there are
 * of the smallest type. */
static void
test_made_gpus(void **state)
{
    (void)state;
    struct vg_arrival arrival = {.vcpus = 2, .vm_class = VG_CLASS_GPU, .gpus = 6};
    struct vg_snap_host *host = add_host("host", 8, 1);

    add_gpu(host, 4, 0.1);              /* nvidia-63: four could be made */
    add_type(host, "nvidia-230", 3, 1); /* one is there, two more could be made */
    add_type(host, "nvidia-231", 1, 1);
    vg_arrival_expect(&arrival);
    assert_false(rate(&arrival, host).veto); /* 1 + 1 + 4 */
    arrival.gpus = 7;
    assert_non_null(strstr(rate(&arrival, host).text, "6 vGPUs are free, but the VM needs 7"));
    arrival.gpu_type = "nvidia-230";
    arrival.gpus = 3;
    assert_false(rate(&arrival, host).veto);
}

static void
test_history(void **state)
{
    (void)state;
    struct vg_arrival arrival = {.vcpus = 8, .vm_class = -1};
    struct vg_snap_host *host = add_host("host", 8, 6);
    struct vg_snap_vm *vm = host->vms->pdata[0];

    vg_arrival_expect(&arrival);
    assert_true(rate(&arrival, host).lost > 1.9);
    /* It is known to want little. */
    vm->run_share = 0.1;
    vm->vm_class = VG_CLASS_IDLE;
    vg_arrival_learn(&arrival, vm);
    assert_true(arrival.cpu_demand < 0.2 && arrival.vm_class == VG_CLASS_IDLE);
}

/* Both VMs of "kept" stay on CPU 0 and want 2.3 of it, so that CPU 1 is free: one that wants 0.9
 * loses nothing there, though 2.3 of 2 CPUs are wanted. On "loose" they use both CPUs, and all that
 * it wants is lost. Of two that want 0.9 each, 1.8 - 1 are lost on "kept". */
static void
test_vms_that_keep_to_some_cpus(void **state)
{
    struct vg_snap_host *kept = add_host("kept", 2, 1.3), *loose = add_host("loose", 2, 2.3);
    struct vg_arrival arrival = {.vcpus = 1, .vm_class = VG_CLASS_CPU};
    const int32_t first = 0;

    (void)state;
    vg_snap_host_add_vm(kept, "other")->run_share = 1;
    for (guint i = 0; i < kept->vms->len; i++)
        g_array_append_val(((struct vg_snap_vm *)kept->vms->pdata[i])->cpus, first);
    vg_arrival_expect(&arrival);
    arrival.cpu_demand = 0.9;
    assert_true(rate(&arrival, kept).lost == 0 && rate(&arrival, kept).score > 0.9);
    assert_string_equal(rate(&arrival, kept).text,
                        "VMs pinned to CPU 0 leave 1.00 of 2 CPUs; VMs demand 0.00 of these and "
                        "this VM 0.90 more, so 0.00 cores would be lost");
    assert_true(rate(&arrival, loose).lost > 0.89 && rate(&arrival, loose).score < 0.01);
    assert_string_equal(rate(&arrival, loose).text,
                        "other VMs demand 2.30 of 2 CPUs and this VM demands 0.90 more, so 0.90 "
                        "cores would be lost");
    arrival.cpu_demand = 1.8;
    assert_true(rate(&arrival, kept).lost > 0.79 && rate(&arrival, kept).lost < 0.81);
}

/* What a scheduler is told to lose is what a plan reckons with, for VMs that keep to some CPUs or
 * to none, with a profile and without. */
static void
test_plans_say_the_same(void **state)
{
    static const double waves[2][4] = {{0.1, 1.9, 0.1, 1.9}, {1.9, 0.1, 1.9, 0.1}};
    struct vg_snap_vm *moving = add_host("from", 4, 1)->vms->pdata[0];
    struct vg_arrival arrival = {.vcpus = 2, .vm_class = -1};
    const struct vg_fit fit = {0};
    const int32_t first = 0;

    (void)state;
    moving->profile.window_ns = 1000000000;
    g_array_append_vals(moving->profile.cpu, waves[0], 4);
    for (int kind = 0; kind < 8; kind++) {
        g_autofree char *name = g_strdup_printf("to%d", kind);
        struct vg_snap_host *host = add_host(name, 2, 1);
        struct vg_snap_vm *vm = host->vms->pdata[0];
        if (kind & 1)
            g_array_append_val(vm->cpus, first);
        if (kind & 2) {
            vm->profile.window_ns = 1000000000;
            g_array_append_vals(vm->profile.cpu, waves[kind / 4], 4);
        }
        host->own_share = kind & 4 ? 0.7 : 0;
    }
    g_autoptr(vg_cluster) cluster = vg_cluster_new(snapshot, &config);
    vg_arrival_learn(&arrival, moving);
    double sum = 0;
    for (size_t to = 1; to < cluster->n_hosts; to++) {
        double planned =
            vg_predict_with(cluster, to, 0, &fit).cpu - vg_predict_host(cluster, to).cpu;
        double told = rate(&arrival, snapshot->hosts->pdata[to]).lost;
        if (!(told - planned < 1e-9 && planned - told < 1e-9))
            fail_msg("host %zu: %f is not %f", to, told, planned);
        sum += told;
    }
    assert_true(sum > 1);
}

/* A name of libvirt is the name of one VM of a host. Only of a known VM is it known. */
static void
test_same_name(void **state)
{
    struct vg_arrival arrival = {.vcpus = 1, .vm_class = VG_CLASS_CPU};
    struct vg_snap_host *from = add_host("from", 4, 1), *to = add_host("to", 4, 1);
    struct vg_snap_vm *moving = from->vms->pdata[0];
    struct vg_snap_vm *other = vg_snap_host_add_vm(to, "vm-from");

    (void)state;
    vg_arrival_expect(&arrival);
    assert_false(rate(&arrival, to).veto);
    vg_arrival_learn(&arrival, moving);
    assert_true(rate(&arrival, to).veto);
    assert_non_null(strstr(rate(&arrival, to).text, "another VM with the name 'vm-from'"));
    assert_false(rate(&arrival, from).veto);
    other->uuid = g_strdup("11111111-2222-3333-4444-555555555555");
    assert_true(rate(&arrival, to).veto);
    moving->uuid = g_strdup(other->uuid);
    assert_false(rate(&arrival, to).veto);
}

/* Age and a move of vgpud's own come before what a host is worth. */
static void
test_judge(void **state)
{
    struct vg_arrival arrival = {
        .vcpus = 4, .vm_class = VG_CLASS_CPU, .gpu_type = "none", .gpus = 1};
    const struct vg_snap_host *host = add_host("host", 8, 8);
    g_autoptr(vg_arrival_hosts) hosts = vg_arrival_hosts_new(snapshot, &config);
    struct vg_arrival_host judged = {.verdict = VG_ARRIVAL_UNKNOWN};

    (void)state;
    assert_ptr_equal(host, vg_arrival_hosts_snapshot(hosts)->hosts->pdata[0]);
    vg_arrival_expect(&arrival);
    vg_arrival_judge(&arrival, hosts, 0, &config, VG_ARRIVAL_STALE_NS + 1, true, &judged);
    assert_int_equal(judged.verdict, VG_ARRIVAL_UNKNOWN);
    assert_int_equal(judged.age_ms, 120000);
    assert_non_null(strstr(judged.text, "too old"));
    vg_arrival_judge(&arrival, hosts, 0, &config, VG_ARRIVAL_STALE_NS, false, &judged);
    assert_int_equal(judged.verdict, VG_ARRIVAL_VETO);
    assert_true(judged.score == 0);
    vg_arrival_judge(&arrival, hosts, 0, &config, -1, true, &judged);
    assert_int_equal(judged.verdict, VG_ARRIVAL_PASS);
    assert_true(judged.score == 1 && judged.age_ms == 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_cpu, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_vms_that_keep_to_some_cpus, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_plans_say_the_same, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_judge, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_same_name, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_gpu, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_gpu_placement, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_made_gpus, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_history, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
