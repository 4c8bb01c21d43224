/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "daemon/backend-act.h"

#include <string.h>
#include <time.h>

#include <stdatomic.h>

#include "actuators/virt-policy.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "daemon/act-config.h"
#include "daemon/backend-act-past.h"
#include "daemon/cluster-config.h"
#include "policy/host-groups.h"

#define VG_LOG_TAG "act"

/* The time between two checks while moves are under way or wait, while only moves that reverse
 * others wait, and otherwise. */
#define BUSY_NS (3 * VG_NS_PER_S)
#define UNDO_NS (10 * VG_NS_PER_S)
#define REST_NS (30 * VG_NS_PER_S)

/* An older plan is not started, as the load may have changed. */
#define PLAN_AGE_NS (600 * VG_NS_PER_S)

struct backend_act {
    vg_acts *acts;
    atomic_uint_fast64_t started, undone; /* the number of moves since vgpud started */
    atomic_bool spent;                    /* the error budget is spent, as far as this host knows */
    /* Only the thread "leader-plan" uses these members. */
    vg_plan *plan;    /* the newest plan until it is carried out, or NULL */
    int64_t plan_ns;  /* CLOCK_MONOTONIC, when the plan was made */
    int64_t next_ns;  /* CLOCK_MONOTONIC, the time of the next check */
    int64_t revision; /* of the leader's key at the last check */
    struct act_past *past;
    bool has_vm_mode; /* whether a VM had the mode 'act' when the hosts were last read */
};

struct backend_act *
backend_act_new(const struct vg_daemon_config *config)
{
    const struct vg_etcd_options etcd = vg_cluster_config_etcd(config);
    struct backend_act *act = g_new0(struct backend_act, 1);

    act->acts = vg_acts_new(&etcd, config->cluster_name);
    act->past = act_past_new();
    return act;
}

void
backend_act_free(struct backend_act *act)
{
    if (!act)
        return;
    vg_acts_free(act->acts);
    vg_plan_free(act->plan);
    act_past_free(act->past);
    g_free(act);
}

void
backend_act_interrupt(struct backend_act *act)
{
    if (act)
        vg_acts_interrupt(act->acts);
}

void
backend_act_rules(vg_daemon_backend *backend, struct vg_act_rules *ret)
{
    VG_LOCK_SCOPE(&backend->lock);
    vg_act_config_rules(backend->access, ret);
}

void
backend_act_take(vg_daemon_backend *backend, const vg_plan *plan)
{
    struct backend_act *act = backend->act;

    g_clear_pointer(&act->plan, vg_plan_free);
    if (plan->verdict == VG_PLAN_CHANGES && plan->actions->len > 0)
        act->plan = vg_record_copy(&vg_plan_record, plan);
    act->plan_ns = vg_clock_monotonic_ns();
    act->next_ns = 0;
}

/* ---- the data of a check ---- */

/* The data of a check. facts borrows from the other members. */
struct act_check {
    vg_daemon_backend *backend;
    struct vg_act_rules rules;
    struct vg_policy_config policy;
    struct vg_acts_state state;
    struct act_moves moves;
    GPtrArray *notes;
    char *stopped;
    vg_snapshot *snapshot;
    vg_plan *plan; /* the current plan */
    struct vg_acts_facts facts;
};

static void
act_check_clear(struct act_check *check)
{
    vg_acts_state_clear(&check->state);
    act_moves_clear(&check->moves);
    g_clear_pointer(&check->notes, g_ptr_array_unref);
    g_free(check->stopped);
    vg_snapshot_free(check->snapshot);
    vg_plan_free(check->plan);
}

static int
act_minute_of_week(int64_t now_ns)
{
    const time_t now = (time_t)(now_ns / VG_NS_PER_S);
    struct tm local;

    localtime_r(&now, &local);
    return (local.tm_wday + 6) % 7 * VG_DAY_MINUTES + local.tm_hour * 60 + local.tm_min;
}

/* Returns why no automatic move may start, whatever the plan, or NULL. */
static char *
act_why_stopped(const struct act_check *check)
{
    const struct vg_act_mark *pause = check->state.pause;
    vg_daemon_backend *backend = check->backend;

    if (pause)
        return g_strdup_printf(
            "'%s' has paused automatic moves; `vgpuctl policy resume` resumes them", pause->by);
    VG_LOCK_SCOPE(&backend->lock);
    return backend->access->actions
               ? NULL
               : g_strdup_printf("[actions] enabled is 'no' on the leader, '%s'",
                                 vg_mover_host(backend->parts.mover));
}

