/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cluster/region.h"

#include <limits.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "cluster/region-private.h"

#define VG_LOG_TAG "etcd"

/* The minimum and maximum interval of writing a summary. The minimum doubles up to the second
 * value. */
#define TOLD_MIN_NS     (10 * VG_NS_PER_S)
#define TOLD_MIN_MAX_NS (160 * VG_NS_PER_S)
#define TOLD_MAX_NS     (300 * VG_NS_PER_S)

/* If etcd takes this long to write a summary, the interval doubles. */
#define SLOW_NS VG_NS_PER_S

/* The interval of reading per host: each reading makes etcd search all keys of the cluster. */
#define POLL_PER_HOST_NS (30 * VG_NS_PER_MS)

/* The pause after a failed call. */
#define AGAIN_NS VG_NS_PER_S

/* The pause after another vgpud with this host's name was found. */
#define DUPLICATE_NS (10 * VG_NS_PER_S)

/* The interval of checks that etcd accepts writes: while it does, and while it does not. */
#define WRITE_CHECK_NS (10 * VG_NS_PER_S)
#define WRITE_AGAIN_NS (3 * VG_NS_PER_S)

#define IDLE_NS VG_NS_PER_S

/* The time limit for etcd when vgpud ends. */
#define LEAVE_NS VG_NS_PER_S

static int64_t
region_jitter(int64_t ns)
{
    return (int64_t)((double)ns * g_random_double_range(0.8, 1.2));
}

/* ---- the state of etcd ---- */

/* Records the result of the last call. */
static void
region_note(vg_region *region, const GError *error)
{
    VG_LOCK_SCOPE(&region->lock);
    if (!error && !region->used)
        vg_log_notice("this host is in the cluster name=%s", region->cluster);
    else if (error && g_strcmp0(region->reason, error->message) != 0)
        vg_log_turn(&region->turns, VG_LOG_WARN, VG_LOG_TAG, "etcd cannot be used reason=\"%s\"",
                    error->message);
    else if (!error && region->reason)
        vg_log_turn(&region->turns, VG_LOG_NOTICE, VG_LOG_TAG, "etcd can be used again");
    vg_log_turns_settle(&region->turns, VG_LOG_TAG);
    region->used = region->used || !error;
    g_free(region->reason);
    region->reason = error ? g_strdup(error->message) : NULL;
    region->failing = error != NULL;
}

/* Returns the pause between calls. It grows with the number of hosts, as etcd serves all of
 * them. */
static int64_t
region_pause(const vg_region *region, int64_t least_ns)
{
    const int64_t hosts = (int64_t)g_hash_table_size(region->hosts);

    return region_jitter(MAX(least_ns, hosts * POLL_PER_HOST_NS));
}

/* Records the result of the last write. */
static void
region_note_write(vg_region *region, const GError *error)
{
    VG_LOCK_SCOPE(&region->lock);
    region->write_due_ns =
        vg_clock_monotonic_ns() + region_pause(region, error ? WRITE_AGAIN_NS : WRITE_CHECK_NS);
    if (error && !region->unwritable)
        vg_log_turn(&region->turns, VG_LOG_WARN, VG_LOG_TAG,
                    "etcd accepts no writes, so no move starts reason=\"%s\"", error->message);
    else if (!error && region->unwritable)
        vg_log_turn(&region->turns, VG_LOG_NOTICE, VG_LOG_TAG, "etcd accepts writes again");
    g_free(region->unwritable);
    region->unwritable =
        error ? g_strdup_printf("etcd accepts no writes, so no move starts: %s", error->message)
              : NULL;
}

/* Returns whether etcd has answered but refuses to write: its disk or quota is full, or this user
 * may only read. */
static bool
region_is_refused(const GError *error)
{
    return !g_error_matches(error, VG_ERROR, VG_E_TIMEOUT) &&
           !g_error_matches(error, VG_ERROR, VG_E_UNREACHABLE) &&
           !g_error_matches(error, VG_ERROR, VG_E_BUSY);
}

