/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cluster/leader.h"

#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"

#define VG_LOG_TAG "leader"

/* The duration of the leader's lease. etcd's minimum is two seconds. */
#define TTL_S 4

/* The time limit for a call that concerns the lease. It must leave time for another attempt. */
#define CALL_NS (VG_NS_PER_S * 3 / 2)
/* The time limit for the check of the key after that call. */
#define KEY_NS   (VG_NS_PER_S / 2)
#define WRITE_NS (5 * VG_NS_PER_S)

#define CHECK_NS VG_NS_PER_S

/* A leader does not act during this last part of its lease. */
#define MARGIN_NS VG_NS_PER_S

/* The number of hosts that check whether there is a leader: the first live ones by name. */
#define CANDIDATES 5

struct vg_leader {
    char *key, *plan_key;
    char *host;
    vg_etcd *etcd;
    vg_region *region;
    int64_t interval_ns;
    vg_leader_propose *propose;
    vg_leader_act *act;
    void *data;
    pthread_mutex_t lock;
    vg_thread *thread;
    vg_thread *planner;
    /* The lock protects these members. */
    /* the revision that created this host's key, or 0 if this host is not the leader */
    int64_t created;
    int64_t end_ns; /* CLOCK_MONOTONIC, the time when the lease has certainly ended */
    /* Only the thread "leader" uses this member. */
    int64_t lease; /* 0 for none */
};

static int64_t
leader_created(vg_leader *leader)
{
    VG_LOCK_SCOPE(&leader->lock);
    return leader->created;
}

static void
leader_set(vg_leader *leader, int64_t created, int64_t end_ns)
{
    VG_LOCK_SCOPE(&leader->lock);
    leader->created = created;
    leader->end_ns = end_ns;
}

static int64_t
leader_end(vg_leader *leader)
{
    VG_LOCK_SCOPE(&leader->lock);
    return leader->end_ns;
}

static void
leader_lose(vg_leader *leader, const char *why)
{
    vg_log_notice("this host is no longer the leader reason=\"%s\"", why);
    leader_set(leader, 0, 0);
    leader->lease = 0;
}

/* ---- the key ---- */

static char *
leader_text(const vg_leader *leader)
{
    const struct vg_cluster_leader now = {leader->host, vg_clock_realtime_ns()};
    g_autoptr(json_object) object = vg_record_write(&vg_cluster_leader_record, &now);

    return vg_json_to_text(object, false);
}

/* Creates the leader's key if it does not exist. */
static void
leader_campaign(vg_leader *leader)
{
    const int64_t asked_ns = vg_clock_monotonic_ns();
    const struct vg_etcd_condition condition = {leader->key, true, 0};
    g_autofree char *text = leader_text(leader);
    g_auto(vg_etcd_answer) there = {0};
    g_auto(vg_etcd_answer) answer = {0};
    int64_t lease = 0, ttl_s = 0;

    if (vg_etcd_range(leader->etcd, &(struct vg_etcd_range){.key = leader->key}, CALL_NS, &there,
                      NULL) < 0 ||
        there.pairs->len > 0 ||
        vg_etcd_grant(leader->etcd, TTL_S, CALL_NS, &lease, &ttl_s, NULL) < 0)
        return;
    const struct vg_etcd_write write = {leader->key, text, lease};
    const struct vg_etcd_txn txn = {&condition, 1, &write, 1, leader->key};
    /* On failure, the unused lease expires. */
    if (vg_etcd_txn(leader->etcd, &txn, CALL_NS, &answer, NULL) < 0 || !answer.succeeded)
        return;
    leader->lease = lease;
    leader_set(leader, answer.revision, asked_ns + ttl_s * VG_NS_PER_S);
    vg_log_notice("this host is the leader of the cluster revision=%" G_GINT64_FORMAT,
                  answer.revision);
}

/* Returns whether the key no longer belongs to this host. Deleting the key does not end the lease.
 */
static bool
leader_has_lost_key(vg_leader *leader)
{
    g_auto(vg_etcd_answer) there = {0};

    if (vg_etcd_range(leader->etcd, &(struct vg_etcd_range){.key = leader->key}, KEY_NS, &there,
                      NULL) < 0)
        return false;
    return there.pairs->len == 0 ||
           ((const struct vg_etcd_pair *)there.pairs->pdata[0])->create_revision !=
               leader_created(leader);
}

static void
leader_renew(vg_leader *leader)
{
    const int64_t asked_ns = vg_clock_monotonic_ns();
    g_autoptr(GError) error = NULL;
    int64_t ttl_s = 0;

    if (vg_etcd_keep(leader->etcd, leader->lease, CALL_NS, &ttl_s, &error) == 0)
        leader_set(leader, leader_created(leader), asked_ns + ttl_s * VG_NS_PER_S);
    else if (g_error_matches(error, VG_ERROR, VG_E_NOT_FOUND) ||
             vg_clock_monotonic_ns() >= leader_end(leader))
        leader_lose(leader, error->message);
    if (leader->lease != 0 && leader_has_lost_key(leader)) {
        (void)!vg_etcd_revoke(leader->etcd, leader->lease, CHECK_NS, NULL);
        leader_lose(leader, "its key in etcd was deleted");
    }
}

