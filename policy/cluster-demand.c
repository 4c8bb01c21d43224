/* SPDX-License-Identifier: Apache-2.0
 *
 * Demands of VMs window by window, of the last minutes and of the last 24 hours. A VM that has
 * moved has the older part of its day on the host that it left.
 */
#include "config.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "policy/cluster-private.h"

const struct vg_snap_profile *
cluster_profile(const vg_cluster *cluster, const struct vg_snap_vm *vm)
{
    return cluster->of_day ? &vm->day : &vm->profile;
}

bool
cluster_has_amounts(const GArray *values)
{
    for (guint i = 0; i < values->len; i++) {
        const double value = g_array_index(values, double, i);
        if (!isfinite(value) || value < 0)
            return false;
    }
    return true;
}

void
cluster_find_departed(vg_cluster *cluster)
{
    g_autoptr(GHashTable) uuids = g_hash_table_new(g_str_hash, g_str_equal);

    for (size_t i = 0; i < cluster->n_vms; i++) {
        if (cluster->vms[i].vm->uuid)
            g_hash_table_insert(uuids, cluster->vms[i].vm->uuid, &cluster->vms[i]);
    }
    for (size_t h = 0; h < cluster->n_hosts; h++) {
        const GPtrArray *departed = cluster->hosts[h].host->departed;
        for (guint i = 0; i < departed->len; i++) {
            struct vg_snap_departed *one = departed->pdata[i];
            struct vg_vm_state *vm = g_hash_table_lookup(uuids, one->uuid);
            if (!vm)
                continue;
            vm->rest = MAX(vm->rest, 1 - (double)one->age_ns / (double)VG_REST_NS);
            if (!cluster->of_day || !cluster_has_amounts(one->day.cpu) ||
                !cluster_has_amounts(one->day.gpu))
                continue;
            if (!vm->departed)
                vm->departed = g_ptr_array_new();
            g_ptr_array_add(vm->departed, one);
        }
    }
}

/* Returns how many windows ago a VM left a host. */
static size_t
cluster_windows_ago(const vg_cluster *cluster, const struct vg_snap_departed *departed)
{
    return (size_t)MIN(departed->age_ns / cluster->window_ns, VG_SNAPSHOT_PROFILE_MAX);
}

void
cluster_choose_windows(vg_cluster *cluster)
{
    g_autoptr(GHashTable) counts = g_hash_table_new(g_int64_hash, g_int64_equal);
    guint best_count = 0;
    for (size_t i = 0; i < cluster->n_vms; i++) {
        const struct vg_snap_profile *profile = cluster_profile(cluster, cluster->vms[i].vm);
        if (cluster->vms[i].problem || profile->cpu->len == 0)
            continue;
        guint count = GPOINTER_TO_UINT(g_hash_table_lookup(counts, &profile->window_ns)) + 1;
        g_hash_table_replace(counts, (void *)&profile->window_ns, GUINT_TO_POINTER(count));
        if (count > best_count ||
            (count == best_count && profile->window_ns < cluster->window_ns)) {
            best_count = count;
            cluster->window_ns = profile->window_ns;
        }
    }
    cluster->n_windows = 1;
    for (size_t i = 0; i < cluster->n_vms; i++) {
        const struct vg_vm_state *vm = &cluster->vms[i];
        const struct vg_snap_profile *profile = cluster_profile(cluster, vm->vm);
        if (!vm->problem && profile->window_ns == cluster->window_ns)
            cluster->n_windows = MAX(cluster->n_windows, profile->cpu->len);
        for (guint k = 0; vm->departed && k < vm->departed->len && cluster->window_ns > 0; k++) {
            const struct vg_snap_departed *departed = vm->departed->pdata[k];
            const size_t n = cluster_windows_ago(cluster, departed) + departed->day.cpu->len;
            if (departed->day.window_ns == cluster->window_ns)
                cluster->n_windows = MAX(cluster->n_windows, MIN(n, VG_SNAPSHOT_PROFILE_MAX));
        }
    }
}

/* Finds a window of the day on a host that the VM has left. `ago` is 0 for the newest window. */
static bool
cluster_day_before(const vg_cluster *cluster, const struct vg_vm_state *vm, bool of_gpu, size_t ago,
                   double *ret)
{
    for (guint i = 0; vm->departed && i < vm->departed->len; i++) {
        const struct vg_snap_departed *departed = vm->departed->pdata[i];
        const GArray *values = of_gpu ? departed->day.gpu : departed->day.cpu;
        const size_t left = cluster_windows_ago(cluster, departed);
        if (departed->day.window_ns != cluster->window_ns || ago < left ||
            ago - left >= values->len)
            continue;
        *ret = g_array_index(values, double, values->len - 1 - (ago - left));
        return true;
    }
    return false;
}

/* Finds window w of a profile. Returns false if the profile does not have it. */
static bool
profile_at(const vg_cluster *cluster, const struct vg_vm_state *vm, bool of_gpu, size_t w,
           double *ret)
{
    const struct vg_snap_profile *profile = cluster_profile(cluster, vm->vm);
    const GArray *values = of_gpu ? profile->gpu : profile->cpu;
    const size_t ago = cluster->n_windows - 1 - w;

    if (cluster->window_ns == 0)
        return false;
    if (profile->window_ns != cluster->window_ns || ago >= values->len)
        return cluster_day_before(cluster, vm, of_gpu, ago, ret);
    *ret = g_array_index(values, double, values->len - 1 - ago);
    return true;
}

double
vg_vm_cpu_demand(const vg_cluster *cluster, const struct vg_vm_state *vm, size_t w)
{
    double demand = 0;
    if (vm->problem)
        return 0;
    if (profile_at(cluster, vm, false, w, &demand))
        return vg_snap_vm_cap_demand(vm->vm, demand);
    return vm->cpu_demand;
}

double
vg_vm_gpu_demand(const vg_cluster *cluster, const struct vg_vm_state *vm,
                 const struct vg_engine_use *use, size_t w)
{
    double active = 0;
    if (vm->problem)
        return 0;
    if (vm->gpu_mean > 0 && profile_at(cluster, vm, true, w, &active))
        return MIN(use->level * active / vm->gpu_mean, 1.0);
    return use->level;
}

/* Returns whether a VM has no name of its own: a VM without one is called after its process. */
static bool
cluster_is_unnamed(const struct vg_snap_vm *vm)
{
    char name[32];

    g_snprintf(name, sizeof(name), "qemu-%" PRId64, vm->pid);
    return strcmp(vm->name, name) == 0;
}

void
cluster_number_names(vg_cluster *cluster)
{
    g_autoptr(GHashTable) firsts = g_hash_table_new(g_str_hash, g_str_equal);
    int n = 0;

    for (size_t i = 0; i < cluster->n_vms; i++) {
        struct vg_vm_state *vm = &cluster->vms[i];
        struct vg_vm_state *first = g_hash_table_lookup(firsts, vm->vm->name);
        if (!first) {
            if (!cluster_is_unnamed(vm->vm))
                g_hash_table_insert(firsts, vm->vm->name, vm);
            continue;
        }
        if (first->name_number == 0)
            first->name_number = ++n;
        vm->name_number = cluster_is_unnamed(vm->vm) ? 0 : first->name_number;
    }
}

bool
cluster_has_day(const vg_cluster *cluster)
{
    for (size_t i = 0; i < cluster->n_vms; i++) {
        if (cluster->vms[i].vm->day.cpu->len > 0)
            return true;
    }
    return false;
}
