/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "policy/gates.h"

#include <math.h>
#include <string.h>

/* Equal sums of shares differ in the last bits due to rounding. 1e-9 of a core is 1 ns/s. */
#define EPSILON 1e-9

#define NS_PER_S 1e9

/* The factor of min_gain for a VM that has just moved. */
#define REST_MARGIN 10.0

/* Enough digits for figures that differ by more than EPSILON. */
#define DIGITS_MAX 10

void
vg_gate_figures(double a, double b, int digits, char **ret_a, char **ret_b)
{
    bool differ = a < b || a > b;
    for (;; digits++) {
        g_autofree char *a_text = g_strdup_printf("%.*f", digits, a);
        g_autofree char *b_text = g_strdup_printf("%.*f", digits, b);
        if (differ && strcmp(a_text, b_text) == 0 && digits < DIGITS_MAX)
            continue;
        *ret_a = g_steal_pointer(&a_text);
        *ret_b = g_steal_pointer(&b_text);
        return;
    }
}

void
vg_contention_clear(struct vg_contention *contention)
{
    g_free(contention->what);
    *contention = (struct vg_contention){0};
}

size_t
vg_gate_windows(int64_t hold_ns, int64_t window_ns)
{
    if (hold_ns == 0)
        return 0;
    if (window_ns <= 0)
        return 1;
    return (size_t)CLAMP(hold_ns / window_ns + (hold_ns % window_ns != 0), 1,
                         VG_SNAPSHOT_PROFILE_MAX);
}

int64_t
vg_gate_hold_long(const struct vg_policy_config *config)
{
    return config->hold_long_ns == 0 ? 0 : MAX(config->hold_long_ns, config->hold_ns);
}

/* Returns the longest history of the host's VMs, in windows. */
static size_t
host_history(const vg_cluster *cluster, const struct vg_host_state *host)
{
    size_t longest = 0;
    for (guint i = 0; i < host->vms->len; i++) {
        const struct vg_vm_state *vm = &cluster->vms[g_array_index(host->vms, size_t, i)];
        if (!vm->problem && vm->vm->profile.window_ns == cluster->window_ns)
            longest = MAX(longest, vm->vm->profile.cpu->len);
    }
    return longest;
}

struct hold {
    bool held;
    bool too_short;   /* not recorded for the hold time yet */
    size_t looked_at; /* number of windows whose mean is too low */
    double lost;      /* that mean */
};

/* Returns whether the mean over the newest windows of this time reaches the threshold. */
static bool
gate_lasts(const vg_cluster *cluster, size_t host, size_t place, int64_t hold_ns, struct hold *hold)
{
    const size_t history = host_history(cluster, &cluster->hosts[host]);
    const size_t wanted = vg_gate_windows(hold_ns, cluster->window_ns);

    if (wanted == 0)
        return true;
    hold->looked_at = MIN(wanted, MAX(history, 1));
    hold->lost = 0;
    for (size_t i = 0; i < hold->looked_at; i++)
        hold->lost += vg_predict_place(cluster, host, place, cluster->n_windows - 1 - i) /
                      (double)hold->looked_at;
    return hold->lost >= cluster->config->contention_threshold - EPSILON;
}

static struct hold
judge_hold(const vg_cluster *cluster, size_t host_index, size_t place)
{
    const struct vg_host_state *host = &cluster->hosts[host_index];
    const struct vg_policy_config *config = cluster->config;
    struct hold hold = {0};

    hold.too_short =
        host->host->source == VG_SOURCE_LIVE &&
        host_history(cluster, host) < vg_gate_windows(config->hold_ns, cluster->window_ns);
    hold.held = !hold.too_short && gate_lasts(cluster, host_index, place, config->hold_ns, &hold) &&
                gate_lasts(cluster, host_index, place, vg_gate_hold_long(config), &hold);
    return hold;
}

