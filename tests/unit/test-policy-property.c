/* SPDX-License-Identifier: Apache-2.0
 *
 * Random clusters through both rules. For each: the plan is the same to the byte whatever the
 * order of the input; no move breaks a constraint, judged by this file's own reading of them; and
 * the gain of each move is the difference of this file's own contention figures before and after.
 * A plan of `complement` wins at least as much as the best single move, all tried one by one.
 *
 * These figures are written differently on purpose: with L the sum of max(0, demand - CPUs) over
 * the pools, a host loses max(L, all demand - all CPUs).
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

#include "policy/policy.h"
#include "tests/unit/chance.h"

#define S         INT64_C(1000000000)
#define GIB       (INT64_C(1) << 30)
#define WINDOWS   6
#define VMS_MAX   64
#define HOSTS_MAX 6
#define GPUS_MAX  2 /* per host */
#define USES_MAX  3 /* per VM, each of another device */

/* Loads that are equal on paper. */
#define SAME_LOAD 1e-9

/* What the search takes as equal. */
#define SAME_NET 2e-5

static double
pick(GRand *rand, double low, double high)
{
    return g_rand_double_range(rand, low, high);
}

static bool
chance(GRand *rand, double probability)
{
    return g_rand_double(rand) < probability;
}

static void
random_profile(GRand *rand, struct vg_snap_vm *vm, double mean)
{
    if (chance(rand, 0.3))
        return;
    vm->profile.window_ns = chance(rand, 0.15) ? 2 * S : S;
    int n = g_rand_int_range(rand, 1, WINDOWS + 1);
    bool with_gpu = chance(rand, 0.5);
    for (int i = 0; i < n; i++) {
        double cpu = mean * pick(rand, 0, 2);
        double gpu = pick(rand, 0, 1);
        g_array_append_val(vm->profile.cpu, cpu);
        if (with_gpu)
            g_array_append_val(vm->profile.gpu, gpu);
    }
}

/* CPUs of a block of two, or none. Blocks do not overlap, so they are the pools; VMs with bad data
 * were seen on all blocks, which must not make one pool of them. */
static void
random_cpus(GRand *rand, const struct vg_snap_host *host, struct vg_snap_vm *vm)
{
    int32_t blocks = (int32_t)host->cpus / 2;
    if (blocks < 2 || chance(rand, 0.4))
        return;
    int32_t first = vm->problem ? 0 : 2 * g_rand_int_range(rand, 0, blocks);
    int32_t end = vm->problem ? 2 * blocks - 1 : first + 2;
    for (int32_t cpu = first; cpu < end; cpu++)
        g_array_append_val(vm->cpus, cpu);
}

/* Who took its time; of these only the first two are what the host itself takes. */
static void
random_losses(GRand *rand, struct vg_snap_vm *vm, double demand)
{
    static const char *const takers[] = {"host:user", "host:kernel", "host:idle", "self"};
    for (size_t i = 0; i < G_N_ELEMENTS(takers); i++) {
        if (chance(rand, 0.6))
            continue;
        struct vg_snap_loss *loss = vg_record_new(&vg_snap_loss_record);
        loss->aggressor = g_strdup(takers[i]);
        loss->share = pick(rand, 0, demand);
        g_ptr_array_add(vm->lost_to, loss);
    }
}

