/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "mover/drain.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"
#include "policy/drain.h"

#define VG_LOG_TAG "drain"

/* The time between two checks while VMs are being moved, and otherwise. */
#define CHECK_NS (2 * VG_NS_PER_S)
#define REST_NS  (10 * VG_NS_PER_S)

/* The time after which a refused move is tried again. */
#define AGAIN_NS (30 * VG_NS_PER_S)

struct vg_drainer {
    struct vg_drainer_parts parts;
    pthread_mutex_t lock;
    pthread_cond_t woken;
    vg_thread *thread;
    /* The lock protects these members. */
    bool known;                /* whether the journal has reported the mark */
    struct vg_drain_mark mark; /* asked_by is NULL if this host is not to be emptied */
    vg_drain *newest;          /* the result of the latest check, or NULL */
    /* Only the thread uses this member. */
    GHashTable *refusals; /* UUID -> struct vg_drain_refusal */
};

static void
drain_refusal_free(void *data)
{
    struct vg_drain_refusal *refusal = data;

    g_free(refusal->reason);
    g_free(refusal);
}

/* ---- checking ---- */

/* Counts the drain's moves that have started and not ended. */
static int64_t
drain_count(const GPtrArray *moves)
{
    int64_t n = 0;

    for (guint i = 0; i < moves->len; i++) {
        const struct vg_migration *move = moves->pdata[i];
        n += !vg_migration_has_ended(move->state) && move->begun_by == VG_ORIGIN_DRAIN;
    }
    return n;
}

/* Examines all hosts and all moves. refusals is NULL for a dry run. *ret_begun is the number of the
 * drain's moves that have started and not ended. */
static vg_drain *
drain_examine(const struct vg_drainer *drainer, const struct vg_drain_mark *mark,
              GHashTable *refusals, int64_t *ret_begun, GError **err)
{
    g_autofree char *lacks = NULL;
    g_autoptr(GPtrArray) moves = vg_mover_list(drainer->parts.mover, false, INT64_MAX,
                                               VG_JOURNAL_MIGRATIONS_MAX, &lacks, err);

    if (!moves)
        return NULL;
    if (lacks) {
        vg_error(err, VG_E_TIMEOUT, "%s", lacks);
        return NULL;
    }
    g_autoptr(GPtrArray) places = drainer->parts.evacuate(drainer->parts.data, err);
    if (!places)
        return NULL;
    *ret_begun = drain_count(moves);
    return vg_drain_judge(&(struct vg_drain_facts){
        .host = drainer->parts.host,
        .asked_by = mark->asked_by,
        .since_ns = mark->since_ns,
        .now_ns = vg_clock_realtime_ns(),
        .places = places,
        .moves = moves,
        .refusals = refusals,
    });
}

/* ---- moving ---- */

/* Starts or queues the move of a VM. Returns false if the move was refused. */
static bool
drain_begin_move(struct vg_drainer *drainer, const struct vg_drain_mark *mark,
                 struct vg_drain_vm *vm)
{
    g_autofree char *asked_by = g_strconcat(VG_DRAIN_BY, mark->asked_by, NULL);
    const struct vg_migration_request request = {.vm = vm->uuid,
                                                 .to = vm->to,
                                                 .gpus = vm->gpus,
                                                 .asked_by = asked_by,
                                                 .begun_by = VG_ORIGIN_DRAIN};
    g_autoptr(GError) error = NULL;
    g_autoptr(vg_migration) move = drainer->parts.migrate(drainer->parts.data, &request, &error);

    if (move) {
        g_hash_table_remove(drainer->refusals, vm->uuid);
        vg_drain_note_move(move, vm);
        return true;
    }
    vg_log_warn("a VM cannot be moved away vm=\"%s\" to=\"%s\" reason=\"%s\"", vm->vm, vm->to,
                error->message);
    struct vg_drain_refusal *refusal = g_new0(struct vg_drain_refusal, 1);
    refusal->reason = g_strdup(error->message);
    refusal->until_ns = vg_clock_monotonic_ns() + AGAIN_NS;
    g_hash_table_replace(drainer->refusals, g_strdup(vm->uuid), refusal);
    vm->step = VG_DRAIN_STAYS;
    return false;
}

/* Forgets refusals whose moves may be tried again. */
static void
drain_forget_refusals(struct vg_drainer *drainer)
{
    const int64_t now_ns = vg_clock_monotonic_ns();
    GHashTableIter at;
    void *value;

    g_hash_table_iter_init(&at, drainer->refusals);
    while (g_hash_table_iter_next(&at, NULL, &value)) {
        if (((const struct vg_drain_refusal *)value)->until_ns <= now_ns)
            g_hash_table_iter_remove(&at);
    }
}

