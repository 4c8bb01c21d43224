/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "daemon/move-effect.h"

#include <inttypes.h>

#include "base/clock.h"
#include "base/json.h"
#include "move/effect.h"

#define READ_NS (2 * VG_NS_PER_S)
#define ASK_NS  (5 * VG_NS_PER_S)

void
vg_move_effect_before(vg_store *store, struct vg_migration *migration)
{
    const int64_t now_ns = vg_clock_realtime_ns();
    const struct vg_history_query query = {
        .vm = migration->uuid,
        .since_ns = now_ns - VG_EFFECT_S * VG_NS_PER_S,
        .until_ns = now_ns,
        .step_ns = VG_NS_PER_S,
        .deadline_ns = vg_clock_monotonic_ns() + READ_NS,
    };
    g_autoptr(GArray) rows = vg_store_read_samples(store, &query, NULL);
    struct vg_effect_sum sum = {0};

    for (guint i = 0; rows && i < rows->len; i++) {
        const struct vg_history_row *row = &g_array_index(rows, struct vg_history_row, i);
        vg_effect_add(&sum, row->cpu.preempt_ns, row->cpu.wake_wait_ns,
                      row->end_ns - row->begin_ns);
    }
    vg_effect_set(&sum, &migration->before);
}

static int64_t
move_effect_number(json_object *row, const char *name)
{
    json_object *value = NULL;

    return json_object_is_type(row, json_type_object) &&
                   json_object_object_get_ex(row, name, &value)
               ? json_object_get_int64(value)
               : 0;
}

/* The rows of /v1/vms/{id}/samples. */
static void
move_effect_read(json_object *document, struct vg_migration_effect *effect)
{
    json_object *items = NULL;
    struct vg_effect_sum sum = {0};

    if (!json_object_is_type(document, json_type_object) ||
        !json_object_object_get_ex(document, "items", &items) ||
        !json_object_is_type(items, json_type_array))
        return;
    for (size_t i = 0; i < json_object_array_length(items); i++) {
        json_object *row = json_object_array_get_idx(items, i);
        vg_effect_add(&sum, move_effect_number(row, "preempt_ns"),
                      move_effect_number(row, "wake_wait_ns"),
                      move_effect_number(row, "end_ns") - move_effect_number(row, "begin_ns"));
    }
    vg_effect_set(&sum, effect);
}

bool
vg_move_effect_after(vg_peers *peers, struct vg_migration *migration)
{
    const int64_t end_ns = migration->ended_ns + VG_EFFECT_S * VG_NS_PER_S;
    const int64_t now_ns = vg_clock_realtime_ns();
    g_autoptr(json_object) document = NULL;
    g_autofree char *path = g_strdup_printf(
        "/v1/vms/%s/samples?step=1s&since=%" PRId64 "&until=%" PRId64, migration->uuid,
        migration->ended_ns / VG_NS_PER_S + 1, MIN(now_ns, end_ns) / VG_NS_PER_S);

    if (now_ns - migration->ended_ns < VG_EFFECT_MIN_NS + 2 * VG_NS_PER_S)
        return false;
    if (vg_peers_request(peers, migration->peer, "GET", path, NULL, ASK_NS, &document, NULL) == 0)
        move_effect_read(document, &migration->after);
    return now_ns >= end_ns && migration->after.known;
}
