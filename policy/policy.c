/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "policy/policy.h"

#include <string.h>

#include "base/error.h"
#include "model/free-up.h"
#include "model/vm-name.h"
#include "policy/constraints.h"
#include "policy/free-up.h"
#include "policy/gates.h"
#include "policy/host-groups.h"
#include "policy/proxies.h"
#include "policy/rule.h"

/* The maximum number of host names in one note. */
#define HOSTS_NAMED 3u
#define VMS_NAMED   5u

static void
add_skips(const vg_cluster *cluster, vg_plan *plan)
{
    for (size_t i = 0; i < cluster->n_vms; i++) {
        const struct vg_vm_state *vm = &cluster->vms[i];
        const char *unknown = vm->no_demand    ? "the VM's CPU demand is unknown"
                              : vm->no_gpu_use ? "the VM has a GPU whose use is unknown"
                                               : NULL;
        if (!vm->problem && !vm->vm->unmanaged && !unknown)
            continue;
        struct vg_plan_skip *skip = vg_record_new(&vg_plan_skip_record);
        skip->vm = g_strdup(vm->vm->name);
        skip->host = g_strdup(cluster->hosts[vm->home].host->name);
        skip->reason = g_strdup(vm->problem ? vm->problem
                                : unknown   ? unknown
                                            : "libvirt on the VM's host does not know the VM");
        g_ptr_array_add(plan->skipped, skip);
    }
}

/* Formats "host 'a'"; "hosts 'a', 'b'"; "hosts 'a', 'b', 'c' and 7 more". */
static char *
name_hosts(const GPtrArray *hosts)
{
    GString *text = g_string_new(hosts->len == 1 ? "host" : "hosts");
    guint shown = MIN(hosts->len, HOSTS_NAMED);

    for (guint i = 0; i < shown; i++) {
        const struct vg_snap_host *host = hosts->pdata[i];
        g_string_append_printf(text, "%s '%s'", i > 0 ? "," : "", host->name);
    }
    if (hosts->len > shown)
        g_string_append_printf(text, " and %u more", hosts->len - shown);
    return g_string_free(text, FALSE);
}

static void
note_examples(const vg_cluster *cluster, vg_plan *plan)
{
    g_autoptr(GPtrArray) examples = g_ptr_array_new();

    for (size_t h = 0; h < cluster->n_hosts; h++) {
        const struct vg_snap_host *host = cluster->hosts[h].host;
        if (host->source == VG_SOURCE_EXAMPLE)
            g_ptr_array_add(examples, (void *)host);
    }
    if (examples->len == 0)
        return;
    g_autofree char *names = name_hosts(examples);
    vg_plan_add_note(plan, "%s %s, not %s", names,
                     examples->len == 1 ? "is an example" : "are examples",
                     examples->len == 1 ? "a measurement" : "measurements");
}

static void
note_losses(const vg_cluster *cluster, vg_plan *plan)
{
    g_autoptr(GPtrArray) lossy = g_ptr_array_new();
    int64_t lost = 0;

    for (size_t h = 0; h < cluster->n_hosts; h++) {
        const struct vg_snap_host *host = cluster->hosts[h].host;
        if (host->lost_events <= 0)
            continue;
        g_ptr_array_add(lossy, (void *)host);
        lost =
            lost > VG_JSON_INT_MAX - host->lost_events ? VG_JSON_INT_MAX : lost + host->lost_events;
    }
    if (lossy->len == 0)
        return;
    g_autofree char *names = name_hosts(lossy);
    vg_plan_add_note(
        plan, "%s: the recorder dropped %" G_GINT64_FORMAT " events, so the figures may be too low",
        names, lost);
}

static int
compare_ages(const void *a, const void *b)
{
    const struct vg_snap_host *x = *(struct vg_snap_host *const *)a;
    const struct vg_snap_host *y = *(struct vg_snap_host *const *)b;

    if (x->age_ns != y->age_ns)
        return x->age_ns < y->age_ns ? 1 : -1;
    return strcmp(x->name, y->name);
}

