/* SPDX-License-Identifier: Apache-2.0
 *
 * Records which host is moving a VM: one key per VM, attached to the lease of the host that is
 * moving it.
 */
#include "config.h"

#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "cluster/acts.h"
#include "cluster/region-private.h"

#define VG_LOG_TAG "etcd"

/* After a member fails, a request to it is lost until another member leads, which takes two
 * seconds. Each of three members may cost an attempt of two seconds. */
#define LOCK_LIMIT_NS  (10 * VG_NS_PER_S)
#define SHORT_LIMIT_NS (2 * VG_NS_PER_S)

#define LOCK_DEPTH 4

void
region_lock_free(void *data)
{
    struct region_lock *lock = data;

    g_free(lock->uuid);
    g_free(lock);
}

static char *
region_lock_key(const vg_region *region, const char *uuid)
{
    return g_strconcat(region->prefix, "moves/", uuid, NULL);
}

/* Returns the host in a lock, or "(unknown)" if it is invalid. The caller frees it. */
static char *
region_lock_owner(const struct vg_etcd_pair *pair)
{
    g_autoptr(json_object) document =
        vg_json_parse(pair->value, strlen(pair->value), VG_ETCD_VALUE_MAX, LOCK_DEPTH, NULL);
    json_object *host = NULL;

    if (json_object_is_type(document, json_type_object))
        json_object_object_get_ex(document, "host", &host);
    return g_strdup(json_object_is_type(host, json_type_string) ? json_object_get_string(host)
                                                                : "(unknown)");
}

/* The conditions for an automatic move: its leader still leads, and no user has paused automatic
 * moves. */
typedef struct region_fence region_fence;
struct region_fence {
    char *leader, *pause; /* keys */
    int64_t revision;     /* the create revision of the leader's key, or 0 for a manual move */
};

static void
region_fence_clear(struct region_fence *fence)
{
    g_free(fence->leader);
    g_free(fence->pause);
}
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC(region_fence, region_fence_clear)

/* Fails with VG_E_REFUSED if the conditions are not met. */
static int
region_check_fence(vg_region *region, const struct region_fence *fence, int64_t limit_ns,
                   GError **err)
{
    g_auto(vg_etcd_answer) leader = {0};
    g_auto(vg_etcd_answer) pause = {0};

    if (vg_etcd_range(region->etcd, &(struct vg_etcd_range){.key = fence->pause}, limit_ns, &pause,
                      err) < 0 ||
        vg_etcd_range(region->etcd, &(struct vg_etcd_range){.key = fence->leader}, limit_ns,
                      &leader, err) < 0)
        return -1;
    if (pause.pairs->len > 0)
        return vg_error(err, VG_E_REFUSED, "automatic moves are paused");
    if (leader.pairs->len == 0 ||
        ((const struct vg_etcd_pair *)leader.pairs->pdata[0])->create_revision != fence->revision)
        return vg_error(err, VG_E_REFUSED,
                        "the host that started this automatic move no longer leads the cluster");
    return 0;
}

/* Writes a lock with a lease. Returns 1 and the revision that created the key, or 0 and the name of
 * the other host that has it. The caller frees the name. */
static int
region_put_lock(vg_region *region, const char *uuid, const struct region_fence *fence,
                int64_t lease, int64_t limit_ns, int64_t *ret_created, char **ret_other,
                GError **err)
{
    const int64_t until_ns = vg_clock_monotonic_ns() + limit_ns;
    g_autofree char *key = region_lock_key(region, uuid);
    json_object *object = json_object_new_object();
    struct vg_etcd_condition conditions[] = {
        {key, true, 0}, {fence->leader, true, fence->revision}, {fence->pause, true, 0}};
    struct vg_etcd_condition *condition = &conditions[0];
    int64_t created = 0;

    vg_json_add_string(object, "host", region->own->name);
    vg_json_add_int64(object, "since_ns", vg_clock_realtime_ns());
    g_autofree char *value = vg_json_to_text(object, false);
    json_object_put(object);
    const struct vg_etcd_write write = {key, value, lease};
    const struct vg_etcd_txn txn = {conditions, fence->revision > 0 ? G_N_ELEMENTS(conditions) : 1,
                                    &write, 1, key};
    /* The key exists if this host already had it, or if the first attempt succeeded but its answer
     * was lost. */
    for (int i = 0; i < 3; i++) {
        g_auto(vg_etcd_answer) answer = {0};
        if (vg_etcd_txn(region->etcd, &txn, MAX(until_ns - vg_clock_monotonic_ns(), 1), &answer,
                        err) < 0)
            return -1;
        if (answer.succeeded) {
            *ret_created = created > 0 ? created : answer.revision;
            return 1;
        }
        if (fence->revision > 0 &&
            region_check_fence(region, fence, MAX(until_ns - vg_clock_monotonic_ns(), 1), err) < 0)
            return -1;
        if (answer.pairs->len != 1) {
            *condition = (struct vg_etcd_condition){key, true, 0};
            created = 0;
            continue;
        }
        const struct vg_etcd_pair *there = answer.pairs->pdata[0];
        g_autofree char *owner = region_lock_owner(there);
        if (strcmp(owner, region->own->name) != 0) {
            *ret_other = g_steal_pointer(&owner);
            return 0;
        }
        *condition = (struct vg_etcd_condition){key, false, there->mod_revision};
        created = there->create_revision;
    }
    return vg_error(err, VG_E_BUSY, "this move's key in etcd keeps changing");
}