static void
random_vm(GRand *rand, struct vg_snap_host *host, const char *name)
{
    static const char *const groups[] = {"g1", "g2", "g3"};
    static const char *const models[] = {"m1", "m2"};
    struct vg_snap_vm *vm = vg_snap_host_add_vm(host, name);
    double demand = pick(rand, 0, 1.5);
    vm->vcpus = 2;
    vm->memory_bytes = g_rand_int_range(rand, 0, 4) * GIB;
    vm->run_share = demand * 0.6;
    vm->preempt_share = demand * 0.3;
    vm->wake_wait_share = demand * 0.1;
    vm->preemptions_per_s = pick(rand, 0, 40);
    vm->vm_class = (enum vg_vm_class)g_rand_int_range(rand, 0, VG_CLASS_MAX);
    vm->pinned = chance(rand, 0.05);
    vm->never_move = chance(rand, 0.05);
    vm->problem = chance(rand, 0.05) ? g_strdup("broken") : NULL;
    if (chance(rand, 0.2))
        g_ptr_array_add(vm->affinity, g_strdup(groups[g_rand_int_range(rand, 0, 3)]));
    if (chance(rand, 0.2))
        g_ptr_array_add(vm->anti_affinity, g_strdup(groups[g_rand_int_range(rand, 0, 3)]));
    if (chance(rand, 0.2))
        vm->cpu_model = g_strdup(models[g_rand_int_range(rand, 0, 2)]);
    random_cpus(rand, host, vm);
    random_profile(rand, vm, demand);
    random_losses(rand, vm, demand);
    int devices = host->gpus->len > 0 && chance(rand, 0.5) ? g_rand_int_range(rand, 1, 4) : 0;
    for (int i = 0; i < devices; i++) {
        struct vg_snap_gpu_use *use = vg_record_new(&vg_snap_gpu_use_record);
        use->device = g_strdup_printf("card-%s-%d", host->name, i);
        use->engine = g_strdup(chance(rand, 0.7) ? "rcs0" : "vcs0");
        use->vgpu_type = g_strdup(chance(rand, 0.9) ? "t1" : "t2");
        use->share = pick(rand, 0, 0.8);
        use->wait_share = pick(rand, 0, 3);
        use->memory_bytes = g_rand_int_range(rand, 0, 4) * GIB;
        g_ptr_array_add(vm->gpu, use);
        vm->gpu_known = chance(rand, 0.8);
        vm->gpu_intensity = pick(rand, 0, 1);
    }
}

static void
random_own(GRand *rand, struct vg_snap_host *host)
{
    host->own_share = chance(rand, 0.5) ? pick(rand, 0, 2) : 0;
    host->own_known = chance(rand, 0.2);
    if (chance(rand, 0.5))
        return;
    host->own_profile.window_ns = chance(rand, 0.2) ? 2 * S : S;
    for (int n = g_rand_int_range(rand, 1, WINDOWS + 3); n > 0; n--) {
        double cores = chance(rand, 0.5) ? pick(rand, 0, 3) : 0;
        g_array_append_val(host->own_profile.cpu, cores);
    }
}

static void
random_host(GRand *rand, vg_snapshot *snapshot, int index)
{
    g_autofree char *name = g_strdup_printf("h%d", index);
    struct vg_snap_host *host = vg_snapshot_add_host(snapshot, name);
    host->cpus = g_rand_int_range(rand, 1, 7);
    random_own(rand, host);
    host->maintenance = chance(rand, 0.1);
    host->cpu_model = chance(rand, 0.5) ? g_strdup("m1") : NULL;
    host->memory_bytes = chance(rand, 0.6) ? 16 * GIB : 0;
    host->memory_free_bytes = chance(rand, 0.8) ? g_rand_int_range(rand, 0, 9) * GIB : 0;
    int n_gpus = g_rand_int_range(rand, 0, GPUS_MAX + 1);
    for (int i = 0; i < n_gpus; i++) {
        g_autofree char *device = g_strdup_printf("card-%s-%d", name, i);
        struct vg_snap_gpu *gpu = vg_snap_host_add_gpu(host, device);
        gpu->memory_bytes = chance(rand, 0.7) ? 8 * GIB : 0;
        gpu->memory_free_bytes = g_rand_int_range(rand, 0, 9) * GIB;
        struct vg_snap_vgpu_type *type = vg_record_new(&vg_snap_vgpu_type_record);
        type->type = g_strdup("t1");
        type->free = g_rand_int_range(rand, 0, 6);
        g_ptr_array_add(gpu->vgpu_types, type);
    }
    int n_vms = g_rand_int_range(rand, 0, 8);
    for (int i = 0; i < n_vms; i++) {
        g_autofree char *vm = g_strdup_printf("%s-vm%d", name, i);
        random_vm(rand, host, vm);
    }
}

static vg_snapshot *
random_snapshot(GRand *rand)
{
    vg_snapshot *snapshot = vg_snapshot_new(VG_SOURCE_TRACE);
    int n_hosts = g_rand_int_range(rand, 1, HOSTS_MAX + 1);
    for (int i = 0; i < n_hosts; i++)
        random_host(rand, snapshot, i);
    return snapshot;
}

