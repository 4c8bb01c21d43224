/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "daemon/backend.h"

#include <inttypes.h>
#include <unistd.h>

#include "actuators/virt-hang.h"
#include "base/clock.h"
#include "base/thread.h"
#include "collectors/live.h"
#include "daemon/access-config.h"
#include "daemon/backend-act.h"
#include "daemon/backend-private.h"
#include "daemon/secrets.h"
#include "daemon/trace.h"
#include "host/host-facts.h"
#include "host/qemu-tls.h"

/* Data is old if no window was closed for this number of window lengths and for this time. */
#define OLD_WINDOWS 3
#define OLD_MIN_NS  (5 * VG_NS_PER_S)

static vg_view *
get_view(void *data)
{
    const vg_daemon_backend *backend = data;

    return vg_node_view(backend->parts.node);
}

/* Reports whether the engine's figures are current. */
static struct vg_part_status *
engine_status(vg_daemon_backend *backend)
{
    g_autoptr(vg_view) view = vg_node_view(backend->parts.node);
    int64_t age_ns;
    bool replay_ended;

    pthread_mutex_lock(&backend->lock);
    age_ns = backend->age_ns + vg_clock_monotonic_ns() - backend->age_at_ns;
    replay_ended = backend->replay_ended;
    pthread_mutex_unlock(&backend->lock);
    if (view->windows == 0)
        return vg_part_status_new("engine", "starting", false,
                                  g_strdup("no window has been closed yet"));
    if (view->replay || replay_ended || age_ns < MAX(OLD_WINDOWS * view->window_ns, OLD_MIN_NS))
        return vg_part_status_new("engine", "ok", true, NULL);
    return vg_part_status_new("engine", "degraded", false,
                              g_strdup_printf("no window for %.0f s: no collector is measuring",
                                              (double)age_ns / (double)VG_NS_PER_S));
}

static struct vg_part_status *
store_status(vg_daemon_backend *backend)
{
    struct vg_store_health health;

    vg_store_read_health(backend->parts.store, &health);
    switch (health.state) {
    case VG_STORE_OK:
        return vg_part_status_new("store", "ok", true, NULL);
    case VG_STORE_OPENING:
        return vg_part_status_new("store", "starting", false, g_strdup("opening the databases"));
    case VG_STORE_FAILING:
    case VG_STORE_STATE_MAX:
        break;
    }
    struct vg_part_status *part = vg_part_status_new(
        "store", "failed", false,
        g_strdup_printf("%s; %" PRIu64 " windows are waiting in memory, %" PRIu64 " were dropped",
                        health.reason, health.pending, health.dropped));
    part->trouble = health.trouble;
    return part;
}

/* Reports the state of the journal. Without it, no plan can be made and no token can be checked. */
static struct vg_part_status *
journal_status(vg_daemon_backend *backend)
{
    char *reason = NULL;

    if (vg_journal_read_health(backend->parts.journal, &reason))
        return vg_part_status_new("journal", "ok", true, NULL);
    return vg_part_status_new("journal", "failed", false, reason);
}

/* ---- peers ---- */

static GPtrArray *
list_peers(void *data)
{
    const vg_daemon_backend *backend = data;

    return vg_peers_list(backend->parts.peers);
}

/* ---- state ---- */

static GPtrArray *
get_status(void *data)
{
    vg_daemon_backend *backend = data;
    GPtrArray *parts = g_ptr_array_new_with_free_func(vg_part_status_free);

    g_ptr_array_add(parts, engine_status(backend));
    g_ptr_array_add(parts, store_status(backend));
    g_ptr_array_add(parts, journal_status(backend));
    vg_supervisor_status(backend->parts.supervisor, parts);
    if (vg_peers_count(backend->parts.peers) > 0)
        g_ptr_array_add(parts, backend_peers_status(backend));
    if (backend->parts.region)
        g_ptr_array_add(parts, backend_cluster_status(backend));
    pthread_mutex_lock(&backend->lock);
    const bool acts = backend->access && backend->access->actions;
    if (backend->open_secrets)
        g_ptr_array_add(parts, vg_part_status_new("secrets", "degraded", true,
                                                  g_strdup(backend->open_secrets)));
    pthread_mutex_unlock(&backend->lock);
    if (acts)
        g_ptr_array_add(parts, backend_libvirt_status(backend));
    struct vg_part_status *tracing = vg_trace_status();
    if (tracing)
        g_ptr_array_add(parts, tracing);
    return parts;
}

