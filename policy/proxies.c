/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <math.h>
#include <string.h>

#include "model/vm-name.h"
#include "policy/gates.h"
#include "policy/proxies-private.h"

#define EPSILON  PROXIES_EPSILON
#define NS_PER_S PROXIES_NS_PER_S

/* The engine with which windows report the work of proxies. */
#define PROXY_ENGINE "opencl"

/* ---- what there is ---- */

/* The fraction of the hold time's windows whose figures must be known. */
#define KNOWN_PART 0.5

/* Returns how many windows make up the hold time. */
static size_t
proxies_windows(const struct proxy_state *state, int64_t window_ns)
{
    return MAX(vg_gate_windows(state->cluster->config->hold_ns, window_ns), 1);
}

/* Returns how many of n windows must be known. */
static size_t
proxies_needed(size_t n)
{
    return MAX((size_t)ceil(KNOWN_PART * (double)n - EPSILON), 1);
}

/* Returns the mean time that a socket lacked, over the known ones of the newest n windows. */
static double
proxies_mean_lacked(const struct vg_snap_proxy *proxy, const struct vg_snap_proxy_socket *socket,
                    size_t n)
{
    const size_t length = MIN(proxy->known->len, socket->lacked->len);
    double sum = 0;
    size_t known = 0;

    for (size_t i = 0; i < MIN(n, length); i++) {
        if (!g_array_index(proxy->known, int32_t, proxy->known->len - 1 - i))
            continue;
        sum += g_array_index(socket->lacked, double, socket->lacked->len - 1 - i);
        known++;
    }
    return known > 0 ? sum / (double)known : 0;
}

/* Returns whether a client waits for long enough: both means reach the threshold. */
static bool
proxies_lasts(const struct proxy_state *state, const struct proxy_client *client)
{
    const struct vg_policy_config *config = state->cluster->config;
    const double threshold = config->contention_threshold - EPSILON;

    return client->n_lacking > 0 && client->lacked >= threshold &&
           (config->hold_long_ns == 0 || client->lacked_long >= threshold);
}

/* Returns the fraction of time for which other programs than proxies use a GPU. */
static double
proxies_own(const struct vg_snap_host *host, const char *device)
{
    double most = 0, ours = 0;

    for (guint g = 0; g < host->gpus->len; g++) {
        const struct vg_snap_gpu *gpu = host->gpus->pdata[g];
        for (guint e = 0; strcmp(gpu->device, device) == 0 && e < gpu->engines->len; e++) {
            const struct vg_snap_engine *engine = gpu->engines->pdata[e];
            double *which = strcmp(engine->engine, PROXY_ENGINE) == 0 ? &ours : &most;
            *which = MAX(*which, engine->share);
        }
    }
    return CLAMP(most - ours, 0.0, 1.0);
}

static size_t
proxies_need_gpu(struct proxy_state *state, const struct vg_snap_host *host,
                 const struct vg_snap_proxy *proxy)
{
    for (guint i = 0; i < state->gpus->len; i++) {
        const struct proxy_gpu *gpu = proxies_gpu(state, i);
        if (proxy->gpu && gpu->host == host && strcmp(gpu->gpu, proxy->gpu) == 0)
            return i;
    }
    struct proxy_gpu gpu = {
        .host = host,
        .gpu = proxy->gpu ? proxy->gpu : proxy->at,
        .window_ns = proxy->window_ns,
        .windows = proxies_windows(state, proxy->window_ns),
        .memory_bytes = proxy->memory_bytes,
        .own = proxy->gpu ? proxies_own(host, proxy->gpu) : 0,
    };
    gpu.n_known = gpu.windows;
    gpu.wants = g_new0(double, gpu.windows);
    gpu.known = g_new(bool, gpu.windows);
    for (size_t i = 0; i < gpu.windows; i++)
        gpu.known[i] = true;
    if (!proxy->gpu)
        gpu.problem =
            proxy->gpus > 1
                ? g_strdup_printf(
                      "the proxy serves %d GPUs, and the GPU that a program uses is unknown",
                      (int)proxy->gpus)
                : g_strdup("the proxy's GPU is not yet known");
    g_array_append_val(state->gpus, gpu);
    return state->gpus->len - 1;
}