static void
act_read_hosts(struct act_check *check)
{
    g_autoptr(vg_view) view = vg_node_view(check->backend->parts.node);

    check->notes = g_ptr_array_new_with_free_func(g_free);
    if (view->windows > 0)
        check->snapshot = backend_gather(check->backend, view, check->notes);
}

static bool
act_has_vm_mode(const vg_snapshot *snapshot)
{
    for (guint i = 0; snapshot && i < snapshot->hosts->len; i++) {
        const struct vg_snap_host *host = snapshot->hosts->pdata[i];
        for (guint k = 0; k < host->vms->len; k++) {
            if (((const struct vg_snap_vm *)host->vms->pdata[k])->policy == VG_POLICY_ACT)
                return true;
        }
    }
    return false;
}

/* Sets the facts for policy/acts.h. */
static void
act_set_facts(struct act_check *check)
{
    check->facts.rules = &check->rules;
    check->facts.policy = &check->policy;
    check->facts.moves = check->moves.moves;
    check->facts.unknown = check->moves.unknown;
    check->facts.stopped = check->stopped;
    check->facts.snapshot = check->snapshot;
    check->facts.plan = check->plan;
    check->facts.resumed_ns = check->state.acting->resumed_ns;
    check->facts.vms_act = check->backend->act->has_vm_mode;
    check->facts.minute_of_week = act_minute_of_week(check->facts.now_ns);
}

/* ---- storing the decisions ---- */

static char *
act_text(const vg_acting *acting)
{
    g_autoptr(vg_acting) copy = vg_record_copy(&vg_acting_record, acting);
    g_autoptr(json_object) object = NULL;

    copy->at_ns = 0;
    object = vg_record_write(&vg_acting_record, copy);
    return vg_json_to_text(object, false);
}

static int
act_store(struct act_check *check, int64_t revision, const char *before, GError **err)
{
    vg_acting *acting = check->state.acting;
    g_autofree char *now = act_text(acting);

    if (g_strcmp0(before, now) == 0)
        return 0;
    acting->at_ns = vg_clock_realtime_ns();
    return vg_acts_write(check->backend->act->acts, revision, acting, err);
}

/* Raises an alert while the error budget is spent, and clears it. acting is NULL if this host is no
 * longer the leader: the next leader raises the alert then. */
static void
act_report_spent(vg_daemon_backend *backend, const vg_acting *acting)
{
    const bool spent = acting && acting->spent;

    if (atomic_exchange(&backend->act->spent, spent) == spent)
        return;
    const char *what = spent ? "raised" : "cleared";
    g_autofree char *reason =
        acting ? g_strdup_printf("%" G_GINT64_FORMAT " automatic moves failed or made things worse "
                                 "within the last day; [policy] error_budget is %" G_GINT64_FORMAT,
                                 acting->errors, acting->budget)
               : g_strdup("this host is no longer the leader");
    json_object *data = json_object_new_object();
    vg_json_add_string(data, "what", what);
    vg_json_add_string(data, "alert", VG_ACT_ALERT);
    vg_json_add_string(data, "vm", NULL);
    vg_json_add_string(data, "reason", reason);
    vg_event_log_add(backend->parts.events, "alert", data);
    vg_log_warn("alert %s alert=" VG_ACT_ALERT " reason=\"%s\"", what, reason);
}

/* ---- starting a move ---- */

/* Records the automatic move and its plan in the audit log. No move starts without this entry. */
static int
act_audit(const struct act_check *check, const struct vg_act_move *move, GError **err)
{
    const vg_acting *acting = check->state.acting;
    g_autofree char *object =
        move->undo_of ? g_strdup_printf("%s undoes %s", move->act, move->undo_of)
                      : g_strdup_printf("%s %s %s", move->act, acting->plan_id, acting->plan_hash);
    const struct vg_audit_entry entry = {
        .at_ns = vg_clock_realtime_ns(),
        .identity = (char *)VG_ACT_BY,
        .role = VG_ROLE_OPERATOR,
        .origin = (char *)VG_ACT_BY,
        .method = (char *)"POST",
        .route = (char *)"/v1/migrations",
        .object = object,
        .status = 202,
        .request_id = move->act,
        .count = 1,
    };

    return vg_journal_audit(check->backend->parts.journal, &entry, err);
}