static void
drain_publish(struct vg_drainer *drainer, vg_drain *take_drain)
{
    VG_LOCK_SCOPE(&drainer->lock);
    if (!drainer->newest || drainer->newest->state != take_drain->state ||
        drainer->newest->left != take_drain->left)
        vg_log_notice("this host is being drained state=%s moved=%" G_GINT64_FORMAT
                      " left=%" G_GINT64_FORMAT,
                      vg_drain_state_names[take_drain->state], take_drain->moved, take_drain->left);
    vg_drain_free(drainer->newest);
    drainer->newest = take_drain;
}

/* Copies the mark and returns whether this host is to be emptied. The caller frees the text. */
static bool
drain_read_mark(struct vg_drainer *drainer, struct vg_drain_mark *ret)
{
    VG_LOCK_SCOPE(&drainer->lock);
    *ret = (struct vg_drain_mark){g_strdup(drainer->mark.asked_by), drainer->mark.since_ns};
    return ret->asked_by != NULL;
}

static bool
drain_is_on(struct vg_drainer *drainer)
{
    VG_LOCK_SCOPE(&drainer->lock);
    return drainer->mark.asked_by && !vg_thread_stopping(drainer->thread);
}

/* Makes one check and starts the moves that can start. Returns the time until the next check. */
static int64_t
drain_step(struct vg_drainer *drainer, const struct vg_drain_mark *mark)
{
    g_autoptr(GError) error = NULL;

    drain_forget_refusals(drainer);
    int64_t begun = 0;
    vg_drain *drain = drain_examine(drainer, mark, drainer->refusals, &begun, &error);
    if (!drain) {
        vg_log_warn_limited("the VMs of this host cannot be moved away now reason=\"%s\"",
                            error->message);
        return CHECK_NS;
    }
    for (guint i = 0; i < drain->vms->len && drain_is_on(drainer); i++) {
        struct vg_drain_vm *vm = drain->vms->pdata[i];
        vg_thread_beat(drainer->thread);
        if (vm->step != VG_DRAIN_WAITS || vm->has_move || !vm->uuid || !vm->to)
            continue;
        /* The remaining VMs do not enter the queue: each gets the best host at the time when it
         * leaves. */
        if (begun >= vg_mover_places(drainer->parts.mover))
            break;
        begun += drain_begin_move(drainer, mark, vm);
    }
    vg_drain_settle(drain);
    const bool running = drain->state == VG_DRAIN_RUNNING;
    drain_publish(drainer, drain);
    return running ? CHECK_NS : REST_NS;
}

/* Reports to the node and the region whether this host is to be emptied. Called under the lock. */
static void
drain_report(const struct vg_drainer *drainer)
{
    drainer->parts.set_maintenance(drainer->parts.data, drainer->mark.asked_by != NULL);
    if (drainer->parts.region)
        vg_region_set_drain(drainer->parts.region, drainer->mark.asked_by, drainer->mark.since_ns);
}

/* Reads from the journal whether this host is to be emptied. */
static int
drain_recover(struct vg_drainer *drainer)
{
    struct vg_drain_mark mark = {0};

    if (vg_journal_read_drain(drainer->parts.journal, &mark, NULL) < 0)
        return -1;
    VG_LOCK_SCOPE(&drainer->lock);
    if (!drainer->known)
        drainer->mark = mark;
    else
        g_free(mark.asked_by);
    drainer->known = true;
    drain_report(drainer);
    return 0;
}

static bool
drain_is_known(struct vg_drainer *drainer)
{
    VG_LOCK_SCOPE(&drainer->lock);
    return drainer->known;
}

static void
drain_run(vg_thread *self, void *arg)
{
    struct vg_drainer *drainer = arg;

    pthread_mutex_lock(&drainer->lock); /* held until `thread` is set */
    pthread_mutex_unlock(&drainer->lock);
    while (!vg_thread_stopping(self)) {
        struct vg_drain_mark mark = {0};
        int64_t pause_ns = REST_NS;
        vg_thread_beat(self);
        if (!drain_is_known(drainer) && drain_recover(drainer) < 0)
            pause_ns = CHECK_NS;
        else if (drain_read_mark(drainer, &mark))
            pause_ns = drain_step(drainer, &mark);
        VG_LOCK_SCOPE(&drainer->lock);
        /* Handles a change made in the meantime immediately. */
        if (!vg_thread_stopping(self) && g_strcmp0(mark.asked_by, drainer->mark.asked_by) == 0)
            vg_cond_wait_until(&drainer->woken, &drainer->lock, vg_clock_monotonic_ns() + pause_ns);
        g_free(mark.asked_by);
    }
}

static void
drain_wake(void *arg)
{
    struct vg_drainer *drainer = arg;

    VG_LOCK_SCOPE(&drainer->lock);
    pthread_cond_broadcast(&drainer->woken);
}

/* ---- the public side ---- */