/* Adds the known windows of a proxy to its GPU. */
static void
proxies_take_known(const struct proxy_state *state, const struct vg_snap_proxy *proxy,
                   struct proxy_gpu *gpu)
{
    const size_t wanted = gpu->windows, there = MIN(wanted, proxy->known->len);
    size_t n = 0;

    gpu->n_proxies++;
    for (size_t i = 0; i < wanted; i++) {
        bool known =
            i < there && g_array_index(proxy->known, int32_t, proxy->known->len - 1 - i) != 0;
        gpu->known[wanted - 1 - i] = gpu->known[wanted - 1 - i] && known;
        n += known;
    }
    gpu->n_known = MIN(gpu->n_known, n);
    if (gpu->problem)
        return;
    if (proxy->problem)
        gpu->problem =
            g_strdup_printf("the proxy's most recent figures are unknown: %s", proxy->problem);
    else if (there < wanted && state->cluster->config->hold_ns > 0)
        gpu->problem = g_strdup_printf(
            "the proxy's history is too short: %.4g s are required, but %.4g s are recorded",
            (double)state->cluster->config->hold_ns / NS_PER_S,
            (double)(there * (size_t)gpu->window_ns) / NS_PER_S);
    else if (n < proxies_needed(wanted))
        gpu->problem = g_strdup_printf(
            "the figures of %zu of the proxy's last %zu windows are unknown", wanted - n, wanted);
    else if (gpu->window_ns != proxy->window_ns)
        gpu->problem = g_strdup("the VM's proxies have windows of different lengths");
}

/* Finds the VM that a socket names, on any host. If several hosts have such a VM, it is unknown. */
static void
proxies_find_vm(const struct proxy_state *state, const char *name, struct proxy_client *client)
{
    const vg_snapshot *snapshot = state->cluster->snapshot;
    guint found = 0;

    for (guint h = 0; name && h < snapshot->hosts->len; h++) {
        const struct vg_snap_host *host = snapshot->hosts->pdata[h];
        for (guint i = 0; i < host->vms->len; i++) {
            const struct vg_snap_vm *vm = host->vms->pdata[i];
            if (!vg_vm_is(name, vm->name, vm->uuid))
                continue;
            found++;
            client->vm = vm;
            client->vm_host = host;
        }
    }
    if (found > 1)
        client->vm = NULL;
}

static void
proxies_take_socket(struct proxy_state *state, size_t at, const struct vg_snap_proxy *proxy,
                    const struct vg_snap_proxy_socket *socket)
{
    struct proxy_gpu *gpu = proxies_gpu(state, at);
    const size_t length = MIN(proxy->known->len, MIN(socket->run->len, socket->lacked->len));
    struct proxy_client client = {.socket = socket, .proxy = proxy, .gpu = at};
    size_t known = 0;

    client.wants = g_new0(double, gpu->windows);
    for (size_t i = 0; i < MIN(gpu->windows, length); i++) {
        if (!g_array_index(proxy->known, int32_t, proxy->known->len - 1 - i))
            continue;
        const double run = g_array_index(socket->run, double, socket->run->len - 1 - i);
        const double lacked = g_array_index(socket->lacked, double, socket->lacked->len - 1 - i);
        const double wants = MIN(run + lacked, 1.0);
        known++;
        client.run += run;
        client.lacked += lacked;
        client.n_lacking += lacked >= state->cluster->config->contention_threshold - EPSILON;
        client.wants[gpu->windows - 1 - i] = wants;
        gpu->wants[gpu->windows - 1 - i] += wants;
    }
    if (known > 0) {
        client.run /= (double)known;
        client.lacked /= (double)known;
    }
    client.lacked_long = proxies_mean_lacked(
        proxy, socket,
        vg_gate_windows(vg_gate_hold_long(state->cluster->config), proxy->window_ns));
    gpu->used_bytes += socket->used_bytes;
    gpu->reserved_bytes += socket->reserved_bytes;
    proxies_find_vm(state, socket->vm, &client);
    g_array_append_val(state->clients, client);
}