/* Records that this host has a lock, or may have one that it does not need. */
static void
region_note_lock(vg_region *region, const char *uuid, int64_t lease, int64_t created)
{
    VG_LOCK_SCOPE(&region->lock);
    struct region_lock *lock = g_new0(struct region_lock, 1);
    lock->uuid = g_strdup(uuid);
    /* The lease, and the key with it, may have expired in the meantime. */
    lock->created = region->lease == lease ? created : 0;
    lock->unwanted = created == 0;
    region->puts++;
    g_hash_table_replace(region->locks, lock->uuid, lock);
}

int
vg_region_lock_move(vg_region *region, const char *uuid, int64_t leader, GError **err)
{
    static const char unknown[] =
        "it is unknown whether another host is moving this VM, so no move starts";
    const int64_t asked_ns = vg_clock_monotonic_ns();
    g_autofree char *other = NULL;
    int64_t created = 0;
    g_auto(region_fence) fence = {
        .leader = g_strconcat(region->prefix, "leader", NULL),
        .pause = vg_acts_key_below(region->prefix, "pause"),
        .revision = leader,
    };

    VG_LOCK_SCOPE(&region->locking);
    /* Fail immediately. Otherwise, a series of moves would block `locking` for minutes. */
    if (region->locking_failed_ns > asked_ns)
        return vg_error(err, VG_E_UNREACHABLE,
                        "%s: etcd has just failed to answer a request for another move", unknown);
    pthread_mutex_lock(&region->lock);
    const int64_t lease = region->announced ? region->lease : 0;
    g_autofree char *reason = g_strdup(region->reason);
    pthread_mutex_unlock(&region->lock);
    if (lease == 0)
        return vg_error(err, VG_E_UNREACHABLE, "%s: %s", unknown,
                        reason ? reason : "this host has no lease in etcd");
    g_autoptr(GError) error = NULL;
    const int status =
        region_put_lock(region, uuid, &fence, lease, LOCK_LIMIT_NS, &created, &other, &error);
    if (g_error_matches(error, VG_ERROR, VG_E_REFUSED)) {
        pthread_mutex_lock(&region->lock);
        const bool has = g_hash_table_contains(region->locks, uuid);
        pthread_mutex_unlock(&region->lock);
        /* An earlier attempt may have succeeded although its answer was lost. */
        if (!has)
            region_note_lock(region, uuid, lease, 0);
        g_propagate_error(err, g_steal_pointer(&error));
        return -1;
    }
    if (status == 0)
        return vg_error(err, VG_E_CONFLICT, "host '%s' of the cluster is already moving this VM",
                        other);
    /* A call that failed may still have been executed. */
    region_note_lock(region, uuid, lease, created);
    if (status < 0) {
        region->locking_failed_ns = vg_clock_monotonic_ns();
        /* The move may be tried again, whatever the code of etcd's error. */
        return vg_error(err, VG_E_UNREACHABLE, "%s: %s", unknown, error->message);
    }
    return 0;
}

void
vg_region_take_up_move(vg_region *region, const char *uuid)
{
    VG_LOCK_SCOPE(&region->lock);
    const struct region_lock *known = g_hash_table_lookup(region->locks, uuid);
    if (known && !known->unwanted)
        return;
    struct region_lock *lock = g_new0(struct region_lock, 1);
    lock->uuid = g_strdup(uuid);
    g_hash_table_replace(region->locks, lock->uuid, lock);
    pthread_cond_broadcast(&region->woken);
}

bool
vg_region_other_moves(vg_region *region, const char *uuid, char **ret_host)
{
    g_autofree char *key = region_lock_key(region, uuid);
    g_auto(vg_etcd_answer) answer = {0};

    pthread_mutex_lock(&region->lock);
    const bool failing = region->failing;
    pthread_mutex_unlock(&region->lock);
    if (failing || vg_etcd_range(region->etcd, &(struct vg_etcd_range){.key = key}, SHORT_LIMIT_NS,
                                 &answer, NULL) < 0)
        return false;
    if (answer.pairs->len == 0)
        return false;
    g_autofree char *owner = region_lock_owner(answer.pairs->pdata[0]);
    if (strcmp(owner, region->own->name) == 0)
        return false;
    *ret_host = g_steal_pointer(&owner);
    return true;
}

