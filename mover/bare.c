/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports VMs that a waiting or ended move has left without their GPUs, and the reason.
 */
#include "config.h"

#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "model/vm-name.h"
#include "mover/private.h"

#define VG_LOG_TAG "mover"

/* A shorter wait raises no alert. */
#define BARE_WAITS_NS (60 * VG_NS_PER_S)

/* ---- the alert ---- */

/* Finds a VM by its UUID. The lock is held, as for the functions below. */
static int
bare_find(const vg_mover *mover, const char *uuid)
{
    for (guint i = 0; i < mover->bare->len; i++) {
        const struct vg_bare_vm *vm = mover->bare->pdata[i];
        if (vg_vm_is(uuid, NULL, vm->uuid))
            return (int)i;
    }
    return -1;
}

static void
bare_publish(const vg_mover *mover, const struct vg_bare_vm *vm, const char *what,
             const char *reason)
{
    json_object *data = json_object_new_object();

    vg_json_add_string(data, "what", what);
    vg_json_add_string(data, "alert", VG_BARE_ALERT);
    vg_json_add_string(data, "vm", vm->vm);
    if (vm->display_name)
        vg_json_add_string(data, "display_name", vm->display_name);
    vg_json_add_string(data, "uuid", vm->uuid);
    vg_json_add_string(data, "host", vm->host);
    vg_json_add_string(data, "move", vm->move);
    vg_json_add_string(data, "reason", reason);
    vg_event_log_add(mover->parts.events, "alert", data);
    vg_log_warn("alert %s alert=" VG_BARE_ALERT " vm=\"%s\" host=\"%s\" move=%s reason=\"%s\"",
                what, vm->vm, vm->host, vm->move, reason ? reason : "");
}

static void
bare_raise(vg_mover *mover, const struct vg_migration *migration, const char *reason)
{
    const bool is_there = migration->vm_on == VG_PLACE_TARGET;
    struct vg_bare_vm *vm = vg_record_new(&vg_bare_vm_record);
    const int known = bare_find(mover, migration->uuid);

    vm->vm = g_strdup(migration->vm);
    vm->display_name = g_strdup(migration->display_name);
    vm->uuid = g_strdup(migration->uuid);
    vm->host = g_strdup(is_there ? migration->to : migration->from);
    vm->move = g_strdup(migration->id);
    if (known >= 0) {
        vg_record_free(&vg_bare_vm_record, mover->bare->pdata[known]);
        mover->bare->pdata[known] = vm;
        return;
    }
    g_ptr_array_add(mover->bare, vm);
    bare_publish(mover, vm, "raised", reason);
    pthread_cond_signal(&mover->raised);
}

static void
bare_clear(vg_mover *mover, const char *uuid, const char *reason)
{
    const int known = bare_find(mover, uuid);

    if (known < 0)
        return;
    struct vg_bare_vm *vm = g_ptr_array_steal_index(mover->bare, (guint)known);
    bare_publish(mover, vm, "cleared", reason);
    vg_record_free(&vg_bare_vm_record, vm);
}

/* Returns whether a move that has ended, or waits for a retry, left its VM without a GPU that it
 * had before. */
static bool
bare_is_left(const struct vg_migration *migration)
{
    bool was_unplugged = false;

    for (guint i = 0; i < migration->steps->len; i++) {
        const struct vg_migration_step *step = migration->steps->pdata[i];
        was_unplugged = was_unplugged || strcmp(step->verb, "detach") == 0;
    }
    return (migration->state == VG_MIGRATION_FAILED || vg_migration_is_queued(migration)) &&
           migration->devices->len > 0 && was_unplugged && migration->gpu != VG_GPU_ATTACHED &&
           migration->vm_on != VG_PLACE_NOWHERE;
}

void
mover_note_end(struct mover_move *move)
{
    g_autofree char *cause = vg_migration_cause(move->record);

    if (bare_is_left(move->record))
        bare_raise(move->mover, move->record, cause);
    else
        bare_clear(move->mover, move->record->uuid, vg_migration_state_names[move->record->state]);
}

void
mover_note_gpus(vg_mover *mover, const char *uuid)
{
    VG_LOCK_SCOPE(&mover->lock);
    bare_clear(mover, uuid, "the VM has its GPUs");
}

void
mover_note_past(vg_mover *mover, const GPtrArray *moves)
{
    g_autoptr(GHashTable) seen = g_hash_table_new(g_str_hash, g_str_equal);

    VG_LOCK_SCOPE(&mover->lock);
    for (guint i = 0; i < moves->len; i++) {
        const struct vg_migration *migration = moves->pdata[i];
        /* A move that never started has changed nothing. */
        if (migration->steps->len > 0 && g_hash_table_add(seen, migration->uuid) &&
            bare_is_left(migration)) {
            g_autofree char *cause = vg_migration_cause(migration);
            bare_raise(mover, migration, cause);
        }
    }
}

GPtrArray *
vg_mover_bare(vg_mover *mover)
{
    GPtrArray *list = g_ptr_array_new_with_free_func(vg_bare_vm_free);

    VG_LOCK_SCOPE(&mover->lock);
    for (guint i = 0; i < mover->bare->len; i++)
        g_ptr_array_add(list, vg_record_copy(&vg_bare_vm_record, mover->bare->pdata[i]));
    return list;
}

/* ---- waiting ---- */

/* Publishes that the move waits, or no longer waits. Called under the lock. */
static void
bare_publish_wait(const struct mover_move *move)
{
    json_object *data = vg_migration_summary(move->record);
    g_autofree char *cause = vg_migration_cause(move->record);

    vg_json_add_string(data, "step", move->record->step);
    vg_json_add_string(data, "cause", cause);
    vg_json_add_string(data, "waits_for", move->record->waits_for);
    vg_event_log_add(move->mover->parts.events, "migration", data);
}

void
mover_wait(struct mover_move *move, const char *what)
{
    const int64_t now_ns = vg_clock_monotonic_ns();
    const struct vg_move *machine = &move->machine;

    VG_LOCK_SCOPE(&move->mover->lock);
    struct vg_migration *record = move->record;
    const bool is_new = !record->waits_for;
    g_free(record->waits_for);
    record->waits_for = g_strdup(what);
    if (is_new) {
        record->waits_since_ns = vg_clock_realtime_ns();
        move->waits_since_ns = now_ns;
        bare_publish_wait(move);
        vg_log_warn("move waits id=%s vm=\"%s\" for=\"%s\"", record->id, record->vm, what);
    }
    if (machine->asked[VG_MOVE_DETACH] && !machine->done[VG_MOVE_ATTACH] &&
        !machine->done[VG_MOVE_REATTACH] && now_ns - move->waits_since_ns >= BARE_WAITS_NS)
        bare_raise(move->mover, record, what);
}

void
mover_go_on(struct mover_move *move)
{
    VG_LOCK_SCOPE(&move->mover->lock);
    struct vg_migration *record = move->record;
    if (!record->waits_for)
        return;
    g_clear_pointer(&record->waits_for, g_free);
    record->waits_since_ns = 0;
    bare_publish_wait(move);
    vg_log_notice("move no longer waits id=%s vm=\"%s\"", record->id, record->vm);
}