static void
proxies_take_all(struct proxy_state *state)
{
    const vg_snapshot *snapshot = state->cluster->snapshot;

    for (guint h = 0; h < snapshot->hosts->len; h++) {
        const struct vg_snap_host *host = snapshot->hosts->pdata[h];
        for (guint p = 0; p < host->proxies->len; p++) {
            const struct vg_snap_proxy *proxy = host->proxies->pdata[p];
            const size_t gpu = proxies_need_gpu(state, host, proxy);
            proxies_take_known(state, proxy, proxies_gpu(state, gpu));
            for (guint s = 0; s < proxy->sockets->len; s++)
                proxies_take_socket(state, gpu, proxy, proxy->sockets->pdata[s]);
        }
    }
}

static void
proxies_clear(struct proxy_state *state)
{
    for (guint i = 0; i < state->gpus->len; i++) {
        g_free(proxies_gpu(state, i)->wants);
        g_free(proxies_gpu(state, i)->known);
        g_free(proxies_gpu(state, i)->problem);
    }
    for (guint i = 0; i < state->clients->len; i++)
        g_free(proxies_client(state, i)->wants);
    g_array_unref(state->gpus);
    g_array_unref(state->clients);
}

/* ---- another GPU ---- */

struct proxy_switch {
    size_t client, to; /* its socket at the other GPU, also an index of a client */
    double gain, cost, net, most;
};

/* Returns the clients' demand beyond a GPU's time, as a mean over the windows. sign adds (1) or
 * removes (-1) the client. If a window is unknown, the client gets nothing in it. */
static double
proxies_lost(const struct proxy_gpu *gpu, const struct proxy_client *client, double sign)
{
    double lost = 0;

    for (size_t i = 0; i < gpu->windows; i++) {
        if (!gpu->known[i])
            lost += sign > 0 ? client->wants[i] : 0;
        else
            lost += MAX(gpu->wants[i] + sign * client->wants[i] + gpu->own - 1, 0);
    }
    return lost / (double)gpu->windows;
}

/* Returns the pause of a VM's program in seconds, as measured or as expected of any VM. */
static double
proxies_standstill(const struct proxy_state *state, const struct proxy_client *client,
                   bool *ret_measured)
{
    *ret_measured = client->vm_host->proxy_stop_ns > 0;
    return (double)(*ret_measured ? client->vm_host->proxy_stop_ns
                                  : state->cluster->config->stun_ns) /
           NS_PER_S;
}

static double
proxies_copy_s(const struct proxy_state *state, const struct proxy_client *client)
{
    return (double)client->socket->used_bytes / (double)state->cluster->config->bandwidth;
}

/* Returns the factor by which a change must gain more if the figures of a host are old. */
static double
proxies_margin(const struct proxy_state *state, const struct proxy_gpu *a,
               const struct proxy_gpu *b)
{
    const int64_t age_ns = MAX(a->host->age_ns, b->host->age_ns);
    const int64_t stale_ns = state->cluster->config->stale_ns;

    return stale_ns > 0 ? 1 + (double)age_ns / (double)stale_ns : 1;
}

/* Returns how much of a GPU's memory is neither used nor reserved. */
static int64_t
proxies_free(const struct proxy_gpu *gpu)
{
    return MAX(gpu->memory_bytes - gpu->used_bytes - gpu->reserved_bytes, 0);
}