static void
shuffle(GRand *rand, GPtrArray *list)
{
    for (guint i = list->len; i > 1; i--) {
        guint k = (guint)g_rand_int_range(rand, 0, (int)i);
        void *other = list->pdata[k];
        list->pdata[k] = list->pdata[i - 1];
        list->pdata[i - 1] = other;
    }
}

static void
shuffle_snapshot(GRand *rand, vg_snapshot *snapshot)
{
    shuffle(rand, snapshot->hosts);
    for (guint h = 0; h < snapshot->hosts->len; h++) {
        struct vg_snap_host *host = snapshot->hosts->pdata[h];
        shuffle(rand, host->vms);
        for (guint v = 0; v < host->vms->len; v++) {
            struct vg_snap_vm *vm = host->vms->pdata[v];
            shuffle(rand, vm->affinity);
            shuffle(rand, vm->anti_affinity);
        }
    }
}

/* This file's own model. */
struct toy_use {
    const char *device; /* where it is now */
    const char *engine;
    double demand[WINDOWS];
};

struct toy_vm {
    const struct vg_snap_vm *vm;
    const struct vg_snap_host *host;
    int block; /* first CPU of its block, or -1 */
    double cpu[WINDOWS];
    size_t n_uses;
    struct toy_use uses[USES_MAX];
};

struct toy {
    size_t n;
    size_t windows;
    int64_t window_ns;
    struct toy_vm vms[VMS_MAX];
    int64_t memory_taken[HOSTS_MAX]; /* by the plan, index in the sorted snapshot */
    int64_t gpus_taken[HOSTS_MAX][GPUS_MAX];
    int64_t gpu_memory_taken[HOSTS_MAX][GPUS_MAX];
    int64_t moves[HOSTS_MAX]; /* in `wave` */
    int64_t wave[HOSTS_MAX];
    int64_t left[HOSTS_MAX]; /* the last wave in which a VM leaves */
};

/* S is in the majority or 2 S is: the policy takes what most have, of equals the shorter. */
static int64_t
common_window(const vg_snapshot *snapshot)
{
    int balance = 0;
    for (guint h = 0; h < snapshot->hosts->len; h++) {
        const struct vg_snap_host *host = snapshot->hosts->pdata[h];
        for (guint v = 0; v < host->vms->len; v++) {
            const struct vg_snap_vm *vm = host->vms->pdata[v];
            if (!vm->problem && vm->profile.cpu->len > 0)
                balance += vm->profile.window_ns == S ? 1 : -1;
        }
    }
    return balance >= 0 ? S : 2 * S;
}

static void
toy_demand(const GArray *values, bool usable, double fill, double scale, size_t windows,
           double *ret)
{
    for (size_t back = 0; back < windows; back++) { /* from the newest */
        double value = fill;
        if (usable && back < values->len)
            value = scale * g_array_index(values, double, values->len - 1 - back);
        ret[windows - 1 - back] = value;
    }
}

static void
toy_add_uses(const struct toy *toy, struct toy_vm *entry, bool usable)
{
    const struct vg_snap_vm *vm = entry->vm;
    double mean = 0;
    for (guint i = 0; i < vm->profile.gpu->len; i++)
        mean += g_array_index(vm->profile.gpu, double, i) / vm->profile.gpu->len;
    for (guint u = 0; u < vm->gpu->len; u++) {
        const struct vg_snap_gpu_use *use = vm->gpu->pdata[u];
        struct toy_use *to = &entry->uses[entry->n_uses++];
        double level = use->share + use->wait_share;
        if (vm->gpu_known && level > vm->gpu_intensity)
            level = fmax(use->share, vm->gpu_intensity);
        level = fmin(level, 1);
        to->device = use->device;
        to->engine = use->engine;
        toy_demand(vm->profile.gpu, usable && mean > 0, level, level / fmax(mean, 1e-12),
                   toy->windows, to->demand);
        for (size_t w = 0; w < toy->windows; w++)
            to->demand[w] = fmin(to->demand[w], 1);
    }
}