/* Returns the end of the sentence about a place that is not held. */
static char *
describe_hold(const vg_cluster *cluster, const struct vg_host_state *host, const struct hold *hold)
{
    const double window_s = (double)cluster->window_ns / NS_PER_S;
    g_autofree char *lost = NULL, *threshold = NULL;

    if (hold->too_short)
        return g_strdup_printf(", but not for long enough: the mean over the last %.4g s "
                               "counts, but only %.4g s are recorded",
                               (double)cluster->config->hold_ns / NS_PER_S,
                               (double)host_history(cluster, host) * window_s);
    vg_gate_figures(hold->lost, cluster->config->contention_threshold, 2, &lost, &threshold);
    return g_strdup_printf(", but not for long enough: its mean over the last %.4g s is %s, below "
                           "the threshold of %s",
                           (double)hold->looked_at * window_s, lost, threshold);
}

/* Describes the capacity: "4 available" or, for floating VMs, what the pools leave. */
static char *
describe_supply(const vg_cluster *cluster, size_t host_index, const struct vg_load *load)
{
    const struct vg_host_state *host = &cluster->hosts[host_index];
    if (load != &host->floating || host->pools->len == 0)
        return g_strdup_printf("%.0f available", load->capacity);
    return g_strdup_printf("pinned VMs leave %.2f", vg_predict_left(cluster, host_index));
}

/* Describes the demand: "1.00 wanted" or, if the host itself also uses the CPUs, "1.00 wanted by
 * VMs, 0.75 used by the host itself". */
static char *
gate_describe_demand(const vg_cluster *cluster, const struct vg_load *load)
{
    double wanted = vg_load_mean(cluster, load);

    if (load->own < VG_GATE_SHOWN)
        return g_strdup_printf("%.2f demanded", wanted);
    return g_strdup_printf("VMs demand %.2f, the host itself uses %.2f", wanted - load->own,
                           load->own);
}

/* Returns the sentence for a contended place. */
static char *
describe_place(const vg_cluster *cluster, size_t host_index, size_t place, double lost,
               const struct hold *hold)
{
    const struct vg_host_state *host = &cluster->hosts[host_index];
    bool is_gpu = false;
    const struct vg_load *load = vg_host_place(host, place, &is_gpu);
    g_autofree char *wait = hold->held ? NULL : describe_hold(cluster, host, hold);
    g_autofree char *demand = gate_describe_demand(cluster, load);
    g_autofree char *supply = describe_supply(cluster, host_index, load);
    return g_strdup_printf("host '%s' loses %.2f %s on %s (%s, %s)%s", host->host->name, lost,
                           is_gpu ? "engines" : "cores", load->name, demand, supply,
                           wait ? wait : "");
}

struct place {
    size_t index;
    double lost; /* cores or engines */
    bool contended;
    struct hold hold;
};

/* Returns whether place a is worse: contended and held places come first, then those with the most
 * valuable loss. */
static bool
is_worse(const vg_cluster *cluster, const struct vg_host_state *host, const struct place *a,
         const struct place *b)
{
    bool a_is_gpu = false;
    bool b_is_gpu = false;
    vg_host_place(host, a->index, &a_is_gpu);
    vg_host_place(host, b->index, &b_is_gpu);
    if (a->hold.held != b->hold.held)
        return a->hold.held;
    if (a->contended != b->contended)
        return a->contended;
    return a->lost * (a_is_gpu ? cluster->config->gpu_weight : 1) >
           b->lost * (b_is_gpu ? cluster->config->gpu_weight : 1);
}

/* Finds the worst place according to the model. */
static void
check_places(const vg_cluster *cluster, size_t host_index, struct vg_contention *ret)
{
    const struct vg_host_state *host = &cluster->hosts[host_index];
    struct place worst = {0};
    for (size_t i = 0; i < vg_host_n_places(host); i++) {
        struct place place = {.index = i};
        for (size_t w = 0; w < cluster->n_windows; w++)
            place.lost += vg_predict_place(cluster, host_index, i, w) / (double)cluster->n_windows;
        place.contended =
            place.lost > 0 && place.lost >= cluster->config->contention_threshold - EPSILON;
        if (place.contended)
            place.hold = judge_hold(cluster, host_index, i);
        if (i == 0 || is_worse(cluster, host, &place, &worst))
            worst = place;
    }
    ret->contended = worst.contended;
    ret->held = worst.hold.held;
    bool is_gpu = false;
    vg_host_place(host, worst.index, &is_gpu);
    *(is_gpu ? &ret->lost.gpu : &ret->lost.cpu) = worst.lost;
    if (worst.contended) {
        ret->what = describe_place(cluster, host_index, worst.index, worst.lost, &worst.hold);
        return;
    }
    g_autofree char *lost = NULL;
    g_autofree char *threshold = NULL;
    vg_gate_figures(worst.lost, cluster->config->contention_threshold, 2, &lost, &threshold);
    ret->what = g_strdup_printf("host '%s' loses %s %s, below the threshold of %s",
                                host->host->name, lost, is_gpu ? "engines" : "cores", threshold);
}

