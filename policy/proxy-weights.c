/* SPDX-License-Identifier: Apache-2.0
 *
 * Determines whether a VM that waits for a proxy's GPU should have another weight there.
 */
#include "config.h"

#include <math.h>
#include <string.h>

#include "policy/proxies-private.h"

/* Divides the time of a GPU, `all` seconds per second, among n clients by weight, as a proxy does.
 * No client gets more than it wants, and others get the rest. */
static void
proxy_weights_divide(double all, size_t n, const double *wants, const double *weights,
                     double *ret_gets)
{
    g_autofree bool *is_full = g_new0(bool, MAX(n, 1));
    bool goes_on = true;

    memset(ret_gets, 0, n * sizeof(*ret_gets));
    while (goes_on) {
        double sum = 0, left = all;
        goes_on = false;
        for (size_t i = 0; i < n; i++) {
            sum += is_full[i] ? 0 : weights[i];
            left -= is_full[i] ? wants[i] : 0;
        }
        for (size_t i = 0; i < n; i++) {
            if (is_full[i])
                continue;
            ret_gets[i] = MAX(left, 0) * weights[i] / sum;
            if (ret_gets[i] < wants[i] - PROXIES_EPSILON)
                continue;
            ret_gets[i] = wants[i];
            is_full[i] = goes_on = true;
        }
    }
}

/* The clients of one proxy that want its GPU now, one of which waits. */
struct proxy_round {
    size_t n, who; /* who: index of the one that waits */
    double all;    /* total of all clients */
    double wants[VG_PROXY_SOCKETS_MAX], weights[VG_PROXY_SOCKETS_MAX];
    double runs[VG_PROXY_SOCKETS_MAX], gets[VG_PROXY_SOCKETS_MAX];
};

/* Returns a program's demand if it never waited: while it waits, it sends no more commands. */
static double
proxy_weights_unhindered(const struct proxy_client *client)
{
    const double left = 1 - client->lacked;

    return left > PROXIES_EPSILON ? CLAMP(client->run / left, client->run, 1.0) : 1.0;
}

static void
proxy_weights_gather(const struct proxy_state *state, const struct proxy_client *client,
                     struct proxy_round *round)
{
    round->n = 0;
    round->all = 0;
    for (guint i = 0; i < state->clients->len && round->n < VG_PROXY_SOCKETS_MAX; i++) {
        const struct proxy_client *other = proxies_client(state, i);
        if (other->gpu != client->gpu || other->socket->clients == 0)
            continue;
        if (other == client)
            round->who = round->n;
        round->wants[round->n] = proxy_weights_unhindered(other);
        round->weights[round->n] = (double)other->socket->weight;
        round->runs[round->n] = other->run;
        round->all += other->run;
        round->n++;
    }
    round->all = MIN(round->all, 1.0);
    proxy_weights_divide(round->all, round->n, round->wants, round->weights, round->gets);
}

/* Returns whether the measurement matches the weights, within the allowed error. */
static bool
proxy_weights_fit(const struct proxy_state *state, const struct proxy_round *round)
{
    const struct vg_policy_config *config = state->cluster->config;

    for (size_t i = 0; i < round->n; i++) {
        if (fabs(round->gets[i] - round->runs[i]) >
            MAX(config->gpu_mode.max_model_error * round->runs[i], config->contention_threshold))
            return false;
    }
    return true;
}

/* Finds a VM's new weight. This is the configured weight if another one is in effect. Otherwise, it
 * is one that satisfies the demand, if that is at most an equal share. Returns 0 and sets *ret_why
 * if there is none. */
static int64_t
proxy_weights_find(const struct proxy_client *client, const struct proxy_round *round,
                   char **ret_why)
{
    const double wants = round->wants[round->who], equal = round->all / (double)round->n;
    double others = 0;

    if (client->socket->configured_weight > client->socket->weight)
        return client->socket->configured_weight;
    for (size_t i = 0; i < round->n; i++)
        others += i == round->who ? 0 : round->weights[i];
    if (wants > equal) {
        *ret_why = g_strdup(
            "the VM demands more than an equal share and gets the share that its weight allows");
        return 0;
    }
    const double weight = ceil(others * wants / (round->all - wants) - PROXIES_EPSILON);
    if (weight <= (double)client->socket->weight)
        *ret_why = g_strdup("its weight covers its entire demand; the VM waits for other programs' "
                            "commands to end, which no weight can shorten");
    else if (weight > VG_PROXY_WEIGHT_MAX)
        *ret_why = g_strdup("the required weight exceeds the maximum");
    return *ret_why ? 0 : (int64_t)weight;
}