static void
toy_add(struct toy *toy, const struct vg_snap_host *host, const struct vg_snap_vm *vm,
        int64_t window_ns)
{
    struct toy_vm *entry = &toy->vms[toy->n++];
    bool usable = vm->profile.window_ns == window_ns;
    entry->vm = vm;
    entry->host = host;
    entry->block = vm->cpus->len > 0 && (int64_t)vm->cpus->len < host->cpus
                       ? g_array_index(vm->cpus, int32_t, 0)
                       : -1;
    if (vm->problem)
        return;
    toy_demand(vm->profile.cpu, usable, vm->run_share + vm->preempt_share + vm->wake_wait_share, 1,
               toy->windows, entry->cpu);
    toy_add_uses(toy, entry, usable);
}

static void
toy_init(struct toy *toy, const vg_snapshot *snapshot)
{
    int64_t window_ns = common_window(snapshot);
    memset(toy, 0, sizeof(*toy));
    toy->windows = 1;
    toy->window_ns = window_ns;
    for (int pass = 0; pass < 2; pass++) {
        for (guint h = 0; h < snapshot->hosts->len; h++) {
            const struct vg_snap_host *host = snapshot->hosts->pdata[h];
            for (guint v = 0; v < host->vms->len; v++) {
                const struct vg_snap_vm *vm = host->vms->pdata[v];
                if (pass == 1)
                    toy_add(toy, host, vm, window_ns);
                else if (!vm->problem && vm->profile.window_ns == window_ns)
                    toy->windows = MAX(toy->windows, vm->profile.cpu->len);
            }
        }
    }
}

/* One engine is what has the same names; it is counted where it shows up first. */
static double
toy_gpu_loss(const struct toy *toy, const struct vg_snap_host *host, size_t w)
{
    const struct toy_use *uses[VMS_MAX * USES_MAX];
    size_t n = 0;
    double lost = 0;
    for (size_t i = 0; i < toy->n; i++) {
        for (size_t u = 0; toy->vms[i].host == host && u < toy->vms[i].n_uses; u++)
            uses[n++] = &toy->vms[i].uses[u];
    }
    for (size_t i = 0; i < n; i++) {
        double sum = 0;
        bool first = true;
        for (size_t k = 0; k < n; k++) {
            if (strcmp(uses[i]->device, uses[k]->device) != 0 ||
                strcmp(uses[i]->engine, uses[k]->engine) != 0)
                continue;
            first = first && k >= i;
            sum += uses[k]->demand[w];
        }
        lost += first ? fmax(0, sum - 1) : 0;
    }
    return lost;
}

/* What the host itself takes of the CPUs of a block, or (-1) of what the blocks leave: what its VMs
 * at home lost to it there, but not more than they left of `cpus`. */
static double
toy_own(const struct vg_snap_host *host, int block, double cpus)
{
    double lost = 0;
    for (guint v = 0; v < host->vms->len; v++) {
        const struct vg_snap_vm *vm = host->vms->pdata[v];
        bool floats = vm->cpus->len == 0 || (int64_t)vm->cpus->len >= host->cpus;
        if (vm->problem || (floats ? -1 : g_array_index(vm->cpus, int32_t, 0)) != block)
            continue;
        cpus -= vm->run_share;
        for (guint i = 0; i < vm->lost_to->len; i++) {
            const struct vg_snap_loss *loss = vm->lost_to->pdata[i];
            if (strcmp(loss->aggressor, "host:user") == 0 ||
                strcmp(loss->aggressor, "host:kernel") == 0)
                lost += loss->share;
        }
    }
    return fmin(lost, fmax(cpus, 0));
}

static double
toy_run_in_blocks(const struct vg_snap_host *host)
{
    double run = 0;
    for (guint v = 0; v < host->vms->len; v++) {
        const struct vg_snap_vm *vm = host->vms->pdata[v];
        if (!vm->problem && vm->cpus->len > 0 && (int64_t)vm->cpus->len < host->cpus)
            run += vm->run_share;
    }
    return run;
}

/* What the host itself takes of all CPUs in a window. */
static double
toy_own_in(const struct toy *toy, const struct vg_snap_host *host, size_t w)
{
    const GArray *own = host->own_profile.cpu;
    const size_t from_end = toy->windows - w;
    if (host->own_profile.window_ns != toy->window_ns || from_end > own->len)
        return host->own_share;
    return g_array_index(own, double, own->len - from_end);
}

