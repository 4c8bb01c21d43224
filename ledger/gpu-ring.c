/* SPDX-License-Identifier: Apache-2.0
 *
 * Rings that some records name, while others only have the address of the name, such as events of
 * the DRM scheduler before about Linux 5.12. Often the adapter already knows the name. Otherwise,
 * for example if all jobs of a ring are the kernel's, or another CPU's records are read first, the
 * ring looks like two engines. This ends in one of two cases. The ring runs a job that was queued
 * under the name, with the same number and fence. Or a record with the name reports a job that
 * exactly one ring without a name has. Jobs are counted per ring. If several rings have a job with
 * that number, it is the one that the same thread reported before: the driver reports directly
 * after the scheduler (since 5.7).
 */
#include "config.h"

#include <string.h>

#include "ledger/gpu-ledger-private.h"

/* The length of the kernel's addresses, as the adapter writes them. */
#define ADDRESS_DIGITS 16

bool
gpu_ring_is_nameless(const char *name)
{
    return strlen(name) == ADDRESS_DIGITS && strspn(name, "0123456789abcdef") == ADDRESS_DIGITS;
}

/* Finds the engine without a name that has this job, or GPU_NO_INDEX if there is not exactly
 * one. */
static uint32_t
gpu_ring_find(const struct vg_gpu_ledger *ledger, const struct vg_event *event)
{
    uint32_t found = GPU_NO_INDEX;

    for (guint i = 0; i < ledger->engines->len; i++) {
        const struct gpu_engine *engine = gpu_engine_at(ledger, i);
        uint32_t job = engine->is_nameless && engine->same_as == GPU_NO_INDEX
                           ? gpu_requests_by_job(&ledger->requests, i, event->gpu.id)
                           : GPU_NO_INDEX;
        if (job == GPU_NO_INDEX)
            continue;
        const struct gpu_request *request = gpu_request_at(&ledger->requests, job);
        if (event->gpu.fence != 0 && request->fence != 0 && request->fence != event->gpu.fence)
            continue;
        if (found != GPU_NO_INDEX)
            return GPU_NO_INDEX;
        found = i;
    }
    return found;
}

static uint32_t
gpu_ring_find_by_thread(const struct vg_gpu_ledger *ledger, const struct vg_event *event)
{
    const struct gpu_ring_run *run = &ledger->ring_runs[(uint32_t)event->tid % GPU_RING_RUNS];

    return event->tid > 0 && run->tid == event->tid && run->id == event->gpu.id &&
                   gpu_engine_at(ledger, run->engine)->same_as == GPU_NO_INDEX
               ? run->engine
               : GPU_NO_INDEX;
}

/* Merges the ring's own record of a request into the other one, which gets its keys. */
static void
gpu_ring_unite(struct vg_gpu_ledger *ledger, uint32_t index, uint32_t other)
{
    struct gpu_requests *all = &ledger->requests;
    const uint64_t fence = gpu_request_at(all, index)->fence;

    gpu_life_merge(ledger, index, VG_TIME_UNKNOWN);
    if (fence != 0 && gpu_request_at(all, other)->fence == 0)
        gpu_request_set_fence(all, other, fence);
}

static void
gpu_ring_move(struct vg_gpu_ledger *ledger, uint32_t from, uint32_t to, const struct gpu_list *list)
{
    struct gpu_requests *all = &ledger->requests;
    uint32_t next;

    for (uint32_t index = list->first; index != GPU_NO_INDEX; index = next) {
        const struct gpu_request *request = gpu_request_at(all, index);
        next = request->lists[GPU_LIST_AGE].next;
        if (request->engine != from)
            continue;
        uint32_t other = request->id_space == VG_GPU_ID_JOB
                             ? gpu_requests_by_job(all, to, request->id)
                             : GPU_NO_INDEX;
        if (other == GPU_NO_INDEX)
            gpu_life_set_engine(ledger, index, to);
        else
            gpu_ring_unite(ledger, index, other);
    }
}

/* Finds the engine with a name on which the job of this record was queued. The record has only the
 * address of a name, but the scheduler's fence and the job's number are the same in both. Returns
 * GPU_NO_INDEX if there is none. */
static uint32_t
gpu_ring_find_by_fence(const struct vg_gpu_ledger *ledger, const struct vg_event *event)
{
    uint32_t index = event->gpu.fence != 0
                         ? gpu_requests_by_fence(&ledger->requests, event->gpu.fence)
                         : GPU_NO_INDEX;

    if (index == GPU_NO_INDEX)
        return GPU_NO_INDEX;
    const struct gpu_request *request = gpu_request_at(&ledger->requests, index);
    return request->id_space == VG_GPU_ID_JOB && request->id == event->gpu.id &&
                   request->engine != GPU_NO_INDEX && request->state < GPU_STATE_RUNNING &&
                   !gpu_engine_at(ledger, request->engine)->is_nameless
               ? request->engine
               : GPU_NO_INDEX;
}

static uint32_t
gpu_ring_name(struct vg_gpu_ledger *ledger, uint32_t nameless, uint32_t engine)
{
    gpu_engine_at(ledger, nameless)->same_as = engine;
    gpu_engine_at(ledger, engine)->told_ops |= gpu_engine_at(ledger, nameless)->told_ops;
    ledger->n_nameless--;
    gpu_ring_move(ledger, nameless, engine, &ledger->requests.age);
    gpu_ring_move(ledger, nameless, engine, &ledger->requests.doubt);
    gpu_hardware_sort(ledger, engine);
    return engine;
}

uint32_t
gpu_ring_learn(struct vg_gpu_ledger *ledger, const struct vg_event *event, uint32_t engine)
{
    if (event->gpu.id_space != VG_GPU_ID_JOB || engine == GPU_NO_INDEX)
        return engine;
    if (gpu_engine_at(ledger, engine)->is_nameless) {
        uint32_t named = gpu_ring_find_by_fence(ledger, event);
        if (named != GPU_NO_INDEX)
            return gpu_ring_name(ledger, engine, named);
        if (event->tid > 0)
            ledger->ring_runs[(uint32_t)event->tid % GPU_RING_RUNS] =
                (struct gpu_ring_run){event->tid, engine, event->gpu.id};
        return engine;
    }
    if (gpu_requests_by_job(&ledger->requests, engine, event->gpu.id) != GPU_NO_INDEX)
        return engine;
    uint32_t nameless = gpu_ring_find_by_thread(ledger, event);
    if (nameless == GPU_NO_INDEX)
        nameless = gpu_ring_find(ledger, event);
    return nameless == GPU_NO_INDEX ? engine : gpu_ring_name(ledger, nameless, engine);
}