static void
note_ages(const vg_cluster *cluster, bool asks_gain, vg_plan *plan)
{
    /* paper-threshold and free-up require no gain. */
    const bool asks_more = asks_gain && cluster->config->stale_ns > 0;
    g_autoptr(GPtrArray) old = g_ptr_array_new();
    int64_t age_ns = 0;

    for (size_t h = 0; h < cluster->n_hosts; h++) {
        const struct vg_snap_host *host = cluster->hosts[h].host;
        if (host->age_ns == 0)
            continue;
        g_ptr_array_add(old, (void *)host);
        age_ns = MAX(age_ns, host->age_ns);
    }
    if (old->len == 0)
        return;
    g_ptr_array_sort(old, compare_ages);
    g_autofree char *names = name_hosts(old);
    vg_plan_add_note(plan, "%s: the figures are up to %.0f s old%s", names, (double)age_ns / 1e9,
                     asks_more ? "; moves to and from this host must gain more" : "");
}

/* Returns whether all hosts were measured at some common time, and in the same way. A host whose
 * period has no length is ignored, because its document contains no times. */
static bool
measured_together(const vg_cluster *cluster)
{
    const struct vg_snap_host *first = NULL;
    int64_t begin_ns = INT64_MIN;
    int64_t end_ns = INT64_MAX;
    bool same_source = true;

    for (size_t h = 0; h < cluster->n_hosts; h++) {
        const struct vg_snap_host *host = cluster->hosts[h].host;
        if (host->begin_ns >= host->end_ns)
            continue;
        first = first ? first : host;
        same_source = same_source && host->source == first->source;
        begin_ns = MAX(begin_ns, host->begin_ns);
        end_ns = MIN(end_ns, host->end_ns);
    }
    return same_source && begin_ns < end_ns;
}

/* Names a few hosts that match two groups. Their names were unknown when the file was read. */
static void
note_groups(const vg_cluster *cluster, vg_plan *plan)
{
    guint n = 0;

    for (size_t h = 0; h < cluster->n_hosts && n < HOSTS_NAMED; h++) {
        g_autofree char *doubt =
            vg_host_groups_doubt(cluster->config, cluster->hosts[h].host->name);
        n += doubt != NULL;
        if (doubt)
            vg_plan_add_note(plan, "%s", doubt);
    }
}

/* Notes measurements of different times or kinds. */
static void
note_times(const vg_cluster *cluster, vg_plan *plan)
{
    size_t odd_windows = 0;

    for (size_t i = 0; i < cluster->n_vms; i++) {
        const struct vg_snap_profile *profile = &cluster->vms[i].vm->profile;
        odd_windows += !cluster->vms[i].problem && profile->cpu->len > 0 &&
                       profile->window_ns != cluster->window_ns;
    }
    if (!measured_together(cluster))
        vg_plan_add_note(plan, "the hosts were measured at different times; their demands are "
                               "combined as if measured at the same time");
    if (odd_windows > 0)
        vg_plan_add_note(
            plan,
            "%zu VMs have profiles with an unusual window length; plans use their mean demand",
            odd_windows);
}

/* Hashes the values on which plans depend. Comments, which explain keys, do not count. */
static char *
policy_hash_config(const struct vg_policy_config *config)
{
    g_autofree char *dump = vg_policy_config_dump_of_plans(config);
    g_auto(GStrv) lines = g_strsplit(dump, "\n", -1);
    g_autoptr(GChecksum) sum = g_checksum_new(G_CHECKSUM_SHA256);

    for (guint i = 0; lines[i]; i++) {
        if (lines[i][0] != '#')
            g_checksum_update(sum, (const guchar *)lines[i], (gssize)strlen(lines[i]) + 1);
    }
    return g_strdup(g_checksum_get_string(sum));
}

/* Creates a plan without actions. free_up: the request, or NULL. */
static vg_plan *
policy_begin(const vg_cluster *cluster, const char *rule, const char *free_up)
{
    vg_plan *plan = vg_plan_new();

    plan->rule = g_strdup(rule);
    plan->free_up = g_strdup(free_up);
    plan->input_hash = vg_snapshot_hash(cluster->snapshot);
    plan->config_hash = policy_hash_config(cluster->config);
    vg_plan_set_id(plan);
    add_skips(cluster, plan);
    if (cluster->snapshot->note)
        vg_plan_add_note(plan, "the snapshot reports: %s", cluster->snapshot->note);
    note_examples(cluster, plan);
    note_losses(cluster, plan);
    note_ages(cluster, strcmp(rule, vg_rule_names[VG_RULE_COMPLEMENT]) == 0, plan);
    note_times(cluster, plan);
    note_groups(cluster, plan);
    return plan;
}