/* Processes the status of a write. Returns -1 and sets *err only if etcd did not answer. */
static int
region_take_write(vg_region *region, int status, GError *error_take, GError **err)
{
    if (status >= 0) {
        region_note_write(region, NULL);
        return 0;
    }
    if (!region_is_refused(error_take)) {
        g_propagate_error(err, error_take);
        return -1;
    }
    region_note_write(region, error_take);
    g_error_free(error_take);
    return 0;
}

/* ---- the lease, and the card of this host ---- */

static void
region_lose_lease(vg_region *region)
{
    VG_LOCK_SCOPE(&region->lock);
    region->lease = 0;
    region->announced = false;
    /* etcd may have lost all data, and may already be beyond this revision: everything is read and
     * written again. */
    region->revision = 0;
    region->drain_told = false;
    region_lose_locks(region);
    region->lease_due_ns = 0;
    g_clear_pointer(&region->told, vg_host_summary_free);
}

static void
region_set_lease(vg_region *region, int64_t lease, int64_t asked_ns, int64_t ttl_s)
{
    VG_LOCK_SCOPE(&region->lock);
    region->lease = lease;
    region->lease_end_ns = asked_ns + ttl_s * VG_NS_PER_S;
    region->lease_due_ns = asked_ns + region_jitter(ttl_s * VG_NS_PER_S / 3);
}

/* Renews the lease, or requests a new one. */
static int
region_renew_lease(vg_region *region, GError **err)
{
    const int64_t asked_ns = vg_clock_monotonic_ns();
    int64_t lease = region->lease, ttl_s = 0;
    g_autoptr(GError) error = NULL;

    if (lease != 0) {
        if (vg_etcd_keep(region->etcd, lease, REGION_CALL_NS, &ttl_s, &error) == 0) {
            region_set_lease(region, lease, asked_ns, ttl_s);
            return 0;
        }
        const bool is_gone = g_error_matches(error, VG_ERROR, VG_E_NOT_FOUND);
        if (!is_gone && vg_clock_monotonic_ns() < region->lease_end_ns) {
            g_propagate_error(err, g_steal_pointer(&error));
            return -1;
        }
        vg_log_warn("this host's lease in etcd has ended reason=\"%s\"", error->message);
        region_note(region, error);
        region_lose_lease(region);
    }
    if (vg_etcd_grant(region->etcd, region->lease_ns / VG_NS_PER_S, REGION_CALL_NS, &lease, &ttl_s,
                      err) < 0)
        return -1;
    region_set_lease(region, lease, asked_ns, ttl_s);
    return 0;
}

static char *
region_text(const struct vg_record_type *type, const void *record)
{
    g_autoptr(json_object) object = vg_record_write(type, record);

    return vg_json_to_text(object, false);
}

/* Writes a key if the condition is met. Returns 1 on success, or 0 and the existing pair in
 * *ret. */
static int
region_put(vg_region *region, const struct vg_etcd_condition *condition, const char *value,
           struct vg_etcd_answer *ret, GError **err)
{
    const struct vg_etcd_write write = {condition->key, value, region->lease};
    const struct vg_etcd_txn txn = {condition, 1, &write, 1, condition->key};

    if (vg_etcd_txn(region->etcd, &txn, REGION_CALL_NS, ret, err) < 0)
        return -1;
    VG_LOCK_SCOPE(&region->lock);
    region->puts += ret->succeeded;
    return ret->succeeded;
}

/* Returns whether a card belongs to this vgpud or to an earlier run of it: a URL belongs to only
 * one vgpud. */
static bool
region_is_own(const vg_region *region, const struct vg_etcd_pair *pair)
{
    g_autoptr(json_object) document =
        vg_json_parse(pair->value, strlen(pair->value), VG_ETCD_VALUE_MAX, 8, NULL);
    json_object *url = NULL;

    if (json_object_is_type(document, json_type_object))
        json_object_object_get_ex(document, "url", &url);
    return url && g_strcmp0(json_object_get_string(url), region->own->url) == 0;
}