/* Checks for a VM that waits although the model sees enough capacity. Measured waits no longer
 * apply to a host that the plan has changed. */
static void
check_waits(const vg_cluster *cluster, size_t host_index, struct vg_contention *ret)
{
    const struct vg_host_state *host = &cluster->hosts[host_index];
    const struct vg_vm_state *worst = NULL;
    for (guint i = 0; i < host->vms->len; i++) {
        const struct vg_vm_state *vm = &cluster->vms[g_array_index(host->vms, size_t, i)];
        if (vm->problem)
            continue;
        if (!worst || vg_snap_vm_lost(vm->vm) > vg_snap_vm_lost(worst->vm))
            worst = vm;
    }
    double lost = worst ? vg_snap_vm_lost(worst->vm) : 0;
    if (!worst || host->moves > 0 || lost <= 0 ||
        lost < cluster->config->contention_threshold - EPSILON)
        return;
    size_t history =
        worst->vm->profile.window_ns == cluster->window_ns ? worst->vm->profile.cpu->len : 0;
    ret->contended = true;
    ret->held = host->host->source != VG_SOURCE_LIVE ||
                history >= vg_gate_windows(cluster->config->hold_ns, cluster->window_ns);
    g_free(ret->what);
    ret->what = g_strdup_printf(
        "on host '%s', VM '%s' loses %.2f cores to waiting, although there are enough CPUs on "
        "average%s",
        host->host->name, worst->vm->name, lost, ret->held ? "" : ", but not for long enough yet");
}

void
vg_gate_contention(const vg_cluster *cluster, size_t host, struct vg_contention *ret)
{
    *ret = (struct vg_contention){0};
    check_places(cluster, host, ret);
    if (!ret->contended)
        check_waits(cluster, host, ret);
}

/* Explains why a move that gains `gain`, and `net` after its cost, gains too little. */
static char *
describe_net(double gain, double net, double min_gain)
{
    if (net >= min_gain - EPSILON)
        return g_strdup_printf("the move gains %.3f cores, less than its cost", gain);
    g_autofree char *net_text = NULL;
    g_autofree char *needed = NULL;
    vg_gate_figures(net, min_gain, 3, &net_text, &needed);
    return g_strdup_printf("the move gains %.3f cores, %s after its cost; %s are required", gain,
                           net_text, needed);
}

static char *
describe_fraction(double gain, double most, double fraction)
{
    g_autofree char *gain_text = NULL;
    g_autofree char *needed = NULL;
    vg_gate_figures(gain, fraction * most, 3, &gain_text, &needed);
    return g_strdup_printf("the move gains %s of the %.3f possible cores; %.4g %% are required",
                           gain_text, most, fraction * 100);
}

/* Returns the factor by which a group must gain more than one between hosts with new figures.
 * *ret_old is the host whose figures may be wrong, or NULL. */
static double
gate_margin(const vg_cluster *cluster, const struct vg_claim *claim,
            const struct vg_snap_host **ret_old)
{
    *ret_old = NULL;
    if (cluster->config->stale_ns == 0 || claim->oldest->age_ns == 0)
        return 1;
    *ret_old = claim->oldest;
    return 1 + (double)claim->oldest->age_ns / (double)cluster->config->stale_ns;
}

double
vg_gate_rest_margin(double rest)
{
    return 1 + (REST_MARGIN - 1) * rest;
}

double
vg_claim_gain(const struct vg_claim *claim)
{
    return claim->has_day ? (1 - VG_DAY_WEIGHT) * claim->gain + VG_DAY_WEIGHT * claim->day_gain
                          : claim->gain;
}

