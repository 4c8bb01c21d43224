/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "policy/constraints.h"

#include <string.h>

#define GIB (1024.0 * 1024 * 1024)

static const char *const names[VG_CONSTRAINT_MAX] = {
    [VG_CONSTRAINT_NONE] = "none",
    [VG_CONSTRAINT_BAD_DATA] = "bad-data",
    [VG_CONSTRAINT_UNKNOWN_DEMAND] = "unknown-demand",
    [VG_CONSTRAINT_UNKNOWN_GPU] = "unknown-gpu",
    [VG_CONSTRAINT_NEVER_MOVE] = "never-move",
    [VG_CONSTRAINT_OTHER_MANAGER] = "other-manager",
    [VG_CONSTRAINT_ONLY_COLD] = "only-cold",
    [VG_CONSTRAINT_UNMANAGED] = "unmanaged",
    [VG_CONSTRAINT_PINNED] = "pinned",
    [VG_CONSTRAINT_SAME_HOST] = "same-host",
    [VG_CONSTRAINT_SAME_NAME] = "same-name",
    [VG_CONSTRAINT_MAINTENANCE] = "maintenance",
    [VG_CONSTRAINT_CPU_MODEL] = "cpu-model",
    [VG_CONSTRAINT_MEMORY] = "memory",
    [VG_CONSTRAINT_GPU_TYPE] = "gpu-type",
    [VG_CONSTRAINT_GPU_FREE] = "gpu-free",
    [VG_CONSTRAINT_GPU_MEMORY] = "gpu-memory",
    [VG_CONSTRAINT_AFFINITY] = "affinity",
    [VG_CONSTRAINT_ANTI_AFFINITY] = "anti-affinity",
    [VG_CONSTRAINT_MOVE_LIMIT] = "move-limit",
};

const char *
vg_constraint_name(enum vg_constraint constraint)
{
    return names[constraint];
}

/* Checks that the demand of the VM is known. */
static enum vg_constraint
check_known(const struct vg_vm_state *vm, char **ret_reason)
{
    if (vm->no_demand) {
        *ret_reason = g_strdup_printf("the CPU demand of VM '%s' is unknown", vm->vm->name);
        return VG_CONSTRAINT_UNKNOWN_DEMAND;
    }
    if (vm->no_gpu_use) {
        *ret_reason = g_strdup_printf("VM '%s' has a GPU whose use is unknown", vm->vm->name);
        return VG_CONSTRAINT_UNKNOWN_GPU;
    }
    return VG_CONSTRAINT_NONE;
}

enum vg_constraint
vg_constraints_vm(const vg_cluster *cluster, size_t vm, char **ret_reason)
{
    const struct vg_vm_state *state = &cluster->vms[vm];

    if (state->problem) {
        *ret_reason =
            g_strdup_printf("the data of VM '%s' is invalid: %s", state->vm->name, state->problem);
        return VG_CONSTRAINT_BAD_DATA;
    }
    const enum vg_constraint constraint = check_known(state, ret_reason);
    if (constraint != VG_CONSTRAINT_NONE)
        return constraint;
    if (state->vm->never_move) {
        *ret_reason = g_strdup_printf("VM '%s' has the policy `never`", state->vm->name);
        return VG_CONSTRAINT_NEVER_MOVE;
    }
    if (state->vm->manager) {
        *ret_reason = g_strdup_printf("VM '%s' is managed by %s, which alone may move it",
                                      state->vm->name, state->vm->manager);
        return VG_CONSTRAINT_OTHER_MANAGER;
    }
    if (state->vm->only_cold) {
        *ret_reason = g_strdup_printf("VM '%s' can only be moved while it is shut down: %s",
                                      state->vm->name, state->vm->only_cold);
        return VG_CONSTRAINT_ONLY_COLD;
    }
    if (state->vm->unmanaged) {
        *ret_reason = g_strdup_printf("libvirt on host '%s' does not know VM '%s'",
                                      cluster->hosts[state->home].host->name, state->vm->name);
        return VG_CONSTRAINT_UNMANAGED;
    }
    if (state->vm->pinned) {
        *ret_reason =
            g_strdup_printf("VM '%s' is pinned to CPUs or NUMA nodes of its host", state->vm->name);
        return VG_CONSTRAINT_PINNED;
    }
    if (state->host != state->home) {
        *ret_reason = g_strdup_printf("this plan already moves VM '%s'", state->vm->name);
        return VG_CONSTRAINT_MOVE_LIMIT;
    }
    return VG_CONSTRAINT_NONE;
}

