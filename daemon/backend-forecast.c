/* SPDX-License-Identifier: Apache-2.0
 *
 * Predicts for a dry run how long a move would take, and how long programs would be paused.
 */
#include "config.h"

#include "base/clock.h"
#include "base/json.h"
#include "cluster/peer-moves.h"
#include "daemon/backend-private.h"
#include "move/forecast.h"

/* The number of recent moves that are searched for earlier moves of the VM. */
#define PAST_MAX 200

/* The same for moves from the target to this host, and the time limit for reading each of them. */
#define PAST_THERE_MAX 10
#define PAST_THERE_NS  VG_NS_PER_S

static int
forecast_compare_moves(const void *a, const void *b)
{
    const struct vg_migration *x = *(struct vg_migration *const *)a;
    const struct vg_migration *y = *(struct vg_migration *const *)b;

    return x->made_ns > y->made_ns ? -1 : x->made_ns < y->made_ns;
}

/* Reads the durations of earlier moves from the journal, and of moves in the opposite direction
 * from the target. A VM's way back is then known from its way there. */
static void
forecast_read_past(vg_daemon_backend *backend, const struct vg_migration *migration,
                   struct vg_forecast_past *ret)
{
    g_autoptr(GPtrArray) moves =
        vg_journal_list_migrations(backend->parts.journal, false, INT64_MAX, PAST_MAX, NULL);
    g_autoptr(GPtrArray) back =
        vg_peer_moves_to(backend->parts.peers, migration->peer, migration->from, PAST_THERE_MAX,
                         PAST_THERE_NS, NULL);

    *ret = (struct vg_forecast_past){0};
    if (!moves)
        return;
    for (guint i = 0; back && i < back->len; i++)
        g_ptr_array_add(moves, vg_migration_copy(back->pdata[i]));
    g_ptr_array_sort(moves, forecast_compare_moves);
    vg_forecast_learn(moves, migration->uuid, ret);
}

void
backend_add_forecast(vg_daemon_backend *backend, json_object *document, const struct vg_inv_vm *vm,
                     const struct vg_migration *migration)
{
    g_autoptr(vg_move_settings) settings = vg_mover_settings(backend->parts.mover);
    const struct vg_forecast_limits limits = {.guest_ns = settings->guest_deadline_ns,
                                              .unplug_ns = settings->unplug_deadline_ns,
                                              .migrate_ns = settings->migrate_deadline_ns};
    struct vg_forecast_past past;
    struct vg_forecast_facts facts = {.native = migration->mode == VG_MODE_NATIVE,
                                      .is_away = migration->gpu_during != NULL,
                                      .memory_bytes = vm->memory_bytes,
                                      .has_programs = migration->guest.total > 0,
                                      .gpu_bytes = migration->guest.gpu_bytes,
                                      .bandwidth_bytes_per_s = settings->bandwidth_bytes_per_s,
                                      .past = &past};
    json_object *steps = json_object_new_array();
    struct vg_forecast forecast;

    pthread_mutex_lock(&backend->lock);
    facts.link_bytes_per_s = backend->policy.bandwidth;
    facts.stun_ns = backend->policy.stun_ns;
    pthread_mutex_unlock(&backend->lock);
    forecast_read_past(backend, migration, &past);
    vg_mover_measure(backend->parts.mover, migration->uuid, &facts.touched_bytes,
                     &facts.dirty_bytes_per_s);
    vg_forecast_make(migration->devices->len > 0, !migration->no_agent, &facts, &limits, &forecast);
    for (size_t i = 0; i < forecast.n; i++) {
        json_object *step = json_object_new_object();
        vg_json_add_string(step, "verb", vg_move_verb_names[forecast.steps[i].verb]);
        vg_json_add_double(step, "expected_s", forecast.steps[i].expected_s);
        vg_json_add_double(step, "deadline_s", forecast.steps[i].deadline_s);
        vg_json_append(steps, step);
    }
    vg_json_add(document, "steps", steps);
    vg_json_add_double(document, "expected_s", forecast.expected_s);
    vg_json_add_double(document, "standstill_s", forecast.standstill_s);
}
