/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "engine/alerts.h"

#include <string.h>

/* The number of parts in which windows are summed up, so that an hour of them needs no more memory
 * than a minute. */
#define PARTS 30

/* The loss in one part. */
struct alert_part {
    int64_t length_ns;
    int64_t lost_ns;
};

/* A rule, and the VM or host for which it is watched. */
struct alert_watch {
    char *vm; /* NULL for the host */
    char *display_name;
    char *uuid;
    GArray *parts; /* struct alert_part, the oldest first */
    struct alert_part sum;
    bool raised;
    bool seen;        /* the VM was in the window of this step */
    int64_t since_ns; /* epoch, time when it was raised */
    double before;    /* the mean that an earlier run reported */
    /* the time of coming windows in which the alert does not end, because it was raised before */
    int64_t held_ns;
    int64_t below_ns; /* raised: time of windows since the mean fell below */
};

struct alert_state {
    struct vg_alert_rule rule; /* owns its strings */
    GHashTable *watches;       /* struct alert_watch by uuid, or name, or "" for the host */
};

struct vg_alerts {
    GPtrArray *states; /* struct alert_state */
    char *doubt;       /* why alerts of earlier runs are unknown, or NULL */
    int64_t doubt_ns;  /* the length of the windows that are still needed */
};

static void
alert_watch_free(void *data)
{
    struct alert_watch *watch = data;

    g_array_unref(watch->parts);
    g_free(watch->vm);
    g_free(watch->display_name);
    g_free(watch->uuid);
    g_free(watch);
}

static void
alert_state_free(void *data)
{
    struct alert_state *state = data;

    g_hash_table_unref(state->watches);
    g_free((char *)state->rule.name);
    g_free((char *)state->rule.vm);
    g_free(state);
}

vg_alerts *
vg_alerts_new(const struct vg_alert_rule *rules, size_t n_rules)
{
    vg_alerts *alerts = g_new0(vg_alerts, 1);

    alerts->states = g_ptr_array_new_with_free_func(alert_state_free);
    for (size_t i = 0; i < n_rules; i++) {
        struct alert_state *state = g_new0(struct alert_state, 1);
        state->rule = rules[i];
        state->rule.name = g_strdup(rules[i].name);
        state->rule.vm = g_strdup(rules[i].vm ? rules[i].vm : "");
        state->watches = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, alert_watch_free);
        g_ptr_array_add(alerts->states, state);
    }
    return alerts;
}

void
vg_alerts_free(vg_alerts *alerts)
{
    if (!alerts)
        return;
    g_ptr_array_unref(alerts->states);
    g_free(alerts->doubt);
    g_free(alerts);
}

bool
vg_alerts_same(const vg_alerts *alerts, const struct vg_alert_rule *rules, size_t n_rules)
{
    if (alerts->states->len != n_rules)
        return false;
    for (size_t i = 0; i < n_rules; i++) {
        const struct vg_alert_rule *rule =
            &((const struct alert_state *)alerts->states->pdata[i])->rule;
        if (strcmp(rule->name, rules[i].name) != 0 || rule->lost_cores != rules[i].lost_cores ||
            rule->for_ns != rules[i].for_ns || rule->clear_for_ns != rules[i].clear_for_ns ||
            strcmp(rule->vm, rules[i].vm ? rules[i].vm : "") != 0)
            return false;
    }
    return true;
}

static double
alert_mean(const struct alert_watch *watch)
{
    return watch->sum.length_ns > 0 ? (double)watch->sum.lost_ns / (double)watch->sum.length_ns
                                    : watch->before;
}

static void
alert_report(const struct alert_state *state, const struct alert_watch *watch, const char *reason,
             vg_alert_receiver *told, void *data)
{
    const struct vg_alert_change change = {
        .rule = &state->rule,
        .raised = watch->raised,
        .vm = watch->vm,
        .display_name = watch->display_name,
        .uuid = watch->uuid,
        .lost_cores = alert_mean(watch),
        .since_ns = watch->since_ns,
        .reason = reason,
    };

    told(data, &change);
}

/* Adds a window and forgets those before the rule's time. */
static void
alert_add(const struct alert_state *state, struct alert_watch *watch, int64_t length_ns,
          int64_t lost_ns)
{
    const int64_t part_ns = state->rule.for_ns / PARTS;
    struct alert_part *last =
        watch->parts->len > 0
            ? &g_array_index(watch->parts, struct alert_part, watch->parts->len - 1)
            : NULL;

    if (last && last->length_ns + length_ns <= part_ns) {
        last->length_ns += length_ns;
        last->lost_ns += lost_ns;
    } else {
        struct alert_part part = {length_ns, lost_ns};
        g_array_append_val(watch->parts, part);
    }
    watch->sum.length_ns += length_ns;
    watch->sum.lost_ns += lost_ns;
    while (watch->parts->len > 1) {
        const struct alert_part *first = &g_array_index(watch->parts, struct alert_part, 0);
        if (watch->sum.length_ns - first->length_ns < state->rule.for_ns)
            break;
        watch->sum.length_ns -= first->length_ns;
        watch->sum.lost_ns -= first->lost_ns;
        g_array_remove_index(watch->parts, 0);
    }
}

