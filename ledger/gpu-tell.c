/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports to observers of the GPU ledger: requests that are done, and the stages of those that are
 * not.
 */
#include "config.h"

#include <string.h>

#include "ledger/gpu-ledger-private.h"

struct vg_gpu_life
gpu_life_tell(const struct vg_gpu_ledger *ledger, const struct gpu_request *request, int64_t end_ns)
{
    const struct gpu_engine *engine = gpu_engine_at(ledger, request->engine);
    struct vg_gpu_life life = {
        .device = engine->device,
        .engine = engine->name,
        .process = VG_PROCESS_NO_ID,
        .vgpu = request->vgpu,
        .seqno = request->seqno,
        .queued_ns = request->queued_ns,
        .submitted_ns = request->submitted_ns,
        .ready_ns = request->ready_ns,
        .run_ns = request->run_ns,
        .end_ns = end_ns,
        .exec_ns = request->exec_ns,
        .coalesced = request->state == GPU_STATE_MERGED,
    };

    if (request->context != GPU_NO_INDEX)
        life.context = gpu_context_at(&ledger->requests, request->context)->number;
    if (request->user != GPU_NO_INDEX)
        life.process = gpu_owner_at(ledger, gpu_user_at(ledger, request->user)->owner)->process;
    return life;
}

void
gpu_life_tell_observer(const struct vg_gpu_ledger *ledger, const struct gpu_request *request,
                       enum vg_gpu_stage stage, int64_t t_ns, bool in_hindsight)
{
    const struct vg_gpu_life life = gpu_life_tell(ledger, request, VG_TIME_UNKNOWN);
    struct vg_gpu_change change = {
        .request = (uint32_t)(request - ledger->requests.requests),
        .stage = stage,
        .t_ns = MAX(t_ns, ledger->begin_ns[GPU_BOOK_PERIOD]),
        .in_hindsight = in_hindsight,
        .device = life.device,
        .engine = life.engine,
        .process = life.process,
        .vgpu = life.vgpu,
        .context = life.context,
        .seqno = life.seqno,
    };
    if (request->user != GPU_NO_INDEX)
        memcpy(change.comm, gpu_owner_at(ledger, gpu_user_at(ledger, request->user)->owner)->comm,
               sizeof(change.comm));
    ledger->watch_stages(ledger->watch_stages_data, &change);
}

void
gpu_life_tell_now(const struct vg_gpu_ledger *ledger, uint32_t index)
{
    const struct gpu_request *request = gpu_request_at(&ledger->requests, index);

    gpu_life_tell_stage(ledger, request, gpu_life_stage(request), ledger->now);
}

void
gpu_life_tell_open(const struct vg_gpu_ledger *ledger)
{
    const struct gpu_requests *all = &ledger->requests;

    for (uint32_t index = all->age.first; index != GPU_NO_INDEX;
         index = gpu_request_at(all, index)->lists[GPU_LIST_AGE].next) {
        const struct gpu_request *request = gpu_request_at(all, index);
        gpu_life_tell_stage(ledger, request, VG_GPU_STAGE_NONE,
                            gpu_is_waiting(request) ? gpu_life_known_ns(request)
                                                    : request->state_ns);
    }
}

void
gpu_life_tell_place(const struct vg_gpu_ledger *ledger, const struct gpu_request *request,
                    bool in_hindsight)
{
    if (ledger->watch_stages)
        gpu_life_tell_observer(ledger, request, gpu_life_stage(request), request->state_ns,
                               in_hindsight);
}

void
gpu_life_tell_anew(const struct vg_gpu_ledger *ledger, const struct gpu_request *request)
{
    const int64_t began_ns[] = {request->queued_ns, request->submitted_ns, request->ready_ns};

    for (int i = 0; i < GPU_WAIT_MAX && ledger->watch_stages; i++) {
        if (began_ns[i] != VG_TIME_UNKNOWN)
            gpu_life_tell_observer(ledger, request, VG_GPU_STAGE_QUEUED + i, began_ns[i], false);
    }
}