/* Writes the card of this host. */
static int
region_announce(vg_region *region, GError **err)
{
    g_autofree char *key = g_strconcat(region->prefix, "hosts/", region->own->name, NULL);
    g_autofree char *value = region_text(&vg_host_card_record, region->own);
    g_auto(vg_etcd_answer) first = {0};
    g_auto(vg_etcd_answer) second = {0};

    int done = region_put(region, &(struct vg_etcd_condition){key, true, 0}, value, &first, err);
    if (done == 0 && first.pairs->len == 1) {
        const struct vg_etcd_pair *there = first.pairs->pdata[0];
        if (!region_is_own(region, there)) {
            region->announce_due_ns = vg_clock_monotonic_ns() + DUPLICATE_NS;
            return vg_error(err, VG_E_CONFLICT,
                            "another vgpud is in the cluster under the name '%s'",
                            region->own->name);
        }
        done = region_put(region, &(struct vg_etcd_condition){key, false, there->mod_revision},
                          value, &second, err);
    }
    if (done == 0)
        return vg_error(err, VG_E_BUSY, "this host's key keeps changing");
    if (done < 0)
        return -1;
    VG_LOCK_SCOPE(&region->lock);
    region->announced = true;
    region->write_due_ns = 0;
    region->announced_revision = second.pairs ? second.revision : first.revision;
    return 0;
}

/* Checks that etcd accepts writes, as it may still serve reads and leases otherwise. The check
 * would write this host's card if it were missing, which etcd refuses even if the card exists. */
static int
region_check_writes(vg_region *region, GError **err)
{
    g_autofree char *key = g_strconcat(region->prefix, "hosts/", region->own->name, NULL);
    g_autofree char *value = region_text(&vg_host_card_record, region->own);
    g_auto(vg_etcd_answer) answer = {0};
    GError *error = NULL;
    const int status =
        region_put(region, &(struct vg_etcd_condition){key, true, 0}, value, &answer, &error);

    return region_take_write(region, status, error, err);
}

/* ---- the summary of this host ---- */

void
vg_region_set_summary(vg_region *region, struct vg_host_summary *take_summary)
{
    VG_LOCK_SCOPE(&region->lock);
    vg_host_summary_free(region->summary);
    region->summary = take_summary;
}

/* Returns a copy of the summary if it is due to be written, or NULL. */
static struct vg_host_summary *
region_due_summary(vg_region *region, int64_t now_ns)
{
    VG_LOCK_SCOPE(&region->lock);
    const struct vg_host_summary *now = region->summary;

    if (!now || !region->announced || region->unwritable ||
        (region->told &&
         (now_ns - region->told_ns < region->told_pause_ns ||
          (now_ns - region->told_ns < TOLD_MAX_NS && !vg_host_summary_moved(region->told, now)))))
        return NULL;
    return vg_record_copy(&vg_host_summary_record, now);
}

static int
region_write_summary(vg_region *region, GError **err)
{
    const int64_t now_ns = vg_clock_monotonic_ns();
    struct vg_host_summary *summary = region_due_summary(region, now_ns);
    g_auto(vg_etcd_answer) answer = {0};

    if (!summary)
        return 0;
    g_autofree char *key = g_strconcat(region->prefix, "summary/", region->own->name, NULL);
    g_autofree char *value = region_text(&vg_host_summary_record, summary);
    const struct vg_etcd_write write = {key, value, region->lease};
    const struct vg_etcd_txn txn = {NULL, 0, &write, 1, NULL};
    GError *error = NULL;
    const int status = vg_etcd_txn(region->etcd, &txn, REGION_CALL_NS, &answer, &error);
    const bool slow = status < 0 || vg_clock_monotonic_ns() - now_ns > SLOW_NS;
    region->told_pause_ns = slow ? MIN(2 * region->told_pause_ns, TOLD_MIN_MAX_NS) : TOLD_MIN_NS;
    region->told_ns = now_ns;
    if (status < 0) {
        vg_host_summary_free(summary);
        return region_take_write(region, status, error, err);
    }
    vg_host_summary_free(region->told);
    region->told = summary;
    pthread_mutex_lock(&region->lock);
    region->puts++;
    pthread_mutex_unlock(&region->lock);
    return region_take_write(region, status, NULL, err);
}