/* libvirt gives a name to one VM of a host only. */
static enum vg_constraint
check_name(const vg_cluster *cluster, const struct vg_vm_state *vm,
           const struct vg_host_state *host, char **ret_reason)
{
    for (guint i = 0; vm->name_number != 0 && i < host->vms->len; i++) {
        if (cluster->vms[g_array_index(host->vms, size_t, i)].name_number != vm->name_number)
            continue;
        *ret_reason = g_strdup_printf("host '%s' already has another VM with the name '%s'",
                                      host->host->name, vm->vm->name);
        return VG_CONSTRAINT_SAME_NAME;
    }
    return VG_CONSTRAINT_NONE;
}

/* Checks the CPU model. A VM runs on a host with the required model, and on every host with the
 * same model as its present host. */
static enum vg_constraint
check_cpu_model(const struct vg_snap_vm *vm, const struct vg_snap_host *home,
                const struct vg_snap_host *host, char **ret_reason)
{
    if (!vm->cpu_model || (host->cpu_model && (strcmp(vm->cpu_model, host->cpu_model) == 0 ||
                                               g_strcmp0(home->cpu_model, host->cpu_model) == 0)))
        return VG_CONSTRAINT_NONE;
    if (host->cpu_model)
        *ret_reason = g_strdup_printf("VM '%s' needs CPU model '%s', but host '%s' has '%s'",
                                      vm->name, vm->cpu_model, host->name, host->cpu_model);
    else
        *ret_reason =
            g_strdup_printf("VM '%s' needs CPU model '%s'; the CPU model of host '%s' is unknown",
                            vm->name, vm->cpu_model, host->name);
    return VG_CONSTRAINT_CPU_MODEL;
}

static enum vg_constraint
check_memory(const vg_cluster *cluster, const struct vg_snap_vm *vm,
             const struct vg_host_state *host, char **ret_reason)
{
    int64_t needed =
        vm->memory_bytes > 0 ? vm->memory_bytes : cluster->config->assumed_memory_bytes;
    bool known = vg_memory_is_known(host->host->memory_bytes, host->host->memory_free_bytes);
    if (!known || host->memory_free >= needed)
        return VG_CONSTRAINT_NONE;
    *ret_reason =
        g_strdup_printf("VM '%s' needs %.2f GiB of memory%s, but host '%s' has %.2f GiB free",
                        vm->name, (double)needed / GIB, vm->memory_bytes > 0 ? "" : " (assumed)",
                        host->host->name, (double)host->memory_free / GIB);
    return VG_CONSTRAINT_MEMORY;
}

/* How far the search for a GPU came. The reason is that of the best candidate. */
enum gpu_obstacle { NO_TYPE, NONE_FREE, NO_MEMORY, FITS };

/* Judges a GPU, including the VM's devices that the fit has put there. */
static enum gpu_obstacle
judge_gpu(const vg_cluster *cluster, const struct vg_host_state *host, size_t gpu_index,
          const struct vg_snap_gpu_use *use, const struct vg_fit *fit, int64_t *ret_room)
{
    const size_t type = vg_card_type_of(cluster->types, use->vgpu_type);
    struct vg_card card;

    vg_card_copy(&host->cards[gpu_index], &card);
    for (size_t i = 0; i < fit->n_devices; i++) {
        if (fit->devices[i].gpu == gpu_index)
            vg_card_put(&card, vg_card_type_of(cluster->types, fit->devices[i].type),
                        fit->devices[i].memory_bytes, 1);
    }
    *ret_room = vg_card_room(&card, type, use->memory_bytes);
    const bool has_memory = vg_card_has_memory(&card, type, use->memory_bytes);
    vg_card_clear(&card);
    if (*ret_room < 0)
        return NO_TYPE;
    return *ret_room == 0 ? NONE_FREE : has_memory ? FITS : NO_MEMORY;
}