static void
alert_set_name(char **name, const char *now)
{
    if (g_strcmp0(*name, now) == 0)
        return;
    g_free(*name);
    *name = g_strdup(now);
}

static struct alert_watch *
alert_need_watch(struct alert_state *state, const char *key, const char *vm, const char *uuid)
{
    struct alert_watch *watch = g_hash_table_lookup(state->watches, key);

    if (!watch) {
        watch = g_new0(struct alert_watch, 1);
        watch->parts = g_array_new(FALSE, FALSE, sizeof(struct alert_part));
        watch->uuid = g_strdup(uuid);
        g_hash_table_insert(state->watches, g_strdup(key), watch);
    }
    alert_set_name(&watch->vm, vm);
    return watch;
}

/* What is needed to report alerts of a window. */
struct alert_turn {
    int64_t length_ns;
    int64_t end_ns; /* epoch */
    vg_alert_receiver *told;
    void *data;
};

/* Returns whether a raised alert stays raised after a window. */
static bool
alert_stays(const struct alert_state *state, struct alert_watch *watch, int64_t length_ns)
{
    if (alert_mean(watch) >= state->rule.lost_cores * (1 - VG_ALERT_HYSTERESIS)) {
        watch->below_ns = 0;
        return true;
    }
    watch->below_ns += length_ns;
    return watch->below_ns < state->rule.clear_for_ns;
}

static void
alert_evaluate(struct alert_state *state, struct alert_watch *watch, int64_t lost_ns,
               const struct alert_turn *turn)
{
    watch->seen = true;
    alert_add(state, watch, turn->length_ns, lost_ns);
    if (watch->held_ns > turn->length_ns)
        return;
    bool raised = watch->raised ? alert_stays(state, watch, turn->length_ns)
                                : alert_mean(watch) >= state->rule.lost_cores &&
                                      watch->sum.length_ns >= state->rule.for_ns;
    if (raised == watch->raised)
        return;
    watch->raised = raised;
    watch->below_ns = 0;
    if (raised)
        watch->since_ns = turn->end_ns;
    alert_report(state, watch, NULL, turn->told, turn->data);
}

static int64_t
alert_lost(const struct vg_vm_sample *vm)
{
    return vm->cpu.preempt_ns + vm->cpu.wake_wait_ns;
}

/* Stops watching VMs that no longer exist. */
static void
alert_forget(struct alert_state *state, const struct alert_turn *turn)
{
    GHashTableIter iter;
    void *value;

    g_hash_table_iter_init(&iter, state->watches);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        struct alert_watch *watch = value;
        watch->held_ns = MAX(watch->held_ns - turn->length_ns, 0);
        if (watch->seen || watch->held_ns > 0) {
            watch->seen = false;
            continue;
        }
        if (watch->raised) {
            watch->raised = false;
            alert_report(state, watch, "the VM has left", turn->told, turn->data);
        }
        g_hash_table_iter_remove(&iter);
    }
}

/* Returns whether a rule is about a VM. called is the VM's name in OpenStack, or NULL. */
static bool
alert_is_about(const struct vg_alert_rule *rule, const char *name, const char *called,
               const char *uuid)
{
    const char *pattern = rule->vm;

    return pattern[0] && (g_pattern_match_simple(pattern, name) ||
                          (called && g_pattern_match_simple(pattern, called)) ||
                          (uuid && uuid[0] && g_pattern_match_simple(pattern, uuid)));
}

static void
alert_step(struct alert_state *state, const struct vg_window *window, vg_alert_names *name,
           void *names, const struct alert_turn *turn)
{
    int64_t lost_ns = 0;

    for (guint i = 0; i < window->vms->len; i++) {
        const struct vg_vm_sample *vm = &g_array_index(window->vms, struct vg_vm_sample, i);
        const char *called = name(names, vm);
        lost_ns += alert_lost(vm);
        if (!alert_is_about(&state->rule, vm->name, called, vm->uuid))
            continue;
        struct alert_watch *watch =
            alert_need_watch(state, vm->uuid[0] ? vm->uuid : vm->name, vm->name, vm->uuid);
        alert_set_name(&watch->display_name, called);
        alert_evaluate(state, watch, alert_lost(vm), turn);
    }
    if (!state->rule.vm[0])
        alert_evaluate(state, alert_need_watch(state, "", NULL, NULL), lost_ns, turn);
    alert_forget(state, turn);
}

