/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "policy/evacuate.h"

#include <string.h>

#include "policy/constraints.h"
#include "policy/rule.h"

/* A VM of the host, and what determines its order. */
struct evacuee {
    size_t vm;
    int64_t memory_bytes;
};

static void
evacuate_free_gpu(void *gpu)
{
    vg_record_free(&vg_gpu_target_record, gpu);
}

static void
evacuate_free(void *data)
{
    struct vg_evacuation *evacuation = data;

    g_free(evacuation->vm);
    g_free(evacuation->uuid);
    g_free(evacuation->to);
    g_free(evacuation->reason);
    g_ptr_array_unref(evacuation->gpus);
    g_free(evacuation);
}

static int
evacuate_compare(const void *a, const void *b)
{
    const struct evacuee *x = a, *y = b;

    if (x->memory_bytes != y->memory_bytes)
        return x->memory_bytes < y->memory_bytes ? 1 : -1;
    return x->vm < y->vm ? -1 : 1;
}

/* Chooses the target with the smallest loss. Returns false if no host can take the VM. *ret_reason
 * is then the first host's reason and the number of other hosts. */
static bool
evacuate_choose(const vg_cluster *cluster, size_t vm, struct vg_move *ret, char **ret_reason)
{
    struct vg_move half;
    g_autofree char *why = NULL;
    unsigned refused = 0;
    bool found = false;

    vg_move_begin(cluster, vm, &half);
    for (size_t to = 0; to < cluster->n_hosts; to++) {
        struct vg_move move = half;
        struct vg_fit fit;
        char *reason = NULL;
        if (to == half.from)
            continue;
        if (vg_constraints_host(cluster, vm, to, &fit, &reason) != VG_CONSTRAINT_NONE) {
            if (refused++ == 0)
                why = reason;
            else
                g_free(reason);
            continue;
        }
        vg_move_finish(cluster, to, &fit, &move);
        if (!found || move.net > ret->net)
            *ret = move;
        found = true;
    }
    if (found)
        return true;
    if (!why)
        *ret_reason = g_strdup("no other host is known");
    else if (refused == 1)
        *ret_reason = g_steal_pointer(&why);
    else
        *ret_reason = g_strdup_printf("no host can take the VM: %s; %u other hosts cannot take "
                                      "it either",
                                      why, refused - 1);
    return false;
}

/* Places a VM, and carries the move out in the cluster. */
static struct vg_evacuation *
evacuate_place(vg_cluster *cluster, size_t vm)
{
    const struct vg_vm_state *state = &cluster->vms[vm];
    struct vg_evacuation *evacuation = g_new0(struct vg_evacuation, 1);
    struct vg_move move;

    evacuation->vm = g_strdup(state->vm->name);
    evacuation->uuid = g_strdup(state->vm->uuid);
    evacuation->gpus = g_ptr_array_new_with_free_func(evacuate_free_gpu);
    if (vg_constraints_vm(cluster, vm, &evacuation->reason) != VG_CONSTRAINT_NONE ||
        !evacuate_choose(cluster, vm, &move, &evacuation->reason))
        return evacuation;
    const struct vg_snap_host *to = cluster->hosts[move.to].host;
    const double lost = move.to_after.cpu - move.to_before.cpu;
    evacuation->to = g_strdup(to->name);
    evacuation->seconds = move.cost.migration_s;
    evacuation->reason =
        g_strdup_printf("host '%s' has space for the VM, but its arrival costs %.2f cores there",
                        to->name, MAX(lost, 0));
    vg_move_add_gpus(cluster, &move, evacuation->gpus);
    vg_cluster_move(cluster, vm, move.to, &move.fit);
    return evacuation;
}

GPtrArray *
vg_policy_evacuate(const vg_snapshot *snapshot, const struct vg_policy_config *config,
                   const char *host)
{
    g_autoptr(vg_cluster) cluster = vg_cluster_new(snapshot, config);
    g_autoptr(GArray) evacuees = g_array_new(FALSE, FALSE, sizeof(struct evacuee));
    g_autoptr(GPtrArray) staying = g_ptr_array_new();
    GPtrArray *list = g_ptr_array_new_with_free_func(evacuate_free);

    for (size_t i = 0; i < cluster->n_vms; i++) {
        struct vg_vm_state *state = &cluster->vms[i];
        if (strcmp(cluster->hosts[state->home].host->name, host) != 0)
            continue;
        /* A VM without measurements has to leave, too. */
        g_clear_pointer(&state->problem, g_free);
        state->no_demand = state->no_gpu_use = false;
        const struct evacuee evacuee = {i, state->vm->memory_bytes};
        g_array_append_val(evacuees, evacuee);
    }
    g_array_sort(evacuees, evacuate_compare);
    for (guint i = 0; i < evacuees->len; i++) {
        struct vg_evacuation *evacuation =
            evacuate_place(cluster, g_array_index(evacuees, struct evacuee, i).vm);
        g_ptr_array_add(evacuation->to ? list : staying, evacuation);
    }
    for (guint i = 0; i < staying->len; i++)
        g_ptr_array_add(list, staying->pdata[i]);
    return list;
}
