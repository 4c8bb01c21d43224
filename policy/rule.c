/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "policy/rule.h"

#include <string.h>

static void
weigh(const vg_cluster *cluster, struct vg_move *move)
{
    move->gain.cpu =
        (move->from_before.cpu - move->from_after.cpu) - (move->to_after.cpu - move->to_before.cpu);
    move->gain.gpu =
        (move->from_before.gpu - move->from_after.gpu) - (move->to_after.gpu - move->to_before.gpu);
    move->weighed = vg_loss_weighed(cluster->config, move->gain);
    move->net = move->weighed - move->cost_cores;
}

void
vg_move_begin(const vg_cluster *cluster, size_t vm, struct vg_move *ret)
{
    size_t from = cluster->vms[vm].host;
    *ret = (struct vg_move){
        .vm = vm,
        .from = from,
        .to = from,
        .from_before = vg_predict_host(cluster, from),
        .from_after = vg_predict_without(cluster, from, vm),
    };
    vg_predict_cost(cluster, vm, &ret->cost);
    ret->cost_cores = vg_cost_cores(cluster->config, &ret->cost);
    weigh(cluster, ret);
}

void
vg_move_finish(const vg_cluster *cluster, size_t to, const struct vg_fit *fit, struct vg_move *move)
{
    move->to = to;
    move->fit = *fit;
    move->to_before = vg_predict_host(cluster, to);
    move->to_after = vg_predict_with(cluster, to, move->vm, fit);
    weigh(cluster, move);
}

void
vg_move_evaluate(const vg_cluster *cluster, size_t vm, size_t to, const struct vg_fit *fit,
                 struct vg_move *ret)
{
    vg_move_begin(cluster, vm, ret);
    vg_move_finish(cluster, to, fit, ret);
}

char *
vg_move_text(const vg_cluster *cluster, const struct vg_move *move)
{
    return g_strdup_printf("move '%s' from '%s' to '%s'", cluster->vms[move->vm].vm->name,
                           cluster->hosts[move->from].host->name,
                           cluster->hosts[move->to].host->name);
}

/* Returns the cores that the VMs of the same host lost to this one, as measured. */
static double
caused(const vg_cluster *cluster, size_t vm)
{
    const struct vg_snap_host *host = cluster->hosts[cluster->vms[vm].home].host;
    double sum = 0;
    for (guint v = 0; v < host->vms->len; v++) {
        const struct vg_snap_vm *victim = host->vms->pdata[v];
        for (guint i = 0; victim != cluster->vms[vm].vm && i < victim->lost_to->len; i++) {
            const struct vg_snap_loss *loss = victim->lost_to->pdata[i];
            if (strcmp(loss->aggressor, cluster->vms[vm].vm->name) == 0)
                sum += loss->share;
        }
    }
    return sum;
}

static const char *
role_of(const vg_cluster *cluster, size_t vm)
{
    double did = caused(cluster, vm);
    double suffered = vg_snap_vm_lost(cluster->vms[vm].vm);
    double threshold = cluster->config->contention_threshold;
    if (did >= threshold && did >= suffered)
        return "aggressor";
    return suffered >= threshold ? "victim" : "third";
}

static void
add_inputs(const vg_cluster *cluster, const struct vg_move *move, struct vg_plan_reason *reason)
{
    const struct vg_snap_vm *vm = cluster->vms[move->vm].vm;
    const struct {
        const char *name;
        double value;
    } inputs[] = {
        {"vm_demand_cores", vg_snap_vm_demand(vm)},
        {"vm_lost_cores", vg_snap_vm_lost(vm)},
        {"vm_caused_lost_cores", caused(cluster, move->vm)},
        {"vm_preemptions_per_s", vg_snap_vm_preemptions(vm)},
        {"from_own_cores", vg_host_own(&cluster->hosts[move->from])},
        {"to_own_cores", vg_host_own(&cluster->hosts[move->to])},
        {"from_lost_cores_before", move->from_before.cpu},
        {"from_lost_cores_after", move->from_after.cpu},
        {"to_lost_cores_before", move->to_before.cpu},
        {"to_lost_cores_after", move->to_after.cpu},
        {"from_lost_engines_before", move->from_before.gpu},
        {"from_lost_engines_after", move->from_after.gpu},
        {"to_lost_engines_before", move->to_before.gpu},
        {"to_lost_engines_after", move->to_after.gpu},
        {"cost_cores", move->cost_cores},
        {"net_gain_cores", move->net},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(inputs); i++)
        vg_plan_reason_add_input(reason, inputs[i].name, inputs[i].value);
}