/* ---- releasing ---- */

/* Removes a key if it still belongs to this host. */
static int
region_remove_lock(vg_region *region, const char *uuid, int64_t limit_ns, GError **err)
{
    const int64_t until_ns = vg_clock_monotonic_ns() + limit_ns;
    g_autofree char *key = region_lock_key(region, uuid);
    g_auto(vg_etcd_answer) there = {0};
    g_auto(vg_etcd_answer) done = {0};

    if (vg_etcd_range(region->etcd, &(struct vg_etcd_range){.key = key}, limit_ns, &there, err) < 0)
        return -1;
    if (there.pairs->len == 0)
        return 0;
    const struct vg_etcd_pair *pair = there.pairs->pdata[0];
    g_autofree char *owner = region_lock_owner(pair);
    if (strcmp(owner, region->own->name) != 0)
        return 0;
    const struct vg_etcd_condition condition = {key, false, pair->mod_revision};
    const struct vg_etcd_write write = {.key = key};
    const struct vg_etcd_txn txn = {&condition, 1, &write, 1, NULL};
    return vg_etcd_txn(region->etcd, &txn, MAX(until_ns - vg_clock_monotonic_ns(), 1), &done, err);
}

/* Releases a lock. Called while `locking` is held. */
static int
region_release_lock(vg_region *region, const char *uuid)
{
    if (region_remove_lock(region, uuid, SHORT_LIMIT_NS, NULL) < 0)
        return -1;
    VG_LOCK_SCOPE(&region->lock);
    g_hash_table_remove(region->locks, uuid);
    return 0;
}

void
vg_region_unlock_move(vg_region *region, const char *uuid)
{
    const int64_t asked_ns = vg_clock_monotonic_ns();

    VG_LOCK_SCOPE(&region->locking);
    pthread_mutex_lock(&region->lock);
    struct region_lock *lock = g_hash_table_lookup(region->locks, uuid);
    if (lock)
        lock->unwanted = true;
    const bool failing = region->failing;
    pthread_mutex_unlock(&region->lock);
    /* On failure, the thread does this later. */
    if (lock && !failing && region->locking_failed_ns <= asked_ns &&
        region_release_lock(region, uuid) < 0)
        region->locking_failed_ns = vg_clock_monotonic_ns();
}

/* ---- what the thread does ---- */

void
region_lose_locks(vg_region *region)
{
    GHashTableIter at;
    void *value;

    g_hash_table_iter_init(&at, region->locks);
    while (g_hash_table_iter_next(&at, NULL, &value))
        ((struct region_lock *)value)->created = 0;
}

/* Finds a lock that must be removed or written again. Returns its UUID, or NULL. The caller frees
 * it. */
static char *
region_untidy_lock(vg_region *region, bool *ret_unwanted)
{
    GHashTableIter at;
    void *value;

    VG_LOCK_SCOPE(&region->lock);
    g_hash_table_iter_init(&at, region->locks);
    while (g_hash_table_iter_next(&at, NULL, &value)) {
        const struct region_lock *lock = value;
        if (!lock->unwanted && (lock->created > 0 || region->lease == 0))
            continue;
        *ret_unwanted = lock->unwanted;
        return g_strdup(lock->uuid);
    }
    return NULL;
}

/* Writes a lock again that was lost with a lease, unless another host has it now: the next step of
 * the move detects this. Called while `locking` is held. */
static int
region_lock_again(vg_region *region, const char *uuid)
{
    g_autofree char *other = NULL;
    int64_t created = 0;
    const int status = region_put_lock(region, uuid, &(struct region_fence){0}, region->lease,
                                       SHORT_LIMIT_NS, &created, &other, NULL);

    if (status < 0)
        return -1;
    VG_LOCK_SCOPE(&region->lock);
    struct region_lock *lock = g_hash_table_lookup(region->locks, uuid);
    if (status == 1) {
        lock->created = created;
        return 0;
    }
    vg_log_warn("another host is moving a VM that this host is also moving vm=%s host=\"%s\"", uuid,
                other);
    g_hash_table_remove(region->locks, uuid);
    return 0;
}

void
region_tidy_locks(vg_region *region)
{
    VG_LOCK_SCOPE(&region->locking);
    for (;;) {
        bool unwanted = false;
        g_autofree char *uuid = region_untidy_lock(region, &unwanted);
        vg_thread_beat(region->thread);
        if (!uuid ||
            (unwanted ? region_release_lock(region, uuid) : region_lock_again(region, uuid)) < 0)
            return;
    }
}