static double
proxies_mib(int64_t bytes)
{
    return (double)bytes / (1 << 20);
}

/* Explains why a VM's programs cannot switch to a socket of another GPU, or returns NULL. */
static char *
proxies_obstacle(const struct proxy_state *state, const struct proxy_client *client,
                 const struct proxy_client *there)
{
    const struct proxy_gpu *to = proxies_gpu(state, there->gpu);
    const struct vg_snap_proxy_socket *socket = there->socket;

    if (to->problem)
        return g_strdup(to->problem);
    if (to->host->maintenance)
        return g_strdup("the proxy's host is in maintenance");
    if (!socket->address ||
        (to->host != client->vm_host && !vg_proxy_address_is_far(socket->address)))
        return g_strdup_printf("the VM's programs cannot reach the socket on that host, %s",
                               socket->socket);
    if (to->memory_bytes == 0)
        return g_strdup("the GPU's memory is unknown");
    if (client->socket->used_bytes > proxies_free(to))
        return g_strdup_printf("the GPU has too little free memory: of %.0f MiB, programs use "
                               "%.0f and arriving programs have reserved %.0f, while these "
                               "programs need %.0f",
                               proxies_mib(to->memory_bytes), proxies_mib(to->used_bytes),
                               proxies_mib(to->reserved_bytes),
                               proxies_mib(client->socket->used_bytes));
    if (socket->memory_bytes > 0 && client->socket->used_bytes > socket->memory_bytes)
        return g_strdup("the VM's memory limit at that proxy is lower than its current use");
    if (proxies_gpu(state, client->gpu)->window_ns != to->window_ns)
        return g_strdup("the proxy has windows of a different length");
    return NULL;
}

static void
proxies_evaluate(const struct proxy_state *state, size_t client_at, size_t there_at,
                 struct proxy_switch *ret)
{
    const struct proxy_client *client = proxies_client(state, client_at);
    const struct proxy_gpu *from = proxies_gpu(state, client->gpu);
    const struct proxy_gpu *to = proxies_gpu(state, proxies_client(state, there_at)->gpu);
    const double horizon_s = (double)state->cluster->config->horizon_ns / NS_PER_S;
    const double before = proxies_lost(from, client, 0);
    bool is_measured;
    double measured = 0;

    for (guint i = 0; i < state->clients->len; i++) {
        const struct proxy_client *other = proxies_client(state, i);
        measured += other->gpu == client->gpu ? other->lacked : 0;
    }
    ret->client = client_at;
    ret->to = there_at;
    ret->most = MIN(before, client->run + client->lacked);
    ret->gain = before - proxies_lost(from, client, -1) -
                (proxies_lost(to, client, 1) - proxies_lost(to, client, 0));
    /* The gain is limited to the measured loss. */
    ret->gain = MIN(ret->gain, measured);
    ret->cost = (client->run + client->lacked) *
                (proxies_standstill(state, client, &is_measured) + proxies_copy_s(state, client)) /
                horizon_s;
    ret->net = ret->gain - ret->cost;
}

static bool
proxies_wins(const struct proxy_state *state, const struct proxy_switch *change)
{
    const struct vg_policy_config *config = state->cluster->config;
    const struct proxy_gpu *from = proxies_gpu(state, proxies_client(state, change->client)->gpu);
    const struct proxy_gpu *to = proxies_gpu(state, proxies_client(state, change->to)->gpu);
    const double margin = proxies_margin(state, from, to);

    return change->net > EPSILON &&
           change->net * config->gpu_weight >= config->min_gain * margin - EPSILON &&
           change->gain >= MIN(config->min_gain_fraction * margin, 1.0) * change->most - EPSILON;
}