vg_plan *
vg_policy_plan(const vg_snapshot *snapshot, const struct vg_policy_config *config,
               enum vg_rule_id rule, GError **err)
{
    if (!snapshot->sealed) {
        vg_error(err, VG_E_BUG, "the snapshot is not sealed");
        return NULL;
    }
    g_autoptr(vg_cluster) cluster = vg_cluster_new(snapshot, config);
    g_autoptr(vg_plan) plan = policy_begin(cluster, vg_rule_names[rule], NULL);
    if (config->hold_fraction >= 0)
        vg_plan_add_note(plan,
                         "hold_fraction is ignored; the mean losses over hold and hold_long count");
    switch (rule) {
    case VG_RULE_COMPLEMENT:
        vg_rule_complement(cluster, plan);
        break;
    case VG_RULE_PAPER_THRESHOLD:
        vg_rule_paper_threshold(cluster, plan);
        break;
    case VG_RULE_MAX:
        vg_error(err, VG_E_BUG, "rule %d does not exist", (int)rule);
        return NULL;
    }
    vg_proxies_plan(cluster, plan);
    return g_steal_pointer(&plan);
}

vg_plan *
vg_policy_plan_free_up(const vg_snapshot *snapshot, const struct vg_policy_config *config,
                       const char *request, GError **err)
{
    g_autofree char *type = NULL;
    int64_t n = 0;

    if (!snapshot->sealed) {
        vg_error(err, VG_E_BUG, "the snapshot is not sealed");
        return NULL;
    }
    if (vg_free_up_parse(request, &type, &n, err) < 0)
        return NULL;
    g_autofree char *text = vg_free_up_text(type, n);
    g_autoptr(vg_cluster) cluster = vg_cluster_new_with_type(snapshot, config, type);
    vg_plan *plan = policy_begin(cluster, VG_FREE_UP_RULE, text);
    vg_rule_free_up(cluster, type, n, plan);
    return plan;
}

/* Returns whether the reference means this VM. */
static bool
is_meant(const struct vg_snap_host *host, const struct vg_snap_vm *vm, const char *reference)
{
    size_t length = strlen(host->name);
    if (vg_vm_is(reference, vm->name, vm->uuid))
        return true;
    return strncmp(reference, host->name, length) == 0 && reference[length] == '/' &&
           strcmp(reference + length + 1, vm->name) == 0;
}

/* Finds the VM by its name in OpenStack. */
static int
policy_find_called(const vg_cluster *cluster, const char *display_name, size_t *ret, GError **err)
{
    g_autoptr(GString) names = g_string_new(NULL);
    size_t found = 0;

    for (size_t i = 0; i < cluster->n_vms; i++) {
        const struct vg_vm_state *vm = &cluster->vms[i];
        if (g_strcmp0(vm->vm->display_name, display_name) != 0)
            continue;
        if (found++ < VMS_NAMED)
            g_string_append_printf(names, "%s'%s/%s'", found > 1 ? ", " : "",
                                   cluster->hosts[vm->home].host->name, vm->vm->name);
        *ret = i;
    }
    if (found == 0)
        return vg_error(err, VG_E_NOT_FOUND, "there is no VM '%s' in the snapshot", display_name);
    if (found > 1)
        return vg_error(err, VG_E_CONFLICT, "%zu VMs have the name '%s' in OpenStack: %s%s", found,
                        display_name, names->str, found > VMS_NAMED ? ", ..." : "");
    return 0;
}

static int
policy_find_vm(const vg_cluster *cluster, const char *reference, size_t *ret, GError **err)
{
    size_t found = cluster->n_vms;
    for (size_t i = 0; i < cluster->n_vms; i++) {
        const struct vg_vm_state *vm = &cluster->vms[i];
        const struct vg_snap_host *host = cluster->hosts[vm->home].host;
        if (!is_meant(host, vm->vm, reference))
            continue;
        if (found < cluster->n_vms) {
            const char *first = cluster->hosts[cluster->vms[found].home].host->name;
            return vg_error(err, VG_E_CONFLICT,
                            "VM '%s' exists on host '%s' and on host '%s'; use '%s/%s' or its UUID",
                            reference, first, host->name, first, reference);
        }
        found = i;
    }
    if (found == cluster->n_vms)
        return policy_find_called(cluster, reference, ret, err);
    *ret = found;
    return 0;
}