/* ---- the thread ---- */

static int
region_poll(vg_region *region, GError **err)
{
    if (region_read(region, err) < 0)
        return -1;
    g_autofree char *key = g_strconcat(region->prefix, "hosts/", region->own->name, NULL);
    pthread_mutex_lock(&region->lock);
    region->poll_due_ns = vg_clock_monotonic_ns() + region_pause(region, region->poll_ns);
    /* Another client has removed this host's key. */
    if (region->announced && region->revision >= region->announced_revision &&
        !g_hash_table_contains(region->known, key))
        region->announced = false;
    region_check_drain(region);
    g_autoptr(GPtrArray) hosts = region_list_hosts(region);
    pthread_mutex_unlock(&region->lock);
    if (region->changed)
        region->changed(region->data, hosts);
    return 0;
}

/* Performs the actions that are due. Returns -1 and sets *err at the first failed call. */
static int
region_step(vg_region *region, GError **err)
{
    const int64_t now_ns = vg_clock_monotonic_ns();

    if (now_ns >= region->lease_due_ns && region_renew_lease(region, err) < 0)
        return -1;
    vg_thread_beat(region->thread);
    if (!region->announced && now_ns >= region->announce_due_ns && region_announce(region, err) < 0)
        return -1;
    vg_thread_beat(region->thread);
    region_tidy_locks(region);
    if (region_tell_drain(region, err) < 0)
        return -1;
    vg_thread_beat(region->thread);
    if (region_write_summary(region, err) < 0)
        return -1;
    vg_thread_beat(region->thread);
    if (region->announced && now_ns >= region->write_due_ns && region_check_writes(region, err) < 0)
        return -1;
    vg_thread_beat(region->thread);
    return now_ns >= region->poll_due_ns ? region_poll(region, err) : 0;
}

static void
region_sleep(vg_region *region, bool failed)
{
    const int64_t now_ns = vg_clock_monotonic_ns();
    int64_t until_ns = now_ns + IDLE_NS;

    if (failed)
        until_ns = now_ns + region_jitter(AGAIN_NS);
    else
        until_ns = MIN(until_ns, MIN(region->lease_due_ns, region->poll_due_ns));
    VG_LOCK_SCOPE(&region->lock);
    if (!vg_thread_stopping(region->thread))
        vg_cond_wait_until(&region->woken, &region->lock, until_ns);
}

/* Revokes the lease, so that other hosts immediately notice that this vgpud has ended. If a move is
 * running, which the next vgpud resumes, the lease stays until it expires. */
static void
region_leave(vg_region *region)
{
    pthread_mutex_lock(&region->lock);
    const bool moves = g_hash_table_size(region->locks) > 0;
    pthread_mutex_unlock(&region->lock);
    if (region->lease != 0 && !moves)
        (void)!vg_etcd_revoke(region->etcd, region->lease, LEAVE_NS, NULL);
}

static void
region_run(vg_thread *self, void *arg)
{
    vg_region *region = arg;

    pthread_mutex_lock(&region->lock); /* held until `thread` is set */
    pthread_mutex_unlock(&region->lock);
    while (!vg_thread_stopping(self)) {
        g_autoptr(GError) error = NULL;
        vg_thread_beat(self);
        const int status = region_step(region, &error);
        region_note(region, error);
        /* A step without a due action does not show that etcd answers again. */
        if (status < 0)
            region->poll_due_ns = 0;
        region_sleep(region, status < 0);
    }
    region_leave(region);
}

static void
region_stop_wake(void *arg)
{
    vg_region *region = arg;

    vg_etcd_interrupt(region->etcd);
    VG_LOCK_SCOPE(&region->lock);
    pthread_cond_broadcast(&region->woken);
}

/* ---- the public side ---- */

