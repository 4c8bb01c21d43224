/* SPDX-License-Identifier: Apache-2.0
 *
 * Moves of the planning state, and the waves in which they are carried out.
 */
#include "config.h"

#include <string.h>

#include "policy/cluster-private.h"

const char *
vg_fit_device(const struct vg_fit *fit, const struct vg_snap_host *target, const char *device)
{
    for (size_t i = 0; i < fit->n_devices; i++) {
        if (strcmp(fit->devices[i].device, device) == 0)
            return ((const struct vg_snap_gpu *)target->gpus->pdata[fit->devices[i].gpu])->device;
    }
    return device;
}

bool
vg_cluster_names_gpus(const vg_cluster *cluster, const struct vg_vm_state *vm, size_t to)
{
    return !vm->vm->display_name && vg_snap_host_names_gpus(cluster->hosts[vm->home].host) &&
           vg_snap_host_names_gpus(cluster->hosts[to].host);
}

/* Takes the memory and vGPUs of a VM on its new host (sign 1), or gives them back (sign -1). */
static void
cluster_promise(const vg_cluster *cluster, struct vg_host_state *host, const struct vg_snap_vm *vm,
                const struct vg_fit *fit, int sign)
{
    const int64_t bytes =
        vm->memory_bytes > 0 ? vm->memory_bytes : cluster->config->assumed_memory_bytes;

    if (vg_memory_is_known(host->host->memory_bytes, host->host->memory_free_bytes))
        host->memory_free -= sign * bytes;
    for (size_t i = 0; i < fit->n_devices; i++) {
        const size_t at = fit->devices[i].gpu;
        vg_card_put(&host->cards[at], vg_card_type_of(cluster->types, fit->devices[i].type),
                    fit->devices[i].memory_bytes, sign);
    }
}

void
cluster_leave_gpus(const vg_cluster *cluster, const struct vg_host_state *host,
                   const struct vg_snap_vm *vm, struct vg_card *cards, int sign)
{
    for (guint u = 0; u < vm->gpu->len; u++) {
        const struct vg_snap_gpu_use *use = vm->gpu->pdata[u];
        const struct vg_snap_gpu_use *last = u > 0 ? vm->gpu->pdata[u - 1] : NULL;
        if (last && strcmp(last->device, use->device) == 0)
            continue;
        for (guint g = 0; g < host->host->gpus->len; g++) {
            const struct vg_snap_gpu *gpu = host->host->gpus->pdata[g];
            if (strcmp(gpu->device, use->device) == 0)
                vg_card_put(&cards[g], vg_card_type_of(cluster->types, use->vgpu_type),
                            use->memory_bytes, -sign);
        }
    }
}

/* Frees the memory and vGPUs of a VM on its old host (sign 1), or takes them again (sign -1). */
static void
cluster_leave(const vg_cluster *cluster, struct vg_host_state *host, const struct vg_snap_vm *vm,
              int sign)
{
    if (vg_memory_is_known(host->host->memory_bytes, host->host->memory_free_bytes))
        host->memory_free += sign * vm->memory_bytes;
    cluster_leave_gpus(cluster, host, vm, host->cards, sign);
}

/* Moves a VM from its host to another, and into a pool there. */
static void
cluster_put(vg_cluster *cluster, size_t index, size_t to, int pool, const struct vg_fit *fit)
{
    struct vg_vm_state *vm = &cluster->vms[index];
    struct vg_host_state *source = &cluster->hosts[vm->host];
    struct vg_host_state *target = &cluster->hosts[to];
    guint at = 0;

    cluster_add_load(cluster, source, vm, -1);
    while (g_array_index(source->vms, size_t, at) != index)
        at++;
    g_array_remove_index(source->vms, at);
    for (guint u = 0; u < vm->uses->len; u++) {
        struct vg_engine_use *use = &g_array_index(vm->uses, struct vg_engine_use, u);
        const struct vg_snap_gpu_use *snap = vm->vm->gpu->pdata[u];
        use->device = fit ? vg_fit_device(fit, target->host, snap->device) : snap->device;
    }
    vm->host = to;
    vm->pool = pool;
    for (at = 0; at < target->vms->len && g_array_index(target->vms, size_t, at) < index;)
        at++;
    g_array_insert_val(target->vms, at, index);
    cluster_add_load(cluster, target, vm, 1);
}

void
vg_cluster_move(vg_cluster *cluster, size_t vm_index, size_t to, const struct vg_fit *fit)
{
    struct vg_vm_state *vm = &cluster->vms[vm_index];
    struct vg_host_state *source = &cluster->hosts[vm->host];

    vm->home_pool = vm->pool;
    cluster_leave(cluster, source, vm->vm, 1);
    source->moves++;
    cluster_put(cluster, vm_index, to, VG_POOL_FLOATING, fit);
    cluster_promise(cluster, &cluster->hosts[to], vm->vm, fit, 1);
    cluster->hosts[to].moves++;
    if (cluster->day)
        vg_cluster_move(cluster->day, vm_index, to, fit);
}

void
vg_cluster_move_back(vg_cluster *cluster, size_t vm_index, const struct vg_fit *fit)
{
    struct vg_vm_state *vm = &cluster->vms[vm_index];

    cluster_promise(cluster, &cluster->hosts[vm->host], vm->vm, fit, -1);
    cluster->hosts[vm->host].moves--;
    cluster_put(cluster, vm_index, vm->home, vm->home_pool, NULL);
    cluster_leave(cluster, &cluster->hosts[vm->home], vm->vm, -1);
    cluster->hosts[vm->home].moves--;
    if (cluster->day)
        vg_cluster_move_back(cluster->day, vm_index, fit);
}

/* Returns the first wave in which a host can take part in one more move. */
static int64_t
cluster_free_wave(const vg_cluster *cluster, const struct vg_host_state *host)
{
    const bool full = host->wave_moves >= cluster->config->max_moves_per_host;

    return MAX(host->wave + (full ? 1 : 0), 1);
}

static void
cluster_take_part(struct vg_host_state *host, int64_t wave)
{
    host->wave_moves = host->wave == wave ? host->wave_moves + 1 : 1;
    host->wave = wave;
}

int64_t
vg_cluster_next_wave(vg_cluster *cluster, size_t from, size_t to)
{
    struct vg_host_state *source = &cluster->hosts[from], *target = &cluster->hosts[to];
    const int64_t wave =
        MAX(cluster_free_wave(cluster, source), cluster_free_wave(cluster, target));
    const int64_t room = MAX(wave, target->wave_left + 1);

    cluster_take_part(source, room);
    cluster_take_part(target, room);
    source->wave_left = room;
    return room;
}
