/* SPDX-License-Identifier: Apache-2.0
 *
 * Queues moves while the configured number of moves is running. The queue is in the journal. A
 * queued move holds no reservation, no lease and no cluster lock.
 */
#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "model/arrival.h"
#include "model/vm-name.h"
#include "mover/private.h"

#define VG_LOG_TAG "mover"

/* After a move to a target has ended, this host gives other hosts' queues this time to use the
 * place: they must learn of the end, and announce their own moves. */
#define QUEUE_YIELD_NS (30 * VG_NS_PER_S)

/* ---- the list: these are called under the lock ---- */

static void
queue_free(void *data)
{
    struct mover_queued *queued = data;

    vg_migration_free(queued->record);
    g_free(queued->request);
    g_free(queued->why);
    g_free(queued);
}

static bool
queue_is_retry(const struct vg_migration *record)
{
    return record->retries > 0;
}

struct mover_queued *
mover_queue_find_vm(vg_mover *mover, const char *uuid)
{
    for (guint i = 0; i < mover->queue->len; i++) {
        struct mover_queued *queued = mover->queue->pdata[i];
        if (vg_vm_is(uuid, NULL, queued->record->uuid))
            return queued;
    }
    return NULL;
}

void
mover_queue_number(const vg_mover *mover)
{
    for (guint i = 0; i < mover->queue->len; i++) {
        const struct mover_queued *queued = mover->queue->pdata[i];
        g_free(queued->record->waits_for);
        queued->record->waits_for = g_strdup_printf("its turn, as number %u of %u in the queue: %s",
                                                    i + 1, mover->queue->len, queued->why);
    }
}

/* Sorts retries of failed moves to the front, as these may have left a VM without its GPUs. */
static gint
queue_compare(gconstpointer a, gconstpointer b)
{
    const struct vg_migration *x = (*(struct mover_queued *const *)a)->record;
    const struct vg_migration *y = (*(struct mover_queued *const *)b)->record;
    const bool x_again = queue_is_retry(x), y_again = queue_is_retry(y);

    if (x_again != y_again)
        return x_again ? -1 : 1;
    if (x_again && x->waits_since_ns != y->waits_since_ns)
        return x->waits_since_ns < y->waits_since_ns ? -1 : 1;
    if (x->made_ns != y->made_ns)
        return x->made_ns < y->made_ns ? -1 : 1;
    return strcmp(x->id, y->id);
}

static struct mover_queued *
queue_insert(vg_mover *mover, const struct vg_migration *record, const char *request,
             const char *why)
{
    struct mover_queued *queued = g_new0(struct mover_queued, 1);

    queued->record = vg_migration_copy(record);
    queued->request = g_strdup(request);
    queued->why = g_strdup(why);
    g_ptr_array_add(mover->queue, queued);
    g_ptr_array_sort(mover->queue, queue_compare);
    mover_queue_number(mover);
    mover_queue_wake(mover);
    return queued;
}

static void
queue_publish(const vg_mover *mover, const struct vg_migration *record)
{
    json_object *data = vg_migration_summary(record);
    g_autofree char *cause = vg_migration_cause(record);

    vg_json_add_string(data, "step", NULL);
    vg_json_add_string(data, "cause", cause);
    if (record->waits_for)
        vg_json_add_string(data, "waits_for", record->waits_for);
    vg_event_log_add(mover->parts.events, "migration", data);
}

void
mover_queue_add_approvals(vg_mover *mover, GPtrArray *list)
{
    for (guint i = 0; i < mover->queue->len; i++) {
        const struct vg_migration *record =
            ((const struct mover_queued *)mover->queue->pdata[i])->record;
        struct vg_approval *approval = vg_approval_new(record->uuid, record->to, false);
        approval->queued = true;
        g_ptr_array_add(list, approval);
    }
}

void
mover_queue_wake(vg_mover *mover)
{
    mover->is_turn = true;
    pthread_cond_signal(&mover->turned);
}

void
mover_queue_note_end(vg_mover *mover, const char *to)
{
    int64_t *ended_ns = g_new(int64_t, 1);

    *ended_ns = vg_clock_monotonic_ns();
    g_hash_table_replace(mover->ended_to, g_strdup(to), ended_ns);
    mover_queue_wake(mover);
}

/* ---- free places ---- */

/* Counts the running moves. *ret_there is the number of moves to the given host. */
static unsigned
queue_count(vg_mover *mover, const char *to, unsigned *ret_there)
{
    unsigned running = 0;

    *ret_there = 0;
    VG_LOCK_SCOPE(&mover->lock);
    for (guint i = 0; i < mover->moves->len; i++) {
        const struct mover_move *move = mover->moves->pdata[i];
        running += !move->ended;
        *ret_there += !move->ended && strcmp(move->record->to, to) == 0;
    }
    return running;
}

