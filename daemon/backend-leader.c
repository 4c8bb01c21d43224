/* SPDX-License-Identifier: Apache-2.0
 *
 * Leads the cluster if this host is the leader: periodically plans for all hosts, and publishes the
 * plan to all vgpuds.
 */
#include "config.h"

#include "cluster/leader.h"
#include "daemon/backend-act.h"
#include "daemon/backend-private.h"
#include "daemon/cluster-config.h"

static struct vg_proposal *
leader_propose(void *data, GError **err)
{
    vg_daemon_backend *backend = data;
    g_autoptr(vg_view) view = vg_node_view(backend->parts.node);
    struct vg_policy_config policy;
    struct vg_act_rules rules;
    int64_t made_ns = 0;

    backend_act_rules(backend, &rules);
    backend_read_policy(backend, &policy);
    /* A group of hosts can have the mode 'act' in a cluster that is only observed. */
    if (rules.mode == VG_POLICY_OBSERVE && !vg_acts_is_wanted(&rules, &policy))
        return NULL;
    g_autoptr(vg_plan) plan =
        backend->ops.plans->make_plan(backend, view, NULL, NULL, &made_ns, err);

    if (plan)
        backend_act_take(backend, plan);
    return plan ? vg_proposal_of(plan, vg_mover_host(backend->parts.mover), made_ns) : NULL;
}

int
backend_start_leader(vg_daemon_backend *backend, GError **err)
{
    const struct vg_daemon_config *config = backend->access;

    if (!backend->parts.region)
        return 0;
    backend->act = backend_act_new(config);
    backend->leader = vg_leader_new(
        &(struct vg_leader_options){
            .etcd = vg_cluster_config_etcd(config),
            .cluster = config->cluster_name,
            .host = vg_mover_host(backend->parts.mover),
            .region = backend->parts.region,
            .interval_ns = config->cluster_interval_ns,
            .propose = leader_propose,
            .act = backend_act_look,
            .data = backend,
        },
        err);
    return backend->leader ? 0 : -1;
}
