/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "daemon/move-effect.h"

#include "base/clock.h"
#include "cluster/peer-moves.h"
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

bool
vg_move_effect_after(vg_peers *peers, struct vg_migration *migration)
{
    const int64_t end_ns = migration->ended_ns + VG_EFFECT_S * VG_NS_PER_S;
    const int64_t now_ns = vg_clock_realtime_ns();
    struct vg_effect_sum sum = {0};

    if (now_ns - migration->ended_ns < VG_EFFECT_MIN_NS + 2 * VG_NS_PER_S)
        return false;
    g_autoptr(GArray) samples = vg_peer_samples(peers, migration->peer, migration->uuid,
                                                migration->ended_ns / VG_NS_PER_S + 1,
                                                MIN(now_ns, end_ns) / VG_NS_PER_S, ASK_NS, NULL);
    for (guint i = 0; samples && i < samples->len; i++) {
        const struct vg_peer_sample *sample = &g_array_index(samples, struct vg_peer_sample, i);
        vg_effect_add(&sum, sample->preempt_ns, sample->wake_wait_ns,
                      sample->end_ns - sample->begin_ns);
    }
    if (samples)
        vg_effect_set(&sum, &migration->after);
    return now_ns >= end_ns && migration->after.known;
}
