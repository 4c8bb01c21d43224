/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes moves to the journal and lists them, even while the journal does not answer.
 */
#include "config.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "mover/private.h"

/* The time limit for a write that must succeed first: without its record, a move neither unplugs a
 * device nor migrates the VM. */
#define SAVE_NS (30 * VG_NS_PER_S)
/* The time limit while the VM may be without its GPUs. The move then continues without its record,
 * as a vgpud that resumes it checks the VM's place. After a failure, each record gets a single
 * attempt until one succeeds. */
#define SAVE_BARE_NS (10 * VG_NS_PER_S)
/* The interval between attempts. */
#define SAVE_AGAIN_NS VG_NS_PER_S

/* ---- writing ---- */

void
mover_note_answer(vg_mover *mover, const GError *error)
{
    atomic_store(&mover->is_silent, error && g_error_matches(error, VG_ERROR, VG_E_TIMEOUT));
}

static struct vg_migration *
save_copy(struct mover_move *move)
{
    VG_LOCK_SCOPE(&move->mover->lock);
    return vg_migration_copy(move->record);
}

int
mover_save(struct mover_move *move, bool is_bare, GError **err)
{
    const int64_t limit_ns = !is_bare ? SAVE_NS : move->is_unsaved ? 0 : SAVE_BARE_NS;
    const int64_t until_ns = vg_clock_monotonic_ns() + limit_ns;
    g_autoptr(vg_migration) copy = save_copy(move);
    g_autoptr(GError) error = NULL;

    for (;;) {
        g_clear_error(&error);
        mover_begin_write(move->mover);
        move->is_unsaved = vg_journal_save_migration(move->mover->parts.journal, copy, &error) < 0;
        mover_note_answer(move->mover, error);
        if (!move->is_unsaved) {
            mover_count_write(move->mover);
            mover_go_on(move);
            return 0;
        }
        g_autofree char *what =
            g_strconcat("the journal to record the step: ", error->message, NULL);
        mover_wait(move, what);
        const int64_t next_ns = vg_clock_monotonic_ns() + SAVE_AGAIN_NS;
        if (next_ns >= until_ns || !vg_thread_sleep_until(move->thread, next_ns))
            break;
    }
    g_propagate_error(err, g_steal_pointer(&error));
    return -1;
}

/* ---- listing ---- */

struct mover_move *
mover_find(vg_mover *mover, const char *id)
{
    for (guint i = mover->moves->len; i > 0; i--) {
        struct mover_move *move = mover->moves->pdata[i - 1];
        if (strcmp(move->record->id, id) == 0)
            return move;
    }
    return NULL;
}

struct mover_queued *
mover_queue_find(vg_mover *mover, const char *id)
{
    for (guint i = 0; i < mover->queue->len; i++) {
        struct mover_queued *queued = mover->queue->pdata[i];
        if (strcmp(queued->record->id, id) == 0)
            return queued;
    }
    return NULL;
}

const struct vg_migration *
mover_find_record(vg_mover *mover, const char *id)
{
    const struct mover_move *move = mover_find(mover, id);
    const struct mover_queued *queued = mover_queue_find(mover, id);

    /* A move that has ended and waits for its retry is in both lists. */
    if (queued && (!move || move->ended))
        return queued->record;
    return move ? move->record : NULL;
}

/* Replaces the journal's records of running and queued moves with their current state. */
static void
save_refresh(vg_mover *mover, GPtrArray *moves)
{
    VG_LOCK_SCOPE(&mover->lock);
    for (guint i = 0; i < moves->len; i++) {
        const struct vg_migration *known = moves->pdata[i];
        const struct mover_move *move = mover_find(mover, known->id);
        if ((!move || move->ended) && !mover_queue_find(mover, known->id))
            continue;
        struct vg_migration *now = vg_migration_copy(mover_find_record(mover, known->id));
        vg_migration_free(moves->pdata[i]);
        moves->pdata[i] = now;
    }
}

static int
save_compare_made(const void *a, const void *b)
{
    const struct vg_migration *x = *(struct vg_migration *const *)a;
    const struct vg_migration *y = *(struct vg_migration *const *)b;

    return x->made_ns > y->made_ns ? -1 : x->made_ns < y->made_ns;
}

static void
save_add_known(GPtrArray *list, const struct vg_migration *record, bool active, int64_t before_ns)
{
    if (record->made_ns < before_ns && !(active && vg_migration_has_ended(record->state)))
        g_ptr_array_add(list, vg_migration_copy(record));
}

/* Lists the moves in memory. */
static GPtrArray *
save_list_known(vg_mover *mover, bool active, int64_t before_ns, size_t limit)
{
    GPtrArray *list = g_ptr_array_new_with_free_func(vg_migration_free);

    pthread_mutex_lock(&mover->lock);
    for (guint i = 0; i < mover->moves->len; i++) {
        const struct mover_move *move = mover->moves->pdata[i];
        if (move->record == mover_find_record(mover, move->record->id))
            save_add_known(list, move->record, active, before_ns);
    }
    for (guint i = 0; i < mover->queue->len; i++) {
        const struct mover_queued *queued = mover->queue->pdata[i];
        if (queued->record == mover_find_record(mover, queued->record->id))
            save_add_known(list, queued->record, active, before_ns);
    }
    pthread_mutex_unlock(&mover->lock);
    g_ptr_array_sort(list, save_compare_made);
    if (list->len > limit)
        g_ptr_array_set_size(list, (int)limit);
    return list;
}

GPtrArray *
vg_mover_list(vg_mover *mover, bool active, int64_t before_ns, size_t limit, char **ret_lacks,
              GError **err)
{
    g_autoptr(GError) error = NULL;

    *ret_lacks = NULL;
    if (!atomic_load(&mover->is_silent)) {
        GPtrArray *list =
            vg_journal_list_migrations(mover->parts.journal, active, before_ns, limit, &error);
        if (list)
            save_refresh(mover, list);
        if (list || !g_error_matches(error, VG_ERROR, VG_E_TIMEOUT)) {
            if (error)
                g_propagate_error(err, g_steal_pointer(&error));
            return list;
        }
    }
    if (!active)
        *ret_lacks = g_strdup_printf("only running and queued moves are listed: %s",
                                     error ? error->message : "the journal does not answer");
    return save_list_known(mover, active, before_ns, limit);
}

GPtrArray *
vg_mover_moving(vg_mover *mover)
{
    GPtrArray *list = g_ptr_array_new_with_free_func(g_free);

    VG_LOCK_SCOPE(&mover->lock);
    for (guint i = 0; i < mover->moves->len; i++) {
        const struct mover_move *move = mover->moves->pdata[i];
        if (!move->ended)
            g_ptr_array_add(list, g_strdup(move->record->uuid));
    }
    return list;
}