/* Returns the demand of one of the VM's devices on all engines, as a mean over the windows. */
static double
device_demand(const vg_cluster *cluster, const struct vg_vm_state *vm, const char *device)
{
    double sum = 0;
    for (guint u = 0; u < vm->uses->len; u++) {
        const struct vg_engine_use *use = &g_array_index(vm->uses, struct vg_engine_use, u);
        for (size_t w = 0; strcmp(use->device, device) == 0 && w < cluster->n_windows; w++)
            sum += vg_vm_gpu_demand(cluster, vm, use, w);
    }
    return sum / (double)cluster->n_windows;
}

/* Returns the demand of a device on an engine in a window. */
static double
offer_demand(const vg_cluster *cluster, const struct vg_vm_state *vm, const char *device,
             const char *engine, size_t w)
{
    double sum = 0;

    for (guint u = 0; u < vm->uses->len; u++) {
        const struct vg_engine_use *use = &g_array_index(vm->uses, struct vg_engine_use, u);
        if (strcmp(use->device, device) == 0 && strcmp(use->engine, engine) == 0)
            sum += vg_vm_gpu_demand(cluster, vm, use, w);
    }
    return sum;
}

/* Returns how much of an engine one more device loses, including the VM's devices that the fit has
 * put there. */
static double
offer_rise(const vg_cluster *cluster, const struct vg_vm_state *vm,
           const struct vg_host_state *host, const struct vg_fit *fit, size_t gpu,
           const struct vg_engine_use *use)
{
    const struct vg_load *load = vg_host_find_engine(
        host, ((const struct vg_snap_gpu *)host->host->gpus->pdata[gpu])->device, use->engine);
    double rise = 0;

    for (size_t w = 0; w < cluster->n_windows; w++) {
        const double more = vg_vm_gpu_demand(cluster, vm, use, w);
        double wanted = load ? load->demand[w] : 0;
        for (size_t i = 0; i < fit->n_devices; i++) {
            if (fit->devices[i].gpu == gpu)
                wanted += offer_demand(cluster, vm, fit->devices[i].device, use->engine, w);
        }
        rise += MAX(wanted + more - 1, 0) - MAX(wanted - 1, 0);
    }
    return rise / (double)cluster->n_windows;
}

/* Sets the load of a GPU, including the VM's devices that the fit has put there, and the loss that
 * one more device causes. */
static void
offer_loads(const vg_cluster *cluster, const struct vg_vm_state *vm,
            const struct vg_host_state *host, const struct vg_fit *fit, const char *device,
            struct vg_card_offer *offer)
{
    const struct vg_snap_gpu *gpu = host->host->gpus->pdata[offer->gpu];

    for (size_t i = 0; i < fit->n_devices; i++) {
        if (fit->devices[i].gpu == offer->gpu)
            offer->load += device_demand(cluster, vm, fit->devices[i].device);
    }
    for (guint e = 0; e < host->engines->len; e++) {
        const struct vg_load *load = &g_array_index(host->engines, struct vg_load, e);
        if (strcmp(load->device, gpu->device) == 0)
            offer->load += vg_load_mean(cluster, load);
    }
    for (guint u = 0; u < vm->uses->len; u++) {
        const struct vg_engine_use *use = &g_array_index(vm->uses, struct vg_engine_use, u);
        if (strcmp(use->device, device) == 0)
            offer->rise += offer_rise(cluster, vm, host, fit, offer->gpu, use);
    }
}