/* Returns whether a VM has waited for long enough, or explains why not. */
static bool
proxies_is_held(const struct proxy_state *state, const struct proxy_client *client)
{
    const struct proxy_gpu *gpu = proxies_gpu(state, client->gpu);
    g_autofree char *name = proxies_name(gpu);

    if (client->socket->clients == 0 || !client->vm || client->is_settled)
        return false;
    if (client->vm->problem || client->vm->unmanaged) {
        if (client->n_lacking > 0)
            vg_plan_add_why(state->plan, "VM '%s' waits for %s, but %s", client->vm->name, name,
                            client->vm->problem ? client->vm->problem
                                                : "its host's libvirt does not know it");
        return false;
    }
    if (gpu->problem) {
        vg_plan_add_why(state->plan, "no proposal for VM '%s' at %s: %s", client->vm->name, name,
                        gpu->problem);
        return false;
    }
    if (proxies_lasts(state, client))
        return true;
    if (client->lacked >= state->cluster->config->contention_threshold)
        vg_plan_add_why(state->plan,
                        "VM '%s' waits %.2f of the time for %s, but not for long enough: its mean "
                        "over the last %.4g s is %.3f",
                        client->vm->name, client->lacked, name,
                        (double)vg_gate_hold_long(state->cluster->config) / NS_PER_S,
                        client->lacked_long);
    return false;
}

/* Tries the VM's sockets at all other GPUs. */
static void
proxies_try(const struct proxy_state *state, size_t at, bool is_last, struct proxy_switch *best,
            bool *has_best)
{
    const struct proxy_client *client = proxies_client(state, at);
    guint n_others = 0;

    for (guint i = 0; i < state->clients->len; i++) {
        const struct proxy_client *there = proxies_client(state, i);
        struct proxy_switch change;
        if (there->vm != client->vm || there->gpu == client->gpu)
            continue;
        n_others++;
        g_autofree char *obstacle = proxies_obstacle(state, client, there);
        g_autofree char *name = proxies_name(proxies_gpu(state, there->gpu));
        if (!obstacle)
            proxies_evaluate(state, at, i, &change);
        if (obstacle && is_last)
            vg_plan_add_why(state->plan, "programs in VM '%s' cannot move to %s: %s",
                            client->vm->name, name, obstacle);
        else if (!obstacle && !proxies_wins(state, &change) && is_last)
            vg_plan_add_why(state->plan,
                            "programs in VM '%s' would gain %.3f GPU engines at %s, which is not "
                            "enough",
                            client->vm->name, change.net, name);
        if (obstacle || !proxies_wins(state, &change) ||
            (*has_best && change.net <= best->net + EPSILON))
            continue;
        *best = change;
        *has_best = true;
    }
    if (n_others == 0 && is_last)
        vg_plan_add_why(state->plan,
                        "no proxy for another GPU has a socket for VM '%s', which is waiting",
                        client->vm->name);
}

static double
proxies_mean(const struct proxy_gpu *gpu)
{
    double sum = 0;
    size_t n = 0;

    for (size_t i = 0; i < gpu->windows; i++) {
        sum += gpu->known[i] ? gpu->wants[i] : 0;
        n += gpu->known[i];
    }
    return gpu->own + (n > 0 ? sum / (double)n : 0);
}

