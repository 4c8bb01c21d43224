/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "policy/free-up.h"

#include <inttypes.h>
#include <string.h>

#include "model/free-up.h"
#include "model/gpu-profile.h"
#include "policy/constraints.h"

/* Amounts of engines and cores below this are not shown. */
#define SHOWN 0.005

/* The maximum number of types in a sentence. */
#define TYPES_NAMED 8u

/* The maximum number of constraints checked to find reasons. */
#define OBSTACLES_MAX 2000u

static const char *
free_up_plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

/* ---- the moves ---- */

/* Describes a move of a group: of a VM that leaves the host, or of one that makes space for it. */
static char *
free_up_describe(const vg_cluster *cluster, const struct free_up_want *want,
                 const struct free_up_group *group, size_t step)
{
    const struct vg_move *move = &group->moves[step];
    const char *vm = cluster->vms[move->vm].vm->name, *to = cluster->hosts[move->to].host->name;
    const char *host = cluster->hosts[group->host].host->name;
    g_autofree char *types = g_strdup(move->fit.devices[0].type);
    GString *text = g_string_new(NULL);

    if (group->n > 1)
        g_string_append_printf(text, "Step %zu of %zu. ", step + 1, group->n);
    if (move->from == group->host)
        g_string_append_printf(
            text,
            "VM '%s' leaves GPU '%s', so that host '%s' can have %" PRId64
            " free slot%s of type '%s'. Host '%s' has a slot of type '%s' for the VM.",
            vm, move->fit.devices[0].device, host, want->n, free_up_plural(want->n), want->name, to,
            types);
    else
        g_string_append_printf(text,
                               "VM '%s' makes space on host '%s' for a VM that leaves host '%s'. "
                               "Host '%s' has a slot of type '%s' for the VM.",
                               vm, cluster->hosts[move->from].host->name, host, to, types);
    if (step == 0)
        g_string_append_printf(text, " The plan costs %.3f cores", group->cost);
    if (step == 0 && group->gain < -SHOWN)
        g_string_append_printf(text, ", and %.2f more cores are lost", -group->gain);
    if (step == 0)
        g_string_append_c(text, '.');
    return g_string_free(text, FALSE);
}

static void
free_up_commit(vg_cluster *cluster, const struct free_up_want *want,
               const struct free_up_group *group, vg_plan *plan)
{
    for (size_t i = 0; i < group->n; i++) {
        char *text = free_up_describe(cluster, want, group, i);
        struct vg_plan_action *action =
            vg_move_commit(cluster, &group->moves[i], VG_FREE_UP_RULE, plan);
        action->reason.text = text;
        action->group = 1;
    }
    plan->verdict = VG_PLAN_CHANGES;
    vg_plan_add_note(plan, "the plan does not reserve the slots that it frees");
}

/* ---- why not ---- */

/* Adds a sentence once. */
static void
free_up_add_why(vg_plan *plan, char *take_reason)
{
    g_autofree char *reason = take_reason;

    for (guint i = 0; i < plan->why->len; i++) {
        if (strcmp(plan->why->pdata[i], reason) == 0)
            return;
    }
    vg_plan_add_why(plan, "%s", reason);
}

/* Explains that no GPU offers the type, and lists the existing types. */
static void
free_up_report_types(const vg_cluster *cluster, const struct free_up_want *want, vg_plan *plan)
{
    g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);
    g_autoptr(GString) names = g_string_new(NULL);

    for (size_t h = 0; h < cluster->n_hosts; h++) {
        const struct vg_snap_host *host = cluster->hosts[h].host;
        for (guint g = 0; g < host->gpus->len; g++) {
            const GPtrArray *types = ((const struct vg_snap_gpu *)host->gpus->pdata[g])->vgpu_types;
            for (guint t = 0; t < types->len; t++) {
                char *name = ((struct vg_snap_vgpu_type *)types->pdata[t])->type;
                if (!g_hash_table_add(seen, name) || g_hash_table_size(seen) > TYPES_NAMED)
                    continue;
                g_string_append_printf(names, "%s'%s'", names->len > 0 ? ", " : "", name);
            }
        }
    }
    if (g_hash_table_size(seen) > TYPES_NAMED)
        g_string_append_printf(names, " and %u more", g_hash_table_size(seen) - TYPES_NAMED);
    if (names->len > 0)
        vg_plan_add_why(plan, "no GPU in the cluster offers type '%s'; the offered types are %s",
                        want->name, names->str);
    else
        vg_plan_add_why(plan, "no GPU in the cluster offers type '%s' or any other type",
                        want->name);
}