static void
backend_report_setup(const struct vg_daemon_config *config, bool replay,
                     struct vg_daemon_stats *ret)
{
    g_strlcpy(ret->store_directory, config->directory, sizeof(ret->store_directory));
    ret->raw_days = config->raw_days;
    ret->minute_days = config->minute_days;
    ret->hour_days = config->hour_days;
    ret->budget = replay ? 0
                         : vg_live_budget(config->live_budget, config->live_budget_per_cpu,
                                          sysconf(_SC_NPROCESSORS_ONLN));
    ret->libvirt = config->libvirt != VG_USE_NO;
    ret->gpu = config->gpu;
    ret->acting = config->actions;
    ret->tls = (enum vg_tls_mode)config->actions_tls;
    ret->migration_tls = vg_qemu_tls_look("");
}

static void
get_stats(void *data, struct vg_daemon_stats *ret)
{
    vg_daemon_backend *backend = data;
    struct vg_queue_stats queue;

    vg_supervisor_read_stats(backend->parts.supervisor, &queue);
    *ret = (struct vg_daemon_stats){
        .queue_dropped = queue.dropped,
        .queue_high_water = queue.high_water,
        .cpu_s = vg_process_cpu_s(),
        .rss_bytes = vg_process_rss_bytes(),
        .calls_given_up = vg_virt_hangs_total(),
        .calls_hanging = vg_virt_hangs_now(),
    };
    struct vg_alert_command_stats commands;
    vg_alert_command_read_stats(backend->parts.alert_command, &commands);
    ret->alert_commands = commands.runs;
    ret->alert_command_failures = commands.failures;
    ret->alert_commands_dropped = commands.dropped;
    vg_store_read_health(backend->parts.store, &ret->store);
    if (backend->judge)
        vg_judge_count(backend->judge, ret->verdicts);
    backend_act_count(backend, ret);
    g_autoptr(vg_view) view = vg_node_view(backend->parts.node);
    g_autoptr(GPtrArray) peers = vg_peers_list(backend->parts.peers);
    for (guint i = 0; i < peers->len; i++)
        ret->peers[((const struct vg_peer_info *)peers->pdata[i])->state]++;
    VG_LOCK_SCOPE(&backend->lock);
    ret->reloads = backend->reloads;
    ret->reload_failures = backend->reload_failures;
    ret->reload_refused_ns = backend->reload_refused_ns;
    if (backend->access)
        backend_report_setup(backend->access, view->replay, ret);
}

static GArray *
read_samples(void *data, const struct vg_history_query *query, GError **err)
{
    const vg_daemon_backend *backend = data;

    return vg_store_read_samples(backend->parts.store, query, err);
}

static vg_history_host *
read_past(void *data, const struct vg_history_query *query, GError **err)
{
    const vg_daemon_backend *backend = data;

    return vg_store_read_host(backend->parts.store, query, err);
}

static GArray *
backend_read_steps(void *data, const struct vg_history_query *query, GError **err)
{
    const vg_daemon_backend *backend = data;

    return vg_store_read_steps(backend->parts.store, query, err);
}

static char *
backend_find_vm(void *data, const char *name, GError **err)
{
    const vg_daemon_backend *backend = data;

    return vg_store_find_vm(backend->parts.store, name, err);
}

/* ---- checking tokens ---- */

static int
check_token(void *data, const char *token, struct vg_identity *ret, GError **err)
{
    const vg_daemon_backend *backend = data;

    return vg_journal_check_token(backend->parts.journal, token, vg_clock_realtime_ns(), ret, err);
}

static enum vg_role
role_of_subject(void *data, const char *subject)
{
    vg_daemon_backend *backend = data;

    VG_LOCK_SCOPE(&backend->lock);
    return backend->access ? vg_access_config_role(backend->access, subject) : VG_ROLE_NONE;
}

static void
note_refusal(void *data, const char *origin, unsigned status)
{
    const vg_daemon_backend *backend = data;

    vg_journal_note_refusal(backend->parts.journal, origin, status, vg_clock_realtime_ns());
}

static GPtrArray *
list_tokens(void *data, GError **err)
{
    const vg_daemon_backend *backend = data;

    return vg_journal_list_tokens(backend->parts.journal, err);
}

static char *
create_token(void *data, const char *name, enum vg_role role, int64_t expires_ns, GError **err)
{
    const vg_daemon_backend *backend = data;

    return vg_journal_create_token(backend->parts.journal, name, role, vg_clock_realtime_ns(),
                                   expires_ns, err);
}

static int
revoke_token(void *data, const char *name, GError **err)
{
    const vg_daemon_backend *backend = data;

    return vg_journal_revoke_token(backend->parts.journal, name, err);
}