void
vg_alerts_step(vg_alerts *alerts, const struct vg_window *window, int64_t offset_ns,
               vg_alert_names *name, void *names, vg_alert_receiver *told, void *data)
{
    const struct alert_turn turn = {
        .length_ns = window->end_ns - window->begin_ns,
        .end_ns = window->end_ns + offset_ns,
        .told = told,
        .data = data,
    };

    if (window->end_ns <= window->begin_ns)
        return;
    for (guint i = 0; i < alerts->states->len; i++)
        alert_step(alerts->states->pdata[i], window, name, names, &turn);
    alerts->doubt_ns -= turn.length_ns;
    if (alerts->doubt_ns <= 0)
        g_clear_pointer(&alerts->doubt, g_free);
}

bool
vg_alerts_restore(vg_alerts *alerts, const struct vg_active_alert *alert)
{
    for (guint i = 0; i < alerts->states->len; i++) {
        struct alert_state *state = alerts->states->pdata[i];
        const struct vg_alert_rule *rule = &state->rule;
        if (strcmp(rule->name, alert->alert) != 0 || rule->lost_cores != alert->limit ||
            rule->for_ns != alert->for_ns ||
            !(alert->vm ? alert_is_about(rule, alert->vm, alert->display_name, alert->uuid)
                        : rule->vm[0] == '\0'))
            continue;
        const char *key = alert->uuid ? alert->uuid : alert->vm ? alert->vm : "";
        struct alert_watch *watch = alert_need_watch(state, key, alert->vm, alert->uuid);
        alert_set_name(&watch->display_name, alert->display_name);
        watch->raised = true;
        watch->since_ns = alert->since_ns;
        watch->held_ns = rule->for_ns;
        watch->before = alert->lost_cores;
        return true;
    }
    return false;
}

void
vg_alerts_doubt(vg_alerts *alerts, const char *reason)
{
    alerts->doubt_ns = 0;
    for (guint i = 0; i < alerts->states->len; i++) {
        const struct alert_state *state = alerts->states->pdata[i];
        alerts->doubt_ns = MAX(alerts->doubt_ns, state->rule.for_ns);
    }
    g_free(alerts->doubt);
    alerts->doubt = alerts->doubt_ns > 0 ? g_strdup(reason) : NULL;
}

const char *
vg_alerts_read_doubt(const vg_alerts *alerts)
{
    return alerts->doubt;
}

static int
alert_compare(const void *a, const void *b)
{
    const struct vg_active_alert *x = *(struct vg_active_alert *const *)a;
    const struct vg_active_alert *y = *(struct vg_active_alert *const *)b;

    return g_strcmp0(x->vm, y->vm);
}

static void
alert_list_state(const struct alert_state *state, GPtrArray *list)
{
    g_autoptr(GPtrArray) raised = g_ptr_array_new();
    GHashTableIter iter;
    void *value;

    g_hash_table_iter_init(&iter, state->watches);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const struct alert_watch *watch = value;
        if (!watch->raised)
            continue;
        struct vg_active_alert *alert = g_new0(struct vg_active_alert, 1);
        alert->alert = g_strdup(state->rule.name);
        alert->vm = g_strdup(watch->vm);
        alert->display_name = g_strdup(watch->display_name);
        alert->uuid = watch->uuid && watch->uuid[0] ? g_strdup(watch->uuid) : NULL;
        alert->lost_cores = alert_mean(watch);
        alert->limit = state->rule.lost_cores;
        alert->for_ns = state->rule.for_ns;
        alert->since_ns = watch->since_ns;
        g_ptr_array_add(raised, alert);
    }
    g_ptr_array_sort(raised, alert_compare);
    g_ptr_array_extend(list, raised, NULL, NULL);
}

void
vg_alerts_list(const vg_alerts *alerts, GPtrArray *list)
{
    for (guint i = 0; i < alerts->states->len; i++)
        alert_list_state(alerts->states->pdata[i], list);
}

size_t
vg_alerts_count_rules(const vg_alerts *alerts)
{
    return alerts->states->len;
}

void
vg_alerts_end(vg_alerts *alerts, const char *reason, vg_alert_receiver *told, void *data)
{
    for (guint i = 0; i < alerts->states->len; i++) {
        struct alert_state *state = alerts->states->pdata[i];
        GHashTableIter iter;
        void *value;
        g_hash_table_iter_init(&iter, state->watches);
        while (g_hash_table_iter_next(&iter, NULL, &value)) {
            struct alert_watch *watch = value;
            if (!watch->raised)
                continue;
            watch->raised = false;
            alert_report(state, watch, reason, told, data);
        }
    }
}
