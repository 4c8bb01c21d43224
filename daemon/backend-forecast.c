/* SPDX-License-Identifier: Apache-2.0
 *
 * Predicts for a dry run how long a move would take, and how long programs would stand still.
 */
#include "config.h"

#include "base/json.h"
#include "daemon/backend-private.h"
#include "move/forecast.h"

/* The number of moves among which earlier ones of the VM are looked for. */
#define PAST_MAX 200

/* Reads the durations of earlier moves from the journal. */
static void
forecast_read_past(vg_daemon_backend *backend, const char *uuid, struct vg_forecast_past *ret)
{
    g_autoptr(GPtrArray) moves =
        vg_journal_list_migrations(backend->parts.journal, false, INT64_MAX, PAST_MAX, NULL);

    *ret = (struct vg_forecast_past){0};
    if (moves)
        vg_forecast_learn(moves, uuid, ret);
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
    struct vg_forecast_facts facts = {.memory_bytes = vm->memory_bytes,
                                      .gpu_bytes = migration->guest.gpu_bytes,
                                      .bandwidth_bytes_per_s = settings->bandwidth_bytes_per_s,
                                      .past = &past};
    json_object *steps = json_object_new_array();
    struct vg_forecast forecast;

    pthread_mutex_lock(&backend->lock);
    facts.link_bytes_per_s = backend->policy.bandwidth;
    facts.stun_ns = backend->policy.stun_ns;
    pthread_mutex_unlock(&backend->lock);
    forecast_read_past(backend, migration->uuid, &past);
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