static void
toy_loss(const struct toy *toy, const vg_snapshot *snapshot, double *ret_cpu, double *ret_gpu)
{
    *ret_cpu = 0;
    *ret_gpu = 0;
    for (size_t w = 0; w < toy->windows; w++) {
        for (guint h = 0; h < snapshot->hosts->len; h++) {
            const struct vg_snap_host *host = snapshot->hosts->pdata[h];
            double blocks[8] = {0};
            double all = 0;
            double over = 0;
            for (size_t i = 0; i < toy->n; i++) {
                const struct toy_vm *vm = &toy->vms[i];
                if (vm->host != host)
                    continue;
                all += vm->cpu[w];
                if (vm->block >= 0)
                    blocks[vm->block] += vm->cpu[w];
            }
            double owns[G_N_ELEMENTS(blocks)];
            double bound = 0;
            double bound_now = 0;
            double now = toy_own_in(toy, host, w);
            double part = host->own_share > 0 ? now / host->own_share : 1;
            for (size_t b = 0; b < G_N_ELEMENTS(blocks); b++) {
                owns[b] = toy_own(host, (int)b, 2);
                bound += owns[b];
            }
            double left = (double)host->cpus - bound - toy_run_in_blocks(host);
            double shown = toy_own(host, -1, left);
            /* What several VMs lost at once is counted once if it is known how much there was. */
            if ((host->own_known || host->own_share > 0) && bound + shown > host->own_share)
                part *= host->own_share / (bound + shown);
            for (size_t b = 0; b < G_N_ELEMENTS(blocks); b++) {
                double own_now = fmin(owns[b] * part, 2);
                over += fmax(0, blocks[b] + own_now - 2);
                bound_now += own_now;
            }
            shown = fmin(shown * part, (double)host->cpus);
            all += bound_now + fmax(now - bound_now, shown);
            *ret_cpu += fmax(over, all - (double)host->cpus) / (double)toy->windows;
            *ret_gpu += toy_gpu_loss(toy, host, w) / (double)toy->windows;
        }
    }
}

static bool
share_group(const GPtrArray *a, const GPtrArray *b)
{
    for (guint i = 0; i < a->len; i++) {
        for (guint k = 0; k < b->len; k++) {
            if (strcmp(a->pdata[i], b->pdata[k]) == 0)
                return true;
        }
    }
    return false;
}

/* VMs that belong together may come one after the other if their group moves them all. */
static void
check_neighbours(const struct toy *toy, const struct toy_vm *vm, const struct vg_snap_host *to,
                 bool is_last)
{
    for (size_t i = 0; i < toy->n; i++) {
        const struct toy_vm *other = &toy->vms[i];
        if (other == vm)
            continue;
        if (is_last && share_group(vm->vm->affinity, other->vm->affinity))
            assert_ptr_equal(other->host, to);
        if (share_group(vm->vm->anti_affinity, other->vm->anti_affinity))
            assert_ptr_not_equal(other->host, to);
    }
}

/* Mean demand on one GPU of a host, all engines together, with those devices of `coming` that have
 * a place already (NULL: none yet). */
static double
toy_gpu_load(const struct toy *toy, const struct vg_snap_host *host, const char *device,
             const struct toy_vm *coming, const char *const *places)
{
    double sum = 0;
    for (size_t u = 0; u < coming->n_uses; u++) {
        for (size_t w = 0; g_strcmp0(places[u], device) == 0 && w < toy->windows; w++)
            sum += coming->uses[u].demand[w] / (double)toy->windows;
    }
    for (size_t i = 0; i < toy->n; i++) {
        for (size_t u = 0; toy->vms[i].host == host && u < toy->vms[i].n_uses; u++) {
            const struct toy_use *use = &toy->vms[i].uses[u];
            for (size_t w = 0; strcmp(use->device, device) == 0 && w < toy->windows; w++)
                sum += use->demand[w] / (double)toy->windows;
        }
    }
    return sum;
}