static enum vg_constraint
explain_gpu(enum gpu_obstacle obstacle, const struct vg_snap_vm *vm,
            const struct vg_snap_gpu_use *use, const struct vg_snap_host *host, char **ret_reason)
{
    if (obstacle == NO_TYPE) {
        *ret_reason =
            g_strdup_printf("VM '%s' has a GPU of type '%s', which host '%s' does not offer",
                            vm->name, use->vgpu_type, host->name);
        return VG_CONSTRAINT_GPU_TYPE;
    }
    if (obstacle == NONE_FREE) {
        *ret_reason = g_strdup_printf("host '%s' has no free GPU of type '%s' for VM '%s'",
                                      host->name, use->vgpu_type, vm->name);
        return VG_CONSTRAINT_GPU_FREE;
    }
    *ret_reason =
        g_strdup_printf("VM '%s' needs %.2f GiB of GPU memory; on host '%s', no GPU with a free "
                        "'%s' has enough free memory",
                        vm->name, (double)use->memory_bytes / GIB, host->name, use->vgpu_type);
    return VG_CONSTRAINT_GPU_MEMORY;
}

/* Finds one vGPU for each of the VM's devices, on the best GPU that has one, or on the worst one if
 * the target chooses. */
static enum vg_constraint
check_gpus(const vg_cluster *cluster, const struct vg_vm_state *vm, size_t to, struct vg_fit *fit,
           char **ret_reason)
{
    const struct vg_host_state *host = &cluster->hosts[to];

    fit->named = vg_cluster_names_gpus(cluster, vm, to);
    const enum vg_card_choice how = !fit->named        ? VG_CARD_WORST
                                    : host->packs_gpus ? VG_CARD_PACK
                                                       : VG_CARD_SPREAD;
    for (guint u = 0; u < vm->vm->gpu->len; u++) {
        const struct vg_snap_gpu_use *use = vm->vm->gpu->pdata[u];
        const struct vg_snap_gpu_use *last = u > 0 ? vm->vm->gpu->pdata[u - 1] : NULL;
        if (last && strcmp(last->device, use->device) == 0)
            continue;
        if (!use->vgpu_type) {
            *ret_reason = g_strdup_printf("the vGPU type of VM '%s' on GPU '%s' is not known",
                                          vm->vm->name, use->device);
            return VG_CONSTRAINT_GPU_TYPE;
        }
        enum gpu_obstacle best = NO_TYPE;
        struct vg_card_offer chosen = {0};
        for (guint g = 0; g < host->host->gpus->len; g++) {
            struct vg_card_offer offer = {.gpu = g, .used = vg_card_is_used(&host->cards[g])};
            enum gpu_obstacle obstacle = judge_gpu(cluster, host, g, use, fit, &offer.room);
            if (obstacle == FITS)
                offer_loads(cluster, vm, host, fit, use->device, &offer);
            if (obstacle == FITS && (best != FITS || vg_card_offer_is_better(&offer, &chosen, how)))
                chosen = offer;
            best = MAX(best, obstacle);
        }
        if (best != FITS)
            return explain_gpu(best, vm->vm, use, host->host, ret_reason);
        fit->devices[fit->n_devices].device = use->device;
        fit->devices[fit->n_devices].type = use->vgpu_type;
        fit->devices[fit->n_devices].gpu = chosen.gpu;
        fit->devices[fit->n_devices].memory_bytes = use->memory_bytes;
        fit->n_devices++;
    }
    return VG_CONSTRAINT_NONE;
}

static enum vg_constraint
check_affinity(const vg_cluster *cluster, size_t vm, size_t host, char **ret_reason)
{
    const struct vg_snap_vm *snap = cluster->vms[vm].vm;
    for (guint i = 0; i < snap->affinity->len; i++) {
        const char *group = snap->affinity->pdata[i];
        const GArray *members = g_hash_table_lookup(cluster->affinity, group);
        for (guint m = 0; members && m < members->len; m++) {
            size_t other = g_array_index(members, size_t, m);
            if (other == vm || cluster->vms[other].host == host || cluster->vms[other].together)
                continue;
            *ret_reason = g_strdup_printf(
                "VM '%s' must be on the same host as VM '%s' (affinity group '%s'), which is "
                "not on host '%s'",
                snap->name, cluster->vms[other].vm->name, group, cluster->hosts[host].host->name);
            return VG_CONSTRAINT_AFFINITY;
        }
    }
    return VG_CONSTRAINT_NONE;
}