vg_region *
vg_region_new(const struct vg_region_options *options, GError **err)
{
    vg_region *region = g_new0(vg_region, 1);

    region->cluster = g_strdup(options->cluster);
    region->prefix = g_strdup_printf("/vgpud/%s/", options->cluster);
    region->etcd = vg_etcd_new(&options->etcd);
    region->lease_ns = options->lease_ns;
    region->poll_ns = options->poll_ns;
    region->changed = options->changed;
    region->data = options->data;
    region->own = vg_record_copy(&vg_host_card_record, options->own);
    region->told_pause_ns = TOLD_MIN_NS;
    pthread_mutex_init(&region->locking, NULL);
    pthread_mutex_init(&region->lock, NULL);
    vg_cond_init(&region->woken);
    region->hosts = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, region_host_free);
    region->drained = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    region->locks = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, region_lock_free);
    region->known = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    region->reason = g_strdup("etcd has not been queried yet");
    pthread_mutex_lock(&region->lock);
    region->thread = vg_thread_new("etcd", region_run, region_stop_wake, region, err);
    pthread_mutex_unlock(&region->lock);
    if (!region->thread)
        g_clear_pointer(&region, vg_region_free);
    return region;
}

void
vg_region_stop(vg_region *region)
{
    if (region)
        vg_thread_join(region->thread);
}

void
vg_region_free(vg_region *region)
{
    if (!region)
        return;
    vg_thread_free(region->thread);
    vg_etcd_free(region->etcd);
    g_hash_table_destroy(region->hosts);
    g_hash_table_destroy(region->drained);
    g_hash_table_destroy(region->locks);
    g_hash_table_destroy(region->known);
    vg_record_free(&vg_host_card_record, region->own);
    vg_host_summary_free(region->summary);
    vg_host_summary_free(region->told);
    vg_cluster_leader_free(region->leader);
    vg_proposal_free(region->proposal);
    pthread_cond_destroy(&region->woken);
    pthread_mutex_destroy(&region->lock);
    pthread_mutex_destroy(&region->locking);
    g_free(region->drain_by);
    vg_log_turns_clear(&region->turns, VG_LOG_TAG);
    g_free(region->reason);
    g_free(region->unwritable);
    g_free(region->prefix);
    g_free(region->cluster);
    g_free(region);
}

const vg_thread *
vg_region_thread(const vg_region *region)
{
    return region->thread;
}

void
vg_region_read_state(vg_region *region, struct vg_region_state *ret)
{
    GHashTableIter at;
    void *value;

    *ret = (struct vg_region_state){.endpoint = vg_etcd_endpoint(region->etcd)};
    VG_LOCK_SCOPE(&region->lock);
    ret->cluster = g_strdup(region->cluster);
    ret->known = region->announced && !region->reason && !region->unwritable;
    ret->reason = g_strdup(region->reason ? region->reason : region->unwritable);
    ret->answered_ns = region->answered_ns;
    ret->revision = region->revision;
    ret->puts = region->puts;
    g_hash_table_iter_init(&at, region->hosts);
    while (g_hash_table_iter_next(&at, NULL, &value))
        ret->hosts += ((const struct region_host *)value)->alive;
}

struct vg_cluster_leader *
vg_region_leader(vg_region *region)
{
    VG_LOCK_SCOPE(&region->lock);
    return region->leader ? vg_record_copy(&vg_cluster_leader_record, region->leader) : NULL;
}

struct vg_proposal *
vg_region_proposal(vg_region *region)
{
    VG_LOCK_SCOPE(&region->lock);
    return region->proposal ? vg_record_copy(&vg_proposal_record, region->proposal) : NULL;
}

int
vg_region_rank(vg_region *region)
{
    GHashTableIter at;
    void *name, *value;
    int rank = 0;

    VG_LOCK_SCOPE(&region->lock);
    if (!region->announced)
        return INT_MAX;
    g_hash_table_iter_init(&at, region->hosts);
    while (g_hash_table_iter_next(&at, &name, &value))
        rank += ((const struct region_host *)value)->alive && strcmp(name, region->own->name) < 0;
    return rank;
}

void
vg_region_state_clear(struct vg_region_state *state)
{
    g_free(state->cluster);
    g_free(state->endpoint);
    g_free(state->reason);
}

GPtrArray *
vg_region_hosts(vg_region *region)
{
    VG_LOCK_SCOPE(&region->lock);
    return region_list_hosts(region);
}