static void
leader_run(vg_thread *self, void *arg)
{
    vg_leader *leader = arg;

    do {
        vg_thread_beat(self);
        if (leader->lease != 0)
            leader_renew(leader);
        else if (vg_region_rank(leader->region) < CANDIDATES)
            leader_campaign(leader);
    } while (vg_thread_sleep_until(self, vg_clock_monotonic_ns() + CHECK_NS));
    if (leader->lease != 0)
        (void)!vg_etcd_revoke(leader->etcd, leader->lease, VG_NS_PER_S, NULL);
}

/* ---- proposals ---- */

/* Writes a proposal if this host is still the leader. */
static void
leader_write(vg_leader *leader, const struct vg_proposal *proposal, int64_t created)
{
    g_autoptr(json_object) object = vg_record_write(&vg_proposal_record, proposal);
    g_autofree char *text = vg_json_to_text(object, false);
    const struct vg_etcd_condition condition = {leader->key, true, created};
    const struct vg_etcd_write write = {leader->plan_key, text, 0};
    const struct vg_etcd_txn txn = {&condition, 1, &write, 1, NULL};
    g_auto(vg_etcd_answer) answer = {0};
    g_autoptr(GError) error = NULL;

    if (strlen(text) > VG_ETCD_VALUE_MAX)
        vg_log_warn("a proposal is omitted because it is too long plan=%s", proposal->plan);
    else if (vg_etcd_txn(leader->etcd, &txn, WRITE_NS, &answer, &error) < 0)
        vg_log_warn("cannot write a proposal to etcd plan=%s reason=\"%s\"", proposal->plan,
                    error->message);
    else if (!answer.succeeded)
        vg_log_notice("a proposal is dropped because another host is the leader now plan=%s",
                      proposal->plan);
}

/* Makes a proposal. Returns false if another attempt should follow soon. */
static bool
leader_plan_once(vg_leader *leader, int64_t created)
{
    g_autoptr(GError) error = NULL;
    struct vg_proposal *proposal = leader->propose(leader->data, &error);

    if (error)
        vg_log_warn_limited("cannot make a proposal now reason=\"%s\"", error->message);
    else if (proposal)
        leader_write(leader, proposal, created);
    vg_proposal_free(proposal);
    return !error;
}

static void
leader_plan_run(vg_thread *self, void *arg)
{
    vg_leader *leader = arg;
    int64_t last_ns = 0, led = 0;
    bool acted = false;

    while (vg_thread_sleep_until(self, vg_clock_monotonic_ns() + CHECK_NS)) {
        const int64_t created = leader_created(leader), now_ns = vg_clock_monotonic_ns();
        if (created == 0 && !acted)
            continue;
        const bool due = created != led || now_ns - last_ns >= leader->interval_ns;
        if (created != 0 && due && leader_plan_once(leader, created)) {
            led = created;
            last_ns = now_ns;
        }
        leader->act(leader->data, leader, created);
        acted = created != 0;
    }
}

/* ---- the public side ---- */

static void
leader_wake(void *arg)
{
    vg_leader *leader = arg;

    vg_etcd_interrupt(leader->etcd);
}

vg_leader *
vg_leader_new(const struct vg_leader_options *options, GError **err)
{
    vg_leader *leader = g_new0(vg_leader, 1);

    leader->key = g_strdup_printf("/vgpud/%s/leader", options->cluster);
    leader->plan_key = g_strdup_printf("/vgpud/%s/plan", options->cluster);
    leader->host = g_strdup(options->host);
    leader->etcd = vg_etcd_new(&options->etcd);
    leader->region = options->region;
    leader->interval_ns = options->interval_ns;
    leader->propose = options->propose;
    leader->act = options->act;
    leader->data = options->data;
    pthread_mutex_init(&leader->lock, NULL);
    leader->thread = vg_thread_new("leader", leader_run, leader_wake, leader, err);
    if (leader->thread)
        leader->planner = vg_thread_new("leader-plan", leader_plan_run, leader_wake, leader, err);
    if (!leader->planner)
        g_clear_pointer(&leader, vg_leader_free);
    return leader;
}

bool
vg_leader_may_act(vg_leader *leader, int64_t revision)
{
    VG_LOCK_SCOPE(&leader->lock);
    return leader->created == revision && vg_clock_monotonic_ns() < leader->end_ns - MARGIN_NS;
}

void
vg_leader_stop(vg_leader *leader)
{
    if (!leader)
        return;
    if (leader->planner)
        vg_thread_join(leader->planner);
    vg_thread_join(leader->thread);
}

void
vg_leader_free(vg_leader *leader)
{
    if (!leader)
        return;
    vg_thread_free(leader->planner);
    vg_thread_free(leader->thread);
    vg_etcd_free(leader->etcd);
    pthread_mutex_destroy(&leader->lock);
    g_free(leader->key);
    g_free(leader->plan_key);
    g_free(leader->host);
    g_free(leader);
}
