/* SPDX-License-Identifier: Apache-2.0
 *
 * Judges moves, with the current settings.
 */
#include "config.h"

#include "daemon/backend-private.h"
#include "move/verdict.h"

static void
judge_read_settings(void *data, struct vg_judge_settings *ret)
{
    vg_daemon_backend *backend = data;

    VG_LOCK_SCOPE(&backend->lock);
    *ret = (struct vg_judge_settings){
        .length_ns = backend->access->actions_verdict_ns / VG_VERDICT_STEP_NS * VG_VERDICT_STEP_NS,
        .min_gain = backend->policy.min_gain,
        .gpu_weight = backend->policy.gpu_weight,
    };
}

int
backend_start_judge(vg_daemon_backend *backend, GError **err)
{
    backend->judge = vg_judge_new(
        &(struct vg_judge_parts){
            .journal = backend->parts.journal,
            .store = backend->parts.store,
            .mover = backend->parts.mover,
            .peers = backend->parts.peers,
            .data = backend,
            .settings = judge_read_settings,
        },
        err);
    return backend->judge ? 0 : -1;
}