/* Stores the plan in this host's journal. Another host may have made it. */
static int
act_save_plan(const struct act_check *check, GError **err)
{
    const vg_acting *acting = check->state.acting;
    int64_t made_ns = 0;
    const struct vg_saved_plan saved = {
        .id = acting->plan_id,
        .made_ns = vg_clock_realtime_ns(),
        .verdict = (char *)vg_plan_verdict_names[VG_PLAN_CHANGES],
        .text = acting->plan,
    };

    return vg_journal_save_plan(check->backend->parts.journal, &saved, &made_ns, err);
}

/* Returns the move to be reversed, or NULL. */
static const struct vg_migration *
act_find_undone(const struct act_check *check, const struct vg_act_move *move)
{
    for (guint i = 0; move->undo_of && i < check->moves.moves->len; i++) {
        const struct vg_migration *other = check->moves.moves->pdata[i];
        if (strcmp(other->id, move->undo_of) == 0)
            return other;
    }
    return NULL;
}

/* Requests the move from its source. */
static struct vg_migration *
act_request(const struct act_check *check, const struct vg_act_move *move, int64_t revision,
            GError **err)
{
    vg_daemon_backend *backend = check->backend;
    const struct vg_migration *undone = act_find_undone(check, move);
    g_autoptr(GPtrArray) no_gpus = g_ptr_array_new();
    g_autofree char *peer = NULL;
    /* The request contains the revision, so its key does, too: a host that leads again after
     * another one repeats the order with another request. */
    g_autofree char *key = g_strdup_printf("%s/%" G_GINT64_FORMAT, move->act, revision);
    bool known = false;
    const struct vg_migration_request request = {
        .vm = move->uuid,
        .to = move->to,
        .forward = true,
        .no_agent = undone && undone->no_agent,
        .plan_id = move->undo_of ? NULL : check->state.acting->plan_id,
        .plan_hash = move->undo_of ? NULL : check->state.acting->plan_hash,
        .undo_of = move->undo_of,
        .act = move->act,
        .act_revision = revision,
        .act_until_ns = move->until_ns,
        .gpus = no_gpus,
        .asked_by = (char *)VG_ACT_BY,
        .key = key,
    };

    return backend->ops.moves->migrate(backend, &request, &known, &peer, err);
}

/* Returns whether this error proves that the source has not started the move. */
static bool
act_is_refusal(const GError *error)
{
    return g_error_matches(error, VG_ERROR, VG_E_REFUSED) ||
           g_error_matches(error, VG_ERROR, VG_E_CONFLICT) ||
           g_error_matches(error, VG_ERROR, VG_E_NOT_FOUND) ||
           g_error_matches(error, VG_ERROR, VG_E_INVALID) ||
           g_error_matches(error, VG_ERROR, VG_E_DENIED);
}

static void
act_start(const struct act_check *check, struct vg_act_move *move, int64_t revision)
{
    struct backend_act *act = check->backend->act;
    /* A repeated request may be refused because the first one has started the move. Each request
     * has its own audit entry, because a leader may have ended before it wrote the first. */
    const bool again = move->asked_ns != check->facts.now_ns;
    g_autoptr(GError) error = NULL;
    g_autoptr(vg_migration) record = NULL;

    if (act_audit(check, move, &error) < 0 ||
        (!move->undo_of && act_save_plan(check, &error) < 0)) {
        if (!again)
            vg_acts_refuse(move, error->message);
        vg_log_warn("an automatic move was not started act=%s vm=\"%s\" reason=\"%s\"", move->act,
                    move->vm, error->message);
        return;
    }
    record = act_request(check, move, revision, &error);
    if (record) {
        move->step = VG_ACT_MOVING;
        g_free(move->move);
        move->move = g_strdup(record->id);
        g_free(move->why);
        move->why = g_strdup(record->waits_for);
        atomic_fetch_add(move->undo_of ? &act->undone : &act->started, 1);
        vg_log_notice("automatic move started act=%s vm=\"%s\" from=\"%s\" to=\"%s\" move=%s",
                      move->act, move->vm, move->from, move->to, record->id);
        return;
    }
    vg_log_warn("an automatic move was not started act=%s vm=\"%s\" reason=\"%s\"", move->act,
                move->vm, error->message);
    if (!again && act_is_refusal(error))
        vg_acts_refuse(move, error->message);
    else
        vg_act_set_why(move, "it is unknown whether the VM's host has started the move: %s",
                       error->message);
}