static enum vg_constraint
check_anti_affinity(const vg_cluster *cluster, size_t vm, size_t host, char **ret_reason)
{
    const struct vg_snap_vm *snap = cluster->vms[vm].vm;
    for (guint i = 0; i < snap->anti_affinity->len; i++) {
        const char *group = snap->anti_affinity->pdata[i];
        const GArray *members = g_hash_table_lookup(cluster->anti_affinity, group);
        for (guint m = 0; members && m < members->len; m++) {
            size_t other = g_array_index(members, size_t, m);
            if (other == vm || cluster->vms[other].host != host)
                continue;
            *ret_reason = g_strdup_printf("VM '%s' must not be on the same host as VM '%s' "
                                          "(anti-affinity group '%s'), which is on host '%s'",
                                          snap->name, cluster->vms[other].vm->name, group,
                                          cluster->hosts[host].host->name);
            return VG_CONSTRAINT_ANTI_AFFINITY;
        }
    }
    return VG_CONSTRAINT_NONE;
}

enum vg_constraint
vg_constraints_host(const vg_cluster *cluster, size_t vm, size_t host, struct vg_fit *ret_fit,
                    char **ret_reason)
{
    const struct vg_vm_state *state = &cluster->vms[vm];
    const struct vg_host_state *target = &cluster->hosts[host];
    struct vg_fit fit = {0};
    enum vg_constraint constraint = VG_CONSTRAINT_NONE;

    if (state->host == host) {
        *ret_reason =
            g_strdup_printf("VM '%s' is already on host '%s'", state->vm->name, target->host->name);
        return VG_CONSTRAINT_SAME_HOST;
    }
    if (target->host->maintenance) {
        *ret_reason = g_strdup_printf("host '%s' is in maintenance", target->host->name);
        return VG_CONSTRAINT_MAINTENANCE;
    }
    if (target->no_demand) {
        *ret_reason = g_strdup_printf("the CPU demand of VM '%s' on host '%s' is unknown",
                                      target->no_demand, target->host->name);
        return VG_CONSTRAINT_UNKNOWN_DEMAND;
    }
    constraint = check_name(cluster, state, target, ret_reason);
    if (constraint == VG_CONSTRAINT_NONE)
        constraint =
            check_cpu_model(state->vm, cluster->hosts[state->home].host, target->host, ret_reason);
    if (constraint == VG_CONSTRAINT_NONE)
        constraint = check_gpus(cluster, state, host, &fit, ret_reason);
    if (constraint == VG_CONSTRAINT_NONE)
        constraint = check_memory(cluster, state->vm, target, ret_reason);
    if (constraint == VG_CONSTRAINT_NONE)
        constraint = check_affinity(cluster, vm, host, ret_reason);
    if (constraint == VG_CONSTRAINT_NONE)
        constraint = check_anti_affinity(cluster, vm, host, ret_reason);
    if (constraint == VG_CONSTRAINT_NONE)
        *ret_fit = fit;
    return constraint;
}

enum vg_constraint
vg_constraints_moves(const vg_cluster *cluster, size_t host, char **ret_reason)
{
    const struct vg_host_state *state = &cluster->hosts[host];

    if (state->moves < cluster->config->max_moves_per_host)
        return VG_CONSTRAINT_NONE;
    if (ret_reason)
        *ret_reason = g_strdup_printf("host '%s' already takes part in %" G_GINT64_FORMAT " of "
                                      "this plan's moves, which is the limit",
                                      state->host->name, state->moves);
    return VG_CONSTRAINT_MOVE_LIMIT;
}