/* What one more use of an engine loses on a GPU, with those uses of the VM that have a place. */
static double
toy_gpu_rise(const struct toy *toy, const struct vg_snap_host *host, const char *device,
             const struct toy_vm *coming, const char *const *places, size_t use)
{
    const struct toy_use *added = &coming->uses[use];
    double rise = 0;
    for (size_t w = 0; w < toy->windows; w++) {
        double sum = 0;
        for (size_t u = 0; u < use; u++) {
            if (strcmp(places[u], device) == 0 &&
                strcmp(coming->uses[u].engine, added->engine) == 0)
                sum += coming->uses[u].demand[w];
        }
        for (size_t i = 0; i < toy->n; i++) {
            for (size_t u = 0; toy->vms[i].host == host && u < toy->vms[i].n_uses; u++) {
                const struct toy_use *other = &toy->vms[i].uses[u];
                if (strcmp(other->device, device) == 0 && strcmp(other->engine, added->engine) == 0)
                    sum += other->demand[w];
            }
        }
        rise += fmax(0, sum + added->demand[w] - 1) - fmax(0, sum - 1);
    }
    return rise / (double)toy->windows;
}

/* Device by device, the GPU that has an instance and the memory where the least is lost, of equal
 * ones the least loaded; there must be one. The load is that before the move with the VM's devices
 * that have a place. */
static void
place_gpus(struct toy *toy, const struct toy_vm *moved, const struct vg_snap_host *to, guint index,
           const char **ret_devices)
{
    const struct vg_snap_vm *vm = moved->vm;
    for (guint u = 0; u < vm->gpu->len; u++) {
        const struct vg_snap_gpu_use *use = vm->gpu->pdata[u];
        guint best = to->gpus->len;
        double best_load = 0, best_rise = 0;
        assert_string_equal(use->vgpu_type, "t1");
        for (guint g = 0; g < to->gpus->len; g++) {
            const struct vg_snap_gpu *gpu = to->gpus->pdata[g];
            const struct vg_snap_vgpu_type *type = gpu->vgpu_types->pdata[0];
            double load = toy_gpu_load(toy, to, gpu->device, moved, ret_devices);
            double rise = toy_gpu_rise(toy, to, gpu->device, moved, ret_devices, u);
            bool has_memory =
                (gpu->memory_bytes == 0 && gpu->memory_free_bytes == 0) ||
                toy->gpu_memory_taken[index][g] + use->memory_bytes <= gpu->memory_free_bytes;
            if (toy->gpus_taken[index][g] >= type->free || !has_memory)
                continue;
            if (best == to->gpus->len || rise < best_rise - SAME_LOAD ||
                (rise < best_rise + SAME_LOAD && load < best_load - SAME_LOAD)) {
                best = g;
                best_load = load;
                best_rise = rise;
            }
        }
        if (best == to->gpus->len)
            fail_msg("%s: no GPU of %s has room for %s", vm->name, to->name, use->device);
        toy->gpus_taken[index][best]++;
        toy->gpu_memory_taken[index][best] += use->memory_bytes;
        ret_devices[u] = ((const struct vg_snap_gpu *)to->gpus->pdata[best])->device;
    }
}

/* Frees what a VM has of the GPUs of its host, for later waves. */
static void
leave_gpus(struct toy *toy, const struct toy_vm *moved, guint index)
{
    for (guint u = 0; u < moved->vm->gpu->len; u++) {
        const struct vg_snap_gpu_use *use = moved->vm->gpu->pdata[u];
        for (guint g = 0; g < moved->host->gpus->len; g++) {
            const struct vg_snap_gpu *gpu = moved->host->gpus->pdata[g];
            if (strcmp(gpu->device, use->device) != 0)
                continue;
            toy->gpus_taken[index][g]--;
            toy->gpu_memory_taken[index][g] -= use->memory_bytes;
        }
    }
}

/* A host has its share of the moves of a wave, and what a VM leaves is free in the next. */
static void
check_wave(struct toy *toy, const struct vg_policy_config *config, int64_t wave, guint from,
           guint to)
{
    const guint hosts[] = {from, to};
    for (size_t i = 0; i < G_N_ELEMENTS(hosts); i++) {
        assert_true(wave >= MAX(toy->wave[hosts[i]], 1));
        toy->moves[hosts[i]] = toy->wave[hosts[i]] == wave ? toy->moves[hosts[i]] + 1 : 1;
        toy->wave[hosts[i]] = wave;
        assert_true(toy->moves[hosts[i]] <= config->max_moves_per_host);
    }
    assert_true(wave > toy->left[to]);
    toy->left[from] = wave;
}

