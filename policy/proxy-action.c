/* SPDX-License-Identifier: Apache-2.0
 *
 * The common part of all plans for a proxy's client.
 */
#include "config.h"

#include "policy/proxies-private.h"

char *
proxies_name(const struct proxy_gpu *gpu)
{
    return g_strdup_printf("GPU '%s' of host '%s'", gpu->gpu, gpu->host->name);
}

struct vg_plan_proxy_action *
proxies_new_action(const struct proxy_state *state, const struct proxy_client *client,
                   const char *kind)
{
    struct vg_plan_proxy_action *action = vg_record_new(&vg_plan_proxy_action_record);
    const struct proxy_gpu *gpu = proxies_gpu(state, client->gpu);

    action->kind = g_strdup(kind);
    action->vm = g_strdup(client->vm->name);
    action->uuid = g_strdup(client->vm->uuid);
    action->host = g_strdup(client->vm_host->name);
    action->from = client->socket->address ? g_strconcat("proxy:", client->socket->address, NULL)
                                           : g_strdup(client->socket->socket);
    action->from_host = g_strdup(gpu->host->name);
    action->from_gpu = g_strdup(gpu->gpu);
    action->price = g_strdup("live");
    action->weight = action->weight_before = client->socket->weight;
    vg_plan_reason_add_input(&action->reason, "hold_windows", (double)gpu->windows);
    vg_plan_reason_add_input(&action->reason, "hold_windows_lacking", (double)client->n_lacking);
    vg_plan_reason_add_input(&action->reason, "hold_windows_known", (double)gpu->n_known);
    vg_plan_reason_add_input(&action->reason, "vm_run_share", client->run);
    vg_plan_reason_add_input(&action->reason, "vm_lacked_share", client->lacked);
    g_ptr_array_add(state->plan->proxies, action);
    return action;
}