/* ---- a check ---- */

/* Decides which moves start. The waiting plan is used if no other move is running. */
static void
act_decide(struct act_check *check, GPtrArray *start)
{
    struct backend_act *act = check->backend->act;
    vg_acting *acting = check->state.acting;

    vg_acts_step(&check->facts, acting, start);
    if (act->plan && vg_clock_monotonic_ns() - act->plan_ns > PLAN_AGE_NS)
        g_clear_pointer(&act->plan, vg_plan_free);
    if (!act->plan || vg_acting_is_blocked(acting) || !acting->acts || !check->snapshot)
        return;
    g_autofree char *id = g_strdup_printf("act-%08x%08x", g_random_int(), g_random_int());
    const unsigned n = vg_acts_take(&check->facts, act->plan, id, acting);
    if (n > 0) {
        vg_log_notice("a plan is being applied plan=%s act=%s moves=%u", act->plan->id, id, n);
        check->facts.plan = act->plan;
        vg_acts_step(&check->facts, acting, start);
        check->facts.plan = NULL;
    }
    g_clear_pointer(&act->plan, vg_plan_free);
}

static int
act_run(struct act_check *check, vg_leader *leader, int64_t revision, GError **err)
{
    g_autoptr(GPtrArray) start = g_ptr_array_new();
    g_autofree char *before = act_text(check->state.acting);

    g_free(check->state.acting->host);
    check->state.acting->host = g_strdup(vg_mover_host(check->backend->parts.mover));
    act_decide(check, start);
    if (act_store(check, revision, before, err) < 0)
        return -1;
    act_report_spent(check->backend, check->state.acting);
    for (guint i = 0; i < start->len; i++) {
        struct vg_act_move *move = start->pdata[i];
        if (!vg_leader_may_act(leader, revision))
            return vg_error(err, VG_E_CONFLICT, "this host may no longer lead the cluster");
        act_start(check, move, revision);
    }
    return start->len > 0 ? act_store(check, revision, NULL, err) : 0;
}

/* Reads only the necessary data, because each query goes to all hosts. */
static int
act_prepare(struct act_check *check, int64_t revision, GError **err)
{
    struct backend_act *act = check->backend->act;
    int known = 0;

    if (vg_acts_read(act->acts, &check->state, err) < 0)
        return -1;
    if (!check->state.acting)
        check->state.acting = vg_record_new(&vg_acting_record);
    backend_act_rules(check->backend, &check->rules);
    backend_read_policy(check->backend, &check->policy);
    const bool busy = vg_acting_is_busy(check->state.acting);
    check->facts.now_ns = vg_clock_realtime_ns();
    if (busy || act->plan)
        act_read_hosts(check);
    if (check->snapshot)
        act->has_vm_mode = act_has_vm_mode(check->snapshot);
    if (busy || act->has_vm_mode || vg_acts_is_wanted(&check->rules, &check->policy))
        known = act_past_read(act->past, check->backend, act->acts, revision, &check->moves, err);
    else
        check->moves.moves = g_ptr_array_new();
    if (known < 0)
        return -1;
    check->stopped = act_why_stopped(check);
    if (busy && check->state.acting->plan)
        check->plan =
            vg_plan_from_json(check->state.acting->plan, strlen(check->state.acting->plan), err);
    if (busy && check->state.acting->plan && !check->plan)
        return -1;
    vg_acts_note_resume(check->state.acting, check->state.resume, check->state.resume_revision,
                        check->facts.now_ns);
    act_set_facts(check);
    return 0;
}