char *
mover_queue_why_retry(vg_mover *mover, const char *to)
{
    g_autoptr(vg_move_settings) settings = vg_mover_settings(mover);
    g_autoptr(GPtrArray) others = vg_peers_moving_to(mover->parts.peers, to);
    unsigned there;
    const unsigned running = queue_count(mover, to, &there);

    if (running >= settings->moves)
        return running == 1
                   ? g_strdup("1 move is running, the maximum that [actions] moves allows")
                   : g_strdup_printf(
                         "%u moves are running, the maximum that [actions] moves allows", running);
    if (others->len > 0 && there + others->len >= settings->moves)
        return g_strdup_printf("%u moves to '%s' are running, %u of them from other hosts; "
                               "[actions] moves allows %" PRId64,
                               there + others->len, to, others->len, settings->moves);
    return NULL;
}

GPtrArray *
mover_queue_due(vg_mover *mover)
{
    GPtrArray *list = g_ptr_array_new_with_free_func(vg_migration_free);
    const int64_t now_ns = vg_clock_monotonic_ns();

    VG_LOCK_SCOPE(&mover->lock);
    for (guint i = 0; i < mover->queue->len; i++) {
        const struct mover_queued *queued = mover->queue->pdata[i];
        if (!queued->is_busy && queued->again_ns <= now_ns)
            g_ptr_array_add(list, vg_migration_copy(queued->record));
    }
    return list;
}

/* Returns whether this host has recently finished a move to the given host. */
static bool
queue_was_lately(vg_mover *mover, const char *to)
{
    VG_LOCK_SCOPE(&mover->lock);
    const int64_t *ended_ns = g_hash_table_lookup(mover->ended_to, to);
    return ended_ns && vg_clock_monotonic_ns() - *ended_ns < QUEUE_YIELD_NS;
}

char *
mover_queue_why_turn(vg_mover *mover, const char *to)
{
    char *why = mover_queue_why_retry(mover, to);

    if (!why && vg_peers_queue_to(mover->parts.peers, to) && queue_was_lately(mover, to))
        why =
            g_strdup_printf("another host has queued moves to '%s', and its turn comes first", to);
    return why;
}

char *
mover_queue_why(vg_mover *mover, const char *to)
{
    char *why = mover_queue_why_turn(mover, to);
    g_autoptr(GPtrArray) due = why ? NULL : mover_queue_due(mover);

    for (guint i = 0; due && i < due->len; i++) {
        g_autofree char *other =
            mover_queue_why_turn(mover, ((const struct vg_migration *)due->pdata[i])->to);
        if (!other)
            return g_strdup("earlier requests come first");
    }
    return why;
}

int64_t
vg_mover_places(vg_mover *mover)
{
    VG_LOCK_SCOPE(&mover->lock);
    return mover->queue->len < VG_MOVER_QUEUE_MAX ? mover->settings->moves : 0;
}

/* ---- entering and leaving ---- */

int
mover_queue_add(vg_mover *mover, struct vg_migration *migration, const struct vg_mover_order *order,
                const char *why, GError **err)
{
    pthread_mutex_lock(&mover->lock);
    const bool is_full = mover->queue->len >= VG_MOVER_QUEUE_MAX;
    pthread_mutex_unlock(&mover->lock);
    if (is_full)
        return vg_error(err, VG_E_CONFLICT, "%d moves are queued, the maximum: %s",
                        VG_MOVER_QUEUE_MAX, why);
    migration->waits_for = g_strdup("its turn");
    migration->waits_since_ns = vg_clock_realtime_ns();
    if (order)
        migration->made_ns = migration->waits_since_ns;
    const int status = order ? vg_journal_begin_migration(mover->parts.journal, migration,
                                                          order->key, order->request, err)
                             : vg_journal_reopen_migration(mover->parts.journal, migration, err);
    if (status < 0)
        return -1;
    mover_count_write(mover);
    vg_log_notice("move is queued id=%s vm=\"%s\" from=\"%s\" to=\"%s\" by=\"%s\" reason=\"%s\"",
                  migration->id, migration->vm, migration->from, migration->to,
                  migration->asked_by ? migration->asked_by : "", why);
    VG_LOCK_SCOPE(&mover->lock);
    const struct mover_queued *queued =
        queue_insert(mover, migration, order ? order->request : NULL, why);
    g_free(migration->waits_for);
    migration->waits_for = g_strdup(queued->record->waits_for);
    queue_publish(mover, queued->record);
    return 0;
}

