/* SPDX-License-Identifier: Apache-2.0
 *
 * What records reveal about a request apart from its life: its owner, its context, its engine, and
 * the keys by which it can be found.
 */
#include "config.h"

#include <string.h>

#include "ledger/gpu-ledger-private.h"

/* The comm of threads that submit for GVT-g ("gvt workload 0", "gvt:rcs0"). */
#define GVT_COMM "gvt"

/* ---- contexts ---- */

static void
gpu_learn_make_room(struct vg_gpu_ledger *ledger)
{
    struct gpu_requests *all = &ledger->requests;

    if (!gpu_contexts_are_full(all))
        return;
    uint32_t oldest = all->oldest_context;
    const struct gpu_context *context = gpu_context_at(all, oldest);
    while (context->open.first != GPU_NO_INDEX)
        gpu_life_drop(ledger, context->open.first);
    gpu_context_free(all, oldest);
    ledger->stats.dropped++;
}

uint32_t
gpu_learn_context(struct vg_gpu_ledger *ledger, const struct vg_event *event, uint32_t engine)
{
    uint32_t index = gpu_find_context(ledger, event, engine);

    if (index != GPU_NO_INDEX)
        return index;
    gpu_learn_make_room(ledger);
    return gpu_context_new(&ledger->requests, event->gpu.context, gpu_find_device(event),
                           gpu_find_context_engine(event, engine));
}

/* ---- who it is for ---- */

static bool
gpu_learn_is_by_gvt(const struct vg_gpu_ledger *ledger, const struct vg_event *event)
{
    const struct vg_thread *thread =
        event->tid > 0 ? vg_topology_find(ledger->topology, event->tid) : NULL;

    return thread && strncmp(thread->comm, GVT_COMM, strlen(GVT_COMM)) == 0;
}

/* Assigns a context to the first known user. */
static void
gpu_learn_from_context(struct vg_gpu_ledger *ledger, struct gpu_context *context,
                       const struct vg_event *event, uint32_t owner)
{
    if (event->gpu.vgpu != VG_NONE && owner != GPU_NO_INDEX) {
        context->vgpu = event->gpu.vgpu;
        context->owner = owner;
    } else if (context->owner == GPU_NO_INDEX) {
        context->owner = owner;
    }
    context->is_queued |= event->gpu.op == VG_GPU_QUEUED;
    context->coalesces |= (event->gpu.flags & VG_GPU_COALESCES) != 0;
    if (event->gpu.op == VG_GPU_SUBMITTED && event->gpu.vgpu == VG_NONE && !context->of_gvt)
        context->of_gvt = gpu_learn_is_by_gvt(ledger, event);
}

void
gpu_learn_vgpu(struct vg_gpu_ledger *ledger, uint32_t index)
{
    const struct gpu_request *request = gpu_request_at(&ledger->requests, index);
    if (request->context == GPU_NO_INDEX)
        return;
    struct gpu_context *context = gpu_context_at(&ledger->requests, request->context);
    /* Mainline GVT-g does not report the device of its switches. */
    const struct gpu_device *device = &ledger->devices[request->device];
    uint32_t current =
        device->has_switches ? device->current : ledger->devices[VG_NAME_NONE].current;

    if (!context->of_gvt || context->vgpu != VG_NONE || current == GPU_NO_INDEX)
        return;
    const struct gpu_vgpu *vgpu = gpu_vgpu_at(ledger, current);
    context->vgpu = vgpu->number;
    context->owner = vgpu->owner;
    gpu_life_set_user(ledger, index, gpu_ledger_user(ledger, vgpu->owner, request->engine));
}

uint32_t
gpu_learn_owner(struct vg_gpu_ledger *ledger, const struct vg_event *event)
{
    if (event->gpu.vgpu != VG_NONE) {
        const struct gpu_vgpu *vgpu = gpu_ledger_vgpu(ledger, event);
        return vgpu ? vgpu->owner : GPU_NO_INDEX;
    }
    /* Later records of a request come from kernel threads or unrelated threads. */
    return event->gpu.op > VG_GPU_SUBMITTED || gpu_learn_is_by_gvt(ledger, event)
               ? GPU_NO_INDEX
               : gpu_ledger_recorder(ledger, event);
}