static int
audit(void *data, const struct vg_audit_entry *entry, GError **err)
{
    const vg_daemon_backend *backend = data;
    struct vg_audit_entry now = *entry;

    now.at_ns = vg_clock_realtime_ns();
    return vg_journal_audit(backend->parts.journal, &now, err);
}

static GPtrArray *
list_events(void *data, const struct vg_happening_query *query, GError **err)
{
    const vg_daemon_backend *backend = data;

    return vg_journal_list_events(backend->parts.journal, query, err);
}

static GPtrArray *
list_audit(void *data, int64_t before, size_t limit, GError **err)
{
    const vg_daemon_backend *backend = data;

    return vg_journal_list_audit(backend->parts.journal, before, limit, err);
}

static const struct vg_backend_measurement backend_measurement = {
    .view = get_view,
    .status = get_status,
    .stats = get_stats,
    .samples = read_samples,
    .past = read_past,
    .steps = backend_read_steps,
    .find_vm = backend_find_vm,
    .list_peers = list_peers,
    .list_group_doubts = backend_list_group_doubts,
    .list_hosts = backend_list_hosts,
    .list_cluster_vms = backend_list_cluster_vms,
    .read_cluster = backend_read_cluster,
    .gather = backend_gather,
    .list_proxies = backend_list_proxies_of,
    .list_proxy_guests = backend_list_proxy_guests,
    .show_proxy = backend_show_proxy,
    .list_events = list_events,
};

static const struct vg_backend_access backend_access = {
    .check_token = check_token,
    .role_of_subject = role_of_subject,
    .list_peer_hosts = backend_list_peer_hosts,
    .note_refusal = note_refusal,
    .list_tokens = list_tokens,
    .create_token = create_token,
    .revoke_token = revoke_token,
    .audit = audit,
    .list_audit = list_audit,
};

vg_daemon_backend *
vg_daemon_backend_new(const struct vg_daemon_backend_parts *parts)
{
    vg_daemon_backend *backend = g_new0(vg_daemon_backend, 1);

    backend->parts = *parts;
    backend->policy = *parts->policy;
    backend->age_at_ns = vg_clock_monotonic_ns();
    pthread_mutex_init(&backend->lock, NULL);
    backend->ops = (struct vg_backend){
        .data = backend,
        .measurement = &backend_measurement,
        .access = &backend_access,
        .plans = &backend_plans,
        .moves = &backend_moves,
        .acts = &backend_acts,
    };
    backend->proposed = g_ptr_array_new_with_free_func(backend_proposal_free);
    backend->rooms = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, backend_room_free);
    return backend;
}

void
vg_daemon_backend_set_access(vg_daemon_backend *backend, const struct vg_daemon_config *config)
{
    if (backend->notifier)
        vg_proxy_notifier_configure(backend->notifier, config->proxies);
    char *open_secrets = vg_secrets_check(config);
    VG_LOCK_SCOPE(&backend->lock);
    backend->access = config;
    g_free(backend->open_secrets);
    backend->open_secrets = open_secrets;
}

void
vg_daemon_backend_free(vg_daemon_backend *backend)
{
    if (!backend)
        return;
    vg_leader_free(backend->leader);
    backend_act_free(backend->act);
    vg_judge_free(backend->judge);
    vg_drainer_free(backend->drainer);
    vg_proxy_notifier_free(backend->notifier);
    g_ptr_array_unref(backend->proposed);
    g_free(backend->unplaced.type);
    g_hash_table_unref(backend->rooms);
    backend_arrivals_unref(backend->fleet);
    pthread_mutex_destroy(&backend->lock);
    g_free(backend->open_secrets);
    g_free(backend);
}

const struct vg_backend *
vg_daemon_backend_ops(vg_daemon_backend *backend)
{
    return &backend->ops;
}

void
vg_daemon_backend_set_policy(vg_daemon_backend *backend, const struct vg_policy_config *policy)
{
    VG_LOCK_SCOPE(&backend->lock);
    backend->policy = *policy;
}

void
vg_daemon_backend_set_age(vg_daemon_backend *backend, int64_t age_ns, bool replay_ended)
{
    VG_LOCK_SCOPE(&backend->lock);
    backend->age_ns = age_ns;
    backend->age_at_ns = vg_clock_monotonic_ns();
    backend->replay_ended = replay_ended;
}

void
vg_daemon_backend_count_reload(vg_daemon_backend *backend, bool done)
{
    VG_LOCK_SCOPE(&backend->lock);
    backend->reloads += done;
    backend->reload_failures += !done;
    backend->reload_refused_ns = done ? 0 : vg_clock_realtime_ns();
}