static void
add_notes(const vg_cluster *cluster, const struct vg_move *move, vg_plan *plan)
{
    const struct vg_snap_host *target = cluster->hosts[move->to].host;
    if (move->cost.memory_assumed)
        vg_plan_add_note(plan, "the memory of VM '%s' is unknown; the plan assumes %.1f GiB",
                         cluster->vms[move->vm].vm->name,
                         (double)cluster->config->assumed_memory_bytes / (1024.0 * 1024 * 1024));
    const struct vg_snap_vm *vm = cluster->vms[move->vm].vm;
    if (vm->cpu_limit > 0 && vm->cpu_limit < vm->run_share)
        vg_plan_add_note(plan,
                         "VM '%s' ran for %.2f cores, although its CPU quota is %.2f cores; the "
                         "plan counts the time that it ran",
                         vm->name, vm->run_share, vm->cpu_limit);
    else if (vm->cpu_limit > 0)
        vg_plan_add_note(plan, "the CPU quota of VM '%s' lets it use %.2f cores on every host",
                         vm->name, vm->cpu_limit);
    if (!vg_memory_is_known(target->memory_bytes, target->memory_free_bytes))
        vg_plan_add_note(plan, "the memory of host '%s' is unknown and was not checked",
                         target->name);
    if (!vg_snap_host_knows_own(target) && target->source != VG_SOURCE_EXAMPLE)
        vg_plan_add_note(plan, "the CPU time that host '%s' itself uses is unknown", target->name);
}

void
vg_move_add_gpus(const vg_cluster *cluster, const struct vg_move *move, GPtrArray *gpus)
{
    const struct vg_snap_host *to = cluster->hosts[move->to].host;

    for (size_t i = 0; i < move->fit.n_devices; i++) {
        const struct vg_snap_gpu *gpu = to->gpus->pdata[move->fit.devices[i].gpu];
        struct vg_gpu_target *target = vg_record_new(&vg_gpu_target_record);
        target->type = g_strdup(move->fit.devices[i].type);
        target->from = g_strdup(move->fit.devices[i].device);
        target->to = g_strdup(move->fit.named ? gpu->device : NULL);
        g_ptr_array_add(gpus, target);
    }
}

/* Names the GPUs of the target. */
static void
rule_add_gpus(const vg_cluster *cluster, const struct vg_move *move, struct vg_plan_action *action,
              vg_plan *plan)
{
    const struct vg_snap_host *from = cluster->hosts[move->from].host;
    const struct vg_snap_host *to = cluster->hosts[move->to].host;
    const struct vg_snap_vm *vm = cluster->vms[move->vm].vm;

    vg_move_add_gpus(cluster, move, action->gpus);
    if (move->fit.n_devices == 0 || move->fit.named)
        return;
    if (vm->display_name)
        vg_plan_add_note(plan,
                         "OpenStack chooses the GPU for VM '%s' on host '%s': the stated gain "
                         "assumes the worst free GPU",
                         vm->name, to->name);
    else
        vg_plan_add_note(plan,
                         "vgpud on host '%s' is older, so the plan cannot name a GPU for VM '%s' "
                         "on host '%s': the stated gain assumes the worst free GPU",
                         vg_snap_host_names_gpus(to) ? from->name : to->name, vm->name, to->name);
}

struct vg_plan_action *
vg_move_commit(vg_cluster *cluster, const struct vg_move *move, const char *rule, vg_plan *plan)
{
    const struct vg_snap_vm *vm = cluster->vms[move->vm].vm;
    const struct vg_snap_host *from = cluster->hosts[move->from].host;
    const struct vg_snap_host *to = cluster->hosts[move->to].host;

    struct vg_plan_action *action = vg_record_new(&vg_plan_action_record);
    action->kind = VG_ACTION_MIGRATE;
    action->vm = g_strdup(vm->name);
    action->uuid = g_strdup(vm->uuid);
    action->display_name = g_strdup(vm->display_name);
    action->wave = vg_cluster_next_wave(cluster, move->from, move->to);
    action->from = g_strdup(from->name);
    action->to = g_strdup(to->name);
    action->role = g_strdup(role_of(cluster, move->vm));
    action->reason.rule = g_strdup(rule);
    action->gain = vg_gain_of(move->gain);
    action->cost = move->cost;
    action->facts.vm = vg_snap_vm_facts_hash(from, vm);
    action->facts.from = vg_snap_host_facts_hash(from);
    action->facts.to = vg_snap_host_facts_hash(to);
    add_inputs(cluster, move, &action->reason);
    rule_add_gpus(cluster, move, action, plan);
    add_notes(cluster, move, plan);
    g_ptr_array_add(plan->actions, action);
    vg_cluster_move(cluster, move->vm, move->to, &move->fit);
    return action;
}