/* Returns the cores that a move would have gained over the last 24 h. */
static double
gate_day_gain(const vg_cluster *cluster, const struct vg_move *move)
{
    struct vg_move day;

    vg_move_evaluate(cluster->day, move->vm, move->to, &move->fit, &day);
    return day.weighed;
}

bool
vg_gate_return(const vg_cluster *cluster, const struct vg_move *move, char **ret_reason)
{
    const struct vg_snap_vm *vm = cluster->vms[move->vm].vm;
    const struct vg_snap_host *to = cluster->hosts[move->to].host;
    const struct vg_snap_departed *departed = vg_snap_host_find_departed(to, vm->uuid);
    g_autofree char *day = NULL;

    if (!departed || departed->age_ns > VG_RETURN_NS)
        return true;
    if (cluster->day && departed->age_ns > VG_REST_NS) {
        const double net = gate_day_gain(cluster, move) - move->cost_cores;
        if (net >= cluster->config->min_gain - EPSILON && net > EPSILON)
            return true;
        day = g_strdup_printf("; over the last day, a return would gain %.3f cores after its cost",
                              net);
    }
    if (ret_reason)
        *ret_reason = g_strdup_printf("VM '%s' left host '%s' %.0f min ago%s", vm->name, to->name,
                                      (double)departed->age_ns / NS_PER_S / 60, day ? day : "");
    return false;
}

struct vg_claim
vg_gate_claim(const vg_cluster *cluster, const struct vg_move *move)
{
    const struct vg_snap_host *from = cluster->hosts[move->from].host;
    const struct vg_snap_host *to = cluster->hosts[move->to].host;

    return (struct vg_claim){
        .gain = move->weighed,
        .cost_cores = move->cost_cores,
        .most = MIN(vg_predict_wanted(cluster, move->vm),
                    vg_loss_weighed(cluster->config, move->from_before)),
        .oldest = to->age_ns > from->age_ns ? to : from,
        .rest = cluster->vms[move->vm].rest,
        .has_day = cluster->day != NULL,
        .day_gain = cluster->day ? gate_day_gain(cluster, move) : 0,
    };
}

/* Adds to a reason that the figures of a host are old. Frees take_reason. */
static char *
gate_describe_old(char *take_reason, const struct vg_snap_host *old, double margin)
{
    if (!old)
        return take_reason;
    g_autofree char *reason = take_reason;
    return g_strdup_printf("%s, %.3g times as much as usual because the figures of host '%s' are "
                           "%.0f s old",
                           reason, margin, old->name, (double)old->age_ns / NS_PER_S);
}

/* Adds to a reason that a VM has moved recently. Frees take_reason. */
static char *
gate_describe_rest(char *take_reason, double rest)
{
    if (rest < 1 + EPSILON)
        return take_reason;
    g_autofree char *reason = take_reason;
    return g_strdup_printf(
        "%s, %.3g times as much as usual, since a VM moved less than an hour ago", reason, rest);
}

double
vg_gate_further(const vg_cluster *cluster)
{
    return VG_GATE_FURTHER * cluster->config->min_gain;
}

bool
vg_gate_gain(const vg_cluster *cluster, const struct vg_claim *claim, char **ret_reason)
{
    const struct vg_snap_host *old;
    const double gain = vg_claim_gain(claim), net = gain - claim->cost_cores, most = claim->most;
    const double margin = gate_margin(cluster, claim, &old);
    const double rest = vg_gate_rest_margin(claim->rest);
    const double needed = cluster->config->min_gain * margin * rest;
    /* A move cannot gain more than everything. */
    const double fraction = MIN(cluster->config->min_gain_fraction * margin, 1);

    if (net < needed - EPSILON || net <= EPSILON) {
        if (ret_reason)
            *ret_reason =
                gate_describe_old(gate_describe_rest(describe_net(gain, net, needed), rest),
                                  net < needed - EPSILON ? old : NULL, margin);
        return false;
    }
    if (gain < fraction * most - EPSILON) {
        if (ret_reason)
            *ret_reason = gate_describe_old(describe_fraction(gain, most, fraction), old, margin);
        return false;
    }
    return true;
}