static void
proxies_commit_switch(struct proxy_state *state, const struct proxy_switch *change)
{
    struct proxy_client *client = proxies_client(state, change->client);
    struct proxy_client *there = proxies_client(state, change->to);
    struct proxy_gpu *from = proxies_gpu(state, client->gpu), *to = proxies_gpu(state, there->gpu);
    struct vg_plan_proxy_action *action = proxies_new_action(state, client, "proxy-move");
    g_autofree char *here = proxies_name(from), *other = proxies_name(to);
    bool is_measured;

    action->to = g_strconcat("proxy:", there->socket->address, NULL);
    action->to_host = g_strdup(to->host->name);
    action->to_gpu = g_strdup(to->gpu);
    action->weight = there->socket->weight;
    action->gain.gpu_wait_ns_per_s = (int64_t)llround(change->gain * NS_PER_S);
    action->cost.stun_s = proxies_standstill(state, client, &is_measured);
    action->cost.migration_s = proxies_copy_s(state, client);
    action->cost.memory_bytes = client->socket->used_bytes;
    action->reason.rule = g_strdup("proxy-move");
    action->reason.text = g_strdup_printf(
        "VM '%s' waits %.2f of the time for %s (demand %.2f); the demand for %s is %.2f, so its "
        "programs gain %.2f GPU engines there, at a cost of %.3f; they pause for %.2f s%s",
        client->vm->name, client->lacked, here, proxies_mean(from), other, proxies_mean(to),
        change->gain, change->cost, action->cost.stun_s + action->cost.migration_s,
        is_measured ? ", as measured" : ", a pause that has not been measured here yet");
    vg_plan_reason_add_input(&action->reason, "from_wanted_share", proxies_mean(from));
    vg_plan_reason_add_input(&action->reason, "to_wanted_share", proxies_mean(to));
    vg_plan_reason_add_input(&action->reason, "to_free_bytes", (double)proxies_free(to));
    vg_plan_reason_add_input(&action->reason, "to_reserved_bytes", (double)to->reserved_bytes);
    vg_plan_reason_add_input(&action->reason, "cost_engines", change->cost);
    vg_plan_reason_add_input(&action->reason, "net_gain_engines", change->net);
    vg_plan_reason_add_input(&action->reason, "standstill_measured", is_measured);
    for (size_t i = 0; i < from->windows; i++) {
        from->wants[i] = MAX(from->wants[i] - client->wants[i], 0);
        to->wants[i] += client->wants[i];
    }
    to->used_bytes += client->socket->used_bytes;
    client->is_settled = there->is_settled = true;
}

/* Returns whether the plan has the maximum number of changes. */
static bool
proxies_is_full(const struct proxy_state *state)
{
    return (int64_t)state->plan->proxies->len >=
           vg_policy_max_moves(state->cluster->config, state->cluster->n_hosts);
}

static void
proxies_plan_switches(struct proxy_state *state)
{
    bool has_best = true;

    while (has_best && !proxies_is_full(state)) {
        struct proxy_switch best;
        has_best = false;
        for (guint i = 0; i < state->clients->len; i++) {
            const struct proxy_client *client = proxies_client(state, i);
            const struct proxy_gpu *gpu = proxies_gpu(state, client->gpu);
            if (client->vm && !client->is_settled && client->socket->clients > 0 && !gpu->problem &&
                !client->vm->problem && !client->vm->unmanaged && proxies_lasts(state, client))
                proxies_try(state, i, false, &best, &has_best);
        }
        if (has_best)
            proxies_commit_switch(state, &best);
    }
}

/* Explains for each waiting VM why no change is proposed for it, or proposes a weight. */
static void
proxies_plan_rest(struct proxy_state *state)
{
    for (guint i = 0; i < state->clients->len; i++) {
        struct proxy_client *client = proxies_client(state, i);
        struct proxy_switch unused;
        bool has_one = false;
        if (!proxies_is_held(state, client))
            continue;
        proxies_try(state, i, true, &unused, &has_one);
        if (!proxies_is_full(state))
            proxies_plan_weight(state, client);
    }
}

void
vg_proxies_plan(const vg_cluster *cluster, vg_plan *plan)
{
    struct proxy_state state = {
        .cluster = cluster,
        .gpus = g_array_new(FALSE, TRUE, sizeof(struct proxy_gpu)),
        .clients = g_array_new(FALSE, TRUE, sizeof(struct proxy_client)),
        .plan = plan,
    };

    proxies_take_all(&state);
    proxies_plan_switches(&state);
    proxies_plan_rest(&state);
    if (plan->proxies->len > 0)
        plan->verdict = VG_PLAN_CHANGES;
    proxies_clear(&state);
}