vg_drainer *
vg_drainer_new(const struct vg_drainer_parts *parts, GError **err)
{
    vg_drainer *drainer = g_new0(vg_drainer, 1);

    drainer->parts = *parts;
    pthread_mutex_init(&drainer->lock, NULL);
    vg_cond_init(&drainer->woken);
    drainer->refusals = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, drain_refusal_free);
    pthread_mutex_lock(&drainer->lock);
    drainer->thread = vg_thread_new("drain", drain_run, drain_wake, drainer, err);
    pthread_mutex_unlock(&drainer->lock);
    if (!drainer->thread)
        g_clear_pointer(&drainer, vg_drainer_free);
    return drainer;
}

int
vg_drainer_begin(vg_drainer *drainer, const char *asked_by, GError **err)
{
    const struct vg_drain_mark mark = {(char *)asked_by, vg_clock_realtime_ns()};

    if (vg_journal_set_drain(drainer->parts.journal, &mark, err) < 0)
        return -1;
    VG_LOCK_SCOPE(&drainer->lock);
    if (!drainer->mark.asked_by) {
        drainer->mark = (struct vg_drain_mark){g_strdup(asked_by), mark.since_ns};
        g_clear_pointer(&drainer->newest, vg_drain_free);
    }
    drainer->known = true;
    drain_report(drainer);
    pthread_cond_broadcast(&drainer->woken);
    return 0;
}

/* Turns back the drain's moves as far as possible. */
static void
drain_abort(const struct vg_drainer *drainer)
{
    g_autofree char *lacks = NULL;
    g_autoptr(GPtrArray) moves = vg_mover_list(drainer->parts.mover, true, INT64_MAX,
                                               VG_JOURNAL_MIGRATIONS_MAX, &lacks, NULL);

    for (guint i = 0; moves && i < moves->len; i++) {
        const struct vg_migration *move = moves->pdata[i];
        if (move->begun_by == VG_ORIGIN_DRAIN)
            vg_migration_free(vg_mover_abort(drainer->parts.mover, move->id, NULL));
    }
}

int
vg_drainer_end(vg_drainer *drainer, GError **err)
{
    pthread_mutex_lock(&drainer->lock);
    const bool is_on = drainer->mark.asked_by != NULL;
    pthread_mutex_unlock(&drainer->lock);
    if (!is_on)
        return vg_error(err, VG_E_NOT_FOUND, "host '%s' is not being drained", drainer->parts.host);
    if (vg_journal_set_drain(drainer->parts.journal, NULL, err) < 0)
        return -1;
    pthread_mutex_lock(&drainer->lock);
    g_clear_pointer(&drainer->mark.asked_by, g_free);
    g_clear_pointer(&drainer->newest, vg_drain_free);
    drain_report(drainer);
    pthread_cond_broadcast(&drainer->woken);
    pthread_mutex_unlock(&drainer->lock);
    vg_log_notice("this host is no longer being drained");
    drain_abort(drainer);
    return 0;
}

vg_drain *
vg_drainer_read(vg_drainer *drainer, bool dry_run, GError **err)
{
    if (dry_run) {
        const struct vg_drain_mark now = {NULL, vg_clock_realtime_ns()};
        int64_t begun;
        vg_drain *drain = drain_examine(drainer, &now, NULL, &begun, err);
        if (drain && drain->state != VG_DRAIN_DONE)
            drain->state = VG_DRAIN_PLANNED;
        return drain;
    }
    VG_LOCK_SCOPE(&drainer->lock);
    if (!drainer->mark.asked_by) {
        if (drainer->known)
            vg_error(err, VG_E_NOT_FOUND, "host '%s' is not being drained", drainer->parts.host);
        else
            vg_error(err, VG_E_BUSY, "it is not yet known whether this host is being drained");
        return NULL;
    }
    if (drainer->newest)
        return vg_record_copy(&vg_drain_record, drainer->newest);
    /* The drain has just started. */
    vg_drain *drain = vg_drain_new();
    drain->host = g_strdup(drainer->parts.host);
    drain->asked_by = g_strdup(drainer->mark.asked_by);
    drain->since_ns = drainer->mark.since_ns;
    drain->state = VG_DRAIN_RUNNING;
    return drain;
}

void
vg_drainer_stop(vg_drainer *drainer)
{
    if (drainer)
        vg_thread_join(drainer->thread);
}

void
vg_drainer_free(vg_drainer *drainer)
{
    if (!drainer)
        return;
    vg_thread_free(drainer->thread);
    g_hash_table_destroy(drainer->refusals);
    g_free(drainer->mark.asked_by);
    vg_drain_free(drainer->newest);
    pthread_cond_destroy(&drainer->woken);
    pthread_mutex_destroy(&drainer->lock);
    g_free(drainer);
}