/* Returns whether another weight gains enough for the VM, and takes no more from the others than
 * allowed. *ret_gain is what the VM gains. */
static bool
proxy_weights_win(const struct proxy_state *state, const struct proxy_round *round, int64_t weight,
                  double *ret_gain, double *ret_worst)
{
    const struct vg_gpumode_config *config = &state->cluster->config->gpu_mode;
    struct proxy_round then = *round;

    then.weights[then.who] = (double)weight;
    proxy_weights_divide(then.all, then.n, then.wants, then.weights, then.gets);
    *ret_gain = then.gets[then.who] - round->gets[round->who];
    *ret_worst = 0;
    for (size_t i = 0; i < then.n; i++) {
        if (i != then.who && round->gets[i] > PROXIES_EPSILON)
            *ret_worst = MAX(*ret_worst, 1 - then.gets[i] / round->gets[i]);
    }
    return *ret_gain >= config->min_gain - PROXIES_EPSILON &&
           *ret_worst <= config->max_worsening + PROXIES_EPSILON;
}

static void
proxy_weights_commit(struct proxy_state *state, struct proxy_client *client, int64_t weight,
                     double gain, double worst)
{
    struct vg_plan_proxy_action *action = proxies_new_action(state, client, "proxy-weight");
    const bool is_configured = weight == client->socket->configured_weight;
    g_autofree char *here = proxies_name(proxies_gpu(state, client->gpu));

    action->weight = weight;
    action->gain.gpu_wait_ns_per_s = (int64_t)llround(gain * PROXIES_NS_PER_S);
    action->reason.rule = g_strdup("proxy-weight");
    action->reason.text = g_strdup_printf(
        "VM '%s' waits %.2f of the time for %s, and gets %.2f of it with its weight of %d; %s, "
        "which gives it %.2f more, and no other VM loses more than %.0f %% of its share",
        client->vm->name, client->lacked, here, client->run, (int)client->socket->weight,
        is_configured ? "the VM's proxy was started with another weight"
                      : "the VM demands less than an equal share, which a larger weight provides",
        gain, worst * 100);
    vg_plan_reason_add_input(&action->reason, "vm_gains_share", gain);
    vg_plan_reason_add_input(&action->reason, "others_lose_at_most_part", worst);
    client->is_settled = true;
}

void
proxies_plan_weight(struct proxy_state *state, struct proxy_client *client)
{
    struct proxy_round round = {0};
    g_autofree char *why = NULL;
    double gain = 0, worst = 0;

    if (proxies_gpu(state, client->gpu)->n_proxies > 1) {
        vg_plan_add_why(
            state->plan,
            "no weight is proposed for VM '%s': several independent proxies share its GPU",
            client->vm->name);
        return;
    }
    proxy_weights_gather(state, client, &round);
    int64_t weight = 0;
    if (round.n < 2)
        why = g_strdup("no other VM uses the GPU now");
    else if (client->socket->configured_weight <= client->socket->weight &&
             !proxy_weights_fit(state, &round))
        why = g_strdup("the VMs of its GPU do not get the shares that their weights define");
    else
        weight = proxy_weights_find(client, &round, &why);
    if (weight > 0 && proxy_weights_win(state, &round, weight, &gain, &worst)) {
        proxy_weights_commit(state, client, weight, gain, worst);
        return;
    }
    if (!why)
        why = g_strdup_printf("a weight of %d would give the VM %.3f more, but another VM would "
                              "lose %.0f %% of its share",
                              (int)weight, gain, worst * 100);
    vg_plan_add_why(state->plan, "no weight is proposed for VM '%s': %s", client->vm->name, why);
}
