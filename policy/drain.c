/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "policy/drain.h"

#include <string.h>

#include "base/clock.h"
#include "model/gpu-target.h"

/* A VM stays after this many failed moves. */
#define TRIES_MAX 3

/* For this long, a VM that has left may still be among those of this host. */
#define LEFT_NS (30 * VG_NS_PER_S)

/* The moves of one VM. */
struct drain_history {
    const struct vg_migration *newest;
    int64_t failed;
};

/* Returns the moves that this drain has started, and others that have not ended, by UUID. They are
 * borrowed from moves. */
static GHashTable *
drain_histories(const struct vg_drain_facts *facts)
{
    const GPtrArray *moves = facts->moves;
    GHashTable *histories = g_hash_table_new_full(g_str_hash, g_str_equal, NULL, g_free);

    for (guint i = 0; i < moves->len; i++) {
        const struct vg_migration *move = moves->pdata[i];
        if (strcmp(move->from, facts->host) != 0 ||
            (vg_migration_has_ended(move->state) &&
             (move->made_ns < facts->since_ns || move->begun_by != VG_ORIGIN_DRAIN)))
            continue;
        struct drain_history *history = g_hash_table_lookup(histories, move->uuid);
        if (!history) {
            history = g_new0(struct drain_history, 1);
            history->newest = move;
            g_hash_table_insert(histories, move->uuid, history);
        }
        history->failed += vg_migration_has_ended(move->state) && move->state != VG_MIGRATION_DONE;
    }
    return histories;
}

void
vg_drain_note_move(const struct vg_migration *move, struct vg_drain_vm *vm)
{
    const bool is_queued = vg_migration_is_queued(move);

    vm->has_move = true;
    vm->step = is_queued ? VG_DRAIN_WAITS : VG_DRAIN_MOVES;
    if (g_strcmp0(vm->to, move->to) != 0)
        vg_record_truncate(&vg_gpu_target_record, vm->gpus, 0);
    g_free(vm->to);
    vm->to = g_strdup(move->to);
    if (!is_queued)
        return;
    g_free(vm->reason);
    vm->reason = g_strdup_printf("the VM's move is waiting for %s", move->waits_for);
}

/* Sets the state of a VM that is here. */
static void
drain_judge_vm(const struct vg_drain_facts *facts, const struct drain_history *history,
               const struct vg_evacuation *evacuation, struct vg_drain_vm *vm)
{
    const struct vg_migration *newest = history ? history->newest : NULL;
    g_autofree char *cause = newest ? vg_migration_cause(newest) : NULL;
    const struct vg_drain_refusal *refusal =
        facts->refusals && vm->uuid ? g_hash_table_lookup(facts->refusals, vm->uuid) : NULL;

    vm->to = g_strdup(evacuation->to);
    vm->reason = g_strdup(evacuation->reason);
    vm->seconds = evacuation->seconds;
    for (guint i = 0; i < evacuation->gpus->len; i++)
        g_ptr_array_add(vm->gpus,
                        vg_record_copy(&vg_gpu_target_record, evacuation->gpus->pdata[i]));
    vm->tries = history ? history->failed : 0;
    vm->migration = newest ? g_strdup(newest->id) : NULL;
    vm->step = evacuation->to ? VG_DRAIN_WAITS : VG_DRAIN_STAYS;
    if (newest && !vg_migration_has_ended(newest->state)) {
        vg_drain_note_move(newest, vm);
    } else if (newest && newest->state == VG_MIGRATION_DONE &&
               facts->now_ns - newest->ended_ns < LEFT_NS) {
        vm->step = VG_DRAIN_MOVED;
    } else if (vm->tries >= TRIES_MAX) {
        vm->step = VG_DRAIN_STAYS;
        g_free(vm->reason);
        vm->reason = g_strdup_printf("%d moves have failed, the last one: %s", TRIES_MAX,
                                     cause ? cause : "reason unknown");
    } else if (evacuation->to && refusal) {
        vm->step = VG_DRAIN_STAYS;
        g_free(vm->reason);
        vm->reason = g_strdup(refusal->reason);
    }
    if (vm->step == VG_DRAIN_STAYS && !evacuation->to)
        vm->seconds = 0;
}

/* Adds the VMs that have left. */
static void
drain_add_moved(GHashTable *histories, const GHashTable *here, vg_drain *drain)
{
    GHashTableIter at;
    void *uuid, *value;

    g_hash_table_iter_init(&at, histories);
    while (g_hash_table_iter_next(&at, &uuid, &value)) {
        const struct vg_migration *newest = ((const struct drain_history *)value)->newest;
        if (g_hash_table_contains((GHashTable *)here, uuid))
            continue;
        struct vg_drain_vm *vm = vg_drain_add(drain, newest->vm, uuid);
        vm->step = VG_DRAIN_MOVED;
        if (vg_migration_has_ended(newest->state))
            vm->to = g_strdup(newest->to);
        else
            vg_drain_note_move(newest, vm);
        vm->migration = g_strdup(newest->id);
    }
}

vg_drain *
vg_drain_judge(const struct vg_drain_facts *facts)
{
    g_autoptr(GHashTable) histories = drain_histories(facts);
    g_autoptr(GHashTable) here = g_hash_table_new(g_str_hash, g_str_equal);
    vg_drain *drain = vg_drain_new();

    drain->host = g_strdup(facts->host);
    drain->asked_by = g_strdup(facts->asked_by);
    drain->since_ns = facts->since_ns;
    for (guint i = 0; i < facts->places->len; i++) {
        const struct vg_evacuation *place = facts->places->pdata[i];
        struct vg_drain_vm *vm = vg_drain_add(drain, place->vm, place->uuid);
        const struct drain_history *history =
            vm->uuid ? g_hash_table_lookup(histories, vm->uuid) : NULL;
        drain_judge_vm(facts, history, place, vm);
        if (vm->uuid)
            g_hash_table_add(here, vm->uuid);
    }
    vg_drain_wait_for_moved(drain);
    drain_add_moved(histories, here, drain);
    vg_drain_settle(drain);
    return drain;
}