/* ---- ids ---- */

void
gpu_learn_take_context(struct vg_gpu_ledger *ledger, uint32_t index, const struct vg_event *event,
                       uint32_t owner)
{
    struct gpu_requests *all = &ledger->requests;
    const struct gpu_request *request = gpu_request_at(all, index);

    if (event->gpu.context != 0 && request->context == GPU_NO_INDEX) {
        uint32_t made = gpu_learn_context(ledger, event, request->engine);
        gpu_request_set_seqno(all, index, made, event->gpu.seqno);
    }
    if (request->context == GPU_NO_INDEX)
        return;
    struct gpu_context *context = gpu_context_at(all, request->context);
    gpu_learn_from_context(ledger, context, event, owner);
    if (context->engine == GPU_NO_INDEX)
        context->engine = gpu_find_context_engine(event, request->engine);
    if (request->user == GPU_NO_INDEX && context->owner != GPU_NO_INDEX)
        gpu_life_set_user(ledger, index, gpu_ledger_user(ledger, context->owner, request->engine));
    if (request->vgpu == VG_NONE && request->id_space == VG_GPU_ID_NONE && context->vgpu != VG_NONE)
        gpu_life_set_vgpu(ledger, index, context->vgpu);
}

void
gpu_learn_take_ids(struct vg_gpu_ledger *ledger, uint32_t index, const struct vg_event *event)
{
    struct gpu_requests *all = &ledger->requests;
    const struct gpu_request *request = gpu_request_at(all, index);

    if (event->gpu.id_space == VG_GPU_ID_GLOBAL) {
        /* 0: not assigned yet. */
        if (event->gpu.id != 0 && request->global != event->gpu.id) {
            gpu_request_drop_key(all, index, GPU_KEY_GLOBAL);
            gpu_request_set_global(all, index, event->gpu.id);
        }
    } else if (event->gpu.id_space != VG_GPU_ID_NONE && request->id_space == VG_GPU_ID_NONE) {
        if (event->gpu.vgpu != VG_NONE)
            gpu_life_set_vgpu(ledger, index, event->gpu.vgpu);
        gpu_request_set_id(all, index, event->gpu.id_space, event->gpu.id);
    }
    if (event->gpu.fence != 0 && request->fence != event->gpu.fence) {
        gpu_request_drop_key(all, index, GPU_KEY_FENCE);
        gpu_request_set_fence(all, index, event->gpu.fence);
    }
}

uint8_t
gpu_learn_queued_by(const struct vg_event *event)
{
    if (event->gpu.op != VG_GPU_QUEUED || event->gpu.id_space != VG_GPU_ID_JOB)
        return 0;
    return event->gpu.flags & VG_GPU_DEVICE_WEAK ? GPU_QUEUED_BY_DRIVER : GPU_QUEUED_BY_SCHEDULER;
}

void
gpu_learn(struct vg_gpu_ledger *ledger, uint32_t index, const struct vg_event *event)
{
    struct gpu_request *request = gpu_request_at(&ledger->requests, index);
    uint32_t owner = GPU_NO_INDEX;

    request->queued_by |= gpu_learn_queued_by(event);
    if (request->user == GPU_NO_INDEX || event->gpu.op <= VG_GPU_SUBMITTED)
        owner = gpu_learn_owner(ledger, event);
    if (request->user == GPU_NO_INDEX && owner != GPU_NO_INDEX)
        gpu_life_set_user(ledger, index, gpu_ledger_user(ledger, owner, request->engine));
    gpu_learn_take_context(ledger, index, event, owner);
    gpu_learn_take_ids(ledger, index, event);
}

void
gpu_learn_engine(struct vg_gpu_ledger *ledger, uint32_t index, const struct vg_event *event,
                 uint32_t engine)
{
    struct gpu_request *request = gpu_request_at(&ledger->requests, index);

    if (!request->engine_weak || engine == GPU_NO_INDEX || gpu_find_device(event) == VG_NAME_NONE ||
        event->gpu.flags & VG_GPU_ENGINE_WEAK)
        return;
    request->engine_weak = false;
    if (request->engine != engine)
        gpu_life_set_engine(ledger, index, engine);
}