void
backend_act_look(void *data, vg_leader *leader, int64_t revision)
{
    vg_daemon_backend *backend = data;
    struct backend_act *act = backend->act;
    struct act_check check = {.backend = backend};
    g_autoptr(GError) error = NULL;

    if (revision == 0) {
        act_report_spent(backend, NULL);
        return;
    }
    if (act->revision == revision && vg_clock_monotonic_ns() < act->next_ns)
        return;
    if (act_prepare(&check, revision, &error) < 0 || act_run(&check, leader, revision, &error) < 0)
        vg_log_warn_limited("automatic moves cannot start at the moment reason=\"%s\"",
                            error->message);
    else
        act->revision = revision;
    const vg_acting *acting = check.state.acting;
    const bool blocked = error || (acting && vg_acting_is_blocked(acting));
    act->next_ns = vg_clock_monotonic_ns() + (blocked                               ? BUSY_NS
                                              : acting && vg_acting_is_busy(acting) ? UNDO_NS
                                                                                    : REST_NS);
    act_check_clear(&check);
}

/* ---- what the API calls ---- */

static int
act_read(void *data, vg_acts_report *ret, GError **err)
{
    vg_daemon_backend *backend = data;
    g_auto(vg_acts_state) state = {0};
    struct vg_act_rules rules;

    backend_act_rules(backend, &rules);
    ret->mode = rules.mode;
    if (!backend->act)
        return 0;
    if (vg_acts_read(backend->act->acts, &state, err) < 0)
        return -1;
    ret->has_cluster = true;
    ret->acting = g_steal_pointer(&state.acting);
    ret->pause = g_steal_pointer(&state.pause);
    return 0;
}

static int
act_switch(void *data, bool pause, const char *by, GError **err)
{
    const vg_daemon_backend *backend = data;

    if (!backend->act)
        return vg_error(err, VG_E_REFUSED,
                        "this host is not in a cluster ([cluster] etcd is not set), so vgpud "
                        "starts no automatic moves");
    return pause ? vg_acts_pause(backend->act->acts, by, err)
                 : vg_acts_resume(backend->act->acts, by, err);
}

static bool
act_is_spent(void *data)
{
    const vg_daemon_backend *backend = data;

    return backend->act && atomic_load(&backend->act->spent);
}

void
backend_act_count(const vg_daemon_backend *backend, struct vg_daemon_stats *ret)
{
    if (!backend->act)
        return;
    ret->acts_started = atomic_load(&backend->act->started);
    ret->acts_undone = atomic_load(&backend->act->undone);
    ret->acts_spent = atomic_load(&backend->act->spent);
}

int
backend_act_check(vg_daemon_backend *backend, const struct vg_inv_vm *vm, GError **err)
{
    const char *host = vg_mover_host(backend->parts.mover);
    struct vg_policy_config policy;
    struct vg_act_rules rules;

    backend_act_rules(backend, &rules);
    backend_read_policy(backend, &policy);
    const enum vg_policy_mode own = vg_host_groups_mode(&policy, host, rules.mode);
    const enum vg_policy_mode mode =
        vm->policy != VG_POLICY_UNSET && own > VG_POLICY_OBSERVE ? vm->policy : own;
    if (mode == VG_POLICY_ACT)
        return 0;
    return vg_error(err, VG_E_REFUSED,
                    "the policy's mode for '%s' on host '%s' is '%s', so vgpud moves it only if a "
                    "person requests it",
                    vm->name, host, vg_policy_mode_names[mode]);
}

static int
act_set_vm_mode(void *data, const char *id, enum vg_policy_mode mode, GError **err)
{
    const vg_daemon_backend *backend = data;
    g_autoptr(vg_view) view = vg_node_view(backend->parts.node);
    const struct vg_inv_vm *vm = backend_find_here(view, id);
    g_autoptr(vg_move_settings) settings = vg_mover_settings(backend->parts.mover);

    if (!vm)
        return vg_error(err, VG_E_NOT_FOUND, "this host's libvirt has no VM '%s'", id);
    if (!settings->enabled)
        return vg_error(err, VG_E_REFUSED,
                        "actions are disabled on this host; set [actions] enabled=yes in "
                        "vgpud.conf to enable them");
    if (vm->manager)
        return vg_error(err, VG_E_REFUSED, "%s manages '%s', so vgpud does not move it",
                        vm->manager, vm->name);
    g_autoptr(vg_virt_link) link = vg_virt_link_open(settings->libvirt_uri, err);
    return link ? vg_virt_set_policy(link, vm->uuid, mode, err) : -1;
}

const struct vg_backend_acts backend_acts = {
    .set_vm_mode = act_set_vm_mode,
    .read = act_read,
    .set_paused = act_switch,
    .is_spent = act_is_spent,
};
