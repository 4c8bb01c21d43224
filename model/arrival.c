/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "model/arrival.h"

const char *const vg_arrival_verdict_names[] = {"unknown", "pass", "veto"};
const char *const vg_arrival_basis_names[] = {"size", "flavor", "history"};

struct vg_approval *
vg_approval_new(const char *uuid, const char *to, bool moving)
{
    struct vg_approval *approval = g_new0(struct vg_approval, 1);

    approval->uuid = g_strdup(uuid);
    approval->to = g_strdup(to);
    approval->moving = moving;
    return approval;
}

void
vg_approval_free(void *data)
{
    struct vg_approval *approval = data;

    if (!approval)
        return;
    g_free(approval->uuid);
    g_free(approval->to);
    g_free(approval);
}

static void
arrival_host_free(void *data)
{
    struct vg_arrival_host *host = data;

    g_free(host->name);
    g_free(host->uuid);
    g_free(host);
}

struct vg_arrival_query *
vg_arrival_query_new(void)
{
    struct vg_arrival_query *query = g_new0(struct vg_arrival_query, 1);

    query->vcpus = 1;
    query->vm_class = query->expected_class = -1;
    query->traits = g_ptr_array_new_with_free_func(g_free);
    query->traits_forbidden = g_ptr_array_new_with_free_func(g_free);
    query->hosts = g_ptr_array_new_with_free_func(arrival_host_free);
    return query;
}

void
vg_arrival_query_free(void *data)
{
    struct vg_arrival_query *query = data;

    if (!query)
        return;
    g_ptr_array_unref(query->traits);
    g_ptr_array_unref(query->traits_forbidden);
    g_ptr_array_unref(query->hosts);
    g_free(query->uuid);
    g_free(query->gpu_type);
    g_free(query);
}

struct vg_arrival_host *
vg_arrival_add_host(struct vg_arrival_query *query, const char *name, const char *uuid)
{
    struct vg_arrival_host *host = g_new0(struct vg_arrival_host, 1);

    host->name = g_strdup(name);
    host->uuid = g_strdup(uuid);
    host->score = 0.5;
    host->age_ms = -1;
    g_strlcpy(host->text, "the host is unknown to this vgpud and its peers", sizeof(host->text));
    g_ptr_array_add(query->hosts, host);
    return host;
}