static guint
host_index(const vg_snapshot *snapshot, const struct vg_snap_host *host)
{
    guint i = 0;
    while (snapshot->hosts->pdata[i] != host)
        i++;
    return i;
}

static void
check_action(struct toy *toy, const vg_snapshot *snapshot, const struct vg_policy_config *config,
             const struct vg_plan_action *action, bool is_last)
{
    struct toy_vm *vm = NULL;
    for (size_t i = 0; i < toy->n; i++) {
        if (strcmp(toy->vms[i].vm->name, action->vm) == 0)
            vm = &toy->vms[i];
    }
    const struct vg_snap_host *to = vg_snapshot_find_host(snapshot, action->to);
    assert_non_null(vm);
    assert_non_null(to);
    guint to_index = host_index(snapshot, to);
    guint from_index = host_index(snapshot, vm->host);
    assert_string_equal(vm->host->name, action->from);
    assert_true(g_str_has_prefix(action->vm, action->from)); /* at home: a VM moves once */
    assert_ptr_not_equal(vm->host, to);
    assert_false(to->maintenance || vm->vm->pinned || vm->vm->never_move || vm->vm->problem);
    if (vm->vm->cpu_model && g_strcmp0(vm->host->cpu_model, to->cpu_model) != 0)
        assert_string_equal(vm->vm->cpu_model, to->cpu_model);
    assert_true(!vm->vm->cpu_model || to->cpu_model);
    int64_t memory = vm->vm->memory_bytes ? vm->vm->memory_bytes : config->assumed_memory_bytes;
    toy->memory_taken[to_index] += memory;
    toy->memory_taken[from_index] -= vm->vm->memory_bytes;
    if (to->memory_bytes + to->memory_free_bytes > 0)
        assert_true(toy->memory_taken[to_index] <= to->memory_free_bytes);
    check_neighbours(toy, vm, to, is_last);
    const char *devices[USES_MAX] = {0};
    place_gpus(toy, vm, to, to_index, devices);
    leave_gpus(toy, vm, from_index);
    check_wave(toy, config, action->wave, from_index, to_index);

    double cpu_before = 0;
    double gpu_before = 0;
    double cpu_after = 0;
    double gpu_after = 0;
    toy_loss(toy, snapshot, &cpu_before, &gpu_before);
    vm->host = to;
    vm->block = -1;
    for (size_t u = 0; u < vm->n_uses; u++)
        vm->uses[u].device = devices[u];
    toy_loss(toy, snapshot, &cpu_after, &gpu_after);
    double cpu_error = (cpu_before - cpu_after) * 1e9 - (double)action->gain.lost_cpu_ns_per_s;
    double gpu_error = (gpu_before - gpu_after) * 1e9 - (double)action->gain.gpu_wait_ns_per_s;
    if (fabs(cpu_error) > 2 || fabs(gpu_error) > 2)
        fail_msg("%s to %s: off by %.0f and %.0f ns/s", action->vm, action->to, cpu_error,
                 gpu_error);
}

/* The most that a single move wins, net, of all that pass the gates. */
struct all_moves {
    size_t n;
    double best;
};

static void
add_useful(const vg_explanation *why, const struct vg_policy_config *config, struct all_moves *all)
{
    for (guint i = 0; i < why->candidates->len; i++) {
        const struct vg_plan_candidate *candidate = why->candidates->pdata[i];
        if (candidate->verdict != VG_CANDIDATE_BEST && candidate->verdict != VG_CANDIDATE_USEFUL)
            continue;
        double net = ((double)candidate->gain.lost_cpu_ns_per_s +
                      config->gpu_weight * (double)candidate->gain.gpu_wait_ns_per_s) /
                         (double)S -
                     (double)candidate->cost.lost_cpu_ns / (double)config->horizon_ns;
        if (all->n == 0 || net > all->best)
            all->best = net;
        all->n++;
    }
}