/* Explains why a VM must stay on its host. */
static void
free_up_report_vm(const vg_cluster *cluster, size_t vm, unsigned *checked, vg_plan *plan)
{
    char *reason = NULL;

    if (vg_constraints_vm(cluster, vm, &reason) != VG_CONSTRAINT_NONE) {
        free_up_add_why(plan, reason);
        return;
    }
    for (size_t to = 0; to < cluster->n_hosts && *checked < OBSTACLES_MAX; to++) {
        struct vg_fit fit;
        if (to == cluster->vms[vm].host)
            continue;
        (*checked)++;
        if (vg_constraints_host(cluster, vm, to, &fit, &reason) != VG_CONSTRAINT_NONE)
            free_up_add_why(plan, reason);
    }
}

/* Explains for each host with GPUs of the type why the slots cannot be freed there. */
static void
free_up_report_hosts(const vg_cluster *cluster, const struct free_up_want *want, vg_plan *plan)
{
    unsigned checked = 0;

    for (size_t h = 0; h < cluster->n_hosts; h++) {
        const struct vg_host_state *host = &cluster->hosts[h];
        bool has_vms = false;
        if (!free_up_is_offered(host, want))
            continue;
        if (host->host->maintenance) {
            vg_plan_add_why(plan, "host '%s' is in maintenance", host->host->name);
            continue;
        }
        for (guint i = 0; i < host->vms->len; i++) {
            const size_t vm = g_array_index(host->vms, size_t, i);
            if (!free_up_concerns(cluster, vm, want))
                continue;
            has_vms = true;
            free_up_report_vm(cluster, vm, &checked, plan);
        }
        if (!has_vms)
            vg_plan_add_why(plan,
                            "host '%s' has no %" PRId64 " slot%s of type '%s', even "
                            "without VMs",
                            host->host->name, want->n, free_up_plural(want->n), want->name);
    }
}

/* Finds a host that has the slots now. */
static const struct vg_host_state *
free_up_find_free(const vg_cluster *cluster, const struct free_up_want *want)
{
    for (size_t h = 0; h < cluster->n_hosts; h++) {
        const struct vg_host_state *host = &cluster->hosts[h];
        if (!host->host->maintenance &&
            free_up_count(host->cards, host->host->gpus->len, want) >= want->n)
            return host;
    }
    return NULL;
}

void
vg_rule_free_up(vg_cluster *cluster, const char *type, int64_t n, vg_plan *plan)
{
    const struct free_up_want want = {
        .name = type,
        .type = vg_card_type_of(cluster->types, type),
        .bytes = vg_gpu_profile_bytes(type),
        .n = n,
    };
    const struct vg_host_state *host = free_up_find_free(cluster, &want);
    struct free_up_group group;
    bool is_offered = false, is_cut = false;

    plan->verdict = host ? VG_PLAN_NOTHING_TO_DO : VG_PLAN_INFEASIBLE;
    if (host) {
        vg_plan_add_why(plan, "host '%s' already has %" PRId64 " free slot%s of type '%s'",
                        host->host->name, n, free_up_plural(n), type);
        return;
    }
    for (size_t h = 0; h < cluster->n_hosts; h++)
        is_offered = is_offered || free_up_is_offered(&cluster->hosts[h], &want);
    if (!is_offered)
        free_up_report_types(cluster, &want, plan);
    else if (free_up_search(cluster, &want, &group, &is_cut))
        free_up_commit(cluster, &want, &group, plan);
    else
        free_up_report_hosts(cluster, &want, plan);
    if (is_cut)
        vg_plan_add_note(plan, "the search reached its limit, so a cheaper group of moves may "
                               "exist");
}