void
mover_queue_restore(vg_mover *mover, const struct vg_journal_queued *queued)
{
    VG_LOCK_SCOPE(&mover->lock);
    queue_insert(mover, queued->migration, queued->request, "vgpud has just started");
    vg_log_notice("move is still queued id=%s vm=\"%s\"", queued->migration->id,
                  queued->migration->vm);
}

/* Creates the final record of a move that leaves the queue without having started. why is NULL if a
 * user aborts it. */
static struct vg_migration *
queue_end_record(const vg_mover *mover, const struct vg_migration *queued, const char *why)
{
    struct vg_migration *record = vg_migration_copy(queued);
    const bool is_here = !mover->turn || mover->turn->is_here(mover->turn_data, record->uuid);

    g_clear_pointer(&record->waits_for, g_free);
    record->waits_since_ns = 0;
    record->ended_ns = vg_clock_realtime_ns();
    record->abort_asked = !why;
    record->state = why || queue_is_retry(record) ? VG_MIGRATION_FAILED : VG_MIGRATION_ABORTED;
    if (queue_is_retry(record)) {
        if (why) {
            g_free(record->not_resumed);
            record->not_resumed = g_strdup(why);
        }
        return record;
    }
    record->not_started = true;
    g_free(record->cause);
    record->cause = why ? g_strdup_printf("it could not start when its turn came: %s", why)
                        : g_strdup("it was aborted");
    record->vm_on = is_here ? record->vm_on : VG_PLACE_UNKNOWN;
    record->gpu = is_here ? record->gpu : VG_GPU_UNKNOWN;
    return record;
}

struct vg_migration *
mover_queue_remove(vg_mover *mover, struct mover_queued *queued, const char *why, GError **err)
{
    pthread_mutex_lock(&mover->lock);
    g_autoptr(vg_migration) record = queue_end_record(mover, queued->record, why);
    pthread_mutex_unlock(&mover->lock);
    g_autoptr(GError) error = NULL;
    const int status = vg_journal_save_migration(mover->parts.journal, record, &error);
    mover_note_answer(mover, error);
    if (status == 0)
        mover_count_write(mover);
    VG_LOCK_SCOPE(&mover->lock);
    queued->is_busy = false;
    if (status < 0) {
        g_free(queued->why);
        queued->why = g_strdup_printf("it leaves the queue once the journal can record it: %s",
                                      error->message);
        mover_queue_number(mover);
        g_propagate_error(err, g_steal_pointer(&error));
        return NULL;
    }
    g_ptr_array_remove(mover->queue, queued);
    mover_queue_number(mover);
    queue_publish(mover, record);
    g_autofree char *cause = vg_migration_cause(record);
    vg_log_notice("move leaves the queue state=%s id=%s vm=\"%s\" cause=\"%s\"",
                  vg_migration_state_names[record->state], record->id, record->vm,
                  cause ? cause : "");
    return g_steal_pointer(&record);
}

struct vg_migration *
mover_queue_abort(vg_mover *mover, const char *id)
{
    struct vg_migration *record = NULL;

    pthread_mutex_lock(&mover->lock);
    struct mover_queued *queued = mover_queue_find(mover, id);
    const bool is_busy = queued && queued->is_busy;
    if (queued) {
        queued->is_busy = true;
        queued->abort_asked = true;
        queued->record->abort_asked = true;
    }
    pthread_mutex_unlock(&mover->lock);
    if (queued && !is_busy)
        record = mover_queue_remove(mover, queued, NULL, NULL);
    if (!queued || record)
        return record;
    /* The queue's thread ends the move, unless it has started in the meantime. */
    VG_LOCK_SCOPE(&mover->lock);
    const struct vg_migration *now = mover_find_record(mover, id);
    return now ? vg_migration_copy(now) : NULL;
}

/* ---- when a turn comes ---- */

void
mover_queue_note(vg_mover *mover, const char *id, const char *why)
{
    VG_LOCK_SCOPE(&mover->lock);
    struct mover_queued *queued = mover_queue_find(mover, id);
    if (!queued)
        return;
    queued->refused_ns = 0;
    g_free(queued->why);
    queued->why = g_strdup(why);
    mover_queue_number(mover);
}

void
mover_queue_leave(vg_mover *mover, struct mover_queued *queued)
{
    g_ptr_array_remove(mover->queue, queued);
    mover_queue_number(mover);
}

/* ---- making and freeing ---- */

void
mover_queue_init(vg_mover *mover)
{
    mover->queue = g_ptr_array_new_with_free_func(queue_free);
    mover->ended_to = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    vg_cond_init(&mover->turned);
}

void
mover_queue_end(vg_mover *mover)
{
    g_ptr_array_unref(mover->queue);
    g_hash_table_destroy(mover->ended_to);
    pthread_cond_destroy(&mover->turned);
}