/* Without VMs of hosts where nothing is wrong for long enough: they have no best move. */
static struct all_moves
try_all(const vg_snapshot *snapshot, const struct vg_policy_config *config)
{
    struct all_moves all = {0};

    for (guint h = 0; h < snapshot->hosts->len; h++) {
        const struct vg_snap_host *host = snapshot->hosts->pdata[h];
        for (guint v = 0; v < host->vms->len; v++) {
            const struct vg_snap_vm *vm = host->vms->pdata[v];
            g_autoptr(vg_explanation) why = vg_policy_explain(snapshot, config, vm->name, NULL);
            bool has_best = false;
            for (guint i = 0; i < why->candidates->len; i++) {
                const struct vg_plan_candidate *candidate = why->candidates->pdata[i];
                has_best = has_best || candidate->verdict == VG_CANDIDATE_BEST;
            }
            if (has_best)
                add_useful(why, config, &all);
        }
    }
    return all;
}

static void
check_choice(const vg_snapshot *snapshot, const struct vg_policy_config *config,
             const vg_plan *plan)
{
    const struct all_moves all = try_all(snapshot, config);
    double net = 0;

    for (guint i = 0; i < plan->actions->len; i++) {
        const struct vg_plan_action *action = plan->actions->pdata[i];
        net += ((double)action->gain.lost_cpu_ns_per_s +
                config->gpu_weight * (double)action->gain.gpu_wait_ns_per_s) /
                   (double)S -
               (double)action->cost.lost_cpu_ns / (double)config->horizon_ns;
    }
    if (all.n > 0 && net < all.best - SAME_NET)
        fail_msg("the plan wins %f, one move %f", net, all.best);
}

static void
check_round(uint32_t seed, size_t *actions)
{
    struct vg_policy_config config;
    vg_policy_config_init(&config);
    config.min_gain = 0.01;
    config.max_moves = 6;
    config.paper_max_moves = 6;
    config.max_moves_per_host = 1 + seed % 3;
    for (int rule = 0; rule < VG_RULE_MAX; rule++) {
        GRand *rand = g_rand_new_with_seed(seed);
        GRand *same = g_rand_new_with_seed(seed);
        g_autoptr(vg_snapshot) straight = random_snapshot(rand);
        g_autoptr(vg_snapshot) shuffled = random_snapshot(same);
        shuffle_snapshot(same, shuffled);
        assert_int_equal(vg_snapshot_seal(straight, NULL), 0);
        assert_int_equal(vg_snapshot_seal(shuffled, NULL), 0);
        g_autoptr(vg_plan) plan = vg_policy_plan(straight, &config, (enum vg_rule_id)rule, NULL);
        g_autoptr(vg_plan) again = vg_policy_plan(shuffled, &config, (enum vg_rule_id)rule, NULL);
        g_autoptr(json_object) json = vg_plan_to_json(plan);
        g_autoptr(json_object) json_again = vg_plan_to_json(again);
        g_autofree char *text = vg_json_to_text(json, true);
        g_autofree char *text_again = vg_json_to_text(json_again, true);
        assert_string_equal(text, text_again);

        if (rule == VG_RULE_COMPLEMENT)
            check_choice(straight, &config, plan);
        struct toy toy;
        toy_init(&toy, straight);
        for (guint i = 0; i < plan->actions->len; i++) {
            const struct vg_plan_action *action = plan->actions->pdata[i];
            const struct vg_plan_action *next =
                i + 1 < plan->actions->len ? plan->actions->pdata[i + 1] : NULL;
            check_action(&toy, straight, &config, action,
                         !next || next->group != action->group || action->group == 0);
        }
        assert_int_equal(plan->verdict == VG_PLAN_CHANGES, plan->actions->len > 0);
        assert_true(plan->actions->len > 0 || plan->why->len > 0);
        *actions += plan->actions->len;
        g_rand_free(rand);
        g_rand_free(same);
    }
}

static void
test_random_clusters(void **state)
{
    (void)state;
    uint64_t seed = chance_seed();
    unsigned rounds = chance_rounds(28, 3000);
    size_t actions = 0;
    for (unsigned i = 0; i < rounds; i++) {
        chance_print(seed + i); /* a failure is of the last one printed */
        check_round((uint32_t)(seed + i), &actions);
    }
    print_message("# %u clusters, %zu actions\n", rounds, actions);
    assert_true(actions > rounds / 10);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_clusters),
    };
    return cmocka_run_group_tests_name("policy-property", tests, NULL, NULL);
}