static void
explain_gain(const vg_cluster *cluster, const struct vg_move *move,
             struct vg_plan_candidate *candidate)
{
    char *reason = NULL;
    const struct vg_claim claim = vg_gate_claim(cluster, move);
    candidate->gain = vg_gain_of(move->gain);
    candidate->cost = move->cost;
    if (vg_gate_return(cluster, move, &reason) && vg_gate_gain(cluster, &claim, &reason)) {
        candidate->verdict = VG_CANDIDATE_USEFUL;
        candidate->reason = g_strdup_printf(
            "moving the VM there gains %.3f cores, %.3f after its cost", move->weighed, move->net);
        return;
    }
    candidate->verdict = VG_CANDIDATE_NO_GAIN;
    candidate->reason = reason;
}

/* Judges a move by majority, but also reports the forecast. Returns the margin of the majority. */
static int64_t
explain_majority(const vg_cluster *cluster, const struct vg_move *move,
                 struct vg_plan_candidate *candidate)
{
    int64_t margin = vg_paper_judge_host(cluster, move->to, &candidate->reason);
    candidate->gain = vg_gain_of(move->gain);
    candidate->cost = move->cost;
    candidate->verdict = margin > 0 ? VG_CANDIDATE_USEFUL : VG_CANDIDATE_NO_GAIN;
    return margin;
}

/* Explains a host. *best_worth is the worth of the best host so far, in the rule's unit. */
static void
explain_host(const vg_cluster *cluster, size_t vm, size_t host, double *best_worth,
             struct vg_plan_candidate **best, vg_explanation *explanation)
{
    struct vg_fit fit;
    struct vg_plan_candidate *candidate = vg_record_new(&vg_plan_candidate_record);
    candidate->host = g_strdup(cluster->hosts[host].host->name);
    g_ptr_array_add(explanation->candidates, candidate);

    enum vg_constraint constraint =
        vg_constraints_host(cluster, vm, host, &fit, &candidate->reason);
    if (constraint == VG_CONSTRAINT_SAME_HOST) {
        candidate->verdict = VG_CANDIDATE_CURRENT;
        return;
    }
    if (constraint != VG_CONSTRAINT_NONE) {
        candidate->verdict = VG_CANDIDATE_FORBIDDEN;
        candidate->constraint = g_strdup(vg_constraint_name(constraint));
        return;
    }
    struct vg_move move;
    vg_move_evaluate(cluster, vm, host, &fit, &move);
    double worth = move.net;
    if (cluster->config->rule == VG_RULE_PAPER_THRESHOLD)
        worth = (double)explain_majority(cluster, &move, candidate);
    else
        explain_gain(cluster, &move, candidate);
    if (candidate->verdict == VG_CANDIDATE_USEFUL && (!*best || worth > *best_worth)) {
        *best = candidate;
        *best_worth = worth;
    }
}

/* Returns whether the rule would act on the VM or its host. */
static bool
explain_need(const vg_cluster *cluster, size_t vm, char **ret_reason)
{
    if (cluster->config->rule == VG_RULE_PAPER_THRESHOLD)
        return vg_paper_judge_vm(cluster, vm, ret_reason);
    struct vg_contention contention;
    vg_gate_contention(cluster, cluster->vms[vm].host, &contention);
    *ret_reason = g_steal_pointer(&contention.what);
    return contention.held;
}

vg_explanation *
vg_policy_explain(const vg_snapshot *snapshot, const struct vg_policy_config *config,
                  const char *vm_reference, GError **err)
{
    if (!snapshot->sealed) {
        vg_error(err, VG_E_BUG, "the snapshot is not sealed");
        return NULL;
    }
    g_autoptr(vg_cluster) cluster = vg_cluster_new(snapshot, config);
    size_t vm = 0;
    if (policy_find_vm(cluster, vm_reference, &vm, err) < 0)
        return NULL;

    const struct vg_vm_state *state = &cluster->vms[vm];
    vg_explanation *explanation = vg_explanation_new();
    explanation->vm = g_strdup(state->vm->name);
    explanation->display_name = g_strdup(state->vm->display_name);
    explanation->uuid = g_strdup(state->vm->uuid);
    explanation->host = g_strdup(cluster->hosts[state->host].host->name);
    explanation->movable =
        vg_constraints_vm(cluster, vm, &explanation->reason) == VG_CONSTRAINT_NONE;
    bool needed = explanation->movable && explain_need(cluster, vm, &explanation->reason);
    double best_worth = 0;
    struct vg_plan_candidate *best = NULL;
    for (size_t host = 0; host < cluster->n_hosts; host++)
        explain_host(cluster, vm, host, &best_worth, &best, explanation);
    if (best && needed)
        best->verdict = VG_CANDIDATE_BEST;
    return explanation;
}
